package inmem

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// push holds what the store knows of webhooks, apart from what tasks and owners
// hold of theirs.
type push struct {
	lanes   map[store.LaneState]*index[*lane] // by owner, task and webhook
	pending int
	queue   laneQueue
	// waiting are the pending lanes that nobody holds, by endpoint and DueAt.
	waiting map[string]*index[*lane]
	// Idle lanes may be removed once nothing has happened to them for long; by
	// UpdatedAt, those of long-running webhooks apart.
	idle, idleLong index[*lane]
	attempts       index[*note[store.PushAttempt]]
	letters        index[*note[store.DeadLetter]]
	notes          int64 // made so far
	endpoints      map[string]store.Endpoint
}

func newPush() push {
	return push{
		lanes:     make(map[store.LaneState]*index[*lane]),
		queue:     laneQueue{leases: make(map[string]int)},
		waiting:   make(map[string]*index[*lane]),
		endpoints: make(map[string]store.Endpoint),
	}
}

// watchers are those who want to know of due lanes.
type watchers struct {
	mu  sync.Mutex
	all []*func()
}

// WatchLanes implements [store.PushStore].
func (s *Store) WatchLanes(f func()) (stop func()) {
	w := &s.watchers
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(slices.Clone(w.all), &f)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all = slices.DeleteFunc(slices.Clone(w.all), func(g *func()) bool { return g == &f })
	}
}

// tell calls the watchers if lanes are due. No lock is held.
func (w *watchers) tell(due *bool) {
	if !*due {
		return
	}
	w.mu.Lock()
	all := w.all
	w.mu.Unlock()
	for _, f := range all {
		(*f)()
	}
}

// SavePush implements [store.PushStore].
func (s *Store) SavePush(ctx context.Context, c store.PushConfig, cursor store.PushCursor, now time.Time) (store.Lane, error) {
	var due bool
	c.Data = slices.Clone(c.Data)
	defer s.watchers.tell(&due)
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return store.Lane{}, err
	}
	t := s.task(c.Task)
	if t == nil {
		return store.Lane{}, store.ErrNotFound
	}
	l := s.push.savePush(t, c, cursor, store.Time(now))
	due = l.pending()
	v := l.view()
	v.Config.Data = slices.Clone(v.Config.Data)
	return v, nil
}

// savePushes saves the webhooks that a change has brought to a task.
func (p *push) savePushes(t *task, all []store.NewPush) (due bool) {
	if len(all) == 0 {
		return false
	}
	now := t.log[len(t.log)-1].Time
	for _, n := range all {
		c := store.PushConfig{
			ID: n.ID, Endpoint: n.Endpoint, Data: slices.Clone(n.Data), LongRunning: n.LongRunning, CreatedAt: now,
		}
		due = p.savePush(t, c, n.Cursor, now).pending() || due
	}
	return due
}

// DeletePush implements [store.PushStore].
func (s *Store) DeletePush(ctx context.Context, task store.Key, id string, now time.Time) (busy bool, err error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return false, err
	}
	l := s.lane(task, id)
	if l == nil {
		return false, store.ErrNotFound
	}
	if !now.Before(l.LeaseUntil) {
		s.push.removeLane(l)
		return false, nil
	}
	if !l.deleted {
		s.push.removeNotes(l)
		s.push.change(l, func() { l.deleted = true })
	}
	return true, nil
}

// ReplayPush implements [store.PushStore].
func (s *Store) ReplayPush(ctx context.Context, task store.Key, id string, cursor store.PushCursor, now time.Time) (store.PushCursor, error) {
	var due bool
	defer s.watchers.tell(&due)
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return store.PushCursor{}, err
	}
	l := s.lane(task, id)
	if l == nil || l.deleted {
		return store.PushCursor{}, store.ErrNotFound
	}
	s.push.change(l, func() {
		if l.Cursor.Seq < cursor.Seq {
			cursor = l.Cursor
		}
		for _, n := range slices.Collect(l.letters.records()) {
			if n.value.Seq > cursor.Seq {
				s.push.removeLetter(n)
			}
		}
		l.Cursor = cursor
		l.restart(store.Time(now))
	})
	due = l.pending()
	return cursor, nil
}

// WakeLanes implements [store.PushStore].
func (s *Store) WakeLanes(ctx context.Context, endpoint string, now time.Time, limit int) (int, error) {
	var due bool
	defer s.watchers.tell(&due)
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return 0, err
	}
	waiting := s.push.waiting[endpoint]
	if waiting == nil || limit <= 0 {
		return 0, nil
	}
	now = store.Time(now)
	w := walk[*lane]{indexes: []*index[*lane]{waiting}, ascending: true, after: millis(now) + 1, before: math.MaxInt64}
	woken, _ := w.page(0, limit)
	for _, l := range woken {
		s.push.change(l, func() { l.DueAt = now })
	}
	due = len(woken) > 0
	return len(woken), nil
}

// Lanes implements [store.PushStore].
func (s *Store) Lanes(ctx context.Context, q store.LaneQuery) (store.LanePage, error) {
	page, err := s.lanePage(ctx, q)
	for i := range page.Lanes {
		c := &page.Lanes[i].Config
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
		if x := s.push.lanes[state]; x != nil && !slices.Contains(states[:i], state) {
			w.indexes = append(w.indexes, x)
		}
	}
	w.skip = func(e entry[*lane]) bool { return before(e.rec, &q) }
	steps := w.begin()
	for {
		l, ok := w.next(steps)
		if !ok || q.Owner != "" && compareFilter(l, &q) > 0 {
			return page, nil
		}
		if page.More = len(page.Lanes) == q.Limit; page.More {
			return page, nil
		}
		page.Lanes = append(page.Lanes, l.view())
	}
}

// before reports whether a lane comes before the first of a page.
func before(l *lane, q *store.LaneQuery) bool {
	if q.Owner != "" && compareFilter(l, q) < 0 {
		return true
	}
	return q.After != nil && slices.Compare(l.names(), []string{q.After.Task.Owner, q.After.Task.ID, q.After.ID}) <= 0
}

// compareFilter tells where a lane stands to those that have the names of a query.
func compareFilter(l *lane, q *store.LaneQuery) int {
	names, want := l.names(), []string{q.Owner, q.TaskID, q.ID}
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

func (l *lane) names() []string {
	return []string{l.task.fold.Key.Owner, l.task.fold.Key.ID, l.Config.ID}
}
