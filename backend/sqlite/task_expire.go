package sqlite

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	sqlTasksBefore = `SELECT owner, id, state_at FROM task_rows INDEXED BY task_rows_state
		WHERE owner = ?1 AND state = ?2 AND (state_at, id) > (?3, ?4) AND state_at < ?5 ORDER BY state_at, id LIMIT ?6`
	sqlNextOwner = `SELECT min(owner) FROM task_rows INDEXED BY task_rows_state WHERE owner > ?`
)

// expiryTimeLimit is how long a transaction removes expired tasks or contexts before it
// commits, since other requests wait for it. A commit is expensive compared to a removal,
// so batches are bounded by time rather than by a small number.
const expiryTimeLimit = 15 * time.Millisecond

// ExpireTasks implements store.Maintenance.
func (s *taskStore) ExpireTasks(ctx context.Context, p store.TaskExpiry) (removed int, next *store.ExpiryCursor, err error) {
	err = s.write(ctx, &request{weight: p.Limit, apply: func(w *writer) error {
		removed = 0
		start := time.Now()
		old, end, err := w.oldTasks(&p, p.Limit)
		if err != nil {
			return err
		}
		budget, cursor := newDeleteBudget(), store.ExpiryCursor{}
		if p.After != nil {
			cursor = *p.After
		}
		for i := range old {
			if i > 0 && time.Since(start) > expiryTimeLimit {
				next = &cursor
				return nil
			}
			deleted, ok, err := w.expireTask(&old[i], budget)
			if err != nil {
				return err
			}
			if !ok {
				next = &cursor
				return nil
			}
			if deleted {
				removed++
			}
			cursor = old[i]
		}
		next = end
		return nil
	}})
	if err != nil {
		return 0, nil, err
	}
	return removed, next, nil
}

// oldTasks returns the next tasks to check, at most limit, and where to continue. To bound
// the time for many owners, each owner counts against limit like a task.
func (w *writer) oldTasks(p *store.TaskExpiry, limit int) (old []store.ExpiryCursor, next *store.ExpiryCursor, err error) {
	cursor := store.ExpiryCursor{}
	if p.After != nil {
		cursor = *p.After
	}
	for checked := 0; ; checked++ {
		if cursor.Owner != "" {
			err = w.query(sqlTasksBefore, func(r record) error {
				cursor = store.ExpiryCursor{Owner: r.text(0), ID: r.text(1), At: fromMillis(r.int(2))}
				old = append(old, cursor)
				checked++
				return nil
			}, cursor.Owner, string(p.State), millis(cursor.At), cursor.ID, ceilMillis(p.Before), int64(limit-checked))
			if err != nil {
				return nil, nil, err
			}
		}
		if checked >= limit {
			return old, &cursor, nil
		}
		owner := ""
		err = w.query(sqlNextOwner, func(r record) error {
			owner = r.text(0)
			return nil
		}, cursor.Owner)
		if err != nil || owner == "" {
			return old, nil, err
		}
		cursor = store.ExpiryCursor{Owner: owner}
	}
}

// expireTask removes a task if it can be deleted. ok is false if the budget is spent.
func (w *writer) expireTask(p *store.ExpiryCursor, budget *deleteBudget) (removed, ok bool, err error) {
	row, found, err := w.row(store.Key{Owner: p.Owner, ID: p.ID})
	if err != nil {
		return false, false, err
	}
	refusal, err := w.checkDelete(&row, found, false)
	if err != nil || refusal != nil {
		return false, true, err
	}
	if budget.spent() {
		return false, false, nil
	}
	if removed, err = w.removeTask(&row, budget); err != nil || !removed {
		return false, false, err
	}
	_, err = w.exec(sqlSubtractTasks, int64(1), p.Owner, row.ContextID)
	return true, true, err
}
