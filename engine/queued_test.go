package engine_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

// untilReleased returns a handler that runs until release is closed.
func untilReleased() (handler engine.Handler, release chan struct{}) {
	release = make(chan struct{})
	return func(ctx context.Context, turn *engine.Turn) error {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return ctx.Err()
	}, release
}

// queuedInStore returns how many tasks wait to run.
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
	const sent = 100
	shared := inmem.New()
	handler, release := untilReleased()
	// The sender runs one task and queues the others, which the runner takes.
	sender := start(t, engine.Config{Store: &idleReplica{replicas: replicas{shared}}, Handler: handler, Concurrency: 1, Poll: 10 * time.Millisecond})
	for range sent {
		send(t, sender, text("a"))
	}
	runner := start(t, engine.Config{Store: replicas{shared}, Handler: handler, Concurrency: 8, Poll: 10 * time.Millisecond})
	agree := func(want int64) {
		t.Helper()
		eventually(t, func() bool { return queuedInStore(t, shared) == want })
		for _, e := range []*engine.Engine{sender, runner} {
			// A count that took long is not repeated at once.
			eventually(t, func() bool { return e.Health(t.Context()).Queued == want })
		}
	}
	agree(sent - 1 - 8)
	close(release)
	agree(0)
}

func TestQueueLimitCountsTasksOfAllReplicas(t *testing.T) {
	t.Parallel()
	const limit = 10
	shared := inmem.New()
	handler, release := untilReleased()
	cfg := engine.Config{Store: &idleReplica{replicas: replicas{shared}}, Handler: handler, Concurrency: 1, Poll: 10 * time.Millisecond}
	other := start(t, cfg)
	cfg.Limits.Queued = limit
	limited := start(t, cfg)
	send(t, limited, text("runs"))
	for range limit + 1 {
		send(t, other, text("one runs, the others are queued"))
	}
	trySend := func() error {
		_, err := limited.Send(t.Context(), alice, text("a"), engine.SendOptions{})
		return err
	}
	eventually(t, func() bool { return errors.Is(trySend(), a2a.ErrExhausted) })
	n := queuedInStore(t, shared)
	if err := trySend(); !errors.Is(err, a2a.ErrExhausted) || queuedInStore(t, shared) != n {
		t.Errorf("Send() with %d queued tasks = %v, want resource_exhausted", n, err)
	}
	// What another replica takes makes room at once.
	runner := start(t, engine.Config{Store: replicas{shared}, Handler: handler, Concurrency: 100, Poll: 10 * time.Millisecond})
	eventually(t, func() bool { return runner.Health(t.Context()).Queued == 0 })
	eventually(t, func() bool { return trySend() == nil })
	close(release)
}
