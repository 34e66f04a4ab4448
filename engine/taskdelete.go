package engine

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// DeleteTask removes a finished task of the principal with all its data: events, steps, feedback,
// idempotency records, webhooks, delivery attempts and dead letters. If webhook events are
// undelivered it returns conflict; Force drops them. When DeleteTask returns, no read finds the
// task and its id is free; the janitor removes the rest of a large log. Readers that follow the
// task end with task_not_found, on other replicas within Poll. DeleteTask also removes the task's
// messages from the transcript and releases the pins of its blobs; if their stores fail, a sweep
// does it later. A repeated call returns task_not_found. Errors: task_not_found, conflict naming
// the state of an unfinished task, invalid_params.
func (e *Engine) DeleteTask(ctx context.Context, p a2a.Principal, params a2a.DeleteTaskParams) error {
	id := params.ID
	if a2a.CheckID("id", id) != nil {
		return a2a.TaskNotFound(id)
	}
	force, err := forceParam(params.Force, params.Metadata)
	if err != nil {
		return err
	}
	found, err := e.cfg.Store.Task(ctx, store.Key{Owner: p.ID, ID: id}, store.TaskOptions{Outline: true})
	if err != nil {
		return taskError(id, err)
	}
	l := e.hub.acquire(store.Key{Owner: p.ID, ID: id})
	defer e.hub.release(l)
	l.commit.Lock()
	defer l.commit.Unlock()
	more, err := e.cfg.Store.DeleteTask(ctx, l.key, force)
	switch {
	case errors.Is(err, store.ErrBusy):
		return e.unfinishedTask(ctx, l.key)
	case errors.Is(err, store.ErrUndelivered):
		return a2a.Errorf(a2a.CodeConflict, "task %s has undelivered webhook events; set force to drop them", a2a.Quote(id))
	case err != nil:
		return taskError(id, err)
	}
	l.markDeleted()
	if more {
		e.janitor.wakeUp()
	}
	e.deletions.removals.completeNow(context.WithoutCancel(ctx), store.Removal{Key: l.key, CreatedAt: found.CreatedAt, ContextID: found.ContextID})
	return nil
}

// unfinishedTask returns the error for a task that cannot be deleted yet.
func (e *Engine) unfinishedTask(ctx context.Context, key store.Key) error {
	t, err := e.cfg.Store.Task(ctx, key, store.TaskOptions{Outline: true})
	if err != nil {
		return taskError(key.ID, err)
	}
	return a2a.Errorf(a2a.CodeConflict, "task %s is %s; only a finished task can be deleted, cancel it first", a2a.Quote(key.ID), t.Status.State)
}

// purge removes content left by deletions of tasks.
func (j *janitor) purge(ctx context.Context, beat func()) {
	for more := true; more && ctx.Err() == nil; {
		beat()
		started := j.elapsed()
		var err error
		if more, err = j.cfg.Store.PurgeDeleted(ctx); err != nil {
			j.log.Warn("removing the content of deleted tasks failed", "error", err)
			return
		}
		if more {
			j.runs.yieldStore(ctx, j.elapsed()-started)
		}
	}
}

// wakeUp makes the janitor start a pass now.
func (j *janitor) wakeUp() { j.wake.Send() }
