package storetest

import (
	"fmt"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func contextExpireTests() []test {
	return []test{
		{"contexts without tasks expire by their last update", expireEmpty},
		{"contexts that were described expire apart", expireDescribed},
		{"contexts within which there are others do not expire", expireParents},
		{"all empty contexts are visited, by any number", expireContextOwners},
		{"a context that expires takes no task with it", raceExpireContexts},
	}
}

// emptied makes contexts that only a task created, which is deleted.
func (f *fixture) emptied(o string, ms int, ids ...string) {
	f.Helper()
	for _, id := range ids {
		k := store.Key{Owner: o, ID: "task of " + id}
		f.commit(idempotent(idleTask(k, id, ms, a2a.StateCompleted), "key of "+id, at(ms)))
		f.deleteTask(k, false)
	}
}

// expireContexts removes empty contexts to the end and returns how many it removed.
func (f *fixture) expireContexts(p store.ContextExpiry) (total int) {
	f.Helper()
	for range 1000 {
		n, next, err := f.s.ExpireContexts(f.ctx, p)
		if err != nil {
			f.Fatalf("ExpireContexts(%+v) = %v, want nil", p, err)
		}
		if n > p.Limit {
			f.Errorf("ExpireContexts() of at most %d contexts removed %d", p.Limit, n)
		}
		total += n
		if p.After = next; next == nil {
			return total
		}
	}
	f.Fatalf("ExpireContexts() does not end")
	return total
}

func expireEmpty(f *fixture) {
	f.emptied(owner, 10, "old", "again")
	f.emptied(owner, 20, "young")
	f.emptied(other, 10, "old")
	f.commit(idleTask(key("kept"), "used", 1, a2a.StateCompleted), idleTask(key("works"), "busy", 1, a2a.StateWorking))
	f.commit(idleTask(key("later"), "again", 20, a2a.StateCompleted))
	f.deleteTask(key("later"), false)
	f.equal("removed before", f.expireContexts(store.ContextExpiry{Before: at(10), Limit: 9}), 0)
	f.equal("removed", f.expireContexts(store.ContextExpiry{Before: at(11), Limit: 9}), 2)
	f.noContext(owner, "old")
	f.noContext(other, "old")
	for _, id := range []string{"young", "used", "busy", "again"} {
		f.context(owner, id)
	}
	for _, sort := range contextSorts {
		f.equal("Contexts()", f.contexts(store.ContextQuery{Owner: owner, Sort: sort}).Total, 4)
	}
	f.equal("Contexts() of the other", f.contexts(store.ContextQuery{Owner: other}), store.ContextPage{})
	f.equal("PendingDeletions()", f.pendingDeletions(9), []string{})
	f.equal("removed again", f.expireContexts(store.ContextExpiry{Before: at(11), Limit: 9}), 0)

	f.commit(newTask(key("new"), "old", at(30))) // starts afresh
	f.equal("Context()", f.context(owner, "old"), born(owner, "old", 30, "new"))
	f.equal("removed with a task", f.expireContexts(store.ContextExpiry{Before: at(1 << 40), Limit: 9}), 2)
	f.equal("Contexts()", f.contexts(store.ContextQuery{Owner: owner}).Total, 3)
}

func expireDescribed(f *fixture) {
	f.saved(idempotentContext(newContext("made", 10), "key", 10))
	f.emptied(owner, 10, "born", "changed")
	f.saved(store.ContextChange{Context: described(owner, "changed", 20), Version: 1})
	for i, s := range closedStatuses {
		f.saved(as(f.saved(newContext(fmt.Sprint("closed", i), 10)), s))
	}
	f.saved(newContext("used", 10))
	f.commit(idleTask(key("t1"), "used", 10, a2a.StateCompleted))
	f.equal("removed", f.expireContexts(store.ContextExpiry{Before: at(1 << 40), Limit: 9}), 1)
	f.noContext(owner, "born")
	f.record(owner, "key")

	f.equal("removed", f.expireContexts(store.ContextExpiry{Described: true, Before: at(11), Limit: 9}), 1+len(closedStatuses))
	f.noContext(owner, "made")
	f.noRecord(owner, "key")
	f.context(owner, "changed")
	f.context(owner, "used")
	for _, q := range []store.ContextQuery{{Tags: []string{"a"}}, {Role: "analyst"}, {}, {Statuses: []a2a.ContextStatus{a2a.ContextActive}}} {
		q.Owner = owner
		f.equal(fmt.Sprintf("Contexts(%+v)", q), f.contexts(q).Total, 2)
	}
	f.equal("removed", f.expireContexts(store.ContextExpiry{Described: true, Before: at(21), Limit: 9}), 1)
	f.saved(idempotentContext(newContext("made", 30), "key", 30))
}

func expireParents(f *fixture) {
	f.emptied(owner, 1, "root")
	f.emptied(other, 1, "root") // nobody's parent
	f.saved(newContext("mid", 2))
	f.saved(within(f.context(owner, "mid"), "root"))
	f.saved(newContext("leaf", 3))
	f.saved(within(f.context(owner, "leaf"), "mid"))
	all := store.ContextExpiry{Before: at(1 << 40), Limit: 1}
	f.equal("removed", f.expireContexts(all), 1)
	f.noContext(other, "root")
	all.Described = true
	for _, id := range []string{"leaf", "mid"} {
		f.equal("removed described", f.expireContexts(all), 1)
		f.noContext(owner, id)
	}
	f.context(owner, "root")
	f.saved(newContext("child", 5))
	moved := f.saved(within(f.context(owner, "child"), "root"))
	all.Described = false
	f.equal("removed", f.expireContexts(all), 0)
	f.saved(within(moved, ""))
	f.equal("removed", f.expireContexts(all), 1)
	f.noContext(owner, "root")
}

func expireContextOwners(f *fixture) {
	for _, limit := range []int{1, 2, 3, 100} {
		want := 0
		for o := range 4 {
			name := fmt.Sprint("owner-", o)
			for i := range o + 1 {
				f.emptied(name, i%2, fmt.Sprint("c", i))
				want++
			}
			f.emptied(name, 100, "young")
		}
		f.equal("removed", f.expireContexts(store.ContextExpiry{Before: at(50), Limit: limit}), want)
	}
	for o := range 4 {
		f.equal("left", contextIDs(f.contexts(store.ContextQuery{Owner: fmt.Sprint("owner-", o)}).Contexts), []string{"young"})
	}
}

func raceExpireContexts(f *fixture) {
	for round := range rounds {
		id := fmt.Sprint("c", round)
		f.emptied(owner, 1, id)
		var made atomic.Int64
		together(4, func(i int) {
			if i > 1 {
				if _, _, err := f.s.ExpireContexts(f.ctx, store.ContextExpiry{Before: at(1 << 40), Limit: 9}); err != nil {
					f.Errorf("ExpireContexts() = %v, want nil", err)
				}
				return
			}
			if r := f.try(newTask(key(fmt.Sprint(id, "-", i)), id, at(2))); r.Err == nil {
				made.Add(1)
			} else {
				f.Errorf("Commit() = %v, want nil", r.Err)
			}
		})
		f.equal("tasks created", made.Load(), int64(2))
		f.equal("TaskCount", f.context(owner, id).TaskCount, 2)
	}
	f.equal("Contexts()", f.contexts(store.ContextQuery{Owner: owner}).Total, rounds)
}
