package push

import (
	"context"
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	// claimBatch is the most lanes claimed in one go, claimEvents and claimBytes bound
	// what is read of each. A larger event is read when there is memory for it.
	claimBatch  = 64
	claimEvents = 16
	claimBytes  = 64 << 10
)

// dispatch claims due lanes while there is room for them, until the service stops.
func (s *Service) dispatch(ctx context.Context, beat func()) {
	s.kick()
	for ctx.Err() == nil && !s.isStopping() {
		timer := time.NewTimer(s.untilDue())
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-s.sooner:
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

// untilDue returns how long the dispatcher may wait.
func (s *Service) untilDue() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dues.next(s.now(), spread(s.cfg.Poll, s.cfg.random()))
}

// room returns for how many lanes there is room, and which owners have enough. s.mu is
// held.
func (s *Service) room() (n int, skip []string) {
	if s.stopping {
		return 0, nil
	}
	n = min(s.batch, s.cfg.InFlight-(len(s.lanes)-s.limits.waiting))
	skip = s.limits.full(s.now())
	s.hungry = n <= 0 || len(skip) > 0
	return n, skip
}

// claim claims lanes and begins to work them. It reports whether there may be more to
// claim right away.
func (s *Service) claim(ctx context.Context) (more bool) {
	// After a pause of the process, a jump of its clock, or an outage of the store the
	// leases held here may have ended: they would be claimed again.
	paused := s.now().UnixNano()-s.renewed.Load() > int64(s.cfg.Lease)*2/3
	if jumped := s.clock.jumped(); (jumped || paused || s.ackFails.Load() > 0) && !s.renew(ctx) {
		return false
	}
	s.mu.Lock()
	n, skip := s.room()
	notices, takeover := s.notices, s.takeover
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
		Horizon: s.horizon, AfterOwner: s.owner, Skip: skip, Events: claimEvents, Bytes: claimBytes,
	})
	if err != nil && ctx.Err() == nil {
		s.log.Error("claim webhook lanes", "error", err)
	}
	if len(claimed) > 0 {
		s.owner = claimed[len(claimed)-1].Config.Task.Owner
		s.refresh(ctx, claimed)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range claimed {
		s.take(&claimed[i], until, notices)
	}
	s.claiming = false
	if err == nil && len(claimed) == 0 {
		s.empty++
	}
	clear(s.cancelled)
	if err != nil {
		s.unclaimed++
		return false
	}
	if len(claimed) < n {
		s.takeover = takeover && len(skip) > 0 // of owners that were passed over there may be more
		return false
	}
	s.hungry = true
	return true
}

// take begins to work a lane, or puts it off. s.mu is held.
func (s *Service) take(c *store.ClaimedLane, until time.Time, notices uint64) {
	l := &lane{
		ClaimedLane: *c, until: until, notices: notices, done: make(chan struct{}), through: globalThrough(&c.Config),
		lease: store.LaneLease{Task: c.Config.Task, ID: c.Config.ID, Worker: c.Worker, Fence: c.Fence},
		hold:  s.ledger.hold(c.Config.Task.Owner),
	}
	l.endpoint = s.limits.endpoint(s.endpointOf(&c.Config))
	l.endpoint.host.woken = max(l.endpoint.host.woken-1, 0)
	now := s.now()
	if old := s.lanes[l.id()]; old != nil {
		s.halt(old)
		if !old.settled && !s.unqueue(old) {
			l.after = old
		}
	}
	s.lanes[l.id()] = l
	due := now
	switch {
	case s.stopping, l.lease.Fence < s.cancelled[l.id()]:
	case l.State != store.LaneActive, s.bars(l):
		if l.State == store.LaneActive {
			s.end(l, store.LaneDisabled, l.endpoint.reason)
		}
		if len(l.Events) == 0 { // they are read first
			s.launch(l)
			return
		}
		s.buryFrom(l, 0, l.Reason, store.Time(now))
	case l.Attempt > 0 && s.clock.shifted(l.DueAt, l.UpdatedAt).After(now):
		due = s.clock.shifted(l.DueAt, l.UpdatedAt)
	case !l.hold.try(l.weight()):
		due = now.Add(spread(memoryPause, s.cfg.random()))
		s.limits.starved[l.lease.Task.Owner] = due
	default:
		retry, begins := s.limits.admit(l, now, s.cfg.random())
		if begins {
			s.launch(l)
		}
		if l.counted {
			return
		}
		due = retry
	}
	s.giveBack(l, due)
}

// giveBack has a lane that was not worked given back, to be due again then. s.mu is
// held.
func (s *Service) giveBack(l *lane, due time.Time) {
	l.settle()
	close(l.done)
	s.queueAck(l, l.report(s.now(), due, false))
}

// unqueue gives a lane up that waits for its endpoint, and reports whether it did. s.mu
// is held.
func (s *Service) unqueue(l *lane) bool {
	if !l.begun.IsZero() || !l.counted {
		return false
	}
	s.limits.leave(l, s.now())
	s.giveBack(l, s.now())
	return true
}

// launch begins to work a lane that has a place. s.mu is held.
func (s *Service) launch(l *lane) {
	l.ctx, l.cancel = context.WithCancel(s.sending)
	s.working.Add(1)
	go s.work(l)
}

// halt keeps a lane from making another attempt, and ends the one under way: its lease
// is lost. s.mu is held.
func (s *Service) halt(l *lane) {
	l.halted = true
	if l.cancel != nil {
		l.cancel()
	}
}

// drop forgets a lane. s.mu is held.
func (s *Service) drop(l *lane) {
	if s.lanes[l.id()] == l {
		delete(s.lanes, l.id())
	}
}

// anyFence is above all fences.
const anyFence = math.MaxInt64

// cancelLane ends the work on a lane: when it returns no attempt of the lane, as it has
// been claimed until now with a fence below one, is under way or begins here.
func (s *Service) cancelLane(task store.Key, id string, below int64) {
	s.mu.Lock()
	name := laneID{task, id}
	if s.claiming {
		s.cancelled[name] = max(s.cancelled[name], below)
	}
	l := s.lanes[name]
	if l == nil || l.lease.Fence >= below || s.unqueue(l) {
		s.mu.Unlock()
		return
	}
	s.halt(l)
	s.mu.Unlock()
	<-l.done
}

// kick has the dispatcher look for due lanes now.
func (s *Service) kick() { signal(s.wake) }

// notice is told by the store that lanes may have become due.
func (s *Service) notice() {
	s.mu.Lock()
	s.notices++
	s.mu.Unlock()
	s.kick()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
