package engine

import (
	"context"
	"errors"
	"slices"
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

// commit commits the pending events and c under the run's lease.
func (r *run) commit(c *runChange) error {
	r.l.commit.Lock()
	defer r.l.unlock()
	unlock := func() {}
	defer func() { unlock() }()
	for conflicts := 0; ; conflicts++ {
		if err := r.usable(); err != nil || c.done {
			if c.done {
				return nil
			}
			return err
		}
		err := r.tryCommit(c)
		if !errors.Is(err, store.ErrRecordConflict) {
			return err
		}
		if conflicts >= maxRecordConflicts {
			return a2a.Wrap(a2a.CodeUnavailable, err, "records are changed by too many others")
		}
		if conflicts == 0 {
			unlock = r.lockRecords()
		}
		if err := r.rebaseRecords(); err != nil {
			return err
		}
	}
}

// tryCommit is commit with the records as known.
func (r *run) tryCommit(c *runChange) error {
	r.mu.Lock()
	pending := len(r.pending)
	events := slices.Concat(r.pending, c.events)
	records, err := r.records.commit(c.queue != nil && c.queue.Phase == store.PhaseIdle)
	if err == nil {
		r.committing = pending
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	steps := slices.Concat(c.steps, records.steps)
	if len(events) == 0 && c.queue == nil && len(steps) == 0 && len(records.changes) == 0 && len(records.effects) == 0 {
		return nil
	}
	base, _ := r.l.snapshot()
	_, err = r.e.hub.write(r.ctx, r.l, base, store.Change{
		Lease: &r.lease, Seen: c.seenSeq, Events: events, Queue: c.queue, Steps: steps, Records: records.changes, Effects: records.effects,
	})
	if !refusedEffect(err) && (errors.Is(err, store.ErrLeaseLost) || errors.Is(err, store.ErrNotFound)) {
		return r.abort(ErrLeaseLost)
	}
	unread := errors.Is(err, store.ErrUnread)
	if unread {
		_, rerr := r.e.hub.reload(context.WithoutCancel(r.ctx), r.l)
		err = errors.Join(err, rerr)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.committing = 0
	switch {
	case err == nil:
		r.committed(c, pending, records)
	case refusedEffect(err):
		r.records.failed = err
	case !unread && !errors.Is(err, store.ErrRecordConflict):
		r.indeterminate = &indeterminateCommit{change: c, base: base.Seq, events: events, pending: pending, records: records}
	}
	return err
}

// committed records a successful commit of c, of the first flushed pending events and of
// records. The caller holds r.mu.
func (r *run) committed(c *runChange, flushed int, records recordCommit) {
	c.done = true
	r.records.committed(records)
	r.pending = slices.Delete(r.pending, 0, min(flushed, len(r.pending))) // an aborted run has dropped them
	if c.queue == nil {
		return
	}
	r.queue = *c.queue
	if c.queue.Phase != store.PhaseLeased && r.endErr == nil {
		r.endErr = ErrEnded // the lease has been released
	}
}

// usable returns the reason why the run may not commit, or nil. After a failed commit it reads
// the store to determine the outcome. The caller holds l.commit.
func (r *run) usable() error {
	r.mu.Lock()
	endErr, indeterminate := r.endErr, r.indeterminate
	r.mu.Unlock()
	if endErr != nil || indeterminate == nil {
		return endErr
	}
	ctx := context.WithoutCancel(r.ctx)
	t, err := r.e.hub.reload(ctx, r.l)
	if errors.Is(err, store.ErrNotFound) {
		return r.abort(ErrLeaseLost)
	}
	if err != nil {
		return err
	}
	if t.Queue.Lease.Fence != r.lease.Fence {
		return r.abort(ErrLeaseLost)
	}
	if t.Queue.Phase != store.PhaseLeased {
		// The last commit of this run ended it; only the store's answer was lost.
		indeterminate.change.done = true
		return r.abort(ErrEnded)
	}
	done, err := r.recordsApplied(ctx, &indeterminate.records)
	if err == nil && len(indeterminate.records.steps) == 0 {
		done, err = r.e.hub.applied(ctx, r.l.key, indeterminate.base, indeterminate.events)
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.indeterminate = nil
	if done {
		r.committed(indeterminate.change, indeterminate.pending, indeterminate.records)
	}
	return nil
}

// canCommit reports whether the run may still commit, as far as known.
func (r *run) canCommit() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.endErr == nil && r.indeterminate == nil
}

// ended reports whether the run can commit nothing more.
func (r *run) ended() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.endErr != nil
}

// abort makes all further commits fail with cause and cancels the handler's context. It returns
// the cause of the first call.
func (r *run) abort(cause error) error {
	r.mu.Lock()
	if r.endErr == nil {
		r.endErr = cause
	}
	cause = r.endErr
	r.pending, r.records = nil, pendingRecords{}
	r.mu.Unlock()
	r.cancel(cause)
	return cause
}

// enqueue adds an event to the next commit. It stores a copy, so later changes by the handler
// have no effect. It blocks on a commit if too many events are pending.
func (r *run) enqueue(event store.Event) error {
	event = event.Copy()
	r.mu.Lock()
	full := len(r.pending) >= maxPending
	r.mu.Unlock()
	if full {
		if err := r.flush(); err != nil {
			return err
		}
	}
	if at := r.l.version(); at.Seq >= maxEvents {
		return a2a.Errorf(a2a.CodeTooLarge, "task %s has %d events, the maximum", a2a.Quote(r.l.key.ID), at.Seq)
	}
	if err := r.addBytes(int64(event.Size())); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.endErr != nil {
		return r.endErr
	}
	r.pending = append(r.pending, event)
	r.startTimer()
	return nil
}

// startTimer ensures that pending changes are committed soon. The caller holds r.mu.
func (r *run) startTimer() {
	if r.timer == nil {
		r.timer = time.AfterFunc(r.e.cfg.Turns.FlushInterval, r.flushSoon)
	}
}

// flush commits the pending events on behalf of the handler.
func (r *run) flush() error { return r.hide(r.commitWithRetry(r.ctx, new(runChange))) }

// commitWithRetry repeats a commit until the store answers, so that completed work is not lost
// during a temporary failure such as a full disk. It returns the error when ctx is done, and
// after a few attempts if the error is not retryable.
func (r *run) commitWithRetry(ctx context.Context, c *runChange) error {
	for pause := minCommitRetry; ; pause = min(2*pause, maxCommitRetry) {
		err := r.commit(c)
		switch {
		case err == nil, errors.Is(err, store.ErrUnread):
			return err
		case errors.Is(err, ErrLeaseLost), errors.Is(err, ErrCanceled), errors.Is(err, ErrEnded), errors.Is(err, store.ErrClosed), refusedEffect(err):
			return err
		}
		if !a2a.CodeOf(err).Retryable() && pause >= 8*minCommitRetry {
			return err
		}
		r.e.log.Warn("commit failed, retrying", "task", r.l.key.ID, "in", pause, "error", err)
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
func (r *run) flushSoon() {
	r.mu.Lock()
	r.timer = nil
	r.mu.Unlock()
	err := r.commit(new(runChange))
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && r.endErr == nil && r.timer == nil {
		r.e.log.Warn("commit of progress failed, retrying", "task", r.l.key.ID, "error", err)
		r.timer = time.AfterFunc(minCommitRetry+r.e.cfg.Turns.FlushInterval, r.flushSoon)
	}
}
