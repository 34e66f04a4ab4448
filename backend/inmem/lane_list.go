package inmem

import (
	"context"
	"math"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/store"
)

// Lanes implements [store.Webhooks].
func (s *webhookStore) Lanes(ctx context.Context, q store.LaneQuery) (store.LanePage, error) {
	page, err := s.lanePage(ctx, q)
	for i := range page.Lanes {
		c := &page.Lanes[i].Webhook
		c.Data = slices.Clone(c.Data)
	}
	return page, err
}

func (s *webhookStore) lanePage(ctx context.Context, q store.LaneQuery) (page store.LanePage, err error) {
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
		if x := s.lanes[state]; x != nil && !slices.Contains(states[:i], state) {
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
		page.Lanes = append(page.Lanes, l.Lane.Lane)
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
	return []string{l.Webhook.Task.Owner, l.Webhook.Task.ID, l.Webhook.ID}
}

// WebhookBacklog implements [store.Webhooks].
func (s *webhookStore) WebhookBacklog(ctx context.Context) (store.WebhookBacklog, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return store.WebhookBacklog{}, err
	}
	b := store.WebhookBacklog{Pending: s.pending, Dead: s.deadLetters.len}
	if x := s.lanes[store.LaneParked]; x != nil {
		b.Parked = x.len
	}
	if x := s.lanes[store.LaneDisabled]; x != nil {
		b.Disabled = x.len
	}
	return b, nil
}
