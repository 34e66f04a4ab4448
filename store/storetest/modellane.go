package storetest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// laneDue returns when a worker can claim the lane, and whether it can at all.
func (t *modelTask) laneDue(p store.LaneClaim, l *modelLane) (time.Time, bool) {
	if !t.pending(l) || slices.Contains(p.Skip, t.key.Owner) {
		return time.Time{}, false
	}
	due := l.DueAt
	if !l.LeaseUntil.IsZero() {
		due = l.LeaseUntil
		if p.Takeover && l.Worker != p.Worker {
			return due, true
		}
	}
	return due, !due.After(p.Now) || p.Horizon > 0 && due.After(p.Now.Add(p.Horizon))
}

func (m *model) ClaimLanes(ctx context.Context, p store.LaneClaim) ([]store.ClaimedLane, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return nil, err
	}
	due := make(map[string][]*modelLane)
	at := make(map[*modelLane]time.Time)
	m.eachLane(func(t *modelTask, l *modelLane) {
		if when, ok := t.laneDue(p, l); ok {
			due[t.key.Owner], at[l] = append(due[t.key.Owner], l), when
		}
	})
	var owners []string
	for o, lanes := range due {
		owners = append(owners, o)
		slices.SortFunc(lanes, func(a, b *modelLane) int { return cmp.Or(at[a].Compare(at[b]), compareLanes(a, b)) })
	}
	slices.SortFunc(owners, func(a, b string) int {
		if (a > p.AfterOwner) != (b > p.AfterOwner) {
			return strings.Compare(b, a) // owners after AfterOwner first
		}
		return strings.Compare(a, b)
	})
	var claimed []store.ClaimedLane
	for round := 0; len(owners) > 0; round++ {
		owners = slices.DeleteFunc(owners, func(o string) bool { return len(due[o]) <= round })
		for _, o := range owners {
			if l := due[o][round]; len(claimed) < p.Limit {
				claimed = append(claimed, m.tasks[l.Webhook.Task].claimLane(p, l))
			}
		}
	}
	return claimed, nil
}

func (t *modelTask) claimLane(p store.LaneClaim, l *modelLane) store.ClaimedLane {
	l.Worker, l.LeaseUntil, l.Fence = p.Worker, store.Time(p.Until), l.Fence+1
	c := store.ClaimedLane{Lane: t.laneView(l), Created: t.log[0].Time, ContextID: t.contextID}
	size := 0
	for _, e := range t.log[l.Cursor.Seq:] {
		if int64(e.Size()) > p.LargestRow() {
			break
		}
		c.Events = append(c.Events, e.Copy())
		if size += e.Size(); len(c.Events) >= p.Events || p.Bytes > 0 && size > p.Bytes {
			break
		}
	}
	return c
}

func (m *model) RenewLanes(ctx context.Context, until time.Time, leases []store.LaneLease) ([]store.LaneLease, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return nil, err
	}
	var lost []store.LaneLease
	for _, lease := range leases {
		if _, l := m.lane(lease.Task, lease.ID); l != nil && l.heldBy(lease) && !l.deleted {
			l.LeaseUntil = store.Time(until)
		} else {
			lost = append(lost, lease)
		}
	}
	return lost, nil
}

func (m *model) AckLanes(ctx context.Context, acks ...store.LaneAck) ([]store.LaneLease, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return nil, err
	}
	var lost []store.LaneLease
	for _, a := range acks {
		t, l := m.lane(a.Lease.Task, a.Lease.ID)
		if l == nil || !l.heldBy(a.Lease) || l.deleted {
			lost = append(lost, a.Lease)
			if l != nil && !a.KeepLease && (l.heldBy(a.Lease) || l.revokedFrom(a.Lease)) {
				m.releaseLane(t, l)
			}
			continue
		}
		l.ack(a)
	}
	return lost, nil
}

// releaseLane releases a revoked lease, or removes the lane if its webhook was deleted.
func (m *model) releaseLane(t *modelTask, l *modelLane) {
	if l.deleted {
		t.removeLane(l)
		return
	}
	l.LeaseUntil = time.Time{}
	m.notifyWatchers()
}

func (l *modelLane) ack(a store.LaneAck) {
	l.Cursor, l.State, l.Reason, l.Attempt = a.Cursor, a.State, a.Reason, a.Attempt
	l.DueAt, l.FailedAt, l.UpdatedAt = store.Time(a.DueAt), store.Time(a.FailedAt), store.Time(a.At)
	if a.Delivered > 0 {
		l.Delivered, l.DeliveredAt = l.Delivered+int64(a.Delivered), l.UpdatedAt
	}
	if !a.KeepLease {
		l.Worker, l.LeaseUntil = "", time.Time{}
	}
	for _, tried := range a.Attempts {
		tried.At, tried.Duration = store.Time(tried.At), tried.Duration.Truncate(time.Millisecond)
		l.attempts = append(l.attempts, tried)
	}
	for _, d := range a.Dead {
		d.At = store.Time(d.At)
		l.letters = append(l.letters, d)
	}
}
