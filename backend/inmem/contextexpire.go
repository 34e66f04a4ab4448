package inmem

import (
	"cmp"
	"context"
	"strings"

	"github.com/holdfast-dev/holdfast/store"
)

// vacant are the contexts without tasks, by the time of their last update.
type vacant struct {
	plain     *store.Context // the record of contexts that no client described
	described index[*conversation]
	others    index[*conversation] // which no client described
}

// emptyPlace is where a context is in vacant.
type emptyPlace struct {
	index *index[*conversation]
	at    int64
}

// update moves a context that has changed to where it belongs.
func (v *vacant) update(c *conversation) {
	if c.empty != nil {
		c.empty.index.remove(c.empty.at, c)
		c.empty = nil
	}
	if c.born.len > 0 || c.deleting {
		return
	}
	c.empty = &emptyPlace{v.of(c.record != v.plain), c.updated}
	c.empty.index.add(c.updated, c)
}

func (v *vacant) of(described bool) *index[*conversation] {
	if described {
		return &v.described
	}
	return &v.others
}

// ExpireContexts implements [store.DeleteStore].
func (s *Store) ExpireContexts(ctx context.Context, p store.ContextExpiry) (removed int, next *store.ExpiryPlace, err error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return 0, nil, err
	}
	var old []*conversation
	empty := s.vacant.of(p.Described).steps(true, func(e entry[*conversation]) bool {
		return p.After != nil && cmp.Or(cmp.Compare(e.at, millis(p.After.At)), strings.Compare(e.rec.id, p.After.ID), strings.Compare(e.rec.owner.name, p.After.Owner)) <= 0
	})
	for ; !empty.done && empty.entry().at < ceil(p.Before); empty.step() {
		if len(old) == p.Limit {
			last := old[len(old)-1]
			next = &store.ExpiryPlace{Owner: last.owner.name, At: moment(last.updated), ID: last.id}
			break
		}
		old = append(old, empty.entry().rec)
	}
	for _, c := range old {
		if c.owner.children[c.id] > 0 {
			continue
		}
		c.unlist()
		c.empty.index.remove(c.empty.at, c)
		s.removeContext(c)
		removed++
	}
	return removed, next, nil
}
