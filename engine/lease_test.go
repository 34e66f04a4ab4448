package engine_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
)

// delayedStore is a replica's view of a store. While delayed, commits are applied but do not
// return, and renewals fail.
type delayedStore struct {
	sharedStore
	gate atomic.Pointer[chan struct{}]
}

func (s *delayedStore) delay() (release func()) {
	c := make(chan struct{})
	s.gate.Store(&c)
	return func() { s.gate.Store(nil); close(c) }
}

func (s *delayedStore) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	results, err := s.sharedStore.Commit(ctx, changes...)
	if c := s.gate.Load(); c != nil {
		<-*c
	}
	return results, err
}

func (s *delayedStore) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) ([]store.Key, error) {
	if s.gate.Load() != nil {
		return nil, a2a.Errorf(a2a.CodeUnavailable, "cut off")
	}
	return s.sharedStore.Renew(ctx, until, leases)
}

func TestNothingStartsUnderExpiredLease(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"a run", "a step"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			shared := inmem.New()
			slow := &delayedStore{sharedStore: sharedStore{shared}}
			var handled, stepped atomic.Int64
			inside, proceed := make(chan struct{}), make(chan struct{})
			const lease = 2 * time.Second
			e1 := start(t, engine.Config{
				Store: slow, Turns: engine.Turns{Lease: lease, Poll: 20 * time.Millisecond},
				Handler: func(ctx context.Context, turn *engine.Turn) error {
					handled.Add(1)
					if where == "a step" {
						close(inside)
						<-proceed
					}
					_, err := turn.Step(ctx, "pay", func(context.Context) ([]byte, error) { stepped.Add(1); return nil, nil })
					return err
				},
			})
			p := message("a")
			p.Message.TaskID, p.Message.ContextID = newID(), newID()
			sent := make(chan error, 1)
			var release func()
			if where == "a run" {
				release = slow.delay()
			}
			go func() {
				_, err := e1.Send(t.Context(), alice, p, engine.SendOptions{})
				sent <- err
			}()
			if where == "a step" {
				<-inside
				release = slow.delay()
			}
			// Another replica claims the task and runs it when the first one continues.
			started, end := make(chan struct{}), make(chan struct{})
			e2 := start(t, engine.Config{
				Store: sharedStore{shared}, Turns: engine.Turns{Poll: 20 * time.Millisecond},
				Handler: func(context.Context, *engine.Turn) error { close(started); <-end; return nil },
			})
			<-started
			release()
			close(proceed)
			if err := <-sent; err != nil {
				t.Errorf("Send() = %v", err)
			}
			stop(t, e1)
			close(end)
			wantState(t, waitFinal(t, e2, p.Message.TaskID), a2a.StateCompleted)
			want := int64(0)
			if where == "a step" {
				want = 1
			}
			if handled.Load() != want || stepped.Load() != 0 {
				t.Errorf("the first replica ran the handler %d times and the step %d times, want %d and 0", handled.Load(), stepped.Load(), want)
			}
		})
	}
}

func TestCloseAddsNoChunkDuringConcurrentCommit(t *testing.T) {
	t.Parallel()
	shared := inmem.New()
	slow := &delayedStore{sharedStore: sharedStore{shared}}
	started, arriving, closed := make(chan struct{}), make(chan struct{}), make(chan struct{})
	e := start(t, engine.Config{
		Store: slow, Turns: engine.Turns{FlushInterval: time.Hour},
		Handler: func(_ context.Context, turn *engine.Turn) error {
			if turn.Number() == 2 {
				return nil
			}
			close(started)
			<-arriving
			defer close(closed)
			w := turn.Artifact("a")
			if _, err := w.WriteString("x"); err != nil {
				return err
			}
			return w.Close()
		},
	})
	task := send(t, e, message("a"))
	<-started
	release := slow.delay()
	sent := make(chan error, 1)
	go func() {
		_, err := e.Send(t.Context(), alice, messageTo(task.Key.ID, "b"), engine.SendOptions{})
		sent <- err
	}()
	await.True(t, "the task has three events", func() bool { return storedTask(t, shared, task.Key).Seq == 3 })
	close(arriving)
	<-closed
	release()
	if err := <-sent; err != nil {
		t.Errorf("Send() = %v", err)
	}
	wantState(t, waitFinal(t, e, task.Key.ID), a2a.StateCompleted)
	chunks := 0
	for _, event := range checkLog(t, shared, task.Key) {
		if event.Artifact != nil {
			chunks++
		}
	}
	if chunks != 1 {
		t.Errorf("the artifact was stored in %d chunks, want 1", chunks)
	}
}
