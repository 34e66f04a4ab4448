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

// orders are some contexts in each of the orders they are listed in.
type orders struct {
	updated, created index[*conversation]
	named            index[*byName] // all under 0
}

// byName is a context that is sorted by its name, and then by its creation.
type byName conversation

func (n *byName) compare(o *byName) int {
	return cmp.Or(strings.Compare(n.record.Name, o.record.Name), cmp.Compare(n.created, o.created), strings.Compare(n.id, o.id))
}

// contextLists are the contexts of an owner: all, and those of each value that
// is filtered by.
type contextLists struct {
	all      orders
	statuses kind[a2a.ContextStatus]
	roles    kind[string]
	tags     map[string]*orders
}

// kind lists contexts by something of which each has one value. As long as all
// have the same, as most owners' do, it needs no list but that of all.
type kind[V comparable] struct {
	only  V
	parts map[V]*orders // nil as long as all have only
}

// list returns the contexts that have a value, nil when none has.
func (k *kind[V]) list(value V, all *orders) *orders {
	switch {
	case k.parts != nil:
		return k.parts[value]
	case value == k.only:
		return all
	}
	return nil
}

// divide makes the kind ready for one more context, before it is added to all.
// When that is the first of another value, the others are copied: once, as they
// stay divided until all are gone.
func (k *kind[V]) divide(value V, all *orders) {
	switch {
	case k.parts != nil:
	case all.created.len == 0:
		k.only = value
	case k.only != value:
		k.parts = map[V]*orders{k.only: {
			updated: all.updated.clone(), created: all.created.clone(), named: all.named.clone(),
		}}
	}
}

// release forgets the list of a value that no context has any more.
func (k *kind[V]) release(value V, all *orders) {
	if all.created.len == 0 {
		k.parts = nil
	}
	release(k.parts, value)
}

// of returns the list of a value, which is made if need be.
func of[V comparable](lists map[V]*orders, value V) *orders {
	l := lists[value]
	if l == nil {
		l = new(orders)
		lists[value] = l
	}
	return l
}

func release[V comparable](lists map[V]*orders, value V) {
	if l := lists[value]; l != nil && l.created.len == 0 {
		delete(lists, value)
	}
}

// lists calls do with each list that the context belongs in.
func (c *conversation) lists(do func(*orders)) {
	l := &c.owner.listed
	do(&l.all)
	if l.statuses.parts != nil {
		do(of(l.statuses.parts, c.record.Status))
	}
	if l.roles.parts != nil {
		do(of(l.roles.parts, c.record.Role))
	}
	for _, tag := range c.record.Tags {
		do(of(l.tags, tag))
	}
}

// list adds the context to the lists.
func (c *conversation) list() {
	l := &c.owner.listed
	l.statuses.divide(c.record.Status, &l.all)
	l.roles.divide(c.record.Role, &l.all)
	c.lists(func(o *orders) {
		o.updated.add(c.updated, c)
		o.created.add(c.created, c)
		o.named.add(0, (*byName)(c))
	})
	if parent := c.record.ParentID; parent != "" {
		c.owner.children[parent]++
	}
}

// unlist removes it from the lists. It is still as it was when it was added.
func (c *conversation) unlist() {
	c.lists(func(o *orders) {
		o.updated.remove(c.updated, c)
		o.created.remove(c.created, c)
		o.named.remove(0, (*byName)(c))
	})
	l := &c.owner.listed
	l.statuses.release(c.record.Status, &l.all)
	l.roles.release(c.record.Role, &l.all)
	for _, tag := range c.record.Tags {
		release(l.tags, tag)
	}
	if parent := c.record.ParentID; parent != "" {
		if c.owner.children[parent]--; c.owner.children[parent] == 0 {
			delete(c.owner.children, parent)
		}
	}
}

// move changes the time of the last update.
func (c *conversation) move(updated int64) {
	c.lists(func(o *orders) {
		o.updated.remove(c.updated, c)
		o.updated.add(updated, c)
	})
	c.updated = updated
}

// Contexts implements [store.Store].
func (s *Store) Contexts(ctx context.Context, q store.ContextQuery) (store.ContextPage, error) {
	page, err := s.contextPage(ctx, q)
	for i, c := range page.Contexts {
		page.Contexts[i] = c.Copy()
	}
	return page, err
}

// contextPage returns a page that shares its values with the store.
func (s *Store) contextPage(ctx context.Context, q store.ContextQuery) (store.ContextPage, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return store.ContextPage{}, err
	}
	o := s.owners[q.Owner]
	if o == nil {
		return store.ContextPage{}, nil
	}
	l := o.listed.choose(q)
	var page store.ContextPage
	page.Total, page.TotalCapped = l.created(q).count(q.CountLimit())
	found, more := l.page(q)
	for _, c := range found {
		page.Contexts = append(page.Contexts, c.view(q.Tasks))
	}
	if n := len(found); more && n > 0 {
		page.Next = q.Sort.Cursor(&page.Contexts[n-1])
	}
	return page, nil
}

// choice is where to look for what a query selects: lists that have no context in
// common, and what to keep of them; nil keeps all.
type choice struct {
	lists []*orders
	keep  func(*conversation) bool
}

// choose returns the shortest way to what a query selects, apart from its times.
func (l *contextLists) choose(q store.ContextQuery) choice {
	var ways [][]*orders
	if len(q.Statuses) > 0 {
		var way []*orders
		for i, status := range q.Statuses {
			if o := l.statuses.list(status, &l.all); o != nil && !slices.Contains(q.Statuses[:i], status) {
				way = append(way, o)
			}
		}
		ways = append(ways, way)
	}
	if q.Role != "" {
		ways = append(ways, present(l.roles.list(q.Role, &l.all)))
	}
	for _, tag := range q.Tags {
		ways = append(ways, present(l.tags[tag]))
	}
	switch len(ways) {
	case 0:
		return choice{lists: []*orders{&l.all}}
	case 1:
		return choice{lists: ways[0]}
	}
	shortest := slices.MinFunc(ways, func(a, b []*orders) int { return cmp.Compare(size(a), size(b)) })
	return choice{shortest, func(c *conversation) bool {
		return (len(q.Statuses) == 0 || slices.Contains(q.Statuses, c.record.Status)) &&
			(q.Role == "" || c.record.Role == q.Role) && c.hasTags(q.Tags)
	}}
}

func present(o *orders) []*orders {
	if o == nil {
		return nil
	}
	return []*orders{o}
}

func size(lists []*orders) (n int) {
	for _, o := range lists {
		n += o.created.len
	}
	return n
}

// created returns the way through the choice by the time of creation, within the
// query's times.
func (l choice) created(q store.ContextQuery) walk[*conversation] {
	w := walk[*conversation]{ascending: q.Ascending, keep: l.keep}
	w.after, w.before = bounds(q.CreatedAfter, q.CreatedBefore)
	for _, o := range l.lists {
		w.indexes = append(w.indexes, &o.created)
	}
	return w
}

// page returns the contexts of a page, and whether there are more.
func (l choice) page(q store.ContextQuery) ([]*conversation, bool) {
	switch q.Sort {
	case store.ContextsByCreated:
		w := l.created(q)
		w.skip = behind(q, itself)
		return w.page(q.Offset, q.Limit)
	case store.ContextsByName:
		w := walk[*byName]{ascending: q.Ascending, after: math.MinInt64, before: math.MaxInt64}
		for _, o := range l.lists {
			w.indexes = append(w.indexes, &o.named)
		}
		if keep := l.within(q); keep != nil {
			w.keep = func(n *byName) bool { return keep((*conversation)(n)) }
		}
		w.skip = behind(q, func(c *conversation) *byName { return (*byName)(c) })
		named, more := w.page(q.Offset, q.Limit)
		found := make([]*conversation, len(named))
		for i, n := range named {
			found[i] = (*conversation)(n)
		}
		return found, more
	default:
		w := walk[*conversation]{ascending: q.Ascending, after: math.MinInt64, before: math.MaxInt64, keep: l.within(q)}
		for _, o := range l.lists {
			w.indexes = append(w.indexes, &o.updated)
		}
		w.skip = behind(q, itself)
		return w.page(q.Offset, q.Limit)
	}
}

// within returns what to keep of the choice where the order does not bound the
// time of creation; nil keeps all.
func (l choice) within(q store.ContextQuery) func(*conversation) bool {
	if q.CreatedAfter.IsZero() && q.CreatedBefore.IsZero() {
		return l.keep
	}
	after, before := bounds(q.CreatedAfter, q.CreatedBefore)
	return func(c *conversation) bool {
		return c.created >= after && c.created < before && (l.keep == nil || l.keep(c))
	}
}

// behind returns the skip of a walk that goes on behind the query's cursor; nil
// when there is none. A context that stands where the cursor does is made of it by
// place.
func behind[R ordered[R]](q store.ContextQuery, place func(*conversation) R) func(entry[R]) bool {
	if q.Cursor == nil {
		return nil
	}
	at := ceil(q.Cursor.Time)
	c := &conversation{owner: &owner{name: q.Owner}, id: q.Cursor.ID, created: at, record: &store.Context{Name: q.Cursor.Name}}
	last := entry[R]{at, place(c)}
	if q.Sort == store.ContextsByName {
		last.at = 0
	}
	return func(e entry[R]) bool {
		c := e.compare(last)
		return c == 0 || c < 0 == q.Ascending
	}
}

func itself(c *conversation) *conversation { return c }
