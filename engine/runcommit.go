package engine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
)

// runChange is a change that a run commits together with its pending events. The commit may be
// tried several times; once done is set it is not repeated.
type runChange struct {
	events  []store.Event
	queue   *store.QueueEntry
	steps   []store.Step
	seenSeq int64
	done    bool // guarded by l.commit
}

// indeterminateCommit is a failed commit that the store may have applied.
type indeterminateCommit struct {
	change  *runChange
	base    int64         // the task's version before the commit
	events  []store.Event // all its events, with the timestamps that identify them
	pending int           // number of pending events among them
	records recordCommit
}

// output collects what a run reports and commits it under the run's lease, until the lease is lost or
// released. It is safe for concurrent use: live.commit serializes its commits, and mu guards its
// state. The order of locks is Turn.mu, live.commit, mu.
type output struct {
	hub    *hub
	l      *live
	lease  *store.HeldLease
	stores *storeCalls
	ctx    context.Context // of the run
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	queue   store.QueueEntry // queue entry as last committed by the run
	pending []store.Event
	records pendingRecords
	// committing is the number of pending events in the commit in progress.
	committing    int
	timer         *time.Timer          // flushes pending
	indeterminate *indeterminateCommit // the last commit, if its outcome is unknown
	endErr        error                // why nothing more can be committed; nil while commits are possible
	seenSeq       int64                // the handler has received messages up to this sequence
	artifactBytes int                  // bytes of artifacts in this turn
	taskBytes     int64                // bytes of the task including pending events
}

// entry returns the queue entry as last committed.
func (o *output) entry() store.QueueEntry {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.queue
}

// startTurn prepares for a turn that starts with a task, and returns its queue entry.
func (o *output) startTurn(task *store.Task) store.QueueEntry {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seenSeq, o.taskBytes = task.ReceivedSeq, task.Bytes
	o.records = pendingRecords{} // reads of the previous turn
	return o.queue
}

// receive returns the messages of a task that the handler has not received, and counts them as received.
func (o *output) receive(task *store.Task) []a2a.Message {
	o.mu.Lock()
	defer o.mu.Unlock()
	unread := task.Unread(o.seenSeq)
	o.seenSeq = max(o.seenSeq, task.ReceivedSeq)
	return unread
}

// commit commits the pending events and c under the run's lease.
func (o *output) commit(c *runChange) error {
	o.l.commit.Lock()
	defer o.l.unlock()
	unlock := func() {}
	defer func() { unlock() }()
	for conflicts := 0; ; conflicts++ {
		if err := o.usable(); err != nil || c.done {
			if c.done {
				return nil
			}
			return err
		}
		err := o.tryCommit(c)
		if !errors.Is(err, store.ErrRecordConflict) {
			return err
		}
		if conflicts >= maxRecordConflicts {
			return a2a.Wrap(a2a.CodeUnavailable, err, "records are changed by too many others")
		}
		if conflicts == 0 {
			unlock = o.lockRecords()
		}
		if err := o.rebaseRecords(); err != nil {
			return err
		}
	}
}

// tryCommit is commit with the records as known.
func (o *output) tryCommit(c *runChange) error {
	o.mu.Lock()
	pending := len(o.pending)
	events := slices.Concat(o.pending, c.events)
	records, err := o.records.commit(c.queue != nil && c.queue.Phase == store.PhaseIdle)
	if err == nil {
		o.committing = pending
	}
	o.mu.Unlock()
	if err != nil {
		return err
	}
	steps := slices.Concat(c.steps, records.steps)
	if len(events) == 0 && c.queue == nil && len(steps) == 0 && len(records.changes) == 0 && len(records.effects) == 0 {
		return nil
	}
	base, _ := o.l.snapshot()
	_, err = o.hub.write(o.ctx, o.l, base, store.Change{
		Lease: o.lease, Seen: c.seenSeq, Events: events, Queue: c.queue, Steps: steps, Records: records.changes, Effects: records.effects,
	})
	if !refusedEffect(err) && (errors.Is(err, store.ErrLeaseLost) || errors.Is(err, store.ErrNotFound)) {
		return o.abort(ErrLeaseLost)
	}
	unread := errors.Is(err, store.ErrUnread)
	if unread {
		_, rerr := o.hub.reload(context.WithoutCancel(o.ctx), o.l)
		err = errors.Join(err, rerr)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.committing = 0
	switch {
	case err == nil:
		o.committed(c, pending, records)
	case refusedEffect(err):
		o.records.failed = err
	case !unread && !errors.Is(err, store.ErrRecordConflict):
		o.indeterminate = &indeterminateCommit{change: c, base: base.Seq, events: events, pending: pending, records: records}
	}
	return err
}

// committed records a successful commit of c, of the first flushed pending events and of
// records. The caller holds o.mu.
func (o *output) committed(c *runChange, flushed int, records recordCommit) {
	c.done = true
	o.records.committed(records)
	o.pending = slices.Delete(o.pending, 0, min(flushed, len(o.pending))) // an aborted run has dropped them
	if c.queue == nil {
		return
	}
	o.queue = *c.queue
	if c.queue.Phase != store.PhaseLeased && o.endErr == nil {
		o.endErr = ErrEnded // the lease has been released
	}
}

// usable returns the reason why the run may not commit, or nil. After a failed commit it reads
// the store to determine the outcome. The caller holds l.commit.
func (o *output) usable() error {
	o.mu.Lock()
	endErr, indeterminate := o.endErr, o.indeterminate
	o.mu.Unlock()
	if endErr != nil || indeterminate == nil {
		return endErr
	}
	ctx := context.WithoutCancel(o.ctx)
	t, err := o.hub.reload(ctx, o.l)
	if errors.Is(err, store.ErrNotFound) {
		return o.abort(ErrLeaseLost)
	}
	if err != nil {
		return err
	}
	if t.Queue.Lease.Fence != o.lease.Fence {
		return o.abort(ErrLeaseLost)
	}
	if t.Queue.Phase != store.PhaseLeased {
		// The last commit of this run ended it; only the store's answer was lost.
		indeterminate.change.done = true
		return o.abort(ErrEnded)
	}
	done, err := o.recordsApplied(ctx, &indeterminate.records)
	if err == nil && len(indeterminate.records.steps) == 0 {
		done, err = o.hub.applied(ctx, o.l.key, indeterminate.base, indeterminate.events)
	}
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.indeterminate = nil
	if done {
		o.committed(indeterminate.change, indeterminate.pending, indeterminate.records)
	}
	return nil
}

// discardPending drops the pending events and changes of records if a commit failed permanently while the lease is
// held, because they may be the cause. It reports whether it dropped them. It drops nothing if ctx is done.
func (o *output) discardPending(ctx context.Context) bool {
	o.l.commit.Lock()
	defer o.l.unlock()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.endErr != nil || o.indeterminate == nil && o.records.failed == nil || ctx.Err() != nil {
		return false
	}
	o.pending, o.records = nil, pendingRecords{}
	return true
}

// finalEntry returns the queue entry after the end of the turn.
func (o *output) finalEntry() store.QueueEntry {
	o.mu.Lock()
	defer o.mu.Unlock()
	queue := o.queue
	queue.Phase, queue.SeenSeq, queue.Lease.Worker = store.PhaseIdle, o.seenSeq, ""
	return queue
}

// nextTurn returns the queue entry for another turn under the same lease.
func (o *output) nextTurn() store.QueueEntry {
	at := o.l.version()
	o.mu.Lock()
	defer o.mu.Unlock()
	next := o.queue
	next.Turn++
	next.Attempt, next.SeenSeq, next.StartSeq = 1, o.seenSeq, at.Seq
	o.artifactBytes = 0
	return next
}

// canCommit reports whether the run may still commit, as far as known.
func (o *output) canCommit() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.endErr == nil && o.indeterminate == nil
}

// ended reports whether the run can commit nothing more.
func (o *output) ended() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.endErr != nil
}

// abort makes all further commits fail with cause and cancels the handler's context. It returns
// the cause of the first call.
func (o *output) abort(cause error) error {
	o.mu.Lock()
	if o.endErr == nil {
		o.endErr = cause
	}
	cause = o.endErr
	o.pending, o.records = nil, pendingRecords{}
	o.mu.Unlock()
	o.cancel(cause)
	return cause
}

// end rejects further commits when the run ends.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.endErr == nil {
		o.hub.leases.orphan.Store(true) // nobody renews the lease any more, and it may still be valid
	}
	o.endErr = ErrEnded
	if o.timer != nil {
		o.timer.Stop()
	}
}

// enqueue adds an event to the next commit. It stores a copy, so later changes by the handler
// have no effect. It blocks on a commit if too many events are pending.
func (o *output) enqueue(event store.Event) error {
	event = event.Copy()
	o.mu.Lock()
	full := len(o.pending) >= maxPending
	o.mu.Unlock()
	if full {
		if err := o.flush(o.ctx); err != nil {
			return err
		}
	}
	if at := o.l.version(); at.Seq >= maxEvents {
		return a2a.Errorf(a2a.CodeTooLarge, "task %s has %d events, the maximum", a2a.Quote(o.l.key.ID), at.Seq)
	}
	if err := o.addBytes(int64(event.Size())); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.endErr != nil {
		return o.endErr
	}
	o.pending = append(o.pending, event)
	o.startTimer()
	return nil
}

// startTimer ensures that pending changes are committed soon. The caller holds o.mu.
func (o *output) startTimer() {
	if o.timer == nil {
		o.timer = time.AfterFunc(o.hub.cfg.Turns.FlushInterval, o.flushSoon)
	}
}

// flush commits the pending events on behalf of the handler.
func (o *output) flush(ctx context.Context) error {
	return o.stores.hide(o.commitWithRetry(ctx, new(runChange)))
}

// commitWithRetry repeats a commit until the store answers, so that completed work is not lost
// during a temporary failure such as a full disk. It returns the error when ctx is done, and
// after a few attempts if the error is not retryable.
func (o *output) commitWithRetry(ctx context.Context, c *runChange) error {
	for pause := minCommitRetry; ; pause = min(2*pause, maxCommitRetry) {
		err := o.commit(c)
		switch {
		case err == nil, errors.Is(err, store.ErrUnread):
			return err
		case errors.Is(err, ErrLeaseLost), errors.Is(err, ErrCanceled), errors.Is(err, ErrEnded), errors.Is(err, store.ErrClosed), refusedEffect(err):
			return err
		}
		if !a2a.CodeOf(err).Retryable() && pause >= 8*minCommitRetry {
			return err
		}
		o.hub.log.Warn("commit failed, retrying", "task", o.l.key.ID, "in", pause, "error", err)
		if runtime.Sleep(ctx, pause) != nil {
			return err
		}
	}
}

// refusedEffect reports whether a commit was rejected because an effect failed. It fails again.
func refusedEffect(err error) bool {
	var refused *store.EffectError
	return errors.As(err, &refused)
}

// flushSoon commits the pending events when the timer fires. After a failure it sets the timer
// again; in the meantime a call of the handler may return the same error.
func (o *output) flushSoon() {
	o.mu.Lock()
	o.timer = nil
	o.mu.Unlock()
	err := o.commit(new(runChange))
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil && o.endErr == nil && o.timer == nil {
		o.hub.log.Warn("commit of progress failed, retrying", "task", o.l.key.ID, "error", err)
		o.timer = time.AfterFunc(minCommitRetry+o.hub.cfg.Turns.FlushInterval, o.flushSoon)
	}
}
