package server_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/server"
)

// sayer is a handler that does what the words of the message name, one after the other.
func sayer(ctx context.Context, t *engine.Turn) error {
	for _, word := range strings.Fields(t.Messages()[0].Text()) {
		var err error
		switch word {
		case "say":
			return t.Say(a2a.TextPart{Text: "Hello"})
		case "nothing":
			return t.Say()
		case "ask":
			return t.RequireInput()
		case "status":
			err = t.Status("thinking")
		case "metadata":
			err = t.SetMetadata(map[string]any{"a": 1})
		case "artifact":
			err = t.AddArtifact(a2a.Artifact{Name: "out", Parts: []a2a.Part{a2a.TextPart{Text: "x"}}})
		case "step":
			_, err = t.Step(ctx, "step", func(context.Context) ([]byte, error) { return []byte("1"), nil })
		case "retry":
			if t.Attempt() == 1 {
				return engine.Retry(fmt.Errorf("not yet"))
			}
		case "wait": // for the second message, unless it arrived before the turn
			if len(t.Messages()) == 1 {
				_, err = t.Receive(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// messageWait makes streams wait for messages.
func messageWait(d time.Duration) func(*server.Config) {
	return func(c *server.Config) { c.Requests.MessageWait = d }
}

// saidMessage has the members of a message, and of what is around it in A2A 1.0.
type saidMessage struct {
	Message   *saidMessage `json:"message"`
	Kind      string       `json:"kind"`
	MessageID string       `json:"messageId"`
	ContextID string       `json:"contextId"`
	TaskID    string       `json:"taskId"`
	Role      string       `json:"role"`
	Parts     []saidPart   `json:"parts"`
	Content   []saidPart   `json:"content"` // the parts over HTTP+JSON of A2A 0.3
}

type saidPart struct {
	Text string `json:"text"`
}

// wantMessage asserts that raw is a message of the agent that names its context and no task.
func wantMessage(t *testing.T, raw []byte) saidMessage {
	t.Helper()
	var m saidMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	kind, role := "message", "agent"
	if m.Message != nil {
		m, kind, role = *m.Message, "", "ROLE_AGENT"
	}
	if m.Content != nil {
		m.Parts = m.Content
	}
	if m.Kind != kind || m.Role != role || m.MessageID == "" || m.ContextID == "" || m.TaskID != "" || len(m.Parts) != 1 || m.Parts[0].Text != "Hello" {
		t.Fatalf("answer = %s, want a message of the agent with a context and no task", raw)
	}
	return m
}

// A blocking or streamed request gets the message alone, in all versions and transports.
func TestMessageAnswersInPlaceOfTheTask(t *testing.T) {
	t.Parallel()
	e := start(t, sayer, messageWait(time.Minute))
	v10 := func(text string) string { return `{` + restMessage(text) + `}` }
	streamed := func(method, params string) []byte {
		events := e.open(method, params).rest()
		if len(events) != 1 {
			t.Fatalf("%s has %d items, want the message alone", method, len(events))
		}
		return events[0].Data.Result
	}
	events := func(path, params string) []byte {
		lines := strings.Split(string(e.do("POST", path, params, nil).Body), "\n")
		if len(lines) != 4 || !strings.HasPrefix(lines[1], "data: ") {
			t.Fatalf("stream %q, want one item", lines)
		}
		return []byte(lines[1][len("data: "):])
	}
	for name, answer := range map[string]func(text string) []byte{
		"message/send":         func(text string) []byte { return e.call("message/send", params(message(text), blocking)).Result },
		"message/stream":       func(text string) []byte { return streamed("message/stream", params(message(text))) },
		"SendMessage":          func(text string) []byte { return e.call("SendMessage", v10(text)).Result },
		"SendStreamingMessage": func(text string) []byte { return streamed("SendStreamingMessage", v10(text)) },
		"POST /message:send":   func(text string) []byte { return e.do("POST", "/message:send", v10(text), nil).Body },
		"POST /v1/message:send": func(text string) []byte {
			return e.do("POST", "/v1/message:send", `{`+protoMessage(text)+`,`+blocking+`}`, nil).Body
		},
		"POST /message:stream":    func(text string) []byte { return events("/message:stream", v10(text)) },
		"POST /v1/message:stream": func(text string) []byte { return events("/v1/message:stream", `{`+protoMessage(text)+`}`) },
	} {
		for _, text := range []string{"say", "step say"} {
			t.Run(name+" "+text, func(t *testing.T) { wantMessage(t, answer(text)) })
		}
	}
	// The tasks exist, and their last message is the answer.
	var tasks struct{ Tasks []taskView }
	if err := json.Unmarshal(e.call("ListTasks", `{"historyLength":10}`).Result, &tasks); err != nil || len(tasks.Tasks) != 16 {
		t.Fatalf("%d tasks (%v), want 16", len(tasks.Tasks), err)
	}
	for _, task := range tasks.Tasks {
		if task.Status.State != "TASK_STATE_COMPLETED" || len(task.History) != 2 {
			t.Errorf("task %+v, want it to be completed by the second message", task)
		}
		wantMessage(t, []byte(`{"message":`+string(*task.Status.Message)+`}`))
	}
}

// The client gets the task where a message alone would not do.
func TestSendReturnsTheTaskIfAMessageIsNotEnough(t *testing.T) {
	t.Parallel()
	st := newStore()
	webhooks := withWebhook(t, st)
	e := startOn(t, st, sayer, func(c *server.Config) {
		webhooks(c)
		c.Requests.MessageWait = time.Minute
	})
	ids := `"taskId":"019a0000-0000-7000-8000-000000000001","contextId":"019a0000-0000-7000-8000-000000000002"`
	webhook := `"configuration":{"blocking":true,"pushNotificationConfig":{"url":"https://example.com/hook"}}`
	for name, body := range map[string]string{
		"a status first":             params(message("status say"), blocking),
		"metadata first":             params(message("metadata say"), blocking),
		"an artifact first":          params(message("artifact say"), blocking),
		"another attempt":            params(message("retry say"), blocking),
		"no content":                 params(message("nothing"), blocking),
		"a webhook":                  params(message("say"), webhook),
		"a task named by the client": params(message("say", ids), blocking),
	} {
		for _, method := range []string{"message/send", "message/stream"} {
			var last taskView
			if method == "message/send" {
				last = e.call(method, body).task(t)
			} else {
				events := e.open(method, strings.ReplaceAll(body, "019a", "019b")).rest()
				if first := events[0].view(t); first.Kind != "task" || first.Status.State != "submitted" || events[0].ID != "1" {
					t.Errorf("%s after %s starts with %s, want the task as created", method, name, events[0].Data.Result)
				}
				last = events[len(events)-1].view(t)
			}
			if last.Status.State != "completed" || (last.Status.Message == nil) != (name == "no content") {
				t.Errorf("%s after %s = %+v, want the completed task", method, name, last)
			}
		}
	}

	first := e.call("message/send", params(message("say"))).task(t)
	if first.Kind != "task" {
		t.Errorf("message/send that does not wait = %+v, want the task", first)
	}
	asked := e.send("ask")
	if turn := e.call("message/send", params(message("say", fmt.Sprintf(`"taskId":%q`, asked.ID)), blocking)).task(t); turn.Kind != "task" || turn.ID != asked.ID || turn.Status.State != "completed" {
		t.Errorf("the second message of a task = %+v, want the task", turn)
	}
	waiting := e.call("message/send", params(message("wait say"))).task(t)
	if turn := e.call("message/send", params(message("more", fmt.Sprintf(`"taskId":%q`, waiting.ID)), blocking)).task(t); turn.ID != waiting.ID || turn.Status.State != "completed" {
		t.Errorf("a message to a running task = %+v, want the task", turn)
	}
}

// A message that arrived during the turn is answered by another turn of the same task.
func TestMessageDuringTheTurnIsAnsweredByTheTask(t *testing.T) {
	t.Parallel()
	started, gate := make(chan struct{}), make(chan struct{})
	e := start(t, func(_ context.Context, turn *engine.Turn) error {
		if turn.Number() == 1 {
			close(started)
			<-gate
		}
		return turn.Say(a2a.TextPart{Text: "turn " + fmt.Sprint(turn.Number())})
	}, messageWait(time.Minute))
	task := e.call("message/send", params(message("a"))).task(t)
	<-started // else the second message may be one of the first turn
	e.call("message/send", params(message("b", fmt.Sprintf(`"taskId":%q`, task.ID)))).task(t)
	close(gate)
	e.open("tasks/resubscribe", fmt.Sprintf(`{"id":%q}`, task.ID)).rest()
	var got struct {
		History []saidMessage `json:"history"`
	}
	if err := json.Unmarshal(e.call("tasks/get", fmt.Sprintf(`{"id":%q}`, task.ID)).Result, &got); err != nil {
		t.Fatal(err)
	}
	texts := ""
	for _, m := range got.History {
		texts += m.Parts[0].Text + ";"
		if m.Role == "agent" && m.TaskID != task.ID {
			t.Errorf("message %+v, want it to name task %s", m, task.ID)
		}
	}
	if texts != "a;b;turn 1;turn 2;" {
		t.Errorf("history %s, want both messages answered by one task", texts)
	}
}

// Without MessageWait, or after it, a stream starts with the task.
func TestStreamStartsWithTheTaskAfterTheWait(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, time.Millisecond} {
		gate := make(chan struct{})
		e := start(t, func(_ context.Context, turn *engine.Turn) error {
			<-gate
			return turn.Say(a2a.TextPart{Text: "Hello"})
		}, messageWait(wait))
		s := e.open("message/stream", params(message("a")))
		if first, ok := s.next(); !ok || first.view(t).Kind != "task" || first.ID != "1" {
			t.Errorf("first item after %s = %s, want the task", wait, first.Data.Result)
		}
		close(gate)
		events := s.rest()
		if last := events[len(events)-1].view(t); !last.Final || last.Status.State != "completed" || last.Status.Message == nil {
			t.Errorf("last item = %+v, want the message as the final status", last)
		}
	}
}

// A repeated request gets the same message and runs nothing, also after a restart.
func TestRepeatedRequestsGetTheSameMessage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runs := 0
	open := func() (*env, func()) {
		db, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		e := startOn(t, db, func(ctx context.Context, turn *engine.Turn) error {
			runs++
			return sayer(ctx, turn)
		}, messageWait(time.Minute))
		return e, func() {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_ = e.engine.Stop(ctx)
			_ = db.Close()
		}
	}
	key := []string{"Idempotency-Key", "k"}
	byID := params(messageWithUUID("say"), blocking)
	byKey := params(message("say"), blocking)
	var want [2]saidMessage
	for range 2 {
		e, stop := open()
		for i, got := range [][]byte{
			e.call("message/send", byID).Result, e.call("message/send", byKey, key...).Result,
			e.call("message/send", byID).Result, e.call("message/send", byKey, key...).Result,
			e.open("message/stream", byID).rest()[0].Data.Result,
		} {
			m := wantMessage(t, got)
			first := &want[i%2]
			if first.MessageID = cmp.Or(first.MessageID, m.MessageID); m.MessageID != first.MessageID {
				t.Errorf("repeated request = message %s, the first response was %s", m.MessageID, first.MessageID)
			}
		}
		if other := e.call("message/send", params(message("status say"), blocking), key...); other.code() != a2a.CodeConflict.JSONRPC() {
			t.Errorf("another request with the same key = %s, want a conflict", other.Body)
		}
		stop()
	}
	if runs != 2 {
		t.Errorf("the handler ran %d times for 2 requests", runs)
	}
}

// A message that answers in place of a task needs memory of the budget, as a task does.
func TestLargeMessagesNeedMemoryOfTheBudget(t *testing.T) {
	t.Parallel()
	e := start(t, func(_ context.Context, turn *engine.Turn) error {
		return turn.Say(a2a.TextPart{Text: strings.Repeat("x", 1<<20)})
	}, func(c *server.Config) { c.Memory, c.Requests.MessageWait = memory.New(1<<20), time.Minute })
	want := fmt.Sprint(a2a.CodeTooLarge.JSONRPC())
	if got := e.call("message/send", params(message("a"), blocking)); fmt.Sprint(got.code()) != want {
		t.Errorf("message/send = %.200s, want error %s", got.Body, want)
	}
	events := e.open("message/stream", params(message("b"))).rest()
	if len(events) != 1 || fmt.Sprint(events[0].Data.code()) != want {
		t.Errorf("message/stream = %d items, the first %.200s, want error %s", len(events), events[0].Data.Result, want)
	}
}
