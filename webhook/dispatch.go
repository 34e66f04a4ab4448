package webhook

import (
	"context"
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	// claimBatch is the maximum number of lanes in one claim. claimEvents and claimBytes
	// limit the events read with each. Larger events are read later, when memory is free.
	claimBatch  = 64
	claimEvents = 16
	claimBytes  = 64 << 10
)

// dispatch claims due lanes within the limits until the service stops.
func (s *Service) dispatch(ctx context.Context, beat func()) {
	s.wakeDispatcher()
	for ctx.Err() == nil && !s.isStopping() {
		timer := time.NewTimer(s.untilDue())
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-s.dueSooner:
			timer.Stop()
			continue
		case <-timer.C:
		}
		timer.Stop()
		beat()
		for ctx.Err() == nil && s.claim(ctx) {
			beat()
		}
	}
}

func (s *Service) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// untilDue returns how long the dispatcher may wait before the next claim.
func (s *Service) untilDue() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dueTimes.next(s.now(), jitter(s.cfg.Poll, s.cfg.random()))
}

// capacity returns the number of lanes that may be claimed, and the owners that have reached
// their limit. s.mu is held.
func (s *Service) capacity() (n int, skip []string) {
	if s.stopping {
		return 0, nil
	}
	n = min(s.batch, s.cfg.InFlight-(len(s.lanes)-s.limits.waiting))
	skip = s.limits.ownersAtLimit(s.now())
	s.moreDue = n <= 0 || len(skip) > 0
	return n, skip
}

// claim claims due lanes and starts work on them. It reports whether more lanes may be due
// now.
func (s *Service) claim(ctx context.Context) (more bool) {
	// Leases of this process may have expired during a pause of the process, a jump of its
	// clock or an outage of the store. Renew them first, or the claim would return them again.
	paused := s.now().UnixNano()-s.renewedAt.Load() > int64(s.cfg.Lease)*2/3
	if jumped := s.clock.detectJump(); (jumped || paused || s.ackFailures.Load() > 0) && !s.renew(ctx) {
		return false
	}
	s.mu.Lock()
	n, skip := s.capacity()
	notifications, takeover := s.notifications, s.takeover
	s.claiming = n > 0
	s.mu.Unlock()
	if n <= 0 {
		return false
	}
	now := s.now()
	until := now.Add(s.cfg.Lease)
	call, cancel := context.WithTimeoutCause(ctx, s.cfg.Lease, errSlowStore)
	defer cancel()
	claimed, err := s.cfg.Store.ClaimLanes(call, store.LaneClaim{
		Worker: s.worker, Now: store.Time(now), Until: store.Time(until), Limit: n, Takeover: takeover,
		Horizon: s.horizon, AfterOwner: s.lastOwner, Skip: skip, Events: claimEvents, Bytes: claimBytes,
	})
	if err != nil && ctx.Err() == nil {
		s.log.Error("claim webhook lanes", "error", err)
	}
	if len(claimed) > 0 {
		s.lastOwner = claimed[len(claimed)-1].Webhook.Task.Owner
		s.refreshEndpoints(ctx, claimed)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range claimed {
		s.handleClaimed(&claimed[i], until, notifications)
	}
	s.claiming = false
	if err == nil && len(claimed) == 0 {
		s.emptyClaims++
	}
	clear(s.cancelled)
	if err != nil {
		s.failedClaims++
		return false
	}
	if len(claimed) < n {
		s.takeover = takeover && len(skip) > 0 // skipped owners may have more
		return false
	}
	s.moreDue = true
	return true
}

// handleClaimed starts work on a claimed lane, or releases it until later. s.mu is held.
func (s *Service) handleClaimed(c *store.ClaimedLane, until time.Time, notifications uint64) {
	l := &lane{
		ClaimedLane: *c, until: until, notifications: notifications, done: make(chan struct{}), through: globalThrough(&c.Webhook),
		lease:  store.LaneLease{Task: c.Webhook.Task, ID: c.Webhook.ID, Worker: c.Worker, Fence: c.Fence},
		memory: s.memory.newHold(c.Webhook.Task.Owner),
	}
	l.endpoint = s.limits.endpoint(s.endpointOf(&c.Webhook))
	l.endpoint.host.woken = max(l.endpoint.host.woken-1, 0)
	now := s.now()
	if old := s.lanes[l.id()]; old != nil {
		s.halt(old)
		if !old.finished && !s.releaseIfWaiting(old) {
			l.previous = old
		}
	}
	s.lanes[l.id()] = l
	due := now
	switch {
	case s.stopping, l.lease.Fence < s.cancelled[l.id()]:
	case l.State != store.LaneActive, s.blocked(l):
		if l.State == store.LaneActive {
			s.endLane(l, store.LaneDisabled, l.endpoint.reason)
		}
		if len(l.Events) == 0 { // too large for the claim: the worker reads them
			s.startWork(l)
			return
		}
		s.deadLetterFrom(l, 0, l.Reason, store.Time(now))
	case l.Attempt > 0 && s.clock.adjust(l.DueAt, l.UpdatedAt).After(now):
		due = s.clock.adjust(l.DueAt, l.UpdatedAt)
	case !l.memory.tryGrow(l.memoryNeed()):
		due = now.Add(jitter(memoryBackoff, s.cfg.random()))
		s.limits.starved[l.lease.Task.Owner] = due
	default:
		retry, started := s.limits.admit(l, now, s.cfg.random())
		if started {
			s.startWork(l)
		}
		if l.counted {
			return
		}
		due = retry
	}
	s.releaseLane(l, due)
}

// releaseLane releases a lane that was not worked on, and sets when it is due again. s.mu is
// held.
func (s *Service) releaseLane(l *lane, due time.Time) {
	l.finish()
	close(l.done)
	s.queueAck(l, l.collectAck(s.now(), due, false))
}

// releaseIfWaiting releases a lane that waits for its endpoint, and reports whether it did.
// s.mu is held.
func (s *Service) releaseIfWaiting(l *lane) bool {
	if !l.startedAt.IsZero() || !l.counted {
		return false
	}
	s.limits.remove(l, s.now())
	s.releaseLane(l, s.now())
	return true
}

// startWork starts a goroutine that works on a lane. s.mu is held.
func (s *Service) startWork(l *lane) {
	l.ctx, l.cancel = context.WithCancel(s.sendCtx)
	s.workers.Add(1)
	go s.work(l)
}

// halt cancels the attempt in progress of a lane that lost its lease, and prevents further
// ones. s.mu is held.
func (s *Service) halt(l *lane) {
	l.halted = true
	if l.cancel != nil {
		l.cancel()
	}
}

// forgetLane removes a lane from s.lanes. s.mu is held.
func (s *Service) forgetLane(l *lane) {
	if s.lanes[l.id()] == l {
		delete(s.lanes, l.id())
	}
}

// maxFence is greater than all fences.
const maxFence = math.MaxInt64

// cancelLane ends the work of this process on a lane, if it holds a fence less than below.
// When it returns, no attempt under such a fence is in progress or will be made here.
func (s *Service) cancelLane(task store.Key, id string, below int64) {
	s.mu.Lock()
	name := laneID{task, id}
	if s.claiming {
		s.cancelled[name] = max(s.cancelled[name], below)
	}
	l := s.lanes[name]
	if l == nil || l.lease.Fence >= below || s.releaseIfWaiting(l) {
		s.mu.Unlock()
		return
	}
	s.halt(l)
	s.mu.Unlock()
	<-l.done
}

// wakeDispatcher makes the dispatcher claim due lanes now.
func (s *Service) wakeDispatcher() { signal(s.wake) }

// onNotification is called by the store when lanes may have become due.
func (s *Service) onNotification() {
	s.mu.Lock()
	s.notifications++
	s.mu.Unlock()
	s.wakeDispatcher()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
