package client_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/webhook"
)

// bindings are the versions and transports that an agent offers.
var bindings = []struct{ version, transport string }{
	{client.Version03, client.TransportJSONRPC},
	{client.Version03, client.TransportREST},
	{client.Version10, client.TransportJSONRPC},
	{client.Version10, client.TransportREST},
}

// behave is the handler of the agent that all bindings are tested with.
func behave(ctx context.Context, turn *engine.Turn) error {
	parts := turn.Messages()[0].Parts
	switch text := turn.Messages()[0].Text(); {
	case turn.Number() > 1:
		return turn.Reply(a2a.TextPart{Text: "again: " + text})
	case text == "ask":
		return turn.RequireInput(a2a.TextPart{Text: "which one?"})
	case text == "wait":
		if err := turn.Status("waiting"); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	case text == "chunks":
		w := turn.Artifact("out")
		for _, chunk := range []string{"one ", "two ", "three"} {
			if _, err := w.WriteString(chunk); err != nil {
				return err
			}
			if err := turn.Flush(); err != nil {
				return err
			}
		}
	case text == "":
		if err := turn.AddArtifact(a2a.Artifact{ID: "copy", Parts: parts}); err != nil {
			return err
		}
	}
	return turn.Reply(a2a.TextPart{Text: "thanks"})
}

// startBehaving starts a server with all bindings and webhooks.
func startBehaving(t *testing.T) string {
	t.Helper()
	st := inmem.New()
	hooks, err := webhook.New(webhook.Config{Store: st, NewID: func() string { return "made" }})
	if err != nil {
		t.Fatal(err)
	}
	return startServer(t, st, func(cfg *server.Config) { cfg.Webhook = hooks }, behave)
}

func discover(t *testing.T, cfg client.Config) *client.Client {
	t.Helper()
	c, err := client.Discover(t.Context(), cfg)
	if err != nil {
		t.Fatalf("Discover() = %v", err)
	}
	return c
}

// eachBinding runs a test with a client for each binding of one agent.
func eachBinding(t *testing.T, test func(t *testing.T, cfg client.Config)) {
	t.Helper()
	url := startBehaving(t)
	for _, b := range bindings {
		t.Run(b.transport+" "+b.version, func(t *testing.T) {
			t.Parallel()
			test(t, client.Config{URL: url, Version: b.version, Transport: b.transport})
		})
	}
}

func TestDiscoverUsesThePreferredInterface(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, cfg client.Config) {
		c := discover(t, cfg)
		if got := c.Interface(); got.ProtocolVersion != cfg.Version || got.Transport != cfg.Transport {
			t.Errorf("Interface() = %+v, want %s %s", got, cfg.Transport, cfg.Version)
		}
		if card, err := c.Card(t.Context()); err != nil || card.Name != "tester" || len(card.AdditionalInterfaces) < len(bindings) {
			t.Errorf("Card() = %+v, %v, want the card of the agent with all interfaces", card, err)
		}
	})
}

func TestTasksOverEachBinding(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, cfg client.Config) {
		c, ctx := discover(t, cfg), t.Context()
		asked := sendText(t, c, "", "ask")
		if asked.Status.State != a2a.StateInputRequired || asked.Status.Message.Text() != "which one?" {
			t.Fatalf("Send(ask) = %+v, want a question", asked)
		}
		m := client.Text("this")
		m.TaskID = asked.ID
		event, err := c.Send(ctx, client.SendParams{Message: m, Configuration: &a2a.MessageSendConfiguration{Blocking: true}})
		task, ok := event.(*a2a.Task)
		if err != nil || !ok || task.ID != asked.ID || task.ContextID != asked.ContextID || task.Status.Message.Text() != "again: this" || len(task.History) < 3 {
			t.Fatalf("Send(answer) = %+v, %v, want the same task with a reply", event, err)
		}
		if got, err := c.Task(ctx, a2a.TaskQueryParams{ID: task.ID, HistoryLength: ptr(1)}); err != nil || len(got.History) != 1 || got.Status.State != a2a.StateCompleted {
			t.Errorf("Task() = %+v, %v, want one message", got, err)
		}
		sendText(t, c, task.ContextID, "hello")
		n, err := countItems(c.Tasks(ctx, a2a.ListTasksParams{ContextID: task.ContextID, PageSize: ptr(1)}))
		if err != nil || n != 2 {
			t.Errorf("Tasks() yields %d, %v, want 2", n, err)
		}
		page, err := c.List(ctx, a2a.ListTasksParams{ContextID: task.ContextID, Status: a2a.StateFailed})
		if err != nil || len(page.Tasks) != 0 {
			t.Errorf("List(failed) = %+v, %v, want none", page, err)
		}
		if err := c.DeleteTask(ctx, a2a.DeleteTaskParams{ID: task.ID}); err != nil {
			t.Errorf("DeleteTask() = %v", err)
		}
	})
}

func TestFilesOverEachBinding(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, cfg client.Config) {
		c := discover(t, cfg)
		parts := []a2a.Part{
			a2a.FilePart{File: a2a.FileWithBytes{Name: "a.txt", MimeType: "text/plain", Bytes: []byte{0, 255, 7}}},
			a2a.FilePart{File: a2a.FileWithURI{Name: "b.txt", MimeType: "text/plain", URI: "https://example.com/b.txt"}},
		}
		event, err := c.Send(t.Context(), client.SendParams{Message: client.UserMessage(parts...), Configuration: &a2a.MessageSendConfiguration{Blocking: true}})
		task, ok := event.(*a2a.Task)
		if err != nil || !ok || len(task.Artifacts) != 1 {
			t.Fatalf("Send() = %+v, %v, want a task with an artifact", event, err)
		}
		if diff := cmp.Diff(parts, task.Artifacts[0].Parts); diff != "" {
			t.Errorf("parts (-sent +received):\n%s", diff)
		}
	})
}

// cutTransport ends the body of each of the first n streams with an error after some events.
type cutTransport struct {
	n      atomic.Int32
	events int
}

func (c *cutTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") || c.n.Add(-1) < 0 {
		return resp, err
	}
	resp.Body = &cutBody{ReadCloser: resp.Body, events: c.events}
	return resp, nil
}

type cutBody struct {
	io.ReadCloser
	events int
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.events <= 0 {
		return 0, errReset
	}
	n, err := b.ReadCloser.Read(p)
	for i := range n {
		if i > 0 && p[i] == '\n' && p[i-1] == '\n' {
			if b.events--; b.events == 0 {
				return i + 1, nil
			}
		}
	}
	return n, err
}

func TestStreamsOverEachBinding(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, cfg client.Config) {
		cut := &cutTransport{events: 2}
		cut.n.Store(2)
		reconnects := 0
		cfg.HTTPClient, cfg.OnReconnect = &http.Client{Transport: cut}, func(client.Reconnect) { reconnects++ }
		c := discover(t, cfg)
		var id, lastID, text string
		var got []string
		for u, err := range c.Stream(t.Context(), client.SendParams{Message: client.Text("chunks")}) {
			if err != nil {
				t.Fatalf("Stream() = %v", err)
			}
			if slices.Contains(got, u.ID) || u.ID == "" {
				t.Errorf("event %q after %q, want an id of its own", u.ID, got)
			}
			got = append(got, u.ID)
			switch e := u.Event.(type) {
			case *a2a.Task:
				id, lastID = e.ID, u.ID
			case *a2a.TaskArtifactUpdateEvent:
				text += e.Artifact.Text()
			}
		}
		if text != "one two three" || reconnects != 2 {
			t.Errorf("Stream() yields %q with %d reconnects, want all chunks with 2", text, reconnects)
		}
		n := 0
		for _, err := range c.Resubscribe(t.Context(), id, lastID) {
			if err != nil {
				t.Fatalf("Resubscribe() = %v", err)
			}
			n++
		}
		if n != len(got)-1 {
			t.Errorf("Resubscribe() after the first event yields %d events, want %d", n, len(got)-1)
		}
	})
}

func TestSubscriptionEndsWhenTheTaskWaitsForItsClient(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, cfg client.Config) {
		c := discover(t, cfg)
		task := sendText(t, c, "", "ask")
		var states []a2a.TaskState
		for u, err := range c.Resubscribe(t.Context(), task.ID, "") {
			if err != nil {
				t.Fatalf("Resubscribe() = %v", err)
			}
			if task, ok := u.Event.(*a2a.Task); ok {
				states = append(states, task.Status.State)
			}
		}
		if !slices.Equal(states, []a2a.TaskState{a2a.StateInputRequired}) {
			t.Errorf("Resubscribe() yields tasks in %v, want input-required", states)
		}
	})
}

func TestCancelOverEachBinding(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, cfg client.Config) {
		c, ctx := discover(t, cfg), t.Context()
		var id string
		var last a2a.TaskState
		for u, err := range c.Stream(ctx, client.SendParams{Message: client.Text("wait")}) {
			if err != nil {
				t.Fatalf("Stream() = %v", err)
			}
			switch e := u.Event.(type) {
			case *a2a.Task:
				id = e.ID
			case *a2a.TaskStatusUpdateEvent:
				if last = e.Status.State; last == a2a.StateWorking && e.Status.Message != nil {
					if task, err := c.Cancel(ctx, id); err != nil || task.Status.State != a2a.StateCanceled {
						t.Fatalf("Cancel() = %+v, %v", task, err)
					}
				}
			}
		}
		if last != a2a.StateCanceled {
			t.Errorf("the stream ends in %s, want canceled", last)
		}
	})
}

func TestErrorsOverEachBinding(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, cfg client.Config) {
		c, ctx := discover(t, cfg), t.Context()
		task := sendText(t, c, "", "hello")
		send := func(m a2a.Message) error {
			_, err := c.Send(ctx, client.SendParams{Message: m})
			return err
		}
		late := client.Text("more")
		late.TaskID = task.ID
		_, notFound := c.Task(ctx, a2a.TaskQueryParams{ID: "none"})
		_, notCancelable := c.Cancel(ctx, task.ID)
		_, invalid := c.Task(ctx, a2a.TaskQueryParams{ID: task.ID, HistoryLength: ptr(-1)})
		for _, test := range []struct {
			name string
			err  error
			want a2a.Code
		}{
			{"Task(missing)", notFound, a2a.CodeTaskNotFound},
			{"Cancel(finished)", notCancelable, a2a.CodeTaskNotCancelable},
			{"Task(negative history)", invalid, a2a.CodeInvalid},
			{"Send(finished task)", send(late), a2a.CodeUnsupported},
			{"Send(no parts)", send(client.UserMessage()), a2a.CodeInvalid},
		} {
			var e *a2a.Error
			if !errors.As(test.err, &e) || e.Code != test.want || e.Message == "" {
				t.Errorf("%s = %v (%s), want %s", test.name, test.err, a2a.CodeOf(test.err), test.want)
			}
		}
		var e *a2a.Error
		if errors.As(invalid, &e); e.Data["field"] != "historyLength" {
			t.Errorf("Data of an invalid param = %v, want its name", e.Data)
		}
	})
}

func TestWebhooksOverEachBinding(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, cfg client.Config) {
		c, ctx := discover(t, cfg), t.Context()
		task := sendText(t, c, "", "ask")
		hook := a2a.TaskPushNotificationConfig{TaskID: task.ID, Config: a2a.PushNotificationConfig{ID: "mine", URL: "https://203.0.114.1/hook", Token: "t"}}
		if got, err := c.SetWebhook(ctx, hook); err != nil || got.Config.ID != "mine" || got.TaskID != task.ID {
			t.Fatalf("SetWebhook() = %+v, %v", got, err)
		}
		if got, err := c.GetWebhook(ctx, a2a.GetTaskPushNotificationConfigParams{TaskID: task.ID, ConfigID: "mine"}); err != nil || got.Config.URL != hook.Config.URL {
			t.Errorf("GetWebhook() = %+v, %v", got, err)
		}
		if list, err := c.ListWebhooks(ctx, task.ID); err != nil || len(list) != 1 || list[0].Config.ID != "mine" {
			t.Errorf("ListWebhooks() = %+v, %v, want one", list, err)
		}
		if _, err := c.ListAttempts(ctx, a2a.ListAttemptsParams{TaskID: task.ID}); err != nil {
			t.Errorf("ListAttempts() = %v", err)
		}
		if err := c.DeleteWebhook(ctx, task.ID, "mine"); err != nil {
			t.Errorf("DeleteWebhook() = %v", err)
		}
		if list, err := c.ListWebhooks(ctx, task.ID); err != nil || len(list) != 0 {
			t.Errorf("ListWebhooks() = %+v, %v, want none", list, err)
		}
	})
}

func TestExtensionsOverEachBinding(t *testing.T) {
	t.Parallel()
	eachBinding(t, func(t *testing.T, cfg client.Config) {
		c, ctx := discover(t, cfg), t.Context()
		made, err := c.CreateContext(ctx, a2a.CreateContextParams{Name: "n"})
		if err != nil {
			t.Fatalf("CreateContext() = %v", err)
		}
		task := sendText(t, c, made.ID, "hello")
		if got, err := c.GetContext(ctx, a2a.ContextQueryParams{ContextID: made.ID}); err != nil || got.Name != "n" {
			t.Errorf("GetContext() = %+v, %v", got, err)
		}
		if id, err := c.Feedback(ctx, a2a.TaskFeedbackParams{TaskID: task.ID, Feedback: "good", Rating: ptr(4)}); err != nil || id == "" {
			t.Errorf("Feedback() = %q, %v", id, err)
		}
		if list, err := c.ListFeedback(ctx, a2a.ListTaskFeedbackParams{TaskID: task.ID}); err != nil || len(list.Feedback) != 1 {
			t.Errorf("ListFeedback() = %+v, %v, want one", list, err)
		}
		if n, err := c.ClearContext(ctx, a2a.ClearContextParams{ContextID: made.ID}); err != nil || n != 1 {
			t.Errorf("ClearContext() = %d, %v, want 1", n, err)
		}
	})
}

func TestCardOfBothVersionsIsDecoded(t *testing.T) {
	t.Parallel()
	tokens, err := server.NewTokens([]server.Token{{Token: "sesame-sesame-sesame", Principal: a2a.Principal{ID: "alice"}}})
	if err != nil {
		t.Fatal(err)
	}
	url := startServer(t, inmem.New(), func(cfg *server.Config) { cfg.Security.Authenticator = tokens }, behave)
	resp, err := http.Get(url + "/.well-known/agent-card.json") // without a version
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range []string{`"supportedInterfaces"`, `"additionalInterfaces"`, `"securitySchemes"`} {
		if !bytes.Contains(raw, []byte(member)) {
			t.Errorf("the card %s lacks %s", raw, member)
		}
	}
	for _, b := range bindings {
		c := newClient(t, client.Config{Card: raw, Token: "sesame-sesame-sesame", Version: b.version, Transport: b.transport})
		if got := c.Interface(); got.ProtocolVersion != b.version || got.Transport != b.transport {
			t.Errorf("Interface() = %+v, want %s %s", got, b.transport, b.version)
		}
		sendText(t, c, "", "hello")
		if card, err := c.Card(t.Context()); err != nil || len(card.SecuritySchemes) != 1 {
			t.Errorf("Card() = %+v, %v, want it with a security scheme", card, err)
		}
	}
}

func TestExtendedCardReplacesTheCard(t *testing.T) {
	t.Parallel()
	tokens, err := server.NewTokens([]server.Token{{Token: "sesame-sesame-sesame", Principal: a2a.Principal{ID: "alice"}}})
	if err != nil {
		t.Fatal(err)
	}
	url := startServer(t, inmem.New(), func(cfg *server.Config) {
		cfg.Security.Authenticator = tokens
		cfg.Security.ExtendedCard = func(_ context.Context, _ a2a.Principal, card a2a.AgentCard) (*a2a.AgentCard, error) {
			card.Name = "tester of alice"
			return &card, nil
		}
	}, behave)
	for _, b := range bindings {
		c := discover(t, client.Config{URL: url, Token: "sesame-sesame-sesame", Version: b.version, Transport: b.transport})
		card, err := c.ExtendedCard(t.Context())
		if err != nil || card.Name != "tester of alice" {
			t.Errorf("%s %s: ExtendedCard() = %+v, %v, want the card of alice", b.transport, b.version, card, err)
		}
		if card, err := c.Card(t.Context()); err != nil || card.Name != "tester of alice" {
			t.Errorf("%s %s: Card() after it = %+v, %v, want the same", b.transport, b.version, card, err)
		}
	}
}

func TestTenantIsSentOverBothTransports(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{client.TransportJSONRPC, client.TransportREST} {
		var path, body, version string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			path, body, version = r.URL.RequestURI(), string(raw), r.Header.Get("A2A-Version")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		}))
		t.Cleanup(s.Close)
		card := `{"name":"n","description":"d","version":"1","capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"skills":[],
			"supportedInterfaces":[{"url":"` + s.URL + `/base","protocolBinding":"` + transport + `","protocolVersion":"1.0.1","tenant":"t 1"}]}`
		c := newClient(t, client.Config{Card: []byte(card)})
		_, _ = c.Task(t.Context(), a2a.TaskQueryParams{ID: "a/b", HistoryLength: ptr(2)})
		wantPath, wantBody := "/base", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"tenant":"t 1","id":"a/b","historyLength":2}}`
		if transport == client.TransportREST {
			wantPath, wantBody = "/base/t%201/tasks/a%2Fb?historyLength=2", ""
		}
		if path != wantPath || body != wantBody || version != "1.0" {
			t.Errorf("%s: request %s %s with version %s, want %s %s", transport, path, body, version, wantPath, wantBody)
		}
	}
}

// cardServer serves a card at a path, and JSON-RPC of 0.3 at all others.
func cardServer(t *testing.T, path, card string) string {
	t.Helper()
	var url string
	url = serve(t, func(w http.ResponseWriter, c call) {
		switch {
		case c.Method == path:
			_, _ = io.WriteString(w, strings.ReplaceAll(card, "URL", url))
		case strings.HasPrefix(c.Method, "/"):
			http.NotFound(w, nil)
		default:
			answer(w, workingTask)
		}
	})
	return url
}

func TestDiscover(t *testing.T) {
	t.Parallel()
	const wellKnown = "/.well-known/agent-card.json"
	card := func(more string) string {
		return `{"name":"n","description":"d","version":"1","capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"skills":[],` + more + `}`
	}
	i := func(url, transport, version string) string {
		return `{"url":"` + url + `","protocolBinding":"` + transport + `","transport":"` + transport + `","protocolVersion":"` + version + `"}`
	}
	old := `"protocolVersion":"0.3.0","url":"URL/rpc"`
	for _, test := range []struct {
		name, path, at, card string
		want                 string // transport, version and path of the interface, or a part of the error
	}{
		{"no card", "", "/rpc", "", "JSONRPC 0.3 /rpc"},
		{"a card of 0.3", wellKnown, "", card(old), "JSONRPC 0.3 /rpc"},
		{"a card of 0.2", "/.well-known/agent.json", "", card(`"protocolVersion":"0.2.6","url":"URL/rpc"`), "JSONRPC 0.3 /rpc"},
		{"the URL of a card", "/cards/a.json", "/cards/a.json", card(old), "JSONRPC 0.3 /rpc"},
		{"the URL of no card", "", "/cards/a.json", "", "404"},
		{"the order of the card", wellKnown, "", card(`"supportedInterfaces":[` + i("URL/g", "GRPC", "1.0") + `,` + i("URL/r", "HTTP+JSON", "1.0") + `,` + i("URL/j", "JSONRPC", "1.0") + `]`), "HTTP+JSON 1.0 /r"},
		{"a card of both versions", wellKnown, "", card(old + `,"supportedInterfaces":[` + i("URL/j", "JSONRPC", "1.0") + `]`), "JSONRPC 1.0 /j"},
		{"a supported one of 0.3 in a card of both versions", wellKnown, "", card(old + `,"supportedInterfaces":[` + i("URL/j", "GRPC", "1.0") + `]`), "JSONRPC 0.3 /rpc"},
		{"an additional interface", wellKnown, "", card(`"protocolVersion":"0.3.0","url":"URL/g","preferredTransport":"GRPC","additionalInterfaces":[` + i("URL/rpc", "JSONRPC", "") + `]`), "JSONRPC 0.3 /rpc"},
		{"no supported interface", wellKnown, "", card(`"supportedInterfaces":[` + i("URL/g", "GRPC", "1.0") + `,` + i("URL/j", "JSONRPC", "2.0") + `]`), `it offers "GRPC 1.0, JSONRPC 2.0"`},
		{"a relative URL", wellKnown, "", card(`"protocolVersion":"0.3.0","url":"/rpc"`), "JSONRPC 0.3 /rpc"},
		{"an endpoint below the root", wellKnown, "/rpc", card(old), "JSONRPC 0.3 /rpc"},
		{"another agent at the root", wellKnown, "/other", card(old), "JSONRPC 0.3 /other"},
		{"not a card", wellKnown, "", `[]`, "not valid A2A"},
		{"not JSON", wellKnown, "", `<html>`, "not valid JSON"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			url := cardServer(t, test.path, test.card)
			c, err := client.Discover(t.Context(), client.Config{URL: url + test.at})
			if err != nil {
				if !strings.Contains(err.Error(), test.want) {
					t.Errorf("Discover() = %v, want %s", err, test.want)
				}
				return
			}
			got := c.Interface()
			if text := got.Transport + " " + got.ProtocolVersion + " " + strings.TrimPrefix(got.URL, url); text != test.want {
				t.Errorf("Discover() uses %s, want %s", text, test.want)
			}
		})
	}
}

func TestDiscoverWithoutACard(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		status int
		body   string
		want   string // version of the interface, or a part of the error
	}{
		{"no JSON-RPC over GET", 400, "POST a request", client.Version03},
		{"GET is not allowed", 405, "", client.Version03},
		{"a page for every path", 200, "<html>", "not valid JSON"},
		{"a token is missing", 401, "", "a token is missing"},
		{"not available", 503, "", "not available"},
	} {
		for _, root := range []bool{false, true} {
			var url string
			url = serve(t, func(w http.ResponseWriter, c call) {
				switch {
				case root && c.Method == "/.well-known/agent-card.json":
					_, _ = io.WriteString(w, `{"name":"n","description":"d","version":"1","capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"skills":[],
						"supportedInterfaces":[{"url":"`+url+`/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`)
				default:
					w.WriteHeader(test.status)
					_, _ = io.WriteString(w, test.body)
				}
			})
			want := test.want
			if root && test.status != 401 && test.status != 503 {
				want = client.Version10
			}
			c, err := client.Discover(t.Context(), client.Config{URL: url + "/rpc"})
			if err != nil && !strings.Contains(err.Error(), want) || err == nil && c.Interface().ProtocolVersion != want {
				t.Errorf("%s, a card at the root %t: Discover() = %v, %v, want %s", test.name, root, c, err, want)
			}
		}
	}
}

func TestCardFromHTTPSDoesNotLeadToHTTP(t *testing.T) {
	t.Parallel()
	card := `{"name":"n","description":"d","version":"1","capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"skills":[],"protocolVersion":"0.3.0","url":"http://HOST/"}`
	host := "agent.test"
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.ReplaceAll(card, "HOST", host))
	}))
	t.Cleanup(s.Close)
	cfg := client.Config{URL: s.URL, HTTPClient: s.Client(), Token: "sesame"}
	if _, err := client.Discover(t.Context(), cfg); a2a.CodeOf(err) != a2a.CodeVersionNotSupported {
		t.Errorf("Discover() = %v, want no supported interface", err)
	}
	host = strings.TrimPrefix(s.URL, "https://")
	if got := discover(t, cfg).Interface().URL; got != s.URL+"/" {
		t.Errorf("Interface() of the same host has the URL %s, want it with https", got)
	}
}

func TestRejectedCardIsNotUsed(t *testing.T) {
	t.Parallel()
	url := startBehaving(t)
	bad := errors.New("signed by somebody else")
	var seen []byte
	_, err := client.Discover(t.Context(), client.Config{URL: url, VerifyCard: func(_ context.Context, card []byte) error {
		seen = card
		return bad
	}})
	if !errors.Is(err, bad) || !bytes.Contains(seen, []byte(`"supportedInterfaces"`)) {
		t.Errorf("Discover() = %v after the card %s, want the error of VerifyCard", err, seen)
	}
}

func TestSignedCardIsVerifiedBeforeUse(t *testing.T) {
	t.Parallel()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	url := startServer(t, inmem.New(), func(cfg *server.Config) { cfg.Security.CardKeys = []crypto.Signer{key} }, behave)
	keys, err := newClient(t, client.Config{URL: url}).CardKeys(t.Context(), "")
	if err != nil {
		t.Fatalf("CardKeys() = %v", err)
	}
	verifyWith := func(keys client.CardKeys) client.Config {
		return client.Config{URL: url, VerifyCard: func(_ context.Context, card []byte) error {
			_, err := client.VerifyCard(card, keys)
			return err
		}}
	}
	sendText(t, discover(t, verifyWith(keys)), "", "hello")
	if _, err := client.Discover(t.Context(), verifyWith(client.CardKeys{})); !errors.Is(err, client.ErrCardKeyUnknown) {
		t.Errorf("Discover() without keys = %v, want %v", err, client.ErrCardKeyUnknown)
	}
}

func TestSendWithAKeyIsRepeated(t *testing.T) {
	t.Parallel()
	url := startBehaving(t)
	var bodies []string
	lost := roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Body != nil {
			raw, _ := io.ReadAll(r.Body)
			bodies = append(bodies, string(raw))
			r.Body = io.NopCloser(bytes.NewReader(raw))
		}
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err == nil && len(bodies) == 1 {
			resp.Body.Close()
			return nil, errReset // after the agent accepted the message
		}
		return resp, err
	})
	c := newClient(t, client.Config{URL: url, HTTPClient: &http.Client{Transport: lost}})
	event, err := c.Send(t.Context(), client.SendParams{Message: client.Text("hello"), IdempotencyKey: "k"})
	if _, ok := event.(*a2a.Task); err != nil || !ok || len(bodies) != 2 || bodies[0] != bodies[1] {
		t.Fatalf("Send() = %v, %v after %q, want the same request twice", event, err, bodies)
	}
	if n, err := countItems(c.Tasks(t.Context(), a2a.ListTasksParams{})); err != nil || n != 1 {
		t.Errorf("the agent has %d tasks, %v, want 1", n, err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestForeignAgentsLackExtensions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ transport, body string }{
		{client.TransportJSONRPC, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}`},
		{client.TransportREST, "404 page not found"},
		{client.TransportREST, `{"error":{"code":404,"status":"UNIMPLEMENTED","message":"no"}}`},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if test.transport == client.TransportREST {
				w.WriteHeader(http.StatusNotFound)
			}
			_, _ = io.WriteString(w, test.body)
		}))
		t.Cleanup(s.Close)
		c := newClient(t, client.Config{URL: s.URL, Version: client.Version10, Transport: test.transport})
		_, err := c.ListContexts(t.Context(), a2a.ListContextsParams{})
		if a2a.CodeOf(err) != a2a.CodeMethodNotFound || !strings.Contains(err.Error(), "does not support contexts/list") {
			t.Errorf("%s: ListContexts() = %v, want that the agent does not support it", test.body, err)
		}
	}
}
