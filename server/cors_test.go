package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/server/internal/exchange"
)

// Pages of an origin that only resembles a listed one cannot read responses. Caches keep the
// responses to different origins apart.
func TestOriginsAreComparedExactly(t *testing.T) {
	t.Parallel()
	const listed = "https://app.example"
	e := start(t, echo, func(c *server.Config) { c.Security.CORSOrigins = []string{listed} })
	for origin, allowed := range map[string]bool{
		listed: true, "": false, "null": false, "https://app.example.evil.example": false, "https://app.example:8443": false,
		"http://app.example": false, "https://evil-app.example": false, "https://APP.example": false, "*": false,
	} {
		h := headers{"Access-Control-Request-Method", "POST"}
		if origin != "" {
			h = append(h, "Origin", origin)
		}
		for _, verb := range []string{"GET", "OPTIONS"} {
			got := e.do(verb, "/", "", h)
			want := ""
			if allowed {
				want = origin
			}
			if got := got.Header.Get("Access-Control-Allow-Origin"); got != want {
				t.Errorf("%s from %q allows the origin %q, want %q", verb, origin, got, want)
			}
			if !slices.Contains(got.Header.Values("Vary"), "Origin") {
				t.Errorf("%s from %q has Vary %q, want Origin", verb, origin, got.Header.Values("Vary"))
			}
			if preflight := got.Status == http.StatusNoContent; preflight != (allowed && verb == "OPTIONS") {
				t.Errorf("%s from %q = %d, want 204 for a preflight of a listed origin only", verb, origin, got.Status)
			}
		}
	}
	if got := e.do("OPTIONS", "/", "", headers{"Origin", listed}); got.Status != http.StatusMethodNotAllowed {
		t.Errorf("OPTIONS without a requested method = %d, want 405: it is not a preflight", got.Status)
	}
}

// Browsers send preflights without credentials. A page may send all headers that the server reads,
// and read those with which clients continue.
func TestPreflightAllowsTheHeadersOfTheServer(t *testing.T) {
	t.Parallel()
	const page = "https://app.example"
	e := start(t, echo, func(c *server.Config) {
		twoTokens(c)
		c.Security.CORSOrigins = []string{page}
	})
	check := func(got reply, header string, want []string) {
		t.Helper()
		for _, name := range want {
			if !slices.ContainsFunc(strings.Split(got.Header.Get(header), ", "), func(have string) bool { return strings.EqualFold(have, name) }) {
				t.Errorf("%s = %q, want it to contain %s", header, got.Header.Get(header), name)
			}
		}
	}
	for _, verb := range []string{"POST", "PATCH", "DELETE"} {
		got := e.do("OPTIONS", "/tasks/x", "", headers{"Origin", page, "Access-Control-Request-Method", verb})
		if got.Status != http.StatusNoContent {
			t.Fatalf("preflight of %s = %d %s, want 204", verb, got.Status, got.Body)
		}
		check(got, "Access-Control-Allow-Methods", []string{verb})
		check(got, "Access-Control-Allow-Headers", append([]string{"Authorization", "Content-Type", "If-None-Match", "If-Range", "Range"}, exchange.Headers...))
	}
	refused := e.do("GET", "/tasks", "", headers{"Origin", page})
	if refused.Status != http.StatusUnauthorized || refused.Header.Get("Access-Control-Allow-Origin") != page {
		t.Errorf("GET without a token = %d %v, want 401 that the page may read", refused.Status, refused.Header)
	}
	check(refused, "Access-Control-Expose-Headers", []string{
		"X-Request-Id", "WWW-Authenticate", "Retry-After", "A2A-Extensions", "X-A2A-Extensions", "Content-Disposition", "Content-Range", "ETag",
	})
}

func TestConfiguredOriginsHaveNoPath(t *testing.T) {
	t.Parallel()
	for origin, valid := range map[string]bool{
		"*": true, "https://example.com": true, "http://localhost:8080": true,
		"https://example.com/": false, "https://example.com/app": false, "https://example.com?q": false, "https://u@example.com": false,
		"example.com": false, "null": false, "https://": false, "": false,
	} {
		if err := (server.Config{Security: server.Security{CORSOrigins: []string{origin}}}).Check(); (err == nil) != valid {
			t.Errorf("Check() with the origin %q = %v, want it valid: %t", origin, err, valid)
		}
	}
}
