package inmem

import (
	"cmp"
	"slices"

	"github.com/holdfast-dev/holdfast/store"
)

// laneQueue holds the lanes that are pending, or deleted and held, each under the
// time it is due: when it may be sent, or when its lease ends. It works like queue.
type laneQueue struct {
	pending  index[*lane]
	owners   index[*owner] // those with ready lanes, by name
	promoted int64
	leased   int
	leases   map[string]int // by worker
}

func (q *laneQueue) add(l *lane) {
	at := millis(l.DueAt)
	if l.barred() {
		at = millis(l.LeaseUntil)
		l.at.barred, l.at.leased = true, l.Worker
		q.leased++
		q.leases[l.Worker]++
	}
	l.at.queued = queued{at: at, line: linePending}
	q.pending.add(at, l)
}

func (q *laneQueue) remove(l *lane) {
	at := &l.at
	switch at.queued.line {
	case linePending:
		q.pending.remove(at.queued.at, l)
	case lineReady:
		o := l.task.owner
		o.readyLanes.remove(at.queued.at, l)
		if o.readyLanes.len == 0 {
			q.owners.remove(0, o)
		}
	case lineNone:
		return
	}
	if at.barred {
		q.leased--
		if q.leases[at.leased]--; q.leases[at.leased] == 0 {
			delete(q.leases, at.leased)
		}
	}
	at.queued, at.barred, at.leased = queued{}, false, ""
}

// promote makes ready what is due, and returns deleted lanes whose lease has ended.
func (q *laneQueue) promote(now int64) (over []*lane) {
	q.promoted = max(q.promoted, now)
	for q.pending.len > 0 {
		e := q.pending.chunks[0][0]
		if e.at > now {
			break
		}
		l, o := e.rec, e.rec.task.owner
		q.pending.remove(e.at, l)
		l.at.queued.line = lineReady
		o.readyLanes.add(e.at, l)
		if o.readyLanes.len == 1 {
			q.owners.add(0, o)
		}
		if l.deleted {
			over = append(over, l)
		}
	}
	return over
}

// due returns the lanes to claim, in order, of those that were promoted.
func (q *laneQueue) due(p store.LaneClaim) []*lane {
	now := p.Now.UnixMilli()
	if q.unusual(p) {
		return takeTurns(q.scan(p, now), p.Limit)
	}
	owners, first := q.visit(p, now)
	if len(first) == p.Limit {
		return first
	}
	more := p.Limit - len(first) + 1 // the most that one owner can still come to
	lines := make([][]*lane, len(owners))
	for i, o := range owners {
		lines[i] = o.dueLanes(now, more)
	}
	return takeTurns(lines, p.Limit)
}

// unusual reports whether lanes may be due that do not stand at the head of
// their lines.
func (q *laneQueue) unusual(p store.LaneClaim) bool {
	if p.Takeover && q.leased > q.leases[p.Worker] {
		return true
	}
	if p.Horizon <= 0 {
		return false
	}
	beyond := p.Now.Add(p.Horizon).UnixMilli()
	if q.promoted > beyond {
		return true // the clock has been set back, and what is ready may not be
	}
	n := len(q.pending.chunks)
	return n > 0 && q.pending.chunks[n-1][len(q.pending.chunks[n-1])-1].at > beyond
}

// visit returns the owners who have a due lane, as many as can have a turn, with
// the first lane of each.
func (q *laneQueue) visit(p store.LaneClaim, now int64) (owners []*owner, first []*lane) {
	after := &entry[*owner]{rec: &owner{name: p.AfterOwner}}
	turn := func(o *owner) bool {
		if slices.Contains(p.Skip, o.name) {
			return true
		}
		if due := o.dueLanes(now, 1); len(due) > 0 {
			owners, first = append(owners, o), append(first, due[0])
		}
		return len(first) < p.Limit
	}
	for e := range q.owners.ascend(after) {
		if !turn(e.rec) {
			return owners, first
		}
	}
	for e := range q.owners.ascend(nil) {
		if e.rec.name > p.AfterOwner || !turn(e.rec) {
			break
		}
	}
	return owners, first
}

// dueLanes returns the owner's first due lanes, at most n.
func (o *owner) dueLanes(now int64, n int) []*lane {
	var due []*lane
	for e := range o.readyLanes.ascend(nil) {
		if e.at > now || len(due) == n {
			break
		}
		due = append(due, e.rec)
	}
	return due
}

// scan looks at everything in the queue and returns the lines of due lanes of
// the owners in the order of their turns.
func (q *laneQueue) scan(p store.LaneClaim, now int64) [][]*lane {
	lines := make(map[*owner][]*lane)
	beyond := p.Now.Add(p.Horizon).UnixMilli()
	look := func(e entry[*lane]) {
		l := e.rec
		if l.deleted || slices.Contains(p.Skip, l.task.owner.name) {
			return
		}
		taken := p.Takeover && l.barred() && l.Worker != p.Worker
		if e.at <= now || taken || p.Horizon > 0 && e.at > beyond {
			lines[l.task.owner] = append(lines[l.task.owner], l)
		}
	}
	for e := range q.pending.ascend(nil) {
		look(e)
	}
	for o := range q.owners.ascend(nil) {
		for e := range o.rec.readyLanes.ascend(nil) {
			look(e)
		}
	}
	owners := make([]*owner, 0, len(lines))
	for o, line := range lines {
		owners = append(owners, o)
		slices.SortFunc(line, func(a, b *lane) int { return cmp.Or(cmp.Compare(a.at.queued.at, b.at.queued.at), a.compare(b)) })
	}
	inTurn(owners, p.AfterOwner)
	ordered := make([][]*lane, len(owners))
	for i, o := range owners {
		ordered[i] = lines[o]
	}
	return ordered
}
