package inmem

import (
	"math"
	"sort"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// walk is a way through one or several indexes that have no record in common,
// as if they were one.
type walk[R ordered[R]] struct {
	indexes   []*index[R]
	ascending bool
	// skip holds for the entries on the way up to some place, and for none behind
	// it; nil skips none.
	skip func(entry[R]) bool
	// Entries whose number is before after or not before before are not on the way.
	after, before int64
	// keep tells which of the records count; nil keeps all.
	keep func(R) bool
}

// page returns n records behind the first offset ones, and whether there are more.
func (w walk[R]) page(offset, n int) (found []R, more bool) {
	steps := w.begin()
	for ; offset > 0; offset-- {
		if _, ok := w.next(steps); !ok {
			return nil, false
		}
	}
	for {
		r, ok := w.next(steps)
		if !ok || len(found) == n {
			return found, ok
		}
		found = append(found, r)
	}
}

// count returns how many records are on the way, as store.CapTotal says. It looks at none
// if all of the indexes' are.
func (w walk[R]) count(limit int) (total int, capped bool) {
	n := 0
	if w.keep == nil && w.skip == nil && w.after == math.MinInt64 && w.before == math.MaxInt64 {
		for _, x := range w.indexes {
			n += x.len
		}
		return store.CapTotal(n, n, limit, true)
	}
	keep, exact, passed := w.keep, w.keep == nil, 0
	w.keep = nil
	rows := store.CountRows(limit, exact)
	for steps := w.begin(); passed < rows; passed++ {
		r, ok := w.next(steps)
		if !ok {
			break
		}
		if exact || keep(r) {
			n++
		}
	}
	return store.CapTotal(n, passed, limit, exact)
}

func (w walk[R]) begin() []steps[R] {
	skip := func(e entry[R]) bool {
		return w.ascending && e.at < w.after || !w.ascending && e.at >= w.before || w.skip != nil && w.skip(e)
	}
	all := make([]steps[R], len(w.indexes))
	for i, x := range w.indexes {
		all[i] = x.steps(w.ascending, skip)
	}
	return all
}

// next returns the next record and goes behind it.
func (w walk[R]) next(all []steps[R]) (r R, ok bool) {
	for {
		var first *steps[R]
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
		first.step()
		if w.keep == nil || w.keep(e.rec) {
			return e.rec, true
		}
	}
}

// steps is a place in an index, which is not changed meanwhile.
type steps[R ordered[R]] struct {
	x         *index[R]
	i, j      int
	ascending bool
	done      bool
}

// steps returns the place of the first entry for which skip does not hold; it
// holds for those on the way up to some place, and for none behind it.
func (x *index[R]) steps(ascending bool, skip func(entry[R]) bool) steps[R] {
	s := steps[R]{x: x, ascending: ascending}
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

func (s *steps[R]) entry() entry[R] { return s.x.chunks[s.i][s.j] }

func (s *steps[R]) step() {
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

// bounds returns the span of numbers of the times after <= t < before; a zero
// time does not bound it.
func bounds(after, before time.Time) (from, to int64) {
	from, to = math.MinInt64, math.MaxInt64
	if !after.IsZero() {
		from = ceil(after)
	}
	if !before.IsZero() {
		to = ceil(before)
	}
	return from, to
}
