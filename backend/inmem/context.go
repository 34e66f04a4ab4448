package inmem

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// conversation is a context with its tasks.
type conversation struct {
	owner            *owner
	id               string
	version          int64
	created, updated int64
	// record holds what the client said of it, and is never changed, only
	// replaced; most contexts share that of those nobody described. Its key, times,
	// version and tasks are not used.
	record     *store.Context
	tasks      index[*task] // by status time
	born       index[*task] // by the time of creation
	ready      index[*task] // see queue
	queued     int          // tasks that are queued or leased
	unfinished int          // tasks whose state is not terminal
	deleting   bool         // its deletion is pending: it is in no list
	records    []*record    // those that name it
	empty      *emptyPlace  // where it is in vacant, nil if it is not
}

func (c *conversation) compare(d *conversation) int {
	if c == d {
		return 0
	}
	return cmp.Or(strings.Compare(c.id, d.id), strings.Compare(c.owner.name, d.owner.name))
}

// conversation returns a context, also one whose deletion was begun; nil when
// there is none.
func (s *Store) conversation(owner, id string) *conversation {
	if o := s.owners[owner]; o != nil {
		return o.contexts[id]
	}
	return nil
}

// known returns a context of the owner's whose deletion was not begun, nil when
// there is none.
func (o *owner) known(id string) *conversation {
	if c := o.contexts[id]; c != nil && !c.deleting {
		return c
	}
	return nil
}

// view returns the context with the ids of its newest tasks. It shares its
// values with the store.
func (c *conversation) view(tasks int) store.Context {
	v := *c.record
	v.Key = store.ContextKey{Owner: c.owner.name, ID: c.id}
	v.CreatedAt, v.UpdatedAt, v.Version = moment(c.created), moment(c.updated), c.version
	v.TaskCount, v.TaskIDs = c.born.len, nil
	if tasks = min(tasks, c.born.len); tasks > 0 {
		v.TaskIDs = make([]string, tasks)
		for s := c.born.steps(false, func(entry[*task]) bool { return false }); tasks > 0; s.step() {
			tasks--
			v.TaskIDs[tasks] = s.entry().rec.fold.Key.ID
		}
	}
	return v
}

// Context implements [store.Store].
func (s *Store) Context(ctx context.Context, owner, id string, tasks int) (store.Context, error) {
	found, err := s.context(ctx, owner, id, tasks)
	return found.Copy(), err
}

func (s *Store) context(ctx context.Context, owner, id string, tasks int) (store.Context, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return store.Context{}, err
	}
	c := s.conversation(owner, id)
	if c == nil || c.deleting {
		return store.Context{}, store.ErrNotFound
	}
	return c.view(tasks), nil
}

// SaveContext implements [store.Store].
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
	if r := change.Idempotency; r != nil && s.record(r.Owner, r.Key) != nil {
		return store.Context{}, store.ErrDuplicate
	}
	k := record.Key
	c := s.conversation(k.Owner, k.ID)
	if err := s.refuseSave(c, change); err != nil {
		return store.Context{}, err
	}
	updated := millis(store.Time(record.UpdatedAt))
	if c == nil {
		created := millis(store.Time(record.CreatedAt))
		c = &conversation{owner: s.owner(k.Owner), id: k.ID, version: 1, created: created, updated: updated, record: record}
		c.owner.contexts[c.id] = c
		c.list()
	} else {
		c.unlist()
		c.version++
		c.updated, c.record = max(c.updated, updated), record
		c.list()
	}
	s.vacant.update(c)
	if change.Idempotency != nil {
		s.addRecord(*change.Idempotency, c.version, &c.records)
	}
	return c.view(0), nil
}

// refuseSave returns why a change of a context, nil if there is none, is refused,
// if it is.
func (s *Store) refuseSave(c *conversation, change *store.ContextChange) error {
	switch {
	case change.Create && c != nil:
		return store.ErrExists
	case !change.Create && (c == nil || c.deleting):
		return store.ErrNotFound
	case !change.Create && c.version != change.Version:
		return store.ErrConflict
	case change.TasksOver && c != nil && c.unfinished > 0:
		return store.ErrBusy
	}
	if c != nil && c.record.ParentID == change.Context.ParentID {
		return nil
	}
	return s.refuseParent(change.Context.Key, change.Context.ParentID)
}

// refuseParent returns why a context may not have a parent, if it may not.
func (s *Store) refuseParent(k store.ContextKey, parent string) error {
	if parent == "" {
		return nil
	}
	o := s.owners[k.Owner]
	if o == nil || o.known(parent) == nil {
		return store.ErrParentNotFound
	}
	depth := 0
	for c := o.known(parent); c != nil && depth <= store.MaxContextDepth; c = o.known(c.record.ParentID) {
		if depth++; c.id == k.ID || c.record.ParentID == k.ID {
			return store.ErrParentCycle
		}
	}
	if depth > store.MaxContextDepth {
		return store.ErrParentDepth
	}
	return nil
}

// receive moves the context's time forward to that of the newest message of a
// client among events.
func (c *conversation) receive(events []store.Event) {
	newest := c.updated
	for i := range events {
		if events[i].Received != nil {
			newest = max(newest, millis(events[i].Time))
		}
	}
	if newest > c.updated && !c.deleting {
		c.move(newest)
	}
}

// DeleteContext implements [store.Store].
func (s *Store) DeleteContext(ctx context.Context, owner, id string, limit int) (more bool, err error) {
	return s.deleteContext(ctx, owner, id, limit, false)
}

// FinishDelete implements [store.Store].
func (s *Store) FinishDelete(ctx context.Context, owner, id string, limit int) (more bool, err error) {
	return s.deleteContext(ctx, owner, id, limit, true)
}

func (s *Store) deleteContext(ctx context.Context, owner, id string, limit int, begun bool) (more bool, err error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return false, err
	}
	c := s.conversation(owner, id)
	switch {
	case c == nil || begun && !c.deleting:
		return false, store.ErrNotFound
	case c.deleting:
	case c.queued > 0:
		return false, store.ErrBusy
	default:
		c.unlist()
		c.deleting = true
		s.deleting.add(0, c)
		s.vacant.update(c)
	}
	for ; limit > 0 && c.born.len > 0; limit-- {
		last := c.born.chunks[len(c.born.chunks)-1]
		s.removeTask(last[len(last)-1].rec)
	}
	if c.born.len > 0 {
		return true, nil
	}
	s.deleting.remove(0, c)
	s.removeContext(c)
	return false, nil
}

// removeContext removes a context without tasks that is in no list any more.
func (s *Store) removeContext(c *conversation) {
	s.removeRecords(c.records)
	delete(c.owner.contexts, c.id)
	s.release(c.owner)
}

// PendingDeletions implements [store.Store].
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

func (c *conversation) hasTags(tags []string) bool {
	for _, tag := range tags {
		if _, ok := slices.BinarySearch(c.record.Tags, tag); !ok {
			return false
		}
	}
	return true
}
