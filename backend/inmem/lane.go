package inmem

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// lane is a webhook and its delivery queue. Webhook.Task and Tail of the embedded Lane
// are not set; the task has them. Values are replaced, never modified in place, so they
// can be copied without the lock.
type lane struct {
	store.Lane
	task *task
	// deleted is set while a worker still holds the lease of a deleted webhook. Reads
	// do not return such lanes.
	deleted     bool
	attempts    index[*deliveryRecord[store.DeliveryAttempt]]
	deadLetters index[*deliveryRecord[store.DeadLetter]]

	pos lanePosition
}

// lanePosition records the indexes that contain a lane, and the keys it has there.
type lanePosition struct {
	listed   bool
	state    store.LaneState
	queuePos queuePosition
	// endpoint is the key in webhookState.byEndpoint, "" if the lane is not in it.
	endpoint     string
	pending      bool
	leaseBlocked bool
	worker       string // lease holder, a key of laneQueue.leases
	idleIndex    *index[*lane]
	updated      int64
}

func (l *lane) compare(m *lane) int {
	if l == m {
		return 0
	}
	return cmp.Or(l.task.owner.compare(m.task.owner), strings.Compare(l.task.fold.Key.ID, m.task.fold.Key.ID),
		strings.Compare(l.Webhook.ID, m.Webhook.ID))
}

// pending reports whether the task has events after the cursor.
func (l *lane) pending() bool { return l.Cursor.Seq < l.task.fold.Seq }

func (l *lane) heldBy(by store.LaneLease) bool {
	return l.Worker != "" && l.Worker == by.Worker && l.Fence == by.Fence
}

// leaseBlocked reports whether a lease keeps the lane from being claimed. The lease is
// either held or revoked but possibly still in use.
func (l *lane) leaseBlocked() bool { return !l.LeaseUntil.IsZero() }

// wasRevoked reports whether lease was revoked while its holder may still use it.
func (l *lane) wasRevoked(lease store.LaneLease) bool {
	return l.Worker == "" && l.leaseBlocked() && l.Fence == lease.Fence+1
}

// revokeLease revokes the current lease, if any. The lane stays blocked until the
// holder acknowledges or the lease ends.
func (l *lane) revokeLease() {
	if l.Worker != "" || !l.leaseBlocked() {
		l.Fence++
	}
	l.Worker = ""
}

// restart makes the lane active and due, and resets its failures.
func (l *lane) restart(now time.Time) {
	l.revokeLease()
	l.State, l.Reason = store.LaneActive, ""
	l.DueAt, l.Attempt, l.FailedAt = now, 0, time.Time{}
	l.UpdatedAt = now
}

// view returns the lane for readers. The result shares Webhook.Data with the store.
func (l *lane) view() store.Lane {
	v := l.Lane
	v.Webhook.Task, v.Tail = l.task.fold.Key, l.task.fold.Seq
	return v
}

// lane returns the lane of a webhook, including a deleted one, or nil.
func (t *task) lane(id string) *lane {
	for _, l := range t.lanes {
		if l.Webhook.ID == id {
			return l
		}
	}
	return nil
}

// lane returns the lane of a webhook, including a deleted one, or nil.
func (s *Store) lane(k store.Key, id string) *lane {
	if t := s.task(k); t != nil {
		return t.lane(id)
	}
	return nil
}

// change applies f to a lane and updates the indexes.
func (w *webhookState) change(l *lane, f func()) {
	w.unindex(l)
	f()
	w.index(l)
}

// index adds a lane to the indexes.
func (w *webhookState) index(l *lane) {
	pos := &l.pos
	if !l.deleted {
		pos.listed, pos.state = true, l.State
		w.stateIndex(l.State).add(0, l)
	}
	if pos.pending = l.pending() && !l.deleted; pos.pending {
		w.pending++
	}
	switch {
	case pos.pending || l.deleted:
		w.queue.add(l)
		if !l.leaseBlocked() {
			pos.endpoint = l.Webhook.Endpoint
			w.endpointIndex(pos.endpoint).add(millis(l.DueAt), l)
		}
	case l.deadLetters.len == 0 && l.task.fold.Status.State.Terminal():
		pos.updated, pos.idleIndex = millis(l.UpdatedAt), &w.idle
		if l.Webhook.LongRunning {
			pos.idleIndex = &w.idleLong
		}
		pos.idleIndex.add(pos.updated, l)
	}
}

// unindex removes a lane from the indexes. The caller must not have changed the lane
// since index; its task may have changed.
func (w *webhookState) unindex(l *lane) {
	pos := &l.pos
	if pos.listed {
		w.lanes[pos.state].remove(0, l)
	}
	if pos.pending {
		w.pending--
	}
	w.queue.remove(l)
	if pos.endpoint != "" {
		waiting := w.byEndpoint[pos.endpoint]
		waiting.remove(millis(l.DueAt), l)
		if waiting.len == 0 {
			delete(w.byEndpoint, pos.endpoint)
		}
	}
	if pos.idleIndex != nil {
		pos.idleIndex.remove(pos.updated, l)
	}
	*pos = lanePosition{}
}

func (w *webhookState) stateIndex(state store.LaneState) *index[*lane] {
	x := w.lanes[state]
	if x == nil {
		x = new(index[*lane])
		w.lanes[state] = x
	}
	return x
}

func (w *webhookState) endpointIndex(name string) *index[*lane] {
	x := w.byEndpoint[name]
	if x == nil {
		x = new(index[*lane])
		w.byEndpoint[name] = x
	}
	return x
}

// moveTails makes idle lanes of a task due after events were appended. before is the
// version of the task without these events. It reports whether a lane became due.
func (w *webhookState) moveTails(t *task, before int64) (due bool) {
	if len(t.lanes) == 0 || t.fold.Seq == before {
		return false
	}
	at := t.log[len(t.log)-1].Time
	for _, l := range t.lanes {
		if !l.deleted && l.Cursor.Seq >= before {
			w.change(l, func() { l.DueAt = at })
			due = due || l.Worker == ""
		}
	}
	return due
}

// saveWebhook creates or replaces a webhook. It retains c.Data.
func (w *webhookState) saveWebhook(t *task, c store.Webhook, cursor store.WebhookCursor, now time.Time) *lane {
	c.Task, c.CreatedAt = store.Key{}, store.Time(c.CreatedAt)
	l := t.lane(c.ID)
	if l != nil && !l.deleted {
		w.change(l, func() {
			c.CreatedAt = l.Webhook.CreatedAt
			l.Webhook = c
			l.restart(now)
		})
		return l
	}
	fence, until := now.UnixMilli(), time.Time{}
	if l != nil {
		l.revokeLease()
		fence, until = l.Fence, l.LeaseUntil
		w.removeLane(l)
	}
	l = &lane{task: t, Lane: store.Lane{
		Webhook: c, Cursor: cursor, State: store.LaneActive, DueAt: now, UpdatedAt: now, Fence: fence, LeaseUntil: until,
	}}
	t.lanes = append(t.lanes, l)
	w.index(l)
	return l
}

// removeLane removes a lane with its delivery attempts and dead letters.
func (w *webhookState) removeLane(l *lane) {
	w.removeDeliveries(l)
	w.unindex(l)
	i := slices.Index(l.task.lanes, l)
	l.task.lanes = slices.Delete(l.task.lanes, i, i+1)
}
