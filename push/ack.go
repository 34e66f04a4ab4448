package push

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	// ackBatch is the most lanes acknowledged in one call.
	ackBatch = 256
	// outageAfter is after how many failed calls in a row it is the store that fails, rather
	// than one of the acks.
	outageAfter = 3
	// ackPause is the first pause after a failed call, longestAckPause the longest.
	ackPause, longestAckPause = 20 * time.Millisecond, 2 * time.Second
)

// report gathers what became of a lane's events for the store.
func (l *lane) report(now, due time.Time, hold bool) store.LaneAck {
	ack := store.LaneAck{
		Lease: l.lease, Hold: hold, At: store.Time(now),
		Cursor: l.Cursor, State: l.State, Reason: l.Reason, DueAt: store.Time(due), Attempt: l.Attempt, FailedAt: l.FailedAt,
		Delivered: l.told, Attempts: l.attempts, Dead: l.dead,
	}
	l.told, l.attempts, l.dead = 0, nil, nil
	return ack
}

// settle notes that a lane has been worked. Service.mu is held.
func (l *lane) settle() {
	l.settled, l.Events = true, nil
	l.hold.shrink(0)
}

// hold has what became of the lane's events so far stored, while it goes on.
func (s *Service) hold(l *lane) {
	now := s.now()
	ack := l.report(now, now, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queueAck(l, ack)
}

// conclude gives a lane back, which is due again then, and begins those whose turn it is.
func (s *Service) conclude(l *lane, due time.Time) {
	now := s.now()
	ack := l.report(now, due, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	l.settle()
	next := s.limits.leave(l, now)
	s.queueAck(l, ack)
	for _, n := range next {
		s.launch(n)
	}
	if l.Attempt > 0 && due.After(l.endpoint.host.pausing) {
		l.endpoint.host.pausing = due
	}
	s.recall(l.endpoint, now)
}

// queueAck has an ack stored with what the lane has queued already. s.mu is held.
func (s *Service) queueAck(l *lane, ack store.LaneAck) {
	if l.ack == nil {
		s.acks = append(s.acks, l)
	} else {
		ack = merge(*l.ack, ack)
	}
	l.ack = &ack
	signal(s.acked)
}

// merge returns what two acks of a lane, one after the other, come to.
func merge(first, then store.LaneAck) store.LaneAck {
	then.Delivered += first.Delivered
	then.Attempts = append(first.Attempts[:len(first.Attempts):len(first.Attempts)], then.Attempts...)
	then.Dead = append(first.Dead[:len(first.Dead):len(first.Dead)], then.Dead...)
	return then
}

// acknowledge stores acks, those that there are together, until ctx is done.
func (s *Service) acknowledge(ctx context.Context, beat func()) {
	for ctx.Err() == nil {
		lanes, acks, wait := s.takeAcks()
		beat()
		if len(lanes) == 0 {
			idle := time.NewTimer(min(wait, s.cfg.Lease))
			select {
			case <-ctx.Done():
			case <-s.acked:
			case <-idle.C:
			}
			idle.Stop()
			continue
		}
		lost, err := s.ackLanes(ctx, acks)
		if err == nil {
			s.ackFails.Store(0)
			s.stored(lanes, acks, lost)
			continue
		}
		if ctx.Err() == nil {
			s.log.Error("acknowledge webhook lanes", "lanes", len(acks), "task", acks[0].Lease.Task.ID, "webhook", acks[0].Lease.ID, "error", err)
			sleep(ctx, s.unstored(lanes))
		}
		s.returnAcks(s.undone(ctx, lanes, acks))
	}
}

// unstored notes that a call has failed, and returns how long to wait before the next.
// It may be one of the acks that cannot be stored: they are tried again in halves, and
// the one that has failed by itself after a pause of its own, which holds up no others.
func (s *Service) unstored(lanes []*lane) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range lanes {
		l.together = max(len(lanes)/2, 1)
	}
	fails := int(s.ackFails.Load())
	if len(lanes) == 1 {
		l := lanes[0]
		l.retryAt = time.Now().Add(ackBackoff(l.alone))
		if l.alone++; l.alone > 1 && fails < outageAfter {
			return 0
		}
	}
	s.ackFails.Add(1)
	return ackBackoff(fails)
}

// ackBackoff is the pause after a number of failures in a row and one.
func ackBackoff(fails int) time.Duration { return min(ackPause<<min(fails, 10), longestAckPause) }

// undone leaves out the acks that were stored although the call has failed. Those that
// give the lane back can be made again in any case.
func (s *Service) undone(ctx context.Context, lanes []*lane, acks []store.LaneAck) (left []*lane, again []store.LaneAck) {
	for i := range acks {
		a := &acks[i]
		for fails := 0; a.Hold && ctx.Err() == nil; fails++ {
			page, err := s.cfg.Store.Lanes(ctx, store.LaneQuery{Owner: a.Lease.Task.Owner, TaskID: a.Lease.Task.ID, ID: a.Lease.ID, Limit: 1})
			if err != nil {
				sleep(ctx, ackBackoff(fails))
				continue
			}
			if len(page.Lanes) > 0 && page.Lanes[0].Cursor == a.Cursor && page.Lanes[0].UpdatedAt.Equal(a.At) {
				a = nil
			}
			break
		}
		if a != nil {
			left, again = append(left, lanes[i]), append(again, *a)
		}
	}
	return left, again
}

func (s *Service) ackLanes(ctx context.Context, acks []store.LaneAck) ([]store.LaneLease, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Lease, errSlowStore)
	defer cancel()
	return s.cfg.Store.AckLanes(ctx, acks...)
}

// takeAcks takes acks that wait, as many as may be stored together. If there are none,
// wait is for how long there will be none.
func (s *Service) takeAcks() (lanes []*lane, acks []store.LaneAck, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, most := time.Now(), ackBatch
	left := s.acks[:0]
	wait = s.cfg.Lease
	for _, l := range s.acks {
		limit := most
		if l.together > 0 {
			limit = min(limit, l.together)
		}
		if pause := l.retryAt.Sub(now); pause > 0 || len(lanes) >= limit {
			wait = min(wait, pause)
			left = append(left, l)
			continue
		}
		most = limit
		lanes, acks = append(lanes, l), append(acks, *l.ack)
		l.ack = nil
	}
	clear(s.acks[len(left):])
	s.acks, s.storing = left, len(lanes)
	return lanes, acks, wait
}

// returnAcks puts acks back that could not be stored, or may not have been.
func (s *Service) returnAcks(lanes []*lane, acks []store.LaneAck) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.storing = 0
	for i, l := range lanes {
		ack := acks[i]
		if l.ack != nil {
			*l.ack = merge(ack, *l.ack)
			continue
		}
		l.ack = &ack
		s.acks = append(s.acks, l)
	}
	if len(s.acks) == 0 {
		signal(s.idle)
	}
}

// stored does what follows from acks that have been stored, but for those that were lost.
func (s *Service) stored(lanes []*lane, acks []store.LaneAck, lost []store.LaneLease) {
	gone := make(map[store.LaneLease]bool, len(lost))
	for _, lease := range lost {
		gone[lease] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.storing = 0
	now, kick := s.now(), false
	for i, l := range lanes {
		l.together, l.alone, l.retryAt = 0, 0, time.Time{}
		if gone[l.lease] {
			s.log.Debug("webhook lease lost", "task", l.lease.Task.ID, "webhook", l.lease.ID)
			s.halt(l)
		}
		if acks[i].Hold {
			continue
		}
		s.drop(l)
		if due := acks[i].DueAt; due.After(now) {
			if !l.elsewhere && s.dues.add(due) {
				signal(s.sooner)
			}
		} else if acks[i].Cursor.Seq < l.Tail || l.notices != s.notices {
			kick = true
		}
	}
	if kick || s.hungry {
		s.kick()
	}
	if len(s.acks) == 0 {
		signal(s.idle)
	}
}
