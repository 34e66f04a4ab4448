package inmem

import (
	"cmp"
	"iter"
	"slices"
	"sort"
)

// index is a set of records sorted by a number, usually a time. Records with equal
// numbers are sorted by their own order. The zero index is empty.
//
// It is a list of sorted chunks. A small index is one short slice. An index of a
// million records has some thousand chunks, and a binary search compares about two
// dozen entries. Adding and removing at the newest end moves no entries.
type index[R ordered[R]] struct {
	chunks [][]entry[R]
	len    int
}

// ordered is a type with ordered values.
type ordered[R any] interface {
	comparable
	compare(R) int
}

type entry[R ordered[R]] struct {
	at  int64
	rec R
}

// maxChunk is the maximum number of entries in a chunk. A full chunk is split in two.
const maxChunk = 256

func (e entry[R]) compare(o entry[R]) int {
	if e.at != o.at {
		return cmp.Compare(e.at, o.at)
	}
	return e.rec.compare(o.rec)
}

// findChunk returns the position of the first chunk that ends at or after e.
func (x *index[R]) findChunk(e entry[R]) int {
	n := len(x.chunks)
	if n > 0 { // usually e belongs to the last chunk
		if c := x.chunks[n-1]; c[0].compare(e) <= 0 {
			if c[len(c)-1].compare(e) >= 0 {
				return n - 1
			}
			return n
		}
	}
	return sort.Search(n, func(i int) bool {
		c := x.chunks[i]
		return c[len(c)-1].compare(e) >= 0
	})
}

// add adds a record. The record must not be in the index.
func (x *index[R]) add(at int64, rec R) {
	e := entry[R]{at, rec}
	x.len++
	i := x.findChunk(e)
	if i == len(x.chunks) {
		if i == 0 {
			x.chunks = append(x.chunks, []entry[R]{e})
			return
		}
		i-- // e is the newest: append it to the last chunk unless that is full
		if len(x.chunks[i]) >= maxChunk {
			x.chunks = append(x.chunks, append(make([]entry[R], 0, maxChunk), e))
			return
		}
		x.chunks[i] = append(x.chunks[i], e)
		return
	}
	c := x.chunks[i]
	pos, _ := slices.BinarySearchFunc(c, e, entry[R].compare)
	c = slices.Insert(c, pos, e)
	x.chunks[i] = c
	if len(c) > maxChunk {
		half := len(c) / 2
		newer := append(make([]entry[R], 0, maxChunk), c[half:]...)
		clear(c[half:])
		x.chunks[i] = c[:half]
		x.chunks = slices.Insert(x.chunks, i+1, newer)
	}
}

// has reports whether a record is in the index.
func (x *index[R]) has(at int64, rec R) bool {
	e := entry[R]{at, rec}
	i := x.findChunk(e)
	if i == len(x.chunks) {
		return false
	}
	_, found := slices.BinarySearchFunc(x.chunks[i], e, entry[R].compare)
	return found
}

// remove removes a record, which must be in the index.
func (x *index[R]) remove(pos int64, rec R) {
	e := entry[R]{pos, rec}
	i := x.findChunk(e)
	c := x.chunks[i]
	j, _ := slices.BinarySearchFunc(c, e, entry[R].compare)
	c = slices.Delete(c, j, j+1)
	x.chunks[i] = c
	x.len--
	switch {
	case len(c) == 0:
		x.chunks = slices.Delete(x.chunks, i, i+1)
	case len(c) < maxChunk/8 && i > 0 && len(c)+len(x.chunks[i-1]) < maxChunk/2:
		x.chunks[i-1] = append(x.chunks[i-1], c...)
		x.chunks = slices.Delete(x.chunks, i, i+1)
	}
}

// clone returns an independent copy of x.
func (x *index[R]) clone() index[R] {
	c := index[R]{chunks: make([][]entry[R], len(x.chunks)), len: x.len}
	for i, chunk := range x.chunks {
		c.chunks[i] = append(make([]entry[R], 0, cap(chunk)), chunk...)
	}
	return c
}

// ascend yields the entries after e in ascending order, or all entries if e is nil. The
// index must not change during the iteration.
func (x *index[R]) ascend(e *entry[R]) iter.Seq[entry[R]] {
	return func(yield func(entry[R]) bool) {
		i, j := 0, 0
		if e != nil {
			if i = x.findChunk(*e); i < len(x.chunks) {
				var found bool
				if j, found = slices.BinarySearchFunc(x.chunks[i], *e, entry[R].compare); found {
					j++
				}
			}
		}
		for ; i < len(x.chunks); i, j = i+1, 0 {
			for _, e := range x.chunks[i][j:] {
				if !yield(e) {
					return
				}
			}
		}
	}
}
