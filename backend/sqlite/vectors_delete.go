package sqlite

import (
	"context"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/vectordriver"
	"github.com/holdfast-dev/holdfast/store/vector/vectorsql"
)

const (
	sqlDeleteSome       = `DELETE FROM {s}.vector_documents WHERE pk IN (SELECT pk FROM {s}.vector_documents WHERE` + whereDocuments + ` ORDER BY id LIMIT $3::bigint)`
	sqlDropSomeSnapshot = `DELETE FROM {s}.vector_snapshots WHERE pk IN (SELECT pk FROM {s}.vector_snapshots WHERE` + whereDocuments + ` LIMIT 8)`
)

// deletePage is the number of documents that one transaction removes.
const deletePage = 500

// DeleteCollection implements vector.Store.
func (s *vectorStore) DeleteCollection(ctx context.Context, k vector.Key) (int, error) {
	k, err := vectordriver.CheckKey(k)
	if err != nil {
		return 0, err
	}
	removed, err := s.drop(ctx, k)
	if err != nil {
		return 0, err
	}
	// The collection is deleted, whatever happens to its rows: the next deletion or start continues.
	_ = s.indexes.removeDeleted(ctx, k.Owner)
	return removed, nil
}

// drop deletes a collection and leaves its documents, which nothing finds, to removeDeleted.
func (s *vectorStore) drop(ctx context.Context, k vector.Key) (removed int, err error) {
	err = s.db.Write(ctx, func(tx sqlkit.Tx) error {
		removed = 0
		c, err := readCollection(tx, k)
		if err != nil || c == nil {
			return err
		}
		removed = int(c.Documents)
		if _, err := tx.Exec(sqlDropCollection, k.Owner, k.Collection); err != nil {
			return err
		}
		return vectorsql.MarkDeleted(tx, k.Owner, c.id)
	})
	if err == nil {
		s.indexes.drop(k)
	}
	return removed, err
}

// ForgetOwner implements vector.Forgetter.
func (s *vectorStore) ForgetOwner(ctx context.Context, owner string) (removed int, err error) {
	all, err := s.Collections(ctx, owner)
	if err != nil {
		return 0, err
	}
	for _, c := range all {
		n, err := s.drop(ctx, vector.Key{Owner: owner, Collection: c.Name})
		if removed += n; err != nil {
			return removed, err
		}
	}
	return removed, s.indexes.removeDeleted(ctx, owner)
}

// removeDeleted removes the rows of deleted collections of an owner, "" for all.
func (s *vectorIndexes) removeDeleted(ctx context.Context, owner string) error {
	_, err := vectorsql.RemoveDeleted(ctx, s.db, owner, func(tx sqlkit.Tx, owner string, id int64) (int64, error) {
		if err := s.terms(owner, id).RemoveFirst(tx, deletePage); err != nil {
			return 0, err
		}
		documents, err := tx.Exec(sqlDeleteSome, owner, id, deletePage)
		if err != nil {
			return 0, err
		}
		parts, err := tx.Exec(sqlDropSomeSnapshot, owner, id)
		return documents + parts, err
	})
	return err
}
