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

// lanesOf returns the ids of a task's webhooks with the place where each begins.
func lanesOf(t *testing.T, s store.Store, task string) map[string]int64 {
	t.Helper()
	page, err := s.Lanes(t.Context(), store.LaneQuery{Owner: alice.ID, TaskID: task, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]int64)
	for _, l := range page.Lanes {
		found[l.Config.ID] = l.Cursor.Seq
	}
	return found
}

func TestMessagesBringWebhooks(t *testing.T) {
	t.Parallel()
	kept := inmem.New()
	e := start(t, engine.Config{Store: kept, Handler: func(_ context.Context, turn *engine.Turn) error {
		if turn.Number() == 1 {
			return turn.RequireInput(a2a.TextPart{Text: "?"})
		}
		return turn.Reply()
	}})
	var seqs []int64
	with := func(id string) engine.SendOptions {
		return engine.SendOptions{Wait: true, IdempotencyKey: "key of " + id, Push: func(_ context.Context, task store.Key, seq int64) ([]store.NewPush, error) {
			if task.Owner != alice.ID || task.ID == "" {
				t.Errorf("Push of task %+v, want that of the message", task)
			}
			seqs = append(seqs, seq)
			return []store.NewPush{{ID: id, Endpoint: "https://h:443", Data: []byte("{}"), Cursor: store.PushCursor{Seq: seq}}}, nil
		}}
	}
	params := text("a")
	params.Configuration = &a2a.MessageSendConfiguration{PushNotificationConfig: &a2a.PushNotificationConfig{URL: "https://h"}}
	sent, err := e.Send(t.Context(), alice, params, with("w1"))
	if err != nil {
		t.Fatal(err)
	}
	id := sent.Task.Key.ID
	if diff := cmp.Diff(map[string]int64{"w1": 0}, lanesOf(t, kept, id)); diff != "" {
		t.Errorf("webhooks of the first message differ (-want +got):\n%s", diff)
	}
	again, err := e.Send(t.Context(), alice, params, with("w1"))
	if err != nil || again.Task.Key.ID != id {
		t.Errorf("Send again = %v, %v, want task %s", again, err, id)
	}
	paused := sent.Task.Seq
	if _, err := e.Send(t.Context(), alice, to(id, "b"), with("w2")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{"w1": 0, "w2": paused}, lanesOf(t, kept, id)); diff != "" {
		t.Errorf("webhooks of the second message differ (-want +got):\n%s", diff)
	}
	if seqs[0] != 0 || seqs[len(seqs)-1] != paused || slices.Max(seqs) != paused {
		t.Errorf("Push was asked for versions %v, want 0 first and %d last", seqs, paused)
	}
}

func TestMessagesWithWebhooksThatAreRefused(t *testing.T) {
	t.Parallel()
	kept := inmem.New()
	e := start(t, engine.Config{Store: kept, Handler: func(_ context.Context, turn *engine.Turn) error {
		return turn.RequireInput(a2a.TextPart{Text: "?"})
	}})
	open := sendWait(t, e, text("a"))
	refused := errors.New("refused")
	no := engine.SendOptions{Push: func(context.Context, store.Key, int64) ([]store.NewPush, error) { return nil, refused }}
	for name, params := range map[string]a2a.MessageSendParams{"a new task": text("b"), "a follow-up": to(open.Key.ID, "b")} {
		if _, err := e.Send(t.Context(), alice, params, no); !errors.Is(err, refused) {
			t.Errorf("%s: Send = %v, want %v", name, err, refused)
		}
		params.Configuration = &a2a.MessageSendConfiguration{PushNotificationConfig: &a2a.PushNotificationConfig{URL: "https://h"}}
		if _, err := e.Send(t.Context(), alice, params, engine.SendOptions{}); a2a.CodeOf(err) != a2a.CodePushNotSupported {
			t.Errorf("%s: Send without Push = %v, want push_notification_not_supported", name, err)
		}
	}
	list, err := e.List(t.Context(), alice, a2a.ListTasksParams{})
	if err != nil || len(list.Tasks) != 1 || list.Tasks[0].Seq != open.Seq {
		t.Errorf("tasks = %+v, %v, want the open one as it was", list, err)
	}
}

// A request that is repeated is answered as the first time, although its message would
// not be taken any more.
func TestRepetitionsOfWhatIsNotTakenAnyMore(t *testing.T) {
	t.Parallel()
	var first sync.Once // task is held
	held, release := make(chan struct{}), make(chan struct{})
	e := start(t, engine.Config{
		Store: inmem.New(), Concurrency: 1, Limits: engine.Limits{Queued: 1},
		Handler: func(_ context.Context, turn *engine.Turn) error {
			first.Do(func() {
				close(held)
				<-release
			})
			return turn.Reply()
		},
	})
	t.Cleanup(func() { close(release) })
	full := errors.New("no webhooks are taken")
	send := func(id, key string, err error) (*engine.Sent, error) {
		params := text("a")
		params.Message.ID = id
		return e.Send(t.Context(), alice, params, engine.SendOptions{
			IdempotencyKey: key, Push: func(context.Context, store.Key, int64) ([]store.NewPush, error) { return nil, err },
		})
	}
	running, err := send("runs", "k1", nil)
	if err != nil {
		t.Fatal(err)
	}
	<-held
	if again, err := send("runs", "k1", full); err != nil || again.Task.Key != running.Task.Key {
		t.Errorf("Send again without webhooks = %+v, %v, want the first answer", again, err)
	}
	if _, err := send("other", "k2", full); !errors.Is(err, full) {
		t.Errorf("Send of another request without webhooks = %v, want %v", err, full)
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

// What a message refers to may be gone when it is sent again.
func TestARepetitionMayReferToWhatIsGone(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Handler: obey, Store: s})
		old := sendWait(t, e, text("x"))
		keyed, chosen, plain := text("y"), to(newID(), "z"), text("w")
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
				settled(t, e, sent.Task.Key.ID)
			}
		}
		repeated("first")
		if _, err := clearContext(t, e, old.ContextID, false); err != nil {
			t.Fatal(err)
		}
		repeated("repeated")
		for name, p := range map[string]a2a.MessageSendParams{"new": text("a"), "follow-up": to(sendWait(t, e, text("ask")).Key.ID, "b")} {
			p.Message.ReferenceTaskIDs = []string{old.Key.ID}
			_, err := e.Send(t.Context(), alice, p, engine.SendOptions{})
			wantError(t, "Send("+name+")", err, a2a.CodeTaskNotFound, "referenceTaskIds[0]")
		}
	})
}
