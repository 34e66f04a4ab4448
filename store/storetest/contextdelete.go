package storetest

import (
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func deleteTests() []test {
	return []test{
		{"a context that is not there cannot be deleted", deleteAbsent},
		{"a context with work to do is not deleted", deleteBusy},
		{"a context without tasks is deleted at once", deleteEmpty},
		{"a context is deleted in batches of any size", deleteBatches},
		{"nothing is left of a deleted context", deleteAll},
		{"a context that is being deleted is not there", deleteHides},
		{"a deletion that was begun is not kept up by its tasks", deleteGoesOn},
		{"a context of a deleted one's id begins afresh", deleteAfresh},
		{"a lease of a deleted task is not valid for a new task with its id", deleteLease},
		{"deleting a context leaves others alone", deleteOthers},
		{"the number of pending deletions that are listed is limited", deletePending},
	}
}

// rich makes a context of n idle tasks, each with everything a task may have,
// and returns their keys. Everything is named for the context.
func (f *fixture) rich(o, id string, n int) []store.Key {
	f.Helper()
	created := idempotentContext(newContext(id, 0), "context "+id, 0)
	created.Context.Key.Owner, created.Idempotency.Owner = o, o
	f.saved(created)
	keys := make([]store.Key, n)
	for i := range keys {
		k := store.Key{Owner: o, ID: fmt.Sprint(id, "-", i)}
		c := idempotent(idleTask(k, id, i, a2a.StateWorking), "create "+k.ID, at(i))
		c.Events = append(c.Events, chunk(at(i), "a", "text", false))
		c.Steps = []store.Step{step(1, "step", "result"), step(2, "step", "result")}
		more := idempotent(next(k, 3, said(at(i), a2a.StateInputRequired, "m2")), "change "+k.ID, at(i))
		f.commit(c, withSnapshot(more, fold(k, id, *idle(), c.Events...)))
		f.feedback(store.Feedback{Key: k, ID: "f", Rating: 4, CreatedAt: at(i)}, store.Feedback{Key: k, ID: "g", CreatedAt: at(i)})
		keys[i] = k
	}
	return keys
}

// gone checks that nothing is to be found of a context made by rich.
func (f *fixture) gone(o, id string, keys []store.Key) {
	f.Helper()
	f.noContext(o, id)
	f.noRecord(o, "context "+id)
	for _, k := range keys {
		f.absent(k)
		f.noRecord(o, "create "+k.ID)
		f.noRecord(o, "change "+k.ID)
		f.equal("Feedback()", f.feedbackOn(k), []store.Feedback{})
		for turn := range 3 {
			f.equal("Steps()", f.steps(k, turn), []store.Step{})
		}
	}
	for _, q := range orders(store.Query{Owner: o, ContextID: id, Limit: 9, Total: true}) {
		if page := f.list(q); len(page.Tasks) != 0 || page.Total != 0 {
			f.Errorf("Tasks(%+v) = %v of %d, want nothing", q, ids(page.Tasks), page.Total)
		}
	}
}

func (f *fixture) undeleted(want error, o, id string) {
	f.Helper()
	if more, err := f.s.DeleteContext(f.ctx, o, id, 9); !errors.Is(err, want) || more {
		f.Errorf("DeleteContext(%q, %q) = %t, %v, want %v", o, id, more, err, want)
	}
	f.unfinished(o, id)
}

// unfinished shows that there is no deletion under way.
func (f *fixture) unfinished(o, id string) {
	f.Helper()
	if more, err := f.s.FinishDelete(f.ctx, o, id, 9); !errors.Is(err, store.ErrNotFound) || more {
		f.Errorf("FinishDelete(%q, %q) = %t, %v, want ErrNotFound", o, id, more, err)
	}
}

func deleteAbsent(f *fixture) {
	f.undeleted(store.ErrNotFound, owner, "c1")
	f.saved(newContext("c1", 0))
	f.undeleted(store.ErrNotFound, other, "c1")
	f.undeleted(store.ErrNotFound, owner, "C1")
	f.unfinished(owner, "c1")
	f.context(owner, "c1")
	f.remove("c1", 0, 9)
	f.undeleted(store.ErrNotFound, owner, "c1")
}

func deleteBusy(f *fixture) {
	keys := f.rich(owner, "c1", 3)
	busy := key("busy")
	f.commit(idempotent(newTask(busy, "c1", at(9)), "key", at(9)))
	before, tasks := f.context(owner, "c1"), f.list(store.Query{Owner: owner, Limit: 9, Total: true})
	check := func(phase store.Phase) {
		f.Helper()
		backlog, summary, task := f.backlog(), f.summary(owner), f.task(busy)
		f.undeleted(store.ErrBusy, owner, "c1")
		f.equal(fmt.Sprintf("Context() with a task %s", phase), f.context(owner, "c1"), before)
		f.equal("PendingDeletions()", f.pendingDeletions(9), []string{})
		f.equal("Backlog()", f.backlog(), backlog)
		f.equal("FeedbackSummary()", f.summary(owner), summary)
		f.equal("Task()", f.task(busy), task)
		f.record(owner, "context c1")
		for _, k := range keys {
			f.record(owner, "create "+k.ID)
		}
	}
	check(store.PhaseQueued)
	f.equal("Tasks()", f.list(store.Query{Owner: owner, Limit: 9, Total: true}), tasks)
	f.claim(claimAt(worker, at(20), 1))
	check(store.PhaseLeased)
	// A lease that has ended is a lease still.
	f.claim(claimAt(rival, at(20).Add(1000*3600e9), 1))
	check(store.PhaseLeased)
	delayed := under(busy, rival, 2, status(at(30), a2a.StateSubmitted))
	delayed.Run = &store.Run{Phase: store.PhaseQueued, DueAt: at(1 << 40), Turn: 2}
	f.commit(delayed)
	check(store.PhaseQueued)

	done := next(busy, f.task(busy).Seq, status(at(40), a2a.StateInputRequired))
	done.Run = idle()
	f.commit(done)
	f.remove("c1", 4, 9)
	f.gone(owner, "c1", append(keys, busy))
	f.noRecord(owner, "key")
}

func deleteEmpty(f *fixture) {
	for _, s := range append(closedStatuses, a2a.ContextActive) {
		c := idempotentContext(newContext("c1", 0), "key", 0)
		c.Context.Status = s
		f.saved(c)
		f.remove("c1", 0, 1)
		f.noContext(owner, "c1")
		f.noRecord(owner, "key")
	}
	f.equal("Contexts()", f.contexts(store.ContextQuery{Owner: owner}), store.ContextPage{})
	f.equal("PendingDeletions()", f.pendingDeletions(9), []string{})
}

func deleteBatches(f *fixture) {
	const n = 6
	for _, limit := range []int{1, 2, 4, n - 1, n, n + 1, 1000} {
		id := fmt.Sprint("c", limit)
		keys := f.rich(owner, id, n)
		calls := 1
		for ; f.batch(id, limit); calls++ {
			f.equal("PendingDeletions()", f.pendingDeletions(9), []string{owner + "/" + id})
			if calls > n/limit+2 {
				f.Fatalf("DeleteContext() by %d does not end with %d tasks", limit, n)
			}
		}
		if least := (n + limit - 1) / limit; calls < least {
			f.Errorf("DeleteContext() of %d tasks by %d took %d calls, want no fewer than %d", n, limit, calls, least)
		}
		f.equal("PendingDeletions()", f.pendingDeletions(9), []string{})
		f.gone(owner, id, keys)
		f.undeleted(store.ErrNotFound, owner, id)
	}
}

func deleteAll(f *fixture) {
	keys := f.rich(owner, "c1", 4)
	f.remove("c1", 4, 3)
	f.gone(owner, "c1", keys)
	f.equal("FeedbackSummary()", f.summary(owner), store.FeedbackSummary{})
	f.equal("FeedbackSummary() over all", f.summary(""), store.FeedbackSummary{})
	f.equal("Feedback()", f.pagedFeedback(store.FeedbackQuery{Owner: owner, Limit: 9}), []store.Feedback{})
	f.equal("Backlog()", f.backlog(), store.Backlog{})
	f.equal("Claim()", ids(f.claim(claimAt(worker, at(1<<40), 9))), []string{})
	page := f.list(store.Query{Owner: owner, Limit: 9, Total: true})
	f.equal("Tasks()", page, store.Page{})
	f.equal("Contexts()", f.contexts(store.ContextQuery{Owner: owner}), store.ContextPage{})
	f.equal("Renew()", f.renew(at(9), held(keys[0], worker, 1)), keys[:1])
	f.refused(store.ErrNotFound, next(keys[0], 4, status(at(9), a2a.StateWorking)))
	if err := f.s.AddFeedback(f.ctx, store.Feedback{Key: keys[0], ID: "h", CreatedAt: at(9)}); !errors.Is(err, store.ErrNotFound) {
		f.Errorf("AddFeedback() on a deleted task = %v, want ErrNotFound", err)
	}
	n, err := f.s.ExpireIdempotency(f.ctx, at(1<<40), 99)
	if err != nil || n != 0 {
		f.Errorf("ExpireIdempotency() = %d, %v, want nothing left to remove", n, err)
	}
}

func deleteHides(f *fixture) {
	keys := f.rich(owner, "c1", 3)
	f.saved(newContext("beside", 0))
	version := f.context(owner, "c1").Version
	if !f.batch("c1", 1) {
		f.Fatalf("DeleteContext() of 3 tasks by 1 = no more")
	}
	f.noContext(owner, "c1")
	for _, sort := range contextSorts {
		page := f.contexts(store.ContextQuery{Owner: owner, Sort: sort})
		if page.Total != 1 || len(page.Contexts) != 1 {
			f.Errorf("Contexts() during a deletion = %v of %d, want the one beside", contextIDs(page.Contexts), page.Total)
		}
	}
	f.undeleted(store.ErrNotFound, other, "c1")
	f.equal("PendingDeletions()", f.pendingDeletions(9), []string{owner + "/c1"})

	created := idempotent(newTask(key("new"), "c1", at(9)), "key", at(9))
	f.refused(store.ErrContextClosed, created)
	f.absent(key("new"))
	f.noRecord(owner, "key")
	for _, k := range keys { // one is gone by now, the others no longer take messages
		message := idempotent(next(k, 4, received(at(9), "m9")), "key", at(9))
		f.refused(store.ErrNotFound, message)
		f.noRecord(owner, "key")
	}
	f.unsaved(store.ErrNotFound, idempotentContext(store.ContextChange{Context: described(owner, "c1", 9), Version: version}, "key", 9))
	f.unsaved(store.ErrExists, idempotentContext(newContext("c1", 9), "key", 9))
	f.unsaved(store.ErrParentNotFound, within(f.context(owner, "beside"), "c1"))
	f.equal("PendingDeletions()", f.pendingDeletions(9), []string{owner + "/c1"})
	f.remove("c1", 2, 1)
	f.gone(owner, "c1", keys)
	f.commit(created)
}

func deleteGoesOn(f *fixture) {
	keys := f.rich(owner, "c1", 3)
	f.batch("c1", 1)
	for _, k := range keys {
		c := next(k, 4, status(at(9), a2a.StateWorking))
		c.Run = queued()
		if r := f.results(c)[0]; r.Err != nil && !errors.Is(r.Err, store.ErrNotFound) {
			f.Errorf("Commit() during a deletion = %v, want it applied or ErrNotFound", r.Err)
		}
	}
	f.remove("c1", 2, 1)
	f.gone(owner, "c1", keys)
	f.equal("Backlog()", f.backlog(), store.Backlog{})
	f.equal("Claim()", ids(f.claim(claimAt(worker, at(90), 9))), []string{})
}

func deleteAfresh(f *fixture) {
	for round := range 3 {
		keys := f.rich(owner, "c1", 2)
		c := f.context(owner, "c1")
		c.Name, c.Status = "another", a2a.ContextPaused
		f.saved(store.ContextChange{Context: c, Version: 1})
		f.remove("c1", 2, 1+round)

		again := idempotent(newTask(keys[0], "c1", at(5)), "create "+keys[0].ID, at(5))
		if seq := f.commit(again); seq != 1 {
			f.Errorf("Commit() of a task that was deleted = version %d, want 1", seq)
		}
		f.unfinished(owner, "c1")
		f.equal("Context()", f.context(owner, "c1"), born(owner, "c1", 5, keys[0].ID))
		f.equal("Task()", f.task(keys[0]), fold(keys[0], "c1", *queued(), again.Events...))
		f.equal("Events()", f.events(keys[0]), numbered(again.Events))
		f.equal("Steps()", f.steps(keys[0], 1), []store.Step{})
		f.equal("Feedback()", f.feedbackOn(keys[0]), []store.Feedback{})
		if got := f.claim(claimAt(worker, at(9), 9)); len(got) != 1 || got[0].Run.Lease.Fence != 1 {
			f.Fatalf("Claim() = %v, want the task under its first lease", ids(got))
		}
		end := under(keys[0], worker, 1)
		end.Run = idle()
		f.commit(end)
		f.remove("c1", 1, 9)
		f.gone(owner, "c1", keys)
	}
}

// deleteLease creates a task again and again as callers do, whose fences start from the clock.
func deleteLease(f *fixture) {
	k := key("t1")
	var stale []store.HeldLease
	for round := range 3 {
		c := newTask(k, "c1", at(round))
		c.Run = &store.Run{Phase: store.PhaseQueued, Turn: 1, Lease: store.Lease{Fence: store.FirstFence(at(round))}}
		f.commit(c)
		got := f.claim(claimAt(worker, at(round), 1))
		if len(got) != 1 || got[0].Run.Lease.Fence != store.FirstFence(at(round))+1 {
			f.Fatalf("Claim() = %+v, want the task under the fence after its first", got)
		}
		lease := held(k, worker, got[0].Run.Lease.Fence)
		for _, old := range stale {
			f.refused(store.ErrLeaseLost, under(k, worker, old.Fence, status(at(9), a2a.StateCompleted)))
			f.equal("Renew() of a lease of a deleted task", f.renew(at(60_000), old), []store.Key{k})
		}
		stale = append(stale, lease)
		f.equal("Renew()", f.renew(at(60_000), lease), []store.Key{})
		end := under(k, worker, lease.Fence)
		end.Run = &store.Run{Phase: store.PhaseIdle, Turn: 1, Lease: store.Lease{Fence: lease.Fence}}
		f.commit(end)
		f.remove("c1", 1, 9)
	}
}

func deleteOthers(f *fixture) {
	beside, theirs := f.rich(owner, "c11", 2), f.rich(other, "c1", 2)
	keys := f.rich(owner, "c1", 2)
	parent := newContext("below", 0)
	parent.Context.ParentID = "c1"
	f.saved(parent)
	type kept struct {
		Contexts [3]store.Context
		Tasks    []*store.Task
		Logs     [][]store.Event
		Steps    [][]store.Step
		Feedback [2][]store.Feedback
	}
	read := func() kept {
		f.Helper()
		k := kept{Contexts: [3]store.Context{f.context(owner, "c11"), f.context(other, "c1"), f.context(owner, "below")}}
		for _, t := range append(beside, theirs...) {
			k.Tasks, k.Logs, k.Steps = append(k.Tasks, f.task(t)), append(k.Logs, f.events(t)), append(k.Steps, f.steps(t, 1))
			f.record(t.Owner, "create "+t.ID)
			f.record(t.Owner, "change "+t.ID)
		}
		k.Feedback[0] = f.pagedFeedback(store.FeedbackQuery{Owner: other, Limit: 9})
		k.Feedback[1] = append(f.feedbackOn(beside[0]), f.feedbackOn(beside[1])...)
		f.record(other, "context c1")
		return k
	}
	before := read()
	f.batch("c1", 1)
	f.equal("what was not deleted, between batches", read(), before)
	f.remove("c1", 1, 1)
	f.gone(owner, "c1", keys)
	f.equal("what was not deleted", read(), before)
	f.equal("FeedbackSummary()", f.summary(owner), store.FeedbackSummary{Ratings: [6]int{0: 2, 4: 2}})
	f.equal("FeedbackSummary() over all", f.summary(""), store.FeedbackSummary{Ratings: [6]int{0: 4, 4: 4}})
	f.equal("Tasks() of the other", f.list(store.Query{Owner: other, Limit: 9, Total: true}).Total, 2)
}

func deletePending(f *fixture) {
	var want []string
	for i := range 5 {
		id := fmt.Sprint("c", i)
		f.rich(owner, id, 2)
		f.batch(id, 1)
		want = append(want, owner+"/"+id)
	}
	f.rich(other, "c0", 1)
	f.equal("PendingDeletions()", f.pendingDeletions(100), want)
	f.equal("PendingDeletions() up to 5", f.pendingDeletions(5), want)
	if got := f.pendingDeletions(3); len(got) != 3 {
		f.Errorf("PendingDeletions(3) of 5 = %v, want 3", got)
	}
	for i := range 5 {
		f.equal("PendingDeletions()", f.pendingDeletions(100), want[i:])
		f.remove(fmt.Sprint("c", i), 1, 1)
	}
	f.equal("PendingDeletions()", f.pendingDeletions(100), []string{})
}
