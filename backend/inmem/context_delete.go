package inmem

import (
	"context"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

// DeleteContext implements [store.Contexts].
func (s *contextStore) DeleteContext(ctx context.Context, owner, id string, limit int) (more bool, err error) {
	return s.deleteContext(ctx, owner, id, limit, false)
}

// FinishDelete implements [store.Contexts].
func (s *contextStore) FinishDelete(ctx context.Context, owner, id string, limit int) (more bool, err error) {
	return s.deleteContext(ctx, owner, id, limit, true)
}

func (s *contextStore) deleteContext(ctx context.Context, owner, id string, limit int, finish bool) (more bool, err error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return false, err
	}
	c := s.contextEntry(owner, id)
	if err := rules.DeleteContext(c.seen(), finish); err != nil {
		return false, err
	}
	if !c.deleting {
		c.unindex()
		c.deleting = true
		s.deleting.add(0, c)
		s.empty.update(c)
	}
	markOnly := limit <= 0
	for ; limit > 0 && c.byCreation.len > 0; limit-- {
		last := c.byCreation.chunks[len(c.byCreation.chunks)-1]
		s.removeTask(last[len(last)-1].rec)
	}
	if c.byCreation.len > 0 || markOnly {
		return true, nil
	}
	s.deleting.remove(0, c)
	s.removeContext(c)
	return false, nil
}

// removeContext removes a context that has no tasks and is in no list.
func (s *contextStore) removeContext(c *contextEntry) {
	s.removeRecords(c.records)
	delete(c.owner.contexts, c.id)
	s.removeIfEmpty(c.owner)
}

// PendingDeletions implements [store.Contexts].
func (s *contextStore) PendingDeletions(ctx context.Context, limit int) ([]store.ContextKey, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return nil, err
	}
	var keys []store.ContextKey
	for e := range s.deleting.ascend(nil) {
		if len(keys) >= limit {
			break
		}
		keys = append(keys, store.ContextKey{Owner: e.rec.owner.name, ID: e.rec.id})
	}
	return keys, nil
}
