package inmem

import (
	"cmp"
	"context"
	"strings"

	"github.com/holdfast-dev/holdfast/store"
)

// removal is a [store.Removal] with its time in milliseconds.
type removal struct {
	key       store.Key
	createdAt int64
	contextID string
}

func (r removal) compare(o removal) int {
	return cmp.Or(strings.Compare(r.key.Owner, o.key.Owner), strings.Compare(r.key.ID, o.key.ID), cmp.Compare(r.createdAt, o.createdAt))
}

func newRemoval(r store.Removal) removal {
	return removal{key: r.Key, createdAt: millis(r.CreatedAt), contextID: r.ContextID}
}

// noteRemoval adds the removal of a task.
func (s *taskStore) noteRemoval(t *task) {
	r := newRemoval(store.Removal{Key: t.fold.Key, CreatedAt: t.fold.CreatedAt, ContextID: t.context.id})
	if !s.removals.has(0, r) {
		s.removals.add(0, r)
	}
}

// Removals implements [store.Maintenance].
func (s *taskStore) Removals(ctx context.Context, after store.Removal, limit int) (found []store.Removal, err error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	for e := range s.removals.ascend(&entry[removal]{rec: newRemoval(after)}) {
		if len(found) >= limit {
			break
		}
		found = append(found, store.Removal{Key: e.rec.key, CreatedAt: fromMillis(e.rec.createdAt), ContextID: e.rec.contextID})
	}
	return found, nil
}

// ForgetRemovals implements [store.Maintenance].
func (s *taskStore) ForgetRemovals(ctx context.Context, removals []store.Removal) error {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return err
	}
	for _, r := range removals {
		if r := newRemoval(r); s.removals.has(0, r) {
			s.removals.remove(0, r)
		}
	}
	return nil
}
