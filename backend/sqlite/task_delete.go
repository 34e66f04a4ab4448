package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// Reads that end early have no LIMIT: SQLite plans a statement again whenever the argument of
// its LIMIT has changed.
const (
	sqlLogSizes = `SELECT id, octet_length(events) + coalesce(octet_length(snapshot), 0) FROM task_log WHERE id BETWEEN ? AND ? ORDER BY id`
	sqlDropLog  = `DELETE FROM task_log WHERE id BETWEEN ? AND ?`

	sqlStepRows = `SELECT id, coalesce(octet_length(result), 0) + coalesce(octet_length(artifacts), 0) FROM task_steps WHERE task_pk = ?`
	sqlDropStep = `DELETE FROM task_steps WHERE id = ?`

	sqlContentRows = `SELECT id, octet_length(data) FROM task_contents WHERE task_pk = ?`
	sqlDropContent = `DELETE FROM task_contents WHERE id = ?`

	sqlTaskNotes = `SELECT count(*) FROM (SELECT 1 FROM webhook_attempts INDEXED BY webhook_attempts_task WHERE task_pk = ?1
		UNION ALL SELECT 1 FROM webhook_dead INDEXED BY webhook_dead_task WHERE task_pk = ?1 LIMIT ?2)`
	sqlDropSomeAttempts = `DELETE FROM webhook_attempts WHERE pk IN
		(SELECT pk FROM webhook_attempts INDEXED BY webhook_attempts_task WHERE task_pk = ? LIMIT ?)`
	sqlDropSomeDead = `DELETE FROM webhook_dead WHERE pk IN
		(SELECT pk FROM webhook_dead INDEXED BY webhook_dead_task WHERE task_pk = ? LIMIT ?) RETURNING lane_pk`
	sqlFewerDead = `UPDATE webhook_lanes SET dead = dead - ? WHERE pk = ?`

	sqlPendingLanes = `SELECT 1 FROM webhook_lanes INDEXED BY webhook_lanes_name WHERE owner = ? AND task_id = ? AND phase BETWEEN 1 AND 3 LIMIT 1`

	sqlInsertDeleted = `INSERT INTO tasks_deleted (pk, owner, id) VALUES (?,?,?)`
	sqlDropDeleted   = `DELETE FROM tasks_deleted WHERE pk = ?`
	sqlDeletedTask   = `SELECT pk, owner, id FROM tasks_deleted WHERE pk > 0 ORDER BY pk LIMIT 1`

	sqlTasksBefore = `SELECT owner, id, state_at FROM task_rows INDEXED BY task_rows_state
		WHERE owner = ?1 AND state = ?2 AND (state_at, id) > (?3, ?4) AND state_at < ?5 ORDER BY state_at, id LIMIT ?6`
	sqlNextOwner = `SELECT min(owner) FROM task_rows INDEXED BY task_rows_state WHERE owner > ?`
)

// expiryTime is how long a transaction of expiry removes tasks or contexts before it
// commits: others wait for it. A commit costs as much as many removals, so batches are
// bounded by time rather than by a small number.
const expiryTime = 15 * time.Millisecond

// deletion counts what a transaction may still remove.
type deletion struct {
	rows, bytes int64
}

func newDeletion() *deletion { return &deletion{rows: store.DeleteRows, bytes: store.DeleteBytes} }

func (d *deletion) spent() bool { return d.rows <= 0 || d.bytes <= 0 }

// take counts a row and reports whether the transaction may remove it.
func (d *deletion) take(size int64) bool {
	if d.spent() {
		return false
	}
	d.rows, d.bytes = d.rows-1, d.bytes-size
	return true
}

// DeleteTask implements store.DeleteStore.
func (s *Store) DeleteTask(ctx context.Context, key store.Key, force bool) (more bool, err error) {
	var refusal error
	for removed := false; !removed; {
		err = s.write(ctx, &request{weight: 1, apply: func(w *writer) error {
			removed, refusal = false, nil
			row, found, err := w.row(key)
			if err != nil {
				return err
			}
			if refusal, err = w.refuseDelete(&row, found, force); err != nil || refusal != nil {
				return err
			}
			bounds := newDeletion()
			if removed, err = w.removeTask(&row, bounds); err != nil || !removed {
				return err
			}
			if _, err := w.lostTasks.exec(int64(1), key.Owner, row.contextID); err != nil {
				return err
			}
			more = bounds.spent()
			return nil
		}})
		if err = errors.Join(err, refusal); err != nil {
			return false, err
		}
	}
	return more, nil
}

// refuseDelete returns why a task is not deleted, if it is not.
func (w *writer) refuseDelete(t *taskRow, found, force bool) (refusal, err error) {
	switch {
	case !found:
		return store.ErrNotFound, nil
	case t.over() == 0 || t.phase != phaseIdle:
		return store.ErrBusy, nil
	case force || t.lanes == 0:
		return nil, nil
	}
	err = w.pendingLanes.query(context.Background(), func(record) error {
		refusal = store.ErrUndelivered
		return nil
	}, t.key.Owner, t.key.ID)
	return refusal, err
}

// removeTask removes a task with all that belongs to it, up to some content, which is
// left for PurgeDeleted. A task with too many attempts and dead letters only loses some
// of them: removed is false then.
func (w *writer) removeTask(t *taskRow, bounds *deletion) (removed bool, err error) {
	if fits, err := w.cutNotes(t, bounds); err != nil || !fits {
		return false, err
	}
	if err := w.forgetRecent(t); err != nil {
		return false, err
	}
	if _, err := w.keptKeys.exec(t.key.Owner, t.key.ID, keptApart); err != nil {
		return false, err
	}
	if err := w.removeFeedback(t); err != nil {
		return false, err
	}
	if err := w.removeWebhooks(t); err != nil {
		return false, err
	}
	if _, err := w.dropTask.exec(t.pk); err != nil {
		return false, err
	}
	w.forget(t)
	whole, err := w.removeContent(t, bounds)
	if err == nil && !whole {
		_, err = w.insertDeleted.exec(t.pk, t.key.Owner, t.key.ID)
	}
	return true, err
}

// cutNotes reports whether a transaction may remove all attempts and dead letters of a
// task. If not, it removes some of them.
func (w *writer) cutNotes(t *taskRow, bounds *deletion) (fits bool, err error) {
	if t.lanes == 0 {
		return true, nil
	}
	notes := int64(0)
	err = w.taskNotes.query(context.Background(), func(r record) error {
		notes = r.int(0)
		return nil
	}, t.pk, bounds.rows+1)
	if err != nil || notes <= bounds.rows {
		bounds.rows -= notes
		return true, err
	}
	n, err := w.dropSomeAttempts.exec(t.pk, bounds.rows)
	if err != nil {
		return false, err
	}
	dead := make(map[int64]int64)
	err = w.dropSomeDead.query(context.Background(), func(r record) error {
		dead[r.int(0)]++
		return nil
	}, t.pk, bounds.rows-n)
	if err == nil {
		err = w.countDead(dead)
	}
	bounds.rows = 0
	return false, err
}

// countDead subtracts removed dead letters from the counts of their lanes.
func (w *writer) countDead(removed map[int64]int64) error {
	for lane, n := range removed {
		if _, err := w.fewerDead.exec(n, lane); err != nil {
			return err
		}
	}
	return nil
}

// removeContent removes log, steps and large values of a removed task, as much as the transaction may,
// and reports whether that was all.
func (w *writer) removeContent(t *taskRow, bounds *deletion) (whole bool, err error) {
	first, cut := t.logID(0), int64(0)
	whole = true
	err = w.logRows.query(context.Background(), func(r record) error {
		if whole = bounds.take(r.int(1)); !whole {
			return errEnough
		}
		cut = r.int(0)
		return nil
	}, first, t.logID(logMask))
	if err != nil && !errors.Is(err, errEnough) {
		return false, err
	}
	if cut != 0 {
		if _, err := w.logKeys.exec(t.key.Owner, t.key.ID, first, cut); err != nil {
			return false, err
		}
		if _, err := w.dropLog.exec(first, cut); err != nil {
			return false, err
		}
	}
	if !whole {
		return false, nil
	}
	if whole, err = w.removeRows(w.stepRows, w.dropStep, t.pk, bounds); err != nil || !whole {
		return false, err
	}
	return w.removeRows(w.contentRows, w.dropContent, t.pk, bounds)
}

// removeRows removes rows of a task, which find returns with their sizes, as many as the
// transaction may, and reports whether these were all.
func (w *writer) removeRows(find, drop *stmt, pk int64, bounds *deletion) (whole bool, err error) {
	var found []int64
	whole = true
	err = find.query(context.Background(), func(r record) error {
		if whole = bounds.take(r.int(1)); !whole {
			return errEnough
		}
		found = append(found, r.int(0))
		return nil
	}, pk)
	if err != nil && !errors.Is(err, errEnough) {
		return false, err
	}
	for _, id := range found {
		if _, err := drop.exec(id); err != nil {
			return false, err
		}
	}
	return whole, nil
}

// PurgeDeleted implements store.DeleteStore.
func (s *Store) PurgeDeleted(ctx context.Context) (more bool, err error) {
	err = s.write(ctx, &request{weight: deleteTasks, apply: func(w *writer) error {
		for bounds := newDeletion(); ; {
			var t taskRow
			err := w.deletedTask.query(context.Background(), func(r record) error {
				t = taskRow{pk: r.int(0), key: store.Key{Owner: r.text(1), ID: r.text(2)}}
				return nil
			})
			if more = t.pk != 0; err != nil || more && bounds.spent() {
				return err
			}
			if !more {
				more, err = w.shrink()
				return err
			}
			whole, err := w.removeContent(&t, bounds)
			if err != nil || !whole {
				return err
			}
			if _, err := w.dropDeleted.exec(t.pk); err != nil {
				return err
			}
		}
	}})
	return more, err
}

// ExpireTasks implements store.DeleteStore.
func (s *Store) ExpireTasks(ctx context.Context, p store.TaskExpiry) (removed int, next *store.ExpiryPlace, err error) {
	err = s.write(ctx, &request{weight: p.Limit, apply: func(w *writer) error {
		removed = 0
		begun := time.Now()
		old, end, err := w.oldTasks(&p, p.Limit)
		if err != nil {
			return err
		}
		bounds, place := newDeletion(), store.ExpiryPlace{}
		if p.After != nil {
			place = *p.After
		}
		for i := range old {
			if i > 0 && time.Since(begun) > expiryTime {
				next = &place
				return nil
			}
			gone, ok, err := w.expireTask(&old[i], bounds)
			if err != nil {
				return err
			}
			if !ok {
				next = &place
				return nil
			}
			if gone {
				removed++
			}
			place = old[i]
		}
		next = end
		return nil
	}})
	if err != nil {
		return 0, nil, err
	}
	return removed, next, nil
}

// oldTasks returns the next tasks to check, and where to continue after them. It counts
// an owner without any as a task.
func (w *writer) oldTasks(p *store.TaskExpiry, limit int) (old []store.ExpiryPlace, next *store.ExpiryPlace, err error) {
	place := store.ExpiryPlace{}
	if p.After != nil {
		place = *p.After
	}
	for checked := 0; ; checked++ {
		if place.Owner != "" {
			err = w.tasksBefore.query(context.Background(), func(r record) error {
				place = store.ExpiryPlace{Owner: r.text(0), ID: r.text(1), At: fromMillis(r.int(2))}
				old = append(old, place)
				checked++
				return nil
			}, place.Owner, string(p.State), millis(place.At), place.ID, ceilMillis(p.Before), int64(limit-checked))
			if err != nil {
				return nil, nil, err
			}
		}
		if checked >= limit {
			return old, &place, nil
		}
		owner := ""
		err = w.nextOwner.query(context.Background(), func(r record) error {
			owner = r.text(0)
			return nil
		}, place.Owner)
		if err != nil || owner == "" {
			return old, nil, err
		}
		place = store.ExpiryPlace{Owner: owner}
	}
}

// expireTask removes a task that may be removed. ok is false if the transaction may
// remove no more.
func (w *writer) expireTask(p *store.ExpiryPlace, bounds *deletion) (removed, ok bool, err error) {
	row, found, err := w.row(store.Key{Owner: p.Owner, ID: p.ID})
	if err != nil {
		return false, false, err
	}
	refusal, err := w.refuseDelete(&row, found, false)
	if err != nil || refusal != nil {
		return false, true, err
	}
	if bounds.spent() {
		return false, false, nil
	}
	if removed, err = w.removeTask(&row, bounds); err != nil || !removed {
		return false, false, err
	}
	_, err = w.lostTasks.exec(int64(1), p.Owner, row.contextID)
	return true, true, err
}
