package storetest

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// createDueTasksIn creates tasks in a context of an owner, with the given due times by id.
func (f *fixture) createDueTasksIn(owner, context string, due map[string]time.Time) {
	f.Helper()
	var changes []store.Change
	for id, t := range due {
		c := newTask(store.Key{Owner: owner, ID: id}, context, at(0))
		c.Queue.DueAt = t
		changes = append(changes, c)
	}
	f.commit(changes...)
}

// createManyDueTasks creates n tasks in a context that are due immediately.
func (f *fixture) createManyDueTasks(context string, n int) {
	f.Helper()
	for from := 0; from < n; from += 250 {
		due := make(map[string]time.Time)
		for i := from; i < min(n, from+250); i++ {
			due[fmt.Sprintf("%s-%05d", context, i)] = time.Time{}
		}
		f.createDueTasksIn(owner, context, due)
	}
}

// claimOne claims one task, as a worker that is always busy does, and returns its context.
func (f *fixture) claimOne(turns *store.FairnessCursor) string {
	f.Helper()
	p := claimAt(worker, at(100), 1)
	turns.Next(&p)
	tasks := f.claim(p)
	turns.Claimed(&p, tasks)
	if len(tasks) != 1 {
		f.Fatalf("Claim() = %d tasks, want 1", len(tasks))
	}
	return tasks[0].ContextID
}

func claimFairContexts(f *fixture) {
	f.createDueTasksIn(owner, "c2", map[string]time.Time{"b1": at(3), "b2": at(4), "b3": at(5), "b4": {}})
	f.createDueTasksIn(owner, "c1", map[string]time.Time{"a1": at(90)})
	f.createDueTasksIn(owner, "C3", map[string]time.Time{"z2": at(50), "z1": at(50), "later": at(500)})
	f.createDueTasksIn(otherOwner, "c0", map[string]time.Time{"o1": at(1), "o2": at(2), "o3": at(3)})
	got := ids(f.claim(claimAt(worker, at(100), 9)))
	f.equal("Claim()", got, []string{"z1", "o1", "a1", "o2", "b4", "o3", "z2", "b1", "b2"})
	f.equal("Claim() of the rest", ids(f.claim(claimAt(worker, at(100), 9))), []string{"b3"})
}

func claimAfterContext(f *fixture) {
	for _, c := range []string{"a", "b", "B", "c", "ä"} {
		f.createDueTasksIn(owner, c, map[string]time.Time{c + "1": at(1), c + "2": at(2), c + "3": at(3)})
	}
	f.createDueTasksIn(otherOwner, "a", map[string]time.Time{"o1": at(1)})
	f.createDueTasksIn(otherOwner, "d", map[string]time.Time{"o2": at(1)})
	claim := func(after string, limit int) []string {
		p := claimAt(worker, at(100), limit)
		p.AfterContexts = map[string]string{"nobody": "x", owner: after, otherOwner: "a"}
		return ids(f.claim(p))
	}
	f.equal("Claim() after b and a", claim("b", 4), []string{"c1", "o2", "ä1", "o1"})
	f.equal("Claim() after ä", claim("ä", 1), []string{"B1"})
	f.equal("Claim() after B", claim("B", 3), []string{"a1", "b1", "c2"})
	f.equal("Claim() after an absent context", claim("bb", 2), []string{"c3", "ä2"})
	f.equal("Claim() after the last context", claim("ä", 1), []string{"B2"})
	f.equal("Claim() of the rest after a", claim("a", 10), []string{"b2", "ä3", "B3", "a2", "b3", "a3"})
}

func claimOldestFirst(f *fixture) {
	f.createDueTasksIn(owner, "c1", map[string]time.Time{"a": at(1), "b": at(2), "c": at(7)})
	f.createDueTasksIn(owner, "c2", map[string]time.Time{"d": at(3), "e": {}})
	f.createDueTasksIn(otherOwner, "c1", map[string]time.Time{"o": at(1)})
	p := claimAt(worker, at(100), 5)
	p.OldestFirst, p.AfterContexts = true, map[string]string{owner: "c1"}
	f.equal("Claim() with OldestFirst", ids(f.claim(p)), []string{"e", "o", "a", "b", "d"})
}

func claimEndedLeasesFirst(f *fixture) {
	f.createDueTasksIn(owner, "c2", map[string]time.Time{"b": at(1)})
	f.createDueTasksIn(owner, "c1", map[string]time.Time{"a": at(2)})
	f.claim(claimAt(otherWorker, at(5), 1))
	f.claim(claimAt(otherWorker, at(4), 1))
	f.createDueTasksIn(owner, "c0", map[string]time.Time{"c": {}, "d": {}})
	for _, oldest := range []bool{true, false} {
		p := claimAt(otherWorker+"'", at(4).Add(time.Minute), 1)
		if p.OldestFirst = oldest; !oldest {
			p = claimAt(otherWorker+"''", at(5).Add(time.Minute), 10)
		}
		want := map[bool][]string{true: {"b"}, false: {"a", "c", "d"}}
		f.equal("Claim() after the end of a lease", ids(f.claim(p)), want[oldest])
	}
}

// claimBusyContext has one context with thousands of tasks, all due long before the single
// tasks of the other contexts.
func claimBusyContext(f *fixture) {
	const others, flood = 20, 2500
	f.createManyDueTasks("m", flood)
	for i := range others {
		f.createDueTasksIn(owner, fmt.Sprint("abcdefghijklnopqrstu"[i:i+1]), map[string]time.Time{fmt.Sprint("t", i): at(50)})
	}
	var turns store.FairnessCursor
	served, own := make(map[string]bool), 0
	for range 2 * others {
		if c := f.claimOne(&turns); c == "m" {
			own++
		} else {
			served[c] = true
		}
	}
	if len(served) != others || own == 0 {
		f.Errorf("%d claims served %d of %d contexts, and %d of the flood, want all and some", 2*others, len(served), others, own)
	}
	got := ids(f.claim(claimAt(worker, at(100), 3)))
	f.equal("Claim() of the rest", got, []string{
		fmt.Sprintf("m-%05d", own), fmt.Sprintf("m-%05d", own+1), fmt.Sprintf("m-%05d", own+2),
	})
}

// claimNewContexts adds more contexts between two claims than a claim serves, each after all
// others in the order.
func claimNewContexts(f *fixture) {
	f.createDueTasksIn(owner, "a", map[string]time.Time{"a1": {}, "a2": {}, "a3": {}, "a4": {}})
	var turns store.FairnessCursor
	own := 0
	for i := range 40 {
		f.createDueTasksIn(owner, fmt.Sprintf("b%03d", i), map[string]time.Time{fmt.Sprintf("x%03d", i): {}, fmt.Sprintf("y%03d", i): {}})
		if f.claimOne(&turns) == "a" {
			own++
		}
	}
	if own != 4 {
		f.Errorf("40 claims served %d of 4 tasks of the first context, want all", own)
	}
}

// claimManyUndueContexts has more than 1000 contexts without due tasks.
func claimManyUndueContexts(f *fixture) {
	var changes []store.Change
	for i := range 1100 {
		c := newTask(store.Key{Owner: owner, ID: fmt.Sprint(i)}, fmt.Sprintf("c%04d", i), at(0))
		c.Queue.DueAt = at(1000)
		changes = append(changes, c)
		if len(changes) == 100 {
			f.commit(changes...)
			changes = nil
		}
	}
	f.createDueTasksIn(owner, "z1", map[string]time.Time{"second": at(20), "first": at(10)})
	f.createDueTasksIn(owner, "z2", map[string]time.Time{"third": at(30)})
	var got []string
	for range 3 {
		got = append(got, ids(f.claim(claimAt(worker, at(100), 1)))...)
	}
	f.equal("Claim() after contexts without due tasks", got[:1], []string{"first"})
	f.equal("Claim() until nothing is due", len(got), 3)
	f.equal("Claim() when nothing is due", ids(f.claim(claimAt(worker, at(100), 1))), []string{})
}

// createDelayedTasks creates tasks that are due at a time, each with an owner of its own.
func (f *fixture) createDelayedTasks(due time.Time, from, to int) {
	f.Helper()
	for ; from < to; from += 250 {
		f.commit(delayedTasks(due, from, min(to, from+250))...)
	}
}

func delayedTasks(due time.Time, from, to int) (changes []store.Change) {
	for ; from < to; from++ {
		c := newTask(store.Key{Owner: fmt.Sprintf("owner %06d", from), ID: "t"}, "context", at(0))
		c.Queue.DueAt = due
		changes = append(changes, c)
	}
	return changes
}

// claimManyWaitingOwners compares the duration of a claim while few and while many owners have
// tasks that are not due. It uses the shortest of several durations, since the machine may be
// busy, and ignores durations below floor. Before it fails, it makes many more claims.
func claimManyWaitingOwners(f *fixture) {
	const few, many, tries, most, times, floor = 10, 3000, 15, 300, 20, 5 * time.Millisecond
	shortest := func(unrelated int, limit time.Duration) time.Duration {
		best := time.Hour
		for i := 0; i < tries || i < most && best > limit; i++ {
			f.createDueTasksIn(otherOwner, "c", map[string]time.Time{fmt.Sprintf("t%d-%d", unrelated, i): {}})
			started := time.Now()
			if got := f.claim(claimAt(worker, at(100), 64)); len(got) != 1 {
				f.Fatalf("Claim() = %v, want 1 task", ids(got))
			}
			best = min(best, time.Since(started))
		}
		return best
	}
	f.createDelayedTasks(at(1000), 0, few)
	before := shortest(few, floor)
	f.createDelayedTasks(at(1000), few, many)
	limit := max(times*before, floor)
	if after := shortest(many, limit); after > limit {
		f.Errorf("Claim() with %d owners without due tasks took %v, with %d owners %v, want at most %d times as long", many, after, few, before, times)
	}
}

// claimManyDueTogether has more tasks become due at the same time than a store moves to its
// queue in one claim.
func claimManyDueTogether(f *fixture) {
	const due = 1100
	f.createDelayedTasks(at(100), 0, due)
	f.createDelayedTasks(at(101), due, due+10)
	claimed := make(map[store.Key]bool)
	for {
		tasks := f.claim(claimAt(worker, at(100), 400))
		if len(tasks) == 0 {
			break
		}
		for _, t := range tasks {
			claimed[t.Key] = true
		}
	}
	f.equal("claimed tasks", len(claimed), due)
	f.equal("Claim() of the rest", len(f.claim(claimAt(worker, at(101), 100))), 10)
}

// claimDelayed checks that a delayed task is claimed by its due time, among tasks that were never
// delayed.
func claimDelayed(f *fixture) {
	delayed := func(id string, due int) {
		c := newTask(store.Key{Owner: owner, ID: id}, "context", at(0))
		c.Queue.DueAt = at(due)
		f.commit(c)
	}
	delayed("late", 50)
	delayed("early", 15)
	for i, id := range []string{"f", "e", "d", "c", "b", "a"} {
		f.commit(newTask(store.Key{Owner: owner, ID: id}, "context", at((i+1)*10)))
	}
	want := []string{"f", "early", "e", "d", "c", "b", "late", "a"}
	for _, oldest := range []bool{false, true} {
		p := claimAt(worker, at(100), len(want)/2)
		p.OldestFirst = oldest
		f.equal("Claim()", ids(f.claim(p)), want[:len(want)/2])
		want = want[len(want)/2:]
	}
}
