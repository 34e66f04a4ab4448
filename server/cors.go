package server

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
)

// cors decides which web pages may call. Programs that are not browsers are not
// its concern.
type cors struct {
	origins []string
	any     bool
	protect *http.CrossOriginProtection
}

// newCORS takes origins that have been checked.
func newCORS(origins []string) *cors {
	c := &cors{origins: origins, any: slices.Contains(origins, "*"), protect: http.NewCrossOriginProtection()}
	for _, origin := range origins {
		if origin != "*" {
			_ = c.protect.AddTrustedOrigin(origin) // fails only for what is not an origin
		}
	}
	return c
}

// rebound reports whether a page may act under a name that its owner has pointed
// at this machine, so that browsers take us for its own server. Addresses cannot be
// pointed elsewhere, nor can localhost; and where there are tokens a page had to
// have one.
func (c *cors) rebound(x *exchange) bool {
	origin := x.r.Header.Get("Origin")
	if origin == "" || x.r.Method != http.MethodPost || len(x.s.tokens) > 0 || slices.Contains(c.origins, origin) {
		return false
	}
	host := hostname(x.r.Host)
	if net.ParseIP(host) != nil || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return false
	}
	own, err := url.Parse(x.s.cfg.Card.URL)
	return err != nil || hostname(own.Host) != host
}

// hostname is the name or address of a host that may have a port, in lower case.
func hostname(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// admit reports whether the request is to be answered, and answers it when it is
// not. A page of an origin that is not listed cannot make a browser on this
// machine act on an agent that listens on it.
func (c *cors) admit(x *exchange) bool {
	if !c.any {
		if err := c.protect.Check(x.r); err != nil {
			x.refuse(http.StatusForbidden, a2a.Errorf(a2a.CodeDenied, "requests from web pages of other origins are not allowed here"))
			return false
		}
	}
	if !c.any && c.rebound(x) {
		x.refuse(http.StatusForbidden, a2a.Errorf(a2a.CodeDenied, "a web page asks under the name %s, which is not known here", a2a.Quote(x.r.Host)))
		return false
	}
	if len(c.origins) == 0 {
		return true
	}
	h := x.w.Header()
	h.Add("Vary", "Origin")
	origin := x.r.Header.Get("Origin")
	if origin == "" || !c.any && !slices.Contains(c.origins, origin) {
		return true
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, WWW-Authenticate, Retry-After, X-A2A-Extensions")
	if x.r.Method != http.MethodOptions || x.r.Header.Get("Access-Control-Request-Method") == "" {
		return true
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-A2A-Extensions, X-Request-Id")
	h.Set("Access-Control-Max-Age", "600")
	x.WriteHeader(http.StatusNoContent)
	return false
}
