package vectorsql

import (
	"context"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
)

const (
	sqlMarkDeleted = `INSERT INTO {s}.vector_deleted (owner, id) VALUES ($1::text, $2::bigint) ON CONFLICT (owner, id) DO NOTHING`
	// SQLUnmarkDeleted notes that a deleted collection of documents has no rows left.
	SQLUnmarkDeleted = `DELETE FROM {s}.vector_deleted WHERE owner = $1::text AND id = $2::bigint`
	// SQLAllDeleted returns the deleted collections of documents of all owners, up to 1,000.
	SQLAllDeleted = `SELECT owner, id FROM {s}.vector_deleted ORDER BY owner, id LIMIT 1000`
	// SQLDeleted returns the deleted collections of documents of an owner.
	SQLDeleted = `SELECT owner, id FROM {s}.vector_deleted WHERE owner = $1::text`
)

// MarkDeleted notes that a collection of documents is deleted and has rows left.
func MarkDeleted(tx sqlkit.Tx, owner string, id int64) error {
	_, err := tx.Exec(sqlMarkDeleted, owner, id)
	return err
}

// RemoveDeleted removes the rows of deleted collections in transactions of bounded size, and returns the
// number of collections. owner is "" for all owners. some removes some rows of a collection and returns
// their number.
func RemoveDeleted(ctx context.Context, db sqlkit.DB, owner string, some func(tx sqlkit.Tx, owner string, id int64) (int64, error)) (int, error) {
	type deleted struct {
		owner string
		id    int64
	}
	var all []deleted
	text, args := SQLDeleted, []any{owner}
	if owner == "" {
		text, args = SQLAllDeleted, nil
	}
	err := db.Read(ctx, func(q sqlkit.Querier) error {
		all = nil
		return q.Query(text, func(r sqlkit.Row) error {
			all = append(all, deleted{r.Text(0), r.Int(1)})
			return nil
		}, args...)
	})
	for _, c := range all {
		for more := true; more && err == nil; {
			err = db.Write(ctx, func(tx sqlkit.Tx) error {
				n, err := some(tx, c.owner, c.id)
				if more = n > 0; err != nil || more {
					return err
				}
				_, err = tx.Exec(SQLUnmarkDeleted, c.owner, c.id)
				return err
			})
		}
	}
	return len(all), err
}
