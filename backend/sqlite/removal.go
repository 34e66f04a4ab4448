package sqlite

import (
	"context"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	sqlInsertRemoval = `INSERT OR IGNORE INTO task_removals (owner, id, created_at, context_id) VALUES (?,?,?,?)`
	sqlRemovals      = `SELECT owner, id, created_at, context_id FROM task_removals
		WHERE (owner, id, created_at) > (?1, ?2, ?3) ORDER BY owner, id, created_at LIMIT ?4`
	sqlDropRemoval = `DELETE FROM task_removals WHERE owner = ? AND id = ? AND created_at = ?`
)

// Removals implements store.Maintenance.
func (s *taskStore) Removals(ctx context.Context, after store.Removal, limit int) (found []store.Removal, err error) {
	err = s.readList(ctx, func(r *reader) error {
		return r.query(sqlRemovals, func(rec record) error {
			found = append(found, store.Removal{
				Key: store.Key{Owner: rec.text(0), ID: rec.text(1)}, CreatedAt: fromMillis(rec.int(2)), ContextID: rec.text(3),
			})
			return nil
		}, after.Key.Owner, after.Key.ID, millis(after.CreatedAt), int64(max(limit, 0)))
	})
	return found, err
}

// ForgetRemovals implements store.Maintenance.
func (s *taskStore) ForgetRemovals(ctx context.Context, removals []store.Removal) error {
	return s.write(ctx, &request{weight: len(removals), apply: func(w *writer) error {
		for i := range removals {
			r := &removals[i]
			if _, err := w.exec(sqlDropRemoval, r.Key.Owner, r.Key.ID, millis(r.CreatedAt)); err != nil {
				return err
			}
		}
		return nil
	}})
}
