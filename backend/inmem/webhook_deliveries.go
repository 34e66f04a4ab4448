package inmem

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// deliveryRecord is a delivery attempt or a dead letter. It is immutable once stored.
// Indexes sort records by negated time, the newest first.
type deliveryRecord[V any] struct {
	deliveryKey
	at    int64 // see newestFirst
	lane  *lane
	value V
}

// deliveryKey is the sort key of records with the same time.
type deliveryKey struct {
	Owner, Task, ID string
	Sequence        int64
	Attempt         int
	// Number makes keys unique.
	Number int64
}

func (k deliveryKey) compare(o deliveryKey) int {
	return cmp.Or(strings.Compare(k.Owner, o.Owner), strings.Compare(k.Task, o.Task), strings.Compare(k.ID, o.ID),
		cmp.Compare(o.Sequence, k.Sequence), cmp.Compare(o.Attempt, k.Attempt), cmp.Compare(k.Number, o.Number))
}

func (n *deliveryRecord[V]) compare(o *deliveryRecord[V]) int {
	return n.deliveryKey.compare(o.deliveryKey)
}

// newestFirst returns the index key of a time.
func newestFirst(at time.Time) int64 { return -max(millis(at), -math.MaxInt64) }

func (w *webhookState) newKey(l *lane, sequence int64, attempt int) deliveryKey {
	w.lastNumber++
	k := l.Webhook.Task
	return deliveryKey{Owner: k.Owner, Task: k.ID, ID: l.Webhook.ID, Sequence: sequence, Attempt: attempt, Number: w.lastNumber}
}

// addDeliveries adds the delivery attempts and dead letters of an acknowledgement.
func (w *webhookState) addDeliveries(l *lane, acked *store.LaneAck) {
	for _, a := range acked.Attempts {
		a.At, a.Duration = store.Time(a.At), a.Duration.Truncate(time.Millisecond)
		n := &deliveryRecord[store.DeliveryAttempt]{w.newKey(l, a.Sequence, a.Attempt), newestFirst(a.At), l, a}
		l.attempts.add(n.at, n)
		l.task.owner.attempts.add(n.at, n)
		w.attempts.add(n.at, n)
	}
	for _, d := range acked.Dead {
		d.At = store.Time(d.At)
		n := &deliveryRecord[store.DeadLetter]{w.newKey(l, d.Sequence, 0), newestFirst(d.At), l, d}
		l.deadLetters.add(n.at, n)
		l.task.owner.deadLetters.add(n.at, n)
		w.deadLetters.add(n.at, n)
	}
}

func (w *webhookState) removeAttempt(n *deliveryRecord[store.DeliveryAttempt]) {
	n.lane.attempts.remove(n.at, n)
	n.lane.task.owner.attempts.remove(n.at, n)
	w.attempts.remove(n.at, n)
}

func (w *webhookState) removeDeadLetter(n *deliveryRecord[store.DeadLetter]) {
	n.lane.deadLetters.remove(n.at, n)
	n.lane.task.owner.deadLetters.remove(n.at, n)
	w.deadLetters.remove(n.at, n)
}

// removeDeliveries removes the delivery attempts and dead letters of a lane.
func (w *webhookState) removeDeliveries(l *lane) {
	for _, n := range slices.Collect(l.attempts.records()) {
		w.removeAttempt(n)
	}
	for _, n := range slices.Collect(l.deadLetters.records()) {
		w.removeDeadLetter(n)
	}
}

// records yields the records of an index, which must not change during the iteration.
func (x *index[R]) records() iter.Seq[R] {
	return func(yield func(R) bool) {
		for e := range x.ascend(nil) {
			if !yield(e.rec) {
				return
			}
		}
	}
}

// DeadLetters implements [store.Webhooks].
func (s *webhookStore) DeadLetters(ctx context.Context, q store.WebhookQuery) (store.DeadLetterPage, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return store.DeadLetterPage{}, err
	}
	of := func(o *owner) *index[*deliveryRecord[store.DeadLetter]] { return &o.deadLetters }
	letters, next, err := deliveries(s, q, &s.deadLetters, of, func(l *lane) *index[*deliveryRecord[store.DeadLetter]] { return &l.deadLetters })
	return store.DeadLetterPage{Letters: letters, Next: next}, err
}

// DeliveryAttempts implements [store.Webhooks].
func (s *webhookStore) DeliveryAttempts(ctx context.Context, q store.WebhookQuery) (store.DeliveryAttemptPage, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return store.DeliveryAttemptPage{}, err
	}
	of := func(o *owner) *index[*deliveryRecord[store.DeliveryAttempt]] { return &o.attempts }
	attempts, next, err := deliveries(s, q, &s.attempts, of, func(l *lane) *index[*deliveryRecord[store.DeliveryAttempt]] { return &l.attempts })
	return store.DeliveryAttemptPage{Attempts: attempts, Next: next}, err
}

// deliveryCursor is a decoded page cursor: the last record of the page.
type deliveryCursor struct {
	At  int64
	Key deliveryKey
}

// deliveries returns a page of the records of all owners, of one owner, or of one lane.
func deliveries[V any](s *webhookStore, q store.WebhookQuery, all *index[*deliveryRecord[V]],
	ofOwner func(*owner) *index[*deliveryRecord[V]], ofLane func(*lane) *index[*deliveryRecord[V]],
) (values []V, next string, err error) {
	w := walk[*deliveryRecord[V]]{ascending: true, after: math.MinInt64, before: math.MaxInt64}
	if q.Cursor != "" {
		var last deliveryCursor
		raw, err := base64.RawURLEncoding.DecodeString(q.Cursor)
		if err == nil {
			err = json.Unmarshal(raw, &last)
		}
		if err != nil {
			return nil, "", a2a.Wrap(a2a.CodeInvalid, err, "malformed cursor")
		}
		end := entry[*deliveryRecord[V]]{last.At, &deliveryRecord[V]{deliveryKey: last.Key}}
		w.skip = func(e entry[*deliveryRecord[V]]) bool { return e.compare(end) <= 0 }
	}
	if q.Sequence != 0 {
		w.match = func(n *deliveryRecord[V]) bool { return n.Sequence == q.Sequence }
	}
	switch o := s.owners[q.Owner]; {
	case q.Owner == "":
		w.indexes = append(w.indexes, all)
	case o == nil:
	case q.TaskID == "":
		w.indexes = append(w.indexes, ofOwner(o))
	case o.tasks[q.TaskID] != nil:
		for _, l := range o.tasks[q.TaskID].lanes {
			if q.ID == "" || q.ID == l.Webhook.ID {
				w.indexes = append(w.indexes, ofLane(l))
			}
		}
	}
	return deliveryPage(w, q.Limit)
}

func deliveryPage[V any](w walk[*deliveryRecord[V]], limit int) (values []V, next string, err error) {
	var last *deliveryRecord[V]
	for iters := w.iterators(); ; {
		n, ok := w.next(iters)
		if !ok {
			return values, "", nil
		}
		if len(values) == limit {
			raw, err := json.Marshal(deliveryCursor{last.at, last.deliveryKey})
			return values, base64.RawURLEncoding.EncodeToString(raw), err
		}
		values, last = append(values, n.value), n
	}
}
