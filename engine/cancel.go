package engine

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Cancel cancels a task of the principal and the context of its handler. The cancellation is
// stored when Cancel returns. Errors: task_not_found, task_not_cancelable for a finished task.
func (e *Engine) Cancel(ctx context.Context, p a2a.Principal, id string, opts SendOptions) (*store.Task, error) {
	if a2a.CheckID("id", id) != nil {
		return nil, a2a.TaskNotFound(id)
	}
	if err := checkKey(opts.IdempotencyKey); err != nil {
		return nil, err
	}
	l := e.hub.acquire(store.Key{Owner: p.ID, ID: id})
	defer e.hub.release(l)
	l.commit.Lock()
	defer l.unlock()
	for range maxConflicts {
		base, err := e.hub.current(ctx, l)
		if err != nil {
			return nil, taskError(id, err)
		}
		t, err := e.cancel(ctx, l, base, opts)
		if !errors.Is(err, store.ErrConflict) {
			return t, taskError(id, err)
		}
		if _, err := e.hub.reload(ctx, l); err != nil {
			return nil, taskError(id, err)
		}
	}
	return nil, errConflicts("task", id)
}

func (e *Engine) cancel(ctx context.Context, l *live, base *store.Task, opts SendOptions) (*store.Task, error) {
	identity := e.idempotency(l.key.Owner, opts)
	if first, err := identity.previous(ctx); err != nil || first != nil {
		return e.repeatCancel(ctx, identity, first, opts, err)
	}
	if state := base.Status.State; !state.CanMove(a2a.StateCanceled) {
		return nil, a2a.Errorf(a2a.CodeTaskNotCancelable, "task %s is %s and cannot be canceled", a2a.Quote(l.key.ID), state)
	}
	queue := base.Queue
	queue.Phase, queue.Lease.Worker = store.PhaseIdle, ""
	queue.Lease.Fence++
	t, err := e.hub.write(ctx, l, base, store.Change{
		Version: base.Seq, Queue: &queue,
		Events:      []store.Event{{State: a2a.StateCanceled}},
		Idempotency: identity.recordFor(l.key.ID),
	})
	var dup *duplicateError
	if errors.As(err, &dup) {
		return e.repeatCancel(ctx, identity, dup.record, opts, nil)
	}
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	r := l.run
	l.mu.Unlock()
	if r != nil {
		_ = r.out.abort(ErrCanceled)
	}
	return t, nil
}

func (e *Engine) repeatCancel(ctx context.Context, identity *idempotency, first *store.IdempotencyRecord, opts SendOptions, err error) (*store.Task, error) {
	if err != nil {
		return nil, err
	}
	sent, err := e.answerRepeat(ctx, identity, first, opts)
	if err != nil {
		return nil, err
	}
	return sent.Task, nil
}
