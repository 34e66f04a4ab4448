package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/history"
)

// removals removes what removed tasks left in the stores of [Contracts]: the messages of their
// runs, and the pins of their blobs. A task's removal is stored until that is done.
type removals struct {
	*settings
	wake runtime.Signal // there may be removals
}

const (
	// removalWorkers is the number of removals that are completed at the same time.
	removalWorkers = 8
	// removalBatch is the number of removals that one pass reads at once.
	removalBatch = 200
	// removalTimeout limits a removal, so that a few that do not end leave time for others.
	removalTimeout = contractTimeout / 4
)

// completeBatch completes a batch of removals after a position and returns the number of completed
// ones. next is the position at which to continue, nil after the last removal. A removal that fails
// does not affect others. When ctx is done, the next batch continues with those that were not tried.
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

// forget forgets completed removals, also when the time for completing them is over.
func (r *removals) forget(ctx context.Context, done []store.Removal) error {
	if len(done) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), contractTimeout)
	defer cancel()
	return r.cfg.Store.ForgetRemovals(ctx, done)
}

// complete removes what a removed task left. A task that has been created with the same key
// inherits the pins, and the messages if it is in the same context.
func (r *removals) complete(ctx context.Context, removal *store.Removal) error {
	ctx, cancel := context.WithTimeout(ctx, removalTimeout)
	defer cancel()
	fence := store.FirstFence(r.cfg.clock()) // not above the fences of tasks that are created from now on
	t, err := r.cfg.Store.Task(ctx, removal.Key, store.TaskOptions{Outline: true})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return r.release(ctx, removal, fence)
	case err == nil && t.ContextID != removal.ContextID:
		return r.clearRun(ctx, removal, fence)
	default:
		return err
	}
}

// release releases the pins of a removed task and removes its messages.
func (r *removals) release(ctx context.Context, removal *store.Removal, fence int64) error {
	var pinErr error
	if blobs := r.cfg.Contracts.Blobs; blobs != nil { // first, because pins are more often in the store of the tasks
		if pinErr = blobs.UnpinAll(ctx, removal.Key.Owner, fileref.Holder(removal.Key.ID)); pinErr == nil {
			pinErr = r.pinAgain(ctx, removal.Key)
		}
	}
	return errors.Join(pinErr, r.clearRun(ctx, removal, fence))
}

// pinAgain pins the files of a task that was created while the pins of a removed one with the same
// key were released.
func (r *removals) pinAgain(ctx context.Context, key store.Key) error {
	t, err := r.cfg.Store.Task(ctx, key, store.TaskOptions{})
	if err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	}
	for _, ref := range fileref.TaskRefs(t) {
		if err := r.cfg.Contracts.Blobs.Pin(ctx, key.Owner, ref, fileref.Holder(key.ID)); err != nil && !errors.Is(err, blob.ErrNotFound) {
			return err
		}
	}
	return nil
}

// clearRun removes the messages of a run. It changes nothing if the session has no messages. If the
// handler appended with the fence of its lease, the run is cleared with a fence.
func (r *removals) clearRun(ctx context.Context, removal *store.Removal, fence int64) error {
	k, p := r.cfg.transcript(removal.Key.Owner, removal.ContextID), r.cfg.Contracts.History
	if p == nil || k.Check() != nil {
		return nil
	}
	n, err := p.Count(ctx, k)
	if err != nil || n == 0 {
		return err
	}
	if _, err = p.ClearRun(ctx, k, removal.Key.ID, 0); errors.Is(err, history.ErrFenced) {
		_, err = p.ClearRun(ctx, k, removal.Key.ID, fence)
	}
	return err
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
