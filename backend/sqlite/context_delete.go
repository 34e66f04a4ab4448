package sqlite

import (
	"cmp"
	"context"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

const (
	sqlMarkDeletion     = `UPDATE context_rows SET bucket = '', labels = 0 WHERE owner = ? AND id = ?`
	sqlInsertDeletion   = `INSERT INTO contexts_pending_deletion (owner, id) VALUES (?,?)`
	sqlDropDeletion     = `DELETE FROM contexts_pending_deletion WHERE owner = ? AND id = ?`
	sqlPendingDeletions = `SELECT owner, id FROM contexts_pending_deletion LIMIT ?`

	// To find queued or leased tasks of a context, busy reads either the work queue or
	// the tasks of the context, whichever has fewer entries.
	sqlBusyQueued  = `SELECT 1 FROM task_rows INDEXED BY task_rows_context_due WHERE phase = {ready} AND owner = ? AND context_id = ? LIMIT 1`
	sqlBusyWaiting = `SELECT 1 FROM task_rows INDEXED BY task_rows_waiting WHERE phase = {waiting} AND owner = ? AND context_id = ? LIMIT 1`
	sqlBusyLeased  = `SELECT 1 FROM task_rows INDEXED BY task_rows_leased WHERE phase = {leased} AND owner = ? AND context_id = ? LIMIT 1`
	sqlBusyFirst   = `SELECT 1 FROM task_rows WHERE pk = ? AND phase <> {idle}`
	sqlBusyOthers  = `SELECT 1 FROM task_rows INDEXED BY task_rows_context_created
		WHERE owner = ? AND context_id = ? AND first = 0 AND phase <> {idle} LIMIT 1`

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

// Values of the column lookup of an idempotency record: how the deletion of its task or context
// finds the record.
const (
	lookupByLog     int64 = iota // by the keys in the task's log rows
	lookupByTask                 // by the index on task_id
	lookupByContext              // by the index on task_id, which then has the id of a context
	// lookupRecent is not stored: the record is only in the log (see recentKeys).
	lookupRecent
)

// maxTasksPerDelete bounds the tasks that one transaction of DeleteContext removes, so
// that other changes do not wait long.
const maxTasksPerDelete = 64

// DeleteContext implements store.Contexts. It uses several transactions if there is much
// to remove.
func (s *contextStore) DeleteContext(ctx context.Context, owner, id string, limit int) (more bool, err error) {
	return s.deleteContext(ctx, &contextDelete{key: store.ContextKey{Owner: owner, ID: id}, left: max(limit, 0)})
}

// FinishDelete implements store.Contexts.
func (s *contextStore) FinishDelete(ctx context.Context, owner, id string, limit int) (more bool, err error) {
	if limit <= 0 {
		err = s.read(ctx, func(r *reader) error {
			c, err := r.readContextHead(store.ContextKey{Owner: owner, ID: id})
			return cmp.Or(err, rules.DeleteContext(&rules.Context{Exists: c.found, Deleting: c.found && !c.live()}, true))
		})
		return err == nil, err
	}
	return s.deleteContext(ctx, &contextDelete{key: store.ContextKey{Owner: owner, ID: id}, left: limit, finish: true})
}

func (s *contextStore) deleteContext(ctx context.Context, d *contextDelete) (more bool, err error) {
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
func (s *contextStore) PendingDeletions(ctx context.Context, limit int) (pending []store.ContextKey, err error) {
	err = s.read(ctx, func(r *reader) error {
		return r.query(sqlPendingDeletions, func(rec record) error {
			pending = append(pending, store.ContextKey{Owner: rec.text(0), ID: rec.text(1)})
			return nil
		}, int64(max(limit, 0)))
	})
	return pending, err
}

// contextDelete is one call of DeleteContext or FinishDelete, with the results of its
// last transaction.
type contextDelete struct {
	key     store.ContextKey
	finish  bool // FinishDelete
	left    int  // tasks that the call may still remove
	limit   int  // tasks that the transaction may remove
	removed int
	more    bool
	resumed bool // an earlier transaction of this call started the deletion
	refusal error
}

func (d *contextDelete) apply(w *writer) error {
	d.removed, d.more, d.refusal = 0, false, nil
	c, err := w.readContextHead(d.key)
	deleting := c.Bucket == bucketDeleting
	if err != nil || d.resumed && !deleting { // another call has finished it
		return err
	}
	seen := rules.Context{Exists: c.found, Deleting: deleting}
	if c.found && !deleting {
		if seen.Busy, err = w.busy(d.key, &c); err != nil {
			return err
		}
	}
	if d.refusal = rules.DeleteContext(&seen, d.finish); d.refusal != nil {
		return nil
	}
	if !deleting {
		if err := w.startDeletion(d.key, &c); err != nil {
			return err
		}
	}
	if err := d.removeTasks(w); err != nil {
		return err
	}
	if d.more = int64(d.removed) < c.Tasks || d.limit == 0; d.more {
		_, err := w.exec(sqlSubtractTasks, int64(d.removed), d.key.Owner, d.key.ID)
		return err
	}
	return w.removeContext(d.key)
}

// startDeletion hides a context from all reads and marks it for deletion.
func (w *contextWriter) startDeletion(k store.ContextKey, c *contextHead) error {
	if err := w.removeLabels(k, c); err != nil {
		return err
	}
	if _, err := w.exec(sqlMarkDeletion, k.Owner, k.ID); err != nil {
		return err
	}
	_, err := w.exec(sqlInsertDeletion, k.Owner, k.ID)
	return err
}

// busy reports whether a task of a context is queued or leased.
func (w *writer) busy(k store.ContextKey, c *contextHead) (busy bool, err error) {
	find := func(text string, args ...any) {
		if err == nil && !busy {
			busy, err = w.exists(text, args...)
		}
	}
	if int64(w.pendingCounts.Queued)+int64(w.pendingCounts.Leased) < c.Tasks {
		find(sqlBusyQueued, k.Owner, k.ID)
		find(sqlBusyWaiting, k.Owner, k.ID)
		find(sqlBusyLeased, k.Owner, k.ID)
	} else {
		find(sqlBusyFirst, c.FirstPK)
		find(sqlBusyOthers, k.Owner, k.ID)
	}
	return busy, err
}

// removeTasks removes the oldest tasks of the context, within the limits of the
// transaction.
func (d *contextDelete) removeTasks(w *writer) error {
	oldest, err := w.contextTasks(sqlContextOldest, d.key, d.limit)
	if err != nil {
		return err
	}
	budget := newDeleteBudget()
	for _, p := range oldest[:min(d.limit, len(oldest))] {
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

// removeContext removes a context without tasks.
func (w *contextWriter) removeContext(k store.ContextKey) error {
	if _, err := w.exec(sqlDropKeysByTask, k.Owner, k.ID, lookupByContext); err != nil {
		return err
	}
	if _, err := w.exec(sqlDropDeletion, k.Owner, k.ID); err != nil {
		return err
	}
	_, err := w.exec(sqlDropContext, k.Owner, k.ID)
	return err
}
