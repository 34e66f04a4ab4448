// Package conversation is a scripted conversation with an agent. Tests hold it over each version
// and binding, and on each store, and compare what the clients read: the model must be the same.
//
// The script has all kinds of parts, the states that a handler can select, chunks of artifacts,
// lists with filters and pages, webhooks, and an error of each kind. It leaves out the calls for
// which the versions have different rules: subscribing to a task that waits for its client, a history
// length of 0.
package conversation

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Binding is a client for one version over one binding. Errors of the server are of type
// [*a2a.Error].
type Binding interface {
	// Call calls a method and decodes its result, unless result is nil. For message/send, result
	// is a pointer to an [a2a.Event].
	Call(ctx context.Context, method string, params, result any) error
	// Stream returns the events of a streaming method.
	Stream(ctx context.Context, method string, params any) iter.Seq2[a2a.Event, error]
}

// Exchange is a call of the script with its outcome. Code is "" unless the call failed.
type Exchange struct {
	Step   string
	Result any
	Code   a2a.Code
}

// Diff returns the differences between two conversations, or "".
func Diff(want, got []Exchange) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty())
}

// script is a conversation in progress.
type script struct {
	t         testing.TB
	b         Binding
	clock     *Clock
	exchanges []Exchange
}

// Run holds the conversation with an agent. The agent's handler is [Handle], and its store is
// wrapped in clock.
func Run(t testing.TB, b Binding, clock *Clock) []Exchange {
	t.Helper()
	s := &script{t: t, b: b, clock: clock}
	first := s.send("complete with all kinds of parts", "complete", everyPart, nil)
	s.reads(first)
	s.turns()
	s.answers()
	s.streams()
	s.cancels()
	s.lists(first.ContextID)
	s.webhooks(first.ID)
	s.errors(first)
	return s.exchanges
}

// everyPart returns parts of every kind that both versions can express.
func everyPart() []a2a.Part {
	return []a2a.Part{
		a2a.TextPart{Text: "größe <&> \u2028 😀", Metadata: map[string]any{"k": "v", "nested": map[string]any{"list": []any{1.5, nil, true, "x"}}}},
		a2a.DataPart{Data: map[string]any{"snake_case": 1.0, "camelCase": []any{map[string]any{"a_b": false}}, "": "empty name"}},
		a2a.DataPart{Data: []any{"an", "array", 3.25}},
		a2a.FilePart{File: a2a.FileWithBytes{Name: "a.bin", MimeType: "application/octet-stream", Bytes: []byte{0, 255, 254, '+', '/'}}},
		a2a.FilePart{File: a2a.FileWithURI{Name: "b.txt", MimeType: "text/plain", URI: "https://example.com/b?c=d&e=%20"}, Metadata: map[string]any{"of": "file"}},
		a2a.TextPart{Text: ""},
	}
}

// add records the outcome of a call and reports whether it succeeded.
func (s *script) add(step string, result any, err error) bool {
	x := Exchange{Step: step, Result: common(result)}
	if err != nil {
		var e *a2a.Error
		if !errors.As(err, &e) {
			s.t.Fatalf("%s: %v", step, err)
		}
		x = Exchange{Step: step, Code: e.Code}
		if x.Code == a2a.CodePushConfigNotFound { // A2A 1.0 has one code for it and for tasks
			x.Code = a2a.CodeTaskNotFound
		}
	}
	s.exchanges = append(s.exchanges, x)
	return err == nil
}

// call calls a method and records the outcome. The step must succeed.
func (s *script) call(step, method string, params, result any) {
	s.t.Helper()
	s.clock.advance()
	if err := s.b.Call(s.t.Context(), method, params, result); !s.add(step, result, err) {
		s.t.Fatalf("%s: %v", step, err)
	}
}

// refuse calls a method that must fail.
func (s *script) refuse(step, method string, params any) {
	s.t.Helper()
	s.clock.advance()
	if s.add(step, nil, s.b.Call(s.t.Context(), method, params, nil)) {
		s.t.Errorf("%s: no error", step)
	}
}

// message returns a message with a word for the handler as its first part.
func message(step, word string, more func() []a2a.Part) a2a.Message {
	m := a2a.Message{
		ID: "m " + step, Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: word}},
		Extensions: []string{"https://example.com/ext"}, Metadata: map[string]any{"step": step},
	}
	if more != nil {
		m.Parts = append(m.Parts, more()...)
	}
	return m
}

// send sends a message and waits for the turn. change may be nil.
func (s *script) send(step, word string, parts func() []a2a.Part, change func(*a2a.MessageSendParams)) *a2a.Task {
	s.t.Helper()
	p := &a2a.MessageSendParams{
		Message: message(step, word, parts), Configuration: &a2a.MessageSendConfiguration{Blocking: true},
		Metadata: map[string]any{"request": step},
	}
	if change != nil {
		change(p)
	}
	var e a2a.Event
	s.call(step, a2a.MethodSend, p, &e)
	task, ok := e.(*a2a.Task)
	if !ok || task.Status.State != outcomes[word] {
		s.t.Fatalf("%s = %+v, want a task that is %s", step, e, outcomes[word])
	}
	return task
}

// outcomes are the states in which turns end by the words for the handler.
var outcomes = map[string]a2a.TaskState{
	"complete": a2a.StateCompleted, "ask": a2a.StateInputRequired, "auth": a2a.StateAuthRequired,
	"reject": a2a.StateRejected, "fail": a2a.StateFailed,
}

// follow continues a task.
func follow(task *a2a.Task) func(*a2a.MessageSendParams) {
	return func(p *a2a.MessageSendParams) { p.Message.TaskID, p.Message.ContextID = task.ID, task.ContextID }
}

func (s *script) reads(first *a2a.Task) {
	one := 1
	s.call("get", a2a.MethodGet, &a2a.TaskQueryParams{ID: first.ID}, new(a2a.Task))
	s.call("get with the newest message", a2a.MethodGet, &a2a.TaskQueryParams{ID: first.ID, HistoryLength: &one}, new(a2a.Task))
	s.send("send with the newest message", "complete", nil, func(p *a2a.MessageSendParams) {
		p.Configuration.HistoryLength = &one
		p.Configuration.AcceptedOutputModes = []string{"text/plain", "application/json"}
		p.Message.ReferenceTaskIDs = []string{first.ID}
		p.Message.ContextID = first.ContextID
	})
}

// answers has messages that the handler answers with a message in place of a task.
func (s *script) answers() {
	var e a2a.Event
	s.call("say", a2a.MethodSend, &a2a.MessageSendParams{
		Message: message("say", "say", nil), Configuration: &a2a.MessageSendConfiguration{Blocking: true},
	}, &e)
	if m, ok := e.(*a2a.Message); !ok || m.Text() != "Hello." {
		s.t.Fatalf("say = %+v, want a message", e)
	}
	s.add("stream of a message", s.open(a2a.MethodStream, &a2a.MessageSendParams{Message: message("stream of a message", "say", nil)}).read(-1), nil)
}

func (s *script) turns() {
	asked := s.send("ask", "ask", nil, nil)
	s.call("get of a task that waits", a2a.MethodGet, &a2a.TaskQueryParams{ID: asked.ID}, new(a2a.Task))
	s.send("answer", "complete", everyPart, follow(asked))
	auth := s.send("require authorization", "auth", nil, nil)
	s.send("authorized", "reject", nil, follow(auth))
	s.send("fail", "fail", nil, func(p *a2a.MessageSendParams) { p.Message.ReferenceTaskIDs = []string{"unknown"} })
}

func (s *script) streams() {
	s.stream("stream of a turn", "complete", everyPart)
	s.stream("stream that ends with a question", "ask", nil)
}

// stream records all events of a message's stream.
func (s *script) stream(step, word string, parts func() []a2a.Part) {
	s.t.Helper()
	s.clock.advance()
	events := s.open(a2a.MethodStream, &a2a.MessageSendParams{Message: message(step, word, parts)}).read(-1)
	last, ok := events[len(events)-1].(*a2a.TaskStatusUpdateEvent)
	if !ok || last.Status.State != outcomes[word] {
		s.t.Fatalf("%s: the last event is %+v, want one that is %s", step, events[len(events)-1], outcomes[word])
	}
	s.add(step, events, nil)
}

// cancels streams a turn that runs until the task is canceled, and subscribes to it meanwhile.
func (s *script) cancels() {
	s.clock.advance()
	sent := s.open(a2a.MethodStream, &a2a.MessageSendParams{Message: message("hold", "hold", nil)})
	defer sent.stop()
	id := sent.read(1)[0].(*a2a.Task).ID
	sent.read(2) // the handler has reported its status
	s.call("get of a running task", a2a.MethodGet, &a2a.TaskQueryParams{ID: id}, new(a2a.Task))
	subscribed := s.open(a2a.MethodResubscribe, &a2a.TaskIDParams{ID: id})
	defer subscribed.stop()
	subscribed.read(1)
	s.call("cancel", a2a.MethodCancel, &a2a.TaskIDParams{ID: id}, new(a2a.Task))
	sent.read(-1)
	subscribed.read(-1)
	s.add("stream of a canceled task", sent.events, nil)
	s.add("subscription to a canceled task", subscribed.events, nil)
	s.refuse("cancel again", a2a.MethodCancel, &a2a.TaskIDParams{ID: id})
}

// stream is a stream that is read in parts.
type stream struct {
	t      testing.TB
	next   func() (a2a.Event, error, bool)
	stop   func()
	events []a2a.Event
}

func (s *script) open(method string, params any) *stream {
	next, stop := iter.Pull2(s.b.Stream(s.t.Context(), method, params))
	return &stream{t: s.t, next: next, stop: stop}
}

// read reads n events, or those up to the end if n is negative, and returns all so far.
func (s *stream) read(n int) []a2a.Event {
	s.t.Helper()
	for ; n != 0; n-- {
		e, err, ok := s.next()
		switch {
		case !ok && n < 0:
			return s.events
		case !ok:
			s.t.Fatalf("the stream ended after %+v", s.events)
		case err != nil:
			s.t.Fatalf("event %d: %v", len(s.events)+1, err)
		}
		s.events = append(s.events, e)
	}
	return s.events
}

func (s *script) lists(contextID string) {
	two, one := 2, 1
	for _, list := range []struct {
		step   string
		params a2a.ListTasksParams
	}{
		{"list", a2a.ListTasksParams{}},
		{"list of a context with artifacts and history", a2a.ListTasksParams{ContextID: contextID, IncludeArtifacts: true, HistoryLength: &one}},
		{"list of a state", a2a.ListTasksParams{Status: a2a.StateInputRequired}},
		{"list of two states", a2a.ListTasksParams{States: []a2a.TaskState{a2a.StateRejected, a2a.StateFailed}}},
		{"list since a time", a2a.ListTasksParams{StatusAfter: s.clock.Now().Add(-10 * tick)}},
		{"empty list", a2a.ListTasksParams{ContextID: "00000000-0000-7000-8000-ffffffffffff"}},
	} {
		list.params.IncludeTotal = true
		s.call(list.step, a2a.MethodList, &list.params, new(a2a.ListTasksResult))
	}
	for token, first := "", true; token != "" || first; first = false {
		var page a2a.ListTasksResult
		s.call("page", a2a.MethodList, &a2a.ListTasksParams{PageSize: &two, PageToken: token, IncludeTotal: true}, &page)
		token = page.NextPageToken
	}
}

func (s *script) webhooks(task string) {
	webhook := func(id string, change func(*a2a.PushNotificationConfig)) *a2a.TaskPushNotificationConfig {
		c := &a2a.TaskPushNotificationConfig{TaskID: task, Config: a2a.PushNotificationConfig{ID: id, URL: "https://example.com/" + id}}
		if change != nil {
			change(&c.Config)
		}
		return c
	}
	s.call("set webhook", a2a.MethodPushSet, webhook("a", func(c *a2a.PushNotificationConfig) {
		c.Token = "secret"
		c.Authentication = a2a.PushNotificationAuthenticationInfo{Schemes: []string{"Bearer"}, Credentials: "credentials"}
	}), new(a2a.TaskPushNotificationConfig))
	s.call("set webhook without secrets", a2a.MethodPushSet, webhook("b", nil), new(a2a.TaskPushNotificationConfig))
	get := &a2a.GetTaskPushNotificationConfigParams{TaskID: task, ConfigID: "a"}
	list := &a2a.ListTaskPushNotificationConfigParams{TaskID: task}
	s.call("get webhook", a2a.MethodPushGet, get, new(a2a.TaskPushNotificationConfig))
	s.call("list webhooks", a2a.MethodPushList, list, new(a2a.ListTaskPushNotificationConfigResult))
	s.call("delete webhook", a2a.MethodPushDelete, &a2a.DeleteTaskPushNotificationConfigParams{TaskID: task, ConfigID: "a"}, nil)
	s.call("list webhooks that are left", a2a.MethodPushList, list, new(a2a.ListTaskPushNotificationConfigResult))
	s.refuse("get of a deleted webhook", a2a.MethodPushGet, get)
	s.send("send with a webhook", "ask", nil, func(p *a2a.MessageSendParams) {
		p.Configuration.PushNotificationConfig = &a2a.PushNotificationConfig{ID: "c", URL: "https://example.com/c"}
	})
	s.refuse("webhook with an invalid URL", a2a.MethodPushSet, webhook("d", func(c *a2a.PushNotificationConfig) { c.URL = "ftp://example.com" }))
	s.refuse("webhook with a private address", a2a.MethodPushSet, webhook("e", func(c *a2a.PushNotificationConfig) { c.URL = "http://10.0.0.1/" }))
	unknown := webhook("f", nil)
	unknown.TaskID = "unknown"
	s.refuse("webhook of an unknown task", a2a.MethodPushSet, unknown)
}

func (s *script) errors(over *a2a.Task) {
	negative, tooMany := -1, 1000
	s.refuse("get of an unknown task", a2a.MethodGet, &a2a.TaskQueryParams{ID: "unknown"})
	s.refuse("get with a negative length", a2a.MethodGet, &a2a.TaskQueryParams{ID: over.ID, HistoryLength: &negative})
	s.refuse("cancel of an unknown task", a2a.MethodCancel, &a2a.TaskIDParams{ID: "unknown"})
	s.refuse("cancel of a task that ended", a2a.MethodCancel, &a2a.TaskIDParams{ID: over.ID})
	s.refuse("list with a large page", a2a.MethodList, &a2a.ListTasksParams{PageSize: &tooMany})
	s.refuse("list with an invalid token", a2a.MethodList, &a2a.ListTasksParams{PageToken: "?"})
	for _, send := range []struct {
		step   string
		change func(*a2a.Message)
	}{
		{"message to a task that ended", func(m *a2a.Message) { m.TaskID = over.ID }},
		{"message to an unknown task", func(m *a2a.Message) { m.TaskID = "unknown" }},
		{"message to a task in another context", func(m *a2a.Message) {
			m.TaskID, m.ContextID = over.ID, "00000000-0000-7000-8000-ffffffffffff"
		}},
		{"message without parts", func(m *a2a.Message) { m.Parts = []a2a.Part{} }},
		{"message without an id", func(m *a2a.Message) { m.ID = "" }},
	} {
		p := &a2a.MessageSendParams{Message: message(send.step, "complete", nil), Configuration: &a2a.MessageSendConfiguration{Blocking: true}}
		send.change(&p.Message)
		s.refuse(send.step, a2a.MethodSend, p)
	}
	s.clock.advance()
	for _, err := range s.b.Stream(s.t.Context(), a2a.MethodResubscribe, &a2a.TaskIDParams{ID: "unknown"}) {
		if s.add("subscribe to an unknown task", nil, err) {
			s.t.Error("subscribing to an unknown task returned an event")
		}
		break
	}
}
