package engine

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Cancel ends a task of the principal: it is canceled when Cancel returns, and
// the handler that runs it is told. Errors: task_not_found, task_not_cancelable
// for a task that is over.
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
		base, err := e.current(ctx, l)
		if err != nil {
			return nil, taskError(id, err)
		}
		t, err := e.cancel(ctx, l, base, opts)
		if !errors.Is(err, store.ErrConflict) {
			return t, taskError(id, err)
		}
		if _, err := e.reload(ctx, l); err != nil {
			return nil, taskError(id, err)
		}
	}
	return nil, a2a.Errorf(a2a.CodeUnavailable, "task %s changes too fast; try again", a2a.Quote(id))
}

func (e *Engine) cancel(ctx context.Context, l *live, base *store.Task, opts SendOptions) (*store.Task, error) {
	s := &sending{e: e, owner: l.key.Owner, params: new(a2a.MessageSendParams), opts: opts}
	s.params.Message.TaskID = l.key.ID
	s.record = s.requestRecord()
	if record, err := s.earlier(ctx); err != nil || record != nil {
		return s.repeatCancel(ctx, record, err)
	}
	if state := base.Status.State; !state.CanMove(a2a.StateCanceled) {
		return nil, a2a.Errorf(a2a.CodeTaskNotCancelable, "task %s is %s and cannot be canceled", a2a.Quote(l.key.ID), state)
	}
	queue := base.Run
	queue.Phase, queue.Lease.Worker = store.PhaseIdle, ""
	queue.Lease.Fence++
	t, err := e.write(ctx, l, base, store.Change{
		Version: base.Seq, Run: &queue,
		Events:      []store.Event{{State: a2a.StateCanceled}},
		Idempotency: s.stamped(),
	})
	var dup *duplicate
	if errors.As(err, &dup) {
		return s.repeatCancel(ctx, dup.record, nil)
	}
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	r := l.run
	l.mu.Unlock()
	if r != nil {
		_ = r.die(ErrCanceled)
	}
	return t, nil
}

func (s *sending) repeatCancel(ctx context.Context, record *store.IdempotencyRecord, err error) (*store.Task, error) {
	if err != nil {
		return nil, err
	}
	sent, err := s.repeat(ctx, record)
	if err != nil {
		return nil, err
	}
	return sent.Task, nil
}
