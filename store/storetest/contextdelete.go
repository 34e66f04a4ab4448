package storetest

import (
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var deleteTests = []test{
	{"an absent context is not found", deleteAbsent},
	{"a context with queued or leased tasks is not deleted", deleteBusy},
	{"a context without tasks is deleted in one call", deleteEmpty},
	{"a context is deleted in batches of any size", deleteBatches},
	{"a deletion with limit 0 only starts", deleteOnlyStarts},
	{"nothing is left of a deleted context", deleteAll},
	{"a context pending deletion is not found", deleteHides},
	{"changes of its tasks do not block a pending deletion", deleteAllowsAgentChanges},
	{"a context with the id of a deleted one is new", deleteThenRecreate},
	{"a lease of a deleted task is not valid for a new task with its id", deletedTaskLease},
	{"deleting a context does not affect others", deleteKeepsOthers},
	{"pending deletions are listed up to a limit", deletePendingLimit},
}

// createFullContext creates a context of n idle tasks with all kinds of related objects, and
// returns their keys. The names of the objects contain the id of the context.
func (f *fixture) createFullContext(o, id string, n int) []store.Key {
	f.Helper()
	created := contextWithKey(newContext(id, 0), "context "+id, 0)
	created.Context.Key.Owner, created.Idempotency.Owner = o, o
	f.saveContext(created)
	keys := make([]store.Key, n)
	for i := range keys {
		k := store.Key{Owner: o, ID: fmt.Sprint(id, "-", i)}
		c := withKey(idleTask(k, id, i, a2a.StateWorking), "create "+k.ID, at(i))
		c.Events = append(c.Events, chunkEvent(at(i), "a", "text", false))
		c.Steps = []store.Step{step(1, "step", "result"), step(2, "step", "result")}
		more := withKey(changeAt(k, 3, agentMessage(at(i), a2a.StateInputRequired, "m2")), "change "+k.ID, at(i))
		f.commit(c, withSnapshot(more, fold(k, id, *idle(), c.Events...)))
		f.addFeedback(store.Feedback{Key: k, ID: "f", Rating: 4, CreatedAt: at(i)}, store.Feedback{Key: k, ID: "g", CreatedAt: at(i)})
		keys[i] = k
	}
	return keys
}

// wantContextGone checks that no read finds anything of a context made by createFullContext.
func (f *fixture) wantContextGone(o, id string, keys []store.Key) {
	f.Helper()
	f.wantNoContext(o, id)
	f.wantNoRecord(o, "context "+id)
	for _, k := range keys {
		f.wantNoTask(k)
		f.wantNoRecord(o, "create "+k.ID)
		f.wantNoRecord(o, "change "+k.ID)
		f.equal("Feedback()", f.feedbackOf(k), []store.Feedback{})
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

// wantDeleteContextRejected checks that DeleteContext fails with an error and starts no
// deletion.
func (f *fixture) wantDeleteContextRejected(want error, o, id string) {
	f.Helper()
	if more, err := f.s.DeleteContext(f.ctx, o, id, 9); !errors.Is(err, want) || more {
		f.Errorf("DeleteContext(%q, %q) = %t, %v, want %v", o, id, more, err, want)
	}
	f.wantNoPendingDeletion(o, id)
}

// wantNoPendingDeletion checks that no deletion of the context is pending.
func (f *fixture) wantNoPendingDeletion(o, id string) {
	f.Helper()
	if more, err := f.s.FinishDelete(f.ctx, o, id, 9); !errors.Is(err, store.ErrNotFound) || more {
		f.Errorf("FinishDelete(%q, %q) = %t, %v, want ErrNotFound", o, id, more, err)
	}
}

func deleteAbsent(f *fixture) {
	f.wantDeleteContextRejected(store.ErrNotFound, owner, "c1")
	f.saveContext(newContext("c1", 0))
	f.wantDeleteContextRejected(store.ErrNotFound, otherOwner, "c1")
	f.wantDeleteContextRejected(store.ErrNotFound, owner, "C1")
	f.wantNoPendingDeletion(owner, "c1")
	f.context(owner, "c1")
	f.deleteContext("c1", 0, 9)
	f.wantDeleteContextRejected(store.ErrNotFound, owner, "c1")
}

func deleteBusy(f *fixture) {
	keys := f.createFullContext(owner, "c1", 3)
	busy := key("busy")
	f.commit(withKey(newTask(busy, "c1", at(9)), "key", at(9)))
	before, tasks := f.context(owner, "c1"), f.list(store.Query{Owner: owner, Limit: 9, Total: true})
	check := func(phase store.Phase) {
		f.Helper()
		backlog, summary, task := f.backlog(), f.summary(owner), f.task(busy)
		f.wantDeleteContextRejected(store.ErrBusy, owner, "c1")
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
	// A task with an expired lease counts as leased until another worker claims it.
	f.claim(claimAt(otherWorker, at(20).Add(1000*3600e9), 1))
	check(store.PhaseLeased)
	delayed := changeUnder(busy, otherWorker, 2, statusEvent(at(30), a2a.StateSubmitted))
	delayed.Queue = &store.QueueEntry{Phase: store.PhaseQueued, DueAt: at(1 << 40), Turn: 2}
	f.commit(delayed)
	check(store.PhaseQueued)

	done := changeAt(busy, f.task(busy).Seq, statusEvent(at(40), a2a.StateInputRequired))
	done.Queue = idle()
	f.commit(done)
	f.deleteContext("c1", 4, 9)
	f.wantContextGone(owner, "c1", append(keys, busy))
	f.wantNoRecord(owner, "key")
}

func deleteEmpty(f *fixture) {
	for _, s := range append(closedStatuses, a2a.ContextActive) {
		c := contextWithKey(newContext("c1", 0), "key", 0)
		c.Context.Status = s
		f.saveContext(c)
		f.deleteContext("c1", 0, 1)
		f.wantNoContext(owner, "c1")
		f.wantNoRecord(owner, "key")
	}
	f.equal("Contexts()", f.contexts(store.ContextQuery{Owner: owner}), store.ContextPage{})
	f.equal("PendingDeletions()", f.pendingDeletions(9), []string{})
}

func deleteOnlyStarts(f *fixture) {
	for n := range 3 {
		id := fmt.Sprint("c", n)
		keys := f.createFullContext(owner, id, n)
		for range 2 {
			if !f.deleteContextBatch(id, 0) {
				f.Errorf("a deletion of %d tasks with limit 0 reports no more", n)
			}
			f.wantNoContext(owner, id)
			f.equal("PendingDeletions()", f.pendingDeletions(9), []string{owner + "/" + id})
			f.wantRejected(store.ErrContextClosed, newTask(key("new"), id, at(9)))
		}
		f.deleteContext(id, n, n+1)
		f.wantContextGone(owner, id, keys)
	}
}

func deleteBatches(f *fixture) {
	const n = 6
	for _, limit := range []int{1, 2, 4, n - 1, n, n + 1, 1000} {
		id := fmt.Sprint("c", limit)
		keys := f.createFullContext(owner, id, n)
		calls := 1
		for ; f.deleteContextBatch(id, limit); calls++ {
			f.equal("PendingDeletions()", f.pendingDeletions(9), []string{owner + "/" + id})
			if calls > n/limit+2 {
				f.Fatalf("DeleteContext() with limit %d is not complete for %d tasks", limit, n)
			}
		}
		if least := (n + limit - 1) / limit; calls < least {
			f.Errorf("DeleteContext() of %d tasks with limit %d took %d calls, want at least %d", n, limit, calls, least)
		}
		f.equal("PendingDeletions()", f.pendingDeletions(9), []string{})
		f.wantContextGone(owner, id, keys)
		f.wantDeleteContextRejected(store.ErrNotFound, owner, id)
	}
}

func deleteAll(f *fixture) {
	keys := f.createFullContext(owner, "c1", 4)
	f.deleteContext("c1", 4, 3)
	f.wantContextGone(owner, "c1", keys)
	f.equal("FeedbackSummary()", f.summary(owner), store.FeedbackSummary{})
	f.equal("FeedbackSummary() of all owners", f.summary(""), store.FeedbackSummary{})
	f.equal("Feedback()", f.allFeedback(store.FeedbackQuery{Owner: owner, Limit: 9}), []store.Feedback{})
	f.equal("Backlog()", f.backlog(), store.Backlog{})
	f.equal("Claim()", ids(f.claim(claimAt(worker, at(1<<40), 9))), []string{})
	page := f.list(store.Query{Owner: owner, Limit: 9, Total: true})
	f.equal("Tasks()", page, store.Page{})
	f.equal("Contexts()", f.contexts(store.ContextQuery{Owner: owner}), store.ContextPage{})
	f.equal("Renew()", f.renew(at(9), heldLease(keys[0], worker, 1)), keys[:1])
	f.wantRejected(store.ErrNotFound, changeAt(keys[0], 4, statusEvent(at(9), a2a.StateWorking)))
	suite.Do(f.s.AddFeedback(f.ctx, store.Feedback{Key: keys[0], ID: "h", CreatedAt: at(9)})).Fails(f, store.ErrNotFound, "AddFeedback() on a deleted task")
	suite.Call(f.s.ExpireIdempotency(f.ctx, at(1<<40), 99)).Want(f, 0, "ExpireIdempotency()")
}

func deleteHides(f *fixture) {
	keys := f.createFullContext(owner, "c1", 3)
	f.saveContext(newContext("unrelated", 0))
	version := f.context(owner, "c1").Version
	if !f.deleteContextBatch("c1", 1) {
		f.Fatalf("DeleteContext() of 3 tasks with limit 1 = no more, want more")
	}
	f.wantNoContext(owner, "c1")
	for _, sort := range contextSorts {
		page := f.contexts(store.ContextQuery{Owner: owner, Sort: sort})
		if page.Total != 1 || len(page.Contexts) != 1 {
			f.Errorf("Contexts() during a deletion = %v of %d, want the other one", contextIDs(page.Contexts), page.Total)
		}
	}
	f.wantDeleteContextRejected(store.ErrNotFound, otherOwner, "c1")
	f.equal("PendingDeletions()", f.pendingDeletions(9), []string{owner + "/c1"})

	created := withKey(newTask(key("new"), "c1", at(9)), "key", at(9))
	f.wantRejected(store.ErrContextClosed, created)
	f.wantNoTask(key("new"))
	f.wantNoRecord(owner, "key")
	for _, k := range keys { // the first batch removed one, the others reject messages
		message := withKey(changeAt(k, 4, clientMessage(at(9), "m9")), "key", at(9))
		f.wantRejected(store.ErrNotFound, message)
		f.wantNoRecord(owner, "key")
	}
	f.wantSaveRejected(store.ErrNotFound, contextWithKey(store.ContextChange{Context: fullContext(owner, "c1", 9), Version: version}, "key", 9))
	f.wantSaveRejected(store.ErrExists, contextWithKey(newContext("c1", 9), "key", 9))
	f.wantSaveRejected(store.ErrParentNotFound, withParent(f.context(owner, "unrelated"), "c1"))
	f.equal("PendingDeletions()", f.pendingDeletions(9), []string{owner + "/c1"})
	f.deleteContext("c1", 2, 1)
	f.wantContextGone(owner, "c1", keys)
	f.commit(created)
}

func deleteAllowsAgentChanges(f *fixture) {
	keys := f.createFullContext(owner, "c1", 3)
	f.deleteContextBatch("c1", 1)
	for _, k := range keys {
		c := changeAt(k, 4, statusEvent(at(9), a2a.StateWorking))
		c.Queue = queued()
		if r := f.commitResults(c)[0]; r.Err != nil && !errors.Is(r.Err, store.ErrNotFound) {
			f.Errorf("Commit() during a deletion = %v, want nil or ErrNotFound", r.Err)
		}
	}
	f.deleteContext("c1", 2, 1)
	f.wantContextGone(owner, "c1", keys)
	f.equal("Backlog()", f.backlog(), store.Backlog{})
	f.equal("Claim()", ids(f.claim(claimAt(worker, at(90), 9))), []string{})
}

func deleteThenRecreate(f *fixture) {
	for round := range 3 {
		keys := f.createFullContext(owner, "c1", 2)
		c := f.context(owner, "c1")
		c.Name, c.Status = "another", a2a.ContextPaused
		f.saveContext(store.ContextChange{Context: c, Version: 1})
		f.deleteContext("c1", 2, 1+round)

		again := withKey(newTask(keys[0], "c1", at(5)), "create "+keys[0].ID, at(5))
		suite.Equal(f, f.commit(again), 1, "version of Commit() of a recreated task")
		f.wantNoPendingDeletion(owner, "c1")
		f.equal("Context()", f.context(owner, "c1"), implicitContext(owner, "c1", 5, keys[0].ID))
		f.equal("Task()", f.task(keys[0]), fold(keys[0], "c1", *queued(), again.Events...))
		f.equal("Events()", f.events(keys[0]), withSeqs(again.Events))
		f.equal("Steps()", f.steps(keys[0], 1), []store.Step{})
		f.equal("Feedback()", f.feedbackOf(keys[0]), []store.Feedback{})
		if got := f.claim(claimAt(worker, at(9), 9)); len(got) != 1 || got[0].Queue.Lease.Fence != 1 {
			f.Fatalf("Claim() = %v, want the task under its first lease", ids(got))
		}
		end := changeUnder(keys[0], worker, 1)
		end.Queue = idle()
		f.commit(end)
		f.deleteContext("c1", 1, 9)
		f.wantContextGone(owner, "c1", keys)
	}
}

// deletedTaskLease deletes a task and creates it again several times. Like real callers, it
// takes the first fence from the clock.
func deletedTaskLease(f *fixture) {
	k := key("t1")
	var stale []store.HeldLease
	for round := range 3 {
		c := newTask(k, "c1", at(round))
		c.Queue = &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1, Lease: store.Lease{Fence: store.FirstFence(at(round))}}
		f.commit(c)
		got := f.claim(claimAt(worker, at(round), 1))
		if len(got) != 1 || got[0].Queue.Lease.Fence != store.FirstFence(at(round))+1 {
			f.Fatalf("Claim() = %+v, want the task with its first fence plus 1", got)
		}
		lease := heldLease(k, worker, got[0].Queue.Lease.Fence)
		for _, old := range stale {
			f.wantRejected(store.ErrLeaseLost, changeUnder(k, worker, old.Fence, statusEvent(at(9), a2a.StateCompleted)))
			f.equal("Renew() of a lease of a deleted task", f.renew(at(60_000), old), []store.Key{k})
		}
		stale = append(stale, lease)
		f.equal("Renew()", f.renew(at(60_000), lease), []store.Key{})
		end := changeUnder(k, worker, lease.Fence)
		end.Queue = &store.QueueEntry{Phase: store.PhaseIdle, Turn: 1, Lease: store.Lease{Fence: lease.Fence}}
		f.commit(end)
		f.deleteContext("c1", 1, 9)
	}
}

func deleteKeepsOthers(f *fixture) {
	unrelated, theirs := f.createFullContext(owner, "c11", 2), f.createFullContext(otherOwner, "c1", 2)
	keys := f.createFullContext(owner, "c1", 2)
	parent := newContext("below", 0)
	parent.Context.ParentID = "c1"
	f.saveContext(parent)
	type snapshot struct {
		Contexts [3]store.Context
		Tasks    []*store.Task
		Logs     [][]store.Event
		Steps    [][]store.Step
		Feedback [2][]store.Feedback
	}
	read := func() snapshot {
		f.Helper()
		k := snapshot{Contexts: [3]store.Context{f.context(owner, "c11"), f.context(otherOwner, "c1"), f.context(owner, "below")}}
		for _, t := range append(unrelated, theirs...) {
			k.Tasks, k.Logs, k.Steps = append(k.Tasks, f.task(t)), append(k.Logs, f.events(t)), append(k.Steps, f.steps(t, 1))
			f.record(t.Owner, "create "+t.ID)
			f.record(t.Owner, "change "+t.ID)
		}
		k.Feedback[0] = f.allFeedback(store.FeedbackQuery{Owner: otherOwner, Limit: 9})
		k.Feedback[1] = append(f.feedbackOf(unrelated[0]), f.feedbackOf(unrelated[1])...)
		f.record(otherOwner, "context c1")
		return k
	}
	before := read()
	f.deleteContextBatch("c1", 1)
	f.equal("other contexts between two batches", read(), before)
	f.deleteContext("c1", 1, 1)
	f.wantContextGone(owner, "c1", keys)
	f.equal("other contexts after the deletion", read(), before)
	f.equal("FeedbackSummary()", f.summary(owner), store.FeedbackSummary{Ratings: [6]int{0: 2, 4: 2}})
	f.equal("FeedbackSummary() of all owners", f.summary(""), store.FeedbackSummary{Ratings: [6]int{0: 4, 4: 4}})
	f.equal("Tasks() of the other owner", f.list(store.Query{Owner: otherOwner, Limit: 9, Total: true}).Total, 2)
}

func deletePendingLimit(f *fixture) {
	var want []string
	for i := range 5 {
		id := fmt.Sprint("c", i)
		f.createFullContext(owner, id, 2)
		f.deleteContextBatch(id, 1)
		want = append(want, owner+"/"+id)
	}
	f.createFullContext(otherOwner, "c0", 1)
	f.equal("PendingDeletions()", f.pendingDeletions(100), want)
	f.equal("PendingDeletions() up to 5", f.pendingDeletions(5), want)
	if got := f.pendingDeletions(3); len(got) != 3 {
		f.Errorf("PendingDeletions(3) of 5 = %v, want 3", got)
	}
	for i := range 5 {
		f.equal("PendingDeletions()", f.pendingDeletions(100), want[i:])
		f.deleteContext(fmt.Sprint("c", i), 1, 1)
	}
	f.equal("PendingDeletions()", f.pendingDeletions(100), []string{})
}
