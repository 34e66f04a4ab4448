package inmem

import (
	"math"
	"sort"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// walk is a query over one or more disjoint indexes, read in order as if they were one.
type walk[R ordered[R]] struct {
	indexes   []*index[R]
	ascending bool
	// skip returns true for the entries before the start of the walk and false for all
	// later ones. Nil skips none.
	skip func(entry[R]) bool
	// Only entries with after <= at < before are part of the walk.
	after, before int64
	// match filters records. Nil matches all.
	match func(R) bool
}

// page returns up to n records after the first offset ones, and whether more follow.
func (w walk[R]) page(offset, n int) (found []R, more bool) {
	iters := w.iterators()
	for ; offset > 0; offset-- {
		if _, ok := w.next(iters); !ok {
			return nil, false
		}
	}
	for {
		r, ok := w.next(iters)
		if !ok || len(found) == n {
			return found, ok
		}
		found = append(found, r)
	}
}

// count returns the number of records of the walk, limited as in store.CapTotal. It
// reads no entries if the walk has all records of its indexes.
func (w walk[R]) count(limit int) (total int, capped bool) {
	n := 0
	if w.match == nil && w.skip == nil && w.after == math.MinInt64 && w.before == math.MaxInt64 {
		for _, x := range w.indexes {
			n += x.len
		}
		return store.CapTotal(n, n, limit, true)
	}
	match, exact, passed := w.match, w.match == nil, 0
	w.match = nil
	rows := store.CountRows(limit, exact)
	for iters := w.iterators(); passed < rows; passed++ {
		r, ok := w.next(iters)
		if !ok {
			break
		}
		if exact || match(r) {
			n++
		}
	}
	return store.CapTotal(n, passed, limit, exact)
}

func (w walk[R]) iterators() []iterator[R] {
	skip := func(e entry[R]) bool {
		return w.ascending && e.at < w.after || !w.ascending && e.at >= w.before || w.skip != nil && w.skip(e)
	}
	all := make([]iterator[R], len(w.indexes))
	for i, x := range w.indexes {
		all[i] = x.iterate(w.ascending, skip)
	}
	return all
}

// next returns the next record and advances the iterators.
func (w walk[R]) next(all []iterator[R]) (r R, ok bool) {
	for {
		var first *iterator[R]
		for i := range all {
			s := &all[i]
			if s.done || first != nil && s.entry().compare(first.entry()) < 0 != w.ascending {
				continue
			}
			first = s
		}
		if first == nil {
			return r, false
		}
		e := first.entry()
		if e.at < w.after || e.at >= w.before {
			return r, false
		}
		first.next()
		if w.match == nil || w.match(e.rec) {
			return e.rec, true
		}
	}
}

// iterator is a position in an index. The index must not change while it is in use.
type iterator[R ordered[R]] struct {
	x         *index[R]
	i, j      int
	ascending bool
	done      bool
}

// iterate returns an iterator at the first entry for which skip is false. skip returns
// true for the entries before some position and false for all later ones.
func (x *index[R]) iterate(ascending bool, skip func(entry[R]) bool) iterator[R] {
	s := iterator[R]{x: x, ascending: ascending}
	if ascending {
		s.i = sort.Search(len(x.chunks), func(i int) bool { c := x.chunks[i]; return !skip(c[len(c)-1]) })
		if s.i < len(x.chunks) {
			c := x.chunks[s.i]
			s.j = sort.Search(len(c), func(j int) bool { return !skip(c[j]) })
		}
	} else {
		s.i = sort.Search(len(x.chunks), func(i int) bool { return skip(x.chunks[i][0]) }) - 1
		if s.i >= 0 {
			c := x.chunks[s.i]
			s.j = sort.Search(len(c), func(j int) bool { return skip(c[j]) }) - 1
		}
	}
	s.done = s.i < 0 || s.i >= len(x.chunks)
	return s
}

func (s *iterator[R]) entry() entry[R] { return s.x.chunks[s.i][s.j] }

func (s *iterator[R]) next() {
	if s.ascending {
		if s.j++; s.j == len(s.x.chunks[s.i]) {
			s.i, s.j = s.i+1, 0
		}
	} else if s.j--; s.j < 0 {
		if s.i--; s.i >= 0 {
			s.j = len(s.x.chunks[s.i]) - 1
		}
	}
	s.done = s.i < 0 || s.i >= len(s.x.chunks)
}

// bounds returns the range of index keys of the times after <= t < before. A zero time
// means no bound.
func bounds(after, before time.Time) (from, to int64) {
	from, to = math.MinInt64, math.MaxInt64
	if !after.IsZero() {
		from = ceilMillis(after)
	}
	if !before.IsZero() {
		to = ceilMillis(before)
	}
	return from, to
}
