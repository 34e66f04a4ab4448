package inmem

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// webhookState has the indexes over the webhooks of all owners. A task has its own lanes, and an
// owner has indexes of its delivery attempts and dead letters.
type webhookState struct {
	lanes   map[store.LaneState]*index[*lane] // by owner, task and webhook
	pending int
	queue   laneQueue
	// byEndpoint indexes the pending lanes without a lease by endpoint and DueAt.
	byEndpoint map[string]*index[*lane]
	// idle and idleLong index idle lanes, which expire, by UpdatedAt. idleLong has the lanes
	// of long-running webhooks.
	idle, idleLong index[*lane]
	attempts       index[*deliveryRecord[store.DeliveryAttempt]]
	deadLetters    index[*deliveryRecord[store.DeadLetter]]
	lastNumber     int64 // of the newest deliveryRecord
	endpoints      map[string]store.Endpoint
}

// webhookStore implements [store.Webhooks] and [store.Lanes].
type webhookStore struct {
	*database
	webhookState
	watchers store.LaneWatchers
}

func newWebhookState() webhookState {
	return webhookState{
		lanes:      make(map[store.LaneState]*index[*lane]),
		queue:      laneQueue{leases: make(map[string]int)},
		byEndpoint: make(map[string]*index[*lane]),
		endpoints:  make(map[string]store.Endpoint),
	}
}

// WatchLanes implements [store.Lanes].
func (s *webhookStore) WatchLanes(f func()) (stop func()) { return s.watchers.Add(f) }

// notifyLanes calls the watchers if due is true. The caller holds no lock.
func (s *webhookStore) notifyLanes(due *bool) {
	if *due {
		s.watchers.Notify()
	}
}

// SaveWebhook implements [store.Webhooks].
func (s *webhookStore) SaveWebhook(ctx context.Context, c store.Webhook, cursor store.WebhookCursor, now time.Time) (store.Lane, error) {
	var due bool
	c.Data = slices.Clone(c.Data)
	defer s.notifyLanes(&due)
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return store.Lane{}, err
	}
	t := s.task(c.Task)
	if t == nil {
		return store.Lane{}, store.ErrNotFound
	}
	l := s.saveWebhook(t, c, cursor, now)
	due = l.Pending()
	v := l.Lane.Lane
	v.Webhook.Data = slices.Clone(v.Webhook.Data)
	return v, nil
}

// saveWebhooks saves the webhooks of a change.
func (w *webhookState) saveWebhooks(t *task, all []store.NewWebhook) (due bool) {
	if len(all) == 0 {
		return false
	}
	now := t.log[len(t.log)-1].Time
	for _, n := range all {
		c := store.Webhook{
			Task: t.fold.Key, ID: n.ID, Endpoint: n.Endpoint, Data: slices.Clone(n.Data), LongRunning: n.LongRunning, CreatedAt: now,
		}
		due = w.saveWebhook(t, c, n.Cursor, now).Pending() || due
	}
	return due
}

// DeleteWebhook implements [store.Webhooks].
func (s *webhookStore) DeleteWebhook(ctx context.Context, task store.Key, id string, now time.Time) (busy bool, err error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return false, err
	}
	l := s.lane(task, id)
	if l == nil {
		return false, store.ErrNotFound
	}
	after, busy := l.Delete(now)
	if !busy {
		s.removeLane(l)
		return false, nil
	}
	s.removeDeliveries(l)
	s.set(l, after)
	return true, nil
}

// ReplayWebhook implements [store.Webhooks].
func (s *webhookStore) ReplayWebhook(ctx context.Context, task store.Key, id string, cursor store.WebhookCursor, now time.Time) (store.WebhookCursor, error) {
	var due bool
	defer s.notifyLanes(&due)
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return store.WebhookCursor{}, err
	}
	l := s.lane(task, id)
	if l == nil || l.Deleted {
		return store.WebhookCursor{}, store.ErrNotFound
	}
	s.change(l, func() {
		l.Lane = l.Replay(cursor, now)
		for _, n := range slices.Collect(l.deadLetters.records()) {
			if n.value.Seq > l.Cursor.Seq {
				s.removeDeadLetter(n)
			}
		}
	})
	due = l.Pending()
	return l.Cursor, nil
}

// WakeLanes implements [store.Lanes].
func (s *webhookStore) WakeLanes(ctx context.Context, endpoint string, now time.Time, limit int) (int, error) {
	var due bool
	defer s.notifyLanes(&due)
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return 0, err
	}
	waiting := s.byEndpoint[endpoint]
	if waiting == nil || limit <= 0 {
		return 0, nil
	}
	now = store.Time(now)
	w := walk[*lane]{indexes: []*index[*lane]{waiting}, ascending: true, after: millis(now) + 1, before: math.MaxInt64}
	woken, _ := w.page(0, limit)
	for _, l := range woken {
		after := l.Lane
		after.DueAt = now
		s.set(l, after)
	}
	due = len(woken) > 0
	return len(woken), nil
}
