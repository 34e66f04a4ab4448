package inmem

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// webhookState holds the webhook data of the store, except the data that tasks and
// owners hold.
type webhookState struct {
	lanes   map[store.LaneState]*index[*lane] // by owner, task and webhook
	pending int
	queue   laneQueue
	// byEndpoint indexes the pending lanes without a lease by endpoint and DueAt.
	byEndpoint map[string]*index[*lane]
	// idle and idleLong index idle lanes, which expire, by UpdatedAt. idleLong has
	// those of long-running webhooks.
	idle, idleLong index[*lane]
	attempts       index[*deliveryRecord[store.DeliveryAttempt]]
	deadLetters    index[*deliveryRecord[store.DeadLetter]]
	lastNumber     int64 // of the newest deliveryRecord
	endpoints      map[string]store.Endpoint
}

func newWebhook() webhookState {
	return webhookState{
		lanes:      make(map[store.LaneState]*index[*lane]),
		queue:      laneQueue{leases: make(map[string]int)},
		byEndpoint: make(map[string]*index[*lane]),
		endpoints:  make(map[string]store.Endpoint),
	}
}

// WatchLanes implements [store.Lanes].
func (s *Store) WatchLanes(f func()) (stop func()) { return s.watchers.Add(f) }

// notifyLanes calls the watchers if due is true. The caller holds no lock.
func (s *Store) notifyLanes(due *bool) {
	if *due {
		s.watchers.Notify()
	}
}

// SaveWebhook implements [store.Webhooks].
func (s *Store) SaveWebhook(ctx context.Context, c store.Webhook, cursor store.WebhookCursor, now time.Time) (store.Lane, error) {
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
	l := s.webhooks.saveWebhook(t, c, cursor, store.Time(now))
	due = l.pending()
	v := l.view()
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
			ID: n.ID, Endpoint: n.Endpoint, Data: slices.Clone(n.Data), LongRunning: n.LongRunning, CreatedAt: now,
		}
		due = w.saveWebhook(t, c, n.Cursor, now).pending() || due
	}
	return due
}

// DeleteWebhook implements [store.Webhooks].
func (s *Store) DeleteWebhook(ctx context.Context, task store.Key, id string, now time.Time) (busy bool, err error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return false, err
	}
	l := s.lane(task, id)
	if l == nil {
		return false, store.ErrNotFound
	}
	if !now.Before(l.LeaseUntil) {
		s.webhooks.removeLane(l)
		return false, nil
	}
	if !l.deleted {
		s.webhooks.removeDeliveries(l)
		s.webhooks.change(l, func() { l.deleted = true })
	}
	return true, nil
}

// ReplayWebhook implements [store.Webhooks].
func (s *Store) ReplayWebhook(ctx context.Context, task store.Key, id string, cursor store.WebhookCursor, now time.Time) (store.WebhookCursor, error) {
	var due bool
	defer s.notifyLanes(&due)
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return store.WebhookCursor{}, err
	}
	l := s.lane(task, id)
	if l == nil || l.deleted {
		return store.WebhookCursor{}, store.ErrNotFound
	}
	s.webhooks.change(l, func() {
		if l.Cursor.Seq < cursor.Seq {
			cursor = l.Cursor
		}
		for _, n := range slices.Collect(l.deadLetters.records()) {
			if n.value.Seq > cursor.Seq {
				s.webhooks.removeDeadLetter(n)
			}
		}
		l.Cursor = cursor
		l.restart(store.Time(now))
	})
	due = l.pending()
	return cursor, nil
}

// WakeLanes implements [store.Lanes].
func (s *Store) WakeLanes(ctx context.Context, endpoint string, now time.Time, limit int) (int, error) {
	var due bool
	defer s.notifyLanes(&due)
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return 0, err
	}
	waiting := s.webhooks.byEndpoint[endpoint]
	if waiting == nil || limit <= 0 {
		return 0, nil
	}
	now = store.Time(now)
	w := walk[*lane]{indexes: []*index[*lane]{waiting}, ascending: true, after: millis(now) + 1, before: math.MaxInt64}
	woken, _ := w.page(0, limit)
	for _, l := range woken {
		s.webhooks.change(l, func() { l.DueAt = now })
	}
	due = len(woken) > 0
	return len(woken), nil
}

// Lanes implements [store.Webhooks].
func (s *Store) Lanes(ctx context.Context, q store.LaneQuery) (store.LanePage, error) {
	page, err := s.lanePage(ctx, q)
	for i := range page.Lanes {
		c := &page.Lanes[i].Webhook
		c.Data = slices.Clone(c.Data)
	}
	return page, err
}

func (s *Store) lanePage(ctx context.Context, q store.LaneQuery) (page store.LanePage, err error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return page, err
	}
	states := q.States
	if len(states) == 0 {
		states = []store.LaneState{store.LaneActive, store.LaneParked, store.LaneDisabled}
	}
	w := walk[*lane]{ascending: true, after: math.MinInt64, before: math.MaxInt64}
	for i, state := range states {
		if x := s.webhooks.lanes[state]; x != nil && !slices.Contains(states[:i], state) {
			w.indexes = append(w.indexes, x)
		}
	}
	w.skip = func(e entry[*lane]) bool { return isBefore(e.rec, &q) }
	iters := w.iterators()
	for {
		l, ok := w.next(iters)
		if !ok || q.Owner != "" && compareFilter(l, &q) > 0 {
			return page, nil
		}
		if page.More = len(page.Lanes) == q.Limit; page.More {
			return page, nil
		}
		page.Lanes = append(page.Lanes, l.view())
	}
}

// isBefore reports whether a lane sorts before the first lane of a page.
func isBefore(l *lane, q *store.LaneQuery) bool {
	if q.Owner != "" && compareFilter(l, q) < 0 {
		return true
	}
	return q.After != nil && slices.Compare(l.key(), []string{q.After.Task.Owner, q.After.Task.ID, q.After.ID}) <= 0
}

// compareFilter compares a lane with the names of a query. It returns a negative number
// if the lane sorts before all matches, 0 if it matches, and a positive number
// otherwise.
func compareFilter(l *lane, q *store.LaneQuery) int {
	names, want := l.key(), []string{q.Owner, q.TaskID, q.ID}
	for i, name := range want {
		if name == "" {
			break
		}
		if c := strings.Compare(names[i], name); c != 0 {
			return c
		}
	}
	return 0
}

func (l *lane) key() []string {
	return []string{l.task.fold.Key.Owner, l.task.fold.Key.ID, l.Webhook.ID}
}
