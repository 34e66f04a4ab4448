package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// SendOptions are options of Send that are not part of the request's params.
type SendOptions struct {
	// Wait makes Send wait until the task has finished or waits for its client, or until ctx is
	// done.
	Wait bool
	// IdempotencyKey, if not empty, makes the call repeatable. Send answers a call with the
	// same key and RequestHash like the first one, and rejects the same key with another
	// RequestHash.
	IdempotencyKey string
	RequestHash    [32]byte
	// OnStored, if not nil, is called after the message is stored, before any wait.
	OnStored func()
	// ReserveMemory, if not nil, is called before Send reads a task to answer a repeated
	// message, with the size of the task's content in bytes. It is called with 0 before Send
	// waits. Send returns its error.
	ReserveMemory func(ctx context.Context, bytes int64) error
	// Webhook, if not nil, returns the webhooks to register with the message. If it is nil,
	// Send rejects a configuration that has a webhook. seq is the version of the task before
	// the message, 0 for a new task. Send calls Webhook before each attempt to store the
	// message, so its result may not be stored. It must not call the engine. If it returns an
	// error, Send rejects the message, unless the message repeats an earlier request.
	Webhook func(ctx context.Context, task store.Key, seq int64) ([]store.NewWebhook, error)
}

// Sent is the result of Send.
type Sent struct {
	// First is the task directly after the message was added: the first event of a stream. It
	// may be nil if the caller has waited.
	First *store.Task
	// Task is the current task, after the wait if there was one.
	Task *store.Task
}

// Send stores a message. The message starts a new task, starts the next turn of a task that
// waits for its client, or is added to the inbox of a running task. When Send returns without
// an error, the message is stored.
//
// A message that is sent again changes nothing and gets the same answer. This applies if the
// task already has a message with the same id. It also applies to a message that starts a task
// and has a UUID as its id, while Retention keeps its idempotency record.
//
// Errors: invalid_params naming the field, task_not_found, unsupported_operation for a finished
// task, context_not_cancelable for a new task in a context that accepts none, conflict for an
// idempotency key of another request, resource_exhausted, unavailable, and the errors of
// Turns.Admit.
func (e *Engine) Send(ctx context.Context, p a2a.Principal, params a2a.MessageSendParams, opts SendOptions) (*Sent, error) {
	if err := e.checkSend(&params, opts.Webhook != nil); err != nil {
		return nil, err
	}
	if err := checkKey(opts.IdempotencyKey); err != nil {
		return nil, err
	}
	if !e.lifecycle.Running() {
		return nil, ErrShutdown
	}
	s := &sendCall{e: e, principal: p, params: &params, opts: opts, identity: e.idempotency(p.ID, opts)}
	s.identity.identifyMessage(p.ID, &params)
	sent, err := s.send(ctx)
	var dup *duplicateError
	if errors.As(err, &dup) {
		s.params = nil // do not hold content while waiting
		return e.answerRepeat(ctx, s.identity, dup.record, opts)
	}
	if err != nil || !opts.Wait {
		return sent, err
	}
	seq := sent.First.Seq
	sent, s.params = nil, nil // do not hold content while waiting
	defer e.hub.release(s.task)
	t, err := e.hub.wait(ctx, s.task, seq)
	if err != nil {
		return nil, err
	}
	return &Sent{Task: t}, nil
}

// sendCall is one call of Send.
type sendCall struct {
	e         *Engine
	principal a2a.Principal          // owns the task
	params    *a2a.MessageSendParams // nil once the message is stored
	opts      SendOptions
	identity  *idempotency

	task       *live // set if the message is stored and the caller waits
	wasRefused bool  // refuse has rejected the message
}

func (s *sendCall) send(ctx context.Context) (*Sent, error) {
	m := &s.params.Message
	if m.TaskID == "" {
		m.TaskID = s.e.cfg.NewID()
		if m.ContextID == "" {
			m.ContextID = s.e.cfg.NewID()
		}
		return s.createTask(ctx)
	}
	chosen := !s.params.ExistingTask && isUUID(m.TaskID) && isUUID(m.ContextID) // the client chose the ids; the task may be new
	sent, err := s.addToTask(ctx)
	if !errors.Is(err, a2a.ErrTaskNotFound) || !chosen {
		return sent, err
	}
	sent, err = s.createTask(ctx)
	if errors.Is(err, store.ErrExists) || s.wasRefused && s.taskExists(ctx) {
		return s.addToTask(ctx) // a concurrent request has created it
	}
	return sent, err
}

// createTask starts a task in a context that accepts new tasks. If the context's deletion is
// pending, createTask finishes the deletion and creates the context again. If a record of the
// admission has changed, createTask admits the message again.
func (s *sendCall) createTask(ctx context.Context) (*Sent, error) {
	key := store.ContextKey{Owner: s.principal.ID, ID: s.params.Message.ContextID}
	for range maxConflicts {
		sent, err := s.tryCreate(ctx)
		if errors.Is(err, store.ErrRecordConflict) {
			continue
		}
		exists := s.alreadyExists(err)
		if !exists && !errors.Is(err, store.ErrContextClosed) {
			return sent, err
		}
		c, cerr := s.e.cfg.Store.Context(ctx, key.Owner, key.ID, 0)
		switch {
		case errors.Is(cerr, store.ErrNotFound):
			removed, ferr := s.e.deletions.finish(ctx, key)
			if ferr != nil {
				return nil, ferr
			}
			if !removed && exists && s.taskExists(ctx) {
				return nil, err // the task is in another context
			}
		case cerr != nil:
			return nil, cerr
		case exists:
			return nil, err
		case c.Status != a2a.ContextActive:
			return nil, closedContext(&c)
		}
	}
	return nil, errConflicts("context", key.ID)
}

// alreadyExists reports whether a task was not created because it, or the record of its
// request, already exists.
func (s *sendCall) alreadyExists(err error) bool {
	var dup *duplicateError
	if errors.As(err, &dup) {
		return dup.record.TaskID == s.params.Message.TaskID
	}
	return errors.Is(err, store.ErrExists)
}

// taskExists reports whether the message's task exists.
func (s *sendCall) taskExists(ctx context.Context) bool {
	key := store.Key{Owner: s.principal.ID, ID: s.params.Message.TaskID}
	_, err := s.e.cfg.Store.Task(ctx, key, store.TaskOptions{Outline: true})
	return err == nil
}

// tryCreate starts a task. If a slot is free, the same commit leases the task to this worker.
func (s *sendCall) tryCreate(ctx context.Context) (*Sent, error) {
	e, m := s.e, &s.params.Message
	if err := e.queue.check(ctx, s.principal.ID); err != nil {
		return nil, s.refuse(ctx, err)
	}
	admission, err := s.admit(ctx, nil)
	if err != nil {
		return nil, err
	}
	if err := s.storeFiles(ctx); err != nil {
		return nil, err
	}
	l := e.hub.acquire(store.Key{Owner: s.principal.ID, ID: m.TaskID})
	defer e.hub.release(l)
	l.commit.Lock()
	defer l.unlock()

	first := store.Event{State: a2a.StateSubmitted, Received: m, Sender: s.sender(), Metadata: s.params.Metadata}
	if err := e.checkTaskSize(l.key.ID, 0, int64(first.Size())); err != nil {
		return nil, s.refuse(ctx, err)
	}
	if err := e.hub.sizes.check(ctx, store.ContextKey{Owner: s.principal.ID, ID: m.ContextID}); err != nil {
		return nil, s.refuse(ctx, err)
	}
	if err := l.holdMemory(ctx, int64(first.Size())); err != nil {
		return nil, err
	}
	webhook, err := s.webhook(ctx, 0)
	if err != nil {
		return nil, err
	}
	queue := store.QueueEntry{Phase: store.PhaseQueued, Turn: 1, Lease: store.Lease{Fence: store.FirstFence(e.cfg.clock())}}
	events, slot := []store.Event{first}, false
	if admission.Pause != "" {
		queue.Phase, queue.Turn = store.PhaseIdle, 0
		events = append(events, s.pauseEvent(admission))
	} else {
		slot = e.dispatcher.reserveSlot(s.principal.ID, &queue, &events)
	}
	base := &store.Task{Key: l.key, ContextID: m.ContextID}
	t, err := e.hub.write(ctx, l, base, store.Change{
		Create: &store.Create{ContextID: m.ContextID}, Events: events, Queue: &queue, Idempotency: s.identity.recordFor(m.TaskID), Webhooks: webhook,
		Records: admission.Records,
	})
	if err != nil {
		e.dispatcher.returnSlot(slot, s.principal.ID)
		return nil, err
	}
	if admission.Pause == "" {
		e.dispatcher.runOrAnnounce(l, t, slot)
	}
	return s.result(l, base, events[:1], t), nil
}

// refuse returns the reason why the message is rejected now. If the message was accepted
// before, it returns a *duplicateError instead: a repeated request gets its first answer.
func (s *sendCall) refuse(ctx context.Context, reason error) error {
	if record, err := s.identity.previous(ctx); err == nil && record != nil {
		return &duplicateError{record: record}
	}
	s.wasRefused = true
	return reason
}

// webhook returns the webhooks to register with the message, or the error that rejects the
// message.
func (s *sendCall) webhook(ctx context.Context, seq int64) (webhook []store.NewWebhook, err error) {
	if s.opts.Webhook != nil {
		webhook, err = s.opts.Webhook(ctx, store.Key{Owner: s.principal.ID, ID: s.params.Message.TaskID}, seq)
	}
	if err != nil {
		return nil, s.refuse(ctx, err)
	}
	return webhook, nil
}

// reserveSlot acquires a slot for a task that is about to be queued, and changes queue and
// events so that their commit leases the task. It returns false if other tasks are due first or
// the owner may have no slot. Stop waits until the caller has called returnSlot or
// runOrAnnounce.
func (d *dispatcher) reserveSlot(owner string, queue *store.QueueEntry, events *[]store.Event) bool {
	if d.mayHaveDue.Load() || !d.runs.add() {
		return false
	}
	if !d.slots.acquireFor(owner, d.mayHaveSkipped.Load()) {
		d.runs.active.Done()
		return false
	}
	queue.Phase = store.PhaseLeased
	queue.Lease = store.Lease{Worker: *d.leases.worker.Load(), Fence: queue.Lease.Fence + 1, Until: store.Time(d.now().Add(d.cfg.Turns.Lease))}
	queue.Attempt++
	*events = append(*events, store.Event{State: a2a.StateWorking})
	return true
}

func (d *dispatcher) returnSlot(reserved bool, owner string) {
	if reserved {
		d.freeSlot(owner)
		d.runs.active.Done()
	}
}

// runOrAnnounce runs a task that was committed with a lease, or announces a queued one to the
// dispatcher. The caller holds l.commit.
func (d *dispatcher) runOrAnnounce(l *live, t *store.Task, leased bool) {
	if !leased {
		d.queue.note(l.key.Owner)
		if !d.waitsForSlot(l.key.Owner) {
			d.notifyWork()
		}
		return
	}
	d.runs.launch(d.newRun(d.hub.acquire(l.key), t))
	d.runs.active.Done()
}

// result returns the answer to a stored message. base with first applied is the task directly
// after the message. The caller holds l.commit.
func (s *sendCall) result(l *live, base *store.Task, first []store.Event, t *store.Task) *Sent {
	start := base.Clone()
	start.Apply(first...)
	if s.opts.OnStored != nil {
		s.opts.OnStored()
	}
	if s.opts.Wait {
		s.task = s.e.hub.acquire(l.key)
	}
	return &Sent{First: start, Task: t}
}

// wait blocks until the task reaches a final state at or after seq, or until ctx is done, and
// returns the task as last seen.
func (h *hub) wait(ctx context.Context, l *live, seq int64) (*store.Task, error) {
	var createdAt time.Time
	for {
		at, t, changed := l.versionAndTask()
		if at.Seq < seq || l.isDeleted() {
			if _, err := h.refresh(ctx, l); err != nil {
				return nil, taskError(l.key.ID, err)
			}
			at, t, changed = l.versionAndTask()
		}
		if createdAt = cmp.Or(createdAt, at.CreatedAt); !at.CreatedAt.Equal(createdAt) {
			return nil, a2a.TaskNotFound(l.key.ID) // another task with the same id has been created
		}
		if at.Seq >= seq && at.state.Final() {
			if t == nil { // it ran in another process
				return h.latestTask(ctx, l)
			}
			return t, nil
		}
		t = nil // do not hold content while waiting
		if h.await(ctx, l, changed) {
			return h.latestTask(ctx, l)
		}
	}
}

// AwaitGeneration waits until the generation of a task of the principal, the number of its newest
// event, is above the given one. It also returns when the task has finished or ctx is done. Errors:
// task_not_found.
func (e *Engine) AwaitGeneration(ctx context.Context, p a2a.Principal, id string, generation int64) error {
	if a2a.CheckID("id", id) != nil {
		return a2a.TaskNotFound(id)
	}
	l := e.hub.acquire(store.Key{Owner: p.ID, ID: id})
	defer e.hub.release(l)
	if _, err := e.hub.refresh(ctx, l); err != nil {
		return taskError(id, err)
	}
	for {
		at, _, changed := l.versionAndTask()
		if at.Seq > generation || at.state.Terminal() || l.isDeleted() {
			return nil
		}
		l.dropPaused() // do not hold content while waiting for the client
		if e.hub.await(ctx, l, changed) {
			return nil
		}
	}
}

// latestTask returns the known task, or reads it from the store if its content is not known.
func (h *hub) latestTask(ctx context.Context, l *live) (*store.Task, error) {
	if t, _ := l.snapshot(); t != nil {
		return t, nil
	}
	t, err := h.cfg.Store.Task(context.WithoutCancel(ctx), l.key, store.TaskOptions{}) // ctx limits the wait, not the read
	return t, taskError(l.key.ID, err)
}

// await blocks until the task changes. It reports whether ctx is done. While the outcome of a
// commit is unknown, it reads the store at the poll interval. Changes by other processes are
// detected by the engine's loops.
func (h *hub) await(ctx context.Context, l *live, changed <-chan struct{}) (done bool) {
	var poll <-chan time.Time
	if l.isStale() {
		timer := time.NewTimer(h.cfg.Turns.Poll)
		defer timer.Stop()
		poll = timer.C
	}
	select {
	case <-ctx.Done():
		return true
	case <-changed:
	case <-poll:
		if _, err := h.refresh(ctx, l); err != nil {
			h.log.Debug("reading a task failed", "task", l.key.ID, "error", err)
		}
	}
	return false
}

// refresh returns the task as stored.
func (h *hub) refresh(ctx context.Context, l *live) (*store.Task, error) {
	l.commit.Lock()
	defer l.unlock()
	return h.current(ctx, l)
}
