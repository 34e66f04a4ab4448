package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	// deleteBatch is how many tasks are removed in one transaction.
	deleteBatch = 200
	// toldTasks is how many ids of the tasks in the way an error names.
	toldTasks = 5
	// cancelRounds is how often deleteBatch tasks are cancelled in one go.
	cancelRounds = 5000
	// startDeletions is how long Start works at deletions that were left unfinished.
	startDeletions = 3 * time.Second
)

// unfinished are the states of tasks that are not over, running those in which a
// task may be queued or leased.
var (
	unfinished = statesThat(func(s a2a.TaskState) bool { return !s.Terminal() })
	running    = statesThat(func(s a2a.TaskState) bool { return !s.Final() })
)

func statesThat(match func(a2a.TaskState) bool) []a2a.TaskState {
	return slices.DeleteFunc(a2a.States(), func(s a2a.TaskState) bool { return !match(s) })
}

// ClearContext removes a context with all that belongs to it and returns how many
// tasks it had. It is refused while one of them runs or waits to, and when it is
// archived; Force cancels those that are not over first, pausing the context, and
// clears archived ones too. Once removing has begun it is seen to its end whatever
// becomes of ctx, by the janitor if this call fails: from then on the context is
// gone for everybody. Those who follow its tasks are told task_not_found. A clear
// that is repeated finds the context gone, with and without an Idempotency-Key:
// that is the answer. Errors: context_not_found, context_not_cancelable,
// invalid_params, unavailable.
func (e *Engine) ClearContext(ctx context.Context, p a2a.Principal, params a2a.ClearContextParams, opts SendOptions) (tasks int, err error) {
	if err := checkKey(opts.IdempotencyKey); err != nil {
		return 0, err
	}
	force, err := forced(params.Force, params.Metadata)
	if err != nil {
		return 0, err
	}
	key := store.ContextKey{Owner: p.ID, ID: params.ContextID}
	for range maxConflicts {
		c, err := e.context(ctx, key, 0)
		if err != nil {
			return 0, err
		}
		if c.Status == a2a.ContextArchived && !force {
			return 0, forbidden(key.ID, "is archived; set force to clear it all the same")
		}
		err = e.clear(ctx, key)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return 0, a2a.ContextNotFound(key.ID)
		case !errors.Is(err, store.ErrBusy):
			return c.TaskCount, err
		case !force:
			return 0, e.busy(ctx, key, "cannot be cleared", running)
		}
		if err := e.pause(ctx, c); err != nil {
			return 0, err
		}
		if err := e.cancelAll(ctx, p, key); err != nil {
			return 0, err
		}
	}
	return 0, errContextRace(key.ID)
}

// forced returns the force of a deletion, which may also be given in the metadata.
func forced(force bool, metadata map[string]any) (bool, error) {
	if force || metadata["force"] == nil {
		return force, nil
	}
	force, ok := metadata["force"].(bool)
	if !ok {
		return false, a2a.Invalid("metadata.force", "must be true or false")
	}
	return force, nil
}

// pause keeps new tasks out of a context. That somebody else was faster is seen in
// the next attempt.
func (e *Engine) pause(ctx context.Context, c store.Context) error {
	if c.Status != a2a.ContextActive {
		return nil
	}
	version := c.Version
	c.Status = a2a.ContextPaused
	if now := store.Time(e.cfg.clock()); now.After(c.UpdatedAt) {
		c.UpdatedAt = now
	}
	_, err := e.cfg.Store.SaveContext(ctx, store.ContextChange{Context: c, Version: version})
	if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// cancelAll cancels the tasks of a context that are not over.
func (e *Engine) cancelAll(ctx context.Context, p a2a.Principal, key store.ContextKey) error {
	for range cancelRounds {
		ids, _, err := e.tasksIn(ctx, key, unfinished, deleteBatch)
		if err != nil || len(ids) == 0 {
			return err
		}
		canceled := 0
		for _, id := range ids {
			_, err := e.Cancel(ctx, p, id, SendOptions{})
			switch code := a2a.CodeOf(err); {
			case err == nil:
				canceled++
			case code != a2a.CodeTaskNotFound && code != a2a.CodeTaskNotCancelable:
				return err
			}
		}
		if canceled == 0 {
			return nil // they ended by themselves; if not, the store says so
		}
	}
	return nil
}

// tasksIn returns the ids of a context's newest tasks in some states, and the page of them
// for its total.
func (e *Engine) tasksIn(ctx context.Context, key store.ContextKey, states []a2a.TaskState, limit int) (ids []string, page store.Page, err error) {
	page, err = e.cfg.Store.Tasks(ctx, store.Query{
		Owner: key.Owner, ContextID: key.ID, States: states, Limit: limit, Total: true, TotalLimit: e.cfg.Limits.ListTotal,
		Options: store.TaskOptions{Outline: true},
	})
	for _, t := range page.Tasks {
		ids = append(ids, t.Key.ID)
	}
	return ids, page, err
}

// busy is the error for what tasks of a context are in the way of.
func (e *Engine) busy(ctx context.Context, key store.ContextKey, what string, states []a2a.TaskState) error {
	ids, page, err := e.tasksIn(ctx, key, states, toldTasks)
	if err != nil {
		return err
	}
	tasks := fmt.Sprintf("%d tasks that are", page.Total)
	switch {
	case page.TotalCapped:
		tasks = "more than " + tasks
	case page.Total == 1:
		tasks = "1 task that is"
	}
	out := forbidden(key.ID, "has %s not over and %s; cancel what is not over first, or set force", tasks, what)
	out.Data = map[string]any{"tasks": ids}
	return out
}

// clear removes a context that is there. Its errors are those of
// Store.DeleteContext.
func (e *Engine) clear(ctx context.Context, key store.ContextKey) error {
	unlock, err := e.deletions.lock(ctx, key)
	if err != nil {
		return err
	}
	defer unlock()
	ctx = context.WithoutCancel(ctx)
	defer e.wakeJanitor() // content of large tasks may be left
	more, err := e.cfg.Store.DeleteContext(ctx, key.Owner, key.ID, deleteBatch)
	if err == nil && more {
		_, err = e.remove(ctx, key)
	}
	return err
}

// finishDeletion completes the pending deletion of a context and reports whether it
// removed anything. It does nothing if the context exists.
func (e *Engine) finishDeletion(ctx context.Context, key store.ContextKey) (removed bool, err error) {
	unlock, err := e.deletions.lock(ctx, key)
	if err != nil {
		return false, err
	}
	defer unlock()
	return e.remove(ctx, key)
}

// remove goes on with a deletion to its end, and reports whether it removed
// anything. The caller holds the lock of the context's deletion.
func (e *Engine) remove(ctx context.Context, key store.ContextKey) (removed bool, err error) {
	for {
		more, err := e.cfg.Store.FinishDelete(ctx, key.Owner, key.ID, deleteBatch)
		if errors.Is(err, store.ErrNotFound) {
			return removed, nil // another process was faster; it may be there anew
		}
		if err != nil || !more {
			return true, err
		}
		removed = true
	}
}

// finishAtStart ends the deletions that an earlier process left unfinished before
// anybody can see tasks of a context that is gone. What takes longer is left to the
// janitor.
func (e *Engine) finishAtStart(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, startDeletions)
	defer cancel()
	e.finishDeletions(ctx, func() {})
}

// finishDeletions completes the deletions that an earlier process, or a call that
// failed, left pending.
func (e *Engine) finishDeletions(ctx context.Context, beat func()) {
	const batch = 100
	for ctx.Err() == nil {
		keys, err := e.cfg.Store.PendingDeletions(ctx, batch)
		if err != nil {
			e.log.Warn("list pending deletions", "error", err)
			return
		}
		failed := false
		for _, key := range keys {
			beat()
			if _, err := e.finishDeletion(ctx, key); err != nil {
				e.log.Warn("finish the deletion of a context", "context", key.ID, "error", err)
				failed = true
			}
		}
		if len(keys) < batch || failed {
			return // what failed is tried again with the next tick
		}
	}
}

// deletions has a lock for each context that is being deleted. The zero value is
// ready.
type deletions struct {
	mu    sync.Mutex
	locks map[store.ContextKey]*deletion
}

type deletion struct {
	token chan struct{} // empty while it is held
	users int
}

// lock waits for the lock of a context until ctx is done.
func (d *deletions) lock(ctx context.Context, key store.ContextKey) (unlock func(), err error) {
	d.mu.Lock()
	if d.locks == nil {
		d.locks = make(map[store.ContextKey]*deletion)
	}
	l := d.locks[key]
	if l == nil {
		l = &deletion{token: make(chan struct{}, 1)}
		l.token <- struct{}{}
		d.locks[key] = l
	}
	l.users++
	d.mu.Unlock()
	leave := func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(d.locks, key)
		}
	}
	select {
	case <-l.token:
		return func() { l.token <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
