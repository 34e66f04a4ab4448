package storetest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// modelContext is a context without the values that depend on its tasks.
type modelContext struct {
	store.Context
	deleting bool
	saved    bool
}

// createContext creates a context for its first task if it does not exist.
func (m *model) createContext(k store.ContextKey, t time.Time) {
	if m.contexts[k] == nil {
		m.contexts[k] = &modelContext{Context: store.Context{
			Key: k, Role: store.DefaultContextRole, Status: a2a.ContextActive, CreatedAt: t, UpdatedAt: t, Version: 1,
		}}
	}
}

// updateContext updates the time of a context for messages of the client among events.
func (m *model) updateContext(k store.ContextKey, events ...store.Event) {
	for _, e := range events {
		if isFromClient(e) {
			m.contexts[k].UpdatedAt = later(m.contexts[k].UpdatedAt, store.Time(e.Time))
		}
	}
}

func isFromClient(e store.Event) bool { return e.Received != nil }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// contextRejection returns the error if the context accepts no new tasks.
func (m *model) contextRejection(k store.ContextKey) error {
	if c := m.contexts[k]; c != nil && (c.deleting || c.Status != a2a.ContextActive) {
		return store.ErrContextClosed
	}
	return nil
}

// visibleContext returns a context as reads find it: nil if it is pending deletion.
func (m *model) visibleContext(k store.ContextKey) *modelContext {
	if c := m.contexts[k]; c != nil && !c.deleting {
		return c
	}
	return nil
}

// tasksOf returns the tasks of a context, oldest first.
func (m *model) tasksOf(k store.ContextKey) []*modelTask {
	var tasks []*modelTask
	for _, t := range m.tasks {
		if t.context() == k {
			tasks = append(tasks, t)
		}
	}
	slices.SortFunc(tasks, func(a, b *modelTask) int {
		return cmp.Or(a.log[0].Time.Compare(b.log[0].Time), strings.Compare(a.key.ID, b.key.ID))
	})
	return tasks
}

// readContext returns a context with the ids of its newest tasks.
func (m *model) readContext(c store.Context, tasks int) store.Context {
	all := m.tasksOf(c.Key)
	read := c.Copy()
	read.TaskCount = len(all)
	for _, t := range all[max(0, len(all)-tasks):] {
		read.TaskIDs = append(read.TaskIDs, t.key.ID)
	}
	return read
}

func (m *model) Context(ctx context.Context, owner, id string, tasks int) (store.Context, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return store.Context{}, err
	}
	c := m.visibleContext(store.ContextKey{Owner: owner, ID: id})
	if c == nil {
		return store.Context{}, store.ErrNotFound
	}
	return m.readContext(c.Context, tasks), nil
}

func (m *model) Contexts(ctx context.Context, q store.ContextQuery) (store.ContextPage, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return store.ContextPage{}, err
	}
	var all []store.Context
	for _, c := range m.contexts {
		if !c.deleting {
			all = append(all, c.Context)
		}
	}
	page := contextPageOf(all, q)
	for i := range page.Contexts {
		page.Contexts[i] = m.readContext(page.Contexts[i], q.MaxTaskIDs)
	}
	return page, nil
}

// contextPageOf returns the page of contexts that a query selects.
func contextPageOf(contexts []store.Context, q store.ContextQuery) store.ContextPage {
	var all []store.Context
	for _, c := range contexts {
		if contextMatches(q, &c) {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b store.Context) int { return contextOrder(q, q.Sort.Cursor(&a), q.Sort.Cursor(&b)) })
	var page store.ContextPage
	page.Total, page.TotalCapped = store.CapTotal(len(all), len(all), q.CountLimit(), true)
	if q.Cursor != nil {
		all = slices.DeleteFunc(all, func(c store.Context) bool { return contextOrder(q, q.Sort.Cursor(&c), q.Cursor) <= 0 })
	}
	all = all[min(q.Offset, len(all)):]
	if len(all) > q.Limit {
		all = all[:q.Limit]
		page.Next = q.Sort.Cursor(&all[len(all)-1])
	}
	page.Contexts = all
	return page
}

func contextMatches(q store.ContextQuery, c *store.Context) bool {
	for _, tag := range q.Tags {
		if !slices.Contains(c.Tags, tag) {
			return false
		}
	}
	return c.Key.Owner == q.Owner &&
		(len(q.Statuses) == 0 || slices.Contains(q.Statuses, c.Status)) &&
		(q.Role == "" || q.Role == c.Role) &&
		between(c.CreatedAt, q.CreatedAfter, q.CreatedBefore)
}

func contextOrder(q store.ContextQuery, a, b *store.ContextCursor) int {
	return inDirection(q.Ascending, cmp.Or(strings.Compare(a.Name, b.Name), a.Time.Compare(b.Time), strings.Compare(a.ID, b.ID)))
}

func (m *model) SaveContext(ctx context.Context, c store.ContextChange) (store.Context, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return store.Context{}, err
	}
	if err := c.Check(); err != nil {
		return store.Context{}, err
	}
	old := m.contexts[c.Context.Key]
	if err := m.saveRejection(old, &c); err != nil {
		return store.Context{}, err
	}
	next := &modelContext{Context: c.Context.Copy(), saved: true}
	next.Version, next.TaskCount, next.TaskIDs = 1, 0, nil
	next.CreatedAt, next.UpdatedAt = store.Time(c.Context.CreatedAt), store.Time(c.Context.UpdatedAt)
	if old != nil {
		next.Version, next.CreatedAt, next.UpdatedAt = old.Version+1, old.CreatedAt, later(old.UpdatedAt, next.UpdatedAt)
	}
	m.contexts[next.Key] = next
	m.saveRecord(c.Idempotency, next.Version, true)
	return m.readContext(next.Context, 0), nil
}

func (m *model) saveRejection(old *modelContext, c *store.ContextChange) error {
	if _, ok := m.existingRecord(c.Idempotency); ok {
		return store.ErrDuplicate
	}
	switch {
	case c.Create && old != nil:
		return store.ErrExists
	case !c.Create && (old == nil || old.deleting):
		return store.ErrNotFound
	case !c.Create && old.Version != c.Version:
		return store.ErrConflict
	case c.RequireFinished && slices.ContainsFunc(m.tasksOf(c.Context.Key), isUnfinished):
		return store.ErrBusy
	}
	if is := m.contexts[c.Context.Key]; is != nil && is.ParentID == c.Context.ParentID {
		return nil
	}
	return m.parentRejection(c.Context.Key, c.Context.ParentID)
}

func isUnfinished(t *modelTask) bool { return !t.fold().Status.State.Terminal() }

func (m *model) parentRejection(k store.ContextKey, parent string) error {
	if parent == "" {
		return nil
	}
	ancestors := 0
	for id := parent; id != "" && ancestors <= store.MaxContextDepth; {
		if id == k.ID && (ancestors > 0 || m.contexts[k] != nil) {
			return store.ErrParentCycle
		}
		next := m.visibleContext(store.ContextKey{Owner: k.Owner, ID: id})
		if next == nil {
			break
		}
		ancestors++
		id = next.ParentID
	}
	switch {
	case ancestors == 0:
		return store.ErrParentNotFound
	case ancestors > store.MaxContextDepth:
		return store.ErrParentDepth
	}
	return nil
}

func (m *model) DeleteContext(ctx context.Context, owner, id string, limit int) (bool, error) {
	return m.deleteContext(ctx, owner, id, limit, false)
}

func (m *model) FinishDelete(ctx context.Context, owner, id string, limit int) (bool, error) {
	return m.deleteContext(ctx, owner, id, limit, true)
}

func (m *model) deleteContext(ctx context.Context, owner, id string, limit int, pendingOnly bool) (bool, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return false, err
	}
	k := store.ContextKey{Owner: owner, ID: id}
	c := m.contexts[k]
	if c == nil || pendingOnly && !c.deleting {
		return false, store.ErrNotFound
	}
	tasks := m.tasksOf(k)
	if !c.deleting && slices.ContainsFunc(tasks, func(t *modelTask) bool { return t.queue.Phase != store.PhaseIdle }) {
		return false, store.ErrBusy
	}
	c.deleting = true
	for _, t := range tasks[:min(limit, len(tasks))] {
		m.removeTask(t)
	}
	if len(tasks) > limit || limit == 0 {
		return true, nil
	}
	delete(m.contexts, k)
	m.removeRecords(owner, id, true)
	return false, nil
}

// removeRecords removes the idempotency records of a task or a context.
func (m *model) removeRecords(owner, id string, ofContext bool) {
	for k, r := range m.records {
		if r.Owner == owner && r.TaskID == id && r.ofContext == ofContext {
			delete(m.records, k)
		}
	}
}

func (m *model) PendingDeletions(ctx context.Context, limit int) ([]store.ContextKey, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return nil, err
	}
	var deleting []store.ContextKey
	for k, c := range m.contexts {
		if c.deleting && len(deleting) < limit {
			deleting = append(deleting, k)
		}
	}
	return deleting, nil
}
