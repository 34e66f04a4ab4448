package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/server"
)

// A proxy may read another one of two headers than the server.
func TestTwoAuthorizationHeadersAreRejected(t *testing.T) {
	t.Parallel()
	e := start(t, echo, twoTokens)
	for _, second := range []string{"Bearer bob-token", "Bearer alice-token", "Basic x", ""} {
		r := e.request("GET", "/tasks", "", as("alice"))
		r.Header.Add("Authorization", second)
		resp, err := e.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("GET with a token and the header %q = %d, want 401", second, resp.StatusCode)
		}
	}
}

func TestChallengeNamesTheErrorOfATokenOnly(t *testing.T) {
	t.Parallel()
	e := start(t, echo, twoTokens)
	for credentials, want := range map[string]string{
		"": `Bearer realm="holdfast"`, "Bearer wrong": `Bearer realm="holdfast", error="invalid_token"`,
	} {
		var h headers
		if credentials != "" {
			h = headers{"Authorization", credentials}
		}
		if got := e.do("GET", "/tasks", "", h).Header.Get("WWW-Authenticate"); got != want {
			t.Errorf("challenge for %q = %q, want %q", credentials, got, want)
		}
	}
}

func TestInvalidTokensDoNotReplaceTheAcceptedOnes(t *testing.T) {
	t.Parallel()
	tokens, err := server.NewTokens(aliceAndBob)
	if err != nil {
		t.Fatal(err)
	}
	e := start(t, echo, func(c *server.Config) { c.Security.Authenticator = tokens })
	status := func(token string) int {
		return e.do("GET", "/tasks", "", headers{"Authorization", "Bearer " + token}).Status
	}
	carol := a2a.Principal{ID: "carol"}
	for _, invalid := range [][]server.Token{nil, {{Token: "carol-token", Principal: carol}, {Token: "no-principal"}}} {
		if err := tokens.Set(invalid); err == nil {
			t.Errorf("Set(%v) = nil, want an error", invalid)
		}
		if alice, carol := status("alice-token"), status("carol-token"); alice != 200 || carol != 401 {
			t.Errorf("after Set(%v), the old token = %d, the new one = %d, want 200 and 401", invalid, alice, carol)
		}
	}
	if err := tokens.Set([]server.Token{{Token: "carol-token", Principal: carol}}); err != nil {
		t.Fatal(err)
	}
	if alice, carol := status("alice-token"), status("carol-token"); alice != 401 || carol != 200 {
		t.Errorf("after Set, the old token = %d, the new one = %d, want 401 and 200", alice, carol)
	}
}

func TestTokensArePrintable(t *testing.T) {
	t.Parallel()
	for token, valid := range map[string]bool{
		"!~": true, "": false, "a b": false, " a": false, "a\tb": false, "a\n": false, "a\x7f": false, "é": false,
	} {
		_, err := server.NewTokens([]server.Token{{Token: token, Principal: a2a.Principal{ID: "alice"}}})
		if (err == nil) != valid || err != nil && (!strings.Contains(err.Error(), "printable ASCII") || token != "" && strings.Contains(err.Error(), token)) {
			t.Errorf("NewTokens(%q) = %v, want it valid: %t, and no token in the error", token, err, valid)
		}
	}
}
