package postgres

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

// writeEffect returns a write as an effect.
func (s *vectorStore) writeEffect(ctx context.Context, k vector.Key, p vector.WriteParams, replace bool) (store.Effect, []string, error) {
	w, err := s.prepare(ctx, k, p, replace)
	if err == nil {
		err = s.kit.Read(ctx, w.admit)
	}
	if err != nil {
		return nil, nil, err
	}
	return sqlkit.NewEffect(s.kit, w.apply), w.IDs(), nil
}

// admit returns the error that the write would return now.
func (w *documentWrite) admit(q sqlkit.Querier) error {
	c, err := readCollection(q, sqlReadCollection, w.Key)
	if err != nil {
		return err
	}
	if _, err = w.Admit(c.collection()); err == nil {
		err = w.fits(c)
	}
	if err != nil || c == nil || w.replace {
		return err
	}
	return q.Query(sqlHasDocument, func(sqlkit.Row) error { return vector.ErrExists }, w.Key.Owner, c.id, w.IDs())
}

// DeleteEffect implements vector.Transactional.
func (s *vectorStore) DeleteEffect(k vector.Key, ids []string) (store.Effect, error) {
	k, err := vectordriver.CheckIDs(k, ids)
	if err == nil {
		err = s.enabled()
	}
	if err != nil {
		return nil, err
	}
	ids = slices.Clone(ids)
	return sqlkit.NewEffect(s.kit, func(tx sqlkit.Tx) error {
		c, err := readCollection(tx, sqlShareCollection, k)
		if err != nil || c == nil {
			return err
		}
		n, err := removeDocuments(tx, k, c, ids)
		if err != nil {
			return err
		}
		_, err = s.indexes.count(tx, k, -n)
		return err
	}), nil
}
