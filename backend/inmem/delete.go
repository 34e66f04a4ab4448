package inmem

import (
	"cmp"
	"context"
	"strings"

	"github.com/holdfast-dev/holdfast/store"
)

// DeleteTask implements [store.DeleteStore].
func (s *Store) DeleteTask(ctx context.Context, key store.Key, force bool) (more bool, err error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return false, err
	}
	t := s.task(key)
	switch {
	case t == nil:
		return false, store.ErrNotFound
	case !t.over():
		return false, store.ErrBusy
	case !force && t.undelivered():
		return false, store.ErrUndelivered
	}
	s.removeTask(t)
	return false, nil
}

// over reports whether the task never runs again.
func (t *task) over() bool {
	return t.fold.Status.State.Terminal() && t.fold.Run.Phase == store.PhaseIdle
}

// undelivered reports whether a webhook has events to deliver.
func (t *task) undelivered() bool {
	for _, l := range t.lanes {
		if !l.deleted && l.pending() {
			return true
		}
	}
	return false
}

// ExpireTasks implements [store.DeleteStore].
func (s *Store) ExpireTasks(ctx context.Context, p store.TaskExpiry) (removed int, next *store.ExpiryPlace, err error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return 0, nil, err
	}
	var after store.ExpiryPlace
	if p.After != nil {
		after = *p.After
	}
	old, next := s.old(p, after)
	for _, t := range old {
		if t.over() && !t.undelivered() {
			s.removeTask(t)
			removed++
		}
	}
	return removed, next, nil
}

// old returns the next tasks to check, and the place of the last if there may be more.
func (s *Store) old(p store.TaskExpiry, after store.ExpiryPlace) (old []*task, next *store.ExpiryPlace) {
	owners := s.names.steps(true, func(e entry[*owner]) bool { return e.rec.name < after.Owner })
	for ; !owners.done; owners.step() {
		o := owners.entry().rec
		x := o.states[p.State]
		if x == nil {
			continue
		}
		tasks := x.steps(true, func(e entry[*task]) bool {
			return o.name == after.Owner && cmp.Or(cmp.Compare(e.at, millis(after.At)), strings.Compare(e.rec.fold.Key.ID, after.ID)) <= 0
		})
		for ; !tasks.done && tasks.entry().at < ceil(p.Before); tasks.step() {
			if len(old) == p.Limit {
				last := old[len(old)-1]
				return old, &store.ExpiryPlace{Owner: last.owner.name, At: last.fold.Status.Timestamp, ID: last.fold.Key.ID}
			}
			old = append(old, tasks.entry().rec)
		}
	}
	return old, nil
}

// PurgeDeleted implements [store.DeleteStore]. A removed task leaves nothing behind.
func (s *Store) PurgeDeleted(ctx context.Context) (more bool, err error) {
	defer s.mu.Unlock()
	return false, s.write(ctx)
}
