package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	sqlRemovals = `SELECT owner, id, created_at, context_id FROM {s}.task_removals
		WHERE (owner, id, created_at) > ($1::text, $2::text, $3::bigint) ORDER BY owner, id, created_at LIMIT $4::bigint`
	sqlForgetRemovals = `DELETE FROM {s}.task_removals r USING unnest($1::text[], $2::text[], $3::bigint[]) AS u(owner, id, created_at)
		WHERE r.owner = u.owner AND r.id = u.id AND r.created_at = u.created_at`
)

// Removals implements [store.Maintenance].
func (s *taskStore) Removals(ctx context.Context, after store.Removal, limit int) (found []store.Removal, err error) {
	err = s.read(ctx, "list removals", func(ctx context.Context, c *pgx.Conn) error {
		found = nil
		return s.eachRow(ctx, c, sqlRemovals, func(r record) error {
			found = append(found, store.Removal{Key: store.Key{Owner: r.text(0), ID: r.text(1)}, CreatedAt: fromMillis(r.int(2)), ContextID: r.text(3)})
			return nil
		}, after.Key.Owner, after.Key.ID, millis(after.CreatedAt), max(limit, 0))
	})
	return found, err
}

// ForgetRemovals implements [store.Maintenance].
func (s *taskStore) ForgetRemovals(ctx context.Context, removals []store.Removal) error {
	var owners, ids []string
	var created []int64
	for i := range removals {
		r := &removals[i]
		owners, ids, created = append(owners, r.Key.Owner), append(ids, r.Key.ID), append(created, millis(r.CreatedAt))
	}
	return s.transact(ctx, "forget removals", func(ctx context.Context, tx pgx.Tx) error {
		_, err := s.exec(ctx, tx, sqlForgetRemovals, owners, ids, created)
		return err
	})
}
