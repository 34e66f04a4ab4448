package inmem

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// ClaimLanes implements [store.PushStore].
func (s *Store) ClaimLanes(ctx context.Context, p store.LaneClaim) ([]store.ClaimedLane, error) {
	claimed, err := s.claimLanes(ctx, p)
	for i := range claimed {
		c := &claimed[i]
		c.Config.Data = slices.Clone(c.Config.Data)
		size := 0
		for j := range c.Events {
			each := c.Events[j].Size()
			if int64(each) > p.LargestRow() {
				c.Events = slices.Clone(c.Events[:j])
				break
			}
			c.Events[j] = c.Events[j].Copy()
			if size += each; p.Bytes > 0 && size > p.Bytes {
				c.Events = slices.Clone(c.Events[:j+1])
				break
			}
		}
	}
	return claimed, err
}

// claimLanes returns what it claimed with events that are still to be copied, and
// cut.
func (s *Store) claimLanes(ctx context.Context, p store.LaneClaim) ([]store.ClaimedLane, error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return nil, err
	}
	if p.Limit <= 0 {
		return nil, nil
	}
	for _, l := range s.push.queue.promote(p.Now.UnixMilli()) {
		s.push.removeLane(l)
	}
	lanes := s.push.queue.due(p)
	claimed := make([]store.ClaimedLane, len(lanes))
	for i, l := range lanes {
		s.push.change(l, func() {
			l.Worker, l.LeaseUntil = p.Worker, store.Time(p.Until)
			l.Fence++
		})
		t := l.task
		rest := t.log[max(l.Cursor.Seq, 0):]
		claimed[i] = store.ClaimedLane{
			Lane: l.view(), Events: slices.Clone(rest[:min(len(rest), max(p.Events, 1))]),
			Created: t.fold.CreatedAt, ContextID: t.fold.ContextID,
		}
	}
	return claimed, nil
}

// RenewLanes implements [store.PushStore].
func (s *Store) RenewLanes(ctx context.Context, until time.Time, leases []store.LaneLease) ([]store.LaneLease, error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return nil, err
	}
	var lost []store.LaneLease
	for _, lease := range leases {
		l := s.lane(lease.Task, lease.ID)
		if l == nil || !l.held(lease) || l.deleted {
			lost = append(lost, lease)
			continue
		}
		s.push.change(l, func() { l.LeaseUntil = store.Time(until) })
	}
	return lost, nil
}

// AckLanes implements [store.PushStore].
func (s *Store) AckLanes(ctx context.Context, acks ...store.LaneAck) ([]store.LaneLease, error) {
	var due bool
	defer s.watchers.tell(&due)
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return nil, err
	}
	var lost []store.LaneLease
	for i := range acks {
		a := &acks[i]
		l := s.lane(a.Lease.Task, a.Lease.ID)
		switch {
		case l != nil && !a.Hold && l.taken(a.Lease):
			lost = append(lost, a.Lease)
			due = s.push.letGo(l) || due
		case l == nil || !l.held(a.Lease):
			lost = append(lost, a.Lease)
		case l.deleted:
			lost = append(lost, a.Lease)
			if !a.Hold {
				s.push.removeLane(l)
			}
		default:
			s.push.change(l, func() { s.push.ack(l, a) })
			due = due || !a.Hold && l.pending() && !l.DueAt.After(a.At)
		}
	}
	return lost, nil
}

// letGo has a lane claimed again whose lease was taken away, and reports whether it is due.
func (p *push) letGo(l *lane) (due bool) {
	if l.deleted {
		p.removeLane(l)
		return false
	}
	p.change(l, func() { l.LeaseUntil = time.Time{} })
	return l.pending()
}

// ack applies an acknowledgement to a lane that is in no index meanwhile.
func (p *push) ack(l *lane, a *store.LaneAck) {
	at := store.Time(a.At)
	l.Cursor, l.State, l.Reason = a.Cursor, a.State, a.Reason
	l.DueAt, l.Attempt, l.FailedAt = store.Time(a.DueAt), a.Attempt, store.Time(a.FailedAt)
	l.UpdatedAt = at
	if a.Delivered > 0 {
		l.Delivered += int64(a.Delivered)
		l.DeliveredAt = at
	}
	if !a.Hold {
		l.Worker, l.LeaseUntil = "", time.Time{}
	}
	for _, v := range a.Attempts {
		p.addAttempt(l, v)
	}
	for _, v := range a.Dead {
		p.addLetter(l, v)
	}
}
