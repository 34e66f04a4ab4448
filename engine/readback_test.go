package engine_test

import (
	"context"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

// pausedStore reports each applied commit of a state, and blocks its result until release is
// closed.
type pausedStore struct {
	store.Store
	state   a2a.TaskState
	applied chan struct{}
	release chan struct{}
}

func (s *pausedStore) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	results, err := s.Store.Commit(ctx, changes...)
	for _, c := range changes {
		if n := len(c.Events); n > 0 && c.Events[n-1].State == s.state {
			s.applied <- struct{}{}
			<-s.release
		}
	}
	return results, err
}

// A webhook can deliver an event as soon as the store has applied its commit, before the commit
// returns to the engine.
func TestReadReturnsStateOfCommitInProgress(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		paused := &pausedStore{Store: s, state: a2a.StateCanceled, applied: make(chan struct{}), release: make(chan struct{})}
		started := make(chan struct{})
		e := start(t, engine.Config{Store: paused, Handler: func(ctx context.Context, _ *engine.Turn) error {
			close(started)
			<-ctx.Done()
			return ctx.Err()
		}})
		task := send(t, e, message("a"))
		<-started
		canceled := make(chan error, 1)
		go func() {
			_, err := e.Cancel(t.Context(), alice, task.Key.ID, engine.SendOptions{})
			canceled <- err
		}()
		<-paused.applied
		got, err := e.Task(t.Context(), alice, task.Key.ID, nil)
		if err != nil || got.Status.State != a2a.StateCanceled {
			t.Errorf("Task() after its commit was applied = %s, %v; want canceled", got.Status.State, err)
		}
		close(paused.release)
		if err := <-canceled; err != nil {
			t.Errorf("Cancel() = %v", err)
		}
	})
}
