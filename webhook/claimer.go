package webhook

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	// claimBatch is the maximum number of lanes in one claim. claimEvents and claimBytes limit
	// the events that a claim reads for each lane. Larger events are read later, when memory
	// is free.
	claimBatch  = 64
	claimEvents = 16
	claimBytes  = 64 << 10
)

// claimer claims due lanes, passes them to the deliverer, and renews their leases until they
// are acknowledged.
type claimer struct {
	*common
	delivery  *deliverer
	endpoints *endpointRegistry
	acks      *acknowledger
	worker    string        // names this process in leases
	horizon   time.Duration // see store.ClaimParams.Horizon
	batch     int           // maximum number of lanes in one claim

	wake      runtime.Signal // dispatch should claim due lanes
	dueSooner runtime.Signal // dispatch should reset its timer
	lastOwner string         // owner of the last claimed lane; only used by dispatch
	renewedAt atomic.Int64   // last renewal of all leases, in Unix nanoseconds

	mu        sync.Mutex
	lanes     map[laneID]*lane // claimed and not released yet
	dueTimes  dueTimes
	claiming  bool             // a claim is in progress
	cancelled map[laneID]int64 // for each lane, the fence below which the result of a claim in progress must be released
	moreDue   bool             // a limit may have excluded due lanes from the last claim
	takeover  bool             // the store is exclusive: leases of earlier processes are stale
	stopping  bool
	counts    claimCounts
}

// claimCounts counts notifications and claims since the start.
type claimCounts struct {
	notifications uint64 // notifications from the store
	empty         uint64 // claims that found nothing due
	failed        uint64 // claims that failed
}

func newClaimer(common *common, delivery *deliverer, wake runtime.Signal) *claimer {
	cfg := &common.cfg
	limits := store.LaneClaim{Bytes: claimBytes}
	c := &claimer{
		common: common, delivery: delivery, endpoints: delivery.endpoints, acks: delivery.acks, worker: cfg.NewID(),
		horizon: 2 * max(cfg.Schedule[len(cfg.Schedule)-1], maxRetryAfter, cfg.Lease),
		batch:   int(min(claimBatch, max(cfg.Memory.Share()/4/limits.LargestRow(), 1))),
		wake:    wake, dueSooner: runtime.NewSignal(),
		lanes: make(map[laneID]*lane), cancelled: make(map[laneID]int64), takeover: cfg.Store.Info().Exclusive,
	}
	c.acks.stored = c.acksStored
	return c
}

// dispatch claims due lanes within the limits until the service stops.
func (c *claimer) dispatch(ctx context.Context, beat func()) {
	c.wake.Send()
	for ctx.Err() == nil && !c.isStopping() {
		timer := time.NewTimer(c.untilDue())
		select {
		case <-ctx.Done():
		case <-c.wake:
		case <-c.dueSooner:
			timer.Stop()
			continue
		case <-timer.C:
		}
		timer.Stop()
		beat()
		for ctx.Err() == nil && c.claim(ctx) {
			beat()
		}
	}
}

func (c *claimer) isStopping() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stopping
}

// stopNewWork ends claims and releases waiting lanes.
func (c *claimer) stopNewWork() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = true
	for _, l := range c.lanes {
		c.releaseIfWaiting(l)
	}
	c.wake.Send()
}

// untilDue returns how long dispatch may wait before the next claim.
func (c *claimer) untilDue() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dueTimes.next(c.now(), jitter(c.cfg.Poll, c.cfg.random()))
}

// capacity returns the number of lanes that may be claimed, and the owners that have reached
// their limit. c.mu is held.
func (c *claimer) capacity() (n int, skip []string) {
	if c.stopping {
		return 0, nil
	}
	waiting, skip := c.endpoints.usage(c.now())
	n = min(c.batch, c.cfg.Limits.InFlight-(len(c.lanes)-waiting))
	c.moreDue = n <= 0 || len(skip) > 0
	return n, skip
}

// claim claims due lanes and starts work on them. It reports whether more lanes may be due
// now.
func (c *claimer) claim(ctx context.Context) (more bool) {
	// Leases of this process may have expired during a pause of the process, a jump of its
	// clock or an outage of the store. Renew them first, or the claim would return them again.
	paused := c.now().UnixNano()-c.renewedAt.Load() > int64(c.cfg.Lease)*2/3
	if jumped := c.clock.detectJump(); (jumped || paused || c.acks.failing()) && !c.renew(ctx) {
		return false
	}
	c.mu.Lock()
	n, skip := c.capacity()
	notifications, takeover := c.counts.notifications, c.takeover
	c.claiming = n > 0
	c.mu.Unlock()
	if n <= 0 {
		return false
	}
	now := c.now()
	until := now.Add(c.cfg.Lease)
	call, cancel := context.WithTimeoutCause(ctx, c.cfg.Lease, errSlowStore)
	defer cancel()
	claimed, err := c.cfg.Store.ClaimLanes(call, store.LaneClaim{
		Worker: c.worker, Now: store.Time(now), Until: store.Time(until), Limit: n, Takeover: takeover,
		Horizon: c.horizon, AfterOwner: c.lastOwner, Skip: skip, Events: claimEvents, Bytes: claimBytes,
	})
	if err != nil && ctx.Err() == nil {
		c.log.Error("claiming webhooks with due events failed", "error", err)
	}
	if len(claimed) > 0 {
		c.lastOwner = claimed[len(claimed)-1].Webhook.Task.Owner
		c.endpoints.refresh(ctx, claimed)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range claimed {
		c.handleClaimed(c.newLane(&claimed[i], until, notifications))
	}
	c.claiming = false
	if err == nil && len(claimed) == 0 {
		c.counts.empty++
	}
	clear(c.cancelled)
	if err != nil {
		c.counts.failed++
		return false
	}
	if len(claimed) < n {
		c.takeover = takeover && len(skip) > 0 // skipped owners may have more
		return false
	}
	c.moreDue = true
	return true
}

func (c *claimer) newLane(claimed *store.ClaimedLane, until time.Time, notifications uint64) *lane {
	w := &claimed.Webhook
	return &lane{
		ClaimedLane: *claimed, until: until, notifications: notifications, done: make(chan struct{}), through: globalThrough(w),
		lease:    store.LaneLease{Task: w.Task, ID: w.ID, Worker: claimed.Worker, Fence: claimed.Fence},
		memory:   c.memory.newHold(w.Task.Owner),
		endpoint: c.endpoints.claimed(c.endpointOf(w)),
	}
}

// handleClaimed starts work on a claimed lane, or releases it until later. c.mu is held.
func (c *claimer) handleClaimed(l *lane) {
	now := c.now()
	if old := c.lanes[l.id()]; old != nil {
		old.halt()
		if !old.isDone() && !c.releaseIfWaiting(old) {
			l.previous = old
		}
	}
	c.lanes[l.id()] = l
	if c.stopping || l.lease.Fence < c.cancelled[l.id()] {
		c.acks.release(l, now)
		return
	}
	if reason, blocked := c.endpoints.blocked(l); l.State != store.LaneActive || blocked {
		if l.State == store.LaneActive {
			c.delivery.endLane(l, store.LaneDisabled, reason)
		}
		if len(l.Events) == 0 { // too large for the claim: the deliverer reads them
			c.delivery.start(l)
			return
		}
		c.delivery.deadLetterFrom(l, 0, l.Reason, store.Time(now))
		c.acks.release(l, now)
		return
	}
	if due := c.clock.adjust(l.DueAt, l.UpdatedAt); l.Attempt > 0 && due.After(now) {
		c.acks.release(l, due)
		return
	}
	if !l.memory.tryGrow(l.memoryNeed()) {
		due := now.Add(jitter(memoryBackoff, c.cfg.random()))
		c.endpoints.blockOwner(l.lease.Task.Owner, due)
		c.acks.release(l, due)
		return
	}
	switch retry, started := c.endpoints.admit(l, now); {
	case started:
		c.delivery.start(l)
	case !retry.IsZero():
		c.acks.release(l, retry)
	}
}

// releaseIfWaiting releases a lane that waits for its endpoint, and reports whether it did.
func (c *claimer) releaseIfWaiting(l *lane) bool {
	if !c.endpoints.removeWaiting(l) {
		return false
	}
	c.acks.release(l, c.now())
	return true
}

// acksStored forgets lanes that were released and stops those that lost their lease.
func (c *claimer) acksStored(lanes []*lane, acks []store.LaneAck, lost map[store.LaneLease]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, claimAgain := c.now(), false
	for i, l := range lanes {
		if lost[l.lease] {
			c.log.Debug("webhook lease lost", "task", l.lease.Task.ID, "webhook", l.lease.ID)
			l.halt()
		}
		if acks[i].KeepLease {
			continue
		}
		if c.lanes[l.id()] == l {
			delete(c.lanes, l.id())
		}
		if due := acks[i].DueAt; due.After(now) {
			if !l.handOff && c.dueTimes.add(due) {
				c.dueSooner.Send()
			}
		} else if acks[i].Cursor.Seq < l.Tail || l.notifications != c.counts.notifications {
			claimAgain = true
		}
	}
	if claimAgain || c.moreDue {
		c.wake.Send()
	}
}

// maxFence is greater than all fences.
const maxFence = math.MaxInt64

// cancelLane ends the work of this process on a lane if the fence of its lease is less than
// below. When it returns, no attempt under such a lease is in progress or will be made here.
func (c *claimer) cancelLane(task store.Key, id string, below int64) {
	c.mu.Lock()
	name := laneID{task, id}
	if c.claiming {
		c.cancelled[name] = max(c.cancelled[name], below)
	}
	l := c.lanes[name]
	if l == nil || l.lease.Fence >= below || c.releaseIfWaiting(l) {
		c.mu.Unlock()
		return
	}
	l.halt()
	c.mu.Unlock()
	<-l.done
}

// onNotification is called by the store when lanes may have become due.
func (c *claimer) onNotification() {
	c.mu.Lock()
	c.counts.notifications++
	c.mu.Unlock()
	c.wake.Send()
}

// count returns the number of lanes that this process has claimed.
func (c *claimer) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lanes)
}

// progress returns the activity of the claimer. idle reports whether this process neither claims
// nor delivers. empty and failed are the numbers of claims that found nothing due and that failed.
func (c *claimer) progress() (idle bool, empty, failed uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lanes) == 0 && !c.claiming, c.counts.empty, c.counts.failed
}

// heartbeat renews the leases of this process until ctx is done.
func (c *claimer) heartbeat(ctx context.Context, beat func()) {
	tick := time.NewTicker(c.cfg.Lease / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		beat()
		c.renew(ctx)
	}
}

// renew renews the leases of all lanes of this process, and reports whether the store
// succeeded.
func (c *claimer) renew(ctx context.Context) bool {
	started := c.now()
	if !c.renewLeases(ctx, func(*lane) bool { return true }) {
		return false
	}
	c.renewedAt.Store(started.UnixNano())
	return true
}

// renewLeases renews the leases of the lanes for which the function which returns true, and
// stops those that lost their lease. It reports whether the store succeeded.
func (c *claimer) renewLeases(ctx context.Context, which func(*lane) bool) bool {
	byLease := make(map[store.LaneLease]*lane)
	var leases []store.LaneLease
	c.mu.Lock()
	for _, l := range c.lanes {
		if !l.isHalted() && which(l) {
			byLease[l.lease] = l
			leases = append(leases, l.lease)
		}
	}
	c.mu.Unlock()
	started := c.now()
	if len(leases) == 0 {
		return true
	}
	until := started.Add(c.cfg.Lease)
	call, cancel := context.WithTimeoutCause(ctx, c.cfg.Lease, errSlowStore)
	defer cancel()
	lost, err := c.cfg.Store.RenewLanes(call, store.Time(until), leases)
	if err != nil {
		if ctx.Err() == nil {
			c.log.Warn("renewing leases of webhooks failed", "error", err)
		}
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, lease := range lost {
		if l := byLease[lease]; l != nil {
			if !c.releaseIfWaiting(l) {
				l.halt()
			}
			delete(byLease, lease)
		}
	}
	for _, l := range byLease {
		l.extend(until)
	}
	return true
}
