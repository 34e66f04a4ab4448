package engine_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/store"
)

func TestTaskContentIsLimited(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	written := make(chan error, 1)
	e := start(t, engine.Config{Store: s, Limits: engine.Limits{TaskBytes: 100_000}, Handler: func(_ context.Context, turn *engine.Turn) error {
		if turn.Number() == 2 {
			_, err := turn.Artifact("a").WriteString(strings.Repeat("x", 90_000))
			written <- err
		}
		return turn.RequireInput(a2a.TextPart{Text: "more"})
	}})
	large := strings.Repeat("x", 60_000)
	task := waitFinal(t, e, send(t, e, message(large)).Key.ID)
	before := task.Seq
	_, err := e.Send(t.Context(), alice, messageTo(task.Key.ID, large), engine.SendOptions{})
	if a2a.CodeOf(err) != a2a.CodeTooLarge || !strings.Contains(err.Error(), "--max-task") {
		t.Errorf("Send() beyond the limit = %v, want too_large and the name of the limit", err)
	}
	if _, err := e.Send(t.Context(), alice, message(strings.Repeat("x", 100_001)), engine.SendOptions{}); a2a.CodeOf(err) != a2a.CodeTooLarge {
		t.Errorf("Send() of a new task beyond the limit = %v, want too_large", err)
	}
	if task := storedTask(t, s, task.Key); task.Seq != before || task.Bytes < 60_000 || task.Bytes > 61_000 {
		t.Errorf("task has %d events with %d bytes, want the previous %d events", task.Seq, task.Bytes, before)
	}
	send(t, e, messageTo(task.Key.ID, "continue"))
	if err := <-written; a2a.CodeOf(err) != a2a.CodeTooLarge {
		t.Errorf("WriteString() beyond the limit = %v, want too_large", err)
	}
	if h := e.Health(t.Context()); h.Oversized != 3 {
		t.Errorf("Health().Oversized = %d, want 3", h.Oversized)
	}
}

func storedTask(t *testing.T, s store.Store, key store.Key) *store.Task {
	t.Helper()
	task, err := s.Task(t.Context(), key, store.TaskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func TestTaskLimitIsShareOfMemory(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Memory: memory.New(6 << 20), Handler: func(context.Context, *engine.Turn) error { return nil }})
	if _, err := e.Send(t.Context(), alice, message(strings.Repeat("x", 1<<20+1)), engine.SendOptions{}); a2a.CodeOf(err) != a2a.CodeTooLarge {
		t.Errorf("Send() of a third of an owner's memory = %v, want too_large", err)
	}
}

func TestLargeTasksAreLimitedByMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size, tasks = 1 << 20, 12
		budget := memory.New(8 << 20) // one owner may hold 4 MiB; reading a task of 1 MiB needs 2 MiB
		s := inmem.New()
		var running, most atomic.Int64
		block := make(chan struct{})
		handler := func(ctx context.Context, turn *engine.Turn) error {
			if turn.Owner() == "bob" {
				return turn.Reply()
			}
			n := running.Add(1)
			defer running.Add(-1)
			for old := most.Load(); old < n && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			select {
			case <-block:
			case <-ctx.Done():
			}
			return turn.Reply()
		}
		first := start(t, engine.Config{Store: s, Turns: engine.Turns{Concurrency: 1}, Handler: func(ctx context.Context, _ *engine.Turn) error {
			<-ctx.Done() // it only queues the tasks
			return context.Cause(ctx)
		}})
		var ids []string
		for range tasks {
			ids = append(ids, send(t, first, message(strings.Repeat("x", size))).Key.ID)
		}
		stopped, cancel := context.WithCancel(t.Context())
		cancel()
		if err := first.Stop(stopped); err != nil {
			t.Fatal(err)
		}
		e := start(t, engine.Config{Store: s, Memory: budget, Handler: handler, Turns: engine.Turns{Lease: 2 * time.Minute}})
		await.True(t, "a task waits for memory", func() bool { return running.Load() > 0 && budget.Stats().Refused > 0 })
		// Tasks that wait for memory use no slot that another owner needs.
		if sent, err := e.Send(t.Context(), a2a.Principal{ID: "bob"}, message("small"), engine.SendOptions{Wait: true}); err != nil || sent.Task.Status.State != a2a.StateCompleted {
			t.Errorf("Send() of another owner = %+v, %v", sent, err)
		}
		close(block)
		freed := time.Now()
		for _, id := range ids {
			wantState(t, waitFinal(t, e, id), a2a.StateCompleted)
		}
		if took := time.Since(freed); took > time.Minute { // at least one of them completes per second
			t.Errorf("tasks that waited for memory completed %s after it was released, want no wait of lease periods", took)
		}
		if most.Load() > 3 || budget.Stats().Largest > 4<<20 {
			t.Errorf("%d tasks of 1 MiB ran at once with %d bytes, want at most 3 within 4 MiB", most.Load(), budget.Stats().Largest)
		}
		await.True(t, "all memory is released", func() bool { return budget.Stats().Held == 0 })
	})
}

// stepsBarrier is a store in which two runs read their steps at the same time.
type stepsBarrier struct {
	store.Store
	runs atomic.Int64
	both chan struct{}
}

func (m *stepsBarrier) Steps(ctx context.Context, key store.Key, turn int) ([]store.Step, error) {
	if m.runs.Add(1) == 2 {
		close(m.both)
	}
	<-m.both
	return m.Store.Steps(ctx, key, turn)
}

// Each of two runs holds memory that the other needs to read the data of an earlier attempt.
func TestRunsWithoutMemoryAreRequeued(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &stepsBarrier{Store: inmem.New(), both: make(chan struct{})}
		var keys []store.Key
		for range 2 {
			message := message(strings.Repeat("x", 1_300_000)).Message
			keys = append(keys, store.Key{Owner: alice.ID, ID: newID()})
			commit(t, s, store.Change{
				Key: keys[len(keys)-1], Create: &store.Create{ContextID: newID()},
				Events: []store.Event{{Time: store.Time(time.Now()), State: a2a.StateSubmitted, Received: &message}},
				Queue:  &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1},
			})
		}
		dead := store.ClaimParams{Worker: newID(), Limit: 2, Takeover: true, Now: time.Now(), Event: store.Event{State: a2a.StateWorking}}
		if claimed, err := s.Claim(t.Context(), dead); err != nil || len(claimed) != 2 {
			t.Fatalf("Claim() = %d tasks, %v", len(claimed), err)
		}
		budget := memory.New(8 << 20)
		start(t, engine.Config{Store: s, Memory: budget, Handler: func(_ context.Context, turn *engine.Turn) error { return turn.Reply() }})
		for _, key := range keys {
			await.True(t, "the task is completed", func() bool { return storedTask(t, s, key).Status.State == a2a.StateCompleted })
			if attempt := storedTask(t, s, key).Queue.Attempt; attempt != 2 {
				t.Errorf("the task completed with attempt %d, want 2: one without memory is not charged", attempt)
			}
		}
		await.True(t, "all memory is released", func() bool { return budget.Stats().Held == 0 })
	})
}
