package sqlite

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	sqlMarkDeletion     = `UPDATE context_rows SET bucket = '', labels = 0 WHERE owner = ? AND id = ?`
	sqlInsertDeletion   = `INSERT INTO contexts_pending_deletion (owner, id) VALUES (?,?)`
	sqlDropDeletion     = `DELETE FROM contexts_pending_deletion WHERE owner = ? AND id = ?`
	sqlPendingDeletions = `SELECT owner, id FROM contexts_pending_deletion LIMIT ?`

	// To find queued or leased tasks of a context, busy reads either the work queue or
	// the tasks of the context, whichever has fewer entries.
	sqlBusyQueued  = `SELECT 1 FROM task_rows INDEXED BY task_rows_context_due WHERE phase = 1 AND owner = ? AND context_id = ? LIMIT 1`
	sqlBusyWaiting = `SELECT 1 FROM task_rows INDEXED BY task_rows_waiting WHERE phase = 3 AND owner = ? AND context_id = ? LIMIT 1`
	sqlBusyLeased  = `SELECT 1 FROM task_rows INDEXED BY task_rows_leased WHERE phase = 2 AND owner = ? AND context_id = ? LIMIT 1`
	sqlBusyFirst   = `SELECT 1 FROM task_rows WHERE pk = ? AND phase > 0`
	sqlBusyOthers  = `SELECT 1 FROM task_rows INDEXED BY task_rows_context_created
		WHERE owner = ? AND context_id = ? AND first = 0 AND phase > 0 LIMIT 1`

	sqlContextOldest = `SELECT created_at, id FROM task_rows INDEXED BY task_rows_context_created
		WHERE owner = ? AND context_id = ? AND first = 0 ORDER BY created_at, id LIMIT ?`
	sqlDropKeysByLog = `DELETE FROM idempotency_keys WHERE owner = ?1 AND task_id = ?2 AND lookup = 0
		AND key IN (SELECT key FROM task_log WHERE id BETWEEN ?3 AND ?4 AND key IS NOT NULL)`
	sqlDropKeysByTask = `DELETE FROM idempotency_keys WHERE (owner, key) IN
		(SELECT owner, key FROM idempotency_keys INDEXED BY idempotency_keys_task WHERE owner = ? AND task_id = ? AND lookup > 0 AND lookup = ?)`
	sqlDropTask      = `DELETE FROM task_rows WHERE pk = ?`
	sqlSubtractTasks = `UPDATE context_rows SET task_count = task_count - ?1,
		first_pk = CASE WHEN EXISTS (SELECT 1 FROM task_rows WHERE pk = first_pk) THEN first_pk ELSE 0 END
		WHERE owner = ?2 AND id = ?3`
)

// How the deletion of a task or context finds its idempotency records (column lookup).
const (
	lookupByLog     int64 = iota // by the keys in the task's log rows
	lookupByTask                 // by the index on task_id
	lookupByContext              // as lookupByTask, but for a context
	// lookupRecent is not stored: the record is only in the log (see recentKeys).
	lookupRecent
)

// maxTasksPerDelete bounds the tasks that one transaction of DeleteContext removes, so
// that other changes do not wait long.
const maxTasksPerDelete = 64

type deleteStatements struct {
	markDeletion, insertDeletion, dropDeletion        *stmt
	busyQueued, busyWaiting, busyLeased               *stmt
	busyFirst, busyOthers                             *stmt
	contextOldest, dropKeysByLog, dropKeysByTask      *stmt
	dropTask, subtractTasks                           *stmt
	logRows, dropLog, stepRows, dropStep              *stmt
	contentRows, dropContent                          *stmt
	countDeliveries, dropSomeAttempts, dropSomeDead   *stmt
	subtractDead, insertDeleted, dropDeleted          *stmt
	deletedTask, tasksBefore, nextOwner, pendingLanes *stmt
	emptyContexts, contextChild                       *stmt
}

func (d *deleteStatements) texts() map[**stmt]string {
	return map[**stmt]string{
		&d.markDeletion: sqlMarkDeletion, &d.insertDeletion: sqlInsertDeletion, &d.dropDeletion: sqlDropDeletion,
		&d.busyQueued: sqlBusyQueued, &d.busyWaiting: sqlBusyWaiting, &d.busyLeased: sqlBusyLeased,
		&d.busyFirst: sqlBusyFirst, &d.busyOthers: sqlBusyOthers,
		&d.contextOldest: sqlContextOldest, &d.dropKeysByLog: sqlDropKeysByLog, &d.dropKeysByTask: sqlDropKeysByTask,
		&d.dropTask: sqlDropTask, &d.subtractTasks: sqlSubtractTasks,
		&d.logRows: sqlLogSizes, &d.dropLog: sqlDropLog, &d.stepRows: sqlStepRows, &d.dropStep: sqlDropStep,
		&d.contentRows: sqlContentRows, &d.dropContent: sqlDropContent,
		&d.countDeliveries: sqlCountDeliveries, &d.dropSomeAttempts: sqlDropSomeAttempts, &d.dropSomeDead: sqlDropSomeDead,
		&d.subtractDead: sqlSubtractDead, &d.insertDeleted: sqlInsertDeleted, &d.dropDeleted: sqlDropDeleted,
		&d.deletedTask: sqlDeletedTask, &d.tasksBefore: sqlTasksBefore, &d.nextOwner: sqlNextOwner, &d.pendingLanes: sqlPendingLanes,
		&d.emptyContexts: sqlEmptyContexts, &d.contextChild: sqlContextChild,
	}
}

// DeleteContext implements store.Contexts. It uses several transactions if there is much
// to remove.
func (s *Store) DeleteContext(ctx context.Context, owner, id string, limit int) (more bool, err error) {
	return s.deleteContext(ctx, &contextDelete{key: store.ContextKey{Owner: owner, ID: id}, left: max(limit, 0)})
}

// FinishDelete implements store.Contexts.
func (s *Store) FinishDelete(ctx context.Context, owner, id string, limit int) (more bool, err error) {
	return s.deleteContext(ctx, &contextDelete{key: store.ContextKey{Owner: owner, ID: id}, left: max(limit, 0), pendingOnly: true})
}

func (s *Store) deleteContext(ctx context.Context, d *contextDelete) (more bool, err error) {
	for {
		d.limit = min(d.left, maxTasksPerDelete)
		if err := s.write(ctx, &request{weight: d.limit + 1, apply: d.apply}); err != nil {
			return false, err
		}
		if d.refusal != nil {
			return false, d.refusal
		}
		d.left, d.resumed = d.left-d.removed, true
		if !d.more || d.left == 0 {
			return d.more, nil
		}
	}
}

// PendingDeletions implements store.Contexts.
func (s *Store) PendingDeletions(ctx context.Context, limit int) (pending []store.ContextKey, err error) {
	err = s.read(ctx, func(r *reader) error {
		return r.pendingDeletions.query(context.Background(), func(rec record) error {
			pending = append(pending, store.ContextKey{Owner: rec.text(0), ID: rec.text(1)})
			return nil
		}, int64(max(limit, 0)))
	})
	return pending, err
}

// contextDelete is one call of DeleteContext or FinishDelete, with the results of its
// last transaction.
type contextDelete struct {
	key         store.ContextKey
	pendingOnly bool // only if a deletion is pending
	left        int  // tasks that the call may still remove
	limit       int  // tasks that the transaction may remove
	removed     int
	more        bool
	resumed     bool // an earlier transaction of this call started the deletion
	refusal     error
}

func (d *contextDelete) apply(w *writer) error {
	d.removed, d.more, d.refusal = 0, false, nil
	c, err := readContextHead(w.contextHead, d.key)
	switch {
	case err != nil:
		return err
	case d.resumed && c.Bucket != bucketDeleting:
		return nil // another call has finished it
	case !c.found || d.pendingOnly && c.Bucket != bucketDeleting:
		d.refusal = store.ErrNotFound
		return nil
	}
	if c.Bucket != bucketDeleting {
		busy, err := w.busy(d.key, &c)
		if err != nil {
			return err
		}
		if busy {
			d.refusal = store.ErrBusy
			return nil
		}
		if err := w.startDeletion(d.key, &c); err != nil {
			return err
		}
	}
	if err := d.removeTasks(w); err != nil {
		return err
	}
	if d.more = int64(d.removed) < c.Tasks; d.more {
		_, err := w.subtractTasks.exec(int64(d.removed), d.key.Owner, d.key.ID)
		return err
	}
	return w.removeContext(d.key)
}

// startDeletion hides a context from all reads and marks it for deletion.
func (w *writer) startDeletion(k store.ContextKey, c *contextHead) error {
	if err := w.removeLabels(k, c); err != nil {
		return err
	}
	if _, err := w.markDeletion.exec(k.Owner, k.ID); err != nil {
		return err
	}
	_, err := w.insertDeletion.exec(k.Owner, k.ID)
	return err
}

// busy reports whether a task of a context is queued or leased.
func (w *writer) busy(k store.ContextKey, c *contextHead) (busy bool, err error) {
	find := func(s *stmt, args ...any) {
		if err == nil && !busy {
			err = s.query(context.Background(), func(record) error {
				busy = true
				return nil
			}, args...)
		}
	}
	if int64(w.pendingCounts.Queued)+int64(w.pendingCounts.Leased) < c.Tasks {
		find(w.busyQueued, k.Owner, k.ID)
		find(w.busyWaiting, k.Owner, k.ID)
		find(w.busyLeased, k.Owner, k.ID)
	} else {
		find(w.busyFirst, c.FirstPK)
		find(w.busyOthers, k.Owner, k.ID)
	}
	return busy, err
}

// removeTasks removes the oldest tasks of the context, within the limits of the
// transaction.
func (d *contextDelete) removeTasks(w *writer) error {
	oldest, err := w.oldestTasks(d.key, d.limit)
	if err != nil {
		return err
	}
	budget := newDeleteBudget()
	for _, p := range oldest {
		row, found, err := w.row(store.Key{Owner: d.key.Owner, ID: p.id})
		if err != nil || !found {
			return err
		}
		if removed, err := w.removeTask(&row, budget); err != nil || !removed {
			return err
		}
		if d.removed++; budget.spent() {
			break
		}
	}
	return nil
}

func (w *writer) oldestTasks(k store.ContextKey, n int) (oldest []position, err error) {
	each := func(r record) error {
		oldest = append(oldest, position{at: r.int(0), id: r.text(1)})
		return nil
	}
	if err := w.contextFirst.query(context.Background(), each, k.Owner, k.ID); err != nil {
		return nil, err
	}
	if err := w.contextOldest.query(context.Background(), each, k.Owner, k.ID, int64(n)); err != nil {
		return nil, err
	}
	slices.SortFunc(oldest, comparePositions)
	return oldest[:min(n, len(oldest))], nil
}

// removeContext removes a context without tasks.
func (w *writer) removeContext(k store.ContextKey) error {
	if _, err := w.dropKeysByTask.exec(k.Owner, k.ID, lookupByContext); err != nil {
		return err
	}
	if _, err := w.dropDeletion.exec(k.Owner, k.ID); err != nil {
		return err
	}
	_, err := w.dropContext.exec(k.Owner, k.ID)
	return err
}
