package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// A list is the merge of one ordered index walk per state. So a few indexes serve every
// combination of filters, the server sorts at most one page per state, and the cost does not
// grow with the number of tasks. The existing states are found by a walk of the index that
// makes one step per state.

// walk builds the statement of a list.
type walk struct {
	table, group string   // the table, and the column with one walk per value
	sort         []string // the sort columns before id
	where        []string // conditions on columns of the index
	checks       []string // conditions on each row
	args         []any
	ascending    bool
	unordered    bool   // total counts without an order
	cursor       string // the condition added by after
	// The index of the walk contains only rows that satisfy walkFilter. If set, extraRows returns
	// a statement for the other rows of the list: columns of up to limit rows that satisfy
	// conditions. extraCursor replaces cursor for them.
	walkFilter, extraCursor string
	extraRows               func(columns, conditions, limit string) string
}

// arg adds an argument and returns its placeholder with its type.
func (w *walk) arg(v any, kind string) string {
	w.args = append(w.args, v)
	return fmt.Sprintf("$%d::%s", len(w.args), kind)
}

func (w *walk) filter(format string, args ...any) {
	w.where = append(w.where, fmt.Sprintf(format, args...))
}

func (w *walk) check(format string, args ...any) {
	w.checks = append(w.checks, fmt.Sprintf(format, args...))
}

// all returns all conditions of the walk.
func (w *walk) all() string { return conditions(w.where, w.checks, w.walkFilter, w.cursor) }

// conditions joins the conditions that are not empty.
func conditions(where, checks []string, more ...string) string {
	all := slices.Concat(where, checks, more)
	return strings.Join(slices.DeleteFunc(all, func(text string) bool { return text == "" }), " AND ")
}

// after starts the list after a position: the values of the sort columns and the id.
func (w *walk) after(place ...string) {
	op := "<"
	if w.ascending {
		op = ">"
	}
	w.cursor = fmt.Sprintf("(t.%s, t.id) %s (%s)", strings.Join(w.sort, ", t."), op, strings.Join(place, ", "))
	w.extraCursor = w.cursor
}

// order returns the ORDER BY list.
func (w *walk) order() string {
	dir := " DESC"
	if w.ascending {
		dir = " ASC"
	}
	return "t." + strings.Join(w.sort, dir+", t.") + dir + ", t.id" + dir
}

// between adds bounds of a time column. Stored times are rounded down.
func (w *walk) between(column string, from, to time.Time) {
	add := w.check
	if column == w.sort[0] {
		add = w.filter
	}
	if !from.IsZero() {
		add("t.%s >= %s", column, w.arg(ceilMillis(from), "bigint"))
	}
	if !to.IsZero() {
		add("t.%s < %s", column, w.arg(ceilMillis(to), "bigint"))
	}
}

// groups returns the CTE g(v) of the values of the group column to walk: the given ones, or
// else all that exist under a condition.
func (w *walk) groups(given []string, under string) string {
	if len(given) > 0 {
		given = slices.Compact(slices.Sorted(slices.Values(given)))
		return fmt.Sprintf("g(v) AS (SELECT unnest(%s))", w.arg(given, "text[]"))
	}
	next := fmt.Sprintf("SELECT n.%[1]s FROM {s}.%[2]s n WHERE %[3]s%%s ORDER BY n.%[1]s LIMIT 1", w.group, w.table, under)
	return fmt.Sprintf(`g(v) AS ((%s) UNION ALL SELECT (%s) FROM g WHERE g.v IS NOT NULL)`, fmt.Sprintf(next, ""), fmt.Sprintf(next, " AND n."+w.group+" > g.v"))
}

// rows returns the statement that reads columns of up to limit rows in order.
func (w *walk) rows(columns, groups string, limit, offset int) string {
	n, skip := w.arg(limit, "bigint"), w.arg(offset, "bigint")
	if w.extraRows != nil {
		return w.merged(columns, groups, n, skip)
	}
	if groups == "" {
		return fmt.Sprintf("SELECT %s FROM {s}.%s t WHERE %s ORDER BY %s LIMIT %s OFFSET %s",
			columns, w.table, w.all(), w.order(), n, skip)
	}
	return fmt.Sprintf(`WITH RECURSIVE %[1]s
		SELECT %[2]s FROM g CROSS JOIN LATERAL (
			SELECT * FROM {s}.%[3]s t WHERE %[4]s AND t.%[8]s = g.v ORDER BY %[5]s LIMIT %[6]s + %[7]s) t
		ORDER BY %[5]s LIMIT %[6]s OFFSET %[7]s`,
		groups, columns, w.table, w.all(), w.order(), n, skip, w.group)
}

// merged is rows for a walk with extraRows.
func (w *walk) merged(columns, groups, n, skip string) string {
	text := fmt.Sprintf("SELECT t.* FROM {s}.%s t WHERE %s", w.table, w.all())
	order := fmt.Sprintf(" ORDER BY %s LIMIT %s + %s", w.order(), n, skip)
	if groups == "" {
		text = "(" + text + order + ")"
	} else {
		text = fmt.Sprintf("SELECT t.* FROM g CROSS JOIN LATERAL (%s AND t.%s = g.v%s) t", text, w.group, order)
		groups = "WITH RECURSIVE " + groups + " "
	}
	others := w.extraRows("t.*", conditions(w.where, w.checks, w.extraCursor), n+" + "+skip)
	return fmt.Sprintf("%sSELECT %s FROM (%s UNION ALL %s) t ORDER BY %s LIMIT %s OFFSET %s",
		groups, columns, text, others, w.order(), n, skip)
}

// total returns the statement that reads up to store.CountRows index entries, and returns the
// number of those that are part of the list and the number of those that were read.
func (w *walk) total(groups string, limit int) string {
	match := "true"
	if len(w.checks) > 0 {
		match = strings.Join(w.checks, " AND ")
	}
	rows := w.arg(store.CountRows(limit, w.exact()), "bigint")
	text := fmt.Sprintf("SELECT %s AS m FROM {s}.%s t WHERE %s", match, w.table, conditions(w.where, nil, w.walkFilter))
	order := "" // makes the planner use the index, even if the table was empty when it planned
	if !w.unordered {
		order = " ORDER BY " + w.order()
	}
	if groups != "" {
		text = fmt.Sprintf("SELECT n.m FROM g CROSS JOIN LATERAL (%s AND t.%s = g.v%s LIMIT %s) n", text, w.group, order, rows)
		groups, order = "WITH RECURSIVE "+groups+" ", ""
	}
	if w.extraRows != nil {
		others := w.extraRows(match+" AS m", conditions(w.where, nil), rows)
		text, order = fmt.Sprintf("%s UNION ALL (%s%s LIMIT %s)", others, text, order, rows), ""
	}
	return fmt.Sprintf("%sSELECT count(*) FILTER (WHERE c.m), count(*) FROM (%s%s LIMIT %s) c", groups, text, order, rows)
}

// exact reports whether all rows of the walk are part of the list.
func (w *walk) exact() bool { return len(w.checks) == 0 }

// countWalk runs the statement of total.
func (s *taskStore) countWalk(ctx context.Context, c *pgx.Conn, w *walk, groups string, limit int) (total int, capped bool, err error) {
	text := w.total(groups, limit)
	err = s.eachRowPlanned(ctx, c, w.unordered, text, func(r record) error {
		total, capped = store.CapTotal(int(r.int(0)), int(r.int(1)), limit, w.exact())
		return nil
	}, w.args...)
	return total, capped, err
}

// countQuery returns the query in the order of the index that counts its results with the fewest entries.
func countQuery(q store.Query) *store.Query {
	q.ByCreated = q.After.IsZero() && q.Before.IsZero() && (!q.CreatedAfter.IsZero() || !q.CreatedBefore.IsZero())
	return &q
}

// taskWalk returns the walk of a query and the CTE of its states, "" if it needs only one walk.
func taskWalk(q *store.Query) (w *walk, groups string) {
	w = &walk{table: "task_rows", group: "state", sort: []string{"state_at"}, ascending: q.Ascending}
	if q.ByCreated {
		w.sort[0] = "created_at"
	}
	owner := w.arg(q.Owner, "text")
	w.filter("t.owner = %s", owner)
	under := "n.owner = " + owner
	if q.ContextID != "" {
		id := w.arg(q.ContextID, "text")
		w.filter("t.context_id = %s", id)
		under += " AND n.context_id = " + id + " AND NOT n.first"
		of := ""
		if len(q.States) > 0 && !q.ByCreated {
			of = " AND t.state IN (SELECT v FROM g)"
		}
		w.walkFilter, w.extraRows = "NOT t.first", func(columns, conditions, _ string) string {
			return firstTask(columns, owner, id) + " AND " + conditions + of
		}
	}
	states := make([]string, len(q.States))
	for i, state := range q.States {
		states[i] = string(state)
	}
	if q.ContextID != "" && q.ByCreated {
		if len(states) > 0 {
			w.check("t.state = ANY (%s)", w.arg(states, "text[]"))
		}
	} else {
		groups = w.groups(states, under)
	}
	w.between("state_at", q.After, q.Before)
	w.between("created_at", q.CreatedAfter, q.CreatedBefore)
	return w, groups
}

// Tasks implements [store.Tasks]. It reads a page with two statements: the rows, which
// concurrent callers with the same query share, and the logs up to the versions of the rows.
func (s *taskStore) Tasks(ctx context.Context, q store.Query) (page store.Page, err error) {
	page.Total = -1
	if !storable(q.Owner, q.ContextID) {
		if q.Total {
			page.Total = 0
		}
		return page, nil
	}
	w, groups := taskWalk(&q)
	if q.Cursor != nil {
		w.after(w.arg(millis(q.Cursor.Time), "bigint"), w.arg(q.Cursor.ID, "text"))
	}
	text := w.rows(rowColumns, groups, q.Limit+1, max(q.Offset, 0))
	key := w.key(fmt.Sprint(q.Total, q.TotalLimit, text))
	found, err := s.pageReads.do(ctx, key, func(ctx context.Context) (found listRows, err error) {
		err = s.readList(ctx, "list tasks", func(ctx context.Context, c *pgx.Conn) (err error) {
			found = listRows{total: -1}
			if q.Total {
				if found.total, found.capped, err = s.countTasks(ctx, c, q); err != nil {
					return err
				}
			}
			return s.eachRow(ctx, c, text, func(r record) error {
				var t taskRow
				scanTask(&t, r)
				found.rows = append(found.rows, t)
				return nil
			}, w.args...)
		})
		return found, err
	})
	if err != nil {
		return store.Page{}, err
	}
	page.Total, page.TotalCapped = found.total, found.capped
	rows := found.rows
	if len(rows) > q.Limit {
		rows = rows[:q.Limit]
		page.Next = cursorOf(&q, &rows[q.Limit-1])
	}
	if err := s.fillPage(ctx, &q, rows, &page); err != nil {
		return store.Page{}, err
	}
	return page, nil
}

// countTasks returns the number of tasks that a query finds.
func (s *taskStore) countTasks(ctx context.Context, c *pgx.Conn, q store.Query) (total int, capped bool, err error) {
	w, groups := taskWalk(countQuery(q))
	return s.countWalk(ctx, c, w, groups, q.TotalLimit)
}

func cursorOf(q *store.Query, t *taskRow) *store.Cursor {
	if q.ByCreated {
		return &store.Cursor{Time: fromMillis(t.CreatedAt), ID: t.Key.ID}
	}
	return &store.Cursor{Time: fromMillis(t.StateAt), ID: t.Key.ID}
}

// fillBatch is the number of logs that are read at once if the size of the page is limited.
const fillBatch = 32

// fillPage reads the logs of a page's rows up to its size limit.
func (s *taskStore) fillPage(ctx context.Context, q *store.Query, rows []taskRow, page *store.Page) error {
	step := len(rows)
	if q.MaxBytes > 0 {
		step = fillBatch
	}
	page.Tasks = make([]*store.Task, 0, len(rows))
	size := 0
	for i := 0; i < len(rows); i += step {
		some := rows[i:min(i+step, len(rows))]
		tasks, sizes, err := s.listTasks(ctx, q, some)
		if err != nil {
			return err
		}
		for j, t := range tasks {
			if t == nil {
				continue
			}
			page.Tasks = append(page.Tasks, t)
			if size += sizes[j]; q.MaxBytes > 0 && size > q.MaxBytes && i+j+1 < len(rows) {
				page.Next = cursorOf(q, &some[j])
				return nil
			}
		}
	}
	return nil
}

// listTasks returns the tasks of rows, nil for tasks that were removed since, and their sizes.
// It reads only the logs that the caller does not have.
func (s *taskStore) listTasks(ctx context.Context, q *store.Query, rows []taskRow) (tasks []*store.Task, sizes []int, err error) {
	tasks, sizes = make([]*store.Task, len(rows)), make([]int, len(rows))
	uncached, places := rows, []int(nil)
	if q.Cached != nil || q.Options.Outline {
		uncached = nil
		for i := range rows {
			outline := rows[i].Outline()
			if size, ok := q.OutlineOnly(outline); ok {
				tasks[i], sizes[i] = outline, size
				continue
			}
			uncached, places = append(uncached, rows[i]), append(places, i)
		}
	}
	if len(uncached) == 0 {
		return tasks, sizes, nil
	}
	var read []*store.Task
	err = s.readList(ctx, "list tasks", func(ctx context.Context, c *pgx.Conn) (err error) {
		read, err = s.readLogs(ctx, c, uncached, q.Options.OmitArtifacts)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	for i, t := range read {
		if t == nil {
			continue
		}
		t.Cut(q.Options)
		if places != nil {
			i = places[i]
		}
		tasks[i], sizes[i] = t, t.Size()
	}
	return tasks, sizes, nil
}

// ceilMillis returns t in milliseconds since 1970, rounded up, to compare with stored times,
// which are rounded down.
func ceilMillis(t time.Time) int64 {
	if ms := t.Add(time.Millisecond - 1); ms.After(time.UnixMilli(math.MinInt64 / 2)) {
		return ms.UnixMilli()
	}
	return math.MinInt64
}
