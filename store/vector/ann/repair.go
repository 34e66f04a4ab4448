package ann

import "slices"

// repair removes dead rows from the graph. A pass visits all rows and replaces their links to
// retired rows by links to the neighbors of these; then no row links to a retired row, and their
// rows are free.
type repair struct {
	active bool
	next   uint32 // the row at which the pass continues
}

// repairNext starts a pass if more than a fifth of the graph is dead, and continues a pass by a
// number of rows. The caller holds x.changes.
func (x *Index) repairNext(rows int) {
	if !x.repair.active {
		if x.dead <= x.linked/5 {
			return
		}
		x.mu.Lock()
		x.repair.active, x.repair.next = true, 0
		for row := range x.size {
			if x.state(row) == stateDead {
				x.setState(row, stateRetired)
			}
		}
		x.mu.Unlock()
	}
	for rows > 0 && x.repair.next < x.size {
		n := min(uint32(min(rows, 1024)), x.size-x.repair.next)
		x.repairRows(x.repair.next, x.repair.next+n)
		x.repair.next += n
		rows -= int(n)
	}
	if x.repair.next >= x.size {
		x.endRepair()
	}
}

// repairRows replaces the links to retired rows of the rows from first to before end.
func (x *Index) repairRows(first, end uint32) {
	var lists []list
	var buf linkList
	for row := first; row < end; row++ {
		if s := x.state(row); s != stateLinked && s != stateDead {
			continue
		}
		for level := range x.level(row) + 1 {
			if slices.ContainsFunc(x.neighbors(row, level, &buf), x.retired) {
				lists = append(lists, list{row: row, level: level})
			}
		}
	}
	x.parallel(len(lists), func(i int, s *scratch) { x.bypass(&lists[i], s) })
	x.mu.Lock()
	x.setLinks(lists)
	x.mu.Unlock()
	lists = slices.DeleteFunc(lists, func(l list) bool { return x.state(l.row) != stateLinked })
	lists = x.linkBack(lists)
	x.mu.Lock()
	x.setLinks(lists)
	x.mu.Unlock()
}

func (x *graph) retired(row uint32) bool { return x.state(row) == stateRetired }

// bypass computes the list of a row without retired rows: from the neighbors of these, or by a walk
// if they are more than half of the list.
func (x *graph) bypass(l *list, s *scratch) {
	var buf linkList
	old := x.neighbors(l.row, l.level, &buf)
	s.next = s.next[:0]
	retired := 0
	for _, row := range old {
		if x.retired(row) {
			retired++
		} else {
			s.next = append(s.next, row)
		}
	}
	if 2*retired > len(old) && l.level <= x.top { // dead rows may be in higher levels, where no walk starts
		x.addNear(l, s)
	} else {
		x.addBehind(l, old, s)
	}
	l.to = x.shrink(l.row, s.next, maxDegree(l.level), s)
	for _, row := range l.to {
		if !slices.Contains(old, row) {
			l.added = append(l.added, row)
		}
	}
}

// addBehind adds the neighbors of retired rows of a list to s.next.
func (x *graph) addBehind(l *list, old []uint32, s *scratch) {
	var buf linkList
	s.visited.reset(x.size)
	s.visited.add(l.row)
	for _, row := range s.next {
		s.visited.add(row)
	}
	for _, row := range old {
		if !x.retired(row) {
			continue
		}
		for _, behind := range x.neighbors(row, l.level, &buf) {
			if x.state(behind) == stateLinked && !s.visited.has(behind) {
				s.visited.add(behind)
				s.next = append(s.next, behind)
			}
		}
	}
}

// addNear adds the rows that a walk finds near a row to s.next.
func (x *graph) addNear(l *list, s *scratch) {
	q, entry := x.rowQuery(l.row), x.entry
	for level := x.top; level > l.level; level-- {
		entry = x.descend(&q, entry, level)
	}
	near := slices.Clone(s.next)
	x.walk(&q, walkParams{entry: entry, level: l.level, ef: efBuild}, s)
	for _, h := range s.results {
		if h.row != l.row && !slices.Contains(near, h.row) {
			near = append(near, h.row)
		}
	}
	s.next = near
}

// endRepair frees the retired rows.
func (x *Index) endRepair() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.repair.active = false
	for row := range x.size {
		if x.state(row) == stateRetired {
			x.unlink(row)
		}
	}
}

// unlink frees a row of the graph to which no row links.
func (x *Index) unlink(row uint32) {
	x.upper.remove(row)
	x.release(row)
	x.dead--
	x.linked--
	x.count--
}

// replaceEntry chooses another entry if the entry of the graph was removed. It frees all rows of a
// graph that has only removed rows.
func (x *Index) replaceEntry() {
	if x.count == 0 || x.state(x.entry) == stateLinked {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	empty := x.dead == x.linked
	x.top = -1
	for row := range x.size {
		switch s := x.state(row); {
		case empty && (s == stateDead || s == stateRetired):
			x.unlink(row)
		case s == stateLinked && x.level(row) > x.top:
			x.entry, x.top = row, x.level(row)
		}
	}
	if empty {
		x.top, x.repair.active = 0, false
	}
}
