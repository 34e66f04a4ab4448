package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/internal/config"
)

// call is a JSON-RPC request as seen by a server.
type call struct {
	Method string          `json:"method"`
	ID     json.RawMessage `json:"id"`
	Params json.RawMessage `json:"params"`
	header http.Header
}

// serve starts a server that passes each parsed request to handle.
func serve(t *testing.T, handle func(w http.ResponseWriter, c call)) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := call{header: r.Header}
		if r.Method == http.MethodGet {
			c.Method = r.URL.Path
		} else if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			t.Errorf("request is not JSON: %v", err)
		}
		handle(w, c)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func newClient(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.New(cfg)
	if err != nil {
		t.Fatalf("New() = %v", err)
	}
	return c
}

func answer(w http.ResponseWriter, result string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":`+result+`}`)
}

const workingTask = `{"kind":"task","id":"t1","contextId":"c1","status":{"state":"working"}}`

func TestSendPostsTheMessage(t *testing.T) {
	t.Parallel()
	var got call
	url := serve(t, func(w http.ResponseWriter, c call) {
		got = c
		answer(w, workingTask)
	})
	c := newClient(t, client.Config{URL: url, Token: "sesame", Header: http.Header{"X-Trace": {"7"}}})
	event, err := c.Send(t.Context(), client.SendParams{Message: client.Text("hello"), IdempotencyKey: "k1"})
	if err != nil {
		t.Fatalf("Send() = %v", err)
	}
	if task, ok := event.(*a2a.Task); !ok || task.ID != "t1" || task.Status.State != a2a.StateWorking {
		t.Errorf("Send() = %+v, want task t1, working", event)
	}
	var params struct{ Message map[string]any }
	if err := json.Unmarshal(got.Params, &params); err != nil {
		t.Fatal(err)
	}
	if id, _ := params.Message["messageId"].(string); len(id) != 36 {
		t.Errorf("messageId = %q, want a UUID", id)
	}
	if got.Method != "message/send" || params.Message["role"] != "user" || params.Message["kind"] != "message" {
		t.Errorf("sent %s %s, want message/send of a user's message", got.Method, got.Params)
	}
	for name, want := range map[string]string{"Authorization": "Bearer sesame", "X-Trace": "7", "Idempotency-Key": "k1", "Content-Type": "application/json"} {
		if value := got.header.Get(name); value != want {
			t.Errorf("header %s = %q, want %q", name, value, want)
		}
	}
}

func TestSendReturnsAMessage(t *testing.T) {
	t.Parallel()
	url := serve(t, func(w http.ResponseWriter, _ call) {
		answer(w, `{"kind":"message","messageId":"m","role":"agent","parts":[{"kind":"text","text":"hi"}]}`)
	})
	event, err := newClient(t, client.Config{URL: url}).Send(t.Context(), client.SendParams{Message: client.Text("hello")})
	if m, ok := event.(*a2a.Message); err != nil || !ok || m.Text() != "hi" {
		t.Errorf("Send() = %v, %v, want the message hi", event, err)
	}
}

func TestErrorsCarryACode(t *testing.T) {
	t.Parallel()
	reply := func(status int, body string) func(http.ResponseWriter, call) {
		return func(w http.ResponseWriter, _ call) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	rpcError := func(code, more string) string {
		return `{"jsonrpc":"2.0","id":1,"error":{"code":` + code + `,"message":"no"` + more + `}}`
	}
	tests := []struct {
		name   string
		handle func(http.ResponseWriter, call)
		want   a2a.Code
		text   string
	}{
		{"task not found", reply(200, rpcError("-32001", "")), a2a.CodeTaskNotFound, "no"},
		{"unauthenticated by JSON-RPC", reply(401, rpcError("-32010", "")), a2a.CodeUnauthenticated, "no"},
		{"an unknown number", reply(200, rpcError("-1", `,"data":"x"`)), a2a.CodeInternal, "no"},
		{"an unknown number with a status", reply(429, rpcError("-1", "")), a2a.CodeExhausted, "no"},
		{"401", reply(401, "go away"), a2a.CodeUnauthenticated, "token is missing"},
		{"403", reply(403, ""), a2a.CodeDenied, "does not allow"},
		{"404", reply(404, "not found"), a2a.CodeInvalidAgentResponse, "is that the URL of an A2A agent?"},
		{"405", reply(405, ""), a2a.CodeInvalidAgentResponse, "405"},
		{"413", reply(413, ""), a2a.CodeTooLarge, "larger than the agent accepts"},
		{"429", reply(429, ""), a2a.CodeExhausted, "later"},
		{"500", reply(500, "oops"), a2a.CodeInternal, "500"},
		{"502", reply(502, "<html>"), a2a.CodeUnavailable, "not available"},
		{"503", reply(503, ""), a2a.CodeUnavailable, "not available"},
		{"HTML", reply(200, "<html>hello"), a2a.CodeInvalidAgentResponse, `starts with "<html>hello"`},
		{"empty", reply(200, ""), a2a.CodeInvalidAgentResponse, "not JSON-RPC"},
		{"other JSON", reply(200, `{"hello":1}`), a2a.CodeInvalidAgentResponse, "neither result nor error"},
		{"an array", reply(200, `[]`), a2a.CodeInvalidAgentResponse, "not JSON-RPC"},
		{"another id", reply(200, `{"jsonrpc":"2.0","id":2,"result":{}}`), a2a.CodeInvalidAgentResponse, "another request"},
		{"a result of another shape", reply(200, `{"jsonrpc":"2.0","id":1,"result":{"id":7}}`), a2a.CodeInvalidAgentResponse, "tasks/get"},
		{"too large", reply(200, strings.Repeat(" ", 5000)), a2a.CodeTooLarge, "larger than 4096 bytes"},
		{"a redirect", func(w http.ResponseWriter, c call) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(http.StatusMovedPermanently)
		}, a2a.CodeInvalidAgentResponse, "moved to http://"},
		{"cut off", func(w http.ResponseWriter, _ call) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"jsonrpc"`)
		}, a2a.CodeUnavailable, "lost before the end"},
		{"a stream", func(w http.ResponseWriter, _ call) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: x\n\n")
		}, a2a.CodeInvalidAgentResponse, "is a stream"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newClient(t, client.Config{URL: serve(t, tt.handle), Token: "sesame", MaxResponseBytes: 4096})
			_, err := c.Task(t.Context(), a2a.TaskQueryParams{ID: "t1"})
			var e *a2a.Error
			if !errors.As(err, &e) || e.Code != tt.want || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("Task() = %v (code %s), want code %s and %q", err, a2a.CodeOf(err), tt.want, tt.text)
			}
			if err != nil && strings.Contains(err.Error(), "sesame") {
				t.Errorf("Task() = %v, want no token in it", err)
			}
		})
	}
}

func TestConnectionRefused(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(nil)
	s.Close()
	_, err := newClient(t, client.Config{URL: s.URL}).Card(t.Context())
	if !errors.Is(err, a2a.ErrUnavailable) || !strings.Contains(err.Error(), "nothing listens at 127.0.0.1:") {
		t.Errorf("Card() = %v, want unavailable and the address", err)
	}
}

func TestContextEndsACall(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	url := serve(t, func(http.ResponseWriter, call) { <-release })
	t.Cleanup(func() { close(release) })
	why := errors.New("had enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, why)
	defer cancel()
	if _, err := newClient(t, client.Config{URL: url}).Call(ctx, "x/y", nil); !errors.Is(err, why) {
		t.Errorf("Call() = %v, want the cause of its context", err)
	}
}

func TestCall(t *testing.T) {
	t.Parallel()
	var got call
	url := serve(t, func(w http.ResponseWriter, c call) {
		got = c
		answer(w, "null")
	})
	c := newClient(t, client.Config{URL: url})
	if raw, err := c.Call(t.Context(), "x/y", json.RawMessage(`{"a_b":1}`)); err != nil || string(raw) != "null" {
		t.Errorf("Call() = %s, %v, want null", raw, err)
	}
	if got.Method != "x/y" || string(got.Params) != `{"a_b":1}` {
		t.Errorf("sent %s %s, want the params unchanged", got.Method, got.Params)
	}
	if _, err := c.Call(t.Context(), "x/y", json.RawMessage(`{"a":`)); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("Call(malformed params) = %v, want %s", err, a2a.CodeInvalid)
	}
}

func TestCardIsFoundAtAllWellKnownPaths(t *testing.T) {
	t.Parallel()
	const card = `{"protocolVersion":"0.3.0","name":"n","description":"d","url":"u","version":"1","capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"skills":[]}`
	for _, place := range []string{"/agents/a/.well-known/agent-card.json", "/agents/a/.well-known/agent.json", "/.well-known/agent-card.json", "/.well-known/agent.json"} {
		url := serve(t, func(w http.ResponseWriter, c call) {
			if c.Method != place {
				http.NotFound(w, nil)
				return
			}
			_, _ = io.WriteString(w, card)
		})
		got, err := newClient(t, client.Config{URL: url + "/agents/a"}).Card(t.Context())
		if err != nil || got.Name != "n" {
			t.Errorf("Card() with the card at %s = %v, %v", place, got, err)
		}
	}
	url := serve(t, func(w http.ResponseWriter, _ call) { http.NotFound(w, nil) })
	if _, err := newClient(t, client.Config{URL: url}).Card(t.Context()); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("Card() of a server without one = %v, want 404 in it", err)
	}
}

func TestTasksReadsAllPages(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"":  `{"tasks":[` + workingTask + `,` + workingTask + `],"nextPageToken":"b","pageSize":2}`,
		"b": `{"tasks":[` + workingTask + `],"nextPageToken":"","pageSize":2}`,
	}
	url := serve(t, func(w http.ResponseWriter, c call) {
		var p struct{ PageToken, ContextID string }
		if err := json.Unmarshal(c.Params, &p); err != nil || p.ContextID != "c1" {
			t.Errorf("params = %s, want the filter on every page", c.Params)
		}
		answer(w, pages[p.PageToken])
	})
	n := 0
	for _, err := range newClient(t, client.Config{URL: url}).Tasks(t.Context(), a2a.ListTasksParams{ContextID: "c1"}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 3 {
		t.Errorf("Tasks() yields %d tasks, want 3", n)
	}
}

func TestNewReportsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := client.New(client.Config{URL: "ftp://x", Token: "a\nb", MaxResponseBytes: -1})
	var invalid *config.Error
	if !errors.As(err, &invalid) {
		t.Fatalf("New() = %v, want a *config.Error", err)
	}
	want := []config.Problem{
		{Field: "MaxResponseBytes", Value: -1, Rule: "1 or more"},
		{Field: "URL", Rule: "must start with http:// or https:// and name a host"},
		{Field: "Token", Rule: "contains a character that is not allowed in a header"},
	}
	if diff := cmp.Diff(want, invalid.Problems); diff != "" {
		t.Errorf("problems of New() (-want +got):\n%s", diff)
	}
	_, err = client.New(client.Config{URL: "http://user:secret@host/"})
	if err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("New(URL with credentials) = %v, want an error that does not repeat them", err)
	}
	_, err = client.New(client.Config{URL: "http://user:secret@host/%zz"})
	if diff := cmp.Diff("client config: URL cannot be parsed", err.Error()); diff != "" {
		t.Errorf("New(malformed URL) (-want +got):\n%s", diff)
	}
}

// A server may close an idle connection while the client sends the next request on it. A read is repeated on a new
// connection, over JSON-RPC too; a message is not, because the server may have accepted it.
func TestReadIsRepeatedIfAReusedConnectionIsClosed(t *testing.T) {
	t.Parallel()
	var connections, requests atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key, ok := r.Header["X-Idempotency-Key"]; ok {
			t.Errorf("X-Idempotency-Key is sent: %q", key)
		}
		if requests.Add(1)%2 == 0 {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = conn.Close()
			return
		}
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"1","contextId":"2","status":{"state":"working"}}}`)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	c, err := client.New(client.Config{URL: s.URL, HTTPClient: s.Client()})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.Task(t.Context(), a2a.TaskQueryParams{ID: "1"}); err != nil {
			t.Fatalf("Task() = %v", err)
		}
	}
	if r, n := requests.Load(), connections.Load(); r != 3 || n != 2 {
		t.Errorf("%d requests on %d connections, want 3 on 2", r, n)
	}
	_, err = c.Send(t.Context(), client.SendParams{Message: client.Text("hello")})
	if got := a2a.CodeOf(err); got != a2a.CodeUnavailable {
		t.Errorf("Send() = %v, want %s", err, a2a.CodeUnavailable)
	}
	if r := requests.Load(); r != 4 {
		t.Errorf("%d requests, want 4: a message is sent once", r)
	}
}
