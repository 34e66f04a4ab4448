package sqlite

import (
	"context"
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	sqlEmptyContexts = `SELECT owner, id, updated_at FROM context_rows INDEXED BY context_rows_empty
		WHERE task_count = 0 AND (record IS NOT NULL) = ?1 AND (updated_at, owner, id) > (?2, ?3, ?4) AND updated_at < ?5 AND bucket <> ''
		ORDER BY updated_at, owner, id LIMIT ?6`
	sqlContextChild = `SELECT 1 FROM context_rows INDEXED BY context_rows_parent
		WHERE owner = ? AND record ->> '$.parentContextId' = ? AND bucket <> '' LIMIT 1`
)

// ExpireContexts implements store.Maintenance.
func (s *contextStore) ExpireContexts(ctx context.Context, p store.ContextExpiry) (removed int, next *store.ExpiryCursor, err error) {
	err = s.write(ctx, &request{weight: p.Limit, apply: func(w *writer) error {
		removed, next = 0, nil
		start := time.Now()
		old, err := w.emptyBefore(&p, p.Limit)
		if err != nil {
			return err
		}
		if len(old) == p.Limit {
			next = &old[p.Limit-1]
		}
		for i := range old {
			if i > 0 && time.Since(start) > expiryTimeLimit {
				next = &old[i-1]
				return nil
			}
			deleted, err := w.expireContext(store.ContextKey{Owner: old[i].Owner, ID: old[i].ID})
			if err != nil {
				return err
			}
			removed += deleted
		}
		return nil
	}})
	if err != nil {
		return 0, nil, err
	}
	return removed, next, nil
}

// emptyBefore returns the next contexts that have no tasks and were last updated before
// p.Before.
func (w *contextWriter) emptyBefore(p *store.ContextExpiry, limit int) (old []store.ExpiryCursor, err error) {
	from, after := int64(math.MinInt64), store.ExpiryCursor{}
	if p.After != nil {
		from, after = millis(p.After.At), *p.After
	}
	err = w.query(sqlEmptyContexts, func(r record) error {
		old = append(old, store.ExpiryCursor{Owner: r.text(0), ID: r.text(1), At: fromMillis(r.int(2))})
		return nil
	}, number(p.Saved), from, after.Owner, after.ID, ceilMillis(p.Before), int64(limit))
	return old, err
}

// expireContext removes a context without tasks, unless it is a parent. It returns the
// number of contexts removed.
func (w *contextWriter) expireContext(k store.ContextKey) (removed int, err error) {
	parent, err := w.exists(sqlContextChild, k.Owner, k.ID)
	if err != nil || parent {
		return 0, err
	}
	c, err := w.readContextHead(k)
	if err != nil {
		return 0, err
	}
	if err := w.removeLabels(k, &c); err != nil {
		return 0, err
	}
	return 1, w.removeContext(k)
}
