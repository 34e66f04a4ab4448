package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

// cursorsOf returns the initial cursor of each of a task's webhooks, by webhook id.
func cursorsOf(t *testing.T, s store.Store, task string) map[string]int64 {
	t.Helper()
	page, err := s.Lanes(t.Context(), store.LaneQuery{Owner: alice.ID, TaskID: task, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]int64)
	for _, l := range page.Lanes {
		found[l.Webhook.ID] = l.Cursor.Seq
	}
	return found
}

func TestMessagesRegisterWebhooks(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	e := start(t, engine.Config{Store: s, Handler: func(_ context.Context, turn *engine.Turn) error {
		if turn.Number() == 1 {
			return turn.RequireInput(a2a.TextPart{Text: "?"})
		}
		return turn.Reply()
	}})
	var seqs []int64
	with := func(id string) engine.SendOptions {
		return engine.SendOptions{Wait: true, IdempotencyKey: "key of " + id, Webhook: func(_ context.Context, task store.Key, seq int64) ([]store.NewWebhook, error) {
			if task.Owner != alice.ID || task.ID == "" {
				t.Errorf("Webhook() of task %+v, want the task of the message", task)
			}
			seqs = append(seqs, seq)
			return []store.NewWebhook{{ID: id, Endpoint: "https://h:443", Data: []byte("{}"), Cursor: store.WebhookCursor{Seq: seq}}}, nil
		}}
	}
	params := message("a")
	params.Configuration = &a2a.MessageSendConfiguration{PushNotificationConfig: &a2a.PushNotificationConfig{URL: "https://h"}}
	sent, err := e.Send(t.Context(), alice, params, with("w1"))
	if err != nil {
		t.Fatal(err)
	}
	id := sent.Task.Key.ID
	if diff := cmp.Diff(map[string]int64{"w1": 0}, cursorsOf(t, s, id)); diff != "" {
		t.Errorf("webhooks of the first message differ (-want +got):\n%s", diff)
	}
	again, err := e.Send(t.Context(), alice, params, with("w1"))
	if err != nil || again.Task.Key.ID != id {
		t.Errorf("Send again = %v, %v, want task %s", again, err, id)
	}
	paused := sent.Task.Seq
	if _, err := e.Send(t.Context(), alice, messageTo(id, "b"), with("w2")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{"w1": 0, "w2": paused}, cursorsOf(t, s, id)); diff != "" {
		t.Errorf("webhooks of the second message differ (-want +got):\n%s", diff)
	}
	if seqs[0] != 0 || seqs[len(seqs)-1] != paused || slices.Max(seqs) != paused {
		t.Errorf("Webhook() was called with versions %v, want 0 first and %d last", seqs, paused)
	}
}

func TestRejectedWebhookRejectsMessage(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	e := start(t, engine.Config{Store: s, Handler: func(_ context.Context, turn *engine.Turn) error {
		return turn.RequireInput(a2a.TextPart{Text: "?"})
	}})
	open := sendWait(t, e, message("a"))
	errRejected := errors.New("rejected")
	rejecting := engine.SendOptions{Webhook: func(context.Context, store.Key, int64) ([]store.NewWebhook, error) { return nil, errRejected }}
	for name, params := range map[string]a2a.MessageSendParams{"a new task": message("b"), "a follow-up": messageTo(open.Key.ID, "b")} {
		if _, err := e.Send(t.Context(), alice, params, rejecting); !errors.Is(err, errRejected) {
			t.Errorf("%s: Send = %v, want %v", name, err, errRejected)
		}
		params.Configuration = &a2a.MessageSendConfiguration{PushNotificationConfig: &a2a.PushNotificationConfig{URL: "https://h"}}
		if _, err := e.Send(t.Context(), alice, params, engine.SendOptions{}); a2a.CodeOf(err) != a2a.CodePushNotSupported {
			t.Errorf("%s: Send without webhooks = %v, want push_notification_not_supported", name, err)
		}
	}
	list, err := e.List(t.Context(), alice, a2a.ListTasksParams{})
	if err != nil || len(list.Tasks) != 1 || list.Tasks[0].Seq != open.Seq {
		t.Errorf("tasks = %+v, %v, want the open one as it was", list, err)
	}
}

// A repeated request gets its first answer, even if its message would now be rejected.
func TestRepeatedSendIsAnsweredWhenRejectedNow(t *testing.T) {
	t.Parallel()
	var first sync.Once // task is blocked
	held, release := make(chan struct{}), make(chan struct{})
	e := start(t, engine.Config{
		Store: inmem.New(), Turns: engine.Turns{Concurrency: 1}, Limits: engine.Limits{Queued: 1},
		Handler: func(_ context.Context, turn *engine.Turn) error {
			first.Do(func() {
				close(held)
				<-release
			})
			return turn.Reply()
		},
	})
	t.Cleanup(func() { close(release) })
	errRejected := errors.New("no webhooks are accepted")
	send := func(id, key string, err error) (*engine.Sent, error) {
		params := message("a")
		params.Message.ID = id
		return e.Send(t.Context(), alice, params, engine.SendOptions{
			IdempotencyKey: key, Webhook: func(context.Context, store.Key, int64) ([]store.NewWebhook, error) { return nil, err },
		})
	}
	running, err := send("runs", "k1", nil)
	if err != nil {
		t.Fatal(err)
	}
	<-held
	if again, err := send("runs", "k1", errRejected); err != nil || again.Task.Key != running.Task.Key {
		t.Errorf("Send again without webhooks = %+v, %v, want the first answer", again, err)
	}
	if _, err := send("other", "k2", errRejected); !errors.Is(err, errRejected) {
		t.Errorf("Send of another request without webhooks = %v, want %v", err, errRejected)
	}
	waiting, err := send("waits", "k3", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := send("other", "k4", nil); a2a.CodeOf(err) != a2a.CodeExhausted {
		t.Errorf("Send into a full queue = %v, want resource_exhausted", err)
	}
	if again, err := send("waits", "k3", nil); err != nil || again.Task.Key != waiting.Task.Key {
		t.Errorf("Send again into a full queue = %+v, %v, want the first answer", again, err)
	}
}

// A task referenced by a message may be deleted when the message is sent again.
func TestRepeatedSendMayReferenceDeletedTask(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Handler: commandHandler, Store: s})
		old := sendWait(t, e, message("x"))
		keyed, chosen, plain := message("y"), messageTo(newID(), "z"), message("w")
		chosen.Message.ContextID = newID()
		repeated := func(want string) {
			t.Helper()
			for _, c := range []struct {
				name   string
				params a2a.MessageSendParams
				key    string
			}{{"key", keyed, "k"}, {"ids", chosen, ""}, {"message id", plain, ""}} {
				c.params.Message.ReferenceTaskIDs = []string{old.Key.ID}
				sent, err := e.Send(t.Context(), alice, c.params, engine.SendOptions{IdempotencyKey: c.key})
				if err != nil {
					t.Errorf("%s: %s Send() = %v", c.name, want, err)
					continue
				}
				waitFinal(t, e, sent.Task.Key.ID)
			}
		}
		repeated("first")
		if _, err := clearContext(t, e, old.ContextID, false); err != nil {
			t.Fatal(err)
		}
		repeated("repeated")
	})
}
