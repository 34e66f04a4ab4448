package storetest

import (
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// Tests of contexts that are created and updated by their tasks.

var contextTests = []test{
	{"a context is created with its first task", contextCreatedByTask},
	{"messages of the client move UpdatedAt forward", contextUpdatedByMessages},
	{"messages of the agent do not move UpdatedAt", contextNotUpdatedByAgent},
	{"owners have separate contexts", contextPerOwner},
	{"tasks do not change the version of a context", contextVersion},
	{"a context lists its newest tasks, oldest first", contextTasks},
}

func contextCreatedByTask(f *fixture) {
	f.wantNoContext(owner, "c1")
	c := newTask(key("t1"), "c1", at(5))
	c.Events = append(c.Events, statusEvent(at(9), a2a.StateWorking))
	f.commit(c)
	f.equal("Context()", f.context(owner, "c1"), implicitContext(owner, "c1", 5, "t1"))
	f.wantNoContext(owner, "c2")
	f.wantNoContext(owner, "t1")

	// The first event determines CreatedAt, a message of the client UpdatedAt.
	f.commit(store.Change{
		Key: key("t2"), Create: &store.Create{ContextID: "c2"}, Queue: queued(),
		Events: []store.Event{statusEvent(at(5), a2a.StateSubmitted), clientMessage(at(7), "m1"), statusEvent(at(9), a2a.StateWorking)},
	})
	want := implicitContext(owner, "c2", 5, "t2")
	want.UpdatedAt = at(7)
	f.equal("Context()", f.context(owner, "c2"), want)
}

func contextUpdatedByMessages(f *fixture) {
	f.commit(newTask(key("t1"), "c1", at(5)))
	f.commit(newTask(key("t2"), "c1", at(20)), newTask(key("t3"), "c2", at(30)))
	f.commit(newTask(key("t4"), "c1", at(10)))
	want := implicitContext(owner, "c1", 5, "t1", "t4", "t2")
	want.UpdatedAt = at(20)
	f.equal("Context()", f.context(owner, "c1"), want)
	f.equal("Context()", f.context(owner, "c2"), implicitContext(owner, "c2", 30, "t3"))

	f.commit(changeAt(key("t1"), 1, clientMessage(at(25), "m2")))
	want.UpdatedAt = at(25)
	f.equal("Context() after a message", f.context(owner, "c1"), want)
	f.commit(changeAt(key("t1"), 2, clientMessage(at(24), "m3"), statusEvent(at(40), a2a.StateWorking)))
	f.equal("Context() after an older message", f.context(owner, "c1"), want)
	f.commit(changeAt(key("t2"), 1, clientMessage(at(60), "m2"), clientMessage(at(50), "m3")))
	want.UpdatedAt = at(60)
	f.equal("Context() after two messages", f.context(owner, "c1"), want)
	f.equal("Context() of other tasks", f.context(owner, "c2"), implicitContext(owner, "c2", 30, "t3"))
	f.wantRejected(store.ErrConflict, changeAt(key("t1"), 1, clientMessage(at(99), "m9")))
	f.equal("Context() after a rejected message", f.context(owner, "c1"), want)
}

func contextNotUpdatedByAgent(f *fixture) {
	f.commit(newTask(key("t1"), "c1", at(5)))
	want := implicitContext(owner, "c1", 5, "t1")
	f.claim(claimAt(worker, at(10), 1))
	f.commit(changeUnder(key("t1"), worker, 1, agentMessage(at(20), a2a.StateWorking, "m2"), chunkEvent(at(30), "a", "text", false)))
	done := changeUnder(key("t1"), worker, 1, agentMessage(at(40), a2a.StateCompleted, "m3"))
	done.Queue = idle()
	f.commit(done)
	f.addFeedback(store.Feedback{Key: key("t1"), ID: "f", Rating: 1, CreatedAt: at(50)})
	f.equal("Context()", f.context(owner, "c1"), want)

	// A task without a message does not move UpdatedAt either.
	f.commit(store.Change{
		Key: key("t2"), Create: &store.Create{ContextID: "c1"}, Queue: idle(),
		Events: []store.Event{agentMessage(at(60), a2a.StateCompleted, "m1")},
	})
	want.TaskCount, want.TaskIDs = 2, []string{"t1", "t2"}
	f.equal("Context()", f.context(owner, "c1"), want)
}

func contextPerOwner(f *fixture) {
	f.commit(newTask(key("t1"), "c1", at(5)))
	f.wantNoContext(otherOwner, "c1")
	f.commit(newTask(store.Key{Owner: otherOwner, ID: "t1"}, "c1", at(7)))
	f.equal("Context()", f.context(owner, "c1"), implicitContext(owner, "c1", 5, "t1"))
	f.equal("Context()", f.context(otherOwner, "c1"), implicitContext(otherOwner, "c1", 7, "t1"))
	change := fullContext(otherOwner, "c1", 9)
	f.saveContext(store.ContextChange{Context: change, Version: 1})
	f.equal("Context()", f.context(owner, "c1"), implicitContext(owner, "c1", 5, "t1"))
}

func contextVersion(f *fixture) {
	first := f.saveContext(newContext("c1", 0))
	f.commit(newTask(key("t1"), "c1", at(5)))
	f.commit(changeAt(key("t1"), 1, clientMessage(at(9), "m2")))
	first.UpdatedAt, first.TaskCount, first.TaskIDs = at(9), 1, []string{"t1"}
	f.equal("Context()", f.context(owner, "c1"), first)
	f.saveContext(withStatus(first, a2a.ContextPaused))
}

func contextTasks(f *fixture) {
	for i, id := range []string{"e", "b", "d", "a", "c", "B", "é"} {
		f.commit(newTask(key(id), "c1", at([]int{40, 10, 30, 20, 20, 20, 20}[i])))
	}
	f.commit(newTask(key("elsewhere"), "c2", at(50)), newTask(store.Key{Owner: otherOwner, ID: "foreign"}, "c1", at(50)))
	// Later events do not change the order by creation.
	f.commit(changeAt(key("b"), 1, statusEvent(at(90), a2a.StateCompleted)), changeAt(key("a"), 1, clientMessage(at(95), "m2")))
	all := []string{"b", "B", "a", "c", "é", "d", "e"}
	want := implicitContext(owner, "c1", 40)
	want.UpdatedAt, want.TaskCount = at(95), len(all)
	for n := range len(all) + 2 {
		got := suite.Call(f.s.Context(f.ctx, owner, "c1", n)).Must(f, "Context()")
		want.TaskIDs = all[max(0, len(all)-n):]
		f.equal("Context()", got, want)
		page := f.contexts(store.ContextQuery{Owner: owner, MaxTaskIDs: n})
		f.equal("Contexts()", page.Contexts[0], want)
	}
}
