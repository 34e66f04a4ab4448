package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
)

func TestRoutes(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	for _, test := range []struct {
		verb, path string
		status     int
		allow      string
	}{
		{"GET", "/", 200, ""},
		{"HEAD", "/", 200, ""},
		{"GET", "/.well-known/agent-card.json", 200, ""},
		{"GET", "/.well-known/agent.json", 200, ""},
		{"GET", "/agent/info", 200, ""},
		{"GET", "/agent/skills", 200, ""},
		{"GET", "/agent/skills/none", 404, ""},
		{"GET", "/health", 200, ""},
		{"GET", "/healthz", 200, ""},
		{"GET", "/readyz", 200, ""},
		{"GET", "/nope", 404, ""},
		{"POST", "/a2a", 404, ""},
		{"GET", "//", 404, ""},
		{"DELETE", "/", 405, "GET, HEAD, POST"},
		{"OPTIONS", "/", 405, "GET, HEAD, POST"},
		{"POST", "/health", 405, "GET, HEAD"},
		{"PUT", "/.well-known/agent-card.json", 405, "GET, HEAD"},
	} {
		got := e.do(test.verb, test.path, "", nil)
		if got.Status != test.status || got.Header.Get("Allow") != test.allow {
			t.Errorf("%s %s = HTTP %d, Allow %q, want %d, %q", test.verb, test.path, got.Status, got.Header.Get("Allow"), test.status, test.allow)
		}
		if kind := got.Header.Get("Content-Type"); kind != "application/json" {
			t.Errorf("%s %s: Content-Type %q, want application/json", test.verb, test.path, kind)
		}
		if test.status >= 400 && got.Error == nil {
			t.Errorf("%s %s = %s, want an error object", test.verb, test.path, got.Body)
		}
		if got.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s %s: headers %v, want nosniff", test.verb, test.path, got.Header)
		}
		if got.Header.Get("X-Request-Id") == "" || len(got.Header.Values("Access-Control-Allow-Origin")) > 0 {
			t.Errorf("%s %s: headers %v, want a request id and no CORS", test.verb, test.path, got.Header)
		}
	}
}

func TestCard(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	got := e.do("GET", "/.well-known/agent-card.json", "", nil)
	var card a2a.AgentCard
	if err := json.Unmarshal(got.Body, &card); err != nil {
		t.Fatal(err)
	}
	if card.URL != e.url+"/" || card.ProtocolVersion != "0.3.0" || card.PreferredTransport != "JSONRPC" {
		t.Errorf("card = %s, want the address it was fetched from and A2A 0.3.0 over JSON-RPC", got.Body)
	}
	if c := card.Capabilities; !c.Streaming || c.PushNotifications || !c.StateTransitionHistory || len(c.Extensions) != 8 {
		t.Errorf("capabilities = %+v", c)
	}
	if len(card.SecuritySchemes) != 0 || !strings.Contains(string(got.Body), `"skills":[]`) {
		t.Errorf("card = %s, want no security schemes and an empty list of skills", got.Body)
	}
	if other := e.do("GET", "/", "", headers{"X-Forwarded-Host", "evil.example", "X-Forwarded-Proto", "https"}); !bytes.Equal(other.Body, got.Body) {
		t.Errorf("card with forwarding headers = %s, want them ignored", other.Body)
	}

	fixed := start(t, echo, func(c *server.Config) {
		twoTokens(c)
		c.Card.URL = "https://agent.example/"
	}).do("GET", "/", "", nil)
	if !strings.Contains(string(fixed.Body), `"url":"https://agent.example/"`) ||
		!strings.Contains(string(fixed.Body), `"securitySchemes":{"bearer":{"type":"http","scheme":"bearer",`) {
		t.Errorf("card = %s, want the URL as configured and the bearer scheme", fixed.Body)
	}
}

func TestContentTypeAndSize(t *testing.T) {
	t.Parallel()
	e := start(t, echo, func(c *server.Config) { c.Requests.MaxBodyBytes = 1000 })
	small := `{"jsonrpc":"2.0","id":1,"method":"tasks/list"}`
	for _, test := range []struct {
		kind string
		want int
	}{
		{"", 200},
		{"application/json", 200},
		{"application/json; charset=utf-8", 200},
		{"Application/JSON", 200},
		{"application/a2a+json", 200},
		{"text/plain", 415},
		{"text/event-stream", 415},
		{"multipart/form-data", 415},
		{"text/x+json", 415},
		{"application/x-www-form-urlencoded", 415},
		{";", 415},
	} {
		r := e.request("POST", "/", small, headers{"Content-Type", test.kind})
		if test.kind == "" {
			r.Header.Del("Content-Type")
		}
		resp, err := e.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != test.want || test.want == 415 && !strings.Contains(string(raw), `"code":-32005`) {
			t.Errorf("Content-Type %q: HTTP %d %s, want %d", test.kind, resp.StatusCode, raw, test.want)
		}
	}
	fits := small + strings.Repeat(" ", 1000-len(small))
	if got := e.post(fits); got.Status != http.StatusOK {
		t.Errorf("1000 bytes: HTTP %d %s, want 200", got.Status, got.Body)
	}
	if got := e.post(fits + " "); got.Status != http.StatusRequestEntityTooLarge || got.code() != -32051 {
		t.Errorf("1001 bytes: HTTP %d %s, want 413 and -32051", got.Status, got.Body)
	}
	r := e.request("POST", "/", "", nil)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(fits+" ")), -1
	resp, err := e.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("1001 bytes of unknown length: HTTP %d, want 413", resp.StatusCode)
	}
	if got := e.post(small, "Content-Encoding", "gzip"); got.Status != http.StatusUnsupportedMediaType || got.code() != -32005 {
		t.Errorf("Content-Encoding gzip: HTTP %d %s, want 415 and -32005", got.Status, got.Body)
	}
	if got := e.post(small, "Content-Encoding", "identity"); got.Status != http.StatusOK {
		t.Errorf("Content-Encoding identity: HTTP %d %s, want 200", got.Status, got.Body)
	}
}

// Clients that send their whole request before they read would be reset by an early close.
func TestOversizedBodyResponseIsSentBeforeClose(t *testing.T) {
	t.Parallel()
	e := startEngine(t, newStore(), echo, func(c *server.Config) { c.Requests.MaxBodyBytes = 4 << 20 })
	addr, _ := e.listen()
	const chunk, chunks = 1 << 20, 100
	for head, format := range map[string]string{
		fmt.Sprintf("Content-Length: %d", chunk*chunks): "%[2]s", "Transfer-Encoding: chunked": "%[1]x\r\n%[2]s\r\n",
	} {
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", head)
		piece := fmt.Appendf(nil, format, chunk, make([]byte, chunk))
		for range chunks {
			if err == nil {
				_, err = conn.Write(piece)
			}
		}
		if err != nil {
			t.Errorf("%s: sending the body: %v, want it accepted", head, err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%s: response: %v", head, err)
			continue
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if want := "request body exceeds the limit of 4194304 bytes (--max-body)"; resp.StatusCode != http.StatusRequestEntityTooLarge || !strings.Contains(string(body), want) {
			t.Errorf("%s: HTTP %d %s, want 413 with %s", head, resp.StatusCode, body, want)
		}
	}
}

func TestIncompleteBodiesAreNotLoggedAsErrors(t *testing.T) {
	t.Parallel()
	var logged await.Buffer
	e := startEngine(t, newStore(), echo, func(c *server.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	})
	addr, _ := e.listen()
	for _, test := range []struct{ head, body, want string }{
		{"Content-Length: 100", "{", "shorter than its Content-Length"},
		{"Transfer-Encoding: chunked", "zz\r\n", "could not read the request body"},
	} {
		var d net.Dialer
		conn, err := d.DialContext(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n%s", test.head, test.body)
		_ = conn.(*net.TCPConn).CloseWrite()
		answer, _ := io.ReadAll(conn)
		_ = conn.Close()
		if got := string(answer); !strings.HasPrefix(got, "HTTP/1.1 400 ") || !strings.Contains(got, test.want) {
			t.Errorf("%s = %s, want HTTP 400 with %q", test.head, got, test.want)
		}
	}
	if got := logged.String(); got != "" {
		t.Errorf("log = %s, want nothing: the client caused the error", got)
	}
}

func TestAuthentication(t *testing.T) {
	t.Parallel()
	e := start(t, echo, twoTokens)
	body := `{"jsonrpc":"2.0","id":1,"method":"tasks/list"}`
	for _, test := range []struct {
		name, verb, path string
		authorization    string
		want             int
	}{
		{"known", "POST", "/", "Bearer alice-token", 200},
		{"scheme in another case", "POST", "/", "bearer alice-token", 200},
		{"none", "POST", "/", "", 401},
		{"unknown", "POST", "/", "Bearer mallory-token", 401},
		{"a part", "POST", "/", "Bearer alice-toke", 401},
		{"empty", "POST", "/", "Bearer ", 401},
		{"another scheme", "POST", "/", "Basic YWxpY2UtdG9rZW4=", 401},
		{"bare", "POST", "/", "alice-token", 401},
		{"health", "GET", "/health", "", 401},
		{"health known", "GET", "/health", "Bearer bob-token", 200},
		{"info", "GET", "/agent/info", "", 401},
		{"unknown path", "GET", "/nope", "", 401},
		{"card", "GET", "/.well-known/agent-card.json", "", 200},
		{"card at the root", "GET", "/", "", 200},
		{"alive", "GET", "/healthz", "", 200},
		{"ready", "GET", "/readyz", "", 200},
		{"wrong verb", "DELETE", "/", "", 401},
	} {
		h := headers{}
		if test.authorization != "" {
			h = headers{"Authorization", test.authorization}
		}
		got := e.do(test.verb, test.path, body, h)
		if got.Status != test.want {
			t.Errorf("%s: HTTP %d, want %d", test.name, got.Status, test.want)
		}
		if test.want != 401 {
			continue
		}
		id := "null"
		if test.verb == "POST" {
			id = "1"
		}
		if challenge := got.Header.Get("WWW-Authenticate"); !strings.HasPrefix(challenge, "Bearer") || got.code() != -32010 || string(got.ID) != id {
			t.Errorf("%s: WWW-Authenticate %q, %s, want a challenge and -32010 with id %s", test.name, challenge, got.Body, id)
		}
	}
}

func TestWebPagesAndCORS(t *testing.T) {
	t.Parallel()
	body := `{"jsonrpc":"2.0","id":1,"method":"tasks/list"}`
	const listed, unlisted = "https://app.example", "https://evil.example"
	for _, test := range []struct {
		name    string
		origins []string
		origin  string
		status  int
		allowed string
	}{
		{"no browser", nil, "", 200, ""},
		{"a page elsewhere", nil, unlisted, 403, ""},
		{"a listed page", []string{listed}, listed, 200, listed},
		{"a page that is not listed", []string{listed}, unlisted, 403, ""},
		{"any page", []string{"*"}, unlisted, 200, unlisted},
	} {
		e := start(t, echo, func(c *server.Config) { c.Security.CORSOrigins = test.origins })
		h := headers{}
		if test.origin != "" {
			h = headers{"Origin", test.origin}
		}
		got := e.post(body, h...)
		if allowed := got.Header.Get("Access-Control-Allow-Origin"); got.Status != test.status || allowed != test.allowed {
			t.Errorf("%s: HTTP %d, allowed %q, want %d, %q", test.name, got.Status, allowed, test.status, test.allowed)
		}
		pre := e.do("OPTIONS", "/", "", append(h, "Access-Control-Request-Method", "POST"))
		if (pre.Status == http.StatusNoContent) != (test.allowed != "") || pre.Header.Get("Access-Control-Allow-Origin") != test.allowed {
			t.Errorf("%s: preflight HTTP %d %v, want success only if allowed", test.name, pre.Status, pre.Header)
		}
	}
}

// The owner of a page can point its host name at this machine (DNS rebinding). The page must
// not reach the server then, because browsers treat such a page and this server as one origin.
func TestDNSRebindingIsRejected(t *testing.T) {
	t.Parallel()
	body := `{"jsonrpc":"2.0","id":1,"method":"tasks/list"}`
	own := func(c *server.Config) { c.Card.URL = "https://agent.example/" }
	for _, test := range []struct {
		name   string
		change func(*server.Config)
		host   string
		h      headers
		post   int // POST /
		get    int // of the card, /agent/info and /health
	}{
		{"a page's own name", nil, "evil.example:3773", headers{"Origin", "http://evil.example:3773"}, 403, 403},
		{"no browser", nil, "evil.example:3773", nil, 200, 403},
		{"localhost", nil, "localhost:3773", headers{"Origin", "http://localhost:3773"}, 200, 200},
		{"below localhost", nil, "app.localhost", headers{"Origin", "http://app.localhost"}, 200, 200},
		{"address", nil, "127.0.0.1:3773", headers{"Origin", "http://127.0.0.1:3773"}, 200, 200},
		{"address of version 6", nil, "[::1]:3773", headers{"Origin", "http://[::1]:3773"}, 200, 200},
		{"the configured name", own, "Agent.example", headers{"Origin", "https://Agent.example"}, 200, 200},
		{"a name that ends with the configured one", own, "evil-agent.example", headers{"Origin", "http://evil-agent.example"}, 403, 403},
		{"a name that ends with localhost", nil, "app.evil-localhost", headers{"Origin", "http://app.evil-localhost"}, 403, 403},
		{"another name", own, "evil.example", headers{"Origin", "http://evil.example"}, 403, 403},
		{"with a token", twoTokens, "any.example", headers{"Origin", "http://any.example", "Authorization", "Bearer alice-token"}, 200, 200},
		{"the name of a container", nil, "agent:3773", nil, 200, 200},
		{"any page", func(c *server.Config) { c.Security.CORSOrigins = []string{"*"} }, "evil.example", nil, 200, 200},
		{"a listed name", func(c *server.Config) { c.Security.CORSOrigins = []string{"http://app.example"} }, "app.example", headers{"Origin", "http://app.example"}, 200, 200},
	} {
		e := start(t, echo, test.change)
		check := func(verb, path, body string, want int) {
			t.Helper()
			r := e.request(verb, path, body, test.h)
			r.Host = test.host
			resp, err := e.client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s: %s %s = HTTP %d, want %d", test.name, verb, path, resp.StatusCode, want)
			}
		}
		check("POST", "/", body, test.post)
		for _, path := range []string{"/", "/.well-known/agent-card.json", "/agent/info", "/health"} {
			check("GET", path, "", test.get)
			check("HEAD", path, "", test.get)
		}
		if test.h == nil { // load balancers choose the host name
			check("GET", "/healthz", "", 200)
			check("GET", "/readyz", "", 200)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	e := start(t, echo, nil)
	for _, test := range []struct {
		given string
		used  bool
	}{
		{"abc-123_X.y:z/1", true},
		{strings.Repeat("x", 128), true},
		{strings.Repeat("x", 129), false},
		{"a b", false},
		{`a"b`, false},
	} {
		got := e.call("tasks/get", `{"id":"x"}`, "X-Request-Id", test.given)
		id := got.Header.Get("X-Request-Id")
		if (id == test.given) != test.used || id == "" || got.Error.Data["requestId"] != id {
			t.Errorf("X-Request-Id %q: header %q, data %v, want it used: %t", test.given, id, got.Error.Data, test.used)
		}
	}
	seen := make(map[string]bool)
	for range 3 {
		id := e.do("GET", "/healthz", "", nil).Header.Get("X-Request-Id")
		if seen[id] || id == "" {
			t.Errorf("X-Request-Id of a request without one = %q after %v, want a new one", id, seen)
		}
		seen[id] = true
	}
}

// faultyStore is a store that fails or panics when a task is read.
type faultyStore struct {
	store.Store
	task func() error
}

func (f faultyStore) Task(ctx context.Context, key store.Key, opts store.TaskOptions) (*store.Task, error) {
	if f.task != nil {
		if err := f.task(); err != nil {
			return nil, err
		}
	}
	return f.Store.Task(ctx, key, opts)
}

func (f faultyStore) Ping(context.Context) error { return fmt.Errorf("disk is full") }

func TestInternalErrorsAreNotExposed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		task    func() error
		status  int
		code    int
		message string
	}{
		{"error", func() error { return fmt.Errorf("read /srv/data: password hunter2") }, 200, -32603, "internal error"},
		{"panic", func() error { panic("hunter2") }, 500, -32603, "internal error"},
		{"for the caller", func() error {
			return fmt.Errorf("task: %w", a2a.Wrap(a2a.CodeUnavailable, fmt.Errorf("hunter2"), "the disk is full"))
		}, 200, -32053, "the disk is full"},
		{"deadline", func() error { return fmt.Errorf("hunter2: %w", context.DeadlineExceeded) }, 200, -32053, "the request timed out; retry later"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var logged await.Buffer
			e := startOn(t, faultyStore{newStore(), test.task}, echo, func(c *server.Config) {
				c.Logger = slog.New(slog.NewTextHandler(&logged, nil))
			})
			got := e.call("tasks/get", `{"id":"x"}`)
			if got.Status != test.status || got.code() != test.code || got.Error.Message != test.message || strings.Contains(string(got.Body), "hunter2") {
				t.Errorf("answer = HTTP %d %s, want HTTP %d, %d %s", got.Status, got.Body, test.status, test.code, test.message)
			}
			if text := logged.String(); !strings.Contains(text, "hunter2") || !strings.Contains(text, got.Header.Get("X-Request-Id")) {
				t.Errorf("log = %s, want the error and the request id", text)
			}
			if again := e.call("tasks/list", `{}`); again.code() != 0 {
				t.Errorf("the next request = %s, want success", again.Body)
			}
		})
	}
}

func TestHealthReportsProblems(t *testing.T) {
	t.Parallel()
	e := startOn(t, faultyStore{newStore(), nil}, echo, nil)
	got := e.do("GET", "/health", "", nil)
	if got.Status != http.StatusServiceUnavailable || !strings.Contains(string(got.Body), `"store: disk is full"`) {
		t.Errorf("/health = HTTP %d %s, want 503 and the problem", got.Status, got.Body)
	}
	if got := e.do("GET", "/readyz", "", nil); got.Status != http.StatusServiceUnavailable || strings.Contains(string(got.Body), "disk") {
		t.Errorf("/readyz = HTTP %d %s, want 503 without details", got.Status, got.Body)
	}
	if got := e.do("GET", "/healthz", "", nil); got.Status != http.StatusOK {
		t.Errorf("/healthz = HTTP %d, want 200", got.Status)
	}
}

func TestHealthCountsExpiredTasks(t *testing.T) {
	t.Parallel()
	s := newStore()
	m := a2a.Message{ID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: "x"}}}
	old := store.Time(time.Now().Add(-100 * 24 * time.Hour))
	if _, err := s.Commit(t.Context(), store.Change{
		Key: store.Key{Owner: "alice", ID: "old"}, Create: &store.Create{ContextID: "c"}, Queue: &store.QueueEntry{Phase: store.PhaseIdle, Turn: 1},
		Events: []store.Event{{Time: old, State: a2a.StateSubmitted, Received: &m}, {Time: old, State: a2a.StateFailed}},
	}); err != nil {
		t.Fatal(err)
	}
	e := startConfig(t, engine.Config{Store: s, Handler: echo, NewID: newID, Retention: engine.Retention{"failed": 24 * time.Hour}}, nil)
	ts := httptest.NewServer(e.server)
	t.Cleanup(ts.Close)
	e.url, e.client = ts.URL, ts.Client()
	await.Success(t, func() error {
		if body := string(e.do("GET", "/health", "", nil).Body); !strings.Contains(body, `"expired":{"tasks":1,"contexts":1,"idempotencyRecords":0,`) {
			return fmt.Errorf("/health = %s, want an expired task and its context", body)
		}
		return nil
	})
}

func TestLogsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	var logged await.Buffer
	e := start(t, echo, func(c *server.Config) {
		twoTokens(c)
		c.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Logger.Debug("config", "tokens", aliceAndBob, "token", aliceAndBob[0], "authenticator", c.Security.Authenticator)
	})
	task := e.send("confidential", as("alice")...)
	e.call("tasks/get", `{"id":"x"}`, "Authorization", "Bearer wrong-token")
	text := logged.String()
	for _, secret := range []string{"alice-token", "bob-token", "wrong-token", "confidential"} {
		if strings.Contains(text, secret) {
			t.Errorf("log has %q: %s", secret, text)
		}
	}
	for _, want := range []string{"msg=request ", "method=message/send", "task=" + task.ID, "status=200", "status=401", "duration="} {
		if !strings.Contains(text, want) {
			t.Errorf("log lacks %q: %s", want, text)
		}
	}
}

func TestNewReportsAllConfigErrors(t *testing.T) {
	t.Parallel()
	_, err := server.New(server.Config{
		Card: a2a.AgentCard{URL: "agent.example.com"}, Requests: server.Requests{MaxBodyBytes: -1, Heartbeat: -time.Second}, Security: server.Security{CORSOrigins: []string{"example.com"}},
	})
	_, invalid := server.NewTokens([]server.Token{{}, {Token: "same", Principal: a2a.Principal{ID: "a"}}, {Token: "same", Principal: a2a.Principal{ID: "b"}}})
	if err == nil || invalid == nil {
		t.Fatal("New() = nil error, want all problems")
	}
	err = errors.Join(err, invalid)
	for _, want := range []string{"Engine is required", "Card.Name is required", `Card.URL: "agent.example.com" is not a URL such as https://agent.example.com/`, "MaxBodyBytes is -1", "Heartbeat is -1s", `CORSOrigins: "example.com" is not an origin such as https://example.com`, "Tokens[0]: the token must be", "Tokens[0]: the principal has no id", "Tokens[2] is the same token as Tokens[1]"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("New() = %v, want it to contain %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "same\"") {
		t.Errorf("New() = %v, want no token in it", err)
	}
}

func TestServeStopsGracefully(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := make(chan int)
		e := startEngine(t, newStore(), stepHandler(next), nil)
		_, stop := e.servePipe(t)
		s := e.open("message/stream", params(message("hi")))
		_, _ = s.next()
		_, _ = s.next()
		ended, answered := make(chan []event, 1), make(chan taskView, 1)
		go func() { ended <- s.rest() }()
		go func() { answered <- e.send("blocked") }()
		synctest.Wait()
		go func() {
			if left := <-ended; len(left) != 0 {
				t.Errorf("the stream sent %s, want it to end before the task does", ids(left))
			}
			close(next) // both tasks end while the server stops
		}()
		stop()
		if got := <-answered; got.Status.State != "completed" {
			t.Errorf("the blocking request was answered with %s, want completed", got.Status.State)
		}
		rec := httptest.NewRecorder()
		e.server.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/readyz", nil))
		if rec.Code != http.StatusServiceUnavailable {
			t.Errorf("/readyz after the stop = HTTP %d, want 503", rec.Code)
		}
	})
}

func TestServeAnswersBlockingRequestsAfterStopGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		next := make(chan int)
		e := startEngine(t, newStore(), stepHandler(next), nil)
		_, stop := e.servePipe(t)
		done := make(chan taskView, 1)
		go func() { done <- e.send("blocked") }()
		synctest.Wait()
		started := time.Now()
		go func() {
			got := <-done
			if took := time.Since(started); took != 10*time.Second || got.Status.State != "working" {
				t.Errorf("response %s after %s, want working after 10s", got.Status.State, took)
			}
			close(next)
		}()
		stop()
	})
}

func TestSlowRequestsAreCutOff(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, sent string
		within     time.Duration
	}{
		{"head", "POST / HTTP/1.1\r\nHost: x\r\n", 10 * time.Second},
		{"body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", time.Minute},
		{"nothing", "", 2 * time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := startEngine(t, newStore(), echo, nil)
				l, stop := e.servePipe(t)
				defer stop()
				conn, err := l.dial(t.Context(), "", "")
				if err != nil {
					t.Fatal(err)
				}
				started := time.Now()
				go func() { _, _ = io.WriteString(conn, test.sent) }()
				_, _ = io.Copy(io.Discard, conn)
				if took := time.Since(started); took > test.within+time.Second {
					t.Errorf("connection was closed after %s, want within %s", took, test.within)
				}
			})
		})
	}
}

func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	e := startEngine(t, newStore(), echo, nil)
	addr, _ := e.listen()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	go func() { _, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nA: "+strings.Repeat("x", 200<<10)) }()
	head := make([]byte, 12)
	if _, err := io.ReadFull(conn, head); err != nil || string(head) != "HTTP/1.1 431" {
		t.Errorf("answer = %q (%v), want HTTP 431", head, err)
	}
}
