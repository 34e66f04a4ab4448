package engine

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
)

// claimBatch is the maximum number of tasks in one claim.
const claimBatch = 64

// dispatcher claims due tasks and starts their runs.
type dispatcher struct {
	*settings
	engine *Engine // passed to the runs
	hub    *hub
	queue  *taskQueue
	leases *leases
	runs   *runs
	slots  *slots

	wake           runtime.Signal
	mayHaveDue     atomic.Bool   // the store may have due tasks
	mayHaveSkipped atomic.Bool   // the store may have due tasks of owners that the last claim skipped
	takeover       bool          // leases of earlier processes can be claimed
	retries        memoryRetries // due times of tasks requeued for lack of memory

	quarantineSlot chan struct{} // semaphore of one: held by the quarantined task that is starting
	quarantined    atomic.Int64  // number of quarantined tasks that wait for the slot
}

func newDispatcher(e *Engine) *dispatcher {
	return &dispatcher{
		settings: e.settings, engine: e, hub: e.hub, queue: e.queue, leases: e.leases, runs: e.runs,
		slots: newSlots(e.cfg.Turns.Concurrency, max(e.cfg.Turns.Reserved, 0)), wake: runtime.NewSignal(),
		takeover: e.cfg.Store.Info().Exclusive, quarantineSlot: make(chan struct{}, 1),
	}
}

// run claims due tasks while slots are free.
func (d *dispatcher) run(ctx context.Context, beat func()) {
	// An outage is detected by failing calls, so at least some calls are made in every lease
	// period.
	poll := time.NewTicker(min(d.cfg.Turns.Poll, d.cfg.Turns.Lease/4))
	defer poll.Stop()
	var fairness store.FairnessCursor
	d.notifyWork()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-d.wake:
		case <-poll.C:
			beat()
			d.mayHaveDue.Store(true) // work without a notification is claimed now or with the next free slot
		}
		for !d.runs.isStopping() && d.claim(ctx, &fairness) {
			beat()
		}
	}
}

// claim acquires slots and claims tasks for them. It reports whether more tasks may be claimed
// right away.
func (d *dispatcher) claim(ctx context.Context, fairness *store.FairnessCursor) (more bool) {
	if !d.runs.add() {
		return false
	}
	defer d.runs.active.Done()
	// After a pause of the process or the store, or a change of the clock, renew leases first:
	// they may have expired.
	now, set := d.leases.time()
	if set || int64(d.elapsed())-d.leases.renewed.Load() > int64(d.cfg.Turns.Lease)*2/3 {
		if d.renew(ctx) != nil {
			return false
		}
		now, _ = d.leases.time()
	}
	n, skip := d.slots.acquireAny(claimBatch, d.mayHaveDue.Load())
	if n == 0 {
		return false
	}
	if !d.takeover {
		d.leases.rotateWorker()
	}
	mayHaveDue := d.mayHaveDue.Swap(false)
	d.mayHaveSkipped.Store(false)
	started := d.elapsed()
	p := store.ClaimParams{
		Worker: *d.leases.worker.Load(), Now: store.Time(now), Until: store.Time(now.Add(d.cfg.Turns.Lease)),
		Limit: n, Takeover: d.takeover, Horizon: 2 * max(d.cfg.Turns.RetryDelayMax, d.cfg.Turns.Lease),
		QueuedOnly: !d.exclusive() && d.leases.outage.recent(started),
		Skip:       skip,
		Event:      store.Event{Time: store.Time(d.cfg.clock()), State: a2a.StateWorking},
	}
	if d.cfg.Memory != nil {
		p.OutlineAbove = smallTask
	}
	fairness.Next(&p)
	tasks, err := d.cfg.Store.Claim(ctx, p)
	unread, lost := splitClaimError(err)
	d.leases.outage.recordCall(started, d.elapsed(), lost)
	known := d.releaseUnreturned(ctx, unread, lost)
	fairness.Claimed(&p, tasks)
	for _, t := range tasks {
		d.slots.assign(t.Key.Owner)
	}
	quarantined := d.quarantine(ctx, tasks)
	for _, t := range tasks {
		if t.Outline {
			d.runs.active.Go(func() { d.startLarge(t, quarantined[t.Key]) })
			continue
		}
		d.start(t, quarantined[t.Key])
	}
	if !known {
		d.slots.returnUnused(n - len(tasks))
		d.mayHaveDue.Store(true)
		return false
	}
	switch {
	case len(tasks) == n:
		if mayHaveDue {
			d.mayHaveDue.Store(true)
		} else { // only owners that an earlier claim skipped had due tasks
			d.mayHaveSkipped.Store(true)
		}
		return true
	case len(skip) > 0:
		d.mayHaveSkipped.Store(true)
	default:
		d.takeover = false
	}
	d.slots.returnUnused(n - len(tasks))
	if d.mayHaveDue.Load() || d.mayHaveSkipped.Load() && !d.slots.scarce() { // a slot was freed in the meantime
		d.wakeUp()
	}
	return false
}

// splitClaimError splits the error of a claim. unread are the leased tasks that could not be
// read. lost is not nil if the claim may have leased other tasks without returning them.
func splitClaimError(err error) (unread []store.UnreadableTask, lost error) {
	var partly *store.ClaimError
	if errors.As(err, &partly) {
		return partly.Unreadable, partly.Indeterminate
	}
	return nil, err
}

// releaseUnreturned releases the leases of claimed tasks that were not returned. It returns
// false if a task that has no run may still be leased to this worker.
func (d *dispatcher) releaseUnreturned(ctx context.Context, unread []store.UnreadableTask, lost error) (known bool) {
	if lost != nil && ctx.Err() == nil {
		d.log.Error("claiming tasks failed", "error", lost)
	}
	if released := d.requeueUnread(ctx, unread); released && lost == nil {
		return true
	}
	d.leases.orphan.Store(true)
	return false
}

// requeueUnread releases leased tasks that could not be read. dueAgain determines when they
// are due again. Their attempt is not counted.
func (d *dispatcher) requeueUnread(ctx context.Context, unread []store.UnreadableTask) (released bool) {
	if len(unread) == 0 {
		return true
	}
	changes := make([]store.Change, len(unread))
	for i := range unread {
		u := &unread[i]
		due, level := d.dueAgain(u.Err), slog.LevelError
		if errors.Is(u.Err, errNoMemory) {
			level = slog.LevelDebug // counted by memory.Stats
		}
		d.log.Log(ctx, level, "read claimed task", "task", u.Key.ID, "attempt", u.Queue.Attempt, "due", due, "error", u.Err)
		queue := u.Queue
		queue.Phase, queue.DueAt, queue.Lease.Worker = store.PhaseQueued, due, ""
		queue.Attempt--
		changes[i] = store.Change{
			Key: u.Key, Queue: &queue,
			Lease: &store.HeldLease{Key: u.Key, Worker: u.Queue.Lease.Worker, Fence: u.Queue.Lease.Fence},
		}
	}
	// A lease that another worker has claimed needs no release.
	if _, err := d.cfg.Store.Commit(context.WithoutCancel(ctx), changes...); err != nil {
		d.log.Warn("requeueing unreadable tasks failed", "error", err)
		return false
	}
	return true
}

// start runs a claimed task in a slot that the caller has acquired.
func (d *dispatcher) start(t *store.Task, quarantined bool) {
	l := d.hub.acquire(t.Key)
	l.commit.Lock()
	defer l.unlock()
	fence, claimed := t.Queue.Lease.Fence, t.Seq
	// Use the version known here if it is newer, unless it belongs to a deleted task with the
	// same id.
	if at := l.version(); at.Seq > t.Seq && at.CreatedAt.Equal(t.CreatedAt) && at.Queue.Lease.Fence >= fence {
		newer, err := d.hub.latestTask(d.engine.ctx, l)
		if err != nil {
			d.log.Warn("reading a claimed task failed", "task", t.Key.ID, "error", err)
			d.leases.orphan.Store(true)
			d.hub.release(l)
			d.freeSlot(t.Key.Owner)
			return
		}
		t = newer
	}
	if t.Queue.Phase != store.PhaseLeased || t.Queue.Lease.Fence != fence {
		d.hub.release(l)
		d.freeSlot(t.Key.Owner)
		return
	}
	l.setTask(t)
	_ = l.tryHoldMemory(t.Bytes) // memory may have been released since the task was read
	r := d.newRun(l, t)
	r.quarantined, r.claimSeq = quarantined, claimed
	d.runs.launch(r)
}

// freeSlot frees the slot of a run and wakes the dispatcher if tasks wait for it.
func (d *dispatcher) freeSlot(owner string) {
	if d.slots.release(owner) && d.mayHaveSkipped.Load() {
		d.mayHaveDue.Store(true)
	}
	if d.mayHaveDue.Load() || d.mayHaveSkipped.Load() {
		d.wakeUp()
	}
}

// heartbeat renews the leases of this process three times per lease period, and sooner after a
// failure. It aborts runs that have lost their lease.
func (d *dispatcher) heartbeat(ctx context.Context, beat func()) {
	tick := time.NewTimer(d.cfg.Turns.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		beat()
		started, pause := d.elapsed(), d.cfg.Turns.Lease/3
		if d.renew(ctx) != nil { // logged by renew
			pause = 0
		}
		tick.Reset(max(pause-(d.elapsed()-started), d.cfg.Turns.Lease/20))
	}
}

// renew renews the leases of this process. Its timeout leaves time for another attempt before
// the leases expire.
func (d *dispatcher) renew(ctx context.Context) error {
	now, _ := d.leases.time()
	started := d.elapsed()
	byKey := d.runs.holders()
	if len(byKey) == 0 {
		d.leases.renewed.Store(int64(started))
		return nil
	}
	held := make([]store.HeldLease, 0, len(byKey))
	for _, r := range byKey {
		held = append(held, r.lease.HeldLease)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, d.cfg.Turns.Lease/3, a2a.Errorf(a2a.CodeUnavailable, "lease renewal took too long"))
	defer cancel()
	lost, err := d.cfg.Store.Renew(ctx, store.Time(now.Add(d.cfg.Turns.Lease)), held)
	some := (*store.RenewError)(nil)
	if errors.As(err, &some) {
		d.leases.outage.recordCall(started, d.elapsed(), nil)
		d.log.Warn("renewing leases failed", "error", err)
		for _, key := range some.Keys {
			delete(byKey, key) // the lease is still valid until its previous deadline
		}
	} else if d.leases.outage.recordCall(started, d.elapsed(), err); err != nil {
		d.log.Warn("renewing leases failed", "error", err)
		return err
	}
	d.leases.renewed.Store(int64(started))
	for _, key := range lost {
		if r := byKey[key]; r != nil {
			_ = r.out.abort(ErrLeaseLost)
			delete(byKey, key)
		}
	}
	for _, r := range byKey {
		r.lease.extend(started + d.cfg.Turns.Lease)
	}
	return nil
}

// notifyWork makes the dispatcher check for due work now.
func (d *dispatcher) notifyWork() {
	d.mayHaveDue.Store(true)
	d.wakeUp()
}

func (d *dispatcher) wakeUp() { d.wake.Send() }
