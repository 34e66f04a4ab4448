package sqlite

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/vectordriver"
)

// AddEffect implements vector.Transactional.
func (s *vectorStore) AddEffect(ctx context.Context, k vector.Key, p vector.WriteParams) (store.Effect, []string, error) {
	return s.writeEffect(ctx, k, p, false)
}

// UpsertEffect implements vector.Transactional.
func (s *vectorStore) UpsertEffect(ctx context.Context, k vector.Key, p vector.WriteParams) (store.Effect, []string, error) {
	return s.writeEffect(ctx, k, p, true)
}

// writeEffect returns a write as an effect. The index follows before the next search.
func (s *vectorStore) writeEffect(ctx context.Context, k vector.Key, p vector.WriteParams, replace bool) (store.Effect, []string, error) {
	w, err := s.prepare(ctx, k, p, replace)
	if err == nil {
		err = s.db.Read(ctx, func(q sqlkit.Querier) error {
			_, _, _, err := w.admit(q)
			return err
		})
	}
	if err != nil {
		return nil, nil, err
	}
	return sqlkit.NewEffect(s.db, w.apply), w.IDs(), nil
}

// DeleteEffect implements vector.Transactional.
func (s *vectorStore) DeleteEffect(k vector.Key, ids []string) (store.Effect, error) {
	k, err := vectordriver.CheckIDs(k, ids)
	if err != nil {
		return nil, err
	}
	ids = slices.Clone(ids)
	return sqlkit.NewEffect(s.db, func(tx sqlkit.Tx) error {
		c, err := readCollection(tx, k)
		if err != nil || c == nil {
			return err
		}
		if err := s.indexes.removeDocuments(tx, k, c, ids); err != nil {
			return err
		}
		return changeCollection(tx, k, c)
	}), nil
}
