package client_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/signature"
	"github.com/holdfast-dev/holdfast/webhook"
)

var (
	secret  = []byte("0123456789abcdef0123456789abcdef")
	private = ed25519.NewKeyFromSeed([]byte("fedcba9876543210fedcba9876543210"))
)

// inbox records what a receiver processes.
type inbox struct {
	mu     sync.Mutex
	events []string
	fail   error
}

func (b *inbox) handle(_ context.Context, e client.WebhookEvent) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		return b.fail
	}
	text := fmt.Sprintf("%s %d", e.TaskID, e.Sequence)
	if e.Sequence == 0 {
		text = e.TaskID + " " + e.ID
	}
	if e.Missing > 0 {
		text += fmt.Sprintf(" missing %d", e.Missing)
	}
	if e.Late {
		text += " late"
	}
	b.events = append(b.events, text)
	return nil
}

func (b *inbox) seen() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.events...)
}

func newReceiver(t *testing.T, cfg client.ReceiverConfig) *client.Receiver {
	t.Helper()
	r, err := client.NewReceiver(cfg)
	if err != nil {
		t.Fatalf("NewReceiver() = %v", err)
	}
	return r
}

// deliver sends a body with a signature by secret, after change has modified the headers, and returns
// the status.
func deliver(r http.Handler, id, body string, change func(http.Header)) int {
	req := httptest.NewRequest(http.MethodPost, "/hook", strings.NewReader(body))
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set(signature.HeaderID, id)
	req.Header.Set(signature.HeaderTimestamp, stamp)
	req.Header.Set(signature.HeaderSignature, string(signature.NewMessage(id, stamp, []byte(body)).AppendHMAC(nil, secret)))
	if change != nil {
		change(req.Header)
	}
	w := httptest.NewRecorder()
	r.ServeHTTP(w, req)
	return w.Code
}

func webhookEvent(task string, sequence int) (id, body string) {
	id = fmt.Sprintf("%s-%d", task, sequence)
	return id, fmt.Sprintf(`{"event_id":%q,"sequence":%d,"timestamp":"2026-05-18T08:00:00.123456+00:00","kind":"status-update","task_id":%q,"context_id":"c",`+
		`"status":{"state":"working","timestamp":"2026-05-18T08:00:00.123456+00:00"},"final":false}`, id, sequence, task)
}

func TestReceiverVerifiesRequests(t *testing.T) {
	t.Parallel()
	box := new(inbox)
	r := newReceiver(t, client.ReceiverConfig{
		Handle: box.handle, Tokens: []string{"sesame", "poppy"}, MaxBodyBytes: 1000,
		Keys: []string{signature.EncodeSecret(secret), signature.EncodePublicKey(private.Public().(ed25519.PublicKey))},
	})
	id, body := webhookEvent("t", 1)
	token := func(h http.Header) { h.Set("Authorization", "Bearer sesame") }
	at := func(offset time.Duration) func(http.Header) {
		return func(h http.Header) {
			token(h)
			stamp := strconv.FormatInt(time.Now().Add(offset).Unix(), 10)
			h.Set(signature.HeaderTimestamp, stamp)
			h.Set(signature.HeaderSignature, string(signature.NewMessage(id, stamp, []byte(body)).AppendHMAC(nil, secret)))
		}
	}
	set := func(name, value string) func(http.Header) {
		return func(h http.Header) {
			token(h)
			h.Set(name, value)
		}
	}
	for _, test := range []struct {
		name   string
		body   string
		change func(http.Header)
		want   int
	}{
		{"no token", body, nil, 401},
		{"another token", body, set("Authorization", "Bearer other"), 401},
		{"another scheme", body, set("Authorization", "Basic sesame"), 401},
		{"no signature", body, set(signature.HeaderSignature, ""), 401},
		{"another version", body, set(signature.HeaderSignature, "v2,AAAA"), 401},
		{"another body", strings.Replace(body, "working", "failed", 1), func(h http.Header) { token(h); at(0)(h) }, 401},
		{"another id", body, set(signature.HeaderID, "other"), 401},
		{"no id", body, set(signature.HeaderID, ""), 401},
		{"another time", body, set(signature.HeaderTimestamp, "1"), 401},
		{"no time", body, set(signature.HeaderTimestamp, ""), 401},
		{"six minutes ago", body, at(-6 * time.Minute), 401},
		{"in six minutes", body, at(6 * time.Minute), 401},
		{"too large", body + strings.Repeat(" ", 1000), token, 413},
		{"no event", `{"hello":1}`, token, 400},
		{"no JSON", `<html>`, token, 400},
		{"an array", `[]`, token, 400},
		{"a negative sequence", strings.Replace(body, `"sequence":1`, `"sequence":-1`, 1), token, 400},
	} {
		if got := deliver(r, id, test.body, test.change); got != test.want {
			t.Errorf("%s: status = %d, want %d", test.name, got, test.want)
		}
	}
	if got := box.seen(); got != nil {
		t.Fatalf("processed %q, want nothing", got)
	}
	w := httptest.NewRecorder()
	if r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil)); w.Code != 405 {
		t.Errorf("GET: status = %d, want 405", w.Code)
	}
	ed25519Signature := func(h http.Header) {
		h.Set("X-A2A-Notification-Token", "poppy")
		h.Set(signature.HeaderSignature, "v1,AAAA "+string(signature.NewMessage(id, h.Get(signature.HeaderTimestamp), []byte(body)).AppendEd25519(nil, private)))
	}
	for _, change := range []func(http.Header){ed25519Signature, at(-4 * time.Minute), token} {
		if got := deliver(r, id, body, change); got != 204 {
			t.Errorf("valid request: status = %d, want 204", got)
		}
	}
	if diff := cmp.Diff([]string{"t 1"}, box.seen()); diff != "" {
		t.Errorf("processed (-want +got):\n%s", diff)
	}
}

func TestReceiverDropsDuplicatesAndReportsGaps(t *testing.T) {
	t.Parallel()
	box, duplicates := new(inbox), 0
	r := newReceiver(t, client.ReceiverConfig{
		Handle: box.handle, Keys: []string{signature.EncodeSecret(secret)}, OnDuplicate: func(client.WebhookEvent) { duplicates++ },
	})
	for _, sequence := range []int{3, 3, 4, 9, 6, 6, 9, 5, 7, 8, 8, 10, 1, 1, 2} {
		id, body := webhookEvent("a", sequence)
		if got := deliver(r, id, body, nil); got != 204 {
			t.Errorf("event %d: status = %d, want 204", sequence, got)
		}
	}
	want := []string{"a 3", "a 4", "a 9 missing 4", "a 6 late", "a 5 late", "a 7 late", "a 8 late", "a 10", "a 1 late", "a 2 late"}
	if diff := cmp.Diff(want, box.seen()); diff != "" || duplicates != 5 {
		t.Errorf("%d duplicates, want 5; processed (-want +got):\n%s", duplicates, diff)
	}
}

func TestReceiverRecognizesEventsWithoutSequenceByTheirIDs(t *testing.T) {
	t.Parallel()
	box := new(inbox)
	r := newReceiver(t, client.ReceiverConfig{Handle: box.handle, Tokens: []string{"t"}})
	token := func(h http.Header) { h.Set("A2A-Notification-Token", "t") }
	noID := func(h http.Header) {
		token(h)
		h.Del(signature.HeaderID)
	}
	task := taskIn("working")
	update := `{"statusUpdate":{"taskId":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING"}}}`
	deliver(r, "e1", task, token)
	deliver(r, "e1", task, token)
	deliver(r, "e2", update, token)
	deliver(r, "e2", update, token)
	deliver(r, "e3", `{"message":{"messageId":"m","contextId":"c2","role":"ROLE_AGENT","parts":[{"text":"hi"}]}}`, token)
	if diff := cmp.Diff([]string{"t1 e1", "t1 e2", "c2 e3"}, box.seen()); diff != "" {
		t.Errorf("processed (-want +got):\n%s", diff)
	}
	for range 2 {
		if got := deliver(r, "", update, noID); got != 204 {
			t.Errorf("without an id: status = %d, want 204", got)
		}
	}
	if got := box.seen(); len(got) != 4 {
		t.Errorf("processed %q, want a body without an id once", got)
	}
}

// table is a store of positions.
type table struct {
	mu    sync.Mutex
	rows  map[string]string
	loads int
	fail  error
}

func (s *table) Load(_ context.Context, taskID string) (p client.Position, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loads++; s.rows[taskID] != "" {
		err = json.Unmarshal([]byte(s.rows[taskID]), &p)
	}
	return p, err
}

func (s *table) Save(_ context.Context, taskID string, p client.Position) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := json.Marshal(p)
	s.rows[taskID] = string(raw)
	return errors.Join(err, s.fail)
}

func TestRestartedReceiverContinuesAtItsPositions(t *testing.T) {
	t.Parallel()
	positions := &table{rows: map[string]string{}}
	var all []string
	for _, sequences := range [][]int{{1, 2, 5}, {2, 5, 4, 6}, {3, 4, 7}} {
		box := new(inbox)
		r := newReceiver(t, client.ReceiverConfig{Handle: box.handle, Keys: []string{signature.EncodeSecret(secret)}, Positions: positions})
		for _, sequence := range sequences {
			id, body := webhookEvent("a", sequence)
			deliver(r, id, body, nil)
		}
		deliver(r, "x", taskIn("working"), nil)
		all = append(all, box.seen()...)
	}
	want := []string{"a 1", "a 2", "a 5 missing 2", "t1 x", "a 4 late", "a 6", "a 3 late", "a 7"}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("processed (-want +got):\n%s", diff)
	}
}

func TestReceiverRequestsRedeliveryAfterAnError(t *testing.T) {
	t.Parallel()
	box := &inbox{fail: errors.New("no database")}
	var rejected error
	positions := &table{rows: map[string]string{}}
	r := newReceiver(t, client.ReceiverConfig{
		Handle: box.handle, Keys: []string{signature.EncodeSecret(secret)}, Positions: positions,
		OnReject: func(_ *http.Request, err error) { rejected = err },
	})
	id, body := webhookEvent("a", 1)
	if got := deliver(r, id, body, nil); got != 503 || !errors.Is(rejected, box.fail) {
		t.Errorf("Handle fails: status = %d (%v), want 503", got, rejected)
	}
	box.fail, positions.fail = nil, errors.New("no disk")
	if got := deliver(r, id, body, nil); got != 503 {
		t.Errorf("Save fails: status = %d, want 503", got)
	}
	positions.fail = nil
	if got := deliver(r, id, body, nil); got != 204 || len(box.seen()) != 2 {
		t.Errorf("status = %d after %q, want 204 and the event twice", got, box.seen())
	}
}

func TestReceiverForgetsTheLeastRecentTasks(t *testing.T) {
	t.Parallel()
	box, positions := new(inbox), &table{rows: map[string]string{}}
	r := newReceiver(t, client.ReceiverConfig{Handle: box.handle, Keys: []string{signature.EncodeSecret(secret)}, Positions: positions, MaxTasks: 2})
	for _, task := range []string{"a", "b", "a", "c", "a", "b"} {
		id, body := webhookEvent(task, 1)
		deliver(r, id, body, nil)
	}
	if diff := cmp.Diff([]string{"a 1", "b 1", "c 1"}, box.seen()); diff != "" || positions.loads != 4 {
		t.Errorf("%d loads, want 4 since b was forgotten; processed (-want +got):\n%s", positions.loads, diff)
	}
}

func TestReceiverProcessesConcurrentDuplicatesOnce(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}, 10), make(chan struct{})
	r := newReceiver(t, client.ReceiverConfig{
		Keys: []string{signature.EncodeSecret(secret)}, MaxRequests: 3,
		Handle: func(context.Context, client.WebhookEvent) error {
			started <- struct{}{}
			<-release
			return nil
		},
	})
	id, body := webhookEvent("a", 1)
	codes := make(chan int, 4)
	for range 4 {
		go func() { codes <- deliver(r, id, body, nil) }()
	}
	if got := <-codes; got != 503 { // the fourth exceeds MaxRequests
		t.Errorf("status = %d, want 503", got)
	}
	close(release)
	for range 3 {
		if got := <-codes; got != 204 {
			t.Errorf("status = %d, want 204", got)
		}
	}
	if len(started) != 1 {
		t.Errorf("processed %d times, want once", len(started))
	}
}

func TestNewReceiverReportsAllProblems(t *testing.T) {
	t.Parallel()
	_, err := client.NewReceiver(client.ReceiverConfig{Tolerance: time.Millisecond})
	for _, want := range []string{"Handle is required", "Keys or Tokens is required", "Tolerance"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewReceiver() = %v, want %q", err, want)
		}
	}
	if _, err := client.NewReceiver(client.ReceiverConfig{Handle: new(inbox).handle, Keys: []string{"whsec_hidden!"}}); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("NewReceiver() = %v, want an error without the key", err)
	}
}

// A real agent sends its events to receivers in each format.
func TestReceiverOfARealAgent(t *testing.T) {
	t.Parallel()
	agent, err := holdfast.New(holdfast.Config{
		Name: "a", Store: inmem.New(), Webhooks: webhook.Settings{AllowNets: []string{"127.0.0.0/8"}},
	}, holdfast.HandlerFunc(func(_ context.Context, turn *holdfast.Turn) error {
		if turn.Number() == 1 {
			return turn.RequireInput("which one?")
		}
		if _, err := turn.Artifact("out").WriteString("result"); err != nil {
			return err
		}
		return turn.Reply("done")
	}))
	if err != nil {
		t.Fatal(err)
	}
	url := serveAgent(t, agent)
	c, ctx := discover(t, client.Config{URL: url, Version: client.Version03}), t.Context()
	for _, format := range []a2a.PayloadFormat{a2a.PayloadEvent, a2a.PayloadTask, a2a.PayloadStreamResponse} {
		var receiver http.Handler
		var mu sync.Mutex
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			h := receiver
			mu.Unlock()
			h.ServeHTTP(w, r)
		}))
		t.Cleanup(s.Close)
		mu.Lock() // until the secret is known
		task := sendText(t, c, "", "go")
		webhook, err := c.SetWebhook(ctx, a2a.TaskPushNotificationConfig{TaskID: task.ID, Config: a2a.PushNotificationConfig{
			ID: "w", URL: s.URL, Token: "t", PayloadFormat: format, Signatures: []string{"v1", "v1a"},
		}})
		if err != nil {
			t.Fatalf("SetWebhook() = %v", err)
		}
		var got []client.WebhookEvent
		duplicates := 0
		receiver = newReceiver(t, client.ReceiverConfig{
			Tokens: []string{"t"}, Keys: []string{webhook.Config.SigningSecret},
			Handle: func(_ context.Context, e client.WebhookEvent) error {
				got = append(got, e)
				return nil
			},
			OnDuplicate: func(client.WebhookEvent) { duplicates++ },
			OnReject:    func(_ *http.Request, err error) { t.Errorf("%s: rejected: %v", format, err) },
		})
		mu.Unlock()
		m := client.Text("this")
		m.TaskID = task.ID
		if _, err := c.Send(ctx, client.SendParams{Message: m}); err != nil {
			t.Fatal(err)
		}
		delivered := func() int64 {
			webhook, err := c.GetWebhook(ctx, a2a.GetTaskPushNotificationConfigParams{TaskID: task.ID, ConfigID: "w"})
			if err != nil || webhook.Config.Delivery == nil {
				return 0
			}
			return webhook.Config.Delivery.Delivered
		}
		await.True(t, "all events are delivered", func() bool { return delivered() == 3 })
		if _, err := c.Replay(ctx, a2a.ReplayParams{TaskID: task.ID, ConfigID: "w", FromSequence: 3}); err != nil {
			t.Fatal(err)
		}
		await.True(t, "the replay is delivered", func() bool { return delivered() == 6 })
		if len(got) != 3 || duplicates != 3 {
			t.Fatalf("%s: processed %d events and %d duplicates, want 3 and 3", format, len(got), duplicates)
		}
		for i, e := range got {
			if e.TaskID != task.ID || e.ContextID != task.ContextID || e.ID == "" || e.Missing != 0 || (e.Sequence != 0) != (format == a2a.PayloadEvent) {
				t.Errorf("%s: event %d = %+v, want it of the task", format, i, e)
			}
		}
		switch last := got[2].Event.(type) {
		case *a2a.Task:
			if last.Status.State != a2a.StateCompleted || last.Artifacts[0].Text() != "result" {
				t.Errorf("%s: last event = %+v, want the completed task", format, last)
			}
		case *a2a.TaskStatusUpdateEvent:
			if artifact, ok := got[1].Event.(*a2a.TaskArtifactUpdateEvent); last.Status.State != a2a.StateCompleted || last.Status.Message.Text() != "done" || !ok || artifact.Artifact.Text() != "result" {
				t.Errorf("%s: events = %+v, %+v, want the artifact and the end", format, got[1].Event, last)
			}
		default:
			t.Errorf("%s: last event = %T", format, last)
		}
	}
}

// serveAgent serves an agent until the test ends and returns its URL.
func serveAgent(t *testing.T, agent *holdfast.Agent) string {
	t.Helper()
	ln, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- agent.Serve(ctx, ln) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + ln.Addr().String()
}

func FuzzReceiver(f *testing.F) {
	_, body := webhookEvent("a", 3)
	for _, seed := range []string{body, taskIn("working"), `{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`, `{"kind":"message"}`, `{"message":{}}`, `{}`} {
		f.Add(seed, "id")
	}
	f.Fuzz(func(t *testing.T, body, id string) {
		handled := 0
		r := newReceiver(t, client.ReceiverConfig{Tokens: []string{"t"}, Handle: func(_ context.Context, e client.WebhookEvent) error {
			if handled++; e.TaskID == "" || e.ID == "" || e.Event == nil || e.Sequence < 0 {
				t.Errorf("Handle(%+v), want a task, an id and an event", e)
			}
			return nil
		}})
		token := func(h http.Header) {
			h.Set("Authorization", "Bearer t")
			h.Set(signature.HeaderID, id)
		}
		first, second := deliver(r, id, body, token), deliver(r, id, body, token)
		if first != second || (first == 204) != (handled == 1) || handled > 1 || first != 204 && first != 400 {
			t.Errorf("statuses = %d, %d after %d events, want 204 and one event, or 400", first, second, handled)
		}
	})
}
