package safehttp

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Policy decides where requests may go. The zero Policy lets them go to the public
// internet only. It must not be changed once it is used.
type Policy struct {
	// AllowNets are networks that are allowed although they are not public. Cloud metadata
	// addresses are only allowed by a prefix of a single address. They lift the rule for
	// ports too, but not those for names.
	AllowNets []netip.Prefix
	// AllowHosts are names or literals, each with a port ("localhost:8888"), that are
	// allowed whatever they resolve to, with the same exception. They are written as
	// ParsePolicy returns them: in lower case, without a final dot.
	AllowHosts []string
	// RequireHTTPS refuses http.
	RequireHTTPS bool
	// NAT64 are the site's own prefixes of addresses that embed one of IPv4 (RFC 6052).
	// Such an address is judged by what it embeds. On a host without addresses of IPv4,
	// 64:ff9b::/96 is among them: DNS64 has it call all that is of IPv4 there.
	NAT64 []netip.Prefix
	// Local returns the addresses of this host, which are refused. nil: those of
	// its network interfaces.
	Local func() ([]netip.Addr, error)
}

// PolicyParams is a Policy as an operator writes it.
type PolicyParams struct {
	// AllowNets are prefixes ("10.1.0.0/16") or single addresses.
	AllowNets []string
	// AllowHosts are "name:port", "address:port" or "[address]:port".
	AllowHosts []string
	// NAT64 are prefixes of IPv6 of 32, 40, 48, 56, 64 or 96 bits.
	NAT64        []string
	RequireHTTPS bool
}

// Refusal is the error for a URL or an address that the policy does not allow.
type Refusal struct {
	// Rule names the rule in a word: "length", "characters", "syntax", "scheme",
	// "userinfo", "fragment", "host", "port", "address" or "header".
	Rule string
	// Text is the reason for the client that supplied the URL. It never reveals what a name
	// resolves to.
	Text string
	// Detail is for operators. It may be empty.
	Detail string
}

// Error returns the text.
func (r *Refusal) Error() string { return r.Text }

// ParsePolicy reads a policy. Its error names every entry that is wrong.
func ParsePolicy(params PolicyParams) (Policy, error) {
	p := Policy{RequireHTTPS: params.RequireHTTPS}
	var errs []error
	for _, entry := range params.AllowNets {
		prefix, err := parseNet(entry)
		if err != nil {
			errs = append(errs, fmt.Errorf("allowed network %q: %w", entry, err))
			continue
		}
		p.AllowNets = append(p.AllowNets, prefix)
	}
	for _, entry := range params.AllowHosts {
		host, err := parseHostPort(entry)
		if err != nil {
			errs = append(errs, fmt.Errorf("allowed host %q: %w", entry, err))
			continue
		}
		p.AllowHosts = append(p.AllowHosts, host)
	}
	for _, entry := range params.NAT64 {
		prefix, err := parseNet(entry)
		if err == nil {
			err = checkNAT64(prefix)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("NAT64 prefix %q: %w", entry, err))
			continue
		}
		p.NAT64 = append(p.NAT64, prefix)
	}
	if len(errs) > 0 {
		return Policy{}, errors.Join(errs...)
	}
	return p, nil
}

// CheckURL returns the URL that raw is, with its host in lower case and without a final
// dot, if the policy allows it as far as is known without the network: its grammar, its
// name or literal address, its port. The error is a *Refusal, unless the addresses
// of this host could not be had.
func (p *Policy) CheckURL(raw string) (*url.URL, error) {
	e, err := p.examine(raw)
	if err != nil {
		return nil, err
	}
	return e.url, nil
}

// CheckAddr reports whether requests may go to an address and port. host is what was
// looked up, as in AllowHosts, or empty. The error is a *Refusal, unless the addresses of
// this host could not be had.
func (p *Policy) CheckAddr(host string, to netip.AddrPort) error {
	addr := to.Addr()
	if !addr.IsValid() || addr.Zone() != "" {
		return refuseAddr(host, addr, "it is invalid or has a zone")
	}
	if to.Port() == 0 {
		return refusePort("0")
	}
	addr = addr.Unmap()
	judged, err := p.unwrap(addr)
	if err != nil {
		return refuseAddr(host, addr, err.Error())
	}
	if meta, ok := metadata(addr, judged); ok && !p.allowsAlone(meta) && !p.allowsAlone(addr) {
		return refuseAddr(host, addr, "it is "+meta.String()+", a cloud's metadata")
	}
	if p.allows(host, addr, judged) {
		return nil
	}
	if !portAllowed(to.Port()) {
		return refusePort(strconv.Itoa(int(to.Port())))
	}
	if why := special(judged); why != "" {
		return refuseAddr(host, addr, why)
	}
	local, err := p.local()
	if err != nil {
		return fmt.Errorf("addresses of this host: %w", err)
	}
	if slices.Contains(local, addr) || slices.Contains(local, judged) {
		return refuseAddr(host, addr, "it belongs to this host")
	}
	return nil
}

// allows reports whether an operator's entry allows an address, judged by what it embeds.
func (p *Policy) allows(host string, addr, judged netip.Addr) bool {
	return p.allowsHost(host) || p.allowsNet(addr) || p.allowsNet(judged)
}

// counted returns the address by which one that may be called is counted: what it embeds,
// if it does. counts is false where an operator's entry allows it.
func (p *Policy) counted(host string, addr netip.Addr) (by netip.Addr, counts bool) {
	addr = addr.Unmap()
	judged, err := p.unwrap(addr)
	if err != nil {
		return addr, true
	}
	return judged, !p.allows(host, addr, judged)
}

func (p *Policy) allowsHost(host string) bool {
	return host != "" && slices.Contains(p.AllowHosts, host)
}

func (p *Policy) allowsNet(addr netip.Addr) bool {
	return slices.ContainsFunc(p.AllowNets, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// allowsAlone reports whether an entry allows this one address and no other.
func (p *Policy) allowsAlone(addr netip.Addr) bool {
	return slices.Contains(p.AllowNets, netip.PrefixFrom(addr, addr.BitLen()))
}

func (p *Policy) local() ([]netip.Addr, error) {
	if p.Local != nil {
		return p.Local()
	}
	return interfaceAddrs()
}

// unwrap returns the IPv4 address that an address of a NAT64 prefix embeds, or the address
// itself.
func (p *Policy) unwrap(addr netip.Addr) (netip.Addr, error) {
	for _, prefix := range p.NAT64 {
		if prefix.Contains(addr) {
			return embedded(prefix, addr)
		}
	}
	if wellKnown.Contains(addr) {
		if local, err := p.local(); err == nil && onlyIPv6(local) {
			return embedded(wellKnown, addr)
		}
	}
	return addr, nil
}

// validate reports what ParsePolicy would not have let through.
func (p *Policy) validate() error {
	var errs []error
	for _, host := range p.AllowHosts {
		if canonical, err := parseHostPort(host); err != nil {
			errs = append(errs, fmt.Errorf("AllowHosts %q: %w", host, err))
		} else if canonical != host {
			errs = append(errs, fmt.Errorf("AllowHosts %q: want it written as %q", host, canonical))
		}
	}
	for _, n := range p.AllowNets {
		if err := checkNet(n); err != nil {
			errs = append(errs, fmt.Errorf("AllowNets %s: %w", n, err))
		}
	}
	for _, n := range p.NAT64 {
		if err := errors.Join(checkNet(n), checkNAT64(n)); err != nil {
			errs = append(errs, fmt.Errorf("NAT64 %s: %w", n, err))
		}
	}
	return errors.Join(errs...)
}

func parseNet(entry string) (netip.Prefix, error) {
	entry = strings.TrimSpace(entry)
	if !strings.Contains(entry, "/") {
		addr, err := netip.ParseAddr(entry)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, errors.New("want an address without a zone, or a prefix such as 10.1.0.0/16")
		}
		n := netip.PrefixFrom(addr, addr.BitLen())
		return n, checkNet(n)
	}
	n, err := netip.ParsePrefix(entry)
	if err != nil {
		return netip.Prefix{}, errors.New("want an address without a zone, or a prefix such as 10.1.0.0/16")
	}
	return n, checkNet(n)
}

func checkNet(n netip.Prefix) error {
	switch {
	case !n.IsValid():
		return errors.New("want a valid prefix without a zone")
	case n.Addr().Is4In6():
		return errors.New("want IPv4 written as IPv4")
	case n != n.Masked():
		return fmt.Errorf("it has bits beyond its length: want %s", n.Masked())
	}
	return nil
}

// parseHostPort returns an allowed host as URLs are compared with it.
func parseHostPort(entry string) (string, error) {
	host, port, err := net.SplitHostPort(strings.TrimSpace(entry))
	if err != nil || host == "" {
		return "", errors.New("want a host and a port, such as localhost:8888")
	}
	if _, err := parsePort(port); err != nil {
		return "", err
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return "", errors.New("want no zone")
		}
		return net.JoinHostPort(addr.Unmap().String(), port), nil
	}
	host = canonicalName(host)
	if err := checkLabels(host); err != nil {
		return "", err
	}
	return net.JoinHostPort(host, port), nil
}

func refuseAddr(host string, addr netip.Addr, why string) error {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = addr.String()
	}
	return &Refusal{Rule: "address", Text: "host " + strconv.Quote(name) + " is not allowed", Detail: "address " + addr.String() + ": " + why}
}

func refusePort(port string) error {
	return &Refusal{Rule: "port", Text: "port " + port + " is not allowed"}
}
