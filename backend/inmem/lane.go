package inmem

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

// lane is a webhook and its delivery queue. Webhook.Data is never modified, so it can be read
// without the lock.
type lane struct {
	rules.Lane
	task        *task
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
func (s *webhookStore) lane(k store.Key, id string) *lane {
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

func (w *webhookState) set(l *lane, after rules.Lane) { w.change(l, func() { l.Lane = after }) }

// index adds a lane to the indexes.
func (w *webhookState) index(l *lane) {
	pos := &l.pos
	if !l.Deleted {
		pos.listed, pos.state = true, l.State
		w.stateIndex(l.State).add(0, l)
	}
	if pos.pending = l.Pending() && !l.Deleted; pos.pending {
		w.pending++
	}
	switch {
	case pos.pending || l.Deleted:
		w.queue.add(l)
		if !l.Blocked() {
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

// moveTails moves the ends of a task's lanes after events were appended. before is the
// version of the task without these events. It reports whether a lane became due.
func (w *webhookState) moveTails(t *task, before int64) (due bool) {
	if len(t.lanes) == 0 || t.fold.Seq == before {
		return false
	}
	at := t.log[len(t.log)-1].Time
	for _, l := range t.lanes {
		after := l.Append(t.fold.Seq, at)
		if l.Pending() { // no index changes
			l.Lane = after
			continue
		}
		w.set(l, after)
		due = due || l.Worker == "" && !l.Deleted
	}
	return due
}

// saveWebhook creates or replaces a webhook. It retains c.Data.
func (w *webhookState) saveWebhook(t *task, c store.Webhook, cursor store.WebhookCursor, now time.Time) *lane {
	l := t.lane(c.ID)
	if l != nil && !l.Deleted {
		w.set(l, rules.SaveLane(c, cursor, t.fold.Seq, now, &l.Lane))
		return l
	}
	var old *rules.Lane
	if l != nil {
		old = &l.Lane
		w.removeLane(l)
	}
	l = &lane{task: t, Lane: rules.SaveLane(c, cursor, t.fold.Seq, now, old)}
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
