package inmem

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorydriver"
)

var _ memory.Transactional = (*longTerm)(nil)

// SaveEffect implements memory.Transactional.
func (s *longTerm) SaveEffect(ctx context.Context, scope memory.Scope, text string, p memory.SaveParams) (store.Effect, error) {
	next, err := s.newFact(ctx, scope, text, p)
	if err != nil {
		return nil, err
	}
	return &effect{db: s.database, apply: func() (undo func(), err error) {
		restore := s.restore(s.in(next.Scope).named(next.Key))
		id, err := s.add(next)
		return func() {
			if f := s.in(next.Scope).fact(id); f != nil {
				s.remove(next.Scope, f)
			}
			restore()
		}, err
	}}, nil
}

// DeleteEffect implements memory.Transactional.
func (s *longTerm) DeleteEffect(scope memory.Scope, id string) (store.Effect, error) {
	scope, err := memorydriver.CheckGet(scope, id, time.Time{})
	if err != nil {
		return nil, err
	}
	return &effect{db: s.database, apply: func() (undo func(), err error) {
		f := s.in(scope).fact(id)
		if f != nil {
			s.remove(scope, f)
		}
		return s.restore(f), nil
	}}, nil
}

// restore returns a function that adds a fact again as it is now, unless it is nil.
func (s *longTerm) restore(f *fact) func() {
	if f == nil {
		return func() {}
	}
	before := slices.Clone(f.versions)
	return func() {
		f.versions = before
		s.insert(f)
	}
}
