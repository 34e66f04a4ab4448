package safehttp

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// corpus returns the lines of a file: URL, tab, comment.
func corpus(t testing.TB, file string) (urls, comments []string) {
	t.Helper()
	f, err := os.Open("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		raw, comment, ok := strings.Cut(lines.Text(), "\t")
		if !ok {
			t.Fatalf("%s: line %q has no tab", file, lines.Text())
		}
		urls, comments = append(urls, raw), append(comments, comment)
	}
	return urls, comments
}

const ownAddr = "93.184.216.99"

func ownAddrs() ([]netip.Addr, error) { return list("127.0.0.1", ownAddr), nil }

// corpusAnswers are the answers to the names that the corpus gives them for.
var corpusAnswers = map[string][]netip.Addr{
	"rb4.attacker.example":  list("::1", public),
	"rb6.attacker.example":  list("64:ff9b::a9fe:a9fe"),
	"rb8.attacker.example":  list("0.0.0.0"),
	"rb10.attacker.example": list(ownAddr),
	"rb12.attacker.example": append(slices.Repeat(list(public), 63), list("127.0.0.1")...),
}

// scripted reports whether a line is about what happens after the URL was accepted.
func scripted(comment string) bool {
	return strings.HasPrefix(comment, "DNS{") || strings.HasPrefix(comment, "REDIRECT{") || strings.HasPrefix(comment, "HTTP{") || strings.HasPrefix(comment, "TLS{")
}

// Invariant 14.
func TestRejectedURLsCauseNoNetworkAccess(t *testing.T) {
	t.Parallel()
	urls, comments := corpus(t, "ssrf_corpus.txt")
	refusals := 0
	for i, raw := range urls {
		if scripted(comments[i]) {
			continue
		}
		refusals++
		names := fixed("127.0.0.1")
		dialer := &recorder{}
		c := newClient(t, ClientConfig{Resolver: names, Dialer: dialer, Policy: Policy{Local: ownAddrs}})
		if u, err := c.policy.CheckURL(raw); rule(err) == "" {
			t.Errorf("CheckURL(%q) = %v, %v, want a refusal: %s", raw, u, err, comments[i])
		}
		if err := c.Check(t.Context(), raw); rule(err) == "" {
			t.Errorf("Check(%q) = %v, want a refusal: %s", raw, err, comments[i])
		}
		if _, _, err := c.Fetch(t.Context(), raw, nil, 1, granted); outcome(err) != OutcomeRefused {
			t.Errorf("Fetch(%q) = %v, want it refused: %s", raw, err, comments[i])
		}
		if u, err := url.Parse(raw); err == nil {
			if _, err := c.Post(t.Context(), Request{URL: u}); outcome(err) != OutcomeRefused {
				t.Errorf("Post(%q) = %v, want it refused: %s", raw, err, comments[i])
			}
		}
		if n := names.calls.Load(); n != 0 {
			t.Errorf("%q was looked up %d times, want none: %s", raw, n, comments[i])
		}
		if d := dialer.seen(); len(d) != 0 {
			t.Errorf("%q led to connects to %v, want none: %s", raw, d, comments[i])
		}
	}
	if refusals < 90 {
		t.Errorf("%d lines of the corpus are refused at once, want at least 90: the file is cut", refusals)
	}
}

// Invariant 14: no connection is attempted.
func TestCorpusOfAnswersIsRefusedBeforeTheConnect(t *testing.T) {
	t.Parallel()
	urls, comments := corpus(t, "ssrf_corpus.txt")
	tried := 0
	for i, raw := range urls {
		if !strings.HasPrefix(comments[i], "DNS{") || strings.Contains(raw, "rb2.") {
			continue
		}
		tried++
		u := parse(t, raw)
		answers, ok := corpusAnswers[u.Host]
		if !ok {
			t.Errorf("no answers for %s: %s", u.Host, comments[i])
			continue
		}
		names, dialer := fixed(), &recorder{}
		names.answer = func(string, int64) ([]netip.Addr, error) { return answers, nil }
		c := newClient(t, ClientConfig{Resolver: names, Dialer: dialer, Policy: Policy{Local: ownAddrs}})
		if _, err := c.policy.CheckURL(raw); err != nil {
			t.Errorf("CheckURL(%q): %v", raw, err)
		}
		if err := c.Check(t.Context(), raw); rule(err) != "address" {
			t.Errorf("Check(%q) = %v, want the address refused", raw, err)
		} else if want := `host "` + u.Host + `" is not allowed`; err.Error() != want {
			t.Errorf("Check(%q) says %q, want %q and nothing about addresses", raw, err, want)
		}
		_, err := c.Post(t.Context(), Request{URL: u})
		if outcome(err) != OutcomeRefused {
			t.Errorf("Post(%q) = %v, want it refused: %s", raw, err, comments[i])
		}
		if n, d := names.calls.Load(), dialer.seen(); n != 2 || len(d) != 0 {
			t.Errorf("%q: %d look-ups and connects to %v, want one look-up for Check and Post each, and no connect", raw, n, d)
		}
	}
	if tried != len(corpusAnswers) {
		t.Errorf("%d lines give answers, want %d", tried, len(corpusAnswers))
	}
}

// Invariant 14: one look-up for each attempt.
func TestRebindingNameIsLookedUpOncePerAttempt(t *testing.T) {
	t.Parallel()
	names, dialer := turns(list(public), list("169.254.169.254")), &recorder{}
	c := newClient(t, ClientConfig{Resolver: names, Dialer: dialer})
	r := Request{URL: parse(t, "http://rb2.attacker.example/hook")}
	if _, err := c.Post(t.Context(), r); outcome(err) != OutcomeConnect || !errors.Is(err, errNoRoute) {
		t.Errorf("first Post = %v, want a connect to the first answer", err)
	}
	if n, d := names.calls.Load(), dialer.seen(); n != 1 || !slices.Equal(d, []string{public + ":80"}) {
		t.Errorf("first Post: %d look-ups, connects to %v, want one of each, to the first answer", n, d)
	}
	if _, err := c.Post(t.Context(), r); outcome(err) != OutcomeRefused {
		t.Errorf("second Post = %v, want it refused", err)
	}
	if n, d := names.calls.Load(), dialer.seen(); n != 2 || len(d) != 1 {
		t.Errorf("second Post: %d look-ups, connects to %v, want one more look-up and no connect", n, d)
	}
}

// hostileTLS are the lines of the corpus with hostile answers.
var hostileTLS = map[string]struct {
	handler http.HandlerFunc
	edit    func(*tls.Config)
	name    string
	status  int
	outcome string
}{
	"https://redir.attacker.example/302": {status: 302, handler: func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
	}},
	"https://redir.attacker.example/308same": {status: 308, handler: func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			panic("the redirect was followed")
		}
		http.Redirect(w, r, "/elsewhere", http.StatusPermanentRedirect)
	}},
	"https://bomb.attacker.example/gzip": {status: 200, handler: func(w http.ResponseWriter, r *http.Request) {
		if coding := r.Header.Get("Accept-Encoding"); coding != "" {
			panic("Accept-Encoding: " + coding)
		}
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		zeros := make([]byte, 1<<20)
		for range 64 {
			if _, err := z.Write(zeros); err != nil {
				return
			}
		}
	}},
	"https://bomb.attacker.example/slowbody": {outcome: OutcomeTimeout, handler: func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, "x")
			http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}},
	"https://bomb.attacker.example/bigheader": {outcome: OutcomeProtocol, handler: func(w http.ResponseWriter, _ *http.Request) {
		value := strings.Repeat("v", 1<<20)
		for i := range 16 {
			w.Header().Set("X-"+string(rune('a'+i)), value)
		}
	}},
	"https://auth.attacker.example/401": {status: 401, handler: func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			panic("credentials were sent")
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}},
	"https://tls.attacker.example/wrongname": {outcome: OutcomeTLS, name: "other.example"},
	"https://tls.attacker.example/tls10": {outcome: OutcomeTLS, edit: func(c *tls.Config) {
		c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	}},
}

func TestCorpusOfHostileAnswersDoesNoHarm(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	urls, comments := corpus(t, "ssrf_corpus.txt")
	tried := 0
	for i, raw := range urls {
		if !scripted(comments[i]) || strings.HasPrefix(comments[i], "DNS{") {
			continue
		}
		tried++
		t.Run(raw, func(t *testing.T) {
			t.Parallel()
			hostile, ok := hostileTLS[raw]
			if !ok {
				t.Fatalf("no server for %s", comments[i])
			}
			u, asked := parse(t, raw), 0
			if hostile.name == "" {
				hostile.name = u.Host
			}
			if hostile.handler == nil {
				hostile.handler = func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") }
			}
			server := ca.serveTLS(t, hostile.name, hostile.edit, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				hostile.handler(w, r)
			}))
			dialer := &recorder{real: server.Listener.Addr().String()}
			names := fixed(public)
			c := newClient(t, ClientConfig{Resolver: names, Dialer: dialer, RootCAs: ca.pool})
			limit := time.Minute
			if hostile.outcome == OutcomeTimeout {
				limit = 5 * time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			resp, err := c.Post(ctx, Request{URL: u, Body: []byte("{}")})
			if resp.Status != hostile.status || outcome(err) != hostile.outcome {
				t.Errorf("Post = %+v, %v, want status %d and outcome %q", resp, err, hostile.status, hostile.outcome)
			}
			if d := dialer.seen(); !slices.Equal(d, []string{public + ":443"}) || names.calls.Load() != 1 {
				t.Errorf("connects to %v after %d look-ups, want one to %s after one", d, names.calls.Load(), public)
			}
			if hostile.outcome != OutcomeTimeout && ctx.Err() != nil {
				t.Error("Post took until the deadline")
			}
			server.Close()
			if want := min(hostile.status, 1); hostile.outcome != OutcomeProtocol && hostile.outcome != OutcomeTimeout && asked != want {
				t.Errorf("%d requests, want %d", asked, want)
			}
		})
	}
	if tried != len(hostileTLS) {
		t.Errorf("%d lines give hostile answers, want %d", tried, len(hostileTLS))
	}
}

func TestCorpusOfGoodURLsIsDialedAtTheAnswer(t *testing.T) {
	t.Parallel()
	urls, _ := corpus(t, "ssrf_allow.txt")
	if len(urls) < 14 {
		t.Errorf("%d URLs, want at least 14: the file is cut", len(urls))
	}
	for _, raw := range urls {
		names, dialer := fixed(public), &recorder{}
		c := newClient(t, ClientConfig{Resolver: names, Dialer: dialer})
		if err := c.Check(t.Context(), raw); err != nil {
			t.Errorf("Check(%q): %v", raw, err)
		}
		u, err := c.policy.CheckURL(raw)
		if err != nil {
			t.Errorf("CheckURL(%q): %v", raw, err)
			continue
		}
		want := netip.MustParseAddr(public)
		if literal, err := netip.ParseAddr(u.Hostname()); err == nil {
			want = literal
		}
		port := map[string]uint16{"http": 80, "https": 443}[u.Scheme]
		to := netip.AddrPortFrom(want, port)
		_, err = c.Post(t.Context(), Request{URL: u})
		if e := (*Error)(nil); !errors.As(err, &e) || e.Outcome != OutcomeConnect || e.Address != to {
			t.Errorf("Post(%q) = %v, want a connect to %s", raw, err, to)
		}
		if d := dialer.seen(); !slices.Equal(d, []string{to.String()}) {
			t.Errorf("Post(%q): connects to %v, want %s", raw, d, to)
		}
	}
}
