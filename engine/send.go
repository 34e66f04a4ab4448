package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// SendOptions are what a transport knows beyond the params.
type SendOptions struct {
	// Wait has Send return when the task is over or waits for its client, or when
	// ctx is done, whichever is first.
	Wait bool
	// IdempotencyKey, if not empty, makes the call repeatable: the same key with
	// the same RequestHash is answered as the first time, with another refused.
	IdempotencyKey string
	RequestHash    [32]byte
	// Stored, if not nil, is called once the message is stored, before any wait.
	Stored func()
	// Hold, if not nil, is called with the bytes of content of a task before the task is read to answer a
	// repeated message, and with 0 before Send waits. Send returns its error.
	Hold func(ctx context.Context, bytes int64) error
	// Push, if not nil, returns the webhooks that come with the message; without it a
	// configuration that has one is refused. seq is the task's version that the message
	// is added to, 0 for a new task. It is called before each try to store the message, so
	// that what it returns may not be stored, and must not call the engine. Its error
	// refuses the message, unless that repeats a request.
	Push func(ctx context.Context, task store.Key, seq int64) ([]store.NewPush, error)
}

// Sent is what became of a message.
type Sent struct {
	// First is the task as it stood when the message had just joined it: the
	// first event of a stream. It may be nil for a caller that has waited.
	First *store.Task
	// Task is the task as it stands, after the wait if there was one.
	Task *store.Task
}

// Send takes a message in: it begins a task, goes on with one that waits, or
// joins the inbox of one that runs. When Send returns without an error the
// message is stored. A message that is sent again is answered as the first time and
// changes nothing: one for a task whose id the task has, and a first one whose id is a
// UUID, for as long as Retention keeps idempotency records. Errors: invalid_params naming the field, task_not_found,
// unsupported_operation for a task that is over, context_not_cancelable for a new
// task in a context that takes none, conflict for an idempotency key of another
// request, resource_exhausted, unavailable.
func (e *Engine) Send(ctx context.Context, p a2a.Principal, params a2a.MessageSendParams, opts SendOptions) (*Sent, error) {
	if err := e.checkSend(&params, opts.Push != nil); err != nil {
		return nil, err
	}
	if err := checkKey(opts.IdempotencyKey); err != nil {
		return nil, err
	}
	if e.state.Load() != stateRunning {
		return nil, ErrShutdown
	}
	references := e.checkReferences(ctx, p, params.Message.ReferenceTaskIDs)
	s := &sending{e: e, owner: p.ID, params: &params, opts: opts, references: references}
	s.record = s.requestRecord()
	sent, err := s.send(ctx)
	var dup *duplicate
	if errors.As(err, &dup) {
		return s.repeat(ctx, dup.record)
	}
	if err != nil || !opts.Wait {
		return sent, err
	}
	seq := sent.First.Seq
	sent, s.params = nil, nil // who waits holds no content
	defer e.hub.release(s.task)
	t, err := e.wait(ctx, s.task, seq)
	if err != nil {
		return nil, err
	}
	return &Sent{Task: t}, nil
}

func (e *Engine) checkReferences(ctx context.Context, p a2a.Principal, ids []string) error {
	for i, id := range ids {
		_, err := e.cfg.Store.Task(ctx, store.Key{Owner: p.ID, ID: id}, store.TaskOptions{Outline: true})
		if errors.Is(err, store.ErrNotFound) {
			e := a2a.TaskNotFound(id)
			e.Message = fmt.Sprintf("message.referenceTaskIds[%d]: %s", i, e.Message)
			return e
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sending is one call of Send.
type sending struct {
	e      *Engine
	owner  string
	params *a2a.MessageSendParams // nil once the message is stored
	opts   SendOptions
	// record is of the request, nil if it can only be recognised in the task's history.
	record *store.IdempotencyRecord

	task       *live // the task, when the message is stored and the caller waits for it
	references error // why the message is not taken, unless it repeats a request
	turnedAway bool  // what else forbids it has been found
}

func (s *sending) send(ctx context.Context) (*Sent, error) {
	m := &s.params.Message
	if m.TaskID == "" {
		m.TaskID = s.e.cfg.NewID()
		if m.ContextID == "" {
			m.ContextID = s.e.cfg.NewID()
		}
		return s.open(ctx)
	}
	chosen := isUUID(m.TaskID) && isUUID(m.ContextID) // by the client, for a task that may be new
	sent, err := s.follow(ctx)
	if !errors.Is(err, a2a.ErrTaskNotFound) || !chosen {
		return sent, err
	}
	sent, err = s.open(ctx)
	if errors.Is(err, store.ErrExists) || s.turnedAway && s.taskExists(ctx) {
		return s.follow(ctx) // another request has created it
	}
	return sent, err
}

// open begins a task in a context that takes new tasks. One whose deletion was
// begun is removed first, and begins anew.
func (s *sending) open(ctx context.Context) (*Sent, error) {
	key := store.ContextKey{Owner: s.owner, ID: s.params.Message.ContextID}
	for range maxConflicts {
		sent, err := s.create(ctx)
		exists := s.exists(err)
		if !exists && !errors.Is(err, store.ErrContextClosed) {
			return sent, err
		}
		c, cerr := s.e.cfg.Store.Context(ctx, key.Owner, key.ID, 0)
		switch {
		case errors.Is(cerr, store.ErrNotFound):
			removed, ferr := s.e.finishDeletion(ctx, key)
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
			return nil, closed(&c)
		}
	}
	return nil, errContextRace(key.ID)
}

// exists reports whether a task was not created because it, or the record of the
// request for it, exists.
func (s *sending) exists(err error) bool {
	var dup *duplicate
	if errors.As(err, &dup) {
		return dup.record.TaskID == s.params.Message.TaskID
	}
	return errors.Is(err, store.ErrExists)
}

// taskExists reports whether the message's task is found.
func (s *sending) taskExists(ctx context.Context) bool {
	key := store.Key{Owner: s.owner, ID: s.params.Message.TaskID}
	_, err := s.e.cfg.Store.Task(ctx, key, store.TaskOptions{Outline: true})
	return err == nil
}

// create begins a task. When a worker of this process is idle it is claimed with
// the same commit.
func (s *sending) create(ctx context.Context) (*Sent, error) {
	e, m := s.e, &s.params.Message
	if err := e.checkQueue(ctx, s.owner); err != nil {
		return nil, s.refused(ctx, err)
	}
	l := e.hub.acquire(store.Key{Owner: s.owner, ID: m.TaskID})
	defer e.hub.release(l)
	l.commit.Lock()
	defer l.unlock()

	first := store.Event{State: a2a.StateSubmitted, Received: m, Metadata: s.params.Metadata}
	if err := e.checkTaskSize(l.key.ID, 0, int64(first.Size())); err != nil {
		return nil, s.refused(ctx, err)
	}
	if err := e.checkContextSize(ctx, store.ContextKey{Owner: s.owner, ID: m.ContextID}); err != nil {
		return nil, s.refused(ctx, err)
	}
	if err := l.holdMemory(ctx, int64(first.Size())); err != nil {
		return nil, err
	}
	push, err := s.push(ctx, 0)
	if err != nil {
		return nil, err
	}
	queue := store.Run{Phase: store.PhaseQueued, Turn: 1, Lease: store.Lease{Fence: store.FirstFence(e.cfg.clock())}}
	events := []store.Event{first}
	slot := e.reserveSlot(s.owner, &queue, &events)
	base := &store.Task{Key: l.key, ContextID: m.ContextID}
	t, err := e.write(ctx, l, base, store.Change{
		Create: &store.Create{ContextID: m.ContextID}, Events: events, Run: &queue, Idempotency: s.stamped(), Push: push,
	})
	if err != nil {
		e.returnSlot(slot, s.owner)
		return nil, err
	}
	e.begin(l, t, slot)
	return s.sent(l, base, events[:1], t), nil
}

// push returns the webhooks that come with the message, or why what it refers to
// forbids it.
func (s *sending) push(ctx context.Context, seq int64) (push []store.NewPush, err error) {
	if err = s.references; err == nil && s.opts.Push != nil {
		push, err = s.opts.Push(ctx, store.Key{Owner: s.owner, ID: s.params.Message.TaskID}, seq)
	}
	if err != nil {
		return nil, s.refused(ctx, err)
	}
	return push, nil
}

// reserveSlot takes a free worker for a task that is about to be queued, unless
// others wait for one or the owner may have none, and holds the engine open for its run. Either returnSlot
// or begin must follow.
func (e *Engine) reserveSlot(owner string, queue *store.Run, events *[]store.Event) bool {
	if e.ready.Load() || !e.hold() {
		return false
	}
	if !e.slots.takeFor(owner, e.limited.Load()) {
		e.active.Done()
		return false
	}
	queue.Phase = store.PhaseLeased
	queue.Lease = store.Lease{Worker: *e.worker.Load(), Fence: queue.Lease.Fence + 1, Until: store.Time(e.now().Add(e.cfg.Lease))}
	queue.Attempt++
	*events = append(*events, store.Event{State: a2a.StateWorking})
	return true
}

func (e *Engine) returnSlot(taken bool, owner string) {
	if taken {
		e.freeSlot(owner)
		e.active.Done()
	}
}

// begin runs a task that was just committed with a lease, or announces that it
// waits for one. The caller holds l.commit.
func (e *Engine) begin(l *live, t *store.Task, leased bool) {
	if !leased {
		e.noteQueued(l.key.Owner)
		if !e.waitsForShare(l.key.Owner) {
			e.kick()
		}
		return
	}
	e.launch(e.newRun(e.hub.acquire(l.key), t))
	e.active.Done()
}

// sent reports that the message is stored. base with first applied is the task as the
// message joined it. The caller holds l.commit.
func (s *sending) sent(l *live, base *store.Task, first []store.Event, t *store.Task) *Sent {
	start := base.Clone()
	start.Apply(first...)
	if s.opts.Stored != nil {
		s.opts.Stored()
	}
	if s.opts.Wait {
		s.task = s.e.hub.acquire(l.key)
	}
	return &Sent{First: start, Task: t}
}

// wait returns the task at its first final state at or after a sequence, or as
// it stands when ctx is done.
func (e *Engine) wait(ctx context.Context, l *live, seq int64) (*store.Task, error) {
	var born time.Time
	for {
		at, t, changed := l.position()
		if at.Seq < seq || l.isGone() {
			if _, err := e.refresh(ctx, l); err != nil {
				return nil, taskError(l.key.ID, err)
			}
			at, t, changed = l.position()
		}
		if orDefault(&born, at.CreatedAt); !at.CreatedAt.Equal(born) {
			return nil, a2a.TaskNotFound(l.key.ID) // another task has its id now
		}
		if at.Seq >= seq && at.state.Final() {
			if t == nil { // it ran elsewhere
				return e.asItStands(ctx, l)
			}
			return t, nil
		}
		t = nil //nolint:ineffassign,wastedassign // who waits holds no content
		if e.await(ctx, l, changed) {
			return e.asItStands(ctx, l)
		}
	}
}

// asItStands returns the task as it is known here, or else as the store has it.
func (e *Engine) asItStands(ctx context.Context, l *live) (*store.Task, error) {
	if t, _ := l.snapshot(); t != nil {
		return t, nil
	}
	t, err := e.cfg.Store.Task(context.WithoutCancel(ctx), l.key, store.TaskOptions{}) // the time to wait has ended, not the time to answer
	return t, taskError(l.key.ID, err)
}

// await returns when the task has moved on; it reports whether ctx is done. While the
// outcome of a commit is unknown it reads the store now and then. What other processes
// do is found by the engine's loops.
func (e *Engine) await(ctx context.Context, l *live, changed <-chan struct{}) (done bool) {
	var poll <-chan time.Time
	if l.inDoubt() {
		timer := time.NewTimer(e.cfg.Poll)
		defer timer.Stop()
		poll = timer.C
	}
	select {
	case <-ctx.Done():
		return true
	case <-changed:
	case <-poll:
		if _, err := e.refresh(ctx, l); err != nil {
			e.log.Debug("poll task", "task", l.key.ID, "error", err)
		}
	}
	return false
}

// refresh reads the task anew.
func (e *Engine) refresh(ctx context.Context, l *live) (*store.Task, error) {
	l.commit.Lock()
	defer l.unlock()
	return e.current(ctx, l)
}
