package sqlite

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	// walkFar is how many rows a filtered walk looks at before it gives up.
	walkFar = 2048
	// stride is how many places are skipped at once.
	stride = 1024

	earliest = -int64(1) << 62
	latest   = int64(1) << 62
)

// place is a task's place in a list.
type place struct {
	at    int64
	id    string
	pk    int64
	state string // "" if the walk did not ask for one
}

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.id, b.id))
}

// Tasks implements store.Store.
func (s *Store) Tasks(ctx context.Context, q store.Query) (page store.Page, err error) {
	err = s.readList(ctx, func(r *reader) error {
		at := s.rest.at()
		return r.atOnce(func() (err error) {
			page, err = s.page(ctx, r, &q, at)
			return err
		})
	})
	if err != nil {
		return store.Page{}, err
	}
	return page, nil
}

func (s *Store) page(ctx context.Context, r *reader, q *store.Query, at int64) (page store.Page, err error) {
	l, err := r.newTaskList(q)
	if err != nil {
		return page, err
	}
	if page.Total = -1; q.Total {
		if page.Total, page.TotalCapped, err = l.total(ctx); err != nil {
			return page, err
		}
	}
	places, err := l.page(ctx)
	if err != nil {
		return page, err
	}
	if len(places) > q.Limit {
		places = places[:q.Limit]
		page.Next = places[q.Limit-1].cursor()
	}
	page.Tasks = make([]*store.Task, 0, len(places))
	size := 0
	for i, p := range places {
		t, bytes, err := s.listed(r, q, &p, at)
		if err != nil {
			return page, err
		}
		page.Tasks = append(page.Tasks, t)
		if size += bytes; q.Bytes > 0 && size > q.Bytes && i+1 < len(places) {
			page.Next = p.cursor()
			break
		}
	}
	return page, nil
}

// listed reads a task of a page, and how much of the page it takes.
func (s *Store) listed(r *reader, q *store.Query, p *place, at int64) (*store.Task, int, error) {
	if q.Known != nil || q.Options.Outline {
		row, ok := s.rest.get(store.Key{Owner: q.Owner, ID: p.id})
		if !ok || s.cfg.ReadOnly || row.pk != p.pk || row.state != p.state {
			var err error
			if row, err = r.rowBy(r.selectRowPK, p.pk); err != nil {
				return nil, 0, err
			}
			s.rest.put(at, row)
		}
		outline := row.outline()
		if size, ok := q.OutlineOnly(outline); ok {
			return outline, size, nil
		}
	}
	t, err := r.readTask(r.taskPK, q.Options, p.pk)
	if err != nil {
		return nil, 0, err
	}
	t.Cut(q.Options)
	return t, t.Size(), nil
}

func (p place) cursor() *store.Cursor { return &store.Cursor{Time: fromMillis(p.at), ID: p.id} }

// taskList is a list of tasks that is being read.
type taskList struct {
	*reader
	q    *store.Query
	kind taskWalk
	// states are those it may find; asked is the JSON array of those asked for.
	states []string
	asked  string
	first  *firstTask
	// sorted bounds what the list is sorted by, other the other time.
	sorted, other span
}

// span is a range of times: from <= time < before.
type span struct{ from, before int64 }

func spanOf(after, before time.Time) span {
	s := span{earliest, latest}
	if !after.IsZero() {
		s.from = ceilMillis(after)
	}
	if !before.IsZero() {
		s.before = ceilMillis(before)
	}
	return s
}

// ceilMillis rounds up, since what is stored was rounded down.
func ceilMillis(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

func (s span) open() bool { return s == span{earliest, latest} }

func (s span) holds(at int64) bool { return at >= s.from && at < s.before }

// firstTask is the first task of the context that is listed, which stands in no
// index of it.
type firstTask struct {
	createdAt, stateAt int64
	id                 string
	pk                 int64
	state              string
}

func (r *reader) newTaskList(q *store.Query) (*taskList, error) {
	l := &taskList{
		reader: r, q: q, asked: "[]",
		sorted: spanOf(q.After, q.Before), other: spanOf(q.CreatedAfter, q.CreatedBefore),
		kind: taskWalk{created: q.ByCreated, context: q.ContextID != "", ascending: q.Ascending},
	}
	if q.ByCreated {
		l.sorted, l.other = l.other, l.sorted
	}
	l.kind.filtered = !l.other.open() || q.ByCreated && len(q.States) > 0
	if err := l.findStates(); err != nil || !l.kind.context {
		return l, err
	}
	err := r.contextFirst.query(context.Background(), func(rec record) error {
		f := firstTask{createdAt: rec.int(0), id: rec.text(1), pk: rec.int(2), state: rec.text(3), stateAt: rec.int(4)}
		if l.matches(&f) {
			l.first = &f
		}
		return nil
	}, q.Owner, q.ContextID)
	return l, err
}

// findStates finds which states there are by hopping through the index, one seek
// per state, unless some were asked for.
func (l *taskList) findStates() (err error) {
	if len(l.q.States) > 0 {
		for _, state := range l.q.States {
			l.states = append(l.states, string(state))
		}
		slices.Sort(l.states)
		l.states = slices.Compact(l.states)
		buf, err := wire.Marshal(l.states)
		l.asked = string(buf)
		return err
	}
	if l.kind.created && !l.kind.filtered && !l.q.Total {
		return nil // nobody asks
	}
	each := func(rec record) error {
		l.states = append(l.states, rec.text(0))
		return nil
	}
	if l.kind.context {
		return l.contextStates.query(context.Background(), each, l.q.Owner, l.q.ContextID)
	}
	return l.allStates.query(context.Background(), each, l.q.Owner)
}

func (l *taskList) matches(f *firstTask) bool {
	status, created := l.sorted, l.other
	if l.q.ByCreated {
		status, created = created, status
	}
	return status.holds(f.stateAt) && created.holds(f.createdAt) && (len(l.q.States) == 0 || slices.Contains(l.states, f.state))
}

// page returns the places of the page and, if there are more, one after it.
func (l *taskList) page(ctx context.Context) ([]place, error) {
	start := place{at: l.sorted.before}
	if l.kind.ascending {
		start.at = l.sorted.from
	}
	if c := l.q.Cursor; c != nil {
		if at := (place{at: millis(c.Time), id: c.ID}); l.later(start, at) {
			start = at
		}
	}
	for left := l.q.Offset; left > 0; left -= stride {
		skipped, err := l.after(ctx, start, min(left, stride))
		if err != nil || len(skipped) < min(left, stride) {
			return nil, err
		}
		start = skipped[len(skipped)-1]
	}
	return l.after(ctx, start, l.q.Limit+1)
}

// later reports whether b comes after a in the list.
func (l *taskList) later(a, b place) bool {
	if l.kind.ascending {
		return comparePlaces(a, b) < 0
	}
	return comparePlaces(a, b) > 0
}

// after returns the first n places after one.
func (l *taskList) after(ctx context.Context, start place, n int) (places []place, err error) {
	states := l.states
	if l.kind.created {
		states = []string{l.asked}
	}
	cut := false
	for _, state := range states {
		before := len(places)
		if places, err = l.run(ctx, l.kind.walk(), state, start, n, places); err != nil {
			return nil, err
		}
		if l.kind.filtered && len(places)-before < n {
			beyond, err := l.run(ctx, l.kind.cutOff(), state, start, n, nil)
			if err != nil {
				return nil, err
			}
			cut = cut || len(beyond) > 0
		}
	}
	if cut {
		if places, err = l.gather(ctx, start, n); err != nil {
			return nil, err
		}
	}
	if f := l.first; f != nil {
		p := place{at: f.stateAt, id: f.id, pk: f.pk, state: f.state}
		if l.kind.created {
			p.at = f.createdAt
		}
		if l.later(start, p) {
			places = append(places, p)
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		if l.kind.ascending {
			return comparePlaces(a, b)
		}
		return comparePlaces(b, a)
	})
	return places[:min(len(places), n)], nil
}

func (l *taskList) gather(ctx context.Context, start place, n int) (places []place, err error) {
	if !l.kind.created {
		return l.run(ctx, l.kind.gather(), l.asked, start, n, nil)
	}
	for _, state := range l.states {
		if places, err = l.run(ctx, l.kind.gather(), state, start, n, places); err != nil {
			return nil, err
		}
	}
	return places, nil
}

// run adds the places that a statement finds.
func (l *taskList) run(ctx context.Context, text, state string, start place, n int, places []place) ([]place, error) {
	s, err := l.list(text)
	if err != nil {
		return nil, err
	}
	far := l.sorted.from
	if l.kind.ascending {
		far = l.sorted.before
	}
	err = s.query(l.patience(ctx), func(rec record) error {
		places = append(places, place{rec.int(0), rec.text(1), rec.int(2), state})
		return nil
	}, l.q.Owner, int64(n), far, start.at, start.id, state, l.q.ContextID, l.other.from, l.other.before, int64(walkFar))
	return places, err
}

// patience is the context of a statement: a short one passes none.
func (l *taskList) patience(ctx context.Context) context.Context {
	if l.kind.filtered || l.q.Offset > 0 {
		return ctx
	}
	return context.Background()
}

// list returns the statement of a list, which is prepared when it is first used.
func (r *reader) list(text string) (*stmt, error) {
	if s := r.lists[text]; s != nil {
		return s, nil
	}
	s, err := r.prepare(text)
	if err == nil {
		r.lists[text] = s
	}
	return s, err
}

// total counts what matches, up to the query's limit: in the index of the status, and of
// what any status may have in that of the creation.
func (l *taskList) total(ctx context.Context) (total int, capped bool, err error) {
	first := 0
	if l.first != nil {
		first = 1
	}
	status, created := l.sorted, l.other
	if l.kind.created {
		status, created = created, status
	}
	kind := taskWalk{context: l.kind.context, filtered: !created.open()}
	text, states := kind.count(), l.states
	if kind.filtered && status.open() {
		kind.filtered = len(l.q.States) > 0
		text, states = kind.countCreated(), []string{l.asked}
	}
	s, err := l.list(text)
	if err != nil {
		return 0, false, err
	}
	limit := l.q.TotalLimit
	found, passed := first, first
	for _, state := range states {
		rows := store.CountRows(limit, !kind.filtered) - passed
		if rows <= 0 {
			break
		}
		err := s.query(ctx, func(rec record) error {
			found, passed = found+int(rec.int(0)), passed+int(rec.int(1))
			return nil
		}, l.q.Owner, int64(rows), status.from, status.before, "", state, l.q.ContextID, created.from, created.before, int64(0))
		if err != nil {
			return 0, false, err
		}
	}
	total, capped = store.CapTotal(found, passed, limit, !kind.filtered)
	return total, capped, nil
}
