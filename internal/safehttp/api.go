package safehttp

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// Policy decides where requests may go. The zero Policy lets them go to the public
// internet only. It must not be changed once it is used.
type Policy struct {
	// AllowNets are networks that are allowed although they are not public. Cloud metadata
	// addresses are only allowed by a prefix of a single address. They lift the rule for
	// ports too.
	AllowNets []netip.Prefix
	// AllowHosts are names or literals, each with a port ("localhost:8888"), that are
	// allowed whatever they resolve to, with the same exception.
	AllowHosts []string
	// RequireHTTPS refuses http.
	RequireHTTPS bool
	// NAT64 are the site's own prefixes of addresses that embed one of IPv4 (RFC 6052).
	NAT64 []netip.Prefix
	// Local returns the addresses of this host, which are refused. nil: those of
	// its network interfaces.
	Local func() ([]netip.Addr, error)
}

// Refusal is the error for a URL or an address that the policy does not allow.
type Refusal struct {
	// Rule names the rule in a word: "scheme", "userinfo", "host", "port", "address", ...
	Rule string
	// Text says it for the one who supplied the URL. It never tells what a name
	// resolves to.
	Text string
	// Detail is for operators.
	Detail string
}

// Error returns the text.
func (r *Refusal) Error() string { return r.Text }

// Resolver looks names up. net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Dialer connects to an address and port. net.Dialer is one.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Request is a POST.
type Request struct {
	URL    *url.URL // that CheckURL has returned
	Header http.Header
	Body   []byte
}

// Response is what came back. Of its body nothing is kept.
type Response struct {
	Status int
	// RetryAfter is the time that the answer asks to wait; 0 when it does not.
	RetryAfter time.Duration
	// Address was called.
	Address netip.AddrPort
}

// Outcomes of requests that got no answer.
const (
	OutcomeRefused  = "refused"  // the policy does not allow it; nothing was sent
	OutcomeDNS      = "dns"      // the name does not resolve
	OutcomeConnect  = "connect"  // no connection
	OutcomeTLS      = "tls"      // no trusted connection
	OutcomeTimeout  = "timeout"  // not in time
	OutcomeProtocol = "protocol" // what came back is not HTTP, or too much
	OutcomeCanceled = "canceled" // the caller gave up
)

// Error is why a request got no answer.
type Error struct {
	Outcome string
	// Address was called, if one was.
	Address netip.AddrPort
	Err     error
}

// Error returns the outcome and its cause, for operators.
func (e *Error) Error() string { return e.Outcome + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }
