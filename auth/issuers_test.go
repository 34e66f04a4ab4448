package auth_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/auth/issuer"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/internal/await"
)

// provider is an issuer of tokens on loopback.
type provider struct {
	url string
	key ed25519.PrivateKey
}

func newProvider(t *testing.T, seed byte) *provider {
	t.Helper()
	p := &provider{key: newSigner(t, seed).key}
	mux := http.NewServeMux()
	answer := func(path string, v func() any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v()) })
	}
	answer("/.well-known/openid-configuration", func() any { return map[string]any{"issuer": p.url, "jwks_uri": p.url + "/keys"} })
	answer("/keys", func() any {
		return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: "k", Algorithm: "EdDSA", Use: "sig"}}}
	})
	ts := httptest.NewServer(mux)
	t.Cleanup(ts.Close)
	p.url = ts.URL
	return p
}

// token returns an access token. claims replace the usual ones.
func (p *provider) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	all := map[string]any{
		"iss": p.url, "aud": "https://agent.example.com", "sub": "user", "client_id": "app", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
		"scope": "agent:read agent:write",
	}
	for name, value := range claims {
		all[name] = value
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: p.key, KeyID: "k"}}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// issuers returns a scheme with issuers by their names.
func issuers(t *testing.T, providers map[string]*provider, change func(*issuer.Config)) auth.Issuers {
	t.Helper()
	var all []*issuer.Issuer
	for name, p := range providers {
		cfg := issuer.Config{Name: name, URL: p.url, Audiences: []string{"https://agent.example.com"}}
		if change != nil {
			change(&cfg)
		}
		i, err := issuer.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, i)
	}
	set, err := issuer.NewSet(all...)
	if err != nil {
		t.Fatal(err)
	}
	set.Start(t.Context())
	t.Cleanup(set.Close)
	return auth.Issuers{Set: set}
}

func TestTokensOfIssuersIdentifyCallers(t *testing.T) {
	t.Parallel()
	one, two := newProvider(t, 3), newProvider(t, 4)
	scheme := issuers(t, map[string]*provider{"one": one, "two": two}, func(c *issuer.Config) {
		if c.Name == "one" {
			c.Provider = a2a.ProviderKeycloak
		}
	})
	roles := parseRoles(t, `{"roles":[`+role("writer", "analyst", "", `"externalMappings":{"keycloak":"agent-writer"}`)+`],"members":{"two:c:app":["writer"]}}`, map[string]a2a.IdentityProvider{"one": a2a.ProviderKeycloak})
	list := tokens(t, map[string]a2a.Principal{"static": {ID: "static", Roles: []string{"writer"}}})
	g := start(t, auth.Config{Schemes: []auth.Scheme{list, scheme}, Roles: roles}, inmem.New())
	await.True(t, "the issuers are ready", func() bool {
		return g.send(bearer(one.token(t, map[string]any{"realm_access": map[string]any{"roles": []string{"agent-writer"}}}))).status == 200 &&
			g.send(bearer(two.token(t, map[string]any{"sub": "app"}))).status == 200
	})
	expires := time.Now().Add(time.Minute).Truncate(time.Second)
	p := g.send(bearer(one.token(t, map[string]any{"realm_access": map[string]any{"roles": []string{"agent-writer", "other"}}, "exp": expires.Unix(), "act": map[string]any{"sub": "agent-7"}}))).sender(t)
	if p.ID != "one:u:user" || p.Client != "app" || p.Issuer != "one" || p.Level != a2a.TrustAnalyst || !slices.Equal(p.Roles, []string{"writer"}) || !slices.Equal(p.Schemes, []string{"one"}) ||
		!p.Expires.Equal(expires) || p.Actor != "agent-7" || !strings.HasPrefix(p.Credential, "one:") {
		t.Errorf("the sender is %+v, want user of one", p)
	}
	if p := g.send(bearer(two.token(t, map[string]any{"sub": "app"}))).sender(t); p.ID != "two:c:app" || p.Level != a2a.TrustAnalyst {
		t.Errorf("the sender is %+v, want the client app of two", p)
	}
	if p := g.send(bearer("static")).sender(t); p.ID != "static" || p.Schemes[0] != auth.SchemeBearer {
		t.Errorf("the sender is %+v, want the principal of the static token", p)
	}
	for _, tt := range []struct{ name, token, want string }{
		{"attack 5: the key of another issuer", two.token(t, map[string]any{"iss": one.url}), "401 -32012 signature"},
		{"attack 5: a look-alike issuer", one.token(t, map[string]any{"iss": one.url + "/"}), "401 -32010 issuer"},
		{"attack 6: another audience", one.token(t, map[string]any{"aud": "https://other.example.com"}), "401 -32010 audience"},
		{"attack 8: expired", one.token(t, map[string]any{"exp": time.Now().Add(-2 * time.Minute).Unix()}), "401 -32011 expired"},
		{"no token at all", "nonsense", "401 -32010 invalid_token"},
		{"a role of another realm", two.token(t, map[string]any{"realm_access": map[string]any{"roles": []string{"agent-writer"}}}), "403 -32013 trust"},
		{"no scope", one.token(t, map[string]any{"scope": "agent:read", "realm_access": map[string]any{"roles": []string{"agent-writer"}}}), "403 -32013 scope"},
	} {
		got := g.send(bearer(tt.token))
		if got.reason() != tt.want {
			t.Errorf("%s = %s (%s), want %s", tt.name, got.reason(), got.body, tt.want)
		}
		challenge := got.header.Get("WWW-Authenticate")
		if want := fmt.Sprintf("resource_metadata=%q", g.url+"/.well-known/oauth-protected-resource"); got.status == 401 && (!strings.Contains(challenge, want) || !strings.Contains(challenge, `error="invalid_token"`)) {
			t.Errorf("%s: the challenge is %s, want %s", tt.name, challenge, want)
		}
	}
	meta := g.do("GET", "/.well-known/oauth-protected-resource", "", nil)
	var m struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
	}
	if err := json.Unmarshal([]byte(meta.body), &m); err != nil || m.Resource != g.url+"/" || !slices.Contains(m.Servers, one.url) || !slices.Contains(m.Servers, two.url) {
		t.Errorf("metadata = HTTP %d %s, want the resource and both issuers", meta.status, meta.body)
	}
	card := g.do("GET", "/.well-known/agent-card.json", "", nil).body
	for _, want := range []string{`"one":{"type":"openIdConnect","openIdConnectUrl":"` + one.url + `/.well-known/openid-configuration"`, `"bearer":{"type":"http"`, `{"one":[]}`, `"schemes":{"one":{}}`} {
		if !strings.Contains(card, want) {
			t.Errorf("card = %s, want %s", card, want)
		}
	}
}
