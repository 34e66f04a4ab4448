package auth_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/auth"
	"github.com/holdfast-dev/holdfast/auth/did"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
)

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// agent is an agent that authenticates its callers, on loopback.
type agent struct {
	t     *testing.T
	url   string
	store store.Store
	log   *await.Buffer
}

// start starts an agent that replies with its caller.
func start(t *testing.T, cfg auth.Config, s store.Store, skills ...a2a.AgentSkill) *agent {
	t.Helper()
	g := &agent{t: t, store: s, log: new(await.Buffer)}
	cfg.Records, cfg.Logger = s, slog.New(slog.NewTextHandler(g.log, nil))
	a, err := auth.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	handler := func(_ context.Context, turn *engine.Turn) error {
		raw, err := json.Marshal(turn.Principal())
		if err != nil {
			return err
		}
		return turn.Reply(a2a.TextPart{Text: string(raw)})
	}
	e, err := engine.New(engine.Config{Store: s, NewID: newID, Handler: handler, Turns: engine.Turns{Admit: a.Admit(skills)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv, err := server.New(server.Config{Engine: e, Card: a2a.AgentCard{Name: "agent", Skills: skills}, Security: server.Security{Authenticator: a, Authorizer: a, Routes: a.Routes("agent")}})
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(srv)
	t.Cleanup(func() {
		ts.CloseClientConnections()
		ts.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.Stop(ctx)
	})
	g.url = ts.URL
	return g
}

// answer is a response.
type answer struct {
	status int
	header http.Header
	body   string
	Error  *struct {
		Code int            `json:"code"`
		Data map[string]any `json:"data"`
	} `json:"error"`
	Result struct {
		ID     string `json:"id"`
		Status struct {
			State   string `json:"state"`
			Message struct {
				Parts []struct {
					Text string `json:"text"`
				} `json:"parts"`
			} `json:"message"`
		} `json:"status"`
	} `json:"result"`
}

// reason returns the code and the reason of an error.
func (a answer) reason() string {
	if a.Error == nil {
		return "none"
	}
	return fmt.Sprintf("%d %d %v", a.status, a.Error.Code, a.Error.Data["reason"])
}

// sender returns the principal that the handler saw.
func (a answer) sender(t *testing.T) (p a2a.Principal) {
	t.Helper()
	if len(a.Result.Status.Message.Parts) != 1 {
		t.Fatalf("response = HTTP %d %s, want a reply", a.status, a.body)
	}
	if err := json.Unmarshal([]byte(a.Result.Status.Message.Parts[0].Text), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func (g *agent) do(verb, path, body string, h http.Header) (a answer) {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), verb, g.url+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	if h != nil {
		r.Header = h.Clone()
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	_ = json.Unmarshal(raw, &a) // a batch and an event are no objects
	a.status, a.header, a.body = resp.StatusCode, resp.Header, string(raw)
	return a
}

func request(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
}

// sendBody returns a request that sends a message and waits. more are further members of the message.
func sendBody(more ...string) string {
	members := append([]string{`"kind":"message"`, fmt.Sprintf(`"messageId":%q`, newID()), `"role":"user"`, `"parts":[{"kind":"text","text":"hello"}]`}, more...)
	return request(a2a.MethodSend, `{"message":{`+strings.Join(members, ",")+`},"configuration":{"blocking":true}}`)
}

func (g *agent) send(h http.Header, more ...string) answer {
	g.t.Helper()
	return g.do(http.MethodPost, "/", sendBody(more...), h)
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

func withToken(t *testing.T, token string) *http.Request {
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
	r.Header = bearer(token)
	return r
}

// tokens returns a scheme with tokens of principals by their text.
func tokens(t *testing.T, list map[string]a2a.Principal) auth.Tokens {
	t.Helper()
	var all []server.Token
	for text, p := range list {
		all = append(all, server.Token{Token: text, Principal: p})
	}
	accepted, err := server.NewTokens(all)
	if err != nil {
		t.Fatal(err)
	}
	return auth.Tokens{Accepted: accepted}
}

// headerScheme authenticates by a header with an id and, after a space, a scope.
type headerScheme struct{ name string }

func (s headerScheme) Declare() map[string]a2a.SecurityScheme {
	return map[string]a2a.SecurityScheme{s.name: a2a.APIKeySecurityScheme{In: a2a.InHeader, Name: s.name}}
}

func (s headerScheme) Challenge() auth.Challenge {
	return auth.Challenge{Scheme: "Header", Params: []string{"name", s.name}}
}

func (s headerScheme) Authenticate(r *http.Request) (string, a2a.Principal, error) {
	value := r.Header.Get(s.name)
	id, scope, _ := strings.Cut(value, " ")
	switch id {
	case "":
		return "", a2a.Principal{}, nil
	case "wrong":
		return "", a2a.Principal{}, &a2a.Error{Code: a2a.CodeUnauthenticated, Message: "wrong", Data: map[string]any{"reason": "invalid_token"}}
	}
	return s.name, a2a.Principal{ID: id, Scopes: []a2a.Scope{a2a.ScopeRead, a2a.ScopeWrite, a2a.Scope(scope)}, Credential: "c"}, nil
}

func TestRequirementsAreAlternativesOfCombinations(t *testing.T) {
	t.Parallel()
	g := start(t, auth.Config{
		Schemes: []auth.Scheme{headerScheme{"A"}, headerScheme{"B"}, headerScheme{"C"}},
		Require: []map[string][]string{{"A": {}, "B": {"x"}}, {"C": {"y"}}},
	}, inmem.New())
	for _, tt := range []struct {
		name string
		h    http.Header
		want string
	}{
		{"both of the first", http.Header{"A": {"a"}, "B": {"b x"}}, "a [A B]"},
		{"the second", http.Header{"C": {"c y"}}, "c [C]"},
		{"all", http.Header{"A": {"a"}, "B": {"b x"}, "C": {"c"}}, "a [A B]"},
		{"attack 20: half of the first", http.Header{"A": {"a"}}, "401 -32010 missing"},
		{"attack 20: the other half", http.Header{"B": {"b x"}}, "401 -32010 missing"},
		{"attack 20: a scope of another scheme", http.Header{"A": {"a x"}, "B": {"b"}}, "403 -32013 scope"},
		{"attack 20: halves of both", http.Header{"A": {"a"}, "C": {"c x"}}, "403 -32013 scope"},
		{"a wrong credential beside a valid one", http.Header{"C": {"c y"}, "A": {"wrong"}}, "401 -32010 invalid_token"},
		{"none", nil, "401 -32010 missing"},
		{"attack 9: two Authorization headers", http.Header{"C": {"c y"}, "Authorization": {"Bearer a", "Bearer b"}}, "401 -32010 invalid_token"},
		{"unknown credentials beside valid ones", http.Header{"C": {"c y"}, "Authorization": {"Bearer a"}}, "401 -32010 invalid_token"},
	} {
		got := g.send(tt.h)
		if strings.HasPrefix(tt.want, "4") {
			if got.reason() != tt.want {
				t.Errorf("%s = %s (%s), want %s", tt.name, got.reason(), got.body, tt.want)
			}
			if challenge := got.header.Get("WWW-Authenticate"); got.status == 401 && strings.Count(challenge, "Header realm=") != 3 {
				t.Errorf("%s: the challenge %s does not name every scheme", tt.name, challenge)
			}
			continue
		}
		if p := got.sender(t); fmt.Sprint(p.ID, " ", p.Schemes) != tt.want || p.Credential != p.Schemes[0]+":c" {
			t.Errorf("%s: the sender is %+v, want %s", tt.name, p, tt.want)
		}
	}
	if card := g.do(http.MethodGet, "/.well-known/agent-card.json", "", nil).body; !strings.Contains(card, `"security":[{"A":[],"B":["x"]},{"C":["y"]}]`) {
		t.Errorf("card = %s, want the requirements", card)
	}
	if list := g.do(http.MethodPost, "/", request(a2a.MethodList, "{}"), http.Header{"A": {"wrong"}}); list.status != 401 {
		t.Errorf("tasks/list = HTTP %d, want 401", list.status)
	}
}

func TestAnEmptyRequirementAcceptsRequestsWithoutCredentials(t *testing.T) {
	t.Parallel()
	g := start(t, auth.Config{Schemes: []auth.Scheme{headerScheme{"A"}}, Require: []map[string][]string{{"A": {}}, {}}}, inmem.New())
	if p := g.send(nil).sender(t); p.ID != a2a.Anonymous || p.Schemes != nil {
		t.Errorf("the sender is %+v, want the anonymous principal", p)
	}
	if p := g.send(http.Header{"A": {"a"}}).sender(t); p.ID != "a" {
		t.Errorf("the sender is %+v, want a", p)
	}
	if got := g.send(http.Header{"A": {"wrong"}}); got.status != 401 {
		t.Errorf("wrong credentials = HTTP %d, want 401", got.status)
	}
}

func TestConfigProblemsAreListed(t *testing.T) {
	t.Parallel()
	_, err := auth.New(auth.Config{Schemes: []auth.Scheme{headerScheme{"A"}, headerScheme{"A"}}, Require: []map[string][]string{{"B": {}}}, Roles: new(auth.Roles)})
	for _, want := range []string{`two schemes have the name "A"`, `Require[0] names the scheme "B", want one of A`, "Records is required"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New() = %v, want %s", err, want)
		}
	}
	if _, err := auth.New(auth.Config{}); err == nil || !strings.Contains(err.Error(), "at least one scheme") {
		t.Errorf("New() without a scheme = %v", err)
	}
}

// clock is a clock that tests set.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.at.Store(1_800_000_000)
	return c
}

func (c *clock) now() time.Time { return time.Unix(c.at.Load(), 0) }

// signer is a caller with a DID.
type signer struct {
	did string
	key ed25519.PrivateKey
}

func newSigner(t *testing.T, seed byte) signer {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	id, err := did.FromKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return signer{id, key}
}

// sign returns the headers of a signature over body.
func (s signer) sign(t *testing.T, body string, at time.Time) http.Header {
	t.Helper()
	h := make(http.Header)
	if err := did.Sign(h, s.did, s.key, []byte(body), at); err != nil {
		t.Fatal(err)
	}
	return h
}

func dids(t *testing.T, s store.Store, exclusive bool, now time.Time, allowed ...string) *auth.DIDs {
	t.Helper()
	r, err := did.NewResolver(did.ResolverConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return &auth.DIDs{Resolver: r, Allowed: allowed, Replays: auth.NewReplays(s, exclusive, now)}
}

func TestAttack16DIDSignatures(t *testing.T) {
	t.Parallel()
	alice, mallory, c := newSigner(t, 1), newSigner(t, 2), newClock()
	s := inmem.New()
	g := start(t, auth.Config{DIDs: dids(t, s, false, c.now(), alice.did), Now: c.now}, s)
	body := sendBody()
	signed := alice.sign(t, body, c.now())
	if p := g.do("POST", "/", body, signed).sender(t); p.ID != alice.did || p.DID != alice.did || p.Proof != a2a.ProofDID || p.Schemes[0] != auth.SchemeDID {
		t.Errorf("the sender is %+v, want %s with a proof", p, alice.did)
	}
	change := func(f func(h http.Header)) http.Header {
		h := alice.sign(t, body, c.now())
		f(h)
		return h
	}
	for _, tt := range []struct {
		name, body string
		h          http.Header
		want       string
	}{
		{"replay", body, signed, "403 -32012 replayed"},
		{"body changed", sendBody(), alice.sign(t, body, c.now()), "403 -32012 invalid_signature"},
		{"body written again", strings.Replace(body, ":", ": ", 1), alice.sign(t, body, c.now()), "403 -32012 invalid_signature"},
		{"301 s old", body, alice.sign(t, body, c.now().Add(-301*time.Second)), "403 -32012 invalid_signature"},
		{"301 s in the future", body, alice.sign(t, body, c.now().Add(301*time.Second)), "403 -32012 invalid_signature"},
		{"another's key", body, signer{alice.did, mallory.key}.sign(t, body, c.now()), "403 -32012 invalid_signature"},
		{"another DID", body, mallory.sign(t, body, c.now()), "401 -32010 missing"},
		{"two DIDs", body, change(func(h http.Header) { h.Add(did.HeaderDID, mallory.did) }), "403 -32012 missing_signature_headers"},
		{"no signature", body, change(func(h http.Header) { h.Del(did.HeaderSignature) }), "403 -32012 missing_signature_headers"},
		{"no DID that can be resolved", body, change(func(h http.Header) { h.Set(did.HeaderDID, "did:x:y") }), "401 -32010 missing"},
		{"no credentials", body, nil, "401 -32010 missing"},
		{"2 MiB and more", strings.Repeat(" ", did.MaxSignedBody) + body, alice.sign(t, body, c.now()), "403 -32051 payload_too_large"},
	} {
		got := g.do("POST", "/", tt.body, tt.h)
		if got.reason() != tt.want {
			t.Errorf("%s = %s (%s), want %s", tt.name, got.reason(), got.body, tt.want)
		}
	}
	for _, age := range []time.Duration{-299 * time.Second, 299 * time.Second} {
		if got := g.do("POST", "/", body, alice.sign(t, body, c.now().Add(age))); got.status != 200 {
			t.Errorf("a signature of %s from now = HTTP %d %s, want 200", age, got.status, got.body)
		}
	}
	batch := "[" + body + "," + body + "]"
	if got := g.do("POST", "/", batch, alice.sign(t, batch, c.now())); got.status != 200 || !strings.Contains(got.body, "completed") {
		t.Errorf("a signed batch = HTTP %d %s", got.status, got.body)
	}
	if got := g.do("GET", "/agent/info", "", alice.sign(t, "", c.now())); got.status != 200 {
		t.Errorf("a signed GET = HTTP %d %s", got.status, got.body)
	}
	if got := g.do("GET", "/agent/info", "", mallory.sign(t, "", c.now())); got.status != 401 {
		t.Errorf("a GET signed by another DID = HTTP %d %s", got.status, got.body)
	}
}

// A body that no signature can cover is rejected before it is received.
func TestLargeSignedBodiesAreNotRead(t *testing.T) {
	t.Parallel()
	alice, c := newSigner(t, 1), newClock()
	a, err := auth.New(auth.Config{DIDs: dids(t, inmem.New(), false, c.now(), alice.did), Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
	r.Header, r.ContentLength = alice.sign(t, "", c.now()), did.MaxSignedBody+1
	if _, err := a.Authenticate(r); a2a.CodeOf(err) != a2a.CodeTooLarge {
		t.Errorf("Authenticate() with %d bytes = %v, want too large", r.ContentLength, err)
	}
}

// A signature counts once: on other replicas, and after a restart.
func TestAttack16ReplaysElsewhere(t *testing.T) {
	t.Parallel()
	for _, exclusive := range []bool{false, true} {
		alice, c, s := newSigner(t, 1), newClock(), inmem.New()
		use := func(name string, g *agent, body string, h http.Header, want string) {
			t.Helper()
			if got := g.do("POST", "/", body, h); got.reason() != want {
				t.Errorf("exclusive %t, %s = %s (%s), want %s", exclusive, name, got.reason(), got.body, want)
			}
		}
		first := start(t, auth.Config{DIDs: dids(t, s, exclusive, c.now(), alice.did), Now: c.now}, s)
		const replayed = "403 -32012 replayed"
		soon, soonBody := alice.sign(t, "[]", c.now().Add(1)), "[]"
		use("shortly after the start", first, soonBody, soon, "200 -32600 <nil>")
		use("its replay", first, soonBody, soon, replayed)
		c.at.Add(1000)
		body := sendBody()
		now, future := alice.sign(t, body, c.now()), alice.sign(t, body, c.now().Add(200*time.Second))
		use("much later", first, body, now, "none")
		use("its replay", first, body, now, replayed)
		use("from the future", first, body, future, "none")
		use("its replay", first, body, future, replayed)
		c.at.Add(60)
		second := start(t, auth.Config{DIDs: dids(t, s, exclusive, c.now(), alice.did), Now: c.now}, s) // a replica, or the same after a restart
		use("replay elsewhere", second, body, now, replayed)
		use("replay from the future elsewhere", second, body, future, replayed)
		use("a new signature", second, body, alice.sign(t, body, c.now()), "none")
		c.at.Add(did.Window.Microseconds() / 1e6 * 3)
		use("an old signature", second, body, now, "403 -32012 invalid_signature")
	}
}

func TestDIDsOfTokensMustSign(t *testing.T) {
	t.Parallel()
	alice, mallory, c, s := newSigner(t, 1), newSigner(t, 2), newClock(), inmem.New()
	list := tokens(t, map[string]a2a.Principal{"bound": {ID: alice.did, DID: alice.did, Scopes: []a2a.Scope{a2a.ScopeWrite}}, "plain": {ID: "bob"}})
	g := start(t, auth.Config{Schemes: []auth.Scheme{list}, DIDs: dids(t, s, false, c.now()), Now: c.now}, s)
	body := sendBody()
	with := func(h http.Header, token string) http.Header {
		if h == nil {
			h = make(http.Header)
		}
		h.Set("Authorization", "Bearer "+token)
		return h
	}
	p := g.do("POST", "/", body, with(alice.sign(t, body, c.now()), "bound")).sender(t)
	if p.ID != alice.did || p.Proof != a2a.ProofDID || len(p.Schemes) != 2 || len(p.Scopes) != 1 {
		t.Errorf("the sender is %+v, want the DID with the token's scopes and a proof", p)
	}
	for _, tt := range []struct {
		name string
		h    http.Header
		want string
	}{
		{"no signature", with(nil, "bound"), "403 -32012 missing_signature_headers"},
		{"another's signature", with(mallory.sign(t, body, c.now()), "bound"), "403 -32012 did_mismatch"},
		{"a signature without the token", alice.sign(t, body, c.now()), "401 -32010 missing"},
		{"a signature with another token", with(alice.sign(t, body, c.now()), "plain"), "401 -32010 missing"},
	} {
		if got := g.do("POST", "/", body, tt.h); got.reason() != tt.want {
			t.Errorf("%s = %s (%s), want %s", tt.name, got.reason(), got.body, tt.want)
		}
	}
	if p := g.send(bearer("plain")).sender(t); p.ID != "bob" || p.Proof != "" {
		t.Errorf("the sender with another token is %+v, want bob", p)
	}
	without := start(t, auth.Config{Schemes: []auth.Scheme{list}}, s)
	if got := without.send(bearer("bound")); got.reason() != "401 -32010 signature" {
		t.Errorf("a token of a DID at an agent without DIDs = %s, want 401", got.reason())
	}
}

// blocked are principals that must not have access.
type blocked map[string]bool

func (b blocked) Disabled(_ context.Context, id string) (bool, error) {
	if id == "unknown" {
		return false, a2a.Errorf(a2a.CodeUnavailable, "the store does not respond")
	}
	return b[id], nil
}

func TestDisabledPrincipalsAndRemovedTokensHaveNoAccess(t *testing.T) {
	t.Parallel()
	list := tokens(t, map[string]a2a.Principal{"a": {ID: "alice"}, "b": {ID: "bob"}, "u": {ID: "unknown"}})
	off := blocked{"bob": true}
	a, err := auth.New(auth.Config{Schemes: []auth.Scheme{list}, Disabled: off})
	if err != nil {
		t.Fatal(err)
	}
	alice, err := a.Authenticate(withToken(t, "a"))
	if err != nil || a.Recheck(t.Context(), alice) != nil {
		t.Fatalf("Authenticate() = %+v, %v, want alice", alice, err)
	}
	for token, want := range map[string]a2a.Code{"b": a2a.CodeUnauthenticated, "u": a2a.CodeUnavailable} {
		if p, err := a.Authenticate(withToken(t, token)); a2a.CodeOf(err) != want {
			t.Errorf("Authenticate(%s) = %+v, %v, want %s", token, p, err, want)
		}
	}
	off["alice"] = true
	if err := a.Recheck(t.Context(), alice); a2a.CodeOf(err) != a2a.CodeUnauthenticated {
		t.Errorf("Recheck() of a disabled principal = %v, want unauthenticated", err)
	}
	delete(off, "alice")
	if err := list.Accepted.Set([]server.Token{{Token: "other", Principal: a2a.Principal{ID: "alice"}}}); err != nil {
		t.Fatal(err)
	}
	if err := a.Recheck(t.Context(), alice); a2a.CodeOf(err) != a2a.CodeUnauthenticated {
		t.Errorf("Recheck() after the token was removed = %v, want unauthenticated", err)
	}
}
