package rules

import (
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// Lane is a lane as a backend read it. Its methods return the changed lane, with times of the
// precision of stores. They do not read the Task and Data of its webhook.
type Lane struct {
	store.Lane
	// Deleted reports that the webhook was deleted while a worker could use a lease of the
	// lane. The lane then only keeps other workers from claiming a new webhook with the
	// same ID.
	Deleted bool
}

// LaneVerdict is the effect of an acknowledgement or a release on a lane.
type LaneVerdict int

const (
	// LaneLost means that the worker does not hold the lease. Nothing changes.
	LaneLost LaneVerdict = iota
	// LaneReleased means that the lease was revoked and is now released.
	LaneReleased
	// LaneRemoved means that the lease was revoked because the webhook was deleted. The lane is to
	// be removed.
	LaneRemoved
	// LaneAcked means that the worker holds the lease, and the outcome is recorded.
	LaneAcked
)

// SaveLane returns the lane of a saved webhook at now. old is the lane of the webhook with the
// same ID, or nil, and tail is the version of the task. See [store.Webhooks].
func SaveLane(w store.Webhook, cursor store.WebhookCursor, tail int64, now time.Time, old *Lane) Lane {
	now, w.CreatedAt = store.Time(now), store.Time(w.CreatedAt)
	if old != nil && !old.Deleted {
		l := old.restarted(now)
		w.CreatedAt = l.Webhook.CreatedAt
		l.Webhook = w
		return l
	}
	l := Lane{Lane: store.Lane{
		Webhook: w, Cursor: cursor, Tail: tail, State: store.LaneActive, DueAt: now, UpdatedAt: now, Fence: now.UnixMilli(),
	}}
	if old != nil {
		l.Fence, l.LeaseUntil = old.Fence, old.LeaseUntil
	}
	return l
}

// Blocked reports whether a lease keeps others from claiming the lane: a worker holds it,
// or it was revoked and is unreleased.
func (l *Lane) Blocked() bool { return !l.LeaseUntil.IsZero() }

// Holds reports whether the lease is the current one.
func (l *Lane) Holds(lease *store.LaneLease) bool {
	return l.Worker != "" && l.Worker == lease.Worker && l.Fence == lease.Fence
}

// revoked returns the lane with its lease revoked. LeaseUntil stays, so that the lane is
// blocked until the worker releases the lease or the lease expires.
func (l Lane) revoked() Lane {
	if l.Worker != "" || !l.Blocked() {
		l.Fence++
	}
	l.Worker = ""
	return l
}

// restarted returns the lane with its lease revoked, active, and due at now with no failed
// attempts.
func (l Lane) restarted(now time.Time) Lane {
	l, now = l.revoked(), store.Time(now)
	l.State, l.Reason, l.UpdatedAt = store.LaneActive, "", now
	l.DueAt, l.Attempt, l.FailedAt = now, 0, time.Time{}
	return l
}

// Append returns the lane after events were appended to the log of its task. seq is the new
// version of the task, at the time of the last of these events.
func (l Lane) Append(seq int64, at time.Time) Lane {
	if !l.Pending() {
		l.DueAt = at
	}
	l.Tail = seq
	return l
}

// Replay returns the lane after a replay from a cursor was requested at now. The lane keeps its
// own cursor if that is earlier.
func (l Lane) Replay(cursor store.WebhookCursor, now time.Time) Lane {
	l = l.restarted(now)
	if cursor.Seq <= l.Cursor.Seq {
		l.Cursor = cursor
	}
	return l
}

// Delete returns the lane after its webhook was deleted. busy reports that its lease
// has not expired at now. If it is false, the lane is to be removed.
func (l Lane) Delete(now time.Time) (after Lane, busy bool) {
	l = l.revoked()
	l.Deleted = true
	return l, now.Before(l.LeaseUntil)
}

// Ack returns the lane after an acknowledgement.
func (l Lane) Ack(a *store.LaneAck) (Lane, LaneVerdict) {
	switch {
	case l.Holds(&a.Lease):
	case a.KeepLease:
		return l, LaneLost
	default:
		return l.Release(&a.Lease)
	}
	l.Cursor, l.State, l.Reason, l.UpdatedAt = a.Cursor, a.State, a.Reason, store.Time(a.At)
	l.DueAt, l.Attempt, l.FailedAt = store.Time(a.DueAt), a.Attempt, store.Time(a.FailedAt)
	if a.Delivered > 0 {
		l.Delivered += int64(a.Delivered)
		l.DeliveredAt = l.UpdatedAt
	}
	if !a.KeepLease {
		l.Worker, l.LeaseUntil = "", time.Time{}
	}
	return l, LaneAcked
}

// Release returns the lane after a worker released a lease that was revoked.
func (l Lane) Release(lease *store.LaneLease) (Lane, LaneVerdict) {
	switch {
	case l.Worker != "" || !l.Blocked() || l.Fence != lease.Fence+1:
		return l, LaneLost
	case l.Deleted:
		return l, LaneRemoved
	}
	l.LeaseUntil = time.Time{}
	return l, LaneReleased
}
