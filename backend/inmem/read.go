package inmem

import (
	"context"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Task implements [store.Store].
func (s *Store) Task(ctx context.Context, k store.Key, opts store.TaskOptions) (*store.Task, error) {
	t, err := s.clone(ctx, k)
	if err != nil {
		return nil, err
	}
	return handedOut(t, opts), nil
}

func (s *Store) clone(ctx context.Context, k store.Key) (*store.Task, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	t := s.task(k)
	if t == nil {
		return nil, store.ErrNotFound
	}
	return t.fold.Clone(), nil
}

// handedOut returns a copy of a clone, cut first so that no more is copied than
// was asked for.
func handedOut(clone *store.Task, opts store.TaskOptions) *store.Task {
	clone.Cut(opts)
	return clone.Copy()
}

// Events implements [store.Store].
func (s *Store) Events(ctx context.Context, k store.Key, after int64, limit int) ([]store.Event, error) {
	events, err := s.log(ctx, k, after, limit)
	for i := range events {
		events[i] = events[i].Copy()
	}
	return events, err
}

func (s *Store) log(ctx context.Context, k store.Key, after int64, limit int) ([]store.Event, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	t := s.task(k)
	if t == nil {
		return nil, store.ErrNotFound
	}
	n := int64(len(t.log))
	from := min(max(after, 0), n)
	to := from + min(int64(max(limit, 0)), n-from)
	return slices.Clone(t.log[from:to]), nil
}

// Tasks implements [store.Store].
func (s *Store) Tasks(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := s.page(ctx, q)
	for _, t := range page.Tasks {
		t.Cut(q.Options)
	}
	page.Fit(q)
	for i, t := range page.Tasks {
		page.Tasks[i] = t.Copy()
	}
	return page, err
}

// page returns a page of clones, which are still to be copied.
func (s *Store) page(ctx context.Context, q store.Query) (store.Page, error) {
	defer s.mu.RUnlock()
	page := store.Page{Total: -1}
	if err := s.read(ctx); err != nil {
		return store.Page{}, err
	}
	l := s.list(q)
	if q.Total {
		page.Total = l.count()
	}
	found := l.first(q.Cursor, q.Limit)
	for i, e := range found {
		if i == q.Limit {
			last := page.Tasks[i-1]
			page.Next = &store.Cursor{Time: last.Status.Timestamp, ID: last.Key.ID}
			break
		}
		page.Tasks = append(page.Tasks, e.rec.fold.Clone())
	}
	return page, nil
}

// list is what a query selects: a span of time of some indexes.
type list struct {
	indexes       []*index[*task]
	states        []a2a.TaskState // to be looked for; nil when the indexes have no others
	after, before int64
}

func (s *Store) list(q store.Query) list {
	l := list{after: math.MinInt64, before: math.MaxInt64}
	if !q.After.IsZero() {
		l.after = ceil(q.After)
	}
	if !q.Before.IsZero() {
		l.before = ceil(q.Before)
	}
	o := s.owners[q.Owner]
	switch {
	case o == nil:
	case q.ContextID != "":
		if c := o.contexts[q.ContextID]; c != nil {
			l.indexes, l.states = []*index[*task]{&c.tasks}, q.States
		}
	case len(q.States) == 0:
		l.indexes = []*index[*task]{&o.all}
	default:
		for i, state := range q.States {
			if x := o.states[state]; x != nil && !slices.Contains(q.States[:i], state) {
				l.indexes = append(l.indexes, x)
			}
		}
	}
	return l
}

// first returns the first entries of the list after a cursor, one more than n
// if there are.
func (l list) first(cursor *store.Cursor, n int) []entry[*task] {
	skip := l.skip(cursor)
	var found []entry[*task]
	for _, x := range l.indexes {
		taken := 0
		for e := range l.span(x, skip) {
			found = append(found, e)
			if taken++; taken > n {
				break
			}
		}
	}
	if len(l.indexes) > 1 {
		slices.SortFunc(found, func(a, b entry[*task]) int { return b.compare(a) })
	}
	return found[:min(len(found), n+1)]
}

// skip returns what is left out at the new end of an index; nil if nothing is.
func (l list) skip(cursor *store.Cursor) func(entry[*task]) bool {
	before := l.before
	if cursor == nil {
		if before == math.MaxInt64 {
			return nil
		}
		return func(e entry[*task]) bool { return e.at >= before }
	}
	at, id := ceil(cursor.Time), cursor.ID
	return func(e entry[*task]) bool {
		return e.at >= before || e.at > at || e.at == at && strings.Compare(e.rec.fold.Key.ID, id) >= 0
	}
}

// span yields the entries of an index that are part of the list, newest first.
func (l list) span(x *index[*task], skip func(entry[*task]) bool) iter.Seq[entry[*task]] {
	return func(yield func(entry[*task]) bool) {
		for e := range x.descend(skip) {
			if e.at < l.after {
				return
			}
			if len(l.states) > 0 && !slices.Contains(l.states, e.rec.listed.state) {
				continue
			}
			if !yield(e) {
				return
			}
		}
	}
}

func (l list) count() int {
	n := 0
	for _, x := range l.indexes {
		if len(l.states) == 0 && l.after == math.MinInt64 && l.before == math.MaxInt64 {
			n += x.len
			continue
		}
		for range l.span(x, l.skip(nil)) {
			n++
		}
	}
	return n
}

// Context implements [store.Store].
func (s *Store) Context(ctx context.Context, owner, id string) (store.Context, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return store.Context{}, err
	}
	if o := s.owners[owner]; o != nil {
		if c := o.contexts[id]; c != nil {
			return store.Context{Owner: o.name, ID: c.id, CreatedAt: moment(c.created), UpdatedAt: moment(c.updated)}, nil
		}
	}
	return store.Context{}, store.ErrNotFound
}

// moment is the inverse of millis.
func moment(at int64) time.Time {
	if at == math.MinInt64 {
		return time.Time{}
	}
	return time.UnixMilli(at).UTC()
}
