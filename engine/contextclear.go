package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	// deleteBatch is the number of tasks removed in one transaction.
	deleteBatch = 200
	// namedTasks is the maximum number of unfinished tasks that an error names.
	namedTasks = 5
	// maxCancelBatches is the maximum number of batches of deleteBatch tasks that are canceled.
	maxCancelBatches = 5000
	// startDeletionTimeout limits how long Start works on pending deletions.
	startDeletionTimeout = 3 * time.Second
)

// unfinished are the non-terminal states; active are the unfinished states in which a task may
// be queued or leased.
var (
	unfinished = statesMatching(func(s a2a.TaskState) bool { return !s.Terminal() })
	active     = statesMatching(func(s a2a.TaskState) bool { return !s.Final() })
)

func statesMatching(match func(a2a.TaskState) bool) []a2a.TaskState {
	return slices.DeleteFunc(a2a.States(), func(s a2a.TaskState) bool { return !match(s) })
}

// ClearContext deletes a context with all its data and returns the number of its tasks. It
// returns context_not_cancelable while a task runs or is queued, and for an archived context.
// With Force it pauses the context and cancels unfinished tasks first, and it clears archived
// contexts.
//
// A deletion that has started is completed even if ctx is canceled; if this call fails, the
// janitor completes it. From its start on, reads do not find the context, and readers of its
// tasks get task_not_found. A repeated call completes a deletion that is pending, and returns 0. After that
// it returns context_not_found, with and without an Idempotency-Key. Errors: context_not_found, context_not_cancelable,
// invalid_params, unavailable.
func (e *Engine) ClearContext(ctx context.Context, p a2a.Principal, params a2a.ClearContextParams, opts SendOptions) (tasks int, err error) {
	if err := checkKey(opts.IdempotencyKey); err != nil {
		return 0, err
	}
	force, err := forceParam(params.Force, params.Metadata)
	if err != nil {
		return 0, err
	}
	key := store.ContextKey{Owner: p.ID, ID: params.ContextID}
	w := &contextWrite{e: e, key: key}
	for range maxConflicts {
		c, err := e.context(ctx, key, 0)
		if a2a.CodeOf(err) == a2a.CodeContextNotFound && a2a.CheckID("contextId", key.ID) == nil {
			return 0, e.deletions.resume(ctx, key, err)
		}
		if err != nil {
			return 0, err
		}
		if c.Status == a2a.ContextArchived && !force {
			return 0, contextForbids(key.ID, "is archived; set force to clear it")
		}
		err = e.deletions.delete(ctx, key)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return 0, a2a.ContextNotFound(key.ID)
		case !errors.Is(err, store.ErrBusy):
			return c.TaskCount, err
		case !force:
			return 0, w.busyError(ctx, "cannot be cleared", active)
		}
		if err := w.pause(ctx, c); err != nil {
			return 0, err
		}
		if err := w.cancelAll(ctx, p); err != nil {
			return 0, err
		}
	}
	return 0, errConflicts("context", key.ID)
}

// forceParam returns the force parameter of a deletion, which may also be given in the
// metadata.
func forceParam(force bool, metadata map[string]any) (bool, error) {
	if force || metadata["force"] == nil {
		return force, nil
	}
	force, ok := metadata["force"].(bool)
	if !ok {
		return false, a2a.Invalid("metadata.force", "must be true or false")
	}
	return force, nil
}

// pause pauses the context so that it accepts no new tasks. It ignores a conflict with
// another change; the caller's next attempt detects it.
func (w *contextWrite) pause(ctx context.Context, c store.Context) error {
	if c.Status != a2a.ContextActive {
		return nil
	}
	version := c.Version
	c.Status = a2a.ContextPaused
	if now := store.Time(w.e.cfg.clock()); now.After(c.UpdatedAt) {
		c.UpdatedAt = now
	}
	_, err := w.e.cfg.Store.SaveContext(ctx, store.ContextChange{Context: c, Version: version})
	if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// cancelAll cancels the unfinished tasks of the context.
func (w *contextWrite) cancelAll(ctx context.Context, p a2a.Principal) error {
	for range maxCancelBatches {
		ids, _, err := w.tasksIn(ctx, unfinished, deleteBatch)
		if err != nil || len(ids) == 0 {
			return err
		}
		canceled := 0
		for _, id := range ids {
			_, err := w.e.Cancel(ctx, p, id, SendOptions{})
			switch code := a2a.CodeOf(err); {
			case err == nil:
				canceled++
			case code != a2a.CodeTaskNotFound && code != a2a.CodeTaskNotCancelable:
				return err
			}
		}
		if canceled == 0 {
			return nil // the tasks finished by themselves; otherwise the store reports the context as busy
		}
	}
	return nil
}

// tasksIn returns the ids of the context's newest tasks in the given states, up to limit, and
// the page that lists them.
func (w *contextWrite) tasksIn(ctx context.Context, states []a2a.TaskState, limit int) (ids []string, page store.Page, err error) {
	page, err = w.e.cfg.Store.Tasks(ctx, store.Query{
		Owner: w.key.Owner, ContextID: w.key.ID, States: states, Limit: limit, Total: true, TotalLimit: w.e.cfg.Limits.ListTotal,
		Options: store.TaskOptions{Outline: true},
	})
	for _, t := range page.Tasks {
		ids = append(ids, t.Key.ID)
	}
	return ids, page, err
}

// busyError returns the error for an operation that unfinished tasks of the context prevent.
func (w *contextWrite) busyError(ctx context.Context, effect string, states []a2a.TaskState) error {
	ids, page, err := w.tasksIn(ctx, states, namedTasks)
	if err != nil {
		return err
	}
	tasks := fmt.Sprintf("%d unfinished tasks", page.Total)
	switch {
	case page.TotalCapped:
		tasks = "more than " + tasks
	case page.Total == 1:
		tasks = "1 unfinished task"
	}
	out := contextForbids(w.key.ID, "has %s and %s; cancel them first or set force", tasks, effect)
	out.Data = map[string]any{"tasks": ids}
	return out
}

// deletions removes contexts. In this process, one caller at a time removes a given context.
type deletions struct {
	*settings
	removals *removals
	locks    runtime.Locks[store.ContextKey]
	left     runtime.Signal // content of deleted tasks may remain; wakes the janitor
}

// delete removes an existing context. It returns the errors of Store.DeleteContext. The deletion
// is pending until all that belongs to the context is removed: until then, its id is not free.
func (d *deletions) delete(ctx context.Context, key store.ContextKey) error {
	unlock, err := d.locks.Lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	ctx = context.WithoutCancel(ctx)
	if _, err := d.cfg.Store.DeleteContext(ctx, key.Owner, key.ID, 0); err != nil {
		return err
	}
	_, err = d.remove(ctx, key)
	return err
}

// finish completes the pending deletion of a context and reports whether it removed
// anything. It does nothing if the context exists.
func (d *deletions) finish(ctx context.Context, key store.ContextKey) (removed bool, err error) {
	unlock, err := d.locks.Lock(ctx, key)
	if err != nil {
		return false, err
	}
	defer unlock()
	return d.remove(ctx, key)
}

// resume completes the pending deletion of a context that is not found, and returns notFound if there is
// none. Like delete, it does not stop when ctx is done.
func (d *deletions) resume(ctx context.Context, key store.ContextKey, notFound error) error {
	_, err := d.cfg.Store.FinishDelete(ctx, key.Owner, key.ID, 0)
	if errors.Is(err, store.ErrNotFound) {
		return notFound
	}
	if err == nil {
		_, err = d.finish(context.WithoutCancel(ctx), key)
	}
	return err
}

// remove completes a pending deletion and reports whether it removed anything. The caller holds
// the lock of the context's deletion.
func (d *deletions) remove(ctx context.Context, key store.ContextKey) (removed bool, err error) {
	records, err := d.sessionRecords(ctx, key)
	if err != nil {
		return false, err
	}
	// If the deletion is still pending, the records that were read belong to this context.
	if _, err := d.cfg.Store.FinishDelete(ctx, key.Owner, key.ID, 0); errors.Is(err, store.ErrNotFound) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	if err := errors.Join(d.removeRecords(ctx, key, records), d.clearSession(ctx, key)); err != nil {
		return false, err
	}
	defer func() { // content of large tasks may remain, and their data in other stores
		d.left.Send()
		d.removals.wake.Send()
	}()
	return d.removeBatches(ctx, key)
}

// removeBatches completes a pending deletion and reports whether it removed anything. The
// caller holds the lock of the context's deletion.
func (d *deletions) removeBatches(ctx context.Context, key store.ContextKey) (removed bool, err error) {
	for {
		more, err := d.cfg.Store.FinishDelete(ctx, key.Owner, key.ID, deleteBatch)
		if errors.Is(err, store.ErrNotFound) {
			return removed, nil // another process has finished it, and the context may have been created again
		}
		if err != nil || !more {
			return true, err
		}
		removed = true
	}
}

// finishAtStart completes pending deletions before readers can see tasks of a deleted
// context. The janitor completes those that take too long.
func (d *deletions) finishAtStart(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, startDeletionTimeout)
	defer cancel()
	d.finishAll(ctx, func() {})
}

// finishAll completes the deletions that an earlier process, or a call that failed, left
// pending.
func (d *deletions) finishAll(ctx context.Context, beat func()) {
	const batch = 100
	for ctx.Err() == nil {
		keys, err := d.cfg.Store.PendingDeletions(ctx, batch)
		if err != nil {
			d.log.Warn("listing pending deletions failed", "error", err)
			return
		}
		failed := 0
		for _, key := range keys {
			beat()
			if _, err = d.finish(ctx, key); err == nil {
				continue
			}
			if failed++; failed == 1 {
				d.log.Warn("deleting a context failed, retrying later", "context", key.ID, "error", err)
			}
			if errors.Is(err, errContractStore) {
				return // do not wait for a store that is down once per context
			}
		}
		if len(keys) < batch || failed > 0 {
			return // failed deletions are retried at the next tick
		}
	}
}
