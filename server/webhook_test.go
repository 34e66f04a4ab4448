package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/webhook"
)

// discardSender is a Sender that checks URLs by the default policy without name lookups, and sends
// nothing.
type discardSender struct{ policy safehttp.Policy }

func (*discardSender) Post(context.Context, safehttp.Request) (safehttp.Response, error) {
	return safehttp.Response{Status: http.StatusOK}, nil
}

func (u *discardSender) Check(_ context.Context, rawURL string) error {
	_, err := u.policy.CheckURL(rawURL)
	return err
}

// withWebhook configures webhooks without deliveries: the service is not started.
func withWebhook(t testing.TB, st store.Store) func(*server.Config) {
	t.Helper()
	s, err := webhook.New(webhook.Config{Store: st, NewID: newID, Sender: &discardSender{}})
	if err != nil {
		t.Fatal(err)
	}
	return func(c *server.Config) { c.Webhook = s }
}

// startWebhook starts an agent with webhooks, which may be on loopback. stop stops the agent
// and the service.
func startWebhook(t testing.TB, st store.Store, handler engine.Handler, change func(*webhook.Config)) (e *env, stop func()) {
	t.Helper()
	cfg := webhook.Config{
		Store: st, NewID: newID, Settings: webhook.Settings{AllowNets: []string{"127.0.0.0/8"}, Poll: 20 * time.Millisecond},
	}
	if change != nil {
		change(&cfg)
	}
	s, err := webhook.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	e = startOn(t, st, handler, func(c *server.Config) {
		twoTokens(c)
		c.Webhook = s
	})
	stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = e.engine.Stop(ctx)
		s.Drain(ctx)
		_ = s.Stop(ctx)
	}
	t.Cleanup(stop)
	return e, stop
}

// delivery is a request that a receiver got.
type delivery struct {
	Header http.Header
	Body   []byte
	Event  struct {
		ID       string `json:"event_id"`
		Sequence int64  `json:"sequence"`
		Kind     string `json:"kind"`
		TaskID   string `json:"task_id"`
		Final    *bool  `json:"final"`
		Status   struct {
			State   string `json:"state"`
			Message *struct {
				Parts []struct {
					Text string `json:"text"`
				} `json:"parts"`
			} `json:"message"`
		} `json:"status"`
		Artifact struct {
			ID   string `json:"artifact_id"`
			Name string `json:"name"`
		} `json:"artifact"`
	}
}

// summary returns a summary of an event.
func (p delivery) summary() string {
	e := p.Event
	text := fmt.Sprintf("%d %s ", e.Sequence, e.Kind)
	if e.Kind == "artifact-update" {
		return text + e.Artifact.Name
	}
	text += e.Status.State
	if e.Status.Message != nil {
		text += " " + e.Status.Message.Parts[0].Text
	}
	if e.Final != nil && *e.Final {
		text += " final"
	}
	return text
}

// receiver is a webhook endpoint.
type receiver struct {
	t          testing.TB
	url        string
	deliveries chan delivery
	mu         sync.Mutex
	onDelivery func(delivery) // called before the response; may be nil
}

func newReceiver(t testing.TB) *receiver {
	t.Helper()
	r := &receiver{t: t, deliveries: make(chan delivery, 100)}
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p := delivery{Header: req.Header}
		var err error
		if p.Body, err = io.ReadAll(req.Body); err == nil {
			err = json.Unmarshal(p.Body, &p.Event)
		}
		if err != nil {
			t.Errorf("receiver: %v", err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.onDelivery != nil {
			r.onDelivery(p)
		}
		r.deliveries <- p
	}))
	t.Cleanup(ts.Close)
	r.url = ts.URL + "/hook"
	return r
}

// waitFor returns the deliveries up to the one with a summary that ends with last.
func (r *receiver) waitFor(last string) (summaries []string, deliveries []delivery) {
	r.t.Helper()
	timeout := time.NewTimer(await.Limit)
	defer timeout.Stop()
	for {
		select {
		case p := <-r.deliveries:
			deliveries = append(deliveries, p)
			summaries = append(summaries, p.summary())
			if strings.HasSuffix(summaries[len(summaries)-1], last) {
				return summaries, deliveries
			}
		case <-timeout.C:
			r.t.Fatalf("the webhook received %q and then nothing, want %q", summaries, last)
		}
	}
}

// worker is a handler that asks for input if the message is "ask", and otherwise adds one
// artifact.
func worker(_ context.Context, t *engine.Turn) error {
	if t.Messages()[0].Text() == "ask" && t.Number() == 1 {
		return t.RequireInput(a2a.TextPart{Text: "Which date range should I use?"})
	}
	return t.AddArtifact(a2a.Artifact{Name: "results.json", Parts: []a2a.Part{a2a.DataPart{Data: map[string]any{"records": 1e4}}}})
}

func checkSummaries(t testing.TB, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
}

// The webhook of a message receives all events in order, after they are committed.
func TestInlineWebhookReceivesEventsInOrder(t *testing.T) {
	t.Parallel()
	e, _ := startWebhook(t, newStore(), worker, nil)
	r := newReceiver(t)
	r.onDelivery = func(p delivery) {
		got := e.call("tasks/get", fmt.Sprintf(`{"id":%q}`, p.Event.TaskID), as("alice")...)
		if p.Event.Kind == "artifact-update" && !strings.Contains(string(got.Result), p.Event.Artifact.ID) ||
			p.Event.Final != nil && *p.Event.Final && !strings.Contains(string(got.Result), `"completed"`) {
			t.Errorf("the webhook received %s when the task was %s", p.summary(), got.Body)
		}
	}
	configuration := fmt.Sprintf(`"configuration":{"accepted_output_modes":["application/json"],"long_running":true,"push_notification_config":{"id":"webhook-123","url":%q,"token":"secret_token"}}`, r.url)
	task := e.call("message/send", params(message("ask"), configuration), as("alice")...).task(t)
	summaries, deliveries := r.waitFor("Which date range should I use?")
	checkSummaries(t, summaries, "1 status-update working", "2 status-update input-required Which date range should I use?")
	e.call("message/send", params(message("all", fmt.Sprintf(`"taskId":%q`, task.ID)), configuration), as("alice")...).task(t)
	summaries, more := r.waitFor("final")
	checkSummaries(t, summaries, "3 status-update working", "4 artifact-update results.json", "5 status-update completed final")
	ids := make(map[string]bool)
	for _, p := range append(deliveries, more...) {
		h := p.Header
		if h.Get("Authorization") != "Bearer secret_token" || h.Get("X-A2A-Notification-Token") != "secret_token" || h.Get("Content-Type") != "application/json" ||
			h.Get("Webhook-Id") != p.Event.ID || h.Get("X-Delivery-Attempt") != "1" || h.Get("Webhook-Timestamp") == "" || ids[p.Event.ID] || p.Event.TaskID != task.ID {
			t.Errorf("headers of %s are %v", p.summary(), h)
		}
		ids[p.Event.ID] = true
	}
	got := e.call("tasks/pushNotificationConfig/get", fmt.Sprintf(`{"id":%q,"pushNotificationConfigId":"webhook-123"}`, task.ID), as("alice")...)
	if !strings.Contains(string(got.Result), `"longRunning":true`) || strings.Contains(string(got.Result), "secret_token") {
		t.Errorf("get = %s, want it long-running and its token masked", got.Body)
	}
}

func TestStreamedMessagesRegisterWebhooks(t *testing.T) {
	t.Parallel()
	e, _ := startWebhook(t, newStore(), worker, nil)
	r := newReceiver(t)
	s := e.open("message/stream", params(message("a"), fmt.Sprintf(`"configuration":{"pushNotificationConfig":{"url":%q}}`, r.url)), as("alice")...)
	if events := s.rest(); len(events) < 3 {
		t.Errorf("stream has %d events, want the events of the task", len(events))
	}
	summaries, _ := r.waitFor("final")
	checkSummaries(t, summaries, "1 status-update working", "2 artifact-update results.json", "3 status-update completed final")
}

// The secret that set returns verifies the signatures.
func TestLateWebhookIsSigned(t *testing.T) {
	t.Parallel()
	e, _ := startWebhook(t, newStore(), worker, nil)
	r := newReceiver(t)
	task := e.call("message/send", params(message("ask"), blocking), as("alice")...).task(t)
	set := func(more string) string {
		t.Helper()
		got := e.call("tasks/pushNotificationConfig/set", fmt.Sprintf(`{"id":%q,"push_notification_config":{"url":%q,"id":"w"%s}}`, task.ID, r.url, more), as("alice")...)
		var out a2a.TaskPushNotificationConfig
		if got.Error != nil || json.Unmarshal(got.Result, &out) != nil || out.Config.SigningSecret == "" {
			t.Fatalf("set = %s, want a secret", got.Body)
		}
		return out.Config.SigningSecret
	}
	secrets := []string{set(""), set(`,"rotate_secret":true`)}
	e.call("message/send", params(message("all", fmt.Sprintf(`"taskId":%q`, task.ID))), as("alice")...).task(t)
	summaries, deliveries := r.waitFor("final")
	checkSummaries(t, summaries, "3 status-update working", "4 artifact-update results.json", "5 status-update completed final")
	for _, p := range deliveries {
		for _, secret := range secrets {
			wh, err := standardwebhooks.NewWebhook(secret)
			if err == nil {
				err = wh.Verify(p.Body, p.Header)
			}
			if err != nil {
				t.Errorf("%s: signature %q: %v", p.summary(), p.Header.Get("Webhook-Signature"), err)
			}
		}
	}
}

func TestDeletedWebhookReceivesNothing(t *testing.T) {
	t.Parallel()
	e, _ := startWebhook(t, newStore(), worker, nil)
	deleted, active := newReceiver(t), newReceiver(t)
	task := e.call("message/send", params(message("ask"), fmt.Sprintf(`"configuration":{"pushNotificationConfig":{"id":"w","url":%q}}`, deleted.url)), as("alice")...).task(t)
	deleted.waitFor("Which date range should I use?")
	e.call("tasks/pushNotificationConfig/set", fmt.Sprintf(`{"taskId":%q,"pushNotificationConfig":{"id":"x","url":%q}}`, task.ID, active.url), as("alice")...)
	for range 2 {
		got := e.call("tasks/pushNotificationConfig/delete", fmt.Sprintf(`{"id":%q,"pushNotificationConfigId":"w"}`, task.ID), as("alice")...)
		if got.Error != nil || !strings.Contains(string(got.Body), `"result":null`) {
			t.Errorf("delete = %s, want null", got.Body)
		}
	}
	e.call("message/send", params(message("all", fmt.Sprintf(`"taskId":%q`, task.ID))), as("alice")...).task(t)
	active.waitFor("final")
	if len(deleted.deliveries) > 0 {
		t.Errorf("the deleted webhook received %s", (<-deleted.deliveries).summary())
	}
}

func TestWebhooksSurviveRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() store.Store {
		t.Helper()
		s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	key := []byte("0123456789abcdef0123456789abcdef")
	keys := func(c *webhook.Config) { c.Keys = [][]byte{key} }
	first := open()
	e, stop := startWebhook(t, first, worker, keys)
	r := newReceiver(t)
	task := e.call("message/send", params(message("ask"), fmt.Sprintf(`"configuration":{"pushNotificationConfig":{"url":%q,"token":"t"}}`, r.url)), as("alice")...).task(t)
	_, before := r.waitFor("Which date range should I use?")
	stop()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second := open()
	t.Cleanup(func() { _ = second.Close() })
	e, _ = startWebhook(t, second, worker, keys)
	e.call("message/send", params(message("all", fmt.Sprintf(`"taskId":%q`, task.ID))), as("alice")...).task(t)
	summaries, after := r.waitFor("final")
	checkSummaries(t, summaries, "3 status-update working", "4 artifact-update results.json", "5 status-update completed final")
	if got := after[0].Header.Get("Authorization"); got != "Bearer t" {
		t.Errorf("after the restart Authorization is %q, want the same token", got)
	}
	// A replay sends the same requests again.
	e.call("webhooks/replay", fmt.Sprintf(`{"taskId":%q,"fromSequence":1}`, task.ID), as("alice")...)
	_, again := r.waitFor("final")
	for i, p := range append(before, after...) {
		if i >= len(again) || string(p.Body) != string(again[i].Body) || p.Event.ID != again[i].Header.Get("Webhook-Id") {
			t.Errorf("replay of update %d = %q, want %q", i+1, again[min(i, len(again)-1)].Body, p.Body)
		}
	}
}

func TestGlobalWebhookReceivesTasksWithoutWebhook(t *testing.T) {
	t.Parallel()
	global, own := newReceiver(t), newReceiver(t)
	e, _ := startWebhook(t, newStore(), worker, func(c *webhook.Config) { c.Global = webhook.Global{URL: global.url, Token: "g"} })
	e.call("message/send", params(message("a"), fmt.Sprintf(`"configuration":{"pushNotificationConfig":{"url":%q}}`, own.url)), as("alice")...)
	own.waitFor("final")
	task := e.call("message/send", params(message("b")), as("bob")...).task(t)
	_, deliveries := global.waitFor("final")
	if len(deliveries) != 3 || deliveries[0].Event.TaskID != task.ID || deliveries[0].Header.Get("Authorization") != "Bearer g" {
		t.Errorf("the global webhook received %d updates, the first of task %s, want three of %s", len(deliveries), deliveries[0].Event.TaskID, task.ID)
	}
	got := e.call("tasks/pushNotificationConfig/list", fmt.Sprintf(`{"id":%q}`, task.ID), as("bob")...)
	if string(got.Result) != "[]" {
		t.Errorf("list = %s, want []", got.Body)
	}
}

// A repeated message registers its webhook only once.
func TestRepeatedMessageRegistersWebhookOnce(t *testing.T) {
	t.Parallel()
	e, _ := startWebhook(t, newStore(), worker, nil)
	r := newReceiver(t)
	send := func() taskView {
		t.Helper()
		body := params(message("a"), fmt.Sprintf(`"configuration":{"blocking":true,"pushNotificationConfig":{"url":%q}}`, r.url))
		return e.call("message/send", body, append(as("alice"), "Idempotency-Key", "k")...).task(t)
	}
	first := send()
	if again := send(); again.ID != first.ID {
		t.Errorf("sent again = task %s, want %s", again.ID, first.ID)
	}
	got := e.call("tasks/pushNotificationConfig/list", fmt.Sprintf(`{"id":%q}`, first.ID), as("alice")...)
	if n := strings.Count(string(got.Result), `"url"`); n != 1 {
		t.Errorf("list = %s, want one webhook", got.Body)
	}
	summaries, _ := r.waitFor("final")
	if len(summaries) != 3 || len(r.deliveries) > 0 {
		t.Errorf("the webhook received %q and %d more, want each update once", summaries, len(r.deliveries))
	}
}

func TestWebhooksOff(t *testing.T) {
	t.Parallel()
	e := start(t, worker, nil)
	for _, call := range [][2]string{
		{"tasks/pushNotificationConfig/set", `{"taskId":"t","pushNotificationConfig":{"url":"https://example.com/"}}`},
		{"tasks/pushNotificationConfig/get", `{"id":"t"}`},
		{"tasks/pushNotificationConfig/list", `{"id":"t"}`},
		{"tasks/pushNotificationConfig/delete", `{"id":"t","pushNotificationConfigId":"w"}`},
		{"webhooks/dead/list", `{}`},
		{"webhooks/replay", `{"taskId":"t"}`},
		{"webhooks/attempts", `{"taskId":"t"}`},
		{"message/send", params(message("a"), `"configuration":{"pushNotificationConfig":{"url":"https://example.com/"}}`)},
		{"message/stream", params(message("a"), `"configuration":{"pushNotificationConfig":{"url":"https://example.com/"}}`)},
	} {
		if got := e.call(call[0], call[1]); got.code() != -32003 {
			t.Errorf("%s = %s, want -32003", call[0], got.Body)
		}
	}
	for on, e := range map[bool]*env{false: e, true: func() *env { st := newStore(); return startOn(t, st, worker, withWebhook(t, st)) }()} {
		card := string(e.do("GET", "/.well-known/agent-card.json", "", nil).Body)
		if strings.Contains(card, fmt.Sprintf(`"pushNotifications":%t`, on)) != true || strings.Contains(card, "#webhooks") != on {
			t.Errorf("card with webhooks %t: %s", on, card)
		}
		info := string(e.do("GET", "/agent/info", "", nil).Body)
		if strings.Contains(info, `"webhooks/replay"`) != on || strings.Contains(info, `"tasks/pushNotificationConfig/set"`) != on {
			t.Errorf("info with webhooks %t: %s", on, info)
		}
	}
}

func TestHealthReportsWebhooks(t *testing.T) {
	t.Parallel()
	e, stop := startWebhook(t, newStore(), worker, nil)
	r := newReceiver(t)
	e.call("message/send", params(message("a"), fmt.Sprintf(`"configuration":{"pushNotificationConfig":{"url":%q}}`, r.url)), as("alice")...)
	r.waitFor("final")
	got := e.do("GET", "/health", "", as("alice"))
	if got.Status != http.StatusOK || !strings.Contains(string(got.Body), `"webhooks":{"delivered":`) {
		t.Errorf("health = %d %s, want a webhooks section", got.Status, got.Body)
	}
	stop()
	if got := e.do("GET", "/health", "", as("alice")); got.Status != http.StatusServiceUnavailable || !strings.Contains(string(got.Body), "webhooks: not running") {
		t.Errorf("health after stop = %d %s, want the problem", got.Status, got.Body)
	}
}

// Clearing a context cancels the delivery attempts of its tasks that are in progress.
func TestClearContextCancelsDeliveryAttempts(t *testing.T) {
	t.Parallel()
	e, _ := startWebhook(t, newStore(), worker, func(c *webhook.Config) { c.Timeout, c.Lease = 2*await.Limit, 4*await.Limit })
	called, gone := make(chan struct{}, 9), make(chan struct{}, 9)
	ts := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		called <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	t.Cleanup(ts.Close)
	task := e.call("message/send", params(message("a"), fmt.Sprintf(`"configuration":{"blocking":true,"pushNotificationConfig":{"url":%q}}`, ts.URL)), as("alice")...).task(t)
	<-called
	if got := e.call("contexts/clear", fmt.Sprintf(`{"contextId":%q}`, task.ContextID), as("alice")...); got.Error != nil {
		t.Fatalf("clear = %s", got.Body)
	}
	select {
	case <-gone:
	case <-time.After(await.Limit):
		t.Errorf("the attempt continues %s after its context was cleared", await.Limit)
	}
}
