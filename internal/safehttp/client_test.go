package safehttp

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// loopback is a policy that lets tests call their own servers.
var loopback = Policy{AllowNets: prefixes("127.0.0.0/8")}

func newClient(t testing.TB, cfg ClientConfig) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func parse(t testing.TB, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatalf("url.Parse(%q): %v", raw, err)
	}
	return u
}

func TestPostSendsTheRequestToTheAddress(t *testing.T) {
	t.Parallel()
	var got struct{ host, body, header, path string }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buf := make([]byte, 100)
		n, _ := r.Body.Read(buf)
		got.host, got.body, got.header, got.path = r.Host, string(buf[:n]), r.Header.Get("X-Test"), r.RequestURI
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer server.Close()
	to := netip.MustParseAddrPort(server.Listener.Addr().String())
	c := newClient(t, ClientConfig{Policy: loopback, Resolver: fixed("127.0.0.1")})
	resp, err := c.Post(t.Context(), Request{URL: parse(t, "http://hooks.example.com:"+to.String()[10:]+"/a%2Fb?q=1"), Header: http.Header{"X-Test": {"yes"}}, Body: []byte("body")})
	if err != nil {
		t.Fatalf("Post: %v", err)
	}
	if resp.Status != 429 || resp.RetryAfter.Seconds() != 7 || resp.Address != to {
		t.Errorf("Post = %+v, want 429, 7 s and %s", resp, to)
	}
	if got.body != "body" || got.header != "yes" || got.path != "/a%2Fb?q=1" || !strings.HasPrefix(got.host, "hooks.example.com:") {
		t.Errorf("server got %+v", got)
	}
}

// resolverFunc is a resolver.
type resolverFunc func(ctx context.Context, host string) ([]netip.Addr, error)

func (f resolverFunc) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	return f(ctx, host)
}

// fixed resolves every name to the same addresses.
func fixed(addrs ...string) Resolver {
	return resolverFunc(func(context.Context, string) ([]netip.Addr, error) { return list(addrs...), nil })
}

func list(addrs ...string) []netip.Addr {
	var all []netip.Addr
	for _, a := range addrs {
		all = append(all, netip.MustParseAddr(a))
	}
	return all
}

// dialerFunc is a dialer.
type dialerFunc func(ctx context.Context, network, address string) (net.Conn, error)

func (f dialerFunc) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	return f(ctx, network, address)
}
