package server

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-dev/holdfast/internal/config"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/rpc"
)

// proxies determine the address of the agent as clients see it.
type proxies struct {
	trusted []netip.Prefix
	warn    func() // logs once that headers of a proxy have no effect; nil if the agent's URL is configured
}

// newProxies returns the proxies that cfg trusts, or an error that lists all invalid entries.
func newProxies(cfg *Config) (*proxies, error) {
	p := &proxies{}
	var errs []error
	for _, entry := range cfg.Security.TrustedProxies {
		network, err := safehttp.ParseNet(entry)
		if err != nil {
			errs = append(errs, fmt.Errorf("%q: %w", entry, err))
		}
		p.trusted = append(p.trusted, network)
	}
	if cfg.Card.URL == "" {
		p.warn = sync.OnceFunc(func() {
			cfg.Logger.Warn("a proxy forwards requests, but the agent card has the address at which the server received them: set the URL of the agent, or trust the proxy", config.Settings("Card.URL", "Security.TrustedProxies"))
		})
	}
	return p, errors.Join(errs...)
}

// origin returns the address of the agent to which a client sent a request. The headers of a proxy
// that is not trusted, which any client can send, have no effect.
func (p *proxies) origin(r *http.Request) rpc.Origin {
	o := rpc.Origin{Host: r.Host, Secure: r.TLS != nil}
	if o.Host == "" {
		if a, ok := r.Context().Value(http.LocalAddrContextKey).(interface{ String() string }); ok {
			o.Host = a.String()
		}
	}
	if p.warn == nil {
		return o
	}
	forwarded := forwardedOrigin(r.Header, o)
	if forwarded == o {
		return o
	}
	if !p.trusts(r.RemoteAddr) {
		p.warn()
		return o
	}
	return forwarded
}

// trusts reports whether an address, with a port, is a trusted proxy's.
func (p *proxies) trusts(remote string) bool {
	from, err := netip.ParseAddrPort(remote)
	return err == nil && slices.ContainsFunc(p.trusted, func(network netip.Prefix) bool {
		return network.Contains(from.Addr().Unmap().WithZone(""))
	})
}

// forwardedOrigin returns o with what X-Forwarded headers say. Values that cannot be part of a URL are ignored. Of
// several values, the first is from the proxy that is next to the client.
func forwardedOrigin(h http.Header, o rpc.Origin) rpc.Origin {
	first := func(name string) string {
		values := h[name]
		if len(values) == 0 {
			return ""
		}
		value, _, _ := strings.Cut(values[0], ",")
		return strings.TrimSpace(value)
	}
	switch proto := first("X-Forwarded-Proto"); {
	case strings.EqualFold(proto, "https"):
		o.Secure = true
	case strings.EqualFold(proto, "http"):
		o.Secure = false
	}
	if host := first("X-Forwarded-Host"); host != "" {
		if u, err := url.Parse("http://" + host + "/"); err == nil && u.Host == host {
			o.Host = host
		}
	}
	if prefix := strings.TrimRight(first("X-Forwarded-Prefix"), "/"); strings.HasPrefix(prefix, "/") && path.Clean(prefix) == prefix {
		if u, err := url.Parse("http://host" + prefix); err == nil && u.EscapedPath() == prefix {
			o.Prefix = prefix
		}
	}
	return o
}
