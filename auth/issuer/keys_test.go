package issuer_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/holdfast-dev/holdfast/auth/issuer"
	"github.com/holdfast-dev/holdfast/internal/await"
)

func TestAttack3KeyIDs(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	i := p.issuer(t, nil)
	p.clock.Advance(time.Minute)
	for label, kid := range map[string]string{"path": "../../etc/passwd", "SQL": "' OR 1=1 --", "NUL": "eddsa\x00", "8 KiB": strings.Repeat("k", 8<<10), "64 KiB": strings.Repeat("k", 64<<10), "upper case": "EDDSA"} {
		header := fmt.Sprintf(`{"alg":"EdDSA","kid":%s,"typ":"at+jwt"}`, strings.ReplaceAll(fmt.Sprintf("%q", kid), `\x00`, `\u0000`))
		wantReason(t, i, label, sign(t, "EdDSA", signers()["EdDSA"], header, p.claims(t, nil)), invalidToken)
	}
	if n := p.count(keysPath); n != 2 {
		t.Errorf("%d fetches of the keys, want 2", n)
	}
}

// unknownKey returns a token of a key id that the provider does not have.
func unknownKey(t testing.TB, p *provider, n int) string {
	return sign(t, "EdDSA", signers()["EdDSA"], fmt.Sprintf(`{"alg":"EdDSA","kid":"random-%d","typ":"at+jwt"}`, n), p.claims(t, nil))
}

func TestAttack3RandomKeyIDsCauseOneFetchIn30Seconds(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	i := p.issuer(t, nil)
	for second := range 60 {
		p.clock.Advance(time.Second)
		for n := range 20 {
			wantReason(t, i, "random kid", unknownKey(t, p, second*20+n), invalidToken)
		}
	}
	if n := p.count(keysPath); n != 3 {
		t.Errorf("%d fetches of the keys within a minute, want 3 with the first one", n)
	}
}

func TestUnknownKeysShareOneFetch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newBubbleProvider(t)
		old := public("ES256")
		p.set(keysPath, text(keySet(t, old)))
		i := p.bubbleIssuer(t, nil)
		time.Sleep(time.Minute)
		p.set(keysPath, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(2 * time.Second)
			fmt.Fprint(w, allKeys(t))
		})
		token, start := p.token(t, nil), time.Now()
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() { wantReason(t, i, "new key", token, "") })
		}
		synctest.Wait()
		group.Go(func() { wantReason(t, i, "known key during the fetch", p.tokenOf(t, "ES256", "at+jwt", nil), "") })
		synctest.Wait()
		if time.Since(start) != 0 {
			t.Errorf("the known key took %s, want 0", time.Since(start))
		}
		group.Wait()
		if n := p.count(keysPath); n != 2 {
			t.Errorf("%d fetches of the keys, want 2", n)
		}
	})
}

func TestRequestsThatWaitForKeysAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newBubbleProvider(t)
		i := p.bubbleIssuer(t, nil)
		time.Sleep(time.Minute)
		p.set(keysPath, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		start := time.Now()
		var group sync.WaitGroup
		var mu sync.Mutex
		outcomes := make(map[string]int)
		for n := range 300 {
			token := unknownKey(t, p, n)
			group.Go(func() {
				_, err := i.Verify(t.Context(), token)
				mu.Lock()
				defer mu.Unlock()
				outcomes[fmt.Sprint(reason(err), " after ", time.Since(start))]++
			})
		}
		group.Wait()
		if outcomes[invalidToken+" after 0s"] != 43 || outcomes[unavailable+" after 10s"] != 257 {
			t.Errorf("outcomes = %v, want 43 refused at once and 257 unavailable after 10 s", outcomes)
		}
		wantReason(t, i, "within the pause", unknownKey(t, p, 1), invalidToken)
	})
}

// A scheduled fetch makes up to three requests.
func TestRequestsWait10SecondsForAScheduledFetch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newBubbleProvider(t)
		i := p.bubbleIssuer(t, nil)
		for _, path := range []string{discoveryPath, metadataPath, keysPath} {
			p.set(path, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		}
		time.Sleep(5*time.Minute + time.Second)
		start := time.Now()
		wantReason(t, i, "unknown key", unknownKey(t, p, 1), unavailable)
		if d := time.Since(start); d != 10*time.Second {
			t.Errorf("Verify() took %s, want 10 s", d)
		}
		time.Sleep(20 * time.Second)
		if n := p.count(keysPath); n != 2 {
			t.Errorf("%d fetches of the keys, want 2", n)
		}
	})
}

func TestAttack4RemovedKeysEndAtOnce(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	i := p.issuer(t, nil)
	token, kept := p.token(t, nil), p.tokenOf(t, "ES256", "at+jwt", nil)
	wantReason(t, i, "before", token, "")
	wantReason(t, i, "before, cached", token, "")
	p.set(keysPath, text(keySet(t, public("ES256"))))
	p.clock.Advance(31 * time.Second)
	wantReason(t, i, "unknown key", unknownKey(t, p, 1), invalidToken) // causes the fetch
	wantReason(t, i, "after", token, invalidToken)
	wantReason(t, i, "key that is kept", kept, "")
	p.set(keysPath, text(keySet(t)))
	p.clock.Advance(31 * time.Second)
	wantReason(t, i, "another unknown key", unknownKey(t, p, 2), invalidToken)
	wantReason(t, i, "no keys", kept, invalidToken)
}

func TestKeysAreRefreshedByMaxAge(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"": 5 * time.Minute, "no-store": 5 * time.Minute, "max-age=10": 5 * time.Minute, "public, Max-Age=3600": time.Hour, "max-age=999999": 24 * time.Hour, "max-age=-1": 5 * time.Minute, "max-age=99999999999999999999": 5 * time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := newBubbleProvider(t)
			p.set(keysPath, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Cache-Control", header)
				fmt.Fprint(w, allKeys(t))
			})
			i := p.bubbleIssuer(t, nil)
			for n, wait := range []time.Duration{want - time.Second, 2 * time.Second, want} {
				time.Sleep(wait)
				synctest.Wait()
				if got, want := p.count(keysPath), []int{1, 2, 3}[n]; got != want {
					t.Errorf("%q: %d fetches, want %d", header, got, want)
				}
			}
			wantReason(t, i, header, p.token(t, nil), "")
		})
	}
}

func TestKeysSurvive24HoursOfFailures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newBubbleProvider(t)
		var log lines
		i := p.bubbleIssuer(t, func(c *issuer.Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		p.set(keysPath, nil)
		p.set(discoveryPath, nil)
		time.Sleep(24*time.Hour - time.Second)
		token := p.token(t, nil)
		wantReason(t, i, "failures for a day", token, "")
		time.Sleep(2 * time.Second)
		wantReason(t, i, "known token after a day", token, unavailable)
		wantReason(t, i, "new token after a day", p.token(t, map[string]any{"sub": "bob"}), unavailable)
		if n := p.count(keysPath); n < 24*60 || n > 24*60+10 {
			t.Errorf("%d fetches within a day, want one in a minute", n)
		}
		p.set(keysPath, text(allKeys(t)))
		time.Sleep(time.Minute)
		synctest.Wait()
		wantReason(t, i, "recovered", token, "")
		if text := log.String(); !strings.Contains(text, "status 404") || !strings.Contains(text, "keys of the issuer fetched") {
			t.Errorf("log = %.400s, want failures and the recovery", text)
		}
	})
}

func TestTokensAreUnavailableUntilKeysArrive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newBubbleProvider(t)
		p.set(keysPath, nil)
		i := p.bubbleIssuer(t, nil)
		start, token := time.Now(), p.token(t, nil)
		for range 100 {
			wantReason(t, i, "no keys", token, unavailable)
		}
		if n := p.count(keysPath); n != 1 || time.Since(start) != 0 {
			t.Errorf("%d fetches within %s, want 1 within 0 s", n, time.Since(start))
		}
		wantReason(t, i, "other issuer", p.token(t, map[string]any{"iss": "x"}), badIssuer)
		time.Sleep(63 * time.Second) // 1, 2, 4, 8, 16, 32
		synctest.Wait()
		if n := p.count(keysPath); n != 7 {
			t.Errorf("%d fetches, want 7", n)
		}
		p.set(keysPath, text(allKeys(t)))
		time.Sleep(time.Minute)
		synctest.Wait()
		wantReason(t, i, "keys", token, "")
		p.set(keysPath, nil)
		before := p.count(keysPath)
		time.Sleep(5*time.Minute + 2*time.Second) // the next refresh, and 1 s after its failure
		synctest.Wait()
		if n := p.count(keysPath) - before; n < 2 {
			t.Errorf("%d fetches after the next refresh has failed, want 2: the pauses start again at 1 s", n)
		}
		i.Close()
		i.Close()
	})
}

func TestCloseInterruptsAFetch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newBubbleProvider(t)
		p.set(keysPath, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		i := p.bubbleIssuer(t, nil)
		start := time.Now()
		i.Close()
		if d := time.Since(start); d != 0 {
			t.Errorf("Close() took %s, want 0", d)
		}
	})
}

func TestKeysThatDoNotFitAreIgnored(t *testing.T) {
	t.Parallel()
	member := func(key jose.JSONWebKey, old, replacement string) string {
		return strings.Replace(strings.TrimSuffix(strings.TrimPrefix(keySet(t, key), `{"keys":[`), `]}`), old, replacement, 1)
	}
	ed, rs := public("EdDSA"), public("RS256")
	private := jose.JSONWebKey{Key: signers()["EdDSA"], KeyID: "eddsa"}
	for label, test := range map[string]struct{ keys, want string }{
		"usable":                 {member(ed, "", ""), ""},
		"no use, no alg":         {member(ed, `"use":"sig",`, ""), ""},
		"verify":                 {member(ed, `{`, `{"key_ops":["sign","verify"],`), ""},
		"for encryption":         {member(ed, `"use":"sig"`, `"use":"enc"`), invalidToken},
		"for other operations":   {member(ed, `{`, `{"key_ops":["encrypt"],`), invalidToken},
		"for no operations":      {member(ed, `{`, `{"key_ops":[],`), invalidToken},
		"invalid operations":     {member(ed, `{`, `{"key_ops":"verify",`), invalidToken},
		"another algorithm":      {member(ed, `"alg":"EdDSA"`, `"alg":"ES256"`), invalidToken},
		"unusual certificate":    {member(ed, `{`, `{"x5c":["AA=="],"x5t":"!","x5u":"::",`), ""},
		"private":                {member(private, "", ""), invalidToken},
		"symmetric":              {`{"kty":"oct","k":"AAAA","kid":"eddsa"}`, invalidToken},
		"kty of another type":    {`{"kty":1,"kid":"eddsa"}`, invalidToken},
		"no object":              {`1`, invalidToken},
		"the key id twice":       {member(ed, "", "") + "," + member(ed, "", ""), invalidToken},
		"same id, other types":   {member(rs, `"rs256"`, `"eddsa"`) + "," + member(ed, "", ""), ""},
		"beside unknown ones":    {`{"kty":"AKP","kid":"x","pub":"AA"},{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"},` + member(ed, "", ""), ""},
		"point not on the curve": {fmt.Sprintf(`{"kty":"EC","crv":"P-256","kid":"eddsa","x":%[1]q,"y":%[1]q}`, strings.Repeat("A", 43)), invalidToken},
	} {
		p := newProvider(t)
		p.set(keysPath, text(`{"keys":[`+test.keys+`]}`))
		wantReason(t, p.issuer(t, nil), label, p.token(t, nil), test.want)
	}
	p := newProvider(t)
	none := sign(t, "EdDSA", signers()["EdDSA"], `{"alg":"EdDSA","typ":"at+jwt"}`, p.claims(t, nil))
	second := jose.JSONWebKey{Key: newEd25519(t).Public(), KeyID: "second"}
	p.set(keysPath, text(keySet(t, ed, second, rs)))
	wantReason(t, p.issuer(t, nil), "without kid, two keys fit", none, invalidToken)

	small := newRSA(t, 1024)
	p.set(keysPath, text(keySet(t, jose.JSONWebKey{Key: small.Public(), KeyID: "small"})))
	weak := sign(t, "RS256", small, `{"alg":"RS256","kid":"small","typ":"at+jwt"}`, p.claims(t, nil))
	wantReason(t, p.issuer(t, nil), "RSA key of 1024 bits", weak, invalidToken)
}

func TestInvalidKeySetsKeepTheLastOne(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	i := p.issuer(t, nil)
	token := p.token(t, nil)
	other := newProvider(t)
	for label, answer := range map[string]http.HandlerFunc{
		"HTML": text("<html>"), "no keys": text(`{}`), "keys null": text(`{"keys":null}`), "keys of another type": text(`{"keys":{}}`), "duplicate": text(`{"keys":[],"keys":[]}`), "duplicate in a key": text(`{"keys":[{"kid":"a","kid":"b"}]}`), "list": text(`[]`), "empty": text(``),
		"too large":        text(`{"x":"` + strings.Repeat("x", 1<<20) + `","keys":[]}`),
		"too much space":   text(`{"keys":[]}` + strings.Repeat(" ", 1<<20)),
		"101 keys":         text(`{"keys":[` + strings.Repeat(`{},`, 100) + `{}]}`),
		"status 500":       func(w http.ResponseWriter, _ *http.Request) { http.Error(w, allKeys(t), 500) },
		"status 201":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(201); fmt.Fprint(w, `{"keys":[]}`) },
		"another host":     redirect(other.URL + keysPath),
		"redirect forever": redirect(keysPath),
	} {
		p.set(keysPath, answer)
		p.clock.Advance(31 * time.Second)
		before := p.count(keysPath)
		wantReason(t, i, label+", unknown key", unknownKey(t, p, 1), unavailable)
		wantReason(t, i, label, token, "")
		if p.count(keysPath) == before {
			t.Errorf("%s: no fetch: this test checks nothing", label)
		}
	}
	if n := other.count(keysPath); n != 0 {
		t.Errorf("%d requests to another host, want none", n)
	}
	p.set("/elsewhere", text(keySet(t, public("ES256"))))
	p.set(keysPath, redirect("/elsewhere"))
	p.clock.Advance(31 * time.Second)
	wantReason(t, i, "redirect on the same host, other key", p.tokenOf(t, "RS256", "at+jwt", map[string]any{"sub": "x"}), "")
	wantReason(t, i, "redirect on the same host", unknownKey(t, p, 2), invalidToken)
	wantReason(t, i, "removed by the set behind the redirect", token, invalidToken)
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
}

func TestConcurrentVerification(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	i := p.issuer(t, nil)
	var group sync.WaitGroup
	for n := range 8 {
		group.Go(func() {
			for round := range 20 {
				wantReason(t, i, "own token", p.token(t, map[string]any{"sub": fmt.Sprint(n, round%3)}), "")
				p.clock.Advance(time.Second)
				wantReason(t, i, "random kid", unknownKey(t, p, n*round), invalidToken)
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(await.Limit):
		t.Fatal("verification does not end")
	}
}
