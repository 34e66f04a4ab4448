package engine

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// claimBatch is the most tasks claimed in one go.
const claimBatch = 64

// dispatch claims due tasks while there is room to run them.
func (e *Engine) dispatch(ctx context.Context, beat func()) {
	// An outage of the store is noticed by calls that fail: some are made in every lease.
	poll := time.NewTicker(min(e.cfg.Poll, e.cfg.Lease/4))
	defer poll.Stop()
	var turns store.Turns
	e.kick()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		case <-poll.C:
			beat()
			e.ready.Store(true) // what no notification announced is claimed now, or with the next free slot
		}
		for !e.isStopping() && e.claim(ctx, &turns) {
			beat()
		}
	}
}

// claim takes slots and fills them. It reports whether there may be more to
// claim right away.
func (e *Engine) claim(ctx context.Context, turns *store.Turns) (more bool) {
	if !e.hold() {
		return false
	}
	defer e.active.Done()
	// After a pause of the process or the store, and when the clock was set, its runs come
	// first: their leases may have ended.
	now, set := e.leaseTime()
	if set || int64(e.elapsed())-e.renewed.Load() > int64(e.cfg.Lease)*2/3 {
		if e.renew(ctx) != nil {
			return false
		}
		now, _ = e.leaseTime()
	}
	n, skip := e.slots.takeAny(claimBatch, e.ready.Load())
	if n == 0 {
		return false
	}
	e.renameStrayed()
	ready := e.ready.Swap(false)
	e.limited.Store(false)
	begun := e.elapsed()
	p := store.ClaimParams{
		Worker: *e.worker.Load(), Now: store.Time(now), Until: store.Time(now.Add(e.cfg.Lease)),
		Limit: n, Takeover: e.takeover, Horizon: 2 * max(e.cfg.RetryDelayMax, e.cfg.Lease),
		QueuedOnly: !e.exclusive() && e.outage.recent(begun),
		Skip:       skip,
		Event:      store.Event{Time: store.Time(e.cfg.clock()), State: a2a.StateWorking},
	}
	if e.cfg.Memory != nil {
		p.Whole = smallTask
	}
	turns.Next(&p)
	tasks, err := e.cfg.Store.Claim(ctx, p)
	unread, lost := unreturned(err)
	e.outage.called(begun, e.elapsed(), lost)
	known := e.disown(ctx, unread, lost)
	turns.Claimed(&p, tasks)
	for _, t := range tasks {
		e.slots.assign(t.Key.Owner)
	}
	suspects := e.park(ctx, tasks)
	for _, t := range tasks {
		if t.Outline {
			e.active.Go(func() { e.startLarge(t, suspects[t.Key]) })
			continue
		}
		e.start(t, suspects[t.Key])
	}
	if !known {
		e.slots.giveBack(n - len(tasks))
		e.ready.Store(true)
		return false
	}
	switch {
	case len(tasks) == n:
		if ready {
			e.ready.Store(true)
		} else { // only owners that were left out before had something due
			e.limited.Store(true)
		}
		return true
	case len(skip) > 0:
		e.limited.Store(true)
	default:
		e.takeover = false
	}
	e.slots.giveBack(n - len(tasks))
	if e.ready.Load() || e.limited.Load() && !e.slots.scarce() { // a slot was freed meanwhile
		e.wakeDispatcher()
	}
	return false
}

// unreturned splits the error of a claim: tasks that it leased and could not read, and why
// other leases may exist that are not known.
func unreturned(err error) (unread []store.UnreadTask, lost error) {
	var partly *store.ClaimError
	if errors.As(err, &partly) {
		return partly.Unread, partly.Lost
	}
	return nil, err
}

// disown gives up leases that a claim took for tasks that it did not return. It reports
// whether this worker has no others without a run.
func (e *Engine) disown(ctx context.Context, unread []store.UnreadTask, lost error) (known bool) {
	if lost != nil && ctx.Err() == nil {
		e.log.Error("claim", "error", lost)
	}
	if released := e.requeueUnread(ctx, unread); released && lost == nil {
		return true
	}
	e.strayed.Store(true)
	return false
}

// requeueUnread releases leased tasks that could not be read. They are due again after
// a lease period, so that a task that can never be read is not claimed over and over, and
// their attempt is not charged.
func (e *Engine) requeueUnread(ctx context.Context, unread []store.UnreadTask) (released bool) {
	if len(unread) == 0 {
		return true
	}
	due := store.Time(e.now().Add(e.cfg.Lease))
	changes := make([]store.Change, len(unread))
	for i := range unread {
		u := &unread[i]
		e.log.Error("read claimed task", "task", u.Key.ID, "attempt", u.Run.Attempt, "due", due, "error", u.Err)
		run := u.Run
		run.Phase, run.DueAt, run.Lease.Worker = store.PhaseQueued, due, ""
		run.Attempt--
		changes[i] = store.Change{
			Key: u.Key, Run: &run,
			Lease: &store.HeldLease{Key: u.Key, Worker: u.Run.Lease.Worker, Fence: u.Run.Lease.Fence},
		}
	}
	// A lease that another has taken away is no longer this worker's.
	if _, err := e.cfg.Store.Commit(context.WithoutCancel(ctx), changes...); err != nil {
		e.log.Warn("requeue tasks that cannot be read", "error", err)
		return false
	}
	return true
}

// A lease may be taken while the answer of the store is lost, and so may the end
// of a run that could not be committed: then a lease of this process has no run,
// and a worker never claims what is leased to itself. Therefore the process goes
// on under another name. Its runs keep their leases, which they renew under the
// old one; those without a run end in time, as if their process had died.
func (e *Engine) renameStrayed() {
	if !e.takeover && e.strayed.CompareAndSwap(true, false) {
		e.rename()
	}
}

func (e *Engine) rename() {
	name := e.cfg.NewID()
	if e.cfg.Worker != "" {
		name = e.cfg.Worker + "/" + name
	}
	e.worker.Store(&name)
}

// start runs a task that has just been claimed, in a slot that is taken.
func (e *Engine) start(t *store.Task, suspect bool) {
	l := e.hub.acquire(t.Key)
	l.commit.Lock()
	defer l.unlock()
	fence, claimed := t.Run.Lease.Fence, t.Seq
	// What is known here is newer unless it is of a deleted task with the same id.
	if at := l.stands(); at.Seq > t.Seq && at.CreatedAt.Equal(t.CreatedAt) && at.Run.Lease.Fence >= fence {
		newer, err := e.asItStands(e.ctx, l)
		if err != nil {
			e.log.Warn("read a claimed task that has changed since", "task", t.Key.ID, "error", err)
			e.strayed.Store(true)
			e.hub.release(l)
			e.freeSlot(t.Key.Owner)
			return
		}
		t = newer
	}
	if t.Run.Phase != store.PhaseLeased || t.Run.Lease.Fence != fence {
		e.hub.release(l)
		e.freeSlot(t.Key.Owner)
		return
	}
	l.set(t)
	_ = l.tryMemory(t.Bytes) // what is held may have been released since it was read
	r := e.newRun(l, t)
	r.suspect, r.claimed = suspect, claimed
	e.launch(r)
}

// freeSlot frees the slot of a run of an owner, and has the dispatcher fill it.
func (e *Engine) freeSlot(owner string) {
	if e.slots.release(owner) && e.limited.Load() {
		e.ready.Store(true)
	}
	if e.ready.Load() || e.limited.Load() {
		e.wakeDispatcher()
	}
}

// heartbeat renews the leases of this process three times per lease, sooner after a
// failure, and stops the runs that have lost theirs.
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
		begun, pause := e.elapsed(), e.cfg.Lease/3
		if e.renew(ctx) != nil { // has been logged
			pause = 0
		}
		tick.Reset(max(pause-(e.elapsed()-begun), e.cfg.Lease/20))
	}
}

// renew renews the leases of this process. It gives up soon enough for another try
// before they end.
func (e *Engine) renew(ctx context.Context) error {
	now, _ := e.leaseTime()
	begun := e.elapsed()
	byKey := e.holders()
	if len(byKey) == 0 {
		e.renewed.Store(int64(begun))
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
		e.outage.called(begun, e.elapsed(), nil)
		e.log.Warn("renew leases", "error", err)
		for _, key := range some.Keys {
			delete(byKey, key) // held for as long as before
		}
	} else if e.outage.called(begun, e.elapsed(), err); err != nil {
		e.log.Warn("renew leases", "error", err)
		return err
	}
	e.renewed.Store(int64(begun))
	for _, key := range lost {
		if r := byKey[key]; r != nil {
			_ = r.die(ErrLeaseLost)
			delete(byKey, key)
		}
	}
	for _, r := range byKey {
		r.holdUntil(begun + e.cfg.Lease)
	}
	return nil
}

// holders returns the runs that hold a lease, as far as is known.
func (e *Engine) holders() map[store.Key]*run {
	e.mu.Lock()
	defer e.mu.Unlock()
	byKey := make(map[store.Key]*run, len(e.runs))
	for r := range e.runs {
		if !r.over() {
			byKey[r.lease.Key] = r
		}
	}
	return byKey
}

// janitor ends deletions that were started and removes what is older than the retention.
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
		case <-e.untidy:
		}
	}
}
