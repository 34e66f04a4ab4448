package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// contextWalk returns the walk of a query and the CTE of its statuses.
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
		groups = w.groups(statuses, "n.owner = "+owner+" AND n.status > '' AND NOT n.unmodified")
	}
	w.walkFilter = "NOT t.unmodified"
	if len(labels) == 0 && wantsStatus(q, string(a2a.ContextActive)) {
		w.extraRows = w.unmodified
	}
	w.between("created_at", q.CreatedAfter, q.CreatedBefore)
	if q.Role == store.DefaultContextRole { // contexts without labels have it, too
		w.check("(t.labels IS NULL OR t.labels @> %s)", w.arg([]int64{label(q.Owner, "role", q.Role)}, "bigint[]"))
	}
	return w, groups
}

// unmodified returns the walk over contexts that were not changed since their creation. They
// have the same order in all lists.
func (w *walk) unmodified(columns, conditions, limit string) string {
	p := walk{sort: []string{"created_at"}, ascending: w.ascending}
	return fmt.Sprintf("(SELECT %s FROM {s}.%s t WHERE %s AND t.unmodified ORDER BY %s LIMIT %s)", columns, w.table, conditions, p.order(), limit)
}

// queryLabels returns the distinct labels that a query requires.
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

// labelGroups adds the condition for labels to the walk, and returns the CTE of the statuses
// in which each label occurs. A walk of any other status would read all its contexts in vain.
func (w *walk) labelGroups(owner string, labels []int64, given []string) string {
	all := w.arg(labels, "bigint[]")
	w.check("t.labels @> %s", all)
	under := fmt.Sprintf("n.owner = %s AND n.label = u.label", owner)
	if len(given) > 0 {
		under += fmt.Sprintf(" AND n.status = ANY (%s)", w.arg(given, "text[]"))
	}
	return fmt.Sprintf(`g(v) AS MATERIALIZED (
			SELECT l.status FROM unnest(%[1]s) u(label) CROSS JOIN LATERAL (
				SELECT n.status FROM {s}.label_counters n WHERE %[2]s GROUP BY n.status HAVING sum(n.n) > 0) l
			GROUP BY l.status HAVING count(*) = cardinality(%[1]s))`, all, under)
}

// Contexts implements [store.Contexts].
func (s *contextStore) Contexts(ctx context.Context, q store.ContextQuery) (page store.ContextPage, err error) {
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
		custom := few || q.Role == store.DefaultContextRole
		return s.eachRowPlanned(ctx, c, custom, text, func(r record) error {
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

// contextRows returns the statement that reads the rows of a page and one more. It walks the
// contexts in the order of the list. If few contexts have the labels of the query, it reads all of
// these and sorts them.
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
		w.extraCursor = p.cursor
		if at.Name != "" && q.Sort == store.ContextsByName { // contexts without a name sort before it
			w.extraCursor = strconv.FormatBool(!w.ascending)
		}
	}
	columns := contextColumns(w.arg(max(q.MaxTaskIDs, 0), "bigint"))
	if few {
		return w.lookedUp(columns, groups, q.Limit+1, max(q.Offset, 0)), w.args
	}
	return w.rows(columns, groups, q.Limit+1, max(q.Offset, 0)), w.args
}

// lookedUp returns a statement as rows does. It finds all contexts by the index of labels before it
// sorts them, which is faster if there are few.
func (w *walk) lookedUp(columns, groups string, limit, offset int) string {
	return fmt.Sprintf(`WITH %s, few AS MATERIALIZED (SELECT * FROM {s}.%s t WHERE %s)
		SELECT %s FROM few t WHERE t.%s IN (SELECT v FROM g) ORDER BY %s LIMIT %s OFFSET %s`,
		groups, w.table, w.all(), columns, w.group, w.order(), w.arg(limit, "bigint"), w.arg(offset, "bigint"))
}

// walkAllowance is the number of contexts that a walk reads in the time that it takes to plan
// a statement in a transaction.
const walkAllowance = 1000

// rarest returns the number of contexts in the statuses of a query that have its rarest label,
// and whether reading all of them is faster than a walk that finds a page of them.
func (s *contextStore) rarest(ctx context.Context, c *pgx.Conn, q *store.ContextQuery) (n int, few bool, err error) {
	labels := queryLabels(q)
	if len(labels) == 0 {
		return 0, false, nil
	}
	counts, err := s.readLabelCounters(ctx, c, q.Owner, labels)
	if err != nil {
		return 0, false, err
	}
	rare := slices.MinFunc(labels, func(a, b int64) int { return sumStatuses(q, counts[a]) - sumStatuses(q, counts[b]) })
	all, err := s.readCounters(ctx, c, q.Owner)
	walked := 0
	for status, has := range counts[rare] {
		if has > 0 && wantsStatus(q, status) {
			walked += min(all[status], all[status]/has*(q.Limit+max(q.Offset, 0)))
		}
	}
	n = sumStatuses(q, counts[rare])
	return n, walked > n+walkAllowance, err
}

// wantsStatus reports whether a query includes a status.
func wantsStatus(q *store.ContextQuery, status string) bool {
	return len(q.Statuses) == 0 || slices.Contains(q.Statuses, a2a.ContextStatus(status))
}

// sumStatuses returns the sum of the counts of a query's statuses.
func sumStatuses(q *store.ContextQuery, counts map[string]int) (total int) {
	for kind, n := range counts {
		if !strings.HasPrefix(kind, "rating ") && wantsStatus(q, kind) {
			total += n
		}
	}
	return total
}

// contextTotal returns the number of contexts that a query finds, from the counters or by
// counting. rarest is the number of contexts with the query's rarest label. If it is low, the
// index of labels finds the contexts.
func (s *contextStore) contextTotal(ctx context.Context, c *pgx.Conn, q store.ContextQuery, rarest int) (total int, capped bool, err error) {
	limit, labels := q.CountLimit(), len(queryLabels(&q))
	bounded := !q.CreatedAfter.IsZero() || !q.CreatedBefore.IsZero()
	switch {
	case bounded || labels > 1 || q.Role == store.DefaultContextRole:
		q.Sort = store.ContextsByCreated
		w, groups := contextWalk(&q)
		if labels > 0 && rarest < store.TotalScan {
			w.where, w.checks, w.unordered = append(w.where, w.checks...), nil, true
		}
		return s.countWalk(ctx, c, w, groups, limit)
	case labels == 1:
		total = rarest
	default:
		counts, err := s.readCounters(ctx, c, q.Owner)
		if err != nil {
			return 0, false, err
		}
		total = sumStatuses(&q, counts)
	}
	total, capped = store.CapTotal(total, total, limit, true)
	return total, capped, nil
}

const sqlForceCustomPlan = `SELECT set_config('plan_cache_mode', 'force_custom_plan', true)`
