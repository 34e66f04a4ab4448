package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// lateClaim is a replica's view of a store. The first claim of a task returns only after answer is closed.
type lateClaim struct {
	sharedStore
	claimed, answer chan struct{}
	late            atomic.Bool
	failRead        atomic.Bool // the next read of a task fails
}

func newLateClaim(s store.Store) *lateClaim {
	return &lateClaim{sharedStore: sharedStore{s}, claimed: make(chan struct{}), answer: make(chan struct{})}
}

func (s *lateClaim) Claim(ctx context.Context, p store.ClaimParams) ([]*store.Task, error) {
	tasks, err := s.sharedStore.Claim(ctx, p)
	if len(tasks) > 0 && s.late.CompareAndSwap(false, true) {
		close(s.claimed)
		<-s.answer
	}
	return tasks, err
}

func (s *lateClaim) Task(ctx context.Context, k store.Key, opts store.TaskOptions) (*store.Task, error) {
	if s.failRead.CompareAndSwap(true, false) {
		return nil, a2a.Errorf(a2a.CodeUnavailable, "no connection")
	}
	return s.sharedStore.Task(ctx, k, opts)
}

// follow reads a task's log until the test ends, so that the engine knows its newest version. It returns after the first update.
func follow(t *testing.T, e *engine.Engine, id string) {
	t.Helper()
	first := make(chan struct{})
	go func() {
		started := false
		for range e.Follow(t.Context(), alice, id, nil) {
			if !started {
				started = true
				close(first)
			}
		}
	}()
	<-first
}

// A claim with a late answer must not start a run under the lease of another worker.
func TestLateClaimDoesNotStartATaskOfAnotherWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := inmem.New()
		late := newLateClaim(shared)
		key := queueTasks(t, shared, 1)[0]
		cfg := engine.Config{Store: late, Turns: engine.Turns{Concurrency: 1, Lease: time.Second, Poll: 20 * time.Millisecond}, Handler: func(_ context.Context, turn *engine.Turn) error {
			if turn.TaskID() == key.ID {
				t.Error("the handler runs for a task that another worker has claimed since")
			}
			return nil
		}}
		e1 := start(t, cfg)
		<-late.claimed
		started, release := make(chan struct{}), make(chan struct{})
		cfg.Store, cfg.Handler = sharedStore{shared}, func(context.Context, *engine.Turn) error {
			close(started)
			<-release
			return nil
		}
		e2 := start(t, cfg)
		<-started
		follow(t, e1, key.ID)
		close(late.answer)
		// The only slot is free again: the other worker has none.
		wantState(t, sendWait(t, e1, message("another task")), a2a.StateCompleted)
		close(release)
		if got := waitFinal(t, e2, key.ID); got.Status.State != a2a.StateCompleted || got.Queue.Attempt != 2 {
			t.Errorf("task = %s at attempt %d, want completed at attempt 2", got.Status.State, got.Queue.Attempt)
		}
	})
}

// A message can arrive between a claim and the start of the task.
func TestLateClaimStartsWithTheMessagesThatArrivedSince(t *testing.T) {
	t.Parallel()
	for name, attempt := range map[string]int{"task is read": 1, "task cannot be read": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shared := inmem.New()
				late := newLateClaim(shared)
				key := queueTasks(t, shared, 1)[0]
				received := make(chan int, 9)
				e := start(t, engine.Config{Store: late, Turns: engine.Turns{Concurrency: 1, Lease: time.Second, Poll: 20 * time.Millisecond}, Handler: func(_ context.Context, turn *engine.Turn) error {
					received <- len(turn.Messages())
					return nil
				}})
				<-late.claimed
				follow(t, e, key.ID)
				send(t, e, messageTo(key.ID, "second"))
				late.failRead.Store(attempt == 2)
				close(late.answer)
				if n := receive(t, received); n != 2 {
					t.Errorf("the first turn received %d messages, want 2", n)
				}
				if got := waitFinal(t, e, key.ID); got.Queue.Attempt != attempt {
					t.Errorf("the task took %d attempts, want %d", got.Queue.Attempt, attempt)
				}
			})
		})
	}
}

// The slots of a claim that fails are free again.
func TestFailedClaimFreesItsSlots(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]storetest.Fault{"refused": storetest.FailBefore, "answer lost": storetest.FailAfter} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := inmem.New()
				keys := queueTasks(t, s, 2)
				e := start(t, engine.Config{
					Store: storetest.Faulty(s, storetest.FailCall("Claim", 1, fault)), Turns: engine.Turns{Concurrency: 1, Lease: time.Second, Poll: 20 * time.Millisecond},
					Handler: func(context.Context, *engine.Turn) error { return nil },
				})
				for _, k := range keys {
					wantState(t, waitFinal(t, e, k.ID), a2a.StateCompleted)
				}
			})
		})
	}
}

// The slot that a new task has reserved is free again if the task is not stored.
func TestRejectedTaskFreesItsSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := start(t, engine.Config{
			Store: storetest.Faulty(inmem.New(), storetest.FailCall("Commit", 1, storetest.FailBefore)),
			Turns: engine.Turns{Concurrency: 1}, Handler: replyHandler,
		})
		if _, err := e.Send(t.Context(), alice, message("refused"), engine.SendOptions{}); err == nil {
			t.Fatal("Send() = nil, want the fault")
		}
		wantState(t, sendWait(t, e, message("a")), a2a.StateCompleted)
	})
}

// A worker that is woken by nothing finds the tasks of a dead one within a lease.
func TestTaskOfDeadWorkerIsClaimedDespiteALongPollInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := inmem.New()
		key := queueTasks(t, s, 1)[0]
		const lease = 10 * time.Second
		now := store.Time(time.Now())
		claimed, err := s.Claim(t.Context(), store.ClaimParams{Worker: "dead", Now: now, Until: now.Add(lease), Limit: 1, Event: store.Event{Time: now, State: a2a.StateWorking}})
		if err != nil || len(claimed) != 1 {
			t.Fatalf("Claim() = %v, %v, want the task", claimed, err)
		}
		started := make(chan time.Time, 1)
		e := start(t, engine.Config{Store: sharedStore{s}, Turns: engine.Turns{Lease: lease, Poll: time.Hour}, Handler: func(context.Context, *engine.Turn) error {
			started <- time.Now()
			return nil
		}})
		waitFinal(t, e, key.ID)
		if took := receive(t, started).Sub(now); took < lease || took > 2*lease {
			t.Errorf("the task was claimed after %s, want one to two leases of %s", took, lease)
		}
	})
}

// A run that starts after the deadline of a stop requeues its task.
func TestTaskClaimedDuringAStopIsRequeued(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := inmem.New()
		late := newLateClaim(s)
		queueTasks(t, s, 1)
		e := start(t, engine.Config{Store: late, Handler: func(ctx context.Context, _ *engine.Turn) error {
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
			}
			return ctx.Err()
		}})
		<-late.claimed
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		stopped := make(chan error)
		go func() { stopped <- e.Stop(ctx) }()
		synctest.Wait()
		close(late.answer)
		if err := <-stopped; err != nil {
			t.Errorf("Stop() = %v", err)
		}
		if b, err := s.Backlog(t.Context()); err != nil || b.Queued != 1 || b.Leased != 0 {
			t.Errorf("Backlog() after Stop = %+v, %v, want one queued task", b, err)
		}
	})
}

// unreadableTask is a store that cannot read a task in its first claim.
type unreadableTask struct {
	sharedStore
	failed atomic.Bool
}

func (s *unreadableTask) Claim(ctx context.Context, p store.ClaimParams) ([]*store.Task, error) {
	tasks, err := s.sharedStore.Claim(ctx, p)
	if len(tasks) == 1 && s.failed.CompareAndSwap(false, true) {
		return nil, &store.ClaimError{Unreadable: []store.UnreadableTask{{Key: tasks[0].Key, Queue: tasks[0].Queue, Err: errSecret}}}
	}
	return tasks, err
}

func TestUnreadableTaskIsRequeuedForALease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &unreadableTask{sharedStore: sharedStore{inmem.New()}}
		key := queueTasks(t, s, 1)[0]
		queued := time.Now()
		e := start(t, engine.Config{Store: s, Turns: engine.Turns{Lease: time.Minute, Poll: time.Second}, Handler: func(context.Context, *engine.Turn) error {
			if took := time.Since(queued); took < time.Minute {
				t.Errorf("the unreadable task was claimed again after %s, want a lease", took)
			}
			return nil
		}})
		if got := waitFinal(t, e, key.ID); got.Queue.Attempt != 1 {
			t.Errorf("the task took %d attempts, want 1: an unreadable task is charged none", got.Queue.Attempt)
		}
	})
}

// The dispatcher claims only when it is woken.
func TestQueuedTaskStartsWhenASlotIsFree(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := make(chan struct{})
		e := start(t, engine.Config{Turns: engine.Turns{Concurrency: 1, Poll: time.Hour, Lease: 4 * time.Hour}, Handler: func(_ context.Context, turn *engine.Turn) error {
			if turn.Messages()[0].Text() == "first" {
				<-first
			}
			return nil
		}})
		synctest.Wait() // until the first claim has found nothing
		send(t, e, message("first"))
		id := send(t, e, message("second")).Key.ID
		close(first)
		wantState(t, waitFinal(t, e, id), a2a.StateCompleted)
	})
}
