package inmem

import (
	"cmp"
	"slices"

	"github.com/holdfast-dev/holdfast/store"
)

func (o *owner) hasReady() bool { return o.ready.len+o.ended.len > 0 }

// addReady takes in a task whose time has come.
func (o *owner) addReady(t *task) {
	if t.fold.Run.Phase == store.PhaseLeased {
		o.ended.add(t.queued.at, t)
		return
	}
	o.ready.add(t.queued.at, t)
	if t.context.ready.len == 0 {
		o.busy.add(0, t.context)
	}
	t.context.ready.add(t.queued.at, t)
}

// removeReady takes out a task that addReady took in.
func (o *owner) removeReady(t *task) {
	if t.fold.Run.Phase == store.PhaseLeased {
		o.ended.remove(t.queued.at, t)
		return
	}
	o.ready.remove(t.queued.at, t)
	if t.context.ready.remove(t.queued.at, t); t.context.ready.len == 0 {
		o.busy.remove(0, t.context)
	}
}

// due returns the owner's first n tasks that may be claimed, in order.
func (o *owner) due(p *store.ClaimParams, now int64, n int) []*task {
	var due []*task
	if !p.QueuedOnly {
		due = first(&o.ended, now, n, func(t *task) bool { return t.fold.Run.Lease.Worker != p.Worker })
	}
	n -= len(due)
	if p.OldestFirst {
		return append(due, first(&o.ready, now, n, nil)...)
	}
	contexts := o.turns(p.AfterContexts[o.name], now, n)
	if len(contexts) == n {
		n = 1 // each has one turn
	}
	lines := make([][]*task, len(contexts))
	for i, c := range contexts {
		lines[i] = first(&c.ready, now, n, nil)
	}
	return append(due, takeTurns(lines, max(n, len(contexts)))...)
}

// turns returns the first n contexts with a task that is due, in the order in which they
// are visited.
func (o *owner) turns(after string, now int64, n int) (found []*conversation) {
	if n <= 0 {
		return nil
	}
	add := func(c *conversation) bool {
		if c.ready.chunks[0][0].at <= now {
			found = append(found, c)
		}
		return len(found) < n
	}
	for e := range o.busy.ascend(&entry[*conversation]{rec: &conversation{owner: o, id: after}}) {
		if !add(e.rec) {
			return found
		}
	}
	for e := range o.busy.ascend(nil) {
		if e.rec.id > after || !add(e.rec) {
			break
		}
	}
	return found
}

// first returns the first n tasks of an index whose time has come, of those that ok,
// unless nil, does not refuse.
func first(x *index[*task], now int64, n int, ok func(*task) bool) (found []*task) {
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

// line puts tasks of the owner in the order in which they are claimed.
func (o *owner) line(p *store.ClaimParams, due []*task) []*task {
	slices.SortFunc(due, func(a, b *task) int { return cmp.Or(cmp.Compare(a.queued.at, b.queued.at), a.compare(b)) })
	var line, oldest []*task
	byContext := make(map[*conversation][]*task)
	var contexts []*conversation
	for _, t := range due {
		if t.fold.Run.Phase == store.PhaseLeased {
			line = append(line, t)
			continue
		}
		oldest = append(oldest, t)
		if byContext[t.context] == nil {
			contexts = append(contexts, t.context)
		}
		byContext[t.context] = append(byContext[t.context], t)
	}
	if p.OldestFirst {
		return append(line, oldest...)
	}
	after := p.AfterContexts[o.name]
	slices.SortFunc(contexts, func(a, b *conversation) int {
		if aLater := a.id > after; aLater != (b.id > after) {
			return b.compare(a)
		}
		return a.compare(b)
	})
	lines := make([][]*task, len(contexts))
	for i, c := range contexts {
		lines[i] = byContext[c]
	}
	return append(line, takeTurns(lines, len(oldest))...)
}
