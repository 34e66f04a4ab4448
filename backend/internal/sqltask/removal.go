package sqltask

import (
	"context"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

const (
	sqlRemovals = `SELECT owner, id, created_at, context_id FROM {s}.task_removals
		WHERE (owner, id, created_at) > ($1::text, $2::text, $3::bigint) ORDER BY owner, id, created_at LIMIT $4::bigint`
	sqlForgetRemoval = `DELETE FROM {s}.task_removals WHERE owner = $1::text AND id = $2::text AND created_at = $3::bigint`
)

// RemovalStore implements the methods of [store.Maintenance] for removals.
type RemovalStore struct{ db sqlkit.DB }

// NewRemovalStore returns the removals in a database.
func NewRemovalStore(db sqlkit.DB) RemovalStore { return RemovalStore{db} }

// Removals implements [store.Maintenance].
func (s RemovalStore) Removals(ctx context.Context, after store.Removal, limit int) (found []store.Removal, err error) {
	err = s.db.Read(ctx, func(q sqlkit.Querier) error {
		found = nil
		return q.Query(sqlRemovals, func(r sqlkit.Row) error {
			found = append(found, store.Removal{
				Key: store.Key{Owner: r.Text(0), ID: r.Text(1)}, CreatedAt: encoding.FromMillis(r.Int(2)), ContextID: r.Text(3),
			})
			return nil
		}, after.Key.Owner, after.Key.ID, encoding.Millis(after.CreatedAt), max(limit, 0))
	})
	return found, err
}

// ForgetRemovals implements [store.Maintenance].
func (s RemovalStore) ForgetRemovals(ctx context.Context, removals []store.Removal) error {
	calls := make([]sqlkit.Call, len(removals))
	for i := range removals {
		r := &removals[i]
		calls[i] = sqlkit.Call{Text: sqlForgetRemoval, Args: []any{r.Key.Owner, r.Key.ID, encoding.Millis(r.CreatedAt)}}
	}
	return sqlkit.Run(ctx, s.db, calls...)
}
