package sqlite

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// A list is the merge of one ordered walk per state: so two indexes serve every
// filter and combination of filters, without a sort and at the same cost however
// many tasks there are. Which states there are is found by hopping through the
// index, one seek per state.
const (
	sqlStates = `WITH RECURSIVE s(v) AS (
		SELECT min(state) FROM task_rows WHERE owner = ?1
		UNION ALL
		SELECT (SELECT min(state) FROM task_rows WHERE owner = ?1 AND state > s.v) FROM s WHERE s.v IS NOT NULL)
		SELECT v FROM s WHERE v IS NOT NULL`
	sqlContextStates = `WITH RECURSIVE s(v) AS (
		SELECT min(state) FROM task_rows WHERE owner = ?1 AND context_id = ?2
		UNION ALL
		SELECT (SELECT min(state) FROM task_rows WHERE owner = ?1 AND context_id = ?2 AND state > s.v) FROM s WHERE s.v IS NOT NULL)
		SELECT v FROM s WHERE v IS NOT NULL`

	sqlWalk = `SELECT state_at, id, pk FROM task_rows INDEXED BY task_rows_state
		WHERE owner = ?1 AND state = ?2 AND state_at >= ?3 AND (state_at, id) < (?4, ?5)
		ORDER BY state_at DESC, id DESC LIMIT ?6`
	sqlContextWalk = `SELECT state_at, id, pk FROM task_rows INDEXED BY task_rows_context
		WHERE owner = ?1 AND context_id = ?7 AND state = ?2 AND state_at >= ?3 AND (state_at, id) < (?4, ?5)
		ORDER BY state_at DESC, id DESC LIMIT ?6`

	sqlCount = `SELECT count(*) FROM task_rows INDEXED BY task_rows_state
		WHERE owner = ?1 AND state = ?2 AND state_at >= ?3 AND state_at < ?4`
	sqlContextCount = `SELECT count(*) FROM task_rows INDEXED BY task_rows_context
		WHERE owner = ?1 AND context_id = ?5 AND state = ?2 AND state_at >= ?3 AND state_at < ?4`
)

type listStatements struct {
	states, contextStates *stmt
	walk, contextWalk     *stmt
	count, contextCount   *stmt
}

func (l *listStatements) prepare(c *conn) error {
	return c.prepareAll(map[**stmt]string{
		&l.states: sqlStates, &l.contextStates: sqlContextStates,
		&l.walk: sqlWalk, &l.contextWalk: sqlContextWalk,
		&l.count: sqlCount, &l.contextCount: sqlContextCount,
	})
}

// place is a task's place in a list.
type place struct {
	at int64
	id string
	pk int64
}

// Tasks implements store.Store.
func (s *Store) Tasks(ctx context.Context, q store.Query) (page store.Page, err error) {
	err = s.read(ctx, func(r *reader) error {
		page, err = r.page(ctx, &q)
		return err
	})
	if err != nil {
		return store.Page{}, err
	}
	return page, nil
}

// page reads a page as of one moment.
func (r *reader) page(ctx context.Context, q *store.Query) (page store.Page, err error) {
	if _, err := r.begin.exec(); err != nil {
		return page, err
	}
	defer func() {
		_, e := r.end.exec()
		err = errors.Join(err, e)
	}()
	states, err := r.statesOf(q)
	if err != nil {
		return page, err
	}
	places, err := r.places(q, states)
	if err != nil {
		return page, err
	}
	if page.Total = -1; q.Total {
		if page.Total, err = r.total(ctx, q, states); err != nil {
			return page, err
		}
	}
	if len(places) > q.Limit {
		places = places[:q.Limit]
		last := places[q.Limit-1]
		page.Next = &store.Cursor{Time: fromMillis(last.at), ID: last.id}
	}
	page.Tasks = make([]*store.Task, 0, len(places))
	size := 0
	for i, p := range places {
		t, err := r.readTask(r.taskPK, q.Options, p.pk)
		if err != nil {
			return page, err
		}
		t.Cut(q.Options)
		page.Tasks = append(page.Tasks, t)
		if size += t.Size(); q.Bytes > 0 && size > q.Bytes && i+1 < len(places) {
			page.Next = &store.Cursor{Time: fromMillis(p.at), ID: p.id}
			break
		}
	}
	return page, nil
}

// statesOf returns the states a query may find.
func (r *reader) statesOf(q *store.Query) (states []string, err error) {
	if len(q.States) > 0 {
		for _, state := range q.States {
			states = append(states, string(state))
		}
		slices.Sort(states)
		return slices.Compact(states), nil
	}
	each := func(rec record) error {
		states = append(states, rec.text(0))
		return nil
	}
	if q.ContextID != "" {
		err = r.list.contextStates.query(context.Background(), each, q.Owner, q.ContextID)
	} else {
		err = r.list.states.query(context.Background(), each, q.Owner)
	}
	return states, err
}

// places merges the walks and returns up to one place more than the page has.
func (r *reader) places(q *store.Query, states []string) ([]place, error) {
	var all []place
	each := func(rec record) error {
		all = append(all, place{rec.int(0), rec.text(1), rec.int(2)})
		return nil
	}
	from, at, id := bounds(q)
	for _, state := range states {
		args := []any{q.Owner, state, from, at, id, int64(q.Limit) + 1}
		walk := r.list.walk
		if q.ContextID != "" {
			walk, args = r.list.contextWalk, append(args, q.ContextID)
		}
		if err := walk.query(context.Background(), each, args...); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Or(cmp.Compare(b.at, a.at), strings.Compare(b.id, a.id)) })
	return all[:min(len(all), q.Limit+1)], nil
}

// bounds returns the oldest time of a query and the place that it begins after.
func bounds(q *store.Query) (from, at int64, id string) {
	from, at = earliest, latest
	if !q.After.IsZero() {
		from = ceilMillis(q.After)
	}
	if !q.Before.IsZero() {
		at = ceilMillis(q.Before)
	}
	if c := q.Cursor; c != nil && millis(c.Time) < at {
		at, id = millis(c.Time), c.ID
	}
	return from, at, id
}

const (
	earliest = -int64(1) << 62
	latest   = int64(1) << 62
)

// ceilMillis rounds up, since what is stored was rounded down.
func ceilMillis(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

func (r *reader) total(ctx context.Context, q *store.Query, states []string) (total int, err error) {
	from, at, _ := bounds(&store.Query{After: q.After, Before: q.Before})
	for _, state := range states {
		args := []any{q.Owner, state, from, at}
		count := r.list.count
		if q.ContextID != "" {
			count, args = r.list.contextCount, append(args, q.ContextID)
		}
		err := count.query(ctx, func(rec record) error {
			total += int(rec.int(0))
			return nil
		}, args...)
		if err != nil {
			return 0, err
		}
	}
	return total, nil
}
