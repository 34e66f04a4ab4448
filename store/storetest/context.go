package storetest

import (
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// The tests of contexts that nobody described: how tasks make and move them.

func contextTests() []test {
	return []test{
		{"a context begins with its first task", contextBegins},
		{"a context moves with messages of the client and never back", contextMoves},
		{"what the agent says does not move a context", contextStays},
		{"contexts belong to owners", contextPerOwner},
		{"tasks do not move the version of a context", contextVersion},
		{"a context tells its newest tasks, oldest first", contextTasks},
	}
}

func contextBegins(f *fixture) {
	f.noContext(owner, "c1")
	c := newTask(key("t1"), "c1", at(5))
	c.Events = append(c.Events, status(at(9), a2a.StateWorking))
	f.commit(c)
	f.equal("Context()", f.context(owner, "c1"), born(owner, "c1", 5, "t1"))
	f.noContext(owner, "c2")
	f.noContext(owner, "t1")

	// The first event decides, whoever made it; a message moves it on at once.
	f.commit(store.Change{
		Key: key("t2"), Create: &store.Create{ContextID: "c2"}, Run: queued(),
		Events: []store.Event{status(at(5), a2a.StateSubmitted), received(at(7), "m1"), status(at(9), a2a.StateWorking)},
	})
	want := born(owner, "c2", 5, "t2")
	want.UpdatedAt = at(7)
	f.equal("Context()", f.context(owner, "c2"), want)
}

func contextMoves(f *fixture) {
	f.commit(newTask(key("t1"), "c1", at(5)))
	f.commit(newTask(key("t2"), "c1", at(20)), newTask(key("t3"), "c2", at(30)))
	f.commit(newTask(key("t4"), "c1", at(10)))
	want := born(owner, "c1", 5, "t1", "t4", "t2")
	want.UpdatedAt = at(20)
	f.equal("Context()", f.context(owner, "c1"), want)
	f.equal("Context()", f.context(owner, "c2"), born(owner, "c2", 30, "t3"))

	f.commit(next(key("t1"), 1, received(at(25), "m2")))
	want.UpdatedAt = at(25)
	f.equal("Context() after a message", f.context(owner, "c1"), want)
	f.commit(next(key("t1"), 2, received(at(24), "m3"), status(at(40), a2a.StateWorking)))
	f.equal("Context() after an older message", f.context(owner, "c1"), want)
	f.commit(next(key("t2"), 1, received(at(60), "m2"), received(at(50), "m3")))
	want.UpdatedAt = at(60)
	f.equal("Context() after two messages", f.context(owner, "c1"), want)
	f.equal("Context() of other tasks", f.context(owner, "c2"), born(owner, "c2", 30, "t3"))
	f.refused(store.ErrConflict, next(key("t1"), 1, received(at(99), "m9")))
	f.equal("Context() after a refused message", f.context(owner, "c1"), want)
}

func contextStays(f *fixture) {
	f.commit(newTask(key("t1"), "c1", at(5)))
	want := born(owner, "c1", 5, "t1")
	f.claim(claimAt(worker, at(10), 1))
	f.commit(under(key("t1"), worker, 1, said(at(20), a2a.StateWorking, "m2"), chunk(at(30), "a", "text", false)))
	done := under(key("t1"), worker, 1, said(at(40), a2a.StateCompleted, "m3"))
	done.Run = idle()
	f.commit(done)
	f.feedback(store.Feedback{Key: key("t1"), ID: "f", Rating: 1, CreatedAt: at(50)})
	f.equal("Context()", f.context(owner, "c1"), want)

	// Nor does a task that begins without a message.
	f.commit(store.Change{
		Key: key("t2"), Create: &store.Create{ContextID: "c1"}, Run: idle(),
		Events: []store.Event{said(at(60), a2a.StateCompleted, "m1")},
	})
	want.TaskCount, want.TaskIDs = 2, []string{"t1", "t2"}
	f.equal("Context()", f.context(owner, "c1"), want)
}

func contextPerOwner(f *fixture) {
	f.commit(newTask(key("t1"), "c1", at(5)))
	f.noContext(other, "c1")
	f.commit(newTask(store.Key{Owner: other, ID: "t1"}, "c1", at(7)))
	f.equal("Context()", f.context(owner, "c1"), born(owner, "c1", 5, "t1"))
	f.equal("Context()", f.context(other, "c1"), born(other, "c1", 7, "t1"))
	change := described(other, "c1", 9)
	f.saved(store.ContextChange{Context: change, Version: 1})
	f.equal("Context()", f.context(owner, "c1"), born(owner, "c1", 5, "t1"))
}

func contextVersion(f *fixture) {
	first := f.saved(newContext("c1", 0))
	f.commit(newTask(key("t1"), "c1", at(5)))
	f.commit(next(key("t1"), 1, received(at(9), "m2")))
	first.UpdatedAt, first.TaskCount, first.TaskIDs = at(9), 1, []string{"t1"}
	f.equal("Context()", f.context(owner, "c1"), first)
	f.saved(as(first, a2a.ContextPaused))
}

func contextTasks(f *fixture) {
	for i, id := range []string{"e", "b", "d", "a", "c", "B", "é"} {
		f.commit(newTask(key(id), "c1", at([]int{40, 10, 30, 20, 20, 20, 20}[i])))
	}
	f.commit(newTask(key("elsewhere"), "c2", at(50)), newTask(store.Key{Owner: other, ID: "foreign"}, "c1", at(50)))
	// Neither its end nor a message changes when a task was created.
	f.commit(next(key("b"), 1, status(at(90), a2a.StateCompleted)), next(key("a"), 1, received(at(95), "m2")))
	all := []string{"b", "B", "a", "c", "é", "d", "e"}
	want := born(owner, "c1", 40)
	want.UpdatedAt, want.TaskCount = at(95), len(all)
	for n := range len(all) + 2 {
		got, err := f.s.Context(f.ctx, owner, "c1", n)
		if err != nil {
			f.Fatalf("Context() = %v", err)
		}
		want.TaskIDs = all[max(0, len(all)-n):]
		f.equal("Context()", got, want)
		page := f.contexts(store.ContextQuery{Owner: owner, Tasks: n})
		f.equal("Contexts()", page.Contexts[0], want)
	}
}
