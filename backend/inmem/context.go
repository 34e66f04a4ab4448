package inmem

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

// contextEntry is a context with its tasks.
type contextEntry struct {
	owner            *owner
	id               string
	version          int64
	created, updated int64
	// record is the client's description. It is replaced, never modified. Contexts
	// without a description share one record. Its key, times, version and tasks are
	// not used.
	record       *store.Context
	byStatusTime index[*task]
	byCreation   index[*task]
	ready        index[*task]   // queued tasks that are due
	queued       int            // tasks that are queued or leased
	unfinished   int            // tasks whose state is not terminal
	deleting     bool           // deletion is pending: the context is in no list
	records      []*record      // idempotency records that refer to the context
	emptyPos     *emptyPosition // position in Store.empty, nil if the context has tasks
}

func (c *contextEntry) compare(d *contextEntry) int {
	if c == d {
		return 0
	}
	return cmp.Or(strings.Compare(c.id, d.id), strings.Compare(c.owner.name, d.owner.name))
}

// contextEntry returns a context, including one whose deletion is pending, or nil.
func (s *Store) contextEntry(owner, id string) *contextEntry {
	if o := s.owners[owner]; o != nil {
		return o.contexts[id]
	}
	return nil
}

// liveContext returns a context of the owner whose deletion is not pending, or nil.
func (o *owner) liveContext(id string) *contextEntry {
	if c := o.contexts[id]; c != nil && !c.deleting {
		return c
	}
	return nil
}

// view returns the context with the ids of its newest tasks. The result shares
// maps and slices with the store.
func (c *contextEntry) view(tasks int) store.Context {
	v := *c.record
	v.Key = store.ContextKey{Owner: c.owner.name, ID: c.id}
	v.CreatedAt, v.UpdatedAt, v.Version = fromMillis(c.created), fromMillis(c.updated), c.version
	v.TaskCount, v.TaskIDs = c.byCreation.len, nil
	if tasks = min(tasks, c.byCreation.len); tasks > 0 {
		v.TaskIDs = make([]string, tasks)
		for s := c.byCreation.iterate(false, func(entry[*task]) bool { return false }); tasks > 0; s.next() {
			tasks--
			v.TaskIDs[tasks] = s.entry().rec.fold.Key.ID
		}
	}
	return v
}

// Context implements [store.Contexts].
func (s *Store) Context(ctx context.Context, owner, id string, tasks int) (store.Context, error) {
	found, err := s.context(ctx, owner, id, tasks)
	return found.Copy(), err
}

func (s *Store) context(ctx context.Context, owner, id string, tasks int) (store.Context, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return store.Context{}, err
	}
	c := s.contextEntry(owner, id)
	if c == nil || c.deleting {
		return store.Context{}, store.ErrNotFound
	}
	return c.view(tasks), nil
}

// SaveContext implements [store.Contexts].
func (s *Store) SaveContext(ctx context.Context, c store.ContextChange) (store.Context, error) {
	if err := c.Check(); err != nil {
		return store.Context{}, a2a.Wrap(a2a.CodeInternal, err, "malformed change")
	}
	record := c.Context.Copy()
	saved, err := s.save(ctx, &c, &record)
	return saved.Copy(), err
}

func (s *Store) save(ctx context.Context, change *store.ContextChange, record *store.Context) (store.Context, error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return store.Context{}, err
	}
	k := record.Key
	c := s.contextEntry(k.Owner, k.ID)
	if err := rules.SaveContext(change, s.seenBySave(c, change)); err != nil {
		return store.Context{}, err
	}
	updated := millis(store.Time(record.UpdatedAt))
	if c == nil {
		created := millis(store.Time(record.CreatedAt))
		c = &contextEntry{owner: s.owner(k.Owner), id: k.ID, version: 1, created: created, updated: updated, record: record}
		c.owner.contexts[c.id] = c
		c.index()
	} else {
		c.unindex()
		c.version++
		c.updated, c.record = max(c.updated, updated), record
		c.index()
	}
	s.empty.update(c)
	if change.Idempotency != nil {
		s.addRecord(*change.Idempotency, c.version, &c.records)
	}
	return c.view(0), nil
}

// seenBySave returns what decides about a context change. c is nil if the context does not
// exist.
func (s *Store) seenBySave(c *contextEntry, change *store.ContextChange) *rules.Context {
	seen := new(rules.Context)
	if c != nil {
		*seen = rules.Context{Exists: true, Deleting: c.deleting, Version: c.version, ParentID: c.record.ParentID, Unfinished: c.unfinished > 0}
	}
	r, o := change.Idempotency, s.owners[change.Context.Key.Owner]
	seen.Duplicate = r != nil && s.record(r.Owner, r.Key) != nil
	if o == nil || !seen.NewParent(change) {
		return seen
	}
	up := o.liveContext(change.Context.ParentID)
	for up != nil && seen.Ancestors.Add(change.Context.Key.ID, up.id, up.record.ParentID) {
		up = o.liveContext(up.record.ParentID)
	}
	return seen
}

// receive sets updated to the time of the newest client message among events, if
// that is later.
func (c *contextEntry) receive(events []store.Event) {
	newest := c.updated
	for i := range events {
		if events[i].Received != nil {
			newest = max(newest, millis(events[i].Time))
		}
	}
	if newest > c.updated && !c.deleting {
		c.setUpdated(newest)
	}
}

// DeleteContext implements [store.Contexts].
func (s *Store) DeleteContext(ctx context.Context, owner, id string, limit int) (more bool, err error) {
	return s.deleteContext(ctx, owner, id, limit, false)
}

// FinishDelete implements [store.Contexts].
func (s *Store) FinishDelete(ctx context.Context, owner, id string, limit int) (more bool, err error) {
	return s.deleteContext(ctx, owner, id, limit, true)
}

func (s *Store) deleteContext(ctx context.Context, owner, id string, limit int, pendingOnly bool) (more bool, err error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return false, err
	}
	c := s.contextEntry(owner, id)
	switch {
	case c == nil || pendingOnly && !c.deleting:
		return false, store.ErrNotFound
	case c.deleting:
	case c.queued > 0:
		return false, store.ErrBusy
	default:
		c.unindex()
		c.deleting = true
		s.deleting.add(0, c)
		s.empty.update(c)
	}
	for ; limit > 0 && c.byCreation.len > 0; limit-- {
		last := c.byCreation.chunks[len(c.byCreation.chunks)-1]
		s.removeTask(last[len(last)-1].rec)
	}
	if c.byCreation.len > 0 {
		return true, nil
	}
	s.deleting.remove(0, c)
	s.removeContext(c)
	return false, nil
}

// removeContext removes a context that has no tasks and is in no list.
func (s *Store) removeContext(c *contextEntry) {
	s.removeRecords(c.records)
	delete(c.owner.contexts, c.id)
	s.removeIfEmpty(c.owner)
}

// PendingDeletions implements [store.Contexts].
func (s *Store) PendingDeletions(ctx context.Context, limit int) ([]store.ContextKey, error) {
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

func (c *contextEntry) hasTags(tags []string) bool {
	for _, tag := range tags {
		if _, ok := slices.BinarySearch(c.record.Tags, tag); !ok {
			return false
		}
	}
	return true
}
