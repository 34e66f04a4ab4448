package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
)

// handlerUntilReleased returns a handler that runs until release is closed.
func handlerUntilReleased() (handler engine.Handler, release chan struct{}) {
	release = make(chan struct{})
	return func(ctx context.Context, turn *engine.Turn) error {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return ctx.Err()
	}, release
}

// queuedInStore returns the number of queued tasks in the store.
func queuedInStore(t *testing.T, s store.Store) int64 {
	t.Helper()
	backlog, err := s.Backlog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return int64(backlog.Queued)
}

func TestHealthReportsQueueOfAllReplicas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const sent = 100
		shared := inmem.New()
		handler, release := handlerUntilReleased()
		// The sender runs one task and queues the others, which the runner claims.
		sender := start(t, engine.Config{Store: &idleReplica{sharedStore: sharedStore{shared}}, Handler: handler, Turns: engine.Turns{Concurrency: 1, Poll: 10 * time.Millisecond}})
		for range sent {
			send(t, sender, message("a"))
		}
		runner := start(t, engine.Config{Store: sharedStore{shared}, Handler: handler, Turns: engine.Turns{Concurrency: 8, Poll: 10 * time.Millisecond}})
		agree := func(want int64) {
			t.Helper()
			await.True(t, "the store has the queued tasks", func() bool { return queuedInStore(t, shared) == want })
			for _, e := range []*engine.Engine{sender, runner} {
				// A slow count is not repeated at once.
				await.True(t, "the engine counts the queued tasks", func() bool { return e.Health(t.Context()).Queued == want })
			}
		}
		agree(sent - 1 - 8)
		close(release)
		agree(0)
	})
}

func TestQueueLimitCountsTasksOfAllReplicas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 10
		shared := inmem.New()
		handler, release := handlerUntilReleased()
		cfg := engine.Config{Store: &idleReplica{sharedStore: sharedStore{shared}}, Handler: handler, Turns: engine.Turns{Concurrency: 1, Poll: 10 * time.Millisecond}}
		other := start(t, cfg)
		cfg.Limits.Queued = limit
		limited := start(t, cfg)
		send(t, limited, message("runs"))
		for range limit + 1 {
			send(t, other, message("one runs, the others are queued"))
		}
		trySend := func() error {
			_, err := limited.Send(t.Context(), alice, message("a"), engine.SendOptions{})
			return err
		}
		await.True(t, "the queue is full", func() bool { return errors.Is(trySend(), a2a.ErrExhausted) })
		n := queuedInStore(t, shared)
		if err := trySend(); !errors.Is(err, a2a.ErrExhausted) || queuedInStore(t, shared) != n {
			t.Errorf("Send() with %d queued tasks = %v, want resource_exhausted", n, err)
		}
		// Tasks claimed by another replica free places at once.
		runner := start(t, engine.Config{Store: sharedStore{shared}, Handler: handler, Turns: engine.Turns{Concurrency: 100, Poll: 10 * time.Millisecond}})
		await.True(t, "no task is queued", func() bool { return runner.Health(t.Context()).Queued == 0 })
		await.True(t, "the queue accepts tasks", func() bool { return trySend() == nil })
		close(release)
	})
}

func TestOneOwnerCannotFillTheQueue(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cfg   engine.Config
		own   int // maximum number of waiting tasks of one owner
		other int // of a second owner at the same time
		third int // of a third owner at the same time
	}{
		"half with several owners": {engine.Config{MultiOwner: true, Limits: engine.Limits{Queued: 100}}, 50, 25, 13},
		"as set":                   {engine.Config{Limits: engine.Limits{Queued: 10, QueuedPerOwner: 7}}, 7, 2, 1},
		"all with one owner":       {engine.Config{Limits: engine.Limits{Queued: 10}}, 10, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				hold, release := handlerUntilReleased()
				c.cfg.Turns.Concurrency = 1
				c.cfg.Handler = func(ctx context.Context, turn *engine.Turn) error {
					if turn.Messages()[0].Text() == "ask" {
						return turn.RequireInput(a2a.TextPart{Text: "what?"})
					}
					return hold(ctx, turn)
				}
				e := start(t, c.cfg)
				paused := sendWait(t, e, message("ask"))
				answer := message("the next turn waits too")
				answer.Message.TaskID = paused.Key.ID
				var refused int64
				try := func(owner string, m a2a.MessageSendParams) error {
					_, err := e.Send(t.Context(), a2a.Principal{ID: owner}, m, engine.SendOptions{})
					if errors.Is(err, a2a.ErrExhausted) {
						refused++
					}
					return err
				}
				fill := func(owner string, n int) {
					t.Helper()
					for range n { // a slow count is not repeated at once
						await.True(t, "the queue accepts a task of the owner", func() bool { return try(owner, message("waits")) == nil })
					}
					if err := try(owner, message("one too many")); !errors.Is(err, a2a.ErrExhausted) {
						t.Errorf("Send() of %s with %d queued tasks = %v, want resource_exhausted", owner, n, err)
					}
				}
				send(t, e, message("runs"))
				await.True(t, "one task runs and none is queued", func() bool { h := e.Health(t.Context()); return h.Running == 1 && h.Queued == 0 })
				fill(alice.ID, c.own)
				if err := try(alice.ID, answer); c.other > 0 && !errors.Is(err, a2a.ErrExhausted) {
					t.Errorf("Send() to a paused task = %v, want resource_exhausted", err)
				}
				fill("bob", c.other)
				fill("carol", c.third)
				if h := e.Health(t.Context()); c.other > 0 && h.OwnerQueueRefused < 2 || h.QueueRefused+h.OwnerQueueRefused != refused {
					t.Errorf("Health() = %+v, want %d messages refused, two or more for the owners' shares", h, refused)
				}
				close(release)
				await.True(t, "the queue accepts a task again", func() bool { return try(alice.ID, message("again")) == nil })
			})
		})
	}
}

func TestQueueLimitOfAnOwnerCountsTasksOfAllReplicas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := inmem.New()
		handler, release := handlerUntilReleased()
		defer close(release)
		cfg := engine.Config{Store: &idleReplica{sharedStore: sharedStore{shared}}, Handler: handler, Turns: engine.Turns{Concurrency: 1, Poll: 10 * time.Millisecond}}
		cfg.Limits.Queued, cfg.Limits.QueuedPerOwner = 100, 10
		limited, other := start(t, cfg), start(t, cfg)
		for range 6 {
			send(t, limited, message("one runs, five wait")) // the owner's tasks are not counted yet
		}
		for range 6 {
			send(t, other, message("one runs, five wait"))
		}
		await.True(t, "the queue of the owner is full", func() bool {
			_, err := limited.Send(t.Context(), alice, message("a"), engine.SendOptions{})
			return errors.Is(err, a2a.ErrExhausted)
		})
		if h := limited.Health(t.Context()); h.OwnerQueueRefused == 0 || h.QueueRefused > 0 {
			t.Errorf("Health() = %+v, want messages refused for the owner's queue", h)
		}
	})
}
