package inmem

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// ClaimLanes implements [store.Lanes].
func (s *webhookStore) ClaimLanes(ctx context.Context, p store.LaneClaim) ([]store.ClaimedLane, error) {
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
func (s *webhookStore) claimLanes(ctx context.Context, p store.LaneClaim) ([]store.ClaimedLane, error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return nil, err
	}
	if p.Limit <= 0 {
		return nil, nil
	}
	for _, l := range s.queue.promote(p.Now.UnixMilli()) {
		s.removeLane(l)
	}
	lanes := s.queue.dueLanes(p)
	claimed := make([]store.ClaimedLane, len(lanes))
	for i, l := range lanes {
		after, t := l.Lane, l.task
		after.Worker, after.LeaseUntil = p.Worker, store.Time(p.Until)
		after.Fence++
		s.set(l, after)
		events := t.log[max(l.Cursor.Seq, 0):]
		claimed[i] = store.ClaimedLane{
			Lane: l.Lane.Lane, Events: slices.Clone(events[:min(len(events), max(p.Events, 1))]),
			Created: t.fold.CreatedAt, ContextID: t.fold.ContextID,
		}
	}
	return claimed, nil
}

// RenewLanes implements [store.Lanes].
func (s *webhookStore) RenewLanes(ctx context.Context, until time.Time, leases []store.LaneLease) ([]store.LaneLease, error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return nil, err
	}
	var lost []store.LaneLease
	for _, lease := range leases {
		l := s.lane(lease.Task, lease.ID)
		if l == nil || !l.Holds(&lease) {
			lost = append(lost, lease)
			continue
		}
		after := l.Lane
		after.LeaseUntil = store.Time(until)
		s.set(l, after)
	}
	return lost, nil
}
