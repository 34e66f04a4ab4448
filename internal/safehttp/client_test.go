package safehttp

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

var discard = log.New(io.Discard, "", 0)

func TestPostSendsTheRequestToTheAddress(t *testing.T) {
	t.Parallel()
	var got struct{ host, body, header, path string }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got.host, got.body, got.header, got.path = r.Host, string(body), r.Header.Get("X-Test"), r.RequestURI
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
