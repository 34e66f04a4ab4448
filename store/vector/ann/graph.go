package ann

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// graph has the links of rows and the entry of walks.
type graph struct {
	*table
	scratch sync.Pool
	upper   upperLinks
	entry   uint32 // a row of the highest level
	top     int    // the highest level
	count   int    // rows that are not free; 0 means that there is no entry
}

func (x *graph) level(row uint32) int { return x.upper.level(row) }

// neighbors returns the links of a row in a level, in buf.
func (x *graph) neighbors(row uint32, level int, buf *linkList) []uint32 {
	if level > 0 {
		return x.upper.get(row, level, buf)
	}
	b, i := x.block(row)
	return b.links.get(i, buf)
}

func (x *graph) setNeighbors(row uint32, level int, to []uint32) {
	if level > 0 {
		x.upper.set(row, level, to)
		return
	}
	b, i := x.block(row)
	b.links.set(i, to)
}

func maxDegree(level int) int {
	if level == 0 {
		return baseDegree
	}
	return degree
}

// levelOf draws the level of a row from its id, so that it does not depend on other rows.
func levelOf(id string) int {
	h := uint64(14695981039346656037)
	for i := range len(id) {
		h = (h ^ uint64(id[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	u := (float64(h>>11) + 1) / (1 << 53)
	return min(int(-math.Log(u)*levelFactor), 12)
}

// placement is a new row of the graph with its links of each level.
type placement struct {
	row   uint32
	links [][]uint32
}

// link adds pending rows to the graph. The caller holds x.changes.
//
// Rows of a batch are compared with the graph before the batch and with each other, so the
// result does not depend on the number of workers.
func (x *Index) link(rows []uint32) {
	for batch := range slices.Chunk(rows, batchRows) {
		placements := make([]placement, len(batch))
		for i, row := range batch {
			placements[i] = placement{row, make([][]uint32, levelOf(x.id(row))+1)}
		}
		x.parallel(len(batch), func(i int, s *scratch) { x.place(placements, i, s) })
		x.mu.Lock()
		for _, p := range placements {
			x.insert(p)
		}
		x.mu.Unlock()
		var lists []list
		for _, p := range placements {
			for level, to := range p.links {
				lists = append(lists, list{row: p.row, level: level, added: to})
			}
		}
		lists = x.linkBack(lists)
		x.mu.Lock()
		x.setLinks(lists)
		for _, row := range batch {
			x.setState(row, stateLinked)
			x.linked++
		}
		x.mu.Unlock()
	}
}

// insert writes a placement. Until its neighbors link to the row, it remains pending.
func (x *graph) insert(p placement) {
	top := len(p.links) - 1
	for level, to := range p.links {
		x.setNeighbors(p.row, level, to)
	}
	if x.count == 0 || top > x.top {
		x.entry, x.top = p.row, top
	}
	x.count++
}

// place finds the links of a new row.
func (x *graph) place(placements []placement, i int, s *scratch) {
	p := &placements[i]
	q := x.rowQuery(p.row)
	var entry uint32
	graphTop := -1
	if x.count > 0 {
		entry, graphTop = x.entry, x.top
	}
	for level := max(graphTop, len(p.links)-1); level >= 0; level-- {
		if level >= len(p.links) {
			entry = x.descend(&q, entry, level)
			continue
		}
		s.found = s.found[:0]
		if level <= graphTop {
			x.walk(&q, walkParams{entry: entry, level: level, ef: efBuild}, s)
			s.found = append(s.found, s.results...)
			sortHits(s.found)
			if len(s.found) > 0 {
				entry = s.found[0].row
			}
		}
		for j := range placements {
			if j != i && level < len(placements[j].links) {
				row := placements[j].row
				s.found = append(s.found, hit{x.closeness(&q, row), row})
			}
		}
		sortHits(s.found)
		p.links[level] = x.choose(s.found, degree)
	}
}

// choose selects up to limit of the candidates, which are ordered by falling closeness: those
// that are closer to the row than to a candidate that was selected before, then the closest of
// the others.
func (x *graph) choose(candidates []hit, limit int) []uint32 {
	chosen := make([]uint32, 0, limit)
	var others []uint32
	for _, c := range candidates {
		if len(chosen) == limit {
			return chosen
		}
		q := x.rowQuery(c.row)
		if slices.ContainsFunc(chosen, func(o uint32) bool { return x.closeness(&q, o) > c.close }) {
			others = append(others, c.row)
			continue
		}
		chosen = append(chosen, c.row)
	}
	return append(chosen, others[:min(len(others), limit-len(chosen))]...)
}

// list is the list of links of a row in a level.
type list struct {
	row   uint32
	level int
	to    []uint32
	added []uint32 // rows to add to the list
}

// linkBack computes the lists of the rows to which lists have new links, so that they link back.
func (x *graph) linkBack(lists []list) []list {
	index := make(map[place]int)
	var back []list
	for _, l := range lists {
		for _, row := range l.added {
			at := place{row, uint32(l.level)}
			i, ok := index[at]
			if !ok {
				i = len(back)
				index[at] = i
				back = append(back, list{row: row, level: l.level})
			}
			back[i].added = append(back[i].added, l.row)
		}
	}
	x.parallel(len(back), func(i int, s *scratch) { x.extend(&back[i], s) })
	return back
}

// setLinks writes lists.
func (x *graph) setLinks(lists []list) {
	for _, l := range lists {
		x.setNeighbors(l.row, l.level, l.to)
	}
}

// extend computes the list of a row with the added links. A list that is full is cut to seven eighths:
// each choice compares all pairs, and after a cut the next additions need no choice.
func (x *graph) extend(l *list, s *scratch) {
	var buf linkList
	old := x.neighbors(l.row, l.level, &buf)
	l.to = append(make([]uint32, 0, len(old)+len(l.added)), old...)
	for _, row := range l.added {
		if !slices.Contains(l.to, row) {
			l.to = append(l.to, row)
		}
	}
	if limit := maxDegree(l.level); len(l.to) > limit {
		l.to = x.shrink(l.row, l.to, limit-limit/8, s)
	}
}

// shrink chooses up to limit of the rows as neighbors of a row.
func (x *graph) shrink(row uint32, rows []uint32, limit int, s *scratch) []uint32 {
	q := x.rowQuery(row)
	s.found = s.found[:0]
	for _, r := range rows {
		if x.state(r) != stateRetired {
			s.found = append(s.found, hit{x.closeness(&q, r), r})
		}
	}
	sortHits(s.found)
	return x.choose(s.found, limit)
}

// parallel calls f for 0 to n-1, which must not write to the index.
func (x *graph) parallel(n int, f func(i int, s *scratch)) {
	work := func(next *atomic.Int64) {
		s := x.getScratch()
		defer x.scratch.Put(s)
		for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
			f(int(i), s)
		}
	}
	var next atomic.Int64
	workers := min(runtime.GOMAXPROCS(0), (n+7)/8)
	if workers <= 1 {
		work(&next)
		return
	}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() { work(&next) })
	}
	wg.Wait()
}
