package inmem

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/holdfast-dev/holdfast/store"
)

// Tasks implements [store.Tasks].
func (s *taskStore) Tasks(ctx context.Context, q store.Query) (store.Page, error) {
	page, err := s.page(ctx, q)
	page.Fit(q)
	for i, t := range page.Tasks {
		if !t.Outline {
			page.Tasks[i] = t.Copy()
		}
	}
	return page, err
}

// page returns a page of clones, which the caller copies.
func (s *taskStore) page(ctx context.Context, q store.Query) (store.Page, error) {
	defer s.mu.RUnlock()
	page := store.Page{Total: -1}
	if err := s.read(ctx); err != nil {
		return store.Page{}, err
	}
	w := s.tasksOf(q)
	if q.Total {
		page.Total, page.TotalCapped = w.count(q.TotalLimit)
	}
	if q.Cursor != nil {
		w.skip = skipToTaskCursor(q)
	}
	found, more := w.page(q.Offset, q.Limit)
	for _, t := range found {
		page.Tasks = append(page.Tasks, t.fold.Clone())
	}
	if more && len(found) > 0 {
		page.Next = q.CursorOf(page.Tasks[len(found)-1])
	}
	return page, nil
}

// tasksOf returns the walk through the tasks that a query selects, from the start.
func (s *taskStore) tasksOf(q store.Query) walk[*task] {
	w := walk[*task]{ascending: q.Ascending}
	w.after, w.before = bounds(q.After, q.Before)
	others := [2]int64{}
	others[0], others[1] = bounds(q.CreatedAfter, q.CreatedBefore)
	otherTime := func(t *task) int64 { return millis(t.fold.CreatedAt) }
	if q.ByCreated {
		w.after, w.before, others = others[0], others[1], [2]int64{w.after, w.before}
		otherTime = func(t *task) int64 { return t.listPos.at }
	}
	o := s.owners[q.Owner]
	states := q.States
	switch {
	case o == nil:
	case q.ContextID != "":
		if c := o.contexts[q.ContextID]; c != nil && q.ByCreated {
			w.indexes = []*index[*task]{&c.byCreation}
		} else if c != nil {
			w.indexes = []*index[*task]{&c.byStatusTime}
		}
	case q.ByCreated:
		w.indexes = []*index[*task]{&o.byCreation}
	case len(states) == 0:
		w.indexes = []*index[*task]{&o.byStatusTime}
	default:
		for i, state := range states {
			if x := o.byState[state]; x != nil && !slices.Contains(states[:i], state) {
				w.indexes = append(w.indexes, x)
			}
		}
		states = nil
	}
	if len(states) > 0 || others != [2]int64{math.MinInt64, math.MaxInt64} {
		w.match = func(t *task) bool {
			at := otherTime(t)
			return at >= others[0] && at < others[1] && (len(states) == 0 || slices.Contains(states, t.listPos.state))
		}
	}
	return w
}

// skipToTaskCursor returns the skip function of a walk that continues after the query's
// cursor.
func skipToTaskCursor(q store.Query) func(entry[*task]) bool {
	at, id := ceilMillis(q.Cursor.Time), q.Cursor.ID
	return func(e entry[*task]) bool {
		c := cmp.Or(cmp.Compare(e.at, at), cmp.Compare(e.rec.fold.Key.ID, id))
		return c == 0 || c < 0 == q.Ascending
	}
}
