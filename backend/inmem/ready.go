package inmem

import (
	"cmp"
	"slices"

	"github.com/holdfast-dev/holdfast/store"
)

func (o *owner) hasReady() bool { return o.ready.len+o.expiredLeases.len > 0 }

// addReady adds a due task to the ready lists.
func (o *owner) addReady(t *task) {
	if t.fold.Queue.Phase == store.PhaseLeased {
		o.expiredLeases.add(t.queuePos.at, t)
		return
	}
	o.ready.add(t.queuePos.at, t)
	if t.context.ready.len == 0 {
		o.readyContexts.add(0, t.context)
	}
	t.context.ready.add(t.queuePos.at, t)
}

// removeReady removes a task from the ready lists.
func (o *owner) removeReady(t *task) {
	if t.fold.Queue.Phase == store.PhaseLeased {
		o.expiredLeases.remove(t.queuePos.at, t)
		return
	}
	o.ready.remove(t.queuePos.at, t)
	if t.context.ready.remove(t.queuePos.at, t); t.context.ready.len == 0 {
		o.readyContexts.remove(0, t.context)
	}
}

// dueTasks returns up to n tasks of the owner that may be claimed, in order.
func (o *owner) dueTasks(p *store.ClaimParams, now int64, n int) []*task {
	var due []*task
	if !p.QueuedOnly {
		due = firstDue(&o.expiredLeases, now, n, func(t *task) bool { return t.fold.Queue.Lease.Worker != p.Worker })
	}
	n -= len(due)
	if p.OldestFirst {
		return append(due, firstDue(&o.ready, now, n, nil)...)
	}
	contexts := o.dueContexts(p.AfterContexts[o.name], now, n)
	if len(contexts) == n {
		n = 1 // one task of each context
	}
	queues := make([][]*task, len(contexts))
	for i, c := range contexts {
		queues[i] = firstDue(&c.ready, now, n, nil)
	}
	return append(due, roundRobin(queues, max(n, len(contexts)))...)
}

// dueContexts returns up to n contexts with a due task, in the order in which they are
// served.
func (o *owner) dueContexts(after string, now int64, n int) (found []*contextEntry) {
	if n <= 0 {
		return nil
	}
	add := func(c *contextEntry) bool {
		if c.ready.chunks[0][0].at <= now {
			found = append(found, c)
		}
		return len(found) < n
	}
	for e := range o.readyContexts.ascend(&entry[*contextEntry]{rec: &contextEntry{owner: o, id: after}}) {
		if !add(e.rec) {
			return found
		}
	}
	for e := range o.readyContexts.ascend(nil) {
		if e.rec.id > after || !add(e.rec) {
			break
		}
	}
	return found
}

// firstDue returns the first n due tasks of an index for which ok returns true. A nil
// ok accepts all.
func firstDue(x *index[*task], now int64, n int, ok func(*task) bool) (found []*task) {
	for e := range x.ascend(nil) {
		if e.at > now || len(found) >= n {
			break
		}
		if ok == nil || ok(e.rec) {
			found = append(found, e.rec)
		}
	}
	return found
}

// claimOrder sorts due tasks of the owner into the order in which they are claimed.
func (o *owner) claimOrder(p *store.ClaimParams, due []*task) []*task {
	slices.SortFunc(due, func(a, b *task) int { return cmp.Or(cmp.Compare(a.queuePos.at, b.queuePos.at), a.compare(b)) })
	var queue, oldest []*task
	byContext := make(map[*contextEntry][]*task)
	var contexts []*contextEntry
	for _, t := range due {
		if t.fold.Queue.Phase == store.PhaseLeased {
			queue = append(queue, t)
			continue
		}
		oldest = append(oldest, t)
		if byContext[t.context] == nil {
			contexts = append(contexts, t.context)
		}
		byContext[t.context] = append(byContext[t.context], t)
	}
	if p.OldestFirst {
		return append(queue, oldest...)
	}
	after := p.AfterContexts[o.name]
	slices.SortFunc(contexts, func(a, b *contextEntry) int {
		if aAfter := a.id > after; aAfter != (b.id > after) {
			return b.compare(a)
		}
		return a.compare(b)
	})
	queues := make([][]*task, len(contexts))
	for i, c := range contexts {
		queues[i] = byContext[c]
	}
	return append(queue, roundRobin(queues, len(oldest))...)
}
