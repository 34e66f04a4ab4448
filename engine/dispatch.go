package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// claimBatch is the maximum number of tasks in one claim.
const claimBatch = 64

// dispatch claims due tasks while slots are free.
func (e *Engine) dispatch(ctx context.Context, beat func()) {
	// An outage is detected by failing calls, so at least some calls are made in every lease
	// period.
	poll := time.NewTicker(min(e.cfg.Poll, e.cfg.Lease/4))
	defer poll.Stop()
	var turns store.FairnessCursor
	e.notifyWork()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-e.dispatcherWake:
		case <-poll.C:
			beat()
			e.mayHaveDue.Store(true) // work without a notification is claimed now or with the next free slot
		}
		for !e.isStopping() && e.claim(ctx, &turns) {
			beat()
		}
	}
}

// claim acquires slots and claims tasks for them. It reports whether more tasks may be claimed
// right away.
func (e *Engine) claim(ctx context.Context, turns *store.FairnessCursor) (more bool) {
	if !e.addActive() {
		return false
	}
	defer e.active.Done()
	// After a pause of the process or the store, or a change of the clock, renew leases first:
	// they may have expired.
	now, set := e.leaseTime()
	if set || int64(e.elapsed())-e.renewed.Load() > int64(e.cfg.Lease)*2/3 {
		if e.renew(ctx) != nil {
			return false
		}
		now, _ = e.leaseTime()
	}
	n, skip := e.slots.acquireAny(claimBatch, e.mayHaveDue.Load())
	if n == 0 {
		return false
	}
	e.rotateWorkerID()
	ready := e.mayHaveDue.Swap(false)
	e.mayHaveSkipped.Store(false)
	started := e.elapsed()
	p := store.ClaimParams{
		Worker: *e.worker.Load(), Now: store.Time(now), Until: store.Time(now.Add(e.cfg.Lease)),
		Limit: n, Takeover: e.takeover, Horizon: 2 * max(e.cfg.RetryDelayMax, e.cfg.Lease),
		QueuedOnly: !e.exclusive() && e.outage.recent(started),
		Skip:       skip,
		Event:      store.Event{Time: store.Time(e.cfg.clock()), State: a2a.StateWorking},
	}
	if e.cfg.Memory != nil {
		p.OutlineAbove = smallTask
	}
	turns.Next(&p)
	tasks, err := e.cfg.Store.Claim(ctx, p)
	unread, lost := splitClaimError(err)
	e.outage.recordCall(started, e.elapsed(), lost)
	known := e.releaseUnreturned(ctx, unread, lost)
	turns.Claimed(&p, tasks)
	for _, t := range tasks {
		e.slots.assign(t.Key.Owner)
	}
	quarantined := e.quarantine(ctx, tasks)
	for _, t := range tasks {
		if t.Outline {
			e.active.Go(func() { e.startLarge(t, quarantined[t.Key]) })
			continue
		}
		e.start(t, quarantined[t.Key])
	}
	if !known {
		e.slots.returnUnused(n - len(tasks))
		e.mayHaveDue.Store(true)
		return false
	}
	switch {
	case len(tasks) == n:
		if ready {
			e.mayHaveDue.Store(true)
		} else { // only owners that an earlier claim skipped had due tasks
			e.mayHaveSkipped.Store(true)
		}
		return true
	case len(skip) > 0:
		e.mayHaveSkipped.Store(true)
	default:
		e.takeover = false
	}
	e.slots.returnUnused(n - len(tasks))
	if e.mayHaveDue.Load() || e.mayHaveSkipped.Load() && !e.slots.scarce() { // a slot was freed in the meantime
		e.wakeDispatcher()
	}
	return false
}

// splitClaimError splits the error of a claim. unread are the leased tasks that could not be
// read. lost is the reason why there may be other leases that are not known.
func splitClaimError(err error) (unread []store.UnreadableTask, lost error) {
	var partly *store.ClaimError
	if errors.As(err, &partly) {
		return partly.Unreadable, partly.Indeterminate
	}
	return nil, err
}

// releaseUnreturned releases leases of a claim whose tasks were not returned. It reports
// whether this worker has no other lease without a run.
func (e *Engine) releaseUnreturned(ctx context.Context, unread []store.UnreadableTask, lost error) (known bool) {
	if lost != nil && ctx.Err() == nil {
		e.log.Error("claim tasks", "error", lost)
	}
	if released := e.requeueUnread(ctx, unread); released && lost == nil {
		return true
	}
	e.orphanLease.Store(true)
	return false
}

// requeueUnread releases leased tasks that could not be read. They are due again at dueAgain, and
// their attempt is not counted.
func (e *Engine) requeueUnread(ctx context.Context, unread []store.UnreadableTask) (released bool) {
	if len(unread) == 0 {
		return true
	}
	changes := make([]store.Change, len(unread))
	for i := range unread {
		u := &unread[i]
		due, level := e.dueAgain(u.Err), slog.LevelError
		if errors.Is(u.Err, errNoMemory) {
			level = slog.LevelDebug // counted by memory.Stats
		}
		e.log.Log(ctx, level, "read claimed task", "task", u.Key.ID, "attempt", u.Queue.Attempt, "due", due, "error", u.Err)
		run := u.Queue
		run.Phase, run.DueAt, run.Lease.Worker = store.PhaseQueued, due, ""
		run.Attempt--
		changes[i] = store.Change{
			Key: u.Key, Queue: &run,
			Lease: &store.HeldLease{Key: u.Key, Worker: u.Queue.Lease.Worker, Fence: u.Queue.Lease.Fence},
		}
	}
	// A lease that another worker has claimed needs no release.
	if _, err := e.cfg.Store.Commit(context.WithoutCancel(ctx), changes...); err != nil {
		e.log.Warn("requeue unreadable tasks", "error", err)
		return false
	}
	return true
}

// rotateWorkerID changes the worker ID if one of its leases may have no run. That happens when
// the store's answer to a claim, or to the last commit of a run, is lost. A worker never claims
// tasks that it has leased itself, so such a task would stay leased. Existing runs keep their
// leases and renew them under the old ID; leases without a run expire.
func (e *Engine) rotateWorkerID() {
	if !e.takeover && e.orphanLease.CompareAndSwap(true, false) {
		e.newWorkerID()
	}
}

func (e *Engine) newWorkerID() {
	name := e.cfg.NewID()
	if e.cfg.Worker != "" {
		name = e.cfg.Worker + "/" + name
	}
	e.worker.Store(&name)
}

// start runs a claimed task in a slot that the caller has acquired.
func (e *Engine) start(t *store.Task, quarantined bool) {
	l := e.hub.acquire(t.Key)
	l.commit.Lock()
	defer l.unlock()
	fence, claimed := t.Queue.Lease.Fence, t.Seq
	// The version known here is newer, unless it belongs to a deleted task with the same id.
	if at := l.version(); at.Seq > t.Seq && at.CreatedAt.Equal(t.CreatedAt) && at.Queue.Lease.Fence >= fence {
		newer, err := e.latestTask(e.ctx, l)
		if err != nil {
			e.log.Warn("read claimed task that has changed", "task", t.Key.ID, "error", err)
			e.orphanLease.Store(true)
			e.hub.release(l)
			e.freeSlot(t.Key.Owner)
			return
		}
		t = newer
	}
	if t.Queue.Phase != store.PhaseLeased || t.Queue.Lease.Fence != fence {
		e.hub.release(l)
		e.freeSlot(t.Key.Owner)
		return
	}
	l.setTask(t)
	_ = l.tryHoldMemory(t.Bytes) // memory may have been released since the task was read
	r := e.newRun(l, t)
	r.quarantined, r.claimSeq = quarantined, claimed
	e.launch(r)
}

// freeSlot frees the slot of a run and wakes the dispatcher if tasks wait for it.
func (e *Engine) freeSlot(owner string) {
	if e.slots.release(owner) && e.mayHaveSkipped.Load() {
		e.mayHaveDue.Store(true)
	}
	if e.mayHaveDue.Load() || e.mayHaveSkipped.Load() {
		e.wakeDispatcher()
	}
}

// heartbeat renews the leases of this process three times per lease period, and sooner after a
// failure. It aborts runs that have lost their lease.
func (e *Engine) heartbeat(ctx context.Context, beat func()) {
	tick := time.NewTimer(e.cfg.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		beat()
		started, pause := e.elapsed(), e.cfg.Lease/3
		if e.renew(ctx) != nil { // logged by renew
			pause = 0
		}
		tick.Reset(max(pause-(e.elapsed()-started), e.cfg.Lease/20))
	}
}

// renew renews the leases of this process. Its timeout leaves time for another attempt before
// the leases expire.
func (e *Engine) renew(ctx context.Context) error {
	now, _ := e.leaseTime()
	started := e.elapsed()
	byKey := e.leaseHolders()
	if len(byKey) == 0 {
		e.renewed.Store(int64(started))
		return nil
	}
	held := make([]store.HeldLease, 0, len(byKey))
	for _, r := range byKey {
		held = append(held, r.lease)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.cfg.Lease/3, a2a.Errorf(a2a.CodeUnavailable, "lease renewal took too long"))
	defer cancel()
	lost, err := e.cfg.Store.Renew(ctx, store.Time(now.Add(e.cfg.Lease)), held)
	some := (*store.RenewError)(nil)
	if errors.As(err, &some) {
		e.outage.recordCall(started, e.elapsed(), nil)
		e.log.Warn("renew leases", "error", err)
		for _, key := range some.Keys {
			delete(byKey, key) // the lease is still valid until its previous deadline
		}
	} else if e.outage.recordCall(started, e.elapsed(), err); err != nil {
		e.log.Warn("renew leases", "error", err)
		return err
	}
	e.renewed.Store(int64(started))
	for _, key := range lost {
		if r := byKey[key]; r != nil {
			_ = r.abort(ErrLeaseLost)
			delete(byKey, key)
		}
	}
	for _, r := range byKey {
		r.extendLease(started + e.cfg.Lease)
	}
	return nil
}

// leaseHolders returns the runs that hold a lease, as far as known.
func (e *Engine) leaseHolders() map[store.Key]*run {
	e.mu.Lock()
	defer e.mu.Unlock()
	byKey := make(map[store.Key]*run, len(e.runs))
	for r := range e.runs {
		if !r.ended() {
			byKey[r.lease.Key] = r
		}
	}
	return byKey
}

// janitor finishes pending deletions and removes data that is older than its retention.
func (e *Engine) janitor(ctx context.Context, beat func()) {
	tick := time.NewTicker(4 * max(e.cfg.Lease, e.cfg.Poll))
	defer tick.Stop()
	for due := true; ctx.Err() == nil; {
		beat()
		e.finishDeletions(ctx, beat)
		e.purge(ctx, beat)
		if due {
			due = e.expire(ctx, beat)
		}
		if due {
			continue
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
			due = true
		case <-e.janitorWake:
		}
	}
}
