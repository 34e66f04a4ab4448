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

// Policy decides which URLs and addresses requests may go to. The zero Policy allows public
// addresses only. A Policy must not be changed after its first use.
type Policy struct {
	// AllowNets are networks that are allowed although they are not public. All their ports are
	// allowed, but the rules for host names still apply. A cloud metadata address is allowed
	// only by a network that consists of this address.
	AllowNets []netip.Prefix
	// AllowHosts are names or literal addresses, each with a port ("localhost:8888"), that are
	// allowed whatever they resolve to, except cloud metadata addresses. Names are in lower case
	// without a final dot, as ParsePolicy returns them.
	AllowHosts []string
	// RequireHTTPS rejects the scheme http.
	RequireHTTPS bool
	// NAT64 are prefixes of IPv6 addresses that embed IPv4 addresses (RFC 6052) in this network.
	// The embedded address is checked instead. On a host without IPv4 addresses this also
	// applies to 64:ff9b::/96, since DNS64 returns such addresses for every IPv4 host.
	NAT64 []netip.Prefix
	// Local returns the addresses of this host, which are rejected. nil means the addresses of
	// its network interfaces.
	Local func() ([]netip.Addr, error)
}

// PolicyParams is a Policy in the form of configuration settings.
type PolicyParams struct {
	// AllowNets are prefixes ("10.1.0.0/16") or single addresses.
	AllowNets []string
	// AllowHosts are "name:port", "address:port" or "[address]:port".
	AllowHosts []string
	// NAT64 are IPv6 prefixes of 32, 40, 48, 56, 64 or 96 bits.
	NAT64        []string
	RequireHTTPS bool
}

// Refusal is the error for a URL or an address that the policy does not allow.
type Refusal struct {
	// Rule is the name of the rule: "length", "characters", "syntax", "scheme", "userinfo",
	// "fragment", "host", "port", "address" or "header".
	Rule string
	// Text is the reason, for the client that supplied the URL. It does not contain the
	// addresses of a name.
	Text string
	// Detail is for operators. It may be empty.
	Detail string
}

// Error returns the text.
func (r *Refusal) Error() string { return r.Text }

// ParsePolicy returns the policy of params, or an error that lists all invalid entries.
func ParsePolicy(params PolicyParams) (Policy, error) {
	p := Policy{RequireHTTPS: params.RequireHTTPS}
	var errs []error
	for _, entry := range params.AllowNets {
		prefix, err := ParseNet(entry)
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
		prefix, err := ParseNet(entry)
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

// CheckURL parses raw and applies the rules that need no network: for syntax, name or literal
// address, and port. It returns the URL with its host in lower case and without a final dot.
// The error is a *Refusal, unless the addresses of this host could not be read.
func (p *Policy) CheckURL(raw string) (*url.URL, error) {
	e, err := p.examine(raw)
	if err != nil {
		return nil, err
	}
	return e.url, nil
}

// CheckAddr returns an error if requests must not go to an address and port. host is the name
// that resolved to it, with its port as in AllowHosts, or empty. The error is a *Refusal, unless
// the addresses of this host could not be read.
func (p *Policy) CheckAddr(host string, to netip.AddrPort) error {
	addr := to.Addr()
	if !addr.IsValid() || addr.Zone() != "" {
		return refuseAddr(host, addr, "it is invalid or has a zone")
	}
	if to.Port() == 0 {
		return refusePort("0")
	}
	addr = addr.Unmap()
	unwrapped, err := p.unwrap(addr)
	if err != nil {
		return refuseAddr(host, addr, err.Error())
	}
	if meta, ok := metadata(addr, unwrapped); ok && !p.allowsAlone(meta) && !p.allowsAlone(addr) {
		return refuseAddr(host, addr, "it is "+meta.String()+", a cloud's metadata")
	}
	if p.allows(host, addr, unwrapped) {
		return nil
	}
	if !portAllowed(to.Port()) {
		return refusePort(strconv.Itoa(int(to.Port())))
	}
	if why := special(unwrapped); why != "" {
		return refuseAddr(host, addr, why)
	}
	local, err := p.local()
	if err != nil {
		return fmt.Errorf("addresses of this host: %w", err)
	}
	if slices.Contains(local, addr) || slices.Contains(local, unwrapped) {
		return refuseAddr(host, addr, "it belongs to this host")
	}
	return nil
}

// allows reports whether AllowHosts or AllowNets allow an address. unwrapped is the result of
// unwrap for it.
func (p *Policy) allows(host string, addr, unwrapped netip.Addr) bool {
	return p.allowsHost(host) || p.allowsNet(addr) || p.allowsNet(unwrapped)
}

// counted returns the address for which a request to addr counts: the one that it embeds, if
// any. counts is false if AllowHosts or AllowNets allow the address.
func (p *Policy) counted(host string, addr netip.Addr) (by netip.Addr, counts bool) {
	addr = addr.Unmap()
	unwrapped, err := p.unwrap(addr)
	if err != nil {
		return addr, true
	}
	return unwrapped, !p.allows(host, addr, unwrapped)
}

func (p *Policy) allowsHost(host string) bool {
	return host != "" && slices.Contains(p.AllowHosts, host)
}

func (p *Policy) allowsNet(addr netip.Addr) bool {
	return slices.ContainsFunc(p.AllowNets, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// allowsAlone reports whether one of AllowNets consists of this address.
func (p *Policy) allowsAlone(addr netip.Addr) bool {
	return slices.Contains(p.AllowNets, netip.PrefixFrom(addr, addr.BitLen()))
}

func (p *Policy) local() ([]netip.Addr, error) {
	if p.Local != nil {
		return p.Local()
	}
	return interfaceAddrs()
}

// unwrap returns the IPv4 address that an address with a NAT64 prefix embeds, and other addresses
// unchanged.
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

// validate returns an error that lists all entries that ParsePolicy does not return.
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

// ParseNet parses a network ("10.1.0.0/16") or a single address.
func ParseNet(entry string) (netip.Prefix, error) {
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

// parseHostPort returns an entry of AllowHosts in its canonical form.
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
