package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
)

// Limits of uncommitted events, of the log, and of the backoff of commits.
const (
	maxPending = 1000
	// maxEvents is the length of a log above which only the end of a turn is appended. Stores
	// support twice this length.
	maxEvents      = 1 << 23
	minCommitRetry = 100 * time.Millisecond
	maxCommitRetry = 5 * time.Second
)

// run executes a claimed task: one lease, one or more turns.
type run struct {
	e         *Engine
	l         *live
	contextID string
	ctx       context.Context
	cancel    context.CancelCauseFunc

	lease  runLease
	out    output
	stores storeCalls

	// retriedTurn is the number of the turn for which earlier attempts may have stored steps and
	// artifacts. It can only be the first turn of the run. It is 0 if there was no earlier
	// attempt.
	retriedTurn int
	// currentTurn is the turn in progress: its handler has been called, and its outcome is not
	// yet committed.
	currentTurn *Turn
	// claimSeq is the task's version after the claim; 0 for a run that started with its
	// message.
	claimSeq int64
	// quarantined is set if the run must wait in quarantine before it starts.
	quarantined bool
}

// newRun prepares a run of t. This process holds the lease of t. An older run of the task has
// lost its lease and is aborted. newRun takes over the caller's reference to l.
func (d *dispatcher) newRun(l *live, t *store.Task) *run {
	r := &run{
		e: d.engine, l: l, contextID: t.ContextID,
		lease: runLease{settings: d.settings, HeldLease: store.HeldLease{Key: t.Key, Worker: t.Queue.Lease.Worker, Fence: t.Queue.Lease.Fence}},
	}
	// The first attempt of a turn adds only its message and claim to the log; later attempts
	// add a claim each. If no message was received after StartSeq, the turn followed another
	// turn under the same lease, and its first attempt added no claim.
	if t.Seq > t.Queue.StartSeq+2 || t.ReceivedSeq <= t.Queue.StartSeq {
		r.retriedTurn = t.Queue.Turn
	}
	r.lease.extend(d.elapsed() + min(t.Queue.Lease.Until.Sub(d.now()), d.cfg.Turns.Lease))
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	r.stores = storeCalls{contracts: &d.cfg.Contracts, ctx: r.ctx, log: r.log}
	r.out = output{hub: d.hub, l: l, lease: &r.lease.HeldLease, stores: &r.stores, ctx: r.ctx, cancel: r.cancel, queue: t.Queue}
	l.mu.Lock()
	older := l.run
	l.run = r
	l.mu.Unlock()
	if older != nil {
		_ = older.out.abort(ErrLeaseLost)
	}
	return r
}

func (r *run) main() {
	defer r.finish()
	r.logTakeover()
	for again := true; again; {
		// Methods of the handler's error or values may panic.
		if p := runtime.Guard(func() { again = r.runTurn() }); p != nil {
			again = r.panicked(p)
		}
	}
}

func (r *run) finish() {
	r.cancel(ErrEnded)
	r.out.end()
	r.l.mu.Lock()
	if r.l.run == r {
		r.l.run = nil
	}
	r.l.mu.Unlock()
	r.releaseTask()
	r.e.runs.remove(r)
	r.e.dispatcher.freeSlot(r.l.key.Owner)
}

// releaseTask releases the run's task. It does not wait for a commit in progress, because the
// slot must be freed without delay.
func (r *run) releaseTask() {
	if r.l.commit.TryLock() {
		r.l.unlock()
		r.e.hub.release(r.l)
		return
	}
	r.e.runs.active.Go(func() {
		defer r.e.hub.release(r.l)
		r.l.commit.Lock()
		defer r.l.unlock()
	})
}

// runTurn runs the handler once and commits the outcome. It reports whether another turn must
// run under the same lease.
func (r *run) runTurn() (again bool) {
	if r.out.entry().Attempt > r.e.cfg.Turns.MaxAttempts {
		r.logExhausted(errProcessEnded)
		return r.finishTurn(r.failure(fmt.Sprintf("failed after %d attempts: %s", r.e.cfg.Turns.MaxAttempts, errProcessEnded)))
	}
	done, ok := r.waitInQuarantine()
	if !ok {
		return false
	}
	defer done()
	ctx, cancel := r.turnContext()
	defer cancel()
	if err := r.ensureLease(ctx); err != nil {
		return r.handleResult(ctx, err)
	}
	if ctx.Err() != nil {
		return r.handleResult(ctx, ctx.Err())
	}
	t, err := r.newTurn(ctx)
	if err == nil {
		err = r.stores.waitOutRead(ctx, "files of messages", func() error { return t.files.load(ctx, t.messages) })
	}
	if err != nil {
		if t != nil {
			t.memory.end()
		}
		return r.handleResult(ctx, err)
	}
	err = r.callHandler(ctx, t)
	t.end()
	return r.handleResult(ctx, err)
}

func (r *run) turnContext() (context.Context, context.CancelFunc) {
	if limit := r.e.cfg.Turns.Timeout; limit > 0 {
		return context.WithTimeoutCause(r.ctx, limit, ErrTimeout)
	}
	return context.WithCancel(r.ctx)
}

// callHandler runs the handler. If the handler does not return within HandlerGrace after its
// context is done, callHandler abandons it. When the lease ends, another worker may run the
// task, so callHandler cancels the context, unless the store is exclusive.
func (r *run) callHandler(ctx context.Context, t *Turn) error {
	done := make(chan error, 1)
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		defer t.memory.end()
		var err error
		if p := runtime.Guard(func() { err = r.e.cfg.Handler(ctx, t) }); p != nil {
			err = p
		}
		done <- err
	}()
	leaseEnd := time.NewTimer(r.lease.left())
	defer leaseEnd.Stop()
	for ctx.Err() == nil {
		select {
		case err := <-done:
			return err
		case <-leaseEnd.C:
			r.stopIfLeaseEnded(leaseEnd)
		case <-ctx.Done():
		}
	}
	grace := time.NewTimer(r.e.cfg.Turns.HandlerGrace)
	defer grace.Stop()
	select {
	case err := <-done:
		return err
	case <-grace.C:
	}
	r.e.abandoned.Add(1)
	r.e.log.Error("handler did not return after cancellation", "task", r.l.key.ID, "cause", context.Cause(ctx))
	go func() {
		<-returned
		r.e.abandoned.Add(-1)
	}()
	return ctx.Err()
}

// stopIfLeaseEnded cancels the run if the lease has ended, otherwise it resets the timer. If
// no other worker has claimed the task, the canceled run requeues it.
func (r *run) stopIfLeaseEnded(leaseEnd *time.Timer) {
	switch left := r.lease.left(); {
	case r.e.exclusive():
	case left > 0:
		leaseEnd.Reset(left)
	default:
		r.e.log.Warn("lease expired before it was renewed, stopping the handler", "task", r.l.key.ID)
		r.cancel(ErrLeaseLost)
	}
}

// handleResult commits the outcome that follows from the handler's result.
func (r *run) handleResult(ctx context.Context, err error) (again bool) {
	var outcome *Outcome
	if err == nil {
		return r.finishTurn(&Outcome{State: a2a.StateCompleted})
	}
	if errors.As(err, &outcome) {
		if outcome.State == a2a.StateFailed {
			r.log().Info("task failed by its handler", "cause", causeText(outcome))
		}
		return r.finishTurn(outcome)
	}
	var panicked *runtime.PanicError
	var retry *retryError
	cause := context.Cause(ctx)
	switch {
	case errors.As(err, &panicked):
		return r.panicked(panicked)
	case errors.Is(cause, ErrCanceled):
		return false
	case errors.Is(cause, ErrStopping), errors.Is(cause, ErrLeaseLost): // the store rejects the change if another worker has the task
		return r.requeue(time.Time{})
	case errors.Is(cause, ErrTimeout):
		r.logFailed(ErrTimeout)
		return r.finishTurn(r.failure(fmt.Sprintf("ran longer than the limit of %s", r.e.cfg.Turns.Timeout)))
	case errors.Is(err, errNoMemory):
		due := r.e.dispatcher.dueAgain(err)
		r.log().Warn("not enough free memory for the turn, requeueing the task", "due", due)
		return r.requeue(due)
	case r.stores.interrupted(err):
		due := r.e.now().Add(r.e.cfg.Turns.RetryDelay)
		r.log().Warn("a store failed while the handler used it, requeueing the task", "due", due, "cause", causeText(err))
		return r.requeue(due)
	case errors.As(err, &retry) && r.out.entry().Attempt < r.e.cfg.Turns.MaxAttempts:
		return r.retry(err)
	case errors.As(err, &retry):
		r.logExhausted(err)
		return r.finishTurn(r.failure(fmt.Sprintf("failed after %d attempts: %s", r.out.entry().Attempt, clientText(err))))
	}
	r.logFailed(err)
	return r.finishTurn(r.failure(clientText(err)))
}

func (r *run) panicked(p error) (again bool) {
	var panicked *runtime.PanicError
	if errors.As(p, &panicked) {
		r.log().Error("handler panicked", "panic", panicked.Value, "stack", string(panicked.Stack))
	}
	return r.finishTurn(r.failure("the agent's handler panicked; see the agent's log"))
}

func (r *run) failure(text string) *Outcome {
	return &Outcome{State: a2a.StateFailed, Message: r.agentText(text)}
}

// agentText returns a message of the agent with one text part.
func (r *run) agentText(text string) *a2a.Message {
	return r.agentMessage([]a2a.Part{a2a.TextPart{Text: text}})
}

func (r *run) agentMessage(parts []a2a.Part) *a2a.Message {
	return &a2a.Message{ID: r.e.cfg.NewID(), Role: a2a.RoleAgent, TaskID: r.l.key.ID, ContextID: r.contextID, Parts: parts}
}

// finishTurn commits the end of the turn. If the task has an unread message, finishTurn commits
// the handler's message, starts the next turn and returns true.
func (r *run) finishTurn(o *Outcome) (again bool) {
	if t := r.currentTurn; t != nil {
		r.currentTurn = nil
		r.completeArtifacts(t)
	}
	final := store.Event{State: o.State, Message: o.Message}.Copy()
	if o.alone && final.Message != nil && r.out.nothingElse() {
		final.Message.TaskID = "" // see store.Task.Answer
	}
	for {
		queue := r.out.finalEntry()
		err := r.persist(&queue, queue.SeenSeq, final)
		if err != nil && r.out.discardPending(r.e.commitCtx) {
			final = store.Event{State: a2a.StateFailed, Message: r.agentText("the output of the task could not be stored")}
			err = r.persist(&queue, queue.SeenSeq, final)
		}
		if !errors.Is(err, store.ErrUnread) {
			return false
		}
		// Pending events belong to this turn; the next turn starts after them.
		if r.out.commitWithRetry(r.e.commitCtx, new(runChange)) != nil {
			return false
		}
		if m := final.Message; m != nil && m.TaskID == "" {
			final.Message = &a2a.Message{}
			*final.Message = *m
			final.Message.TaskID = r.l.key.ID
		}
		next := r.out.nextTurn()
		err = r.persist(&next, 0, store.Event{State: a2a.StateWorking, Message: final.Message})
		if err == nil {
			return true
		}
		if !errors.Is(err, store.ErrUnread) {
			return false
		}
	}
}

// retry requeues the task with a delay.
func (r *run) retry(err error) bool {
	delay := r.e.cfg.Turns.RetryDelay
	for range r.out.entry().Attempt - 1 {
		delay = min(2*delay, r.e.cfg.Turns.RetryDelayMax)
	}
	r.log().Warn("attempt failed, retrying", "cause", causeText(err), "delay", delay)
	text := fmt.Sprintf("attempt %d of %d: %s; retrying in %s", r.out.entry().Attempt, r.e.cfg.Turns.MaxAttempts, clientText(err), delay)
	event := store.Event{State: a2a.StateSubmitted, Message: r.agentText(text), Progress: true}
	return r.requeue(r.e.now().Add(delay), event)
}

// requeue returns the task to the queue. Without an event the attempt is not counted.
func (r *run) requeue(due time.Time, events ...store.Event) bool {
	queue := r.out.entry()
	if len(events) == 0 {
		queue.Attempt--
	}
	r.requeueAs(queue, due, events...)
	return false
}

// requeueAs returns the task to the queue with the attempts of an entry. A zero due time means at once.
func (r *run) requeueAs(queue store.QueueEntry, due time.Time, events ...store.Event) {
	queue.Phase, queue.Lease.Worker, queue.DueAt = store.PhaseQueued, "", store.Time(due)
	if due.IsZero() {
		queue.DueAt = time.Time{}
	}
	if r.persist(&queue, 0, events...) == nil {
		r.e.queue.note(r.l.key.Owner)
		time.AfterFunc(max(0, due.Sub(r.e.now())), r.e.dispatcher.notifyWork)
	}
}

func (r *run) persist(queue *store.QueueEntry, seen int64, events ...store.Event) error {
	err := r.out.commitWithRetry(r.e.commitCtx, &runChange{events: events, queue: queue, seenSeq: seen})
	if err != nil && !errors.Is(err, store.ErrUnread) {
		r.e.log.Info("attempt ended without a stored result", "task", r.l.key.ID, "cause", err)
	}
	return err
}
