package inmem

import (
	"context"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

// DeleteTask implements [store.Maintenance].
func (s *taskStore) DeleteTask(ctx context.Context, key store.Key, force bool) (more bool, err error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return false, err
	}
	t := s.task(key)
	if err := rules.DeleteTask(t.seen(), !force && t.hasUndelivered()); err != nil {
		return false, err
	}
	s.removeTask(t)
	return false, nil
}

// hasUndelivered reports whether a webhook has pending events.
func (t *task) hasUndelivered() bool {
	if t == nil {
		return false
	}
	for _, l := range t.lanes {
		if !l.Deleted && l.Pending() {
			return true
		}
	}
	return false
}

// PurgeDeleted implements [store.Maintenance]. It has nothing to do: deletions remove
// all data of a task at once.
func (s *taskStore) PurgeDeleted(ctx context.Context) (more bool, err error) {
	defer s.mu.Unlock()
	return false, s.write(ctx)
}
