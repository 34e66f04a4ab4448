package engine

import (
	"context"
	"errors"
	"sync"

	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
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
)

// completeBatch completes a batch of removals after a position and returns the number of completed
// ones. next is the position at which to continue, nil after the last batch. A removal that fails
// does not affect others.
func (r *removals) completeBatch(ctx context.Context, after store.Removal) (n int, next *store.Removal, err error) {
	found, err := r.cfg.Store.Removals(ctx, after, removalBatch)
	if err != nil || len(found) == 0 {
		return 0, nil, err
	}
	exists, err := r.exist(ctx, found...)
	if err != nil {
		return 0, nil, err
	}
	errs := make([]error, len(found))
	var workers sync.WaitGroup
	for w := range removalWorkers {
		workers.Go(func() {
			for i := w; i < len(found); i += removalWorkers {
				if !exists[found[i].Key] {
					errs[i] = r.release(ctx, &found[i])
				}
			}
		})
	}
	workers.Wait()
	var done []store.Removal
	for i := range found {
		if errs[i] == nil {
			done = append(done, found[i])
		} else {
			err = errs[i]
		}
	}
	if len(found) == removalBatch {
		next = &found[removalBatch-1]
	}
	if len(done) == 0 {
		return 0, next, err
	}
	return len(done), next, errors.Join(err, r.cfg.Store.ForgetRemovals(ctx, done))
}

// exist returns the keys of removed tasks that have been used again in the meantime. The task that
// has the key inherits what the removed one left.
func (r *removals) exist(ctx context.Context, found ...store.Removal) (map[store.Key]bool, error) {
	keys := make([]store.Key, len(found))
	for i := range found {
		keys[i] = found[i].Key
	}
	versions, err := r.cfg.Store.Versions(ctx, keys)
	if err != nil {
		return nil, err
	}
	exists := make(map[store.Key]bool, len(versions))
	for k := range versions {
		exists[k] = true
	}
	return exists, nil
}

// release removes what a removed task left.
func (r *removals) release(ctx context.Context, removal *store.Removal) error {
	c := &r.cfg.Contracts
	var runErr, pinErr error
	if c.Blobs != nil { // first, because pins are more often in the store of the tasks
		pinErr = c.Blobs.UnpinAll(ctx, removal.Key.Owner, blobHolder(removal.Key.ID))
	}
	if k := r.cfg.transcript(removal.Key.Owner, removal.ContextID); c.History != nil && k.Check() == nil {
		runErr = clearRun(ctx, c.History, k, removal.Key.ID)
	}
	return errors.Join(pinErr, runErr)
}

// clearRun removes the messages of a run. It changes nothing if the session has no messages.
func clearRun(ctx context.Context, p history.Provider, k history.Key, run string) error {
	n, err := p.Count(ctx, k)
	if err != nil || n == 0 {
		return err
	}
	_, err = p.ClearRun(ctx, k, run, 0)
	return err
}

// completeNow completes the removal of a task, within a short time. If it fails, the loop of
// removals does it later.
func (r *removals) completeNow(ctx context.Context, removal store.Removal) {
	ctx, cancel := context.WithTimeout(ctx, contractTimeout)
	defer cancel()
	exists, err := r.exist(ctx, removal)
	if err == nil && !exists[removal.Key] {
		err = r.release(ctx, &removal)
	}
	if err == nil {
		err = r.cfg.Store.ForgetRemovals(ctx, []store.Removal{removal})
	}
	if err != nil {
		r.wake.Send()
	}
}
