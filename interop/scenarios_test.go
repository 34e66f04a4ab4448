package interop_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/recording"
)

// protocol are the scenarios of a client with a call for every method.
func protocol(connect func(t *testing.T, url string) peer) map[scenario]func(*testing.T, *server) {
	with := func(run func(*testing.T, peer)) func(*testing.T, *server) {
		return func(t *testing.T, s *server) { run(t, connect(t, s.url)) }
	}
	return map[scenario]func(*testing.T, *server){
		cardScenario:   with(readsCard),
		sendScenario:   with(sends),
		streamScenario: with(streams),
		resumeScenario: func(t *testing.T, s *server) {
			s = s.another(t)
			resubscribes(t, s, connect(t, s.url))
		},
		pushScenario:   with(receivesPush),
		cancelScenario: with(cancels),
		turnsScenario:  with(continues),
		filesScenario:  with(exchangesFiles),
		errorsScenario: with(fails),
	}
}

// say returns a message with a text.
func say(text string, parts ...part) message {
	return message{id: "m-" + rand.Text(), parts: append([]part{{text: text}}, parts...)}
}

// done waits for the answer to a message.
func done(t *testing.T, p peer, m message) event {
	t.Helper()
	e, err := p.send(t.Context(), sending{message: m})
	if err != nil {
		t.Fatalf("send %q = %v", text(m.parts), err)
	}
	if e.kind != "task" || e.taskID == "" || e.contextID == "" {
		t.Fatalf("send %q = %+v, want a task", text(m.parts), e)
	}
	return e
}

// collect reads a stream to its end, or until it has n events.
func collect(t *testing.T, events iter.Seq2[event, error], n int) []event {
	t.Helper()
	var all []event
	for e, err := range events {
		if err != nil {
			t.Fatalf("stream: event %d: %v", len(all)+1, err)
		}
		if all = append(all, e); len(all) == n {
			break
		}
	}
	if len(all) == 0 || all[0].kind != "task" {
		t.Fatalf("stream = %+v, want a task first", all)
	}
	for _, e := range all {
		if e.taskID != all[0].taskID || e.contextID != all[0].contextID {
			t.Errorf("stream: event %+v is of another task than %+v", e, all[0])
		}
	}
	return all
}

// finalState is the state after a stream.
func finalState(events []event) string {
	state := ""
	for _, e := range events {
		if e.state != "" {
			state = e.state
		}
	}
	return state
}

func wantCode(t *testing.T, call string, err error, want int) {
	t.Helper()
	var f *failure
	if !errors.As(err, &f) || f.code != want {
		t.Errorf("%s = %v, want an error with code %d", call, err, want)
	}
}

func readsCard(t *testing.T, p peer) {
	if got, want := p.card(), (cardInfo{name: "interop", skills: 1, streaming: true, push: true}); got != want {
		t.Errorf("card = %+v, want %+v", got, want)
	}
}

func sends(t *testing.T, p peer) {
	m := say("complete")
	e := done(t, p, m)
	if e.state != "completed" || e.said != "Hello." {
		t.Errorf("send = %s %q, want completed %q", e.state, e.said, "Hello.")
	}
	if len(e.history) == 0 || e.history[0].id != m.id || text(e.history[0].parts) != "complete" {
		t.Errorf("history = %+v, want the message first", e.history)
	}
	got, err := p.task(t.Context(), e.taskID)
	if err != nil || got.taskID != e.taskID || got.contextID != e.contextID || got.state != "completed" {
		t.Errorf("get = %+v, %v, want the task", got, err)
	}
	soon, err := p.send(t.Context(), sending{message: say("wait"), immediate: true})
	if err != nil || soon.kind != "task" || (soon.state != "submitted" && soon.state != "working") {
		t.Fatalf("send that does not block = %+v, %v, want a task that runs", soon, err)
	}
	if _, err := p.cancel(t.Context(), soon.taskID); err != nil {
		t.Errorf("cancel = %v", err)
	}
}

func streams(t *testing.T, p peer) {
	events := collect(t, p.stream(t.Context(), sending{message: say("chunks")}), 0)
	var said, chunks []string
	for _, e := range events {
		if e.kind == "status" && e.said != "" {
			said = append(said, e.said)
		}
		if e.kind == "artifact" && text(e.artifacts[0].parts) != "" {
			chunks = append(chunks, text(e.artifacts[0].parts))
		}
	}
	if !slices.Equal(said, []string{"thinking", "Done."}) || !slices.Equal(chunks, []string{"for", "ty-two"}) || finalState(events) != "completed" {
		t.Errorf("stream = statuses %q, chunks %q, final state %s", said, chunks, finalState(events))
	}
	got, err := p.task(t.Context(), events[0].taskID)
	if err != nil || len(got.artifacts) != 1 || text(got.artifacts[0].parts) != "forty-two" || got.artifacts[0].name != "answer" {
		t.Errorf("get = %+v, %v, want the artifact forty-two", got, err)
	}
}

// The server is killed while a client reads a stream; the task continues after its last completed step.
func resubscribes(t *testing.T, s *server, p peer) {
	first := collect(t, p.stream(t.Context(), sending{message: say("slow")}), 5)
	s.kill()
	s.start()
	events := collect(t, p.resubscribe(t.Context(), first[0].taskID), 0)
	if events[0].taskID != first[0].taskID || finalState(events) != "completed" {
		t.Fatalf("resubscribe = task %s in %s at its end, want %s completed", events[0].taskID, finalState(events), first[0].taskID)
	}
	for _, e := range events[1:] {
		if e.said == "step 1 of 12" {
			t.Error("the task started again from its first step")
		}
	}
	got, err := p.task(t.Context(), first[0].taskID)
	if err != nil || got.state != "completed" || len(got.artifacts) != 1 || text(got.artifacts[0].parts) != "All steps." {
		t.Errorf("get = %+v, %v, want the task with its artifact", got, err)
	}
}

func cancels(t *testing.T, p peer) {
	first := collect(t, p.stream(t.Context(), sending{message: say("wait")}), 2)
	e, err := p.cancel(t.Context(), first[0].taskID)
	if err != nil || e.state != "canceled" || e.taskID != first[0].taskID {
		t.Fatalf("cancel = %+v, %v, want the task canceled", e, err)
	}
	got, err := p.task(t.Context(), first[0].taskID)
	if err != nil || got.state != "canceled" {
		t.Errorf("get = %+v, %v, want canceled", got, err)
	}
	_, err = p.cancel(t.Context(), first[0].taskID)
	wantCode(t, "cancel of a canceled task", err, codeTaskNotCancelable)
}

func continues(t *testing.T, p peer) {
	asked := done(t, p, say("ask"))
	if asked.state != "input-required" || asked.said != "Which one?" {
		t.Fatalf("first turn = %s %q, want input-required", asked.state, asked.said)
	}
	m := say("the red one")
	m.taskID, m.contextID = asked.taskID, asked.contextID
	second := done(t, p, m)
	if second.taskID != asked.taskID || second.contextID != asked.contextID || second.state != "completed" ||
		len(second.artifacts) != 1 || text(second.artifacts[0].parts) != "You said: the red one" {
		t.Errorf("second turn = %+v, want the task completed with the answer", second)
	}
	if len(second.history) < 3 {
		t.Errorf("history = %+v, want the messages of both turns", second.history)
	}
	m = say("complete")
	m.contextID = asked.contextID
	if third := done(t, p, m); third.taskID == asked.taskID || third.contextID != asked.contextID {
		t.Errorf("message to the context = task %s in %s, want another task in %s", third.taskID, third.contextID, asked.contextID)
	}
}

var (
	bytesFile = part{name: "a.bin", mediaType: "application/octet-stream", bytes: base64.StdEncoding.EncodeToString([]byte("\x00\xff binary"))}
	uriFile   = part{name: "b.txt", mediaType: "text/plain", uri: "https://example.com/b.txt"}
	dataPart  = part{data: map[string]any{"answer": 42.5, "list": []any{"a", true, 1.0}, "größe": "ü"}}
)

func exchangesFiles(t *testing.T, p peer) {
	e := done(t, p, say("echo", bytesFile, uriFile, dataPart))
	if e.state != "completed" || len(e.artifacts) != 1 {
		t.Fatalf("send = %+v, want one artifact", e)
	}
	want := []part{bytesFile, uriFile, dataPart}
	if js, ok := p.(*jsClient); ok && js.noNames {
		want[0].name, want[1].name = "", ""
	}
	if !reflect.DeepEqual(e.artifacts[0].parts, want) {
		t.Errorf("parts = %+v, want %+v", e.artifacts[0].parts, want)
	}
}

func fails(t *testing.T, p peer) {
	ctx := t.Context()
	absent := "01890a5d-ac96-774b-bcce-b302099a8057"
	over := done(t, p, say("reject"))
	if over.state != "rejected" || over.said != "No." {
		t.Errorf("send = %s %q, want rejected", over.state, over.said)
	}
	send := func(m message) error {
		_, err := p.send(ctx, sending{message: m})
		return err
	}
	_, err := p.task(ctx, absent)
	wantCode(t, "get of an unknown task", err, codeTaskNotFound)
	_, err = p.cancel(ctx, absent)
	wantCode(t, "cancel of an unknown task", err, codeTaskNotFound)
	_, err = p.cancel(ctx, over.taskID)
	wantCode(t, "cancel of a task that ended", err, codeTaskNotCancelable)
	m := say("again")
	m.taskID = over.taskID
	wantCode(t, "message to a task that ended", send(m), codeUnsupportedOperation)
	m = say("complete")
	m.taskID = absent
	wantCode(t, "message to an unknown task", send(m), codeTaskNotFound)
	asked := done(t, p, say("ask"))
	m = say("complete")
	m.taskID, m.contextID = asked.taskID, absent
	wantCode(t, "message to a task in another context", send(m), codeInvalidParams)
	wantCode(t, "message without parts", send(message{id: "m-" + rand.Text()}), codeInvalidParams)
	for _, err := range p.resubscribe(ctx, absent) {
		wantCode(t, "resubscribe to an unknown task", err, codeTaskNotFound)
	}
	_, err = p.setHook(ctx, hook{taskID: absent, id: "h", url: "https://example.com/hook"})
	wantCode(t, "webhook of an unknown task", err, codeTaskNotFound)
	_, err = p.setHook(ctx, hook{taskID: over.taskID, id: "h", url: "http://10.0.0.1/"})
	wantCode(t, "webhook with a private address", err, codeInvalidParams)
}

// A webhook that came with the message receives the events of the task; its configuration can be
// read, listed, set and deleted.
func receivesPush(t *testing.T, p peer) {
	url, requests := receiver(t, func(x recording.Exchange) { validate(t, fromInterop, x) })
	e, err := p.send(t.Context(), sending{message: say("ask"), hook: &hook{id: "mine", url: url, token: "s3cret"}})
	if err != nil {
		t.Fatalf("send = %v", err)
	}
	if e.state == "working" || e.state == "submitted" {
		t.Fatalf("send = %s, want input-required", e.state)
	}
	wantRequest(t, requests, "s3cret", "input-required")

	got, err := p.hook(t.Context(), e.taskID, "mine")
	if err != nil || got.url != url || got.id != "mine" || got.taskID != e.taskID {
		t.Errorf("get config = %+v, %v, want the one sent with the message", got, err)
	}
	other, err := p.setHook(t.Context(), hook{id: "other", taskID: e.taskID, url: url + "/other", token: "0ther"})
	if err != nil || other.id != "other" || other.taskID != e.taskID {
		t.Errorf("set config = %+v, %v", other, err)
	}
	list, err := p.hooks(t.Context(), e.taskID)
	if err != nil || len(list) != 2 {
		t.Errorf("list configs = %+v, %v, want both", list, err)
	}
	if err := p.deleteHook(t.Context(), e.taskID, "mine"); err != nil {
		t.Errorf("delete config = %v", err)
	}
	if list, err := p.hooks(t.Context(), e.taskID); err != nil || len(list) != 1 || list[0].id != "other" {
		t.Errorf("list configs after the deletion = %+v, %v, want the other", list, err)
	}
	if _, err := p.cancel(t.Context(), e.taskID); err != nil {
		t.Errorf("cancel = %v", err)
	}
	wantRequest(t, requests, "0ther", "canceled")
}

// request is one delivery to a webhook.
type request struct {
	token string
	body  []byte
}

// receiver starts a receiver of webhook requests. It passes each to check, which may be nil.
func receiver(t *testing.T, check func(recording.Exchange)) (string, <-chan request) {
	t.Helper()
	requests := make(chan request, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if check != nil {
			check(recording.Exchange{Method: r.Method, Path: r.URL.Path, Request: body, Webhook: true})
		}
		requests <- request{r.Header.Get("X-A2A-Notification-Token"), body}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/hook", requests
}

// wantRequest waits for a delivery with the token that shows the state.
func wantRequest(t *testing.T, requests <-chan request, token, state string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var last []byte
	for {
		select {
		case r := <-requests:
			if last = r.body; r.token == token && stateOf(t, r.body) == state {
				return
			}
		case <-ctx.Done():
			t.Fatalf("no delivery with token %s and state %s; the last was %s", token, state, last)
		}
	}
}

// stateOf reads a body: a Task of 0.3 or a StreamResponse of 1.0.
func stateOf(t *testing.T, body []byte) string {
	t.Helper()
	var kind struct{ Kind string }
	if err := json.Unmarshal(body, &kind); err != nil {
		t.Fatalf("webhook body %s: %v", body, err)
	}
	read := from10
	if kind.Kind != "" {
		read = from03
	}
	e, err := read(body)
	if err != nil {
		t.Fatalf("webhook body %s: %v", body, err)
	}
	return strings.TrimSpace(e.state)
}
