package inmem

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// ClaimLanes implements [store.Lanes].
func (s *Store) ClaimLanes(ctx context.Context, p store.LaneClaim) ([]store.ClaimedLane, error) {
	claimed, err := s.claimLanes(ctx, p)
	for i := range claimed {
		c := &claimed[i]
		c.Webhook.Data = slices.Clone(c.Webhook.Data)
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

// claimLanes claims lanes. The caller copies their events and cuts them to the size
// limits.
func (s *Store) claimLanes(ctx context.Context, p store.LaneClaim) ([]store.ClaimedLane, error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return nil, err
	}
	if p.Limit <= 0 {
		return nil, nil
	}
	for _, l := range s.webhooks.queue.promote(p.Now.UnixMilli()) {
		s.webhooks.removeLane(l)
	}
	lanes := s.webhooks.queue.dueLanes(p)
	claimed := make([]store.ClaimedLane, len(lanes))
	for i, l := range lanes {
		s.webhooks.change(l, func() {
			l.Worker, l.LeaseUntil = p.Worker, store.Time(p.Until)
			l.Fence++
		})
		t := l.task
		events := t.log[max(l.Cursor.Seq, 0):]
		claimed[i] = store.ClaimedLane{
			Lane: l.view(), Events: slices.Clone(events[:min(len(events), max(p.Events, 1))]),
			Created: t.fold.CreatedAt, ContextID: t.fold.ContextID,
		}
	}
	return claimed, nil
}

// RenewLanes implements [store.Lanes].
func (s *Store) RenewLanes(ctx context.Context, until time.Time, leases []store.LaneLease) ([]store.LaneLease, error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return nil, err
	}
	var lost []store.LaneLease
	for _, lease := range leases {
		l := s.lane(lease.Task, lease.ID)
		if l == nil || !l.heldBy(lease) || l.deleted {
			lost = append(lost, lease)
			continue
		}
		s.webhooks.change(l, func() { l.LeaseUntil = store.Time(until) })
	}
	return lost, nil
}

// AckLanes implements [store.Lanes].
func (s *Store) AckLanes(ctx context.Context, acks ...store.LaneAck) ([]store.LaneLease, error) {
	var due bool
	defer s.notifyLanes(&due)
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return nil, err
	}
	var lost []store.LaneLease
	for i := range acks {
		a := &acks[i]
		l := s.lane(a.Lease.Task, a.Lease.ID)
		switch {
		case l != nil && !a.KeepLease && l.wasRevoked(a.Lease):
			lost = append(lost, a.Lease)
			due = s.webhooks.releaseRevoked(l) || due
		case l == nil || !l.heldBy(a.Lease):
			lost = append(lost, a.Lease)
		case l.deleted:
			lost = append(lost, a.Lease)
			if !a.KeepLease {
				s.webhooks.removeLane(l)
			}
		default:
			s.webhooks.change(l, func() { s.webhooks.ack(l, a) })
			due = due || !a.KeepLease && l.pending() && !l.DueAt.After(a.At)
		}
	}
	return lost, nil
}

// releaseRevoked makes a lane whose lease was revoked claimable again, and reports
// whether it is due.
func (w *webhookState) releaseRevoked(l *lane) (due bool) {
	if l.deleted {
		w.removeLane(l)
		return false
	}
	w.change(l, func() { l.LeaseUntil = time.Time{} })
	return l.pending()
}

// ack applies an acknowledgement. The lane must not be in any index.
func (w *webhookState) ack(l *lane, a *store.LaneAck) {
	at := store.Time(a.At)
	l.Cursor, l.State, l.Reason = a.Cursor, a.State, a.Reason
	l.DueAt, l.Attempt, l.FailedAt = store.Time(a.DueAt), a.Attempt, store.Time(a.FailedAt)
	l.UpdatedAt = at
	if a.Delivered > 0 {
		l.Delivered += int64(a.Delivered)
		l.DeliveredAt = at
	}
	if !a.KeepLease {
		l.Worker, l.LeaseUntil = "", time.Time{}
	}
	for _, v := range a.Attempts {
		w.addAttempt(l, v)
	}
	for _, v := range a.Dead {
		w.addDeadLetter(l, v)
	}
}
