package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// Whatever fails, before or after it is done: clients that ask again get each
// message answered, each artifact whole, and nothing said twice.
func TestAStormOfFaultsLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			s := inmem.New()
			e := start(t, engine.Config{
				Store: storetest.Faulty(s, afterStart(storetest.FailRandomly(seed, 0.1))), Handler: count,
				Lease: 200 * time.Millisecond, Poll: 20 * time.Millisecond, FlushInterval: time.Millisecond, Concurrency: 4, MaxAttempts: 1000,
			})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // far more than it takes: leases end by the clock, also while the machine is busy
			defer cancel()
			var clients sync.WaitGroup
			for range 8 {
				clients.Go(func() {
					for range 4 {
						converse(ctx, t, e, s)
					}
				})
			}
			clients.Wait()
		})
	}
}

// afterStart lets the first look at the backlog through.
func afterStart(plan storetest.Plan) storetest.Plan {
	return func(c storetest.Call) storetest.Fault {
		if c.Method == "Backlog" {
			return storetest.Pass
		}
		return plan(c)
	}
}

// count streams an artifact of ten chunks and answers each of its messages.
func count(ctx context.Context, turn *engine.Turn) error {
	w := turn.Artifact(fmt.Sprint("turn ", turn.Number()))
	for i := range 10 {
		if _, err := turn.Step(ctx, "s", func(context.Context) ([]byte, error) { return []byte{byte(i)}, nil }); err != nil {
			return engine.Retry(err)
		}
		if _, err := fmt.Fprint(w, i, " "); err != nil {
			return engine.Retry(err)
		}
	}
	answer := ""
	for _, m := range turn.Messages() {
		answer += m.Text() + ";"
	}
	return turn.RequireInput(a2a.TextPart{Text: answer})
}

// converse has a conversation of three messages, of which the second and third
// are sent at once, and cancels the task in the end.
func converse(ctx context.Context, t *testing.T, e *engine.Engine, s store.Store) {
	first := insist(ctx, t, e, text("a"), true)
	if first == nil {
		return
	}
	id := first.Key.ID
	insist(ctx, t, e, to(id, "b"), false)
	insist(ctx, t, e, to(id, "c"), false)
	for {
		task, err := s.Task(ctx, first.Key, store.TaskOptions{})
		if err != nil {
			t.Errorf("Task() = %v", err)
			return
		}
		if task.Status.State == a2a.StateInputRequired && len(task.Unread(task.Run.SeenSeq)) == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	for n := 0; ; n++ {
		opts := engine.SendOptions{IdempotencyKey: "cancel " + id}
		task, err := e.Cancel(ctx, alice, id, opts)
		if err == nil {
			checkConversation(t, task)
			return
		}
		if a2a.CodeOf(err) != a2a.CodeUnavailable {
			t.Errorf("Cancel() number %d = %v", n, err)
			return
		}
	}
}

// insist sends a message until it is told that it was taken.
func insist(ctx context.Context, t *testing.T, e *engine.Engine, p a2a.MessageSendParams, wait bool) *store.Task {
	for {
		sent, err := e.Send(ctx, alice, p, engine.SendOptions{Wait: wait, IdempotencyKey: p.Message.ID})
		if err == nil {
			if ctx.Err() != nil {
				t.Errorf("task %s is still %s", sent.Task.Key.ID, sent.Task.Status.State)
				return nil
			}
			return sent.Task
		}
		if a2a.CodeOf(err) != a2a.CodeUnavailable {
			t.Errorf("Send() = %v", err)
			return nil
		}
	}
}

func checkConversation(t *testing.T, task *store.Task) {
	asked, answered := "", ""
	for _, m := range task.History {
		if m.Received {
			asked += m.Message.Text() + ";"
		} else {
			answered += m.Message.Text()
		}
	}
	if asked != "a;b;c;" || answered != asked {
		t.Errorf("asked %q, answered %q, want each once", asked, answered)
	}
	for _, a := range task.Artifacts {
		if a.Text() != "0 1 2 3 4 5 6 7 8 9 " {
			t.Errorf("artifact %s = %q, want each number once", a.Name, a.Text())
		}
	}
	if task.Status.State != a2a.StateCanceled {
		t.Errorf("task is %s after its cancel", task.Status.State)
	}
}
