package webhook

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	// ackBatch is the maximum number of lanes acknowledged in one call.
	ackBatch = 256
	// outageFailures is the number of consecutive failed calls after which the store is
	// considered unavailable. Fewer failures may be due to a single ack.
	outageFailures = 3
	// minAckBackoff and maxAckBackoff bound the backoff after failed calls.
	minAckBackoff, maxAckBackoff = 20 * time.Millisecond, 2 * time.Second
)

// collectAck returns an ack with the results since the previous one. hold keeps the lease,
// due is when the lane is due next.
func (l *lane) collectAck(now, due time.Time, hold bool) store.LaneAck {
	ack := store.LaneAck{
		Lease: l.lease, KeepLease: hold, At: store.Time(now),
		Cursor: l.Cursor, State: l.State, Reason: l.Reason, DueAt: store.Time(due), Attempt: l.Attempt, FailedAt: l.FailedAt,
		Delivered: l.delivered, Attempts: l.attempts, Dead: l.dead,
	}
	l.delivered, l.attempts, l.dead = 0, nil, nil
	return ack
}

// finish marks a lane as done and releases the memory of its events. Service.mu is held.
func (l *lane) finish() {
	l.finished, l.Events = true, nil
	l.memory.shrink(0)
}

// ackProgress queues an ack for the results so far. The lane keeps its lease and continues.
func (s *Service) ackProgress(l *lane) {
	now := s.now()
	ack := l.collectAck(now, now, true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queueAck(l, ack)
}

// finishLane releases a lane, which is due again at due, and starts lanes that waited for
// its slot.
func (s *Service) finishLane(l *lane, due time.Time) {
	now := s.now()
	ack := l.collectAck(now, due, false)
	s.mu.Lock()
	defer s.mu.Unlock()
	l.finish()
	next := s.limits.remove(l, now)
	s.queueAck(l, ack)
	for _, n := range next {
		s.startWork(n)
	}
	if l.Attempt > 0 && due.After(l.endpoint.host.retryUntil) {
		l.endpoint.host.retryUntil = due
	}
	s.wakeDeferred(l.endpoint, now)
}

// queueAck queues an ack, merged with the lane's queued one. s.mu is held.
func (s *Service) queueAck(l *lane, ack store.LaneAck) {
	if l.ack == nil {
		s.acks = append(s.acks, l)
	} else {
		ack = mergeAcks(*l.ack, ack)
	}
	l.ack = &ack
	signal(s.acksPending)
}

// mergeAcks combines two successive acks of a lane into one.
func mergeAcks(first, then store.LaneAck) store.LaneAck {
	then.Delivered += first.Delivered
	then.Attempts = append(first.Attempts[:len(first.Attempts):len(first.Attempts)], then.Attempts...)
	then.Dead = append(first.Dead[:len(first.Dead):len(first.Dead)], then.Dead...)
	return then
}

// acknowledge stores queued acks in batches until ctx is done.
func (s *Service) acknowledge(ctx context.Context, beat func()) {
	for ctx.Err() == nil {
		lanes, acks, wait := s.nextAcks()
		beat()
		if len(lanes) == 0 {
			idle := time.NewTimer(min(wait, s.cfg.Lease))
			select {
			case <-ctx.Done():
			case <-s.acksPending:
			case <-idle.C:
			}
			idle.Stop()
			continue
		}
		lost, err := s.ackLanes(ctx, acks)
		if err == nil {
			s.ackFailures.Store(0)
			s.acksStored(lanes, acks, lost)
			continue
		}
		if ctx.Err() == nil {
			s.log.Error("acknowledge webhook lanes", "lanes", len(acks), "task", acks[0].Lease.Task.ID, "webhook", acks[0].Lease.ID, "error", err)
			sleep(ctx, s.ackFailed(lanes))
		}
		s.requeueAcks(s.notStored(ctx, lanes, acks))
	}
}

// ackFailed records that a call failed and returns the backoff before the next one. A single
// ack may be the cause, so the batch size is halved until it is found. An ack that failed
// alone has its own backoff and does not delay others.
func (s *Service) ackFailed(lanes []*lane) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range lanes {
		l.ackBatchLimit = max(len(lanes)/2, 1)
	}
	fails := int(s.ackFailures.Load())
	if len(lanes) == 1 {
		l := lanes[0]
		l.ackRetryAt = time.Now().Add(ackBackoff(l.ackFailures))
		if l.ackFailures++; l.ackFailures > 1 && fails < outageFailures {
			return 0
		}
	}
	s.ackFailures.Add(1)
	return ackBackoff(fails)
}

// ackBackoff returns the backoff after fails+1 consecutive failures.
func ackBackoff(fails int) time.Duration { return min(minAckBackoff<<min(fails, 10), maxAckBackoff) }

// notStored returns the acks of a failed call that must be repeated. It reads the lanes to
// omit acks that were stored despite the error. Acks that release a lane can be repeated in
// any case.
func (s *Service) notStored(ctx context.Context, lanes []*lane, acks []store.LaneAck) (failedLanes []*lane, failedAcks []store.LaneAck) {
	for i := range acks {
		a := &acks[i]
		for fails := 0; a.KeepLease && ctx.Err() == nil; fails++ {
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
			failedLanes, failedAcks = append(failedLanes, lanes[i]), append(failedAcks, *a)
		}
	}
	return failedLanes, failedAcks
}

func (s *Service) ackLanes(ctx context.Context, acks []store.LaneAck) ([]store.LaneLease, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, s.cfg.Lease, errSlowStore)
	defer cancel()
	return s.cfg.Store.AckLanes(ctx, acks...)
}

// nextAcks removes a batch of acks from the queue. If none is due, wait is the time until
// the next one.
func (s *Service) nextAcks() (lanes []*lane, acks []store.LaneAck, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, maxBatch := time.Now(), ackBatch
	left := s.acks[:0]
	wait = s.cfg.Lease
	for _, l := range s.acks {
		limit := maxBatch
		if l.ackBatchLimit > 0 {
			limit = min(limit, l.ackBatchLimit)
		}
		if pause := l.ackRetryAt.Sub(now); pause > 0 || len(lanes) >= limit {
			wait = min(wait, pause)
			left = append(left, l)
			continue
		}
		maxBatch = limit
		lanes, acks = append(lanes, l), append(acks, *l.ack)
		l.ack = nil
	}
	clear(s.acks[len(left):])
	s.acks, s.acksInFlight = left, len(lanes)
	return lanes, acks, wait
}

// requeueAcks returns acks that were not stored to the queue.
func (s *Service) requeueAcks(lanes []*lane, acks []store.LaneAck) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acksInFlight = 0
	for i, l := range lanes {
		ack := acks[i]
		if l.ack != nil {
			*l.ack = mergeAcks(ack, *l.ack)
			continue
		}
		l.ack = &ack
		s.acks = append(s.acks, l)
	}
	if len(s.acks) == 0 {
		signal(s.acksDrained)
	}
}

// acksStored completes acks that were stored: it forgets released lanes and stops lanes
// whose lease was lost.
func (s *Service) acksStored(lanes []*lane, acks []store.LaneAck, lost []store.LaneLease) {
	lostLeases := make(map[store.LaneLease]bool, len(lost))
	for _, lease := range lost {
		lostLeases[lease] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acksInFlight = 0
	now, kick := s.now(), false
	for i, l := range lanes {
		l.ackBatchLimit, l.ackFailures, l.ackRetryAt = 0, 0, time.Time{}
		if lostLeases[l.lease] {
			s.log.Debug("webhook lease lost", "task", l.lease.Task.ID, "webhook", l.lease.ID)
			s.halt(l)
		}
		if acks[i].KeepLease {
			continue
		}
		s.forgetLane(l)
		if due := acks[i].DueAt; due.After(now) {
			if !l.handOff && s.dueTimes.add(due) {
				signal(s.dueSooner)
			}
		} else if acks[i].Cursor.Seq < l.Tail || l.notifications != s.notifications {
			kick = true
		}
	}
	if kick || s.moreDue {
		s.wakeDispatcher()
	}
	if len(s.acks) == 0 {
		signal(s.acksDrained)
	}
}
