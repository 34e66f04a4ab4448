package postgres

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/vectordriver"
	"github.com/holdfast-dev/holdfast/store/vector/vectorsql"
)

const (
	sqlCollectionNames = `SELECT name FROM {s}.vector_collections WHERE owner = $1::text ORDER BY name`
	sqlDropCollection  = `DELETE FROM {s}.vector_collections WHERE` + whereCollection
	sqlDeleteSome      = `DELETE FROM {s}.vector_documents d WHERE` + whereDocuments + ` AND d.id IN (SELECT d.id FROM {s}.vector_documents d WHERE` + whereDocuments + ` ORDER BY d.id LIMIT 1000)`
	sqlHasDocuments    = `SELECT 1 WHERE to_regclass('{s}.vector_documents') IS NOT NULL`
)

// DeleteCollection implements vector.Store.
func (s *vectorStore) DeleteCollection(ctx context.Context, k vector.Key) (removed int, err error) {
	k, err = vectordriver.CheckKey(k)
	if err != nil {
		return 0, err
	}
	if err := s.enabled(); err != nil {
		return 0, err
	}
	if removed, err = s.drop(ctx, k); err != nil {
		return 0, err
	}
	// The collection is deleted, whatever happens to its rows: the next deletion or start continues.
	_ = s.removeDeleted(ctx, k.Owner)
	return removed, nil
}

// drop deletes a collection and leaves its documents, which nothing finds, to removeDeleted.
func (s *vectorStore) drop(ctx context.Context, k vector.Key) (removed int, err error) {
	err = s.kit.Write(ctx, func(tx sqlkit.Tx) error {
		removed = 0
		c, err := readCollection(tx, sqlLockCollection, k)
		if err != nil || c == nil {
			return err
		}
		removed = int(c.Documents)
		if _, err := tx.Exec(sqlDropCollection, k.Owner, k.Collection); err != nil {
			return err
		}
		return vectorsql.MarkDeleted(tx, k.Owner, c.id)
	})
	return removed, err
}

// ForgetOwner implements vector.Forgetter. It also removes documents that other replicas wrote if this
// store keeps none.
func (s *vectorStore) ForgetOwner(ctx context.Context, owner string) (removed int, err error) {
	if err := vectordriver.CheckOwner(owner); err != nil {
		return 0, err
	}
	var names []string
	exists := false
	err = s.kit.Read(ctx, func(q sqlkit.Querier) error {
		names, exists = nil, false
		err := q.Query(sqlHasDocuments, func(sqlkit.Row) error {
			exists = true
			return nil
		})
		if err != nil || !exists {
			return err
		}
		return q.Query(sqlCollectionNames, func(r sqlkit.Row) error {
			names = append(names, r.Text(0))
			return nil
		}, owner)
	})
	if err != nil || !exists {
		return 0, err
	}
	for _, name := range names {
		n, err := s.drop(ctx, vector.Key{Owner: owner, Collection: name})
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, s.removeDeleted(ctx, owner)
}

// removeDeleted removes the documents of deleted collections of an owner in transactions of bounded
// size, and their indexes.
func (s *vectorStore) removeDeleted(ctx context.Context, owner string) error {
	n, err := vectorsql.RemoveDeleted(ctx, s.kit, owner, func(tx sqlkit.Tx, owner string, id int64) (int64, error) {
		return tx.Exec(sqlDeleteSome, owner, id)
	})
	if n > 0 {
		s.indexes.notify() // drops indexes of collections that do not exist
	}
	return err
}

// continueDeletions removes the documents of deleted collections of all owners, because a process may have
// ended between deleting a collection and removing its documents. Like other work of vectorIndexes it has
// its own connection, so it repeats the loop of vectorsql.RemoveDeleted.
func (x *vectorIndexes) continueDeletions(ctx context.Context) (err error) {
	db := (&migrations{database: x.database}).connect(x.pool.Config().ConnConfig)
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(ctx, x.qualify(vectorsql.SQLAllDeleted))
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	type deleted struct {
		owner string
		id    int64
	}
	var all []deleted
	for rows.Next() {
		var c deleted
		if err := rows.Scan(&c.owner, &c.id); err != nil {
			return err
		}
		all = append(all, c)
	}
	for _, c := range all {
		for n := int64(1); n > 0; {
			result, err := db.ExecContext(ctx, x.qualify(sqlDeleteSome), c.owner, c.id)
			if err != nil {
				return err
			}
			if n, err = result.RowsAffected(); err != nil {
				return err
			}
		}
		if _, err := db.ExecContext(ctx, x.qualify(vectorsql.SQLUnmarkDeleted), c.owner, c.id); err != nil {
			return err
		}
	}
	return rows.Err()
}
