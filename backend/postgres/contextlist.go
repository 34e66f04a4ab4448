package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// contextWalk begins the list of a query.
func contextWalk(q *store.ContextQuery) (w *walk, groups string) {
	w = &walk{table: "context_rows", group: "status", sort: []string{"updated_at"}, ascending: q.Ascending}
	switch q.Sort {
	case store.ContextsByCreated:
		w.sort = []string{"created_at"}
	case store.ContextsByName:
		w.sort = []string{"name", "created_at"}
	case store.ContextsByUpdated:
	}
	owner := w.arg(q.Owner, "text")
	w.filter("t.owner = %s", owner)
	var statuses []string
	for _, status := range q.Statuses {
		statuses = append(statuses, string(status))
	}
	labels := queryLabels(q)
	if len(labels) > 0 {
		groups = w.labelGroups(owner, labels, statuses)
	} else {
		groups = w.groups(statuses, "n.owner = "+owner+" AND n.status > '' AND NOT n.plain")
	}
	w.walked = "NOT t.plain"
	if len(labels) == 0 && asked(q, string(a2a.ContextActive)) {
		w.others = w.plain
	}
	w.between("created_at", q.CreatedAfter, q.CreatedBefore)
	if q.Role == store.DefaultContextRole { // that of contexts without labels, too
		w.check("(t.labels IS NULL OR t.labels @> %s)", w.arg([]int64{label(q.Owner, "role", q.Role)}, "bigint[]"))
	}
	return w, groups
}

// plain writes the walk over the contexts that were not changed since they were made. Their
// order is the same in all lists.
func (w *walk) plain(columns, conditions, limit string) string {
	p := walk{sort: []string{"created_at"}, ascending: w.ascending}
	return fmt.Sprintf("(SELECT %s FROM {s}.%s t WHERE %s AND t.plain ORDER BY %s LIMIT %s)", columns, w.table, conditions, p.order(), limit)
}

// queryLabels returns the labels that all contexts of a list have, each once.
func queryLabels(q *store.ContextQuery) (labels []int64) {
	for _, tag := range q.Tags {
		labels = append(labels, label(q.Owner, "tag", tag))
	}
	if q.Role != "" && q.Role != store.DefaultContextRole {
		labels = append(labels, label(q.Owner, "role", q.Role))
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

// labelGroups has the list find what has all of the labels, and writes the statuses in
// which each of them is found: to walk through one in which there is none would be to
// walk through all of it.
func (w *walk) labelGroups(owner string, labels []int64, given []string) string {
	all := w.arg(labels, "bigint[]")
	w.check("t.labels @> %s", all)
	under := fmt.Sprintf("n.owner = %s AND n.label = u.label", owner)
	if len(given) > 0 {
		under += fmt.Sprintf(" AND n.status = ANY (%s)", w.arg(given, "text[]"))
	}
	return fmt.Sprintf(`g(v) AS MATERIALIZED (
			SELECT l.status FROM unnest(%[1]s) u(label) CROSS JOIN LATERAL (
				SELECT n.status FROM {s}.label_tallies n WHERE %[2]s GROUP BY n.status HAVING sum(n.n) > 0) l
			GROUP BY l.status HAVING count(*) = cardinality(%[1]s))`, all, under)
}

// Contexts implements store.Store.
func (s *Store) Contexts(ctx context.Context, q store.ContextQuery) (page store.ContextPage, err error) {
	err = s.readList(ctx, "list contexts", func(ctx context.Context, c *pgx.Conn) error {
		page = store.ContextPage{}
		if !storable(q.Owner) {
			return nil
		}
		rarest, few, err := s.rarest(ctx, c, &q)
		if err != nil {
			return err
		}
		if page.Total, page.TotalCapped, err = s.contextTotal(ctx, c, q, rarest); err != nil {
			return err
		}
		text, args := contextRows(&q, few)
		fresh := few || q.Role == store.DefaultContextRole
		return s.planned(ctx, c, fresh, text, func(r record) error {
			found, err := scanContext(r)
			page.Contexts = append(page.Contexts, found)
			return err
		}, args...)
	})
	if err != nil {
		return store.ContextPage{}, err
	}
	if len(page.Contexts) > q.Limit {
		page.Contexts = page.Contexts[:q.Limit]
		page.Next = q.Sort.Cursor(&page.Contexts[q.Limit-1])
	}
	return page, nil
}

// contextRows is the statement that reads the rows of a page, and one after it: by a
// walk, or if the list finds few by gathering all of them.
func contextRows(q *store.ContextQuery, few bool) (text string, args []any) {
	w, groups := contextWalk(q)
	if at := q.Cursor; at != nil {
		var place []string
		if q.Sort == store.ContextsByName {
			place = append(place, w.arg([]byte(at.Name), "bytea"))
		}
		at1, at2 := w.arg(millis(at.Time), "bigint"), w.arg(at.ID, "text")
		w.after(append(place, at1, at2)...)
		p := walk{sort: []string{"created_at"}, ascending: w.ascending}
		p.after(at1, at2)
		w.otherCursor = p.cursor
		if at.Name != "" && q.Sort == store.ContextsByName { // those without a name are before it
			w.otherCursor = strconv.FormatBool(!w.ascending)
		}
	}
	columns := contextColumns(w.arg(max(q.Tasks, 0), "bigint"))
	if few {
		return w.gathered(columns, groups, q.Limit+1, max(q.Offset, 0)), w.args
	}
	return w.rows(columns, groups, q.Limit+1, max(q.Offset, 0)), w.args
}

// gathered is rows for a list that finds few: they are looked up by their labels.
func (w *walk) gathered(columns, groups string, limit, offset int) string {
	return fmt.Sprintf(`WITH %s, few AS MATERIALIZED (SELECT * FROM {s}.%s t WHERE %s)
		SELECT %s FROM few t WHERE t.%s IN (SELECT v FROM g) ORDER BY %s LIMIT %s OFFSET %s`,
		groups, w.table, w.all(), columns, w.group, w.order(), w.arg(limit, "bigint"), w.arg(offset, "bigint"))
}

// walkedAnyway is how many contexts are passed in the time that it takes to plan a
// statement and to have a transaction for it.
const walkedAnyway = 1000

// rarest returns how many contexts have the rarest label of a list, in the statuses of
// the list; and whether they are so few that reading all of them takes less than a walk
// that passes all others until a page of them is found.
func (s *Store) rarest(ctx context.Context, c *pgx.Conn, q *store.ContextQuery) (n int, few bool, err error) {
	labels := queryLabels(q)
	if len(labels) == 0 {
		return 0, false, nil
	}
	counts, err := s.labelled(ctx, c, q.Owner, labels)
	if err != nil {
		return 0, false, err
	}
	rare := slices.MinFunc(labels, func(a, b int64) int { return ofStatuses(q, counts[a]) - ofStatuses(q, counts[b]) })
	all, err := s.counted(ctx, c, q.Owner)
	walked := 0
	for status, has := range counts[rare] {
		if has > 0 && asked(q, status) {
			walked += min(all[status], all[status]/has*(q.Limit+max(q.Offset, 0)))
		}
	}
	n = ofStatuses(q, counts[rare])
	return n, walked > n+walkedAnyway, err
}

// asked reports whether a list is of a status, too.
func asked(q *store.ContextQuery, status string) bool {
	return len(q.Statuses) == 0 || slices.Contains(q.Statuses, a2a.ContextStatus(status))
}

// ofStatuses adds up the counts that are those of a list's statuses.
func ofStatuses(q *store.ContextQuery, counts map[string]int) (total int) {
	for kind, n := range counts {
		if _, feedback := rating(kind); !feedback && asked(q, kind) {
			total += n
		}
	}
	return total
}

// contextTotal returns how many contexts a list finds: by the tallies, of which rarest is
// that of its rarest label, or by a count. Where the rarest label is on few, those are
// looked up by their labels.
func (s *Store) contextTotal(ctx context.Context, c *pgx.Conn, q store.ContextQuery, rarest int) (total int, capped bool, err error) {
	limit, labels := q.CountLimit(), len(queryLabels(&q))
	bounded := !q.CreatedAfter.IsZero() || !q.CreatedBefore.IsZero()
	switch {
	case bounded || labels > 1 || q.Role == store.DefaultContextRole:
		q.Sort = store.ContextsByCreated
		w, groups := contextWalk(&q)
		if labels > 0 && rarest < store.TotalScan {
			w.where, w.checks, w.gather = append(w.where, w.checks...), nil, true
		}
		return s.countWalk(ctx, c, w, groups, limit)
	case labels == 1:
		total = rarest
	default:
		counts, err := s.counted(ctx, c, q.Owner)
		if err != nil {
			return 0, false, err
		}
		total = ofStatuses(&q, counts)
	}
	total, capped = store.CapTotal(total, total, limit, true)
	return total, capped, nil
}

// planned is each; if fresh, the statement is planned for its arguments alone.
func (s *Store) planned(ctx context.Context, c *pgx.Conn, fresh bool, text string, f func(r record) error, args ...any) error {
	if !fresh {
		return s.each(ctx, c, text, f, args...)
	}
	tx, err := c.BeginTx(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := s.exec(ctx, tx, sqlPlanFreshly); err != nil {
		return err
	}
	if !s.cfg.Pooler { // a statement that is prepared would keep its plan
		args = append([]any{pgx.QueryExecModeCacheDescribe}, args...)
	}
	return s.each(ctx, tx, text, f, args...)
}

const sqlPlanFreshly = `SELECT set_config('plan_cache_mode', 'force_custom_plan', true)`
