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
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// Calls fail at random, before or after they are applied. Clients that retry get each message
// answered once, and each artifact is complete.
func TestRandomFaultsNeitherLoseNorDuplicate(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			s := inmem.New()
			e := start(t, engine.Config{
				Store: storetest.Faulty(s, exceptBacklog(storetest.FailRandomly(seed, 0.1))), Handler: countingHandler,
				Turns: engine.Turns{Lease: 200 * time.Millisecond, Poll: 20 * time.Millisecond, FlushInterval: time.Millisecond, Concurrency: 4, MaxAttempts: 1000},
			})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // much more than needed, because leases expire by the clock even if the machine is busy
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

// exceptBacklog returns plan without faults of Backlog, which Start calls.
func exceptBacklog(plan storetest.Plan) storetest.Plan {
	return func(c storetest.Call) storetest.Fault {
		if c.Method == "Backlog" {
			return storetest.Pass
		}
		return plan(c)
	}
}

// countingHandler writes an artifact of ten chunks and answers each of its messages.
func countingHandler(ctx context.Context, turn *engine.Turn) error {
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

// converse sends three messages, the second and third at once, and finally cancels the task.
func converse(ctx context.Context, t *testing.T, e *engine.Engine, s store.Store) {
	first := sendUntilStored(ctx, t, e, message("a"), true)
	if first == nil {
		return
	}
	id := first.Key.ID
	sendUntilStored(ctx, t, e, messageTo(id, "b"), false)
	sendUntilStored(ctx, t, e, messageTo(id, "c"), false)
	var task *store.Task
	var err error
	await.True(t, "the task has read its messages", func() bool {
		task, err = s.Task(ctx, first.Key, store.TaskOptions{})
		return err != nil || task.Status.State == a2a.StateInputRequired && len(task.Unread(task.Queue.SeenSeq)) == 0
	})
	if err != nil {
		t.Errorf("Task() = %v", err)
		return
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

// sendUntilStored sends a message until the engine confirms that it is stored.
func sendUntilStored(ctx context.Context, t *testing.T, e *engine.Engine, p a2a.MessageSendParams, wait bool) *store.Task {
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
