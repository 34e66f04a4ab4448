package storetest

import (
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var closedTests = []test{
	{"a context that is not active rejects new tasks", closedRejectsTasks},
	{"tasks of a context that is not active continue", closedTasksContinue},
	{"a reactivated context accepts tasks", closedReopens},
	{"ErrDuplicate and ErrExists have precedence over ErrContextClosed", closedPrecedence},
}

var closedStatuses = []a2a.ContextStatus{a2a.ContextPaused, a2a.ContextCompleted, a2a.ContextArchived, "unknown-status"}

// createClosedContext creates a context with a status. Its id is the status, and its idle task
// has the id "in STATUS".
func (f *fixture) createClosedContext(s a2a.ContextStatus) (store.Context, store.Key) {
	f.Helper()
	id, k := string(s), key("in "+string(s))
	f.commit(idleTask(k, id, 0, a2a.StateInputRequired))
	f.saveContext(withStatus(f.context(owner, id), s))
	return f.context(owner, id), k
}

func closedRejectsTasks(f *fixture) {
	for _, s := range closedStatuses {
		before, _ := f.createClosedContext(s)
		backlog := f.backlog()
		c := withKey(newTask(key("new"), string(s), at(50)), "key", at(50))
		c.Steps = []store.Step{step(1, "step", "result")}
		f.wantRejected(store.ErrContextClosed, c)
		f.wantNoTask(key("new"))
		f.wantNoRecord(owner, "key")
		f.equal("Steps()", f.steps(key("new"), 1), []store.Step{})
		f.equal("Backlog()", f.backlog(), backlog)
		f.equal("Context()", f.context(owner, string(s)), before)

		results := f.commitResults(c, newTask(key("another "+string(s)), "elsewhere", at(0)))
		suite.Do(results[1].Err).Check(f, "Commit() in a call with a rejected change")
		theirs := store.Key{Owner: otherOwner, ID: "new in " + string(s)}
		f.commit(newTask(theirs, string(s), at(0)))
	}
}

func closedTasksContinue(f *fixture) {
	for i, s := range closedStatuses {
		want, k := f.createClosedContext(s)
		again := changeAt(k, 2, clientMessage(at(60), "m2"))
		again.Queue = &store.QueueEntry{Phase: store.PhaseQueued, Turn: 2}
		f.commit(withKey(again, "key of "+string(s), at(60)))
		want.UpdatedAt = at(60)
		f.equal("Context() after a message", f.context(owner, string(s)), want)
		if got := f.claim(claimAt(worker, at(70), 9)); len(got) != 1 || got[0].Key != k {
			f.Fatalf("Claim() in context %d with status %s = %v, want its task", i, s, ids(got))
		}
		done := changeUnder(k, worker, 1, chunkEvent(at(80), "a", "text", false), agentMessage(at(80), a2a.StateCompleted, "m3"))
		done.Queue = idle()
		f.commit(done)
		f.equal("Context() after the end of its task", f.context(owner, string(s)), want)
	}
}

func closedReopens(f *fixture) {
	for _, s := range closedStatuses {
		c, k := f.createClosedContext(s)
		f.saveContext(withStatus(c, a2a.ContextActive))
		f.commit(newTask(key("more of "+string(s)), string(s), at(5)))
		f.equal("Context().TaskIDs", f.context(owner, string(s)).TaskIDs, []string{k.ID, "more of " + string(s)})
	}
	// A context may be created closed.
	made := newContext("made", 0)
	made.Context.Status = a2a.ContextPaused
	paused := f.saveContext(made)
	f.wantRejected(store.ErrContextClosed, newTask(key("t1"), "made", at(1)))
	f.saveContext(withStatus(paused, a2a.ContextActive))
	f.commit(newTask(key("t1"), "made", at(1)))
}

func closedPrecedence(f *fixture) {
	_, k := f.createClosedContext(a2a.ContextPaused)
	f.commit(withKey(changeAt(k, 2), "key", at(1)))
	before := f.task(k)
	f.wantRejected(store.ErrDuplicate, withKey(newTask(key("new"), "paused", at(1)), "key", at(1)))
	f.wantRejected(store.ErrDuplicate, withKey(newTask(k, "paused", at(1)), "key", at(1)))
	f.wantRejected(store.ErrExists, newTask(k, "paused", at(1)))
	f.equal("Task()", f.task(k), before)
}
