package storetest

import (
	"fmt"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var contextExpireTests = []test{
	{"contexts without tasks expire by their last update", expireEmpty},
	{"saved contexts expire separately", expireSavedContexts},
	{"parents of contexts do not expire", expireParents},
	{"all empty contexts are checked, in batches of any size", expireAllContextOwners},
	{"a context does not expire while a task is created in it", raceExpireContexts},
}

// createEmptyContexts creates contexts by creating a task in each, and deletes the tasks.
func (f *fixture) createEmptyContexts(o string, ms int, ids ...string) {
	f.Helper()
	for _, id := range ids {
		k := store.Key{Owner: o, ID: "task of " + id}
		f.commit(withKey(idleTask(k, id, ms, a2a.StateCompleted), "key of "+id, at(ms)))
		f.deleteTask(k, false)
	}
}

// expireContexts calls ExpireContexts until it is complete and returns the number of removed
// contexts.
func (f *fixture) expireContexts(p store.ContextExpiry) (total int) {
	f.Helper()
	for range 1000 {
		n, next, err := f.s.ExpireContexts(f.ctx, p)
		if err != nil {
			f.Fatalf("ExpireContexts(%+v) = %v, want nil", p, err)
		}
		if n > p.Limit {
			f.Errorf("ExpireContexts() with limit %d removed %d", p.Limit, n)
		}
		total += n
		if p.After = next; next == nil {
			return total
		}
	}
	f.Fatalf("ExpireContexts() returns a next after 1000 calls")
	return total
}

func expireEmpty(f *fixture) {
	f.createEmptyContexts(owner, 10, "old", "again")
	f.createEmptyContexts(owner, 20, "young")
	f.createEmptyContexts(otherOwner, 10, "old")
	f.commit(idleTask(key("kept"), "used", 1, a2a.StateCompleted), idleTask(key("works"), "busy", 1, a2a.StateWorking))
	f.commit(idleTask(key("later"), "again", 20, a2a.StateCompleted))
	f.deleteTask(key("later"), false)
	f.equal("ExpireContexts() before the time", f.expireContexts(store.ContextExpiry{Before: at(10), Limit: 9}), 0)
	f.equal("ExpireContexts()", f.expireContexts(store.ContextExpiry{Before: at(11), Limit: 9}), 2)
	f.wantNoContext(owner, "old")
	f.wantNoContext(otherOwner, "old")
	for _, id := range []string{"young", "used", "busy", "again"} {
		f.context(owner, id)
	}
	for _, sort := range contextSorts {
		f.equal("Contexts()", f.contexts(store.ContextQuery{Owner: owner, Sort: sort}).Total, 4)
	}
	f.equal("Contexts() of the other owner", f.contexts(store.ContextQuery{Owner: otherOwner}), store.ContextPage{})
	f.equal("PendingDeletions()", f.pendingDeletions(9), []string{})
	f.equal("ExpireContexts() again", f.expireContexts(store.ContextExpiry{Before: at(11), Limit: 9}), 0)

	f.commit(newTask(key("new"), "old", at(30))) // a new context with the id of a removed one
	f.equal("Context()", f.context(owner, "old"), implicitContext(owner, "old", 30, "new"))
	f.equal("ExpireContexts() of the rest", f.expireContexts(store.ContextExpiry{Before: at(1 << 40), Limit: 9}), 2)
	f.equal("Contexts()", f.contexts(store.ContextQuery{Owner: owner}).Total, 3)
}

func expireSavedContexts(f *fixture) {
	f.saveContext(contextWithKey(newContext("made", 10), "key", 10))
	f.createEmptyContexts(owner, 10, "implicit", "changed")
	f.saveContext(store.ContextChange{Context: fullContext(owner, "changed", 20), Version: 1})
	for i, s := range closedStatuses {
		f.saveContext(withStatus(f.saveContext(newContext(fmt.Sprint("closed", i), 10)), s))
	}
	f.saveContext(newContext("used", 10))
	f.commit(idleTask(key("t1"), "used", 10, a2a.StateCompleted))
	f.equal("ExpireContexts()", f.expireContexts(store.ContextExpiry{Before: at(1 << 40), Limit: 9}), 1)
	f.wantNoContext(owner, "implicit")
	f.record(owner, "key")

	f.equal("ExpireContexts()", f.expireContexts(store.ContextExpiry{Saved: true, Before: at(11), Limit: 9}), 1+len(closedStatuses))
	f.wantNoContext(owner, "made")
	f.wantNoRecord(owner, "key")
	f.context(owner, "changed")
	f.context(owner, "used")
	for _, q := range []store.ContextQuery{{Tags: []string{"a"}}, {Role: "analyst"}, {}, {Statuses: []a2a.ContextStatus{a2a.ContextActive}}} {
		q.Owner = owner
		f.equal(fmt.Sprintf("Contexts(%+v)", q), f.contexts(q).Total, 2)
	}
	f.equal("ExpireContexts()", f.expireContexts(store.ContextExpiry{Saved: true, Before: at(21), Limit: 9}), 1)
	f.saveContext(contextWithKey(newContext("made", 30), "key", 30))
}

func expireParents(f *fixture) {
	f.createEmptyContexts(owner, 1, "root")
	f.createEmptyContexts(otherOwner, 1, "root") // not a parent
	f.saveContext(newContext("mid", 2))
	f.saveContext(withParent(f.context(owner, "mid"), "root"))
	f.saveContext(newContext("leaf", 3))
	f.saveContext(withParent(f.context(owner, "leaf"), "mid"))
	all := store.ContextExpiry{Before: at(1 << 40), Limit: 1}
	f.equal("ExpireContexts()", f.expireContexts(all), 1)
	f.wantNoContext(otherOwner, "root")
	all.Saved = true
	for _, id := range []string{"leaf", "mid"} {
		f.equal("ExpireContexts() with Saved", f.expireContexts(all), 1)
		f.wantNoContext(owner, id)
	}
	f.context(owner, "root")
	f.saveContext(newContext("child", 5))
	moved := f.saveContext(withParent(f.context(owner, "child"), "root"))
	all.Saved = false
	f.equal("ExpireContexts()", f.expireContexts(all), 0)
	f.saveContext(withParent(moved, ""))
	f.equal("ExpireContexts()", f.expireContexts(all), 1)
	f.wantNoContext(owner, "root")
}

func expireAllContextOwners(f *fixture) {
	for _, limit := range []int{1, 2, 3, 100} {
		want := 0
		for o := range 4 {
			name := fmt.Sprint("owner-", o)
			for i := range o + 1 {
				f.createEmptyContexts(name, i%2, fmt.Sprint("c", i))
				want++
			}
			f.createEmptyContexts(name, 100, "young")
		}
		f.equal("ExpireContexts()", f.expireContexts(store.ContextExpiry{Before: at(50), Limit: limit}), want)
	}
	for o := range 4 {
		f.equal("Contexts() after ExpireContexts()", contextIDs(f.contexts(store.ContextQuery{Owner: fmt.Sprint("owner-", o)}).Contexts), []string{"young"})
	}
}

func raceExpireContexts(f *fixture) {
	for round := range raceRounds {
		id := fmt.Sprint("c", round)
		f.createEmptyContexts(owner, 1, id)
		var made atomic.Int64
		suite.Concurrently(4, func(i int) {
			if i > 1 {
				if _, _, err := f.s.ExpireContexts(f.ctx, store.ContextExpiry{Before: at(1 << 40), Limit: 9}); err != nil {
					f.Errorf("ExpireContexts() = %v, want nil", err)
				}
				return
			}
			if r := f.tryCommit(newTask(key(fmt.Sprint(id, "-", i)), id, at(2))); r.Err == nil {
				made.Add(1)
			} else {
				f.Errorf("Commit() = %v, want nil", r.Err)
			}
		})
		f.equal("created tasks", made.Load(), int64(2))
		f.equal("Context().TaskCount", f.context(owner, id).TaskCount, 2)
	}
	f.equal("Contexts()", f.contexts(store.ContextQuery{Owner: owner}).Total, raceRounds)
}
