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

// contextStore implements [store.Contexts].
type contextStore struct {
	*taskStore
	deleting index[*contextEntry] // contexts with a pending deletion
}

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
	unfinished   int            // tasks that are not in a terminal state
	deleting     bool           // deletion is pending: the context is in no list
	records      []*record      // idempotency records that refer to the context
	emptyPos     *emptyPosition // position in taskStore.empty, nil if the context has tasks
}

func (c *contextEntry) compare(d *contextEntry) int {
	if c == d {
		return 0
	}
	return cmp.Or(strings.Compare(c.id, d.id), strings.Compare(c.owner.name, d.owner.name))
}

// liveContext returns a context of the owner, or nil if it does not exist or its deletion is pending.
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
func (s *contextStore) Context(ctx context.Context, owner, id string, tasks int) (store.Context, error) {
	found, err := s.context(ctx, owner, id, tasks)
	return found.Copy(), err
}

func (s *contextStore) context(ctx context.Context, owner, id string, tasks int) (store.Context, error) {
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
func (s *contextStore) SaveContext(ctx context.Context, c store.ContextChange) (store.Context, error) {
	if err := c.Check(); err != nil {
		return store.Context{}, a2a.Wrap(a2a.CodeInternal, err, "malformed change")
	}
	record := c.Context.Copy()
	saved, err := s.save(ctx, &c, &record)
	return saved.Copy(), err
}

func (s *contextStore) save(ctx context.Context, change *store.ContextChange, record *store.Context) (store.Context, error) {
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

// seen returns what package rules checks before a change or the deletion of the context. c is nil if
// the context does not exist.
func (c *contextEntry) seen() *rules.Context {
	if c == nil {
		return new(rules.Context)
	}
	return &rules.Context{
		Exists: true, Deleting: c.deleting, Version: c.version, ParentID: c.record.ParentID, Unfinished: c.unfinished > 0, Busy: c.queued > 0,
	}
}

// seenBySave returns what package rules checks before a change of a context is saved.
func (s *contextStore) seenBySave(c *contextEntry, change *store.ContextChange) *rules.Context {
	seen := c.seen()
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

func (c *contextEntry) hasTags(tags []string) bool {
	for _, tag := range tags {
		if _, ok := slices.BinarySearch(c.record.Tags, tag); !ok {
			return false
		}
	}
	return true
}
