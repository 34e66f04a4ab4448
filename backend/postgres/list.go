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

// A list is the merge of one ordered walk per state: so a few indexes serve every
// filter and combination of filters, without a sort of more than a page per state,
// and at the same cost however many tasks there are. Which states there are is
// found by hopping through the index, one step per state.

// walk is a list's statement in the making.
type walk struct {
	table, group string   // the table, the column of the walks
	sort         []string // the columns that sort; then id does
	where        []string // what the index of the walk knows
	checks       []string // what is found out of each of its entries
	args         []any
	ascending    bool
	gather       bool   // count what the conditions find, in no order
	cursor       string // the condition of after
	// others, if set, writes a statement that reads up to limit rows that are part of the list
	// and do not meet walked, a condition of the index of the walk: columns of those that meet
	// some conditions. otherCursor is what cursor means for them.
	walked, otherCursor string
	others              func(columns, conditions, limit string) string
}

// arg adds an argument and returns its place with its type.
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

// all writes all conditions of the walk.
func (w *walk) all() string { return conditions(w.where, w.checks, w.walked, w.cursor) }

// conditions writes those that are not "".
func conditions(where, checks []string, more ...string) string {
	all := slices.Concat(where, checks, more)
	return strings.Join(slices.DeleteFunc(all, func(text string) bool { return text == "" }), " AND ")
}

// after continues the list behind a place: what is sorted by, and the id.
func (w *walk) after(place ...string) {
	op := "<"
	if w.ascending {
		op = ">"
	}
	w.cursor = fmt.Sprintf("(t.%s, t.id) %s (%s)", strings.Join(w.sort, ", t."), op, strings.Join(place, ", "))
	w.otherCursor = w.cursor
}

// order writes what is sorted by.
func (w *walk) order() string {
	dir := " DESC"
	if w.ascending {
		dir = " ASC"
	}
	return "t." + strings.Join(w.sort, dir+", t.") + dir + ", t.id" + dir
}

// between bounds a column of times, which are rounded down as they are stored.
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

// groups writes the values of the group column that the list may find: those that
// are given, else those that there are under the conditions.
func (w *walk) groups(given []string, under string) string {
	if len(given) > 0 {
		given = slices.Compact(slices.Sorted(slices.Values(given)))
		return fmt.Sprintf("g(v) AS (SELECT unnest(%s))", w.arg(given, "text[]"))
	}
	next := fmt.Sprintf("SELECT n.%[1]s FROM {s}.%[2]s n WHERE %[3]s%%s ORDER BY n.%[1]s LIMIT 1", w.group, w.table, under)
	return fmt.Sprintf(`g(v) AS ((%s) UNION ALL SELECT (%s) FROM g WHERE g.v IS NOT NULL)`, fmt.Sprintf(next, ""), fmt.Sprintf(next, " AND n."+w.group+" > g.v"))
}

// rows writes the statement that reads columns of up to limit rows in order.
func (w *walk) rows(columns, groups string, limit, offset int) string {
	n, skip := w.arg(limit, "bigint"), w.arg(offset, "bigint")
	if w.others != nil {
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

// merged is rows for a walk that does not find all.
func (w *walk) merged(columns, groups, n, skip string) string {
	text := fmt.Sprintf("SELECT t.* FROM {s}.%s t WHERE %s", w.table, w.all())
	order := fmt.Sprintf(" ORDER BY %s LIMIT %s + %s", w.order(), n, skip)
	if groups == "" {
		text = "(" + text + order + ")"
	} else {
		text = fmt.Sprintf("SELECT t.* FROM g CROSS JOIN LATERAL (%s AND t.%s = g.v%s) t", text, w.group, order)
		groups = "WITH RECURSIVE " + groups + " "
	}
	others := w.others("t.*", conditions(w.where, w.checks, w.otherCursor), n+" + "+skip)
	return fmt.Sprintf("%sSELECT %s FROM (%s UNION ALL %s) t ORDER BY %s LIMIT %s OFFSET %s",
		groups, columns, text, others, w.order(), n, skip)
}

// total writes the statement that counts what the list finds among so many entries of
// the index as store.CountRows says, and returns how many entries those were, too.
func (w *walk) total(groups string, limit int) string {
	match := "true"
	if len(w.checks) > 0 {
		match = strings.Join(w.checks, " AND ")
	}
	rows := w.arg(store.CountRows(limit, w.exact()), "bigint")
	text := fmt.Sprintf("SELECT %s AS m FROM {s}.%s t WHERE %s", match, w.table, conditions(w.where, nil, w.walked))
	order := "" // has it take the index, in whatever state the table was when it was planned
	if !w.gather {
		order = " ORDER BY " + w.order()
	}
	if groups != "" {
		text = fmt.Sprintf("SELECT n.m FROM g CROSS JOIN LATERAL (%s AND t.%s = g.v%s LIMIT %s) n", text, w.group, order, rows)
		groups, order = "WITH RECURSIVE "+groups+" ", ""
	}
	if w.others != nil {
		others := w.others(match+" AS m", conditions(w.where, nil), rows)
		text, order = fmt.Sprintf("%s UNION ALL (%s%s LIMIT %s)", others, text, order, rows), ""
	}
	return fmt.Sprintf("%sSELECT count(*) FILTER (WHERE c.m), count(*) FROM (%s%s LIMIT %s) c", groups, text, order, rows)
}

// exact reports whether everything on the walk is part of the list.
func (w *walk) exact() bool { return len(w.checks) == 0 }

// countWalk runs the statement of total.
func (s *Store) countWalk(ctx context.Context, c *pgx.Conn, w *walk, groups string, limit int) (total int, capped bool, err error) {
	text := w.total(groups, limit)
	err = s.planned(ctx, c, w.gather, text, func(r record) error {
		total, capped = store.CapTotal(int(r.int(0)), int(r.int(1)), limit, w.exact())
		return nil
	}, w.args...)
	return total, capped, err
}

// countedBy returns the query with the order in whose index the fewest entries are read
// to count what it finds.
func countedBy(q store.Query) *store.Query {
	q.ByCreated = q.After.IsZero() && q.Before.IsZero() && (!q.CreatedAfter.IsZero() || !q.CreatedBefore.IsZero())
	return &q
}

// taskWalk begins the list of a query. Its groups are "" where one walk will do.
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
		w.walked, w.others = "NOT t.first", func(columns, conditions, _ string) string {
			return ofFirstTask(columns, owner, id) + " AND " + conditions + of
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

// Tasks implements store.Store. A page is read with two statements: its rows, which callers that
// ask for the same page share, and their logs as they stood then.
func (s *Store) Tasks(ctx context.Context, q store.Query) (page store.Page, err error) {
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
	found, err := s.pages.do(ctx, key, func(ctx context.Context) (found listRows, err error) {
		err = s.readList(ctx, "list tasks", func(ctx context.Context, c *pgx.Conn) (err error) {
			found = listRows{total: -1}
			if q.Total {
				if found.total, found.capped, err = s.countTasks(ctx, c, q); err != nil {
					return err
				}
			}
			return s.each(ctx, c, text, func(r record) error {
				var t taskRow
				t.scan(r)
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
	if err := s.fill(ctx, &q, rows, &page); err != nil {
		return store.Page{}, err
	}
	return page, nil
}

// countTasks counts what a query finds.
func (s *Store) countTasks(ctx context.Context, c *pgx.Conn, q store.Query) (total int, capped bool, err error) {
	w, groups := taskWalk(countedBy(q))
	return s.countWalk(ctx, c, w, groups, q.TotalLimit)
}

func cursorOf(q *store.Query, t *taskRow) *store.Cursor {
	if q.ByCreated {
		return &store.Cursor{Time: fromMillis(t.createdAt), ID: t.key.ID}
	}
	return &store.Cursor{Time: fromMillis(t.stateAt), ID: t.key.ID}
}

// fillRows is how many logs are read at once where the page is bounded by bytes.
const fillRows = 32

// fill reads the logs of a page's rows, as far as its bytes allow.
func (s *Store) fill(ctx context.Context, q *store.Query, rows []taskRow, page *store.Page) error {
	step := len(rows)
	if q.Bytes > 0 {
		step = fillRows
	}
	page.Tasks = make([]*store.Task, 0, len(rows))
	size := 0
	for i := 0; i < len(rows); i += step {
		some := rows[i:min(i+step, len(rows))]
		tasks, sizes, err := s.listed(ctx, q, some)
		if err != nil {
			return err
		}
		for j, t := range tasks {
			if t == nil {
				continue
			}
			page.Tasks = append(page.Tasks, t)
			if size += sizes[j]; q.Bytes > 0 && size > q.Bytes && i+j+1 < len(rows) {
				page.Next = cursorOf(q, &some[j])
				return nil
			}
		}
	}
	return nil
}

// listed returns the tasks of rows, nil for one that was removed since, and how much of the
// page each takes. It reads the logs of those that the caller does not know.
func (s *Store) listed(ctx context.Context, q *store.Query, rows []taskRow) (tasks []*store.Task, sizes []int, err error) {
	tasks, sizes = make([]*store.Task, len(rows)), make([]int, len(rows))
	unknown, places := rows, []int(nil)
	if q.Known != nil || q.Options.Outline {
		unknown = nil
		for i := range rows {
			outline := rows[i].outline()
			if size, ok := q.OutlineOnly(outline); ok {
				tasks[i], sizes[i] = outline, size
				continue
			}
			unknown, places = append(unknown, rows[i]), append(places, i)
		}
	}
	if len(unknown) == 0 {
		return tasks, sizes, nil
	}
	var read []*store.Task
	err = s.readList(ctx, "list tasks", func(ctx context.Context, c *pgx.Conn) (err error) {
		read, err = s.readLogs(ctx, c, unknown, q.Options.OmitArtifacts)
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

// ceilMillis rounds up, since what is stored was rounded down.
func ceilMillis(t time.Time) int64 {
	if ms := t.Add(time.Millisecond - 1); ms.After(time.UnixMilli(math.MinInt64 / 2)) {
		return ms.UnixMilli()
	}
	return math.MinInt64
}
