package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

var (
	sqlBusyTask = `SELECT 1 FROM {s}.task_rows WHERE owner = $1::text AND context_id = $2::text AND NOT first AND phase <> {idle}
		UNION ALL ` + firstTask("1", "$1::text", "$2::text") + ` AND t.phase <> {idle} LIMIT 1`
	// sqlOldestTasks requires that the transaction has locked the context.
	sqlOldestTasks = `SELECT t.* FROM (
			(SELECT id, created_at FROM {s}.task_rows WHERE owner = $1::text AND context_id = $2::text AND NOT first
				ORDER BY created_at, id LIMIT $3::bigint)
			UNION ALL ` + firstTask("t.id, t.created_at", "$1::text", "$2::text") + `
			ORDER BY created_at, id LIMIT $3::bigint) k
		CROSS JOIN LATERAL (SELECT owner, id, pk, webhooks FROM {s}.task_rows
			WHERE owner = $1::text COLLATE "POSIX" AND id = k.id COLLATE "POSIX" FOR UPDATE) t`
	sqlTasksLeft = `SELECT 1 FROM {s}.task_rows WHERE owner = $1::text AND context_id = $2::text AND NOT first
		UNION ALL ` + firstTask("1", "$1::text", "$2::text") + ` LIMIT 1`
)

var sqlMarkDeletion = namedText(sqlrow.Of[keyParam](), sqlOldContext+`, saved AS (
			UPDATE {s}.context_rows SET status = '', unmodified = false WHERE owner = @owner COLLATE "POSIX" AND id = @id COLLATE "POSIX"
			RETURNING owner, status, labels
		), counter AS (`+sqlCountLabels+`)
		SELECT 1 FROM saved`)

const (
	sqlDeleteContextKeys = `DELETE FROM {s}.idempotency_keys WHERE owner = $1::text AND task_id = $2::text AND of_context AND NOT at_creation`

	sqlDeleteContext    = `DELETE FROM {s}.context_rows WHERE owner = $1::text COLLATE "POSIX" AND id = $2::text COLLATE "POSIX"`
	sqlPendingDeletions = `SELECT owner, id FROM {s}.context_rows WHERE status = '' ORDER BY owner, id LIMIT $1::bigint`
)

// DeleteContext implements [store.Contexts].
func (s *contextStore) DeleteContext(ctx context.Context, owner, id string, limit int) (more bool, err error) {
	return s.deleteContext(ctx, owner, id, limit, false)
}

// FinishDelete implements [store.Contexts].
func (s *contextStore) FinishDelete(ctx context.Context, owner, id string, limit int) (more bool, err error) {
	return s.deleteContext(ctx, owner, id, limit, true)
}

func (s *contextStore) deleteContext(ctx context.Context, owner, id string, limit int, finish bool) (more bool, err error) {
	var c store.Context
	err = s.transact(ctx, "delete context", func(ctx context.Context, tx pgx.Tx) (err error) {
		if !storable(owner, id) {
			return store.ErrNotFound
		}
		if c, err = s.lockContext(ctx, tx, store.ContextKey{Owner: owner, ID: id}); err != nil {
			return err
		}
		seen := rules.Context{Exists: true, Deleting: c.Status == ""}
		if !seen.Deleting {
			if seen.Busy, err = s.exists(ctx, tx, sqlBusyTask, owner, id); err != nil {
				return err
			}
		}
		if err := rules.DeleteContext(&seen, finish); err != nil {
			return err
		}
		if !seen.Deleting {
			if _, err := s.exec(ctx, tx, sqlMarkDeletion, owner, id); err != nil {
				return err
			}
			if err := s.addCounter(ctx, tx, owner, string(c.Status), -1); err != nil {
				return err
			}
		}
		tasks, err := s.lockTasks(ctx, tx, sqlOldestTasks, owner, id, max(limit, 0))
		if err != nil {
			return err
		}
		if tasks, err = s.lockLanes(ctx, tx, tasks, true); err != nil {
			return err
		}
		if _, _, err = s.removeTasks(ctx, tx, tasks); err != nil {
			return err
		}
		if limit <= 0 {
			more = true
			return nil
		}
		if more, err = s.exists(ctx, tx, sqlTasksLeft, owner, id); err != nil || more {
			return err
		}
		if _, err := s.exec(ctx, tx, sqlDeleteContextKeys, owner, id); err != nil {
			return err
		}
		_, err = s.exec(ctx, tx, sqlDeleteContext, owner, id)
		return err
	})
	if err != nil {
		return false, err
	}
	s.noteDeleted(&c)
	return more, nil
}

// noteDeleted requests a merge of the counters of a deleted context, because their rows may
// add up to zero.
func (s *contextStore) noteDeleted(c *store.Context) {
	if c.Status == "" {
		return
	}
	s.counterRows.add(c.Key.Owner, mergeThreshold)
	for _, l := range contextLabels(c) {
		s.labelRows.add(labelKey{c.Key.Owner, l}, mergeThreshold)
	}
}

// PendingDeletions implements [store.Contexts].
func (s *contextStore) PendingDeletions(ctx context.Context, limit int) (pending []store.ContextKey, err error) {
	err = s.read(ctx, "list contexts being deleted", func(ctx context.Context, c *pgx.Conn) error {
		pending = nil
		return s.eachRow(ctx, c, sqlPendingDeletions, func(r record) error {
			pending = append(pending, store.ContextKey{Owner: r.text(0), ID: r.text(1)})
			return nil
		}, max(limit, 0))
	})
	return pending, err
}
