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
	hosts   []string // names of this server and of pages that may call
	protect *http.CrossOriginProtection
}

// newCORS takes origins that have been checked, and the server's public URL, which may be "".
func newCORS(origins []string, public string) *cors {
	c := &cors{origins: origins, any: slices.Contains(origins, "*"), protect: http.NewCrossOriginProtection()}
	for _, origin := range origins {
		_ = c.protect.AddTrustedOrigin(origin) // fails only for what is not an origin: "*"
		c.hosts = append(c.hosts, hostOf(origin)...)
	}
	c.hosts = append(c.hosts, hostOf(public)...)
	return c
}

// hostOf returns the host name of a URL, if it has one.
func hostOf(rawURL string) []string {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" {
		return nil
	}
	return []string{hostname(u.Host)}
}

// rebound reports whether a web page may have sent the request under a name that its owner
// has pointed at this machine (DNS rebinding), so that browsers take this server for the page's
// own. Nobody can point addresses, localhost and names without a dot elsewhere. Where there are
// tokens the page would need one. Browsers send Origin with each POST, but not with a GET, so
// a GET is checked whoever sends it; the probes disclose nothing and are exempt, since load
// balancers choose the name.
func (c *cors) rebound(x *exchange) bool {
	origin := x.r.Header.Get("Origin")
	if len(x.s.cfg.Tokens) > 0 || slices.Contains(c.origins, origin) {
		return false
	}
	switch x.r.Method {
	case http.MethodPost:
		if origin == "" {
			return false
		}
	case http.MethodGet, http.MethodHead:
		if x.s.routes[x.r.URL.Path].probe {
			return false
		}
	default:
		return false
	}
	host := hostname(x.r.Host)
	local := net.ParseIP(host) != nil || !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost")
	return !local && !slices.Contains(c.hosts, host)
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
		x.refuse(http.StatusForbidden, a2a.Errorf(a2a.CodeDenied, "host %s is not a name of this server: use its address or localhost, or start it with --url", a2a.Quote(x.r.Host)))
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
