package inmem

import (
	"cmp"
	"slices"

	"github.com/holdfast-dev/holdfast/store"
)

// laneQueue holds the lanes that are pending, or deleted and leased. Its key is the
// time when the lane becomes due: DueAt or the end of the lease. It works like queue.
type laneQueue struct {
	pending  index[*lane]
	owners   index[*owner] // owners with ready lanes, by name
	promoted int64
	leased   int
	leases   map[string]int // by worker
}

func (q *laneQueue) add(l *lane) {
	at := millis(l.DueAt)
	if l.Blocked() {
		at = millis(l.LeaseUntil)
		l.pos.leaseBlocked, l.pos.worker = true, l.Worker
		q.leased++
		q.leases[l.Worker]++
	}
	l.pos.queuePos = queuePosition{at: at, state: queuePending}
	q.pending.add(at, l)
}

func (q *laneQueue) remove(l *lane) {
	pos := &l.pos
	switch pos.queuePos.state {
	case queuePending:
		q.pending.remove(pos.queuePos.at, l)
	case queueReady:
		o := l.task.owner
		o.readyLanes.remove(pos.queuePos.at, l)
		if o.readyLanes.len == 0 {
			q.owners.remove(0, o)
		}
	case notQueued:
		return
	}
	if pos.leaseBlocked {
		q.leased--
		if q.leases[pos.worker]--; q.leases[pos.worker] == 0 {
			delete(q.leases, pos.worker)
		}
	}
	pos.queuePos, pos.leaseBlocked, pos.worker = queuePosition{}, false, ""
}

// promote moves due lanes to the ready lists. It returns deleted lanes with ended leases.
func (q *laneQueue) promote(now int64) (expired []*lane) {
	q.promoted = max(q.promoted, now)
	for q.pending.len > 0 {
		e := q.pending.chunks[0][0]
		if e.at > now {
			break
		}
		l, o := e.rec, e.rec.task.owner
		q.pending.remove(e.at, l)
		l.pos.queuePos.state = queueReady
		o.readyLanes.add(e.at, l)
		if o.readyLanes.len == 1 {
			q.owners.add(0, o)
		}
		if l.Deleted {
			expired = append(expired, l)
		}
	}
	return expired
}

// dueLanes returns the ready lanes to claim, in order.
func (q *laneQueue) dueLanes(p store.LaneClaim) []*lane {
	now := p.Now.UnixMilli()
	if q.needsScan(p) {
		return roundRobin(q.scan(p, now), p.Limit)
	}
	owners, first := q.dueOwners(p, now)
	if len(first) == p.Limit {
		return first
	}
	perOwner := p.Limit - len(first) + 1 // an owner gets at most this many
	queues := make([][]*lane, len(owners))
	for i, o := range owners {
		queues[i] = o.dueLanes(now, perOwner)
	}
	return roundRobin(queues, p.Limit)
}

// needsScan reports whether lanes may be due that are not first in their owner's list.
func (q *laneQueue) needsScan(p store.LaneClaim) bool {
	if p.Takeover && q.leased > q.leases[p.Worker] {
		return true
	}
	if p.Horizon <= 0 {
		return false
	}
	horizon := p.Now.Add(p.Horizon).UnixMilli()
	if q.promoted > horizon {
		return true // the clock was set back: ready lanes may not be due
	}
	n := len(q.pending.chunks)
	return n > 0 && q.pending.chunks[n-1][len(q.pending.chunks[n-1])-1].at > horizon
}

// dueOwners returns up to p.Limit owners with a due lane, and the first lane of each.
func (q *laneQueue) dueOwners(p store.LaneClaim, now int64) (owners []*owner, first []*lane) {
	after := &entry[*owner]{rec: &owner{name: p.AfterOwner}}
	add := func(o *owner) bool {
		if slices.Contains(p.Skip, o.name) {
			return true
		}
		if due := o.dueLanes(now, 1); len(due) > 0 {
			owners, first = append(owners, o), append(first, due[0])
		}
		return len(first) < p.Limit
	}
	for e := range q.owners.ascend(after) {
		if !add(e.rec) {
			return owners, first
		}
	}
	for e := range q.owners.ascend(nil) {
		if e.rec.name > p.AfterOwner || !add(e.rec) {
			break
		}
	}
	return owners, first
}

// dueLanes returns up to n due lanes of the owner, in order.
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

// scan reads the whole queue. It returns the due lanes of each owner, in the order in
// which the owners are served.
func (q *laneQueue) scan(p store.LaneClaim, now int64) [][]*lane {
	queues := make(map[*owner][]*lane)
	horizon := p.Now.Add(p.Horizon).UnixMilli()
	add := func(e entry[*lane]) {
		l := e.rec
		if l.Deleted || slices.Contains(p.Skip, l.task.owner.name) {
			return
		}
		revocable := p.Takeover && l.Blocked() && l.Worker != p.Worker
		if e.at <= now || revocable || p.Horizon > 0 && e.at > horizon {
			queues[l.task.owner] = append(queues[l.task.owner], l)
		}
	}
	for e := range q.pending.ascend(nil) {
		add(e)
	}
	for o := range q.owners.ascend(nil) {
		for e := range o.rec.readyLanes.ascend(nil) {
			add(e)
		}
	}
	owners := make([]*owner, 0, len(queues))
	for o, queue := range queues {
		owners = append(owners, o)
		slices.SortFunc(queue, func(a, b *lane) int { return cmp.Or(cmp.Compare(a.pos.queuePos.at, b.pos.queuePos.at), a.compare(b)) })
	}
	sortAfter(owners, p.AfterOwner)
	ordered := make([][]*lane, len(owners))
	for i, o := range owners {
		ordered[i] = queues[o]
	}
	return ordered
}

// sortAfter sorts owners by name, starting with the first name after the given one.
func sortAfter(owners []*owner, after string) {
	slices.SortFunc(owners, func(a, b *owner) int {
		if aAfter := a.name > after; aAfter != (b.name > after) {
			return b.compare(a)
		}
		return a.compare(b)
	})
}
