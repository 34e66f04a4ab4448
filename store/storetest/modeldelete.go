package storetest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/store"
)

func (m *model) DeleteTask(ctx context.Context, k store.Key, force bool) (bool, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return false, err
	}
	t := m.tasks[k]
	switch {
	case t == nil:
		return false, store.ErrNotFound
	case isUnfinished(t) || t.queue.Phase != store.PhaseIdle:
		return false, store.ErrBusy
	case !force && t.undelivered():
		return false, store.ErrUndelivered
	}
	m.removeTask(t)
	return false, nil
}

func (m *model) removeTask(t *modelTask) {
	delete(m.tasks, t.key)
	created := t.fold().CreatedAt
	m.removals[removalKey{t.key, created.UnixMilli()}] = store.Removal{Key: t.key, CreatedAt: created, ContextID: t.contextID}
	m.removeRecords(t.key.Owner, t.key.ID, false)
}

func (t *modelTask) undelivered() bool { return slices.ContainsFunc(t.lanes, t.pending) }

func (m *model) ExpireTasks(ctx context.Context, p store.TaskExpiry) (removed int, next *store.ExpiryCursor, err error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return 0, nil, err
	}
	var old []store.ExpiryCursor
	for k, t := range m.tasks {
		status := t.fold().Status
		at := store.ExpiryCursor{Owner: k.Owner, At: status.Timestamp, ID: k.ID}
		if status.State == p.State && at.At.Before(p.Before) && (p.After == nil || compareExpiryCursors(at, *p.After) > 0) {
			old = append(old, at)
		}
	}
	slices.SortFunc(old, compareExpiryCursors)
	if len(old) > p.Limit {
		old = old[:p.Limit]
		next = &old[p.Limit-1]
	}
	for _, at := range old {
		t := m.tasks[store.Key{Owner: at.Owner, ID: at.ID}]
		if t.queue.Phase == store.PhaseIdle && !t.undelivered() {
			m.removeTask(t)
			removed++
		}
	}
	return removed, next, nil
}

func (m *model) ExpireContexts(ctx context.Context, p store.ContextExpiry) (removed int, next *store.ExpiryCursor, err error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return 0, nil, err
	}
	var old []store.ExpiryCursor
	for k, c := range m.contexts {
		at := store.ExpiryCursor{Owner: k.Owner, At: c.UpdatedAt, ID: k.ID}
		if !c.deleting && c.saved == p.Saved && at.At.Before(p.Before) && len(m.tasksOf(k)) == 0 && (p.After == nil || compareExpiryCursors(at, *p.After) > 0) {
			old = append(old, at)
		}
	}
	slices.SortFunc(old, compareExpiryCursors)
	if len(old) > p.Limit {
		old = old[:p.Limit]
		next = &old[p.Limit-1]
	}
	children := func(k store.ContextKey) bool {
		for _, c := range m.contexts {
			if !c.deleting && c.Key.Owner == k.Owner && c.ParentID == k.ID {
				return true
			}
		}
		return false
	}
	for _, at := range old {
		if k := (store.ContextKey{Owner: at.Owner, ID: at.ID}); !children(k) {
			delete(m.contexts, k)
			m.removeRecords(at.Owner, at.ID, true)
			removed++
		}
	}
	return removed, next, nil
}

func compareExpiryCursors(a, b store.ExpiryCursor) int {
	return cmp.Or(strings.Compare(a.Owner, b.Owner), a.At.Compare(b.At), strings.Compare(a.ID, b.ID))
}

func compareRemovals(a, b store.Removal) int {
	return cmp.Or(strings.Compare(a.Key.Owner, b.Key.Owner), strings.Compare(a.Key.ID, b.Key.ID), a.CreatedAt.Compare(b.CreatedAt))
}

func (m *model) Removals(ctx context.Context, after store.Removal, limit int) (found []store.Removal, err error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return nil, err
	}
	for _, r := range slices.SortedFunc(maps.Values(m.removals), compareRemovals) {
		if len(found) < limit && compareRemovals(r, after) > 0 {
			found = append(found, r)
		}
	}
	return found, nil
}

func (m *model) ForgetRemovals(ctx context.Context, removals []store.Removal) error {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return err
	}
	for _, r := range removals {
		delete(m.removals, removalKey{r.Key, r.CreatedAt.UnixMilli()})
	}
	return nil
}

func (m *model) PurgeDeleted(ctx context.Context) (bool, error) {
	defer m.mu.Unlock()
	return false, m.startCall(ctx)
}
