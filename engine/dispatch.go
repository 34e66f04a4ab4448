package engine

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// claimBatch is the most tasks claimed in one go.
const claimBatch = 64

// dispatch claims due tasks while there is room to run them.
func (e *Engine) dispatch(ctx context.Context, beat func()) {
	poll := time.NewTicker(e.cfg.Poll)
	defer poll.Stop()
	var owner string
	e.kick()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-e.wake:
		case <-poll.C:
			beat()
		}
		for !e.isStopping() && e.claim(ctx, &owner) {
			beat()
		}
	}
}

// claim takes slots and fills them. It reports whether there may be more to
// claim right away.
func (e *Engine) claim(ctx context.Context, owner *string) (more bool) {
	n := e.takeSlots(claimBatch)
	if n == 0 {
		return false
	}
	e.ready.Store(false)
	now := e.now()
	tasks, err := e.cfg.Store.Claim(ctx, store.ClaimParams{
		Worker: e.cfg.Worker, Now: store.Time(now), Until: store.Time(now.Add(e.cfg.Lease)),
		Limit: n, Takeover: e.cfg.Store.Info().Exclusive, Horizon: 2 * e.cfg.RetryDelayMax,
		AfterOwner: *owner,
		Event:      store.Event{Time: store.Time(e.cfg.clock()), State: a2a.StateWorking},
	})
	if err != nil {
		e.freeSlots(n)
		e.ready.Store(true)
		if ctx.Err() == nil {
			e.log.Error("claim", "error", err)
		}
		return false
	}
	suspects := e.park(ctx, tasks)
	for _, t := range tasks {
		*owner = t.Key.Owner
		e.start(t, suspects[t.Key])
	}
	if len(tasks) == n {
		e.ready.Store(true)
		return true
	}
	e.freeSlots(n - len(tasks))
	return false
}

// start runs a task that has just been claimed, in a slot that is taken.
func (e *Engine) start(t *store.Task, suspect bool) {
	e.dequeued(1)
	l := e.hub.acquire(t.Key)
	l.commit.Lock()
	defer l.commit.Unlock()
	if known, _ := l.snapshot(); known != nil && known.Seq > t.Seq {
		t = known
	}
	if t.Run.Phase != store.PhaseLeased || t.Run.Lease.Worker != e.cfg.Worker {
		e.hub.release(l)
		e.freeSlots(1)
		return
	}
	l.set(t)
	r := e.newRun(l, t)
	r.suspect = suspect
	e.launch(r)
}

// dequeued counts tasks that wait no longer.
func (e *Engine) dequeued(n int64) {
	for {
		old := e.queued.Load()
		if e.queued.CompareAndSwap(old, max(0, old-n)) {
			return
		}
	}
}

func (e *Engine) takeSlots(most int) (n int) {
	for n < most {
		select {
		case <-e.slots:
			n++
		default:
			return n
		}
	}
	return n
}

func (e *Engine) freeSlots(n int) {
	for range n {
		e.slots <- struct{}{}
	}
	if n > 0 && e.ready.Load() {
		e.kick()
	}
}

// heartbeat renews the leases of this process, and stops the runs that have
// lost theirs.
func (e *Engine) heartbeat(ctx context.Context, beat func()) {
	tick := time.NewTicker(e.cfg.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		beat()
		e.renew(ctx)
	}
}

func (e *Engine) renew(ctx context.Context) {
	e.mu.Lock()
	held := make([]store.HeldLease, 0, len(e.runs))
	byKey := make(map[store.Key]*run, len(e.runs))
	for r := range e.runs {
		held = append(held, r.lease)
		byKey[r.lease.Key] = r
	}
	e.mu.Unlock()
	if len(held) == 0 {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.cfg.Lease, a2a.Errorf(a2a.CodeUnavailable, "lease renewal took too long"))
	defer cancel()
	lost, err := e.cfg.Store.Renew(ctx, store.Time(e.now().Add(e.cfg.Lease)), held)
	if err != nil {
		e.log.Warn("renew leases", "error", err)
		return
	}
	for _, key := range lost {
		if r := byKey[key]; r != nil {
			_ = r.die(ErrLeaseLost)
		}
	}
}

// janitor removes what has outlived its use.
func (e *Engine) janitor(ctx context.Context, beat func()) {
	tick := time.NewTicker(min(max(e.cfg.IdempotencyTTL/10, e.cfg.Poll), 10*e.cfg.Lease))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		beat()
		if backlog, err := e.cfg.Store.Backlog(ctx); err == nil {
			e.queued.Store(int64(backlog.Queued))
		}
		const batch = 1000
		for n := batch; n == batch && ctx.Err() == nil; {
			var err error
			if n, err = e.cfg.Store.ExpireIdempotency(ctx, store.Time(e.cfg.clock().Add(-e.cfg.IdempotencyTTL)), batch); err != nil {
				e.log.Warn("expire idempotency keys", "error", err)
			}
		}
	}
}
