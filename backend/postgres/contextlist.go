package postgres

import (
	"context"
	"slices"

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
	groups = w.groups(statuses, "n.owner = "+owner+" AND n.status > ''")
	w.between("created_at", q.CreatedAfter, q.CreatedBefore)
	var labels []int64
	for _, tag := range q.Tags {
		labels = append(labels, label(q.Owner, "tag", tag))
	}
	switch q.Role {
	case "":
	case store.DefaultContextRole: // that of contexts without labels, too
		w.filter("(t.labels IS NULL OR t.labels @> %s)", w.arg([]int64{label(q.Owner, "role", q.Role)}, "bigint[]"))
	default:
		labels = append(labels, label(q.Owner, "role", q.Role))
	}
	if len(labels) > 0 {
		w.filter("t.labels @> %s", w.arg(labels, "bigint[]"))
	}
	return w, groups
}

// labelled reports a list whose best plan depends on how frequent its labels are.
func labelled(q *store.ContextQuery) bool { return len(q.Tags) > 0 || q.Role != "" }

// Contexts implements store.Store.
func (s *Store) Contexts(ctx context.Context, q store.ContextQuery) (page store.ContextPage, err error) {
	err = s.read(ctx, "list contexts", func(ctx context.Context, c *pgx.Conn) error {
		page = store.ContextPage{}
		if !storable(q.Owner) {
			return nil
		}
		total, err := s.contextTotal(ctx, c, &q)
		if err != nil {
			return err
		}
		page.Total = total
		text, args := contextRows(&q)
		return s.planned(ctx, c, labelled(&q), text, func(r record) error {
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

// contextRows is the statement that reads the rows of a page, and one after it.
func contextRows(q *store.ContextQuery) (text string, args []any) {
	w, groups := contextWalk(q)
	if at := q.Cursor; at != nil {
		var place []string
		if q.Sort == store.ContextsByName {
			place = append(place, w.arg([]byte(at.Name), "bytea"))
		}
		w.after(append(place, w.arg(millis(at.Time), "bigint"), w.arg(at.ID, "text"))...)
	}
	columns := contextColumns(w.arg(max(q.Tasks, 0), "bigint"))
	text = w.rows(columns, groups, q.Limit+1, max(q.Offset, 0))
	return text, w.args
}

// contextTotal counts what a list finds: by the tallies if it is only by status,
// else one by one, which takes the longer, the more there are.
func (s *Store) contextTotal(ctx context.Context, c *pgx.Conn, q *store.ContextQuery) (total int, err error) {
	if labelled(q) || !q.CreatedAfter.IsZero() || !q.CreatedBefore.IsZero() {
		w, groups := contextWalk(q)
		err = s.planned(ctx, c, labelled(q), w.total(groups), func(r record) error {
			total = int(r.int(0))
			return nil
		}, w.args...)
		return total, err
	}
	counts, err := s.counted(ctx, c, q.Owner)
	for kind, n := range counts {
		_, feedback := rating(kind)
		if !feedback && (len(q.Statuses) == 0 || slices.ContainsFunc(q.Statuses, func(st a2a.ContextStatus) bool { return string(st) == kind })) {
			total += n
		}
	}
	return total, err
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
