package safehttp

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxURL is the maximum length of a URL in bytes.
const maxURL = 2048

// endpoint is a URL with its host and port.
type endpoint struct {
	url  *url.URL
	host string     // name or literal address with the port, as in AllowHosts
	name string     // name to resolve, "" if the host is a literal address
	addr netip.Addr // the literal address
	port uint16
}

// examine parses a URL and applies the rules that need no network.
func (p *Policy) examine(raw string) (*endpoint, error) {
	u, err := parseURL(raw)
	if err != nil {
		return nil, err
	}
	if p.RequireHTTPS && u.Scheme != "https" {
		return nil, &Refusal{Rule: "scheme", Text: "scheme must be https"}
	}
	e := &endpoint{url: u, port: 80}
	if u.Scheme == "https" {
		e.port = 443
	}
	host, port, hasPort := splitHost(u.Host)
	if hasPort {
		if e.port, err = parsePort(port); err != nil {
			return nil, &Refusal{Rule: "port", Text: err.Error()}
		}
	}
	text := strconv.Itoa(int(e.port))
	if inner, ok := strings.CutPrefix(host, "["); ok {
		return e, p.examineLiteral6(e, strings.TrimSuffix(inner, "]"), text)
	}
	name := canonicalName(host)
	if u.Host = name; hasPort {
		u.Host += ":" + port
	}
	if endsInNumber(name) {
		return e, p.examineLiteral4(e, host, text)
	}
	if err := checkLabels(name); err != nil {
		return nil, &Refusal{Rule: "host", Text: err.Error()}
	}
	e.name, e.host = name, name+":"+text
	return e, p.examineName(e)
}

// parseURL parses a URL and checks its syntax, except the syntax of the host.
func parseURL(raw string) (*url.URL, error) {
	tooLong := &Refusal{Rule: "length", Text: "must not be longer than 2048 bytes"}
	if len(raw) > maxURL {
		return nil, tooLong
	}
	for i := range len(raw) {
		if c := raw[i]; c < 0x21 || c > 0x7e || c == '\\' {
			return nil, &Refusal{Rule: "characters", Text: `must consist of printable ASCII without blanks and "\" (an international name is written as xn--)`}
		}
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, &Refusal{Rule: "syntax", Text: "is not a URL", Detail: errors.Unwrap(err).Error()}
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, &Refusal{Rule: "scheme", Text: "scheme must be https or http"}
	case u.Opaque != "" || u.Host == "":
		return nil, &Refusal{Rule: "host", Text: "must have a host after //"}
	case u.User != nil || strings.Contains(u.Host, "@"):
		return nil, &Refusal{Rule: "userinfo", Text: "must not contain a user or password"}
	case strings.Contains(raw, "#"):
		return nil, &Refusal{Rule: "fragment", Text: "must not contain a fragment (#)"}
	case len(u.String()) > maxURL: // with characters as %XX
		return nil, tooLong
	}
	return u, nil
}

// splitHost splits the host of a URL that url.Parse has accepted.
func splitHost(host string) (name, port string, hasPort bool) {
	colon := strings.LastIndexByte(host, ':')
	if colon < 0 || colon < strings.LastIndexByte(host, ']') {
		return host, "", false
	}
	return host[:colon], host[colon+1:], true
}

func (p *Policy) examineLiteral6(e *endpoint, text, port string) error {
	addr, err := netip.ParseAddr(text)
	if err != nil || !addr.Is6() || addr.Zone() != "" {
		return &Refusal{Rule: "host", Text: "host in brackets must be an IPv6 address without a zone"}
	}
	e.addr, e.host = addr.Unmap(), net.JoinHostPort(addr.Unmap().String(), port)
	return p.CheckAddr(e.host, netip.AddrPortFrom(e.addr, e.port))
}

func (p *Policy) examineLiteral4(e *endpoint, text, port string) error {
	addr, err := netip.ParseAddr(text)
	if err != nil || !addr.Is4() {
		return &Refusal{Rule: "host", Text: "host that ends in a number must be an IPv4 address of four decimal numbers"}
	}
	e.addr, e.host = addr, addr.String()+":"+port
	return p.CheckAddr(e.host, netip.AddrPortFrom(e.addr, e.port))
}

// examineName applies the rules for names. It applies the rule for ports only if AllowNets is
// empty, because these networks allow all ports, and the address is not known yet.
func (p *Policy) examineName(e *endpoint) error {
	if p.allowsHost(e.host) {
		return nil
	}
	if !nameAllowed(e.name) {
		return &Refusal{Rule: "host", Text: "host " + strconv.Quote(e.name) + " is not allowed"}
	}
	if len(p.AllowNets) == 0 && !portAllowed(e.port) {
		return refusePort(strconv.Itoa(int(e.port)))
	}
	return nil
}

func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || text[0] == '0' {
		return 0, errors.New("port must be a number from 1 to 65535")
	}
	return uint16(n), nil
}

// canonicalName returns a name in lower case without its final dot.
func canonicalName(name string) string {
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

// endsInNumber reports whether a URL parser may take a name for an IPv4 address
// (WHATWG URL, "ends in a number").
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last == "" {
		return false
	}
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

func checkLabels(name string) error {
	if len(name) > 253 {
		return errors.New("host must not be longer than 253 characters")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' || strings.ContainsFunc(label, notInLabel) {
			return errors.New("host must consist of labels of 1 to 63 letters, digits, hyphens and underscores")
		}
	}
	if endsInNumber(name) {
		return errors.New("host must not end in a number")
	}
	return nil
}

func notInLabel(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// suffixesRefused are domains that do not exist in public DNS. namesRefused are names of cloud
// metadata services.
var (
	suffixesRefused = []string{"localhost", "localdomain", "local", "internal", "intranet", "corp", "lan", "home", "private", "svc", "cluster", "home.arpa", "onion", "invalid"}
	namesRefused    = []string{"metadata.goog", "metadata.tencentyun.com"}
)

// nameAllowed reports whether a name may be resolved.
func nameAllowed(name string) bool {
	if !strings.Contains(name, ".") || slices.Contains(namesRefused, name) {
		return false
	}
	return !slices.ContainsFunc(suffixesRefused, func(s string) bool { return strings.HasSuffix("."+name, "."+s) })
}
