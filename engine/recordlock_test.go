package engine_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/memory/states"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// Tasks of one context that change its state at the same time wait for each other, instead of being rejected again and again.
func TestConcurrentChangesOfOneRecordAreFewCommits(t *testing.T) {
	t.Parallel()
	const tasks = 30
	var log await.Buffer
	var rejected atomic.Int64
	slow := storetest.Intercept(inmem.New(), func(ctx context.Context, c storetest.Call, do func(context.Context) error) error {
		if c.Method == "Commit" {
			time.Sleep(2 * time.Millisecond) // all tasks read the record before one has changed it
		}
		return do(ctx)
	})
	counted := &countingConflicts{Store: slow, rejected: &rejected}
	e := start(t, engine.Config{Store: counted, Logger: slog.New(slog.NewTextHandler(&log, nil)), Handler: func(ctx context.Context, turn *engine.Turn) error {
		return states.For(turn.Contracts()).Update(ctx, map[string]any{turn.TaskID(): true})
	}})
	contextID := newID()
	var clients sync.WaitGroup
	for range tasks {
		clients.Go(func() {
			p := message("m")
			p.Message.ContextID = contextID
			sent, err := e.Send(t.Context(), alice, p, engine.SendOptions{Wait: true})
			if err != nil || sent.Task.Status.State != a2a.StateCompleted {
				t.Errorf("Send() = %+v, %v, want a completed task", sent, err)
			}
		})
	}
	clients.Wait()
	if n := rejected.Load(); n > 2*tasks {
		t.Errorf("%d commits were rejected, want at most 2 per task", n)
	}
	if strings.Contains(log.String(), "commit failed") {
		t.Errorf("log = %s, want no failed commits", log.String())
	}
	if state := sessionState(t, counted, contextID); strings.Count(state, "true") != tasks {
		t.Errorf("state = %s, want %d members", state, tasks)
	}
}

// countingConflicts counts changes that are rejected because of a record.
type countingConflicts struct {
	store.Store
	rejected *atomic.Int64
}

func (s *countingConflicts) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	results, err := s.Store.Commit(ctx, changes...)
	for _, r := range results {
		if errors.Is(r.Err, store.ErrRecordConflict) {
			s.rejected.Add(1)
		}
	}
	return results, err
}
