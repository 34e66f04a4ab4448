package ann

import (
	"context"
	"math/bits"
)

// Filter selects items. The index remembers the selections of recent filters and maintains them.
type Filter struct {
	// Key identifies the filter: filters with the same key select the same items.
	Key string
	// Match reports whether an item is selected. It depends on its arguments only, and does not keep id.
	Match func(id string, attr any) bool
}

// selection is the set of rows that a filter selects.
type selection struct {
	filter Filter
	rows   bitset
	count  int
}

func (s *selection) set(row uint32, selected bool) {
	switch had := s.rows.has(row); {
	case selected && !had:
		s.rows.add(row)
		s.count++
	case !selected && had:
		s.rows.remove(row)
		s.count--
	}
}

// each calls f for the rows of the selection.
func (s *selection) each(f func(row uint32)) {
	for i, word := range s.rows {
		for ; word != 0; word &= word - 1 {
			f(uint32(i<<6 + bits.TrailingZeros64(word)))
		}
	}
}

// filterCache has the selections of the most recently added filters.
type filterCache struct {
	byKey map[string]*selection
	order []string // oldest first
}

func (c *filterCache) add(s *selection) {
	if len(c.order) == maxFilters {
		delete(c.byKey, c.order[0])
		c.order = c.order[1:]
	}
	c.byKey[s.filter.Key] = s
	c.order = append(c.order, s.filter.Key)
}

func (c *filterCache) added(row uint32, item *Item) {
	for _, s := range c.byKey {
		s.set(row, s.filter.Match(item.ID, item.Attr))
	}
}

func (c *filterCache) removed(row uint32) {
	for _, s := range c.byKey {
		s.set(row, false)
	}
}

// rlock locks the index for a search with a filter, and returns its selection. f may be nil. The
// caller unlocks x.mu if there is no error.
func (x *Index) rlock(ctx context.Context, f *Filter) (*selection, error) {
	x.mu.RLock()
	if f == nil {
		return nil, nil
	}
	if s := x.filters.byKey[f.Key]; s != nil {
		return s, nil
	}
	x.mu.RUnlock()
	x.changes.Lock()
	defer x.changes.Unlock()
	s := x.filters.byKey[f.Key]
	if s == nil {
		var err error
		if s, err = x.selectRows(ctx, f); err != nil {
			return nil, err
		}
		x.mu.Lock()
		x.filters.add(s)
		x.mu.Unlock()
	}
	x.mu.RLock()
	return s, nil
}

// selectRows evaluates a filter for all items. The caller holds x.changes.
func (x *Index) selectRows(ctx context.Context, f *Filter) (*selection, error) {
	s := &selection{filter: *f}
	if x.cfg.Source != nil {
		err := x.cfg.Source.Attrs(ctx, func(id string, attr any) {
			if row, ok := x.rows.get(x.table, id); ok {
				s.set(row, f.Match(id, attr))
			}
		})
		return s, err
	}
	for row := range x.size {
		if x.live(row) {
			b, i := x.block(row)
			s.set(row, f.Match(b.ids.id(i), b.attrs[i]))
		}
	}
	return s, ctx.Err()
}
