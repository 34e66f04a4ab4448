package storetest

import (
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func closedTests() []test {
	return []test{
		{"a context that is not active takes no new task", closedRefuses},
		{"tasks of a context that is not active go on", closedGoesOn},
		{"a context that is active again takes tasks", closedReopens},
		{"a taken key and a taken id win over a closed context", closedOrder},
	}
}

var closedStatuses = []a2a.ContextStatus{a2a.ContextPaused, a2a.ContextCompleted, a2a.ContextArchived, "status-of-tomorrow"}

// closed makes a context of one status named for it, with an idle task "in " it.
func (f *fixture) closed(s a2a.ContextStatus) (store.Context, store.Key) {
	f.Helper()
	id, k := string(s), key("in "+string(s))
	f.commit(idleTask(k, id, 0, a2a.StateInputRequired))
	f.saved(as(f.context(owner, id), s))
	return f.context(owner, id), k
}

func closedRefuses(f *fixture) {
	for _, s := range closedStatuses {
		before, _ := f.closed(s)
		backlog := f.backlog()
		c := idempotent(newTask(key("new"), string(s), at(50)), "key", at(50))
		c.Steps = []store.Step{step(1, "step", "result")}
		f.refused(store.ErrContextClosed, c)
		f.absent(key("new"))
		f.noRecord(owner, "key")
		f.equal("Steps()", f.steps(key("new"), 1), []store.Step{})
		f.equal("Backlog()", f.backlog(), backlog)
		f.equal("Context()", f.context(owner, string(s)), before)

		results := f.results(c, newTask(key("beside "+string(s)), "elsewhere", at(0)))
		if results[1].Err != nil {
			f.Errorf("Commit() beside a refused change = %v, want it applied", results[1].Err)
		}
		theirs := store.Key{Owner: other, ID: "new in " + string(s)}
		f.commit(newTask(theirs, string(s), at(0)))
	}
}

func closedGoesOn(f *fixture) {
	for i, s := range closedStatuses {
		want, k := f.closed(s)
		again := next(k, 2, received(at(60), "m2"))
		again.Run = &store.Run{Phase: store.PhaseQueued, Turn: 2}
		f.commit(idempotent(again, "key of "+string(s), at(60)))
		want.UpdatedAt = at(60)
		f.equal("Context() after a message", f.context(owner, string(s)), want)
		if got := f.claim(claimAt(worker, at(70), 9)); len(got) != 1 || got[0].Key != k {
			f.Fatalf("Claim() %d in a context that is %s = %v, want its task", i, s, ids(got))
		}
		done := under(k, worker, 1, chunk(at(80), "a", "text", false), said(at(80), a2a.StateCompleted, "m3"))
		done.Run = idle()
		f.commit(done)
		f.equal("Context() after the end of its task", f.context(owner, string(s)), want)
	}
}

func closedReopens(f *fixture) {
	for _, s := range closedStatuses {
		c, k := f.closed(s)
		f.saved(as(c, a2a.ContextActive))
		f.commit(newTask(key("more of "+string(s)), string(s), at(5)))
		f.equal("Context().TaskIDs", f.context(owner, string(s)).TaskIDs, []string{k.ID, "more of " + string(s)})
	}
	// A context may begin closed.
	made := newContext("made", 0)
	made.Context.Status = a2a.ContextPaused
	paused := f.saved(made)
	f.refused(store.ErrContextClosed, newTask(key("t1"), "made", at(1)))
	f.saved(as(paused, a2a.ContextActive))
	f.commit(newTask(key("t1"), "made", at(1)))
}

func closedOrder(f *fixture) {
	_, k := f.closed(a2a.ContextPaused)
	f.commit(idempotent(next(k, 2), "key", at(1)))
	before := f.task(k)
	f.refused(store.ErrDuplicate, idempotent(newTask(key("new"), "paused", at(1)), "key", at(1)))
	f.refused(store.ErrDuplicate, idempotent(newTask(k, "paused", at(1)), "key", at(1)))
	f.refused(store.ErrExists, newTask(k, "paused", at(1)))
	f.equal("Task()", f.task(k), before)
}
