package inmem

import (
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
func (o *owner) dueTasks(p *store.ClaimParams, n int) []*task {
	due := firstTasks(&o.expiredLeases, n, func(t *task) bool { return t.leaseExpired(p) })
	n -= len(due)
	if p.OldestFirst {
		return append(due, firstTasks(&o.ready, n, nil)...)
	}
	contexts := o.nextContexts(p.AfterContexts[o.name], n)
	if len(contexts) == n {
		n = 1 // one task of each context
	}
	queues := make([][]*task, len(contexts))
	for i, c := range contexts {
		queues[i] = firstTasks(&c.ready, n, nil)
	}
	return append(due, roundRobin(queues, max(n, len(contexts)))...)
}

// leaseExpired reports whether a claim may lease a leased task.
func (t *task) leaseExpired(p *store.ClaimParams) bool {
	if p.QueuedOnly || t.fold.Queue.Lease.Worker == p.Worker {
		return false
	}
	until := t.queuePos.at
	return p.Takeover || until <= p.Now.UnixMilli() || p.Horizon > 0 && until > p.Now.Add(p.Horizon).UnixMilli()
}

// nextContexts returns up to n contexts with ready tasks, in the order in which they are
// served.
func (o *owner) nextContexts(after string, n int) (found []*contextEntry) {
	for e := range o.readyContexts.ascend(&entry[*contextEntry]{rec: &contextEntry{owner: o, id: after}}) {
		if len(found) == n {
			return found
		}
		found = append(found, e.rec)
	}
	for e := range o.readyContexts.ascend(nil) {
		if e.rec.id > after || len(found) == n {
			break
		}
		found = append(found, e.rec)
	}
	return found
}

// firstTasks returns the first n tasks of an index for which ok returns true. A nil ok accepts
// all.
func firstTasks(x *index[*task], n int, ok func(*task) bool) (found []*task) {
	for e := range x.ascend(nil) {
		if len(found) >= n {
			break
		}
		if ok == nil || ok(e.rec) {
			found = append(found, e.rec)
		}
	}
	return found
}
