package issuer_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/auth/issuer"
)

func TestMetadataAreFoundAtBothPlaces(t *testing.T) {
	t.Parallel()
	for label, test := range map[string]struct {
		path, document string
		oidc           bool
	}{
		"OpenID Connect":           {"", discoveryPath, true},
		"OpenID Connect, path":     {"/realms/a", "/realms/a" + discoveryPath, true},
		"OpenID Connect, slash":    {"/realms/a/", "/realms/a" + discoveryPath, true},
		"RFC 8414":                 {"", metadataPath, false},
		"RFC 8414, path":           {"/realms/a", metadataPath + "/realms/a", false},
		"RFC 8414, slash":          {"/", metadataPath, false},
		"RFC 8414, path and slash": {"/realms/a/", metadataPath + "/realms/a", false},
	} {
		p := newProvider(t)
		p.set(discoveryPath, nil)
		base := p.URL
		p.URL += test.path
		p.set(test.document, text(fmt.Sprintf(`{"issuer":%q,"jwks_uri":"%[2]s/keys","authorization_endpoint":"%[2]s/a","token_endpoint":"%[2]s/t","device_authorization_endpoint":"%[2]s/d","registration_endpoint":"http://other.example/r","scopes_supported":["agent:read"],"grant_types_supported":["client_credentials"]}`, p.URL, base)))
		i := p.issuer(t, nil)
		got, ok := i.Metadata()
		want := issuer.Metadata{
			URL: base + test.document, OIDC: test.oidc, AuthorizationEndpoint: base + "/a", TokenEndpoint: base + "/t", DeviceEndpoint: base + "/d",
			Scopes: []string{"agent:read"}, GrantTypes: []string{"client_credentials"},
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(issuer.Metadata{})); !ok || diff != "" {
			t.Errorf("%s: Metadata() = %v (-want +got):\n%s", label, ok, diff)
		}
		if i.URL() != p.URL || i.Name() != "N" {
			t.Errorf("%s: URL(), Name() = %q, %q, want %q, N", label, i.URL(), i.Name(), p.URL)
		}
		wantReason(t, i, label, p.token(t, nil), "")
	}
}

func TestInvalidMetadataAreRefused(t *testing.T) {
	t.Parallel()
	const host = "https://issuer.example"
	for label, answer := range map[string]http.HandlerFunc{
		"another issuer":   text(`{"issuer":"https://other.example","jwks_uri":"https://issuer.example/keys"}`),
		"slash":            text(`{"issuer":"https://issuer.example/","jwks_uri":"https://issuer.example/keys"}`),
		"no issuer":        text(`{"jwks_uri":"https://issuer.example/keys"}`),
		"no keys":          text(`{"issuer":"https://issuer.example"}`),
		"keys over http":   text(`{"issuer":"https://issuer.example","jwks_uri":"http://issuer.example/keys"}`),
		"keys on loopback": text(`{"issuer":"https://issuer.example","jwks_uri":"http://127.0.0.1/keys"}`),
		"keys in a file":   text(`{"issuer":"https://issuer.example","jwks_uri":"file:///etc/passwd"}`),
		"issuer twice":     text(`{"issuer":"https://issuer.example","issuer":"x","jwks_uri":"https://issuer.example/keys"}`),
		"HTML":             text(`<html>`),
		"other host":       redirect("https://other.example" + discoveryPath),
		"other scheme": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Scheme == "https" {
				redirect("http://issuer.example"+discoveryPath)(w, r)
			}
			fmt.Fprint(w, `{"issuer":"https://issuer.example","jwks_uri":"https://issuer.example/keys"}`)
		},
		"more than one MiB": text(`{"issuer":"https://issuer.example","jwks_uri":"https://issuer.example/keys","x":"` + strings.Repeat("x", 1<<20) + `"}`),
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newBubbleProvider(t)
			p.set(discoveryPath, answer)
			i := p.bubbleIssuer(t, nil)
			if got, ok := i.Metadata(); ok || p.URL != host {
				t.Errorf("%s: Metadata() = %+v, true, want none", label, got)
			}
			wantReason(t, i, label, p.token(t, nil), unavailable)
			if n := p.count(keysPath); n != 0 {
				t.Errorf("%s: %d fetches of the keys, want none", label, n)
			}
		})
	}
}

func TestMetadataAreReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newBubbleProvider(t)
		i := p.bubbleIssuer(t, nil)
		p.set(keysPath, nil)
		p.set("/moved", text(allKeys(t)))
		p.set(discoveryPath, text(`{"issuer":"https://issuer.example","jwks_uri":"https://issuer.example/moved"}`))
		time.Sleep(25 * time.Hour)
		wantReason(t, i, "moved keys", p.token(t, nil), "")
	})
}

func TestConfigReportsAllProblems(t *testing.T) {
	t.Parallel()
	valid := func() issuer.Config {
		return issuer.Config{Name: "n", URL: "https://issuer.example/realms/a", Audiences: []string{audience}}
	}
	for label, test := range map[string]struct {
		change func(*issuer.Config)
		want   string // "" if the configuration is valid
	}{
		"valid":                   {func(*issuer.Config) {}, ""},
		"loopback":                {func(c *issuer.Config) { c.URL = "http://127.0.0.1:4444/" }, ""},
		"loopback IPv6":           {func(c *issuer.Config) { c.URL = "http://[::1]:4444" }, ""},
		"localhost":               {func(c *issuer.Config) { c.URL = "http://localhost:4444" }, ""},
		"no name":                 {func(c *issuer.Config) { c.Name = "" }, "Name"},
		"colon":                   {func(c *issuer.Config) { c.Name = "a:b" }, "Name"},
		"did":                     {func(c *issuer.Config) { c.Name = "did" }, "Name"},
		"long name":               {func(c *issuer.Config) { c.Name = strings.Repeat("n", 65) }, "Name"},
		"no URL":                  {func(c *issuer.Config) { c.URL = "" }, "URL"},
		"http":                    {func(c *issuer.Config) { c.URL = "http://issuer.example" }, "URL"},
		"loopback in a name":      {func(c *issuer.Config) { c.URL = "http://localhost.example" }, "URL"},
		"user":                    {func(c *issuer.Config) { c.URL = "https://a@issuer.example" }, "URL"},
		"query":                   {func(c *issuer.Config) { c.URL = "https://issuer.example?" }, "URL"},
		"query with members":      {func(c *issuer.Config) { c.URL = "https://issuer.example?a=b" }, "URL"},
		"fragment":                {func(c *issuer.Config) { c.URL = "https://issuer.example#x" }, "URL"},
		"no audience":             {func(c *issuer.Config) { c.Audiences = nil }, "Audiences"},
		"empty audience":          {func(c *issuer.Config) { c.Audiences = []string{""} }, "Audiences"},
		"provider":                {func(c *issuer.Config) { c.Provider = "google" }, "Provider"},
		"custom without claims":   {func(c *issuer.Config) { c.Provider = a2a.ProviderCustom }, "RoleClaims"},
		"claims without custom":   {func(c *issuer.Config) { c.RoleClaims = []string{"a"} }, "RoleClaims"},
		"introspection":           {func(c *issuer.Config) { c.Introspection = &issuer.Introspection{} }, ""},
		"introspection over http": {func(c *issuer.Config) { c.Introspection = &issuer.Introspection{URL: "http://x.example"} }, "Introspection.URL"},
		"client without secret":   {func(c *issuer.Config) { c.Introspection = &issuer.Introspection{ClientID: "a"} }, "Introspection"},
	} {
		cfg := valid()
		test.change(&cfg)
		_, err := issuer.New(cfg)
		if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), "issuer config: "+test.want) {
			t.Errorf("%s: New() = %v, want a problem of %q", label, err, test.want)
		}
	}
	if _, err := issuer.New(issuer.Config{}); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("New() of no settings = %v, want three problems", err)
	}
	one, err := issuer.New(valid())
	if err != nil {
		t.Fatal(err)
	}
	for label, change := range map[string]func(*issuer.Config){"same name": func(c *issuer.Config) { c.URL += "x" }, "same URL": func(c *issuer.Config) { c.Name = "m" }} {
		cfg := valid()
		change(&cfg)
		two, err := issuer.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := issuer.NewSet(one, two); err == nil {
			t.Errorf("NewSet() of issuers with the %s = nil, want an error", label)
		}
	}
	secret := issuer.Introspection{URL: "https://x.example", ClientID: "id", ClientSecret: "hidden"}
	if text := fmt.Sprintf("%v %+v %#v %s", secret, secret, secret, secret.LogValue()); strings.Contains(text, "hidden") {
		t.Errorf("the secret is in %s", text)
	}
}
