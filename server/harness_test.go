package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
)

var lastID atomic.Int64

// newID returns IDs that look like UUIDs and sort by creation order.
func newID() string { return fmt.Sprintf("00000000-0000-7000-8000-%012x", lastID.Add(1)) }

// env is a server with a real engine and an in-memory store.
type env struct {
	t      testing.TB
	store  engine.Store
	engine *engine.Engine
	server *server.Server
	url    string
	client *http.Client
}

func newStore() store.Store { return inmem.New() }

// start starts an agent on loopback. change may be nil.
func start(t testing.TB, handler engine.Handler, change func(*server.Config)) *env {
	t.Helper()
	return startOn(t, newStore(), handler, change)
}

func startOn(t testing.TB, st store.Store, handler engine.Handler, change func(*server.Config)) *env {
	t.Helper()
	return serve(t, startEngine(t, st, handler, change))
}

// serve serves an agent on loopback.
func serve(t testing.TB, e *env) *env {
	t.Helper()
	ts := httptest.NewServer(e.server)
	t.Cleanup(ts.Close)
	t.Cleanup(ts.CloseClientConnections)
	e.url, e.client = ts.URL, ts.Client()
	return e
}

// startEngine starts an agent without a listener.
func startEngine(t testing.TB, st store.Store, handler engine.Handler, change func(*server.Config)) *env {
	t.Helper()
	return startConfig(t, engine.Config{Store: st, Handler: handler, NewID: newID}, change)
}

func startConfig(t testing.TB, from engine.Config, change func(*server.Config)) *env {
	t.Helper()
	from.Turns.FlushInterval, from.Turns.HandlerGrace = time.Millisecond, time.Second
	e, err := engine.New(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = e.Stop(ctx)
	})
	cfg := server.Config{Engine: e, Card: a2a.AgentCard{Name: "tester", Version: "1.2.3"}}
	if change != nil {
		change(&cfg)
	}
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return &env{t: t, store: from.Store, engine: e, server: s}
}

// echo is a handler that completes the task with the text of the message.
func echo(_ context.Context, t *engine.Turn) error {
	if err := t.AddArtifact(a2a.Artifact{Name: "echo", Parts: []a2a.Part{a2a.TextPart{Text: t.Messages()[0].Text()}}}); err != nil {
		return err
	}
	return t.Reply(a2a.TextPart{Text: "done"})
}

// reply is a JSON-RPC response with its HTTP properties.
type reply struct {
	Status  int             `json:"-"`
	Header  http.Header     `json:"-"`
	Body    []byte          `json:"-"`
	ID      json.RawMessage `json:"id"`
	JSONRPC string          `json:"jsonrpc"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int       `json:"code"`
		Message string    `json:"message"`
		Data    errorData `json:"data"`
	} `json:"error"`
}

// errorData is the data of an error in A2A 0.3; nil in A2A 1.0, where it is an array.
type errorData map[string]any

func (d *errorData) UnmarshalJSON(raw []byte) error {
	if bytes.HasPrefix(raw, []byte("[")) {
		return nil
	}
	return json.Unmarshal(raw, (*map[string]any)(d))
}

func (r reply) code() int {
	if r.Error == nil {
		return 0
	}
	return r.Error.Code
}

func (r reply) task(t testing.TB) taskView {
	t.Helper()
	if r.Error != nil {
		t.Fatalf("response = error %d %s, want a task", r.Error.Code, r.Error.Message)
	}
	var v taskView
	if err := json.Unmarshal(r.Result, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// taskView has the members of a task or an update that tests check.
type taskView struct {
	Kind      string `json:"kind"`
	ID        string `json:"id"`
	TaskID    string `json:"taskId"`
	ContextID string `json:"contextId"`
	Final     bool   `json:"final"`
	Status    struct {
		State   string           `json:"state"`
		Message *json.RawMessage `json:"message"`
	} `json:"status"`
	History []struct {
		MessageID string `json:"messageId"`
		Role      string `json:"role"`
	} `json:"history"`
	Artifacts []struct {
		Parts []map[string]any `json:"parts"`
	} `json:"artifacts"`
	Metadata map[string]any `json:"metadata"`
}

// headers has alternating header names and values.
type headers []string

func (h headers) set(r *http.Request) {
	for i := 0; i+1 < len(h); i += 2 {
		r.Header.Set(h[i], h[i+1])
	}
}

func (e *env) request(verb, path, body string, h headers) *http.Request {
	e.t.Helper()
	r, err := http.NewRequestWithContext(e.t.Context(), verb, e.url+path, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	if verb == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	h.set(r)
	return r
}

// do sends a request and reads the whole response.
func (e *env) do(verb, path, body string, h headers) reply {
	e.t.Helper()
	resp, err := e.client.Do(e.request(verb, path, body, h))
	if err != nil {
		e.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		e.t.Fatal(err)
	}
	out := reply{Status: resp.StatusCode, Header: resp.Header, Body: raw}
	if bytes.HasPrefix(raw, []byte("{")) {
		if err := json.Unmarshal(raw, &out); err != nil {
			e.t.Fatalf("response %q: %v", raw, err)
		}
	}
	return out
}

// post sends a JSON-RPC request.
func (e *env) post(body string, h ...string) reply {
	e.t.Helper()
	return e.do(http.MethodPost, "/", body, h)
}

// call calls a method with params in JSON.
func (e *env) call(method, params string, h ...string) reply {
	e.t.Helper()
	return e.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params), h...)
}

// message returns the JSON of a user message with additional members.
func message(text string, more ...string) string {
	return fmt.Sprintf(`{"kind":"message","messageId":"m-%s","role":"user","parts":[{"kind":"text","text":%q}]%s}`,
		text, text, members(more))
}

// params returns the JSON of the params of message/send.
func params(message string, configuration ...string) string {
	return fmt.Sprintf(`{"message":%s%s}`, message, members(configuration))
}

func members(m []string) string {
	if len(m) == 0 {
		return ""
	}
	return "," + strings.Join(m, ",")
}

const blocking = `"configuration":{"blocking":true}`

// send sends a message and waits for the task.
func (e *env) send(text string, h ...string) taskView {
	e.t.Helper()
	return e.call("message/send", params(message(text), blocking), h...).task(e.t)
}

// event is one server-sent event.
type event struct {
	ID   string
	Data reply
}

func (v event) view(t testing.TB) taskView {
	t.Helper()
	return v.Data.task(t)
}

// stream is an open stream of events.
type stream struct {
	t        testing.TB
	resp     *http.Response
	cancel   context.CancelFunc
	lines    *lineReader
	comments int
}

// open calls a streaming method.
func (e *env) open(method, params string, h ...string) *stream {
	e.t.Helper()
	ctx, cancel := context.WithCancel(e.t.Context())
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"s","method":%q,"params":%s}`, method, params)
	resp, err := e.client.Do(e.request(http.MethodPost, "/", body, h).WithContext(ctx))
	if err != nil {
		cancel()
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		cancel()
		_ = resp.Body.Close()
	})
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		raw, _ := io.ReadAll(resp.Body)
		e.t.Fatalf("%s: Content-Type %q, want text/event-stream: %s", method, got, raw)
	}
	return &stream{t: e.t, resp: resp, cancel: cancel, lines: newLineReader(resp.Body)}
}

// next returns the next event; ok is false at the end of the stream.
func (s *stream) next() (v event, ok bool) {
	s.t.Helper()
	for {
		line, err := s.lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return v, false
		case err != nil:
			s.t.Fatal(err)
		case line == "" && ok:
			return v, true
		case strings.HasPrefix(line, ":"):
			s.comments++
		case strings.HasPrefix(line, "id: "):
			v.ID = line[4:]
		case strings.HasPrefix(line, "data: "):
			if err := json.Unmarshal([]byte(line[6:]), &v.Data); err != nil {
				s.t.Fatal(err)
			}
			ok = true
		}
	}
}

// rest returns the events up to the end of the stream.
func (s *stream) rest() []event {
	s.t.Helper()
	var all []event
	for {
		v, ok := s.next()
		if !ok {
			return all
		}
		all = append(all, v)
	}
}

// listen serves on a new listener until the test ends or stop is called.
func (e *env) listen() (addr string, stop func() error) {
	e.t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(e.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		e.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.server.Serve(ctx, l) }()
	var result error
	stopped := false
	stop = func() error {
		if !stopped {
			stopped = true
			cancel()
			result = <-done
		}
		return result
	}
	e.t.Cleanup(func() { _ = stop() })
	e.url, e.client = "http://"+l.Addr().String(), &http.Client{}
	return l.Addr().String(), stop
}
