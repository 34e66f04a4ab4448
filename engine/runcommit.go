package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// runChange is what a run wants committed besides what is pending. It may be
// tried several times; once it is done it is not made again.
type runChange struct {
	events []store.Event
	queue  *store.Run
	steps  []store.Step
	seen   int64
	done   bool // guarded by l.commit
}

// lostCommit is a commit that failed: it may have been made all the same.
type lostCommit struct {
	change  *runChange
	base    int64         // the task's version before it
	events  []store.Event // all of it, with the stamps by which they are recognised
	pending int           // how many of the events were pending
}

// commit writes what is pending and the given change under the run's lease.
func (r *run) commit(c *runChange) error {
	r.l.commit.Lock()
	defer r.l.unlock()
	if err := r.usable(); err != nil || c.done {
		if c.done {
			return nil
		}
		return err
	}
	r.mu.Lock()
	pending := len(r.pending)
	events := slices.Concat(r.pending, c.events)
	r.committing = pending
	r.mu.Unlock()
	if len(events) == 0 && c.queue == nil && len(c.steps) == 0 {
		return nil
	}
	base, _ := r.l.snapshot()
	_, err := r.e.write(r.ctx, r.l, base, store.Change{Lease: &r.lease, Seen: c.seen, Events: events, Run: c.queue, Steps: c.steps})
	if errors.Is(err, store.ErrLeaseLost) || errors.Is(err, store.ErrNotFound) {
		return r.die(ErrLeaseLost)
	}
	unread := errors.Is(err, store.ErrUnread)
	if unread {
		_, rerr := r.e.reload(context.WithoutCancel(r.ctx), r.l)
		err = errors.Join(err, rerr)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.committing = 0
	switch {
	case err == nil:
		r.committed(c, pending)
	case !unread:
		r.lost = &lostCommit{change: c, base: base.Seq, events: events, pending: pending}
	}
	return err
}

// committed notes that a change has been made, with the first of what is pending.
// The caller holds r.mu.
func (r *run) committed(c *runChange, flushed int) {
	c.done = true
	r.pending = slices.Delete(r.pending, 0, min(flushed, len(r.pending))) // a run that died has dropped them
	if c.queue == nil {
		return
	}
	r.queue = *c.queue
	if c.queue.Phase != store.PhaseLeased && r.dead == nil {
		r.dead = ErrEnded // the lease is given back
	}
}

// usable reports why the run may not commit. After a failed commit it finds out
// what the store has. The caller holds l.commit.
func (r *run) usable() error {
	r.mu.Lock()
	dead, lost := r.dead, r.lost
	r.mu.Unlock()
	if dead != nil || lost == nil {
		return dead
	}
	ctx := context.WithoutCancel(r.ctx)
	t, err := r.e.reload(ctx, r.l)
	if errors.Is(err, store.ErrNotFound) {
		return r.die(ErrLeaseLost)
	}
	if err != nil {
		return err
	}
	if t.Run.Lease.Fence != r.lease.Fence {
		return r.die(ErrLeaseLost)
	}
	if t.Run.Phase != store.PhaseLeased {
		// Our own last commit ended the run; only its answer was lost.
		lost.change.done = true
		return r.die(ErrEnded)
	}
	done, err := r.e.applied(ctx, r.l.key, lost.base, lost.events)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = nil
	if done {
		r.committed(lost.change, lost.pending)
	}
	return nil
}

// alive reports whether the run may still commit, as far as it knows.
func (r *run) alive() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead == nil && r.lost == nil
}

// over reports whether nothing can be committed any more.
func (r *run) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.dead != nil
}

// die makes the run refuse all further commits and stops its handler.
func (r *run) die(cause error) error {
	r.mu.Lock()
	if r.dead == nil {
		r.dead = cause
	}
	cause = r.dead
	r.pending = nil
	r.mu.Unlock()
	r.cancel(cause)
	return cause
}

// enqueue adds an event to be committed soon, with others. It keeps a copy: what
// the handler changes afterwards is not told. It blocks on a commit when the store
// has not kept up.
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
	if at := r.l.stands(); at.Seq >= maxEvents {
		return a2a.Errorf(a2a.CodeTooLarge, "task %s has %d events, the most that a task may have", a2a.Quote(r.l.key.ID), at.Seq)
	}
	if err := r.grow(int64(event.Size())); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead != nil {
		return r.dead
	}
	r.pending = append(r.pending, event)
	if r.timer == nil {
		r.timer = time.AfterFunc(r.e.cfg.FlushInterval, r.flushSoon)
	}
	return nil
}

// flush commits what is pending, for the handler.
func (r *run) flush() error { return unstored(r.insist(r.ctx, new(runChange))) }

// storeError is what a handler is told when the store failed: its text may reach
// the client, so it does not say more.
type storeError struct{ err error }

func (s *storeError) Error() string { return "the agent's store failed" }
func (s *storeError) Unwrap() error { return s.err }

// unstored hides what the store says from those who print err.
func unstored(err error) error {
	for _, told := range []error{nil, ErrLeaseLost, ErrCanceled, ErrEnded, ErrStopping} {
		if errors.Is(err, told) {
			return err
		}
	}
	return &storeError{err}
}

// insist repeats a commit until the store answers: what has been done must not
// be forgotten because a disk is full for a while. It gives up when ctx is done,
// and soon when the error is not one that passes.
func (r *run) insist(ctx context.Context, c *runChange) error {
	for pause := settlePause; ; pause = min(2*pause, settleMax) {
		err := r.commit(c)
		switch {
		case err == nil, errors.Is(err, store.ErrUnread):
			return err
		case errors.Is(err, ErrLeaseLost), errors.Is(err, ErrCanceled), errors.Is(err, ErrEnded), errors.Is(err, store.ErrClosed):
			return err
		}
		if !a2a.CodeOf(err).Retryable() && pause >= 8*settlePause {
			return err
		}
		r.e.log.Error("commit, trying again", "task", r.l.key.ID, "in", pause, "error", err)
		if r.e.sleep(ctx, pause); ctx.Err() != nil {
			return err
		}
	}
}

// flushSoon is the timer's commit. When it fails it is tried again later; by
// then the handler may have met the error itself.
func (r *run) flushSoon() {
	r.mu.Lock()
	r.timer = nil
	r.mu.Unlock()
	err := r.commit(new(runChange))
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil && r.dead == nil && r.timer == nil {
		r.e.log.Warn("commit progress, trying again", "task", r.l.key.ID, "error", err)
		r.timer = time.AfterFunc(settlePause+r.e.cfg.FlushInterval, r.flushSoon)
	}
}
