package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// maxConflicts is the maximum number of attempts of a change that conflicts with changes of
// other processes.
const maxConflicts = 100

// errConflicts returns the error for a change that failed after maxConflicts attempts.
func errConflicts(kind, id string) error {
	return a2a.Errorf(a2a.CodeUnavailable, "%s %s: too many conflicting changes; retry later", kind, a2a.Quote(id))
}

// addToTask adds the message to an existing task.
func (s *sendCall) addToTask(ctx context.Context) (*Sent, error) {
	e, m := s.e, &s.params.Message
	if err := s.storeFilesOfTask(ctx); err != nil {
		return nil, taskError(m.TaskID, err)
	}
	l := e.hub.acquire(store.Key{Owner: s.principal.ID, ID: m.TaskID})
	defer e.hub.release(l)
	l.commit.Lock()
	defer l.unlock()
	for range maxConflicts {
		base, err := e.hub.current(ctx, l)
		if err != nil {
			return nil, taskError(m.TaskID, err)
		}
		if err := s.checkAppend(ctx, base); err != nil {
			return nil, err
		}
		m.ContextID = base.ContextID
		sent, err := s.appendMessage(ctx, l, base)
		switch {
		case errors.Is(err, store.ErrRecordConflict): // of the admission
		case !errors.Is(err, store.ErrConflict):
			return sent, taskError(m.TaskID, err)
		default:
			if _, err := e.hub.reload(ctx, l); err != nil {
				return nil, taskError(m.TaskID, err)
			}
		}
	}
	return nil, errConflicts("task", m.TaskID)
}

// checkAppend returns an error if the message cannot be added to the task: a *duplicateError if
// it was added before.
func (s *sendCall) checkAppend(ctx context.Context, t *store.Task) error {
	m := &s.params.Message
	if m.ContextID != "" && m.ContextID != t.ContextID {
		return a2a.Invalid("message.contextId", "is not the context of task %s", a2a.Quote(m.TaskID))
	}
	record, err := s.identity.previous(ctx)
	if record == nil && err == nil {
		record, err = s.appendedBefore(ctx, t)
	}
	if err != nil {
		return err
	}
	if record != nil {
		return &duplicateError{record: record}
	}
	if want := s.ifGenerationMatch(); want != nil && *want != t.Seq {
		return &a2a.Error{
			Code:    a2a.CodeGenerationMismatch,
			Message: fmt.Sprintf("configuration.ifGenerationMatch is %d, but task %s has the generation %d; read the task and decide again", *want, a2a.Quote(m.TaskID), t.Seq),
			Data:    map[string]any{"taskId": m.TaskID, "expectedGeneration": *want, "currentGeneration": t.Seq},
		}
	}
	if state := t.Status.State; state.Terminal() {
		return a2a.Errorf(a2a.CodeUnsupported, "task %s is %s and accepts no more messages; send the message without taskId to start a new task in its context", a2a.Quote(m.TaskID), state)
	}
	return nil
}

// ifGenerationMatch returns the generation that the task must have, or nil.
func (s *sendCall) ifGenerationMatch() *int64 {
	if s.params.Configuration == nil {
		return nil
	}
	return s.params.Configuration.IfGenerationMatch
}

// appendedBefore returns a record, without a key, of an earlier append of the message to the
// task, or nil. It rejects another message with the same id if that is a UUID. Clients reuse
// other ids, such as "msg-1", for new messages.
func (s *sendCall) appendedBefore(ctx context.Context, t *store.Task) (*store.IdempotencyRecord, error) {
	m := s.params.Message
	m.ContextID = t.ContextID
	used := false
	for i := range t.History {
		entry := &t.History[i]
		if !entry.Received || entry.Message.ID != m.ID {
			continue
		}
		same, err := s.matchesEvent(ctx, t.Key, entry.Seq, &m)
		if err != nil {
			return nil, err
		}
		if same {
			return &store.IdempotencyRecord{Owner: s.principal.ID, TaskID: t.Key.ID, Seq: entry.Seq}, nil
		}
		used = true
	}
	if used && isUnique(m.ID) {
		return nil, a2a.Invalid("message.messageId", "is the id of another message of task %s", a2a.Quote(t.Key.ID))
	}
	return nil, nil
}

// matchesEvent reports whether the event at seq records message m and the metadata of this
// request.
func (s *sendCall) matchesEvent(ctx context.Context, task store.Key, seq int64, m *a2a.Message) (bool, error) {
	events, err := s.e.cfg.Store.Events(ctx, task, seq-1, 1)
	if err != nil || len(events) == 0 {
		return false, err
	}
	want, err := wire.Marshal(requestContent{canonical(events[0].Received), events[0].Metadata})
	if err != nil {
		return false, err
	}
	got, err := wire.Marshal(requestContent{canonical(m), s.params.Metadata})
	return bytes.Equal(got, want), err
}

// appendMessage adds the message to the task. If the task is queued or runs, the message goes
// to its inbox; otherwise it starts the next turn.
func (s *sendCall) appendMessage(ctx context.Context, l *live, base *store.Task) (*Sent, error) {
	e, m := s.e, &s.params.Message
	state := base.Status.State
	if base.Seq >= maxEvents {
		return nil, a2a.Errorf(a2a.CodeUnsupported, "task %s has %d events, the maximum; send the message without taskId to start a new task in its context", a2a.Quote(l.key.ID), base.Seq)
	}
	if n := len(base.Unread(base.Queue.SeenSeq)); n >= e.cfg.Limits.Inbox {
		return nil, a2a.Errorf(a2a.CodeExhausted, "inbox of task %s is full (%d messages waiting); retry later", a2a.Quote(l.key.ID), n)
	}
	if s.params.Metadata != nil {
		if err := e.checkMap("metadata", store.MergePatch(base.Metadata, s.params.Metadata)); err != nil {
			return nil, err
		}
	}
	event := store.Event{State: state, Received: m, Sender: s.sender(), Metadata: s.params.Metadata}
	size := int64(event.Size())
	if err := e.checkTaskSize(l.key.ID, base.Bytes, size); err != nil {
		return nil, err
	}
	if err := e.hub.sizes.check(ctx, store.ContextKey{Owner: s.principal.ID, ID: base.ContextID}); err != nil {
		return nil, err
	}
	if err := l.holdMemory(ctx, base.Bytes+size); err != nil {
		return nil, err
	}
	admission, err := s.admit(ctx, base)
	if err != nil {
		return nil, err
	}
	webhook, err := s.webhook(ctx, base.Seq)
	if err != nil {
		return nil, err
	}
	change := store.Change{Version: base.Seq, Idempotency: s.identity.recordFor(m.TaskID), Webhooks: webhook, Records: admission.Records}
	slot := false
	switch {
	case base.Queue.Phase != store.PhaseIdle:
		change.Events = []store.Event{event}
	case !state.CanMove(a2a.StateSubmitted):
		return nil, a2a.Errorf(a2a.CodeUnsupported, "task %s is %s and accepts no messages", a2a.Quote(l.key.ID), state)
	case admission.Pause != "":
		event.State = a2a.StateSubmitted
		change.Events = []store.Event{event, s.pauseEvent(admission)}
	default:
		event.State = a2a.StateSubmitted
		if err := e.queue.checkOwner(ctx, s.principal.ID); err != nil {
			return nil, err
		}
		queue := base.Queue
		queue.Phase, queue.DueAt, queue.Attempt = store.PhaseQueued, time.Time{}, 0
		queue.Turn++
		queue.StartSeq = base.Seq
		change.Queue = &queue
		change.Events = []store.Event{event}
		slot = e.dispatcher.reserveSlot(s.principal.ID, &queue, &change.Events)
	}
	t, err := e.hub.write(ctx, l, base, change)
	if err != nil {
		e.dispatcher.returnSlot(slot, s.principal.ID)
		return nil, err
	}
	if change.Queue != nil {
		e.dispatcher.runOrAnnounce(l, t, slot)
	}
	return s.result(l, base, change.Events[:1], t), nil
}
