package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// removals removes the data that removed tasks left in the stores of [Contracts], such as the pins of their blobs. A
// task's removal is stored until that is done.
type removals struct {
	*settings
	wake runtime.Signal // there may be removals
}

const (
	// removalWorkers is the number of removals that are completed at the same time.
	removalWorkers = 8
	// removalBatch is the number of removals that one pass reads at once.
	removalBatch = 200
	// removalTimeout limits a removal, so that a few removals that do not end leave time for
	// others.
	removalTimeout = contractTimeout / 4
)

// completeBatch completes a batch of removals after a position and returns the number of completed
// removals. next is the position at which to continue, nil after the last removal. A removal that
// fails does not affect others. When ctx is done, the next batch continues with the removals that
// were not tried.
func (r *removals) completeBatch(ctx context.Context, after store.Removal) (n int, next *store.Removal, err error) {
	found, err := r.cfg.Store.Removals(ctx, after, removalBatch)
	if err != nil || len(found) == 0 {
		return 0, nil, err
	}
	errs := make([]error, len(found))
	var tried atomic.Int64 // a prefix of found
	var workers sync.WaitGroup
	for range removalWorkers {
		workers.Go(func() {
			for ctx.Err() == nil {
				i := int(tried.Add(1)) - 1
				if i >= len(found) {
					return
				}
				errs[i] = r.complete(ctx, &found[i])
			}
		})
	}
	workers.Wait()
	full := len(found) == removalBatch
	if tried := int(tried.Load()); tried < len(found) {
		found, full = found[:tried], true
	}
	if len(found) == 0 {
		return 0, nil, ctx.Err()
	}
	if full {
		next = &found[len(found)-1]
	}
	var done []store.Removal
	for i := range found {
		if errs[i] == nil {
			done = append(done, found[i])
		} else {
			err = errs[i]
		}
	}
	return len(done), next, errors.Join(err, r.forget(ctx, done))
}

// forget removes completed removals from the store, also if ctx is done.
func (r *removals) forget(ctx context.Context, done []store.Removal) error {
	if len(done) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), contractTimeout)
	defer cancel()
	return r.cfg.Store.ForgetRemovals(ctx, done)
}

// complete removes the data that a removed task left in stores of contracts. If a task with the
// same key exists again, that task keeps the data, except the data of the context if it is in
// another context.
func (r *removals) complete(ctx context.Context, removal *store.Removal) error {
	ctx, cancel := context.WithTimeout(ctx, removalTimeout)
	defer cancel()
	p := contract.Removal{
		Session: r.cfg.session(store.ContextKey{Owner: removal.Key.Owner, ID: removal.ContextID}), TaskID: removal.Key.ID,
		Fence: store.FirstFence(r.cfg.clock()), // not above the fences of tasks that are created from now on
		Task: func(ctx context.Context) (*store.Task, error) {
			return r.cfg.Store.Task(ctx, removal.Key, store.TaskOptions{})
		},
	}
	t, err := r.cfg.Store.Task(ctx, removal.Key, store.TaskOptions{Outline: true})
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err == nil && t.ContextID != removal.ContextID:
		p.Moved = true
	default:
		return err
	}
	// Concurrently, so that a store which does not answer leaves time for others.
	return r.cfg.Contracts.each(func(s contract.Store) error {
		if remover, ok := s.(contract.Remover); ok {
			return remover.RemoveTask(ctx, &p)
		}
		return nil
	})
}

// completeNow completes the removal of a task, within a short time. If it fails, the loop of
// removals does it later.
func (r *removals) completeNow(ctx context.Context, removal store.Removal) {
	err := r.complete(ctx, &removal)
	if err == nil {
		err = r.forget(ctx, []store.Removal{removal})
	}
	if err != nil {
		r.wake.Send()
	}
}
