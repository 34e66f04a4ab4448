package sqlite

import (
	"context"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/vector"
)

const (
	sqlMarkDeleted      = `INSERT INTO {s}.vector_deleted (owner, id) VALUES ($1::text, $2::bigint) ON CONFLICT (owner, id) DO NOTHING`
	sqlDeleted          = `SELECT id FROM {s}.vector_deleted WHERE owner = $1::text`
	sqlUnmarkDeleted    = `DELETE FROM {s}.vector_deleted WHERE owner = $1::text AND id = $2::bigint`
	sqlDeleteSome       = `DELETE FROM {s}.vector_documents WHERE pk IN (SELECT pk FROM {s}.vector_documents WHERE` + whereDocuments + ` LIMIT 500)`
	sqlDropSomeSnapshot = `DELETE FROM {s}.vector_snapshots WHERE pk IN (SELECT pk FROM {s}.vector_snapshots WHERE` + whereDocuments + ` LIMIT 8)`
)

// DeleteCollection implements vector.Store.
func (s *vectorStore) DeleteCollection(ctx context.Context, k vector.Key) (int, error) {
	k, err := k.Check()
	if err != nil {
		return 0, err
	}
	removed := 0
	err = s.kit.Write(ctx, func(tx sqlkit.Tx) error {
		removed = 0
		c, err := readCollection(tx, k)
		if err != nil || c == nil {
			return err
		}
		removed = int(c.Documents)
		if _, err := tx.Exec(sqlDropCollection, k.Owner, k.Collection); err != nil {
			return err
		}
		_, err = tx.Exec(sqlMarkDeleted, k.Owner, c.id)
		return err
	})
	if err != nil {
		return 0, err
	}
	s.indexes.drop(k)
	// The collection is deleted, whatever happens to its rows: the next deletion continues.
	_ = s.removeDeleted(ctx, k.Owner)
	return removed, nil
}

// ForgetOwner implements vector.Forgetter.
func (s *vectorStore) ForgetOwner(ctx context.Context, owner string) (removed int, err error) {
	all, err := s.Collections(ctx, owner)
	if err != nil {
		return 0, err
	}
	for _, c := range all {
		n, err := s.DeleteCollection(ctx, vector.Key{Owner: owner, Collection: c.Name})
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, s.removeDeleted(ctx, owner)
}

// removeDeleted removes the rows of deleted collections of an owner in transactions of bounded
// size.
func (s *vectorStore) removeDeleted(ctx context.Context, owner string) error {
	var ids []int64
	err := s.kit.Read(ctx, func(q sqlkit.Querier) error {
		ids = nil
		return q.Query(sqlDeleted, func(r sqlkit.Row) error {
			ids = append(ids, r.Int(0))
			return nil
		}, owner)
	})
	for _, id := range ids {
		for more := true; more && err == nil; {
			err = s.kit.Write(ctx, func(tx sqlkit.Tx) error {
				var documents, parts int64
				if documents, err = tx.Exec(sqlDeleteSome, owner, id); err != nil {
					return err
				}
				if parts, err = tx.Exec(sqlDropSomeSnapshot, owner, id); err != nil {
					return err
				}
				if more = documents+parts > 0; !more {
					_, err = tx.Exec(sqlUnmarkDeleted, owner, id)
				}
				return err
			})
		}
	}
	return err
}
