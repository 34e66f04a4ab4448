package engine

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// maxConflicts is how often a change is made again because another process was
// faster.
const maxConflicts = 100

// follow sends a message to a task that is there.
func (s *sending) follow(ctx context.Context) (*Sent, error) {
	e, m := s.e, &s.params.Message
	l := e.hub.acquire(store.Key{Owner: s.owner, ID: m.TaskID})
	defer e.hub.release(l)
	l.commit.Lock()
	defer l.unlock()
	for range maxConflicts {
		base, err := e.current(ctx, l)
		if err != nil {
			return nil, taskError(m.TaskID, err)
		}
		if err := s.joins(ctx, base); err != nil {
			return nil, err
		}
		m.ContextID = base.ContextID
		sent, err := s.append(ctx, l, base)
		if !errors.Is(err, store.ErrConflict) {
			return sent, taskError(m.TaskID, err)
		}
		if _, err := e.reload(ctx, l); err != nil {
			return nil, taskError(m.TaskID, err)
		}
	}
	return nil, a2a.Errorf(a2a.CodeUnavailable, "task %s changes too fast; try again", a2a.Quote(m.TaskID))
}

// joins reports why the message cannot join the task: a *duplicate when it did before.
func (s *sending) joins(ctx context.Context, t *store.Task) error {
	m := &s.params.Message
	if m.ContextID != "" && m.ContextID != t.ContextID {
		return a2a.Invalid("message.contextId", "is not the context of task %s", a2a.Quote(m.TaskID))
	}
	record, err := s.earlier(ctx)
	if record == nil && err == nil {
		record, err = s.joined(ctx, t)
	}
	if err != nil {
		return err
	}
	if record != nil {
		return &duplicate{record: record}
	}
	if state := t.Status.State; state.Terminal() {
		return a2a.Errorf(a2a.CodeUnsupported, "task %s is %s and takes no more messages; send one without taskId to begin another task in its context", a2a.Quote(m.TaskID), state)
	}
	return nil
}

// append adds the message to the task: to its inbox while it runs or waits to,
// else it begins the next turn.
func (s *sending) append(ctx context.Context, l *live, base *store.Task) (*Sent, error) {
	e := s.e
	state := base.Status.State
	if base.Seq >= maxEvents {
		return nil, a2a.Errorf(a2a.CodeUnsupported, "task %s has %d events and takes no more; send a message without taskId to begin another task in its context", a2a.Quote(l.key.ID), base.Seq)
	}
	if n := len(base.Unread(base.Run.SeenSeq)); n >= e.cfg.Limits.Inbox {
		return nil, a2a.Errorf(a2a.CodeExhausted, "%d messages are waiting for task %s, no more are taken for now; try again later", n, a2a.Quote(l.key.ID))
	}
	if s.params.Metadata != nil {
		if err := e.checkMap("metadata", store.MergePatch(base.Metadata, s.params.Metadata)); err != nil {
			return nil, err
		}
	}
	event := store.Event{State: state, Received: &s.params.Message, Metadata: s.params.Metadata}
	size := int64(event.Size())
	if err := e.checkTaskSize(l.key.ID, base.Bytes, size); err != nil {
		return nil, err
	}
	if err := e.checkContextSize(ctx, store.ContextKey{Owner: s.owner, ID: base.ContextID}); err != nil {
		return nil, err
	}
	if err := l.holdMemory(ctx, base.Bytes+size); err != nil {
		return nil, err
	}
	push, err := s.push(ctx, base.Seq)
	if err != nil {
		return nil, err
	}
	change := store.Change{Version: base.Seq, Idempotency: s.stamped(), Push: push}
	slot := false
	if base.Run.Phase == store.PhaseIdle {
		if event.State = a2a.StateSubmitted; !state.CanMove(event.State) {
			return nil, a2a.Errorf(a2a.CodeUnsupported, "task %s is %s and takes no messages", a2a.Quote(l.key.ID), state)
		}
		if err := e.checkOwnQueue(ctx, s.owner); err != nil {
			return nil, err
		}
		queue := base.Run
		queue.Phase, queue.DueAt, queue.Attempt = store.PhaseQueued, time.Time{}, 0
		queue.Turn++
		queue.StartSeq = base.Seq
		change.Run = &queue
		change.Events = []store.Event{event}
		slot = e.reserveSlot(s.owner, &queue, &change.Events)
	} else {
		change.Events = []store.Event{event}
	}
	t, err := e.write(ctx, l, base, change)
	if err != nil {
		e.returnSlot(slot, s.owner)
		return nil, err
	}
	if change.Run != nil {
		e.begin(l, t, slot)
	}
	return s.sent(l, base, change.Events[:1], t), nil
}
