package inmem

import (
	"cmp"
	"context"
	"strings"

	"github.com/holdfast-dev/holdfast/store"
)

// emptyContexts indexes the contexts without tasks by the time of their last update.
type emptyContexts struct {
	defaultRecord *store.Context // record of contexts without a description
	described     index[*contextEntry]
	undescribed   index[*contextEntry]
}

// emptyPosition is the position of a context in emptyContexts.
type emptyPosition struct {
	index *index[*contextEntry]
	at    int64
}

// update adds c to the index of contexts without tasks, or removes it.
func (v *emptyContexts) update(c *contextEntry) {
	if c.emptyPos != nil {
		c.emptyPos.index.remove(c.emptyPos.at, c)
		c.emptyPos = nil
	}
	if c.byCreation.len > 0 || c.deleting {
		return
	}
	c.emptyPos = &emptyPosition{v.index(c.record != v.defaultRecord), c.updated}
	c.emptyPos.index.add(c.updated, c)
}

func (v *emptyContexts) index(described bool) *index[*contextEntry] {
	if described {
		return &v.described
	}
	return &v.undescribed
}

// ExpireContexts implements [store.Maintenance].
func (s *contextStore) ExpireContexts(ctx context.Context, p store.ContextExpiry) (removed int, next *store.ExpiryCursor, err error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return 0, nil, err
	}
	var old []*contextEntry
	empty := s.empty.index(p.Saved).iterate(true, func(e entry[*contextEntry]) bool {
		return p.After != nil && cmp.Or(cmp.Compare(e.at, millis(p.After.At)), strings.Compare(e.rec.id, p.After.ID), strings.Compare(e.rec.owner.name, p.After.Owner)) <= 0
	})
	for ; !empty.done && empty.entry().at < ceilMillis(p.Before); empty.next() {
		if len(old) == p.Limit {
			last := old[len(old)-1]
			next = &store.ExpiryCursor{Owner: last.owner.name, At: fromMillis(last.updated), ID: last.id}
			break
		}
		old = append(old, empty.entry().rec)
	}
	for _, c := range old {
		if c.owner.children[c.id] > 0 {
			continue
		}
		c.unindex()
		c.emptyPos.index.remove(c.emptyPos.at, c)
		s.removeContext(c)
		removed++
	}
	return removed, next, nil
}
