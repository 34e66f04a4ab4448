package sqlite

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

// Reads that end early have no LIMIT, because SQLite plans a statement again whenever
// the argument of its LIMIT has changed.
const (
	sqlLogSizes = `SELECT id, octet_length(events) + coalesce(octet_length(snapshot), 0) FROM task_log WHERE id BETWEEN ? AND ? ORDER BY id`
	sqlDropLog  = `DELETE FROM task_log WHERE id BETWEEN ? AND ?`

	sqlStepRows = `SELECT id, coalesce(octet_length(result), 0) + coalesce(octet_length(artifacts), 0) FROM task_steps WHERE task_pk = ?`
	sqlDropStep = `DELETE FROM task_steps WHERE id = ?`

	sqlContentRows = `SELECT id, octet_length(data) FROM task_contents WHERE task_pk = ?`
	sqlDropContent = `DELETE FROM task_contents WHERE id = ?`

	sqlInsertRemoval   = `INSERT OR IGNORE INTO task_removals (owner, id, created_at, context_id) VALUES (?,?,?,?)`
	sqlCountDeliveries = `SELECT count(*) FROM (SELECT 1 FROM webhook_attempts INDEXED BY webhook_attempts_task WHERE task_pk = ?1
		UNION ALL SELECT 1 FROM webhook_dead INDEXED BY webhook_dead_task WHERE task_pk = ?1 LIMIT ?2)`
	sqlDropSomeAttempts = `DELETE FROM webhook_attempts WHERE pk IN
		(SELECT pk FROM webhook_attempts INDEXED BY webhook_attempts_task WHERE task_pk = ? LIMIT ?)`
	sqlDropSomeDead = `DELETE FROM webhook_dead WHERE pk IN
		(SELECT pk FROM webhook_dead INDEXED BY webhook_dead_task WHERE task_pk = ? LIMIT ?) RETURNING lane_pk`
	sqlSubtractDead = `UPDATE webhook_lanes SET dead = dead - ? WHERE pk = ?`

	sqlPendingLanes = `SELECT 1 FROM webhook_lanes INDEXED BY webhook_lanes_name WHERE owner = ? AND task_id = ? AND phase BETWEEN {ready} AND {waiting} LIMIT 1`

	sqlInsertDeleted = `INSERT INTO tasks_deleted (pk, owner, id) VALUES (?,?,?)`
	sqlDropDeleted   = `DELETE FROM tasks_deleted WHERE pk = ?`
	sqlDeletedTask   = `SELECT pk, owner, id FROM tasks_deleted WHERE pk > 0 ORDER BY pk LIMIT 1`
)

// deleteBudget is the number of rows and bytes that a transaction may still remove.
type deleteBudget struct {
	rows, bytes int64
}

func newDeleteBudget() *deleteBudget {
	return &deleteBudget{rows: store.DeleteRows, bytes: store.DeleteBytes}
}

func (d *deleteBudget) spent() bool { return d.rows <= 0 || d.bytes <= 0 }

// spend counts a row and reports whether the transaction may remove it.
func (d *deleteBudget) spend(size int64) bool {
	if d.spent() {
		return false
	}
	d.rows, d.bytes = d.rows-1, d.bytes-size
	return true
}

// DeleteTask implements store.Maintenance.
func (s *taskStore) DeleteTask(ctx context.Context, key store.Key, force bool) (more bool, err error) {
	var refusal error
	for removed := false; !removed; {
		err = s.write(ctx, &request{weight: 1, apply: func(w *writer) error {
			removed, refusal = false, nil
			row, found, err := w.row(key)
			if err != nil {
				return err
			}
			if refusal, err = w.checkDelete(&row, found, force); err != nil || refusal != nil {
				return err
			}
			budget := newDeleteBudget()
			if removed, err = w.removeTask(&row, budget); err != nil || !removed {
				return err
			}
			if _, err := w.exec(sqlSubtractTasks, int64(1), key.Owner, row.ContextID); err != nil {
				return err
			}
			more = budget.spent()
			return nil
		}})
		if err = errors.Join(err, refusal); err != nil {
			return false, err
		}
	}
	return more, nil
}

// checkDelete returns the error of a task that cannot be deleted.
func (w *writer) checkDelete(t *taskRow, found, force bool) (refusal, err error) {
	if !found {
		return rules.DeleteTask(nil, false), nil
	}
	seen, undelivered := t.Seen(), false
	if !force && t.Lanes > 0 {
		undelivered, err = w.exists(sqlPendingLanes, t.Key.Owner, t.Key.ID)
	}
	return rules.DeleteTask(&seen, undelivered), err
}

// removeTask removes a task. Content beyond the budget is left for PurgeDeleted. If the
// budget does not cover its delivery attempts and dead letters, it removes only some of
// these and returns false.
func (w *writer) removeTask(t *taskRow, budget *deleteBudget) (removed bool, err error) {
	if fits, err := w.trimDeliveries(t, budget); err != nil || !fits {
		return false, err
	}
	if err := w.stageRecentRemoval(t); err != nil {
		return false, err
	}
	if _, err := w.exec(sqlDropKeysByTask, t.Key.Owner, t.Key.ID, lookupByTask); err != nil {
		return false, err
	}
	if err := w.removeFeedback(t); err != nil {
		return false, err
	}
	if err := w.removeWebhooks(t); err != nil {
		return false, err
	}
	if _, err := w.exec(sqlDropTask, t.PK); err != nil {
		return false, err
	}
	if _, err := w.exec(sqlInsertRemoval, t.Key.Owner, t.Key.ID, t.CreatedAt, t.ContextID); err != nil {
		return false, err
	}
	w.stageRemoval(t)
	whole, err := w.removeContent(t, budget)
	if err == nil && !whole {
		_, err = w.exec(sqlInsertDeleted, t.PK, t.Key.Owner, t.Key.ID)
	}
	return true, err
}

// trimDeliveries reports whether the budget covers all delivery attempts and dead
// letters of a task. If not, it removes some of them.
func (w *laneWriter) trimDeliveries(t *taskRow, budget *deleteBudget) (fits bool, err error) {
	if t.Lanes == 0 {
		return true, nil
	}
	deliveries := int64(0)
	err = w.query(sqlCountDeliveries, func(r record) error {
		deliveries = r.int(0)
		return nil
	}, t.PK, budget.rows+1)
	if err != nil || deliveries <= budget.rows {
		budget.rows -= deliveries
		return true, err
	}
	n, err := w.exec(sqlDropSomeAttempts, t.PK, budget.rows)
	if err != nil {
		return false, err
	}
	dead := make(map[int64]int64)
	err = w.query(sqlDropSomeDead, func(r record) error {
		dead[r.int(0)]++
		return nil
	}, t.PK, budget.rows-n)
	if err == nil {
		err = w.subtractDeadLetters(dead)
	}
	budget.rows = 0
	return false, err
}

// subtractDeadLetters subtracts removed dead letters from the counts of their lanes.
func (w *laneWriter) subtractDeadLetters(removed map[int64]int64) error {
	for lane, n := range removed {
		if _, err := w.exec(sqlSubtractDead, n, lane); err != nil {
			return err
		}
	}
	return nil
}

// removeContent removes the log, steps and large values of a removed task, within the
// budget. It reports whether everything was removed.
func (w *writer) removeContent(t *taskRow, budget *deleteBudget) (whole bool, err error) {
	first, cut := t.logID(0), int64(0)
	whole = true
	err = w.query(sqlLogSizes, func(r record) error {
		if whole = budget.spend(r.int(1)); !whole {
			return errStop
		}
		cut = r.int(0)
		return nil
	}, first, t.logID(logMask))
	if err != nil && !errors.Is(err, errStop) {
		return false, err
	}
	if cut != 0 {
		if _, err := w.exec(sqlDropKeysByLog, t.Key.Owner, t.Key.ID, first, cut); err != nil {
			return false, err
		}
		if _, err := w.exec(sqlDropLog, first, cut); err != nil {
			return false, err
		}
	}
	if !whole {
		return false, nil
	}
	if whole, err = w.removeRows(sqlStepRows, sqlDropStep, t.PK, budget); err != nil || !whole {
		return false, err
	}
	return w.removeRows(sqlContentRows, sqlDropContent, t.PK, budget)
}

// removeRows removes the rows of a task that find returns with their sizes, within the
// budget. It reports whether all were removed.
func (w *writer) removeRows(find, drop string, pk int64, budget *deleteBudget) (whole bool, err error) {
	var found []int64
	whole = true
	err = w.query(find, func(r record) error {
		if whole = budget.spend(r.int(1)); !whole {
			return errStop
		}
		found = append(found, r.int(0))
		return nil
	}, pk)
	if err != nil && !errors.Is(err, errStop) {
		return false, err
	}
	for _, id := range found {
		if _, err := w.exec(drop, id); err != nil {
			return false, err
		}
	}
	return whole, nil
}

// PurgeDeleted implements store.Maintenance.
func (s *taskStore) PurgeDeleted(ctx context.Context) (more bool, err error) {
	err = s.write(ctx, &request{weight: maxTasksPerDelete, apply: func(w *writer) error {
		for budget := newDeleteBudget(); ; {
			var t taskRow
			err := w.query(sqlDeletedTask, func(r record) error {
				t = taskRow{Task: sqlrow.Task{PK: r.int(0), Key: store.Key{Owner: r.text(1), ID: r.text(2)}}}
				return nil
			})
			if more = t.PK != 0; err != nil || more && budget.spent() {
				return err
			}
			if !more {
				more, err = w.shrink()
				return err
			}
			whole, err := w.removeContent(&t, budget)
			if err != nil || !whole {
				return err
			}
			if _, err := w.exec(sqlDropDeleted, t.PK); err != nil {
				return err
			}
		}
	}})
	return more, err
}
