package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Bounds of what a run keeps uncommitted while the store does not answer.
const (
	maxPending = 1000
	// maxEvents is the length of a log from which only a turn's end is added to it.
	// A store can take twice as many.
	maxEvents   = 1 << 23
	settlePause = 100 * time.Millisecond
	settleMax   = 5 * time.Second
)

// run is one claim of a task: one lease, one or more turns.
type run struct {
	e     *Engine
	l     *live
	lease store.HeldLease

	contextID string

	ctx    context.Context
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	queue   store.Run // the task's place in the queue, as last committed by us
	pending []store.Event
	// committing is the number of pending events in the commit in progress.
	committing int
	timer      *time.Timer // flushes pending
	lost       *lostCommit // the last commit, when it failed; it may have gone through
	dead       error       // why nothing can be committed any more
	seen       int64       // messages through this sequence are with the handler
	artifacts  int         // bytes of artifacts in this turn
	total      int64       // bytes of the task with what is pending

	until atomic.Int64 // when the lease ends, as far as is known, on Engine.elapsed

	// retried is the number of the turn of which earlier attempts may have left steps and
	// artifacts: the first turn of this run. It is 0 when there was no earlier attempt.
	retried int
	// turnNow is the turn whose handler has been called and whose end is not settled.
	turnNow *Turn
	// claimed is the version that the claim left behind; 0 for a run that began with its message.
	claimed int64
	// suspect is set when the run is to wait for its turn among suspects.
	suspect bool
}

// newRun prepares a run of t, which this process holds the lease of. An older run of
// the task has lost its lease then. newRun takes over the caller's hold on l.
func (e *Engine) newRun(l *live, t *store.Task) *run {
	r := &run{
		e: e, l: l, contextID: t.ContextID, queue: t.Run,
		lease: store.HeldLease{Key: t.Key, Worker: t.Run.Lease.Worker, Fence: t.Run.Lease.Fence},
	}
	// More than a message and this claim: an attempt has a claim of its own. A turn that does not start
	// with a message followed another under its lease, so its first attempt had none.
	if t.Seq > t.Run.StartSeq+2 || t.ReceivedSeq <= t.Run.StartSeq {
		r.retried = t.Run.Turn
	}
	r.holdUntil(e.elapsed() + min(t.Run.Lease.Until.Sub(e.now()), e.cfg.Lease))
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	l.mu.Lock()
	older := l.run
	l.run = r
	l.mu.Unlock()
	if older != nil {
		_ = older.die(ErrLeaseLost)
	}
	return r
}

// launch begins a run. Its slot is taken already, and the caller holds the engine
// open.
func (e *Engine) launch(r *run) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopping {
		r.cancel(ErrStopping)
	}
	e.runs[r] = struct{}{}
	e.active.Go(r.main)
}

func (r *run) main() {
	defer r.finish()
	r.logTakeover()
	for again := true; again; {
		// An error or a value of the handler may panic when it is looked at.
		if p := guard(func() { again = r.turn() }); p != nil {
			again = r.panicked(p)
		}
	}
}

func (r *run) finish() {
	r.cancel(ErrEnded)
	r.mu.Lock()
	if r.dead == nil {
		r.e.strayed.Store(true) // nobody renews the lease, and it may still be ours
	}
	r.dead = ErrEnded
	if r.timer != nil {
		r.timer.Stop()
	}
	r.mu.Unlock()
	r.l.mu.Lock()
	if r.l.run == r {
		r.l.run = nil
	}
	r.l.mu.Unlock()
	r.leave()
	r.e.mu.Lock()
	delete(r.e.runs, r)
	r.e.mu.Unlock()
	r.e.freeSlot(r.l.key.Owner)
}

// leave releases the run's task. A commit of the task may take long, and the slot of the run is
// free already, so leave does not wait for it.
func (r *run) leave() {
	if r.l.commit.TryLock() {
		r.l.unlock()
		r.e.hub.release(r.l)
		return
	}
	r.e.active.Go(func() {
		defer r.e.hub.release(r.l)
		r.l.commit.Lock()
		defer r.l.unlock()
	})
}

// turn runs the handler once and commits what came of it. It reports whether
// there is another turn to run under the same lease.
func (r *run) turn() (again bool) {
	if r.queue.Attempt > r.e.cfg.MaxAttempts {
		r.logExhausted(errProcessEnded)
		return r.settle(r.failed(fmt.Sprintf("gave up after %d attempts: %s", r.e.cfg.MaxAttempts, errProcessEnded)))
	}
	done, ok := r.admit()
	if !ok {
		return false
	}
	defer done()
	ctx, cancel := r.turnContext()
	defer cancel()
	if err := r.hold(ctx); err != nil {
		return r.conclude(ctx, err)
	}
	if ctx.Err() != nil {
		return r.conclude(ctx, ctx.Err())
	}
	t, err := r.newTurn(ctx)
	if errors.Is(err, errNoMemory) {
		due := r.e.now().Add(r.e.cfg.Lease)
		r.log().Warn("no memory to read what earlier attempts stored; task is requeued", "due", due)
		return r.handBack(due, nil)
	}
	if err != nil {
		return r.conclude(ctx, err)
	}
	err = r.call(ctx, t)
	t.end()
	return r.conclude(ctx, err)
}

func (r *run) turnContext() (context.Context, context.CancelFunc) {
	if limit := r.e.cfg.TaskTimeout; limit > 0 {
		return context.WithTimeoutCause(r.ctx, limit, ErrTimeout)
	}
	return context.WithCancel(r.ctx)
}

// call runs the handler, and leaves it behind when it does not return in time
// after its context is done. It cancels the context when the lease ends, unless the
// store is of this process alone: another worker may run the task from then on.
func (r *run) call(ctx context.Context, t *Turn) error {
	done := make(chan error, 1)
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		defer t.reserved.end()
		var err error
		if p := guard(func() { err = r.e.cfg.Handler(ctx, t) }); p != nil {
			err = p
		}
		done <- err
	}()
	leaseEnd := time.NewTimer(r.leaseLeft())
	defer leaseEnd.Stop()
	for ctx.Err() == nil {
		select {
		case err := <-done:
			return err
		case <-leaseEnd.C:
			r.fence(leaseEnd)
		case <-ctx.Done():
		}
	}
	grace := time.NewTimer(r.e.cfg.HandlerGrace)
	defer grace.Stop()
	select {
	case err := <-done:
		return err
	case <-grace.C:
	}
	r.e.abandoned.Add(1)
	r.e.log.Error("handler did not return when told to", "task", r.l.key.ID, "cause", context.Cause(ctx))
	go func() {
		<-returned
		r.e.abandoned.Add(-1)
	}()
	return ctx.Err()
}

// fence stops the handler if the lease has ended, else it sets the timer again. The
// lease may still be held: if it is, the run hands the task back.
func (r *run) fence(leaseEnd *time.Timer) {
	switch left := r.leaseLeft(); {
	case r.e.exclusive():
	case left > 0:
		leaseEnd.Reset(left)
	default:
		r.e.log.Warn("lease ended before the store renewed it, stopping the handler", "task", r.l.key.ID)
		r.cancel(ErrLeaseLost)
	}
}

// conclude turns what the handler returned into the end of the turn.
func (r *run) conclude(ctx context.Context, err error) (again bool) {
	var outcome *Outcome
	if err == nil {
		return r.settle(&Outcome{State: a2a.StateCompleted})
	}
	if errors.As(err, &outcome) {
		r.logOutcome(outcome)
		return r.settle(outcome)
	}
	var panicked *panicError
	var retry *retryError
	cause := context.Cause(ctx)
	switch {
	case errors.As(err, &panicked):
		return r.panicked(panicked)
	case errors.Is(cause, ErrCanceled):
		return false
	case errors.Is(cause, ErrStopping), errors.Is(cause, ErrLeaseLost): // refused if another worker has the task
		return r.handBack(time.Time{}, nil)
	case errors.Is(cause, ErrTimeout):
		r.logFailed(ErrTimeout)
		return r.settle(r.failed(fmt.Sprintf("ran longer than the limit of %s", r.e.cfg.TaskTimeout)))
	case errors.As(err, &retry) && r.queue.Attempt < r.e.cfg.MaxAttempts:
		return r.retry(err)
	case errors.As(err, &retry):
		r.logExhausted(err)
		return r.settle(r.failed(fmt.Sprintf("gave up after %d attempts: %s", r.queue.Attempt, err)))
	}
	r.logFailed(err)
	return r.settle(r.failed(err.Error()))
}

func (r *run) panicked(p error) (again bool) {
	var panicked *panicError
	if errors.As(p, &panicked) {
		r.log().Error("handler panicked", "panic", panicked.value, "stack", string(panicked.stack))
	}
	return r.settle(r.failed("the agent's handler panicked; its log says more"))
}

func (r *run) failed(text string) *Outcome {
	return &Outcome{State: a2a.StateFailed, Message: r.say(text)}
}

// say makes a message of the agent.
func (r *run) say(text string) *a2a.Message {
	return r.sayParts([]a2a.Part{a2a.TextPart{Text: text}})
}

func (r *run) sayParts(parts []a2a.Part) *a2a.Message {
	return &a2a.Message{ID: r.e.cfg.NewID(), Role: a2a.RoleAgent, TaskID: r.l.key.ID, ContextID: r.contextID, Parts: parts}
}

// settle commits the end of the turn. A message that nobody has read yet keeps
// the task going: what the handler said is kept, and the next turn begins.
func (r *run) settle(o *Outcome) (again bool) {
	if t := r.turnNow; t != nil {
		r.turnNow = nil
		t.complete()
	}
	over := store.Event{State: o.State, Message: o.Message}.Copy()
	for {
		r.mu.Lock()
		queue := r.queue
		queue.Phase, queue.SeenSeq, queue.Lease.Worker = store.PhaseIdle, r.seen, ""
		seen := r.seen
		r.mu.Unlock()
		err := r.persist(over, &queue, seen)
		if err != nil && r.unstorable() {
			over = store.Event{State: a2a.StateFailed, Message: r.say("what the task produced could not be stored")}
			err = r.persist(over, &queue, seen)
		}
		if !errors.Is(err, store.ErrUnread) {
			return false
		}
		// What is pending belongs to this turn; the next one starts after it.
		if r.insist(r.e.settling, new(runChange)) != nil {
			return false
		}
		next := r.nextTurn()
		err = r.persist(store.Event{State: a2a.StateWorking, Message: over.Message}, &next, 0)
		if err == nil {
			return true
		}
		if !errors.Is(err, store.ErrUnread) {
			return false
		}
	}
}

// unstorable reports whether a commit failed for good while the lease is held.
// It drops what is pending, which may be the cause.
func (r *run) unstorable() bool {
	r.l.commit.Lock()
	defer r.l.unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead != nil || r.lost == nil || r.e.settling.Err() != nil {
		return false
	}
	r.pending = nil
	return true
}

func (r *run) nextTurn() store.Run {
	at := r.l.stands()
	r.mu.Lock()
	defer r.mu.Unlock()
	next := r.queue
	next.Turn++
	next.Attempt, next.SeenSeq, next.StartSeq = 1, r.seen, at.Seq
	r.artifacts = 0
	return next
}

// retry puts the task back into the queue, due after a pause.
func (r *run) retry(err error) bool {
	delay := r.e.cfg.RetryDelay
	for range r.queue.Attempt - 1 {
		delay = min(2*delay, r.e.cfg.RetryDelayMax)
	}
	r.logRetry(err, delay)
	text := fmt.Sprintf("attempt %d of %d: %s; trying again in %s", r.queue.Attempt, r.e.cfg.MaxAttempts, err, delay)
	event := store.Event{State: a2a.StateSubmitted, Message: r.say(text), Progress: true}
	return r.handBack(r.e.now().Add(delay), &event)
}

// handBack returns the task to the queue. Without an event it is as if the
// attempt had not been made.
func (r *run) handBack(due time.Time, event *store.Event) bool {
	r.mu.Lock()
	queue := r.queue
	r.mu.Unlock()
	queue.Phase, queue.Lease.Worker, queue.DueAt = store.PhaseQueued, "", store.Time(due)
	if due.IsZero() {
		queue.DueAt = time.Time{}
	}
	var events []store.Event
	if event != nil {
		events = append(events, *event)
	} else {
		queue.Attempt--
	}
	err := r.persistAll(events, &queue, 0)
	if err == nil {
		r.e.noteQueued(r.l.key.Owner)
		time.AfterFunc(max(0, due.Sub(r.e.now())), r.e.kick)
	}
	return false
}

func (r *run) persist(event store.Event, queue *store.Run, seen int64) error {
	return r.persistAll([]store.Event{event}, queue, seen)
}

func (r *run) persistAll(events []store.Event, queue *store.Run, seen int64) error {
	err := r.insist(r.e.settling, &runChange{events: events, queue: queue, seen: seen})
	if err != nil && !errors.Is(err, store.ErrUnread) {
		r.e.log.Info("run ended without a commit", "task", r.l.key.ID, "cause", err)
	}
	return err
}
