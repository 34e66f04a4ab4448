package inmem

import (
	"context"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

// AckLanes implements [store.Lanes].
func (s *webhookStore) AckLanes(ctx context.Context, acks ...store.LaneAck) ([]store.LaneLease, error) {
	var due bool
	defer s.notifyLanes(&due)
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return nil, err
	}
	var lost []store.LaneLease
	for i := range acks {
		a := &acks[i]
		l, verdict := s.lane(a.Lease.Task, a.Lease.ID), rules.LaneLost
		var after rules.Lane
		if l != nil {
			after, verdict = l.Ack(a)
		}
		if verdict != rules.LaneAcked {
			lost = append(lost, a.Lease)
		}
		switch verdict {
		case rules.LaneAcked:
			s.change(l, func() {
				l.Lane = after
				s.addDeliveries(l, a)
			})
			due = due || !a.KeepLease && l.Pending() && !l.DueAt.After(a.At)
		case rules.LaneReleased:
			s.set(l, after)
			due = due || l.Pending()
		case rules.LaneRemoved:
			s.removeLane(l)
		case rules.LaneLost:
		}
	}
	return lost, nil
}
