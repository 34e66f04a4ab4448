package inmem

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// contextSet is a set of contexts, indexed by each sort order.
type contextSet struct {
	updated, created index[*contextEntry]
	named            index[*byName]
}

// byName is a context that sorts by its name and then by its creation time.
type byName contextEntry

func (n *byName) compare(o *byName) int {
	return cmp.Or(strings.Compare(n.record.Name, o.record.Name), cmp.Compare(n.created, o.created), strings.Compare(n.id, o.id))
}

// contextSets holds all contexts of an owner and the subsets that queries filter by.
type contextSets struct {
	all      contextSet
	statuses partition[a2a.ContextStatus]
	roles    partition[string]
	tags     map[string]*contextSet
}

// partition divides contexts by an attribute, such as the status. While all contexts
// have the same value, as for most owners, it keeps no sets of its own.
type partition[V comparable] struct {
	single V
	sets   map[V]*contextSet // nil while all contexts have the value single
}

// set returns the contexts that have a value, nil if there are none.
func (k *partition[V]) set(value V, all *contextSet) *contextSet {
	switch {
	case k.sets != nil:
		return k.sets[value]
	case value == k.single:
		return all
	}
	return nil
}

// split prepares the partition for one more context, before it is added to all. The
// first context with a second value copies the existing ones to a set. They stay split
// until the owner has no contexts.
func (k *partition[V]) split(value V, all *contextSet) {
	switch {
	case k.sets != nil:
	case all.created.len == 0:
		k.single = value
	case k.single != value:
		k.sets = map[V]*contextSet{k.single: {
			updated: all.updated.clone(), created: all.created.clone(), named: all.named.clone(),
		}}
	}
}

// removeEmpty removes the set of a value if it is empty.
func (k *partition[V]) removeEmpty(value V, all *contextSet) {
	if all.created.len == 0 {
		k.sets = nil
	}
	removeEmpty(k.sets, value)
}

// getSet returns the set of a value and creates it if needed.
func getSet[V comparable](sets map[V]*contextSet, value V) *contextSet {
	l := sets[value]
	if l == nil {
		l = new(contextSet)
		sets[value] = l
	}
	return l
}

func removeEmpty[V comparable](sets map[V]*contextSet, value V) {
	if l := sets[value]; l != nil && l.created.len == 0 {
		delete(sets, value)
	}
}

// eachSet calls do with each set that contains the context.
func (c *contextEntry) eachSet(do func(*contextSet)) {
	l := &c.owner.contextSets
	do(&l.all)
	if l.statuses.sets != nil {
		do(getSet(l.statuses.sets, c.record.Status))
	}
	if l.roles.sets != nil {
		do(getSet(l.roles.sets, c.record.Role))
	}
	for _, tag := range c.record.Tags {
		do(getSet(l.tags, tag))
	}
}

// index adds the context to the sets of its owner.
func (c *contextEntry) index() {
	l := &c.owner.contextSets
	l.statuses.split(c.record.Status, &l.all)
	l.roles.split(c.record.Role, &l.all)
	c.eachSet(func(o *contextSet) {
		o.updated.add(c.updated, c)
		o.created.add(c.created, c)
		o.named.add(0, (*byName)(c))
	})
	if parent := c.record.ParentID; parent != "" {
		c.owner.children[parent]++
	}
}

// unindex removes the context from the sets. The caller changes its fields only after
// that.
func (c *contextEntry) unindex() {
	c.eachSet(func(o *contextSet) {
		o.updated.remove(c.updated, c)
		o.created.remove(c.created, c)
		o.named.remove(0, (*byName)(c))
	})
	l := &c.owner.contextSets
	l.statuses.removeEmpty(c.record.Status, &l.all)
	l.roles.removeEmpty(c.record.Role, &l.all)
	for _, tag := range c.record.Tags {
		removeEmpty(l.tags, tag)
	}
	if parent := c.record.ParentID; parent != "" {
		if c.owner.children[parent]--; c.owner.children[parent] == 0 {
			delete(c.owner.children, parent)
		}
	}
}

// setUpdated changes the time of the last update and the order in the sets.
func (c *contextEntry) setUpdated(updated int64) {
	c.eachSet(func(o *contextSet) {
		o.updated.remove(c.updated, c)
		o.updated.add(updated, c)
	})
	c.updated = updated
}

// Contexts implements [store.Contexts].
func (s *contextStore) Contexts(ctx context.Context, q store.ContextQuery) (store.ContextPage, error) {
	page, err := s.contextPage(ctx, q)
	for i, c := range page.Contexts {
		page.Contexts[i] = c.Copy()
	}
	return page, err
}

// contextPage returns a page that shares its maps and slices with the store.
func (s *contextStore) contextPage(ctx context.Context, q store.ContextQuery) (store.ContextPage, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return store.ContextPage{}, err
	}
	o := s.owners[q.Owner]
	if o == nil {
		return store.ContextPage{}, nil
	}
	l := o.contextSets.plan(q)
	var page store.ContextPage
	page.Total, page.TotalCapped = l.createdWalk(q).count(q.CountLimit())
	found, more := l.page(q)
	for _, c := range found {
		page.Contexts = append(page.Contexts, c.view(q.MaxTaskIDs))
	}
	if n := len(found); more && n > 0 {
		page.Next = q.Sort.Cursor(&page.Contexts[n-1])
	}
	return page, nil
}

// queryPlan is how a query is answered: disjoint sets to read, and the filter to apply
// to them. A nil filter matches all contexts.
type queryPlan struct {
	sets  []*contextSet
	match func(*contextEntry) bool
}

// plan returns the plan that reads the fewest contexts. It does not consider the
// query's times.
func (l *contextSets) plan(q store.ContextQuery) queryPlan {
	var candidates [][]*contextSet
	if len(q.Statuses) > 0 {
		var sets []*contextSet
		for i, status := range q.Statuses {
			if o := l.statuses.set(status, &l.all); o != nil && !slices.Contains(q.Statuses[:i], status) {
				sets = append(sets, o)
			}
		}
		candidates = append(candidates, sets)
	}
	if q.Role != "" {
		candidates = append(candidates, nonNil(l.roles.set(q.Role, &l.all)))
	}
	for _, tag := range q.Tags {
		candidates = append(candidates, nonNil(l.tags[tag]))
	}
	switch len(candidates) {
	case 0:
		return queryPlan{sets: []*contextSet{&l.all}}
	case 1:
		return queryPlan{sets: candidates[0]}
	}
	shortest := slices.MinFunc(candidates, func(a, b []*contextSet) int { return cmp.Compare(contextCount(a), contextCount(b)) })
	return queryPlan{shortest, func(c *contextEntry) bool {
		return (len(q.Statuses) == 0 || slices.Contains(q.Statuses, c.record.Status)) &&
			(q.Role == "" || c.record.Role == q.Role) && c.hasTags(q.Tags)
	}}
}

func nonNil(o *contextSet) []*contextSet {
	if o == nil {
		return nil
	}
	return []*contextSet{o}
}

func contextCount(sets []*contextSet) (n int) {
	for _, o := range sets {
		n += o.created.len
	}
	return n
}

// createdWalk returns the walk through the plan's sets by creation time, within the
// query's times.
func (l queryPlan) createdWalk(q store.ContextQuery) walk[*contextEntry] {
	w := walk[*contextEntry]{ascending: q.Ascending, match: l.match}
	w.after, w.before = bounds(q.CreatedAfter, q.CreatedBefore)
	for _, o := range l.sets {
		w.indexes = append(w.indexes, &o.created)
	}
	return w
}

// page returns the contexts of a page and whether more follow.
func (l queryPlan) page(q store.ContextQuery) ([]*contextEntry, bool) {
	switch q.Sort {
	case store.ContextsByCreated:
		w := l.createdWalk(q)
		w.skip = skipToCursor(q, identity)
		return w.page(q.Offset, q.Limit)
	case store.ContextsByName:
		w := walk[*byName]{ascending: q.Ascending, after: math.MinInt64, before: math.MaxInt64}
		for _, o := range l.sets {
			w.indexes = append(w.indexes, &o.named)
		}
		if keep := l.matchCreated(q); keep != nil {
			w.match = func(n *byName) bool { return keep((*contextEntry)(n)) }
		}
		w.skip = skipToCursor(q, func(c *contextEntry) *byName { return (*byName)(c) })
		named, more := w.page(q.Offset, q.Limit)
		found := make([]*contextEntry, len(named))
		for i, n := range named {
			found[i] = (*contextEntry)(n)
		}
		return found, more
	default:
		w := walk[*contextEntry]{ascending: q.Ascending, after: math.MinInt64, before: math.MaxInt64, match: l.matchCreated(q)}
		for _, o := range l.sets {
			w.indexes = append(w.indexes, &o.updated)
		}
		w.skip = skipToCursor(q, identity)
		return w.page(q.Offset, q.Limit)
	}
}

// matchCreated returns the filter of the plan for walks that are not bounded by
// creation time. A nil filter matches all contexts.
func (l queryPlan) matchCreated(q store.ContextQuery) func(*contextEntry) bool {
	if q.CreatedAfter.IsZero() && q.CreatedBefore.IsZero() {
		return l.match
	}
	after, before := bounds(q.CreatedAfter, q.CreatedBefore)
	return func(c *contextEntry) bool {
		return c.created >= after && c.created < before && (l.match == nil || l.match(c))
	}
}

// skipToCursor returns the skip function of a walk that continues after the query's
// cursor, nil if the query has no cursor. key returns the index key of a context at the
// cursor.
func skipToCursor[R ordered[R]](q store.ContextQuery, key func(*contextEntry) R) func(entry[R]) bool {
	if q.Cursor == nil {
		return nil
	}
	at := ceilMillis(q.Cursor.Time)
	c := &contextEntry{owner: &owner{name: q.Owner}, id: q.Cursor.ID, created: at, record: &store.Context{Name: q.Cursor.Name}}
	last := entry[R]{at, key(c)}
	if q.Sort == store.ContextsByName {
		last.at = 0
	}
	return func(e entry[R]) bool {
		c := e.compare(last)
		return c == 0 || c < 0 == q.Ascending
	}
}

func identity(c *contextEntry) *contextEntry { return c }
