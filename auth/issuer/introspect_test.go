package issuer_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/auth/issuer"
)

func introspection(c *issuer.Config) { c.Introspection = &issuer.Introspection{} }

// active returns an introspection answer with a valid exp and more members.
func (p *provider) active(members string) string {
	return fmt.Sprintf(`{"active":true,"exp":%d,"client_id":"app","sub":"alice","scope":"agent:read"%s}`, p.now().Unix()+600, members)
}

func TestIntrospectedTokens(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	i := p.issuer(t, func(c *issuer.Config) {
		c.Introspection = &issuer.Introspection{ClientID: "a b", ClientSecret: "s:%/é"}
		c.Provider = a2a.ProviderHydra
	})
	var seen string
	p.set(introspectPath, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		seen = fmt.Sprint(r.Method, " ", r.FormValue("token"), " ", r.FormValue("token_type_hint"), " ", user, " ", password, " ", r.Header.Get("Content-Type"), " ", r.Header.Get("Accept"), r.URL.RawQuery)
		fmt.Fprint(w, p.active(`,"ext":{"roles":["r"]},"token_use":"access_token","token_type":"Bearer","aud":[]`))
	})
	got, err := i.Verify(t.Context(), "opaque+/=~token")
	got.Credential = ""
	want := a2a.Principal{ID: "N:u:alice", Client: "app", Issuer: "N", Scopes: []a2a.Scope{"agent:read"}, Roles: []string{"r"}, Expires: time.Unix(1_800_000_600, 0)}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("Verify() = %v (-want +got):\n%s", err, diff)
	}
	if want := "POST opaque+/=~token access_token a+b s%3A%25%2F%C3%A9 application/x-www-form-urlencoded application/json"; seen != want {
		t.Errorf("request = %s, want %s", seen, want)
	}
	for label, test := range map[string]struct{ members, want string }{
		"our audience":        {`,"aud":["x","` + audience + `"]`, ""},
		"another audience":    {`,"aud":"https://other.example"`, badAudience},
		"our issuer":          {`,"iss":"` + p.URL + `"`, ""},
		"another issuer":      {`,"iss":"https://other.example"`, badIssuer},
		"bound to a key":      {`,"cnf":{"jkt":"x"}`, badProof},
		"not yet valid":       {fmt.Sprintf(`,"nbf":%d`, p.now().Unix()+61), notYetValid},
		"Hydra refresh token": {`,"token_use":"refresh_token"`, badType},
		"Keycloak ID token":   {`,"typ":"ID"`, badType},
		"Keycloak token":      {`,"typ":"Bearer"`, ""},
		"five actors":         {`,"act":{"sub":"1","act":{"sub":"2","act":{"sub":"3","act":{"sub":"4","act":{"sub":"5"}}}}}`, invalidToken},
	} {
		p.set(introspectPath, text(p.active(test.members)))
		wantReason(t, i, label, "opaque "[:6]+strings.ReplaceAll(label, " ", "-"), test.want)
	}
	for label, test := range map[string]struct{ answer, want string }{
		"not active":      {`{"active":false}`, invalidToken},
		"not active, but": {strings.Replace(p.active(""), "true", "false", 1), invalidToken},
		"no exp":          {`{"active":true,"sub":"alice"}`, invalidToken},
		"exp of a text":   {`{"active":true,"sub":"alice","exp":"1800000600"}`, invalidToken},
		"expired":         {`{"active":true,"sub":"alice","exp":1}`, expired},
		"nobody":          {`{"active":true,"exp":1800000600}`, invalidToken},
		"client only":     {`{"active":true,"exp":1800000600,"client_id":"app"}`, ""},
		"NUL in the name": {`{"active":true,"exp":1800000600,"sub":"a\u0000"}`, invalidToken},
	} {
		p.set(introspectPath, text(test.answer))
		wantReason(t, i, label, "answer-"+strings.ReplaceAll(label, " ", "-"), test.want)
	}
}

func TestAttack11TokensOfNoIssuer(t *testing.T) {
	t.Parallel()
	p, q := newProvider(t), newProvider(t)
	jwts := p.issuer(t, nil)
	opaque := q.issuer(t, func(c *issuer.Config) { c.Name = "M"; introspection(c) })
	for _, provider := range []*provider{p, q} {
		provider.set(introspectPath, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.FormValue("token"), "known") {
				fmt.Fprint(w, q.active(""))
				return
			}
			fmt.Fprint(w, `{"active":false}`)
		})
	}
	foreign := p.token(t, map[string]any{"iss": "https://none.example"})
	set, err := issuer.NewSet(jwts, opaque)
	if err != nil {
		t.Fatal(err)
	}
	wantReason(t, set, "JWT form, not known", foreign, invalidToken)
	wantReason(t, set, "opaque, not known", "opaque", invalidToken)
	wantReason(t, set, "opaque, known", "opaque-known", "")
	wantReason(t, set, "three parts", "a.b.known", "")
	if n := q.count(introspectPath); n != 4 {
		t.Errorf("%d introspections, want 4", n)
	}
	// A JWT of a known issuer is never sent anywhere, also if it is not valid.
	wantReason(t, set, "not signed by its issuer", sign(t, "EdDSA", newEd25519(t), `{"alg":"EdDSA","kid":"eddsa","typ":"at+jwt"}`, q.claims(t, nil)), badSignature)
	wantReason(t, set, "valid JWT", p.token(t, nil), "")
	if n := q.count(introspectPath) + p.count(introspectPath); n != 4 {
		t.Errorf("%d introspections, want 4", n)
	}
	only, err := issuer.NewSet(jwts)
	if err != nil {
		t.Fatal(err)
	}
	wantReason(t, only, "JWT form without introspection", foreign, badIssuer)
	wantReason(t, only, "opaque without introspection", "opaque", invalidToken)
	if got := set.Issuers(); len(got) != 2 || got[0] != jwts || got[1] != opaque {
		t.Errorf("Issuers() = %v, want both in their order", got)
	}
}

func TestOpaqueTokensAreTriedInOrder(t *testing.T) {
	t.Parallel()
	p, q := newProvider(t), newProvider(t)
	first := p.issuer(t, introspection)
	second := q.issuer(t, func(c *issuer.Config) { c.Name = "M"; introspection(c) })
	set, err := issuer.NewSet(first, second)
	if err != nil {
		t.Fatal(err)
	}
	p.set(introspectPath, text(`{"active":false}`))
	q.set(introspectPath, text(q.active("")))
	for range 3 {
		if got, err := set.Verify(t.Context(), "token"); err != nil || got.ID != "M:u:alice" {
			t.Errorf("Verify() = %q, %v, want M:u:alice", got.ID, err)
		}
		p.clock.Advance(6 * time.Second)
	}
	if n := p.count(introspectPath); n != 1 {
		t.Errorf("the first issuer was asked %d times for a token that the second one has confirmed, want 1", n)
	}
	p.set(introspectPath, nil)
	wantReason(t, set, "the first fails, the second accepts", "token-2", "")
	q.set(introspectPath, text(`{"active":false}`))
	wantReason(t, set, "the first fails, the second refuses", "token-3", unavailable)
	p.set(introspectPath, text(`{"active":true,"sub":"alice","exp":1}`))
	wantReason(t, set, "both refuse", "token-4", expired)
	q.set(introspectPath, nil)
	wantReason(t, set, "the first refuses, the second fails", "token-5", unavailable)
	before := p.count(introspectPath)
	wantReason(t, set, "a space", "to ken", invalidToken)
	if n := p.count(introspectPath); n != before {
		t.Errorf("%d introspections of a token that cannot be one, want none", n-before)
	}
}

func TestAttack12BrokenIntrospection(t *testing.T) {
	t.Parallel()
	p, other := newProvider(t), newProvider(t)
	i := p.issuer(t, introspection)
	other.set(introspectPath, text(p.active("")))
	for label, answer := range map[string]http.HandlerFunc{
		"HTML": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>active: true</html>")
		},
		"text true":    text(strings.Replace(p.active(""), "true", `"true"`, 1)),
		"1":            text(strings.Replace(p.active(""), "true", `1`, 1)),
		"null":         text(strings.Replace(p.active(""), "true", `null`, 1)),
		"no active":    text(strings.Replace(p.active(""), "active", `Active`, 1)),
		"active twice": text(strings.Replace(p.active(""), `{`, `{"active":false,`, 1)),
		"list":         text("[" + p.active("") + "]"),
		"empty":        text(""),
		"status 500":   func(w http.ResponseWriter, _ *http.Request) { http.Error(w, p.active(""), 500) },
		"status 401":   func(w http.ResponseWriter, _ *http.Request) { http.Error(w, p.active(""), http.StatusUnauthorized) },
		"status 204":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) },
		"redirect":     redirect(other.URL + introspectPath),
		"redirect, 307": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+introspectPath, http.StatusTemporaryRedirect)
		},
		"redirect, local": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, introspectPath, http.StatusPermanentRedirect)
		},
		"too long": text(p.active(`,"x":"` + strings.Repeat("x", 64<<10) + `"`)),
		"cut off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, p.active(""))
		},
	} {
		p.set(introspectPath, answer)
		for range 2 {
			before := p.count(introspectPath)
			wantReason(t, i, label, "opaque-token", unavailable)
			if p.count(introspectPath) != before+1 {
				t.Errorf("%s: %d requests, want 1: failures are not cached, POST requests not repeated", label, p.count(introspectPath)-before)
			}
		}
	}
	if n := other.count(introspectPath); n != 0 {
		t.Errorf("%d tokens sent to another host, want none", n)
	}
	p.set(introspectPath, text(p.active("")))
	wantReason(t, i, "recovered", "opaque-token", "")
}

func TestAttack12IntrospectionHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newBubbleProvider(t)
		i := p.bubbleIssuer(t, introspection)
		p.set(introspectPath, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		start := time.Now()
		var group sync.WaitGroup
		for n := range 100 {
			group.Go(func() { wantReason(t, i, "hanging", fmt.Sprint("token-", n), unavailable) })
		}
		synctest.Wait()
		if n := p.count(introspectPath); n != 32 {
			t.Errorf("%d requests at a time, want 32", n)
		}
		group.Wait()
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("Verify() took %s, want 5 s", d)
		}
		wantReason(t, i, "JWT meanwhile", p.token(t, nil), "")
	})
}

func TestOneIntrospectionForAToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newBubbleProvider(t)
		i := p.bubbleIssuer(t, introspection)
		answer := p.active(`,"x":1`)
		p.set(introspectPath, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Second)
			fmt.Fprint(w, answer)
		})
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() { wantReason(t, i, "shared", "token", "") })
		}
		group.Wait()
		if n := p.count(introspectPath); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

func TestAttack13RevokedWithinTheCacheWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newBubbleProvider(t)
		i := p.bubbleIssuer(t, introspection)
		revoke := func() { p.set(introspectPath, text(`{"active":false}`)) }
		p.set(introspectPath, text(p.active("")))
		wantReason(t, i, "ordinary", "ordinary", "")
		revoke()
		time.Sleep(59 * time.Second)
		wantReason(t, i, "within a minute", "ordinary", "")
		time.Sleep(time.Second)
		wantReason(t, i, "after a minute", "ordinary", invalidToken)

		p.set(introspectPath, text(p.active("")))
		wantReason(t, i, "active again, refusal cached", "ordinary", invalidToken)
		time.Sleep(5 * time.Second)
		wantReason(t, i, "active again", "ordinary", "")

		p.set(introspectPath, text(strings.Replace(p.active(""), fmt.Sprint(time.Now().Unix()+600), fmt.Sprint(time.Now().Unix()+10), 1)))
		wantReason(t, i, "expires soon", "soon", "")
		revoke()
		time.Sleep(10 * time.Second)
		wantReason(t, i, "expired soon", "soon", invalidToken)

		for _, scope := range []string{"admin", "agent:execute", "payment:capture", "key:rotate"} {
			p.set(introspectPath, text(strings.Replace(p.active(""), "agent:read", "agent:read "+scope, 1)))
			wantReason(t, i, scope, scope, "")
			revoke()
			wantReason(t, i, scope+", revoked", scope, invalidToken)
		}
		all := p.bubbleIssuer(t, func(c *issuer.Config) { introspection(c); c.Unscoped = true })
		p.set(introspectPath, text(strings.Replace(p.active(""), `"scope"`, `"x"`, 1)))
		wantReason(t, all, "all scopes", "all", "")
		revoke()
		wantReason(t, all, "all scopes, revoked", "all", invalidToken)
	})
}

func TestIntrospectionNeedsNoKeysIfItsURLIsConfigured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newBubbleProvider(t)
		p.set(discoveryPath, nil)
		p.set("/own", text(p.active("")))
		unknown := p.bubbleIssuer(t, introspection)
		wantReason(t, unknown, "endpoint not known", "token", unavailable)
		known := p.bubbleIssuer(t, func(c *issuer.Config) { c.Introspection = &issuer.Introspection{URL: p.URL + "/own"} })
		wantReason(t, known, "endpoint configured", "token", "")
	})
}

func TestRequestsStopWaitingWhenTheirContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newBubbleProvider(t)
		i := p.bubbleIssuer(t, introspection)
		time.Sleep(time.Minute)
		hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		p.set(introspectPath, hang)
		p.set(keysPath, hang)
		for label, token := range map[string]string{"opaque": "token", "unknown key": unknownKey(t, p, 1)} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			start := time.Now()
			var group sync.WaitGroup
			group.Go(func() { wantReason(t, i, label+", first", token, unavailable) })
			synctest.Wait()
			if _, err := i.Verify(ctx, token); reason(err) != unavailable || time.Since(start) != time.Second {
				t.Errorf("%s: Verify() = %v after %s, want %s after 1 s", label, err, time.Since(start), unavailable)
			}
			cancel()
			group.Wait()
		}
	})
}

// The request of a caller that has gone away serves the callers that wait for it.
func TestIntrospectionSurvivesItsFirstCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newBubbleProvider(t)
		i := p.bubbleIssuer(t, introspection)
		time.Sleep(time.Minute)
		slow := func(answer string) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(time.Second)
				fmt.Fprint(w, answer)
			}
		}
		keys := allKeys(t)
		p.set(keysPath, slow(strings.Replace(keys, `"eddsa"`, `"random-1"`, 1)))
		p.set(introspectPath, slow(p.active("")))
		for _, token := range []string{"token", unknownKey(t, p, 1)} {
			ctx, cancel := context.WithCancel(t.Context())
			var group sync.WaitGroup
			group.Go(func() { _, _ = i.Verify(ctx, token) })
			synctest.Wait()
			group.Go(func() { wantReason(t, i, "second caller", token, "") })
			synctest.Wait()
			cancel()
			group.Wait()
		}
	})
}

func TestSetStartsAndClosesItsIssuers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newBubbleProvider(t)
		one, err := issuer.New(issuer.Config{Name: "N", URL: p.URL, Audiences: []string{audience}, HTTP: &http.Client{Transport: p}})
		if err != nil {
			t.Fatal(err)
		}
		set, err := issuer.NewSet(one)
		if err != nil {
			t.Fatal(err)
		}
		wantReason(t, set, "before the start", p.token(t, nil), unavailable)
		set.Start(t.Context())
		synctest.Wait()
		wantReason(t, set, "started", p.token(t, nil), "")
		set.Close()
		before := p.count(keysPath)
		time.Sleep(time.Hour)
		if n := p.count(keysPath); n != before {
			t.Errorf("%d fetches after Close, want none", n-before)
		}
		wantReason(t, set, "closed", p.token(t, nil), "")
	})
}
