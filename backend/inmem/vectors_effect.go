package inmem

import (
	"context"

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

func (s *vectorStore) writeEffect(ctx context.Context, k vector.Key, p vector.WriteParams, replace bool) (store.Effect, []string, error) {
	w, err := s.prepare(ctx, k, p)
	if err != nil {
		return nil, nil, err
	}
	s.vectorState.mu.RLock()
	_, err = s.admit(w, replace)
	s.vectorState.mu.RUnlock()
	if err != nil {
		return nil, nil, err
	}
	return s.effect(func() (func(), error) { return s.put(w, replace) }), w.IDs(), nil
}

// DeleteEffect implements vector.Transactional.
func (s *vectorStore) DeleteEffect(k vector.Key, ids []string) (store.Effect, error) {
	k, err := vectordriver.CheckIDs(k, ids)
	if err != nil {
		return nil, err
	}
	ids = append([]string(nil), ids...)
	return s.effect(func() (undo func(), err error) {
		c := s.collections[k]
		if c == nil {
			return func() {}, nil
		}
		_, undo = c.change(ids, nil)
		return undo, nil
	}), nil
}

// effect returns an effect that changes rows. Searches wait until all effects of a change are
// applied; then the index follows.
func (s *vectorStore) effect(apply func() (undo func(), err error)) store.Effect {
	return &effect{db: s.database, lock: &s.vectorState.mu, apply: apply}
}
