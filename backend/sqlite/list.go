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
	// scanLimit is the number of rows that the statement of a filtered taskWalk reads
	// before taskList falls back to scanAndSort.
	scanLimit = 2048
	// skipBatch is the number of positions that an offset skips at once.
	skipBatch = 1024

	earliest = -int64(1) << 62
	latest   = int64(1) << 62
)

// position is the position of a task in a list.
type position struct {
	at    int64
	id    string
	pk    int64
	state string // as passed to runWalk: a state, or the JSON array of several
}

func comparePositions(a, b position) int {
	return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.id, b.id))
}

// Tasks implements store.Tasks.
func (s *taskStore) Tasks(ctx context.Context, q store.Query) (page store.Page, err error) {
	err = s.readList(ctx, func(r *reader) error {
		at := s.terminal.version()
		return r.readTx(func() (err error) {
			page, err = s.page(ctx, r, &q, at)
			return err
		})
	})
	if err != nil {
		return store.Page{}, err
	}
	return page, nil
}

func (s *taskStore) page(ctx context.Context, r *reader, q *store.Query, at int64) (page store.Page, err error) {
	l, err := r.newTaskList(q)
	if err != nil {
		return page, err
	}
	if page.Total = -1; q.Total {
		if page.Total, page.TotalCapped, err = l.total(ctx); err != nil {
			return page, err
		}
	}
	positions, err := l.page(ctx)
	if err != nil {
		return page, err
	}
	if len(positions) > q.Limit {
		positions = positions[:q.Limit]
		page.Next = positions[q.Limit-1].cursor()
	}
	page.Tasks = make([]*store.Task, 0, len(positions))
	size := 0
	for i, p := range positions {
		t, bytes, err := s.listedTask(r, q, &p, at)
		if err != nil {
			return page, err
		}
		page.Tasks = append(page.Tasks, t)
		if size += bytes; q.MaxBytes > 0 && size > q.MaxBytes && i+1 < len(positions) {
			page.Next = p.cursor()
			break
		}
	}
	return page, nil
}

// listedTask reads a task of a page and returns it with its size.
func (s *taskStore) listedTask(r *reader, q *store.Query, p *position, at int64) (*store.Task, int, error) {
	if q.Cached != nil || q.Options.Outline {
		row, ok := s.terminal.get(store.Key{Owner: q.Owner, ID: p.id})
		if !ok || s.cfg.ReadOnly || row.PK != p.pk || row.State != p.state {
			var err error
			if row, err = r.rowBy(sqlSelectRowPK, p.pk); err != nil {
				return nil, 0, err
			}
			s.terminal.put(at, row)
		}
		outline := row.Outline()
		if size, ok := q.OutlineOnly(outline); ok {
			return outline, size, nil
		}
	}
	t, err := r.readTask(sqlReadTaskPK, q.Options, p.pk)
	if err != nil {
		return nil, 0, err
	}
	t.Cut(q.Options)
	return t, t.Size(), nil
}

func (p position) cursor() *store.Cursor { return &store.Cursor{Time: fromMillis(p.at), ID: p.id} }

// taskList reads one page of a list of tasks.
type taskList struct {
	*reader
	q    *store.Query
	kind taskWalk
	// states are the states to read. requested is the JSON array of the states in the
	// query.
	states    []string
	requested string
	first     *firstTask // of the context, nil unless the list contains it
	// sorted bounds the time by which the list is sorted: the status time or the creation
	// time. other bounds the other of these times.
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

// ceilMillis returns t in milliseconds, rounded up, because stored times were rounded
// down.
func ceilMillis(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

func (s span) unbounded() bool { return s == span{earliest, latest} }

func (s span) contains(at int64) bool { return at >= s.from && at < s.before }

func (r *reader) newTaskList(q *store.Query) (*taskList, error) {
	l := &taskList{
		reader: r, q: q, requested: "[]",
		sorted: spanOf(q.After, q.Before), other: spanOf(q.CreatedAfter, q.CreatedBefore),
		kind: taskWalk{created: q.ByCreated, context: q.ContextID != "", ascending: q.Ascending},
	}
	if q.ByCreated {
		l.sorted, l.other = l.other, l.sorted
	}
	l.kind.filtered = !l.other.unbounded() || q.ByCreated && len(q.States) > 0
	if err := l.findStates(); err != nil || !l.kind.context {
		return l, err
	}
	first, err := r.firstTask(store.ContextKey{Owner: q.Owner, ID: q.ContextID})
	if first.PK != 0 && l.matches(&first) {
		l.first = &first
	}
	return l, err
}

// findStates sets the states to read. If the query names none, it finds the existing
// ones with one index seek per state.
func (l *taskList) findStates() (err error) {
	if len(l.q.States) > 0 {
		for _, state := range l.q.States {
			l.states = append(l.states, string(state))
		}
		slices.Sort(l.states)
		l.states = slices.Compact(l.states)
		buf, err := wire.Marshal(l.states)
		l.requested = string(buf)
		return err
	}
	if l.kind.created && !l.kind.filtered && !l.q.Total {
		return nil // walk and count do not use the states
	}
	each := func(rec record) error {
		l.states = append(l.states, rec.text(0))
		return nil
	}
	if l.kind.context {
		return l.query(sqlContextStates, each, l.q.Owner, l.q.ContextID)
	}
	return l.query(sqlStates, each, l.q.Owner)
}

func (l *taskList) matches(f *firstTask) bool {
	status, created := l.sorted, l.other
	if l.q.ByCreated {
		status, created = created, status
	}
	return status.contains(f.StateAt) && created.contains(f.CreatedAt) && (len(l.q.States) == 0 || slices.Contains(l.states, f.State))
}

// page returns the positions of the page and, if more follow, one after it.
func (l *taskList) page(ctx context.Context) ([]position, error) {
	start := position{at: l.sorted.before}
	if l.kind.ascending {
		start.at = l.sorted.from
	}
	if c := l.q.Cursor; c != nil {
		if at := (position{at: millis(c.Time), id: c.ID}); l.later(start, at) {
			start = at
		}
	}
	for left := l.q.Offset; left > 0; left -= skipBatch {
		skipped, err := l.after(ctx, start, min(left, skipBatch))
		if err != nil || len(skipped) < min(left, skipBatch) {
			return nil, err
		}
		start = skipped[len(skipped)-1]
	}
	return l.after(ctx, start, l.q.Limit+1)
}

// later reports whether b follows a in the list.
func (l *taskList) later(a, b position) bool {
	if l.kind.ascending {
		return comparePositions(a, b) < 0
	}
	return comparePositions(a, b) > 0
}

// after returns the first n positions after start.
func (l *taskList) after(ctx context.Context, start position, n int) (positions []position, err error) {
	states := l.states
	if l.kind.created {
		states = []string{l.requested}
	}
	limited := false
	for _, state := range states {
		before := len(positions)
		if positions, err = l.runWalk(ctx, l.kind.walk(), state, start, n, positions); err != nil {
			return nil, err
		}
		if l.kind.filtered && len(positions)-before < n {
			past, err := l.runWalk(ctx, l.kind.pastLimit(), state, start, n, nil)
			if err != nil {
				return nil, err
			}
			limited = limited || len(past) > 0
		}
	}
	if limited {
		if positions, err = l.scanAndSort(ctx, start, n); err != nil {
			return nil, err
		}
	}
	if f := l.first; f != nil {
		p := position{at: f.StateAt, id: f.ID, pk: f.PK, state: f.State}
		if l.kind.created {
			p.at = f.CreatedAt
		}
		if l.later(start, p) {
			positions = append(positions, p)
		}
	}
	slices.SortFunc(positions, func(a, b position) int {
		if l.kind.ascending {
			return comparePositions(a, b)
		}
		return comparePositions(b, a)
	})
	return positions[:min(len(positions), n)], nil
}

func (l *taskList) scanAndSort(ctx context.Context, start position, n int) (positions []position, err error) {
	if !l.kind.created {
		return l.runWalk(ctx, l.kind.scanAndSort(), l.requested, start, n, nil)
	}
	for _, state := range l.states {
		if positions, err = l.runWalk(ctx, l.kind.scanAndSort(), state, start, n, positions); err != nil {
			return nil, err
		}
	}
	return positions, nil
}

// runWalk appends the positions that a statement finds.
func (l *taskList) runWalk(ctx context.Context, text, state string, start position, n int, positions []position) ([]position, error) {
	far := l.sorted.from
	if l.kind.ascending {
		far = l.sorted.before
	}
	err := l.queryContext(l.statementContext(ctx), text, func(rec record) error {
		positions = append(positions, position{rec.int(0), rec.text(1), rec.int(2), state})
		return nil
	}, l.q.Owner, int64(n), far, start.at, start.id, state, l.q.ContextID, l.other.from, l.other.before, int64(scanLimit))
	return positions, err
}

// statementContext returns the context for a statement. Short statements use
// context.Background, see conn.queryContext.
func (l *taskList) statementContext(ctx context.Context) context.Context {
	if l.kind.filtered || l.q.Offset > 0 {
		return ctx
	}
	return context.Background()
}

// total counts the matching tasks, up to the query's limit. It uses the index by status
// time, or the index by creation if only the creation time is bounded.
func (l *taskList) total(ctx context.Context) (total int, capped bool, err error) {
	first := 0
	if l.first != nil {
		first = 1
	}
	status, created := l.sorted, l.other
	if l.kind.created {
		status, created = created, status
	}
	kind := taskWalk{context: l.kind.context, filtered: !created.unbounded()}
	text, states := kind.count(), l.states
	if kind.filtered && status.unbounded() {
		kind.filtered = len(l.q.States) > 0
		text, states = kind.countCreated(), []string{l.requested}
	}
	limit := l.q.TotalLimit
	found, passed := first, first
	for _, state := range states {
		rows := store.CountRows(limit, !kind.filtered) - passed
		if rows <= 0 {
			break
		}
		err := l.queryContext(ctx, text, func(rec record) error {
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
