package server

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/server/internal/exchange"
)

// cors decides which web pages may call the server. It does not restrict clients that are not
// browsers.
type cors struct {
	origins []string
	any     bool
	hosts   []string // host names of this server and of allowed origins
	protect *http.CrossOriginProtection
}

// newCORS accepts validated origins and the server's public URL, which may be "".
func newCORS(origins []string, public string) *cors {
	c := &cors{origins: origins, any: slices.Contains(origins, "*"), protect: http.NewCrossOriginProtection()}
	for _, origin := range origins {
		_ = c.protect.AddTrustedOrigin(origin) // fails only for "*"
		c.hosts = append(c.hosts, hostOf(origin)...)
	}
	c.hosts = append(c.hosts, hostOf(public)...)
	return c
}

// hostOf returns the host name of a URL as the only element, or nil if it has none.
func hostOf(rawURL string) []string {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" {
		return nil
	}
	return []string{hostname(u.Host)}
}

// dnsRebinding reports whether the request may be a DNS rebinding attack: a web page reaches this
// server under its own host name, which its owner has pointed at this machine, so browsers
// treat both as one origin. IP addresses, localhost and names without a dot cannot be
// dnsRebinding. Browsers send Origin with every POST, PATCH and DELETE but not with GET, so GET is
// checked for all clients. Probes disclose nothing and are exempt, because load balancers choose
// the host name.
func (c *cors) dnsRebinding(r *http.Request, probe bool) bool {
	origin := r.Header.Get("Origin")
	if slices.Contains(c.origins, origin) {
		return false
	}
	switch r.Method {
	case http.MethodPost, http.MethodPatch, http.MethodDelete:
		if origin == "" {
			return false
		}
	case http.MethodGet, http.MethodHead:
		if probe {
			return false
		}
	default:
		return false
	}
	host := hostname(r.Host)
	local := net.ParseIP(host) != nil || !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost")
	return !local && !slices.Contains(c.hosts, host)
}

// hostname returns the host name or address without the port, in lower case.
func hostname(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// admit reports whether the request may be served, and otherwise sends the response. It keeps
// pages of origins that are not allowed from using an agent through the browser.
func (s *Server) admit(x *exchange.Exchange, probe bool) bool {
	c := s.cors
	if !c.any {
		if err := c.protect.Check(x.Request); err != nil {
			s.refuse(x, http.StatusForbidden, a2a.Errorf(a2a.CodeDenied, "requests from web pages of this origin are not allowed"))
			return false
		}
	}
	if !c.any && s.cfg.Security.Authenticator == nil && c.dnsRebinding(x.Request, probe) {
		s.refuse(x, http.StatusForbidden, a2a.Errorf(a2a.CodeDenied, "host %s is not a name of this server; use its address or localhost, or set --url", a2a.Quote(x.Request.Host)))
		return false
	}
	if len(c.origins) == 0 {
		return true
	}
	h := x.Header()
	h.Add("Vary", "Origin")
	origin := x.Request.Header.Get("Origin")
	if origin == "" || !c.any && !slices.Contains(c.origins, origin) {
		return true
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "X-Request-Id, WWW-Authenticate, Retry-After, A2A-Extensions, X-A2A-Extensions, Accept-Ranges, Content-Disposition, Content-Range, ETag")
	if x.Request.Method != http.MethodOptions || x.Request.Header.Get("Access-Control-Request-Method") == "" {
		return true
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PATCH, DELETE")
	h.Set("Access-Control-Allow-Headers", "A2A-Extensions, A2A-Version, Authorization, Content-Type, Holdfast-Files, Holdfast-Owner, Idempotency-Key, If-None-Match, If-Range, Last-Event-ID, Range, X-A2A-Extensions, X-Request-Id")
	h.Set("Access-Control-Max-Age", "600")
	x.WriteHeader(http.StatusNoContent)
	return false
}
