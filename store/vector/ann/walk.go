package ann

import "unsafe"

// scratch is the memory of a walk.
type scratch struct {
	visited    bitset
	candidates heap // by the negative of closeness
	results    heap // by closeness
	found      []hit
	next       []uint32
}

func (x *graph) getScratch() *scratch { return x.scratch.Get().(*scratch) }

type walkParams struct {
	entry uint32
	level int
	ef    int
	// selected are the rows that results may contain; nil means all live rows.
	selected bitset
	filtered bool
}

func (x *graph) accepts(p *walkParams, row uint32) bool {
	return x.state(row) == stateLinked && (!p.filtered || p.selected.has(row))
}

// descend returns the closest row that a greedy walk from entry finds in a level.
func (x *graph) descend(q *query, entry uint32, level int) uint32 {
	best := hit{x.closeness(q, entry), entry}
	var buf linkList
	for moved := true; moved; {
		moved = false
		for _, row := range x.neighbors(best.row, level, &buf) {
			if c := x.closeness(q, row); c > best.close {
				best, moved = hit{c, row}, true
			}
		}
	}
	return best.row
}

// walk finds up to p.ef of the closest rows in a level and leaves them in s.results.
func (x *graph) walk(q *query, p walkParams, s *scratch) {
	var buf linkList
	s.visited.reset(x.size)
	s.candidates, s.results = s.candidates[:0], s.results[:0]
	s.visited.add(p.entry)
	first := hit{x.closeness(q, p.entry), p.entry}
	s.candidates.push(hit{-first.close, first.row})
	if x.accepts(&p, p.entry) {
		s.results.push(first)
	}
	for len(s.candidates) > 0 {
		c := s.candidates.pop()
		if len(s.results) >= p.ef && -c.close < s.results[0].close {
			return
		}
		s.next = s.next[:0]
		for _, row := range x.neighbors(c.row, p.level, &buf) {
			if !s.visited.has(row) {
				s.visited.add(row)
				s.next = append(s.next, row)
				b, i := x.block(row)
				prefetch(unsafe.Pointer(&b.codes[i*x.stride]))
			}
		}
		for _, row := range s.next {
			x.visit(&p, hit{x.closeness(q, row), row}, s)
		}
	}
}

// visit adds a row to the candidates and results of a walk if it is close enough.
func (x *graph) visit(p *walkParams, h hit, s *scratch) {
	full := len(s.results) >= p.ef
	if full && h.close <= s.results[0].close {
		return
	}
	s.candidates.push(hit{-h.close, h.row})
	switch {
	case !x.accepts(p, h.row):
	case full:
		s.results.replace(h)
	default:
		s.results.push(h)
	}
}
