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
	poll := time.NewTicker(e.cfg.Poll)
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
			if len(e.slots) == 0 {
				e.ready.Store(true) // what nobody announced is looked for with the next free slot
			}
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
	// After a pause of the process or the store, its runs come first: their leases
	// may have ended.
	if e.now().UnixNano()-e.renewed.Load() > int64(e.cfg.Lease)*2/3 && e.renew(ctx) != nil {
		return false
	}
	n := e.takeSlots(claimBatch)
	if n == 0 {
		return false
	}
	e.renameStrayed()
	e.ready.Store(false)
	now := e.now()
	p := store.ClaimParams{
		Worker: *e.worker.Load(), Now: store.Time(now), Until: store.Time(now.Add(e.cfg.Lease)),
		Limit: n, Takeover: e.takeover, Horizon: 2 * max(e.cfg.RetryDelayMax, e.cfg.Lease),
		Event: store.Event{Time: store.Time(e.cfg.clock()), State: a2a.StateWorking},
	}
	turns.Next(&p)
	tasks, err := e.cfg.Store.Claim(ctx, p)
	if err != nil {
		e.strayed.Store(true)
		e.freeSlots(n)
		e.ready.Store(true)
		if ctx.Err() == nil {
			e.log.Error("claim", "error", err)
		}
		return false
	}
	turns.Claimed(&p, tasks)
	suspects := e.park(ctx, tasks)
	for _, t := range tasks {
		e.start(t, suspects[t.Key])
	}
	if len(tasks) == n {
		e.ready.Store(true)
		return true
	}
	e.takeover = false
	e.freeSlots(n - len(tasks))
	return false
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
	e.dequeued(1)
	l := e.hub.acquire(t.Key)
	l.commit.Lock()
	defer l.commit.Unlock()
	fence := t.Run.Lease.Fence
	if known, _ := l.snapshot(); known != nil && known.Seq > t.Seq && known.CreatedAt.Equal(t.CreatedAt) {
		t = known
	}
	if t.Run.Phase != store.PhaseLeased || t.Run.Lease.Fence != fence {
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
		_ = e.renew(ctx) // has been logged, and is tried again
	}
}

func (e *Engine) renew(ctx context.Context) error {
	begun := e.now()
	byKey := e.holders()
	if len(byKey) == 0 {
		e.renewed.Store(begun.UnixNano())
		return nil
	}
	held := make([]store.HeldLease, 0, len(byKey))
	for _, r := range byKey {
		held = append(held, r.lease)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.cfg.Lease, a2a.Errorf(a2a.CodeUnavailable, "lease renewal took too long"))
	defer cancel()
	until := store.Time(e.now().Add(e.cfg.Lease))
	lost, err := e.cfg.Store.Renew(ctx, until, held)
	if some := (*store.RenewError)(nil); errors.As(err, &some) {
		e.log.Warn("renew leases", "error", err)
		for _, key := range some.Keys {
			delete(byKey, key) // held for as long as before
		}
	} else if err != nil {
		e.log.Warn("renew leases", "error", err)
		return err
	}
	e.renewed.Store(begun.UnixNano())
	for _, key := range lost {
		if r := byKey[key]; r != nil {
			_ = r.die(ErrLeaseLost)
			delete(byKey, key)
		}
	}
	for _, r := range byKey {
		r.holdUntil(until)
	}
	return nil
}

// holders returns the runs that hold a lease, as far as is known. Of two runs of
// one task the older has lost it, and is told so.
func (e *Engine) holders() map[store.Key]*run {
	e.mu.Lock()
	byKey := make(map[store.Key]*run, len(e.runs))
	var lost []*run
	for r := range e.runs {
		if r.over() {
			continue
		}
		other := byKey[r.lease.Key]
		if other != nil && other.lease.Fence > r.lease.Fence {
			r, other = other, r
		}
		if byKey[r.lease.Key] = r; other != nil {
			lost = append(lost, other)
		}
	}
	e.mu.Unlock()
	for _, r := range lost {
		_ = r.die(ErrLeaseLost)
	}
	return byKey
}

// janitor removes what has outlived its use.
func (e *Engine) janitor(ctx context.Context, beat func()) {
	tick := time.NewTicker(min(max(e.cfg.IdempotencyTTL/10, e.cfg.Poll), 10*e.cfg.Lease))
	defer tick.Stop()
	e.finishAllDoomed(ctx, beat)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		beat()
		e.finishAllDoomed(ctx, beat)
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
