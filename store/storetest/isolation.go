package storetest

import (
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var isolationTests = []test{
	{"every method hides the objects of other owners", isolationAbsent},
	{"equal ids of two owners are separate", isolationSameIDs},
	{"similar names are different owners", isolationSimilarOwners},
}

func isolationAbsent(f *fixture) {
	k := key("t1")
	c := withKey(newTask(k, "c1", at(0)), "key", at(0))
	c.Steps = []store.Step{step(1, "step", "result")}
	f.commit(c)
	f.claim(claimAt(worker, at(1), 1))
	f.addFeedback(store.Feedback{Key: k, ID: "f", Rating: 1, CreatedAt: at(1)})
	before := f.task(k)

	theirs := store.Key{Owner: otherOwner, ID: "t1"}
	f.wantNoTask(theirs)
	f.wantNoRecord(otherOwner, "key")
	f.wantNoContext(otherOwner, "c1")
	f.equal("Steps()", f.steps(theirs, 1), []store.Step{})
	suite.Call(f.s.Versions(f.ctx, []store.Key{theirs})).Empty(f, "Versions()")
	f.wantRejected(store.ErrNotFound, changeAt(theirs, 2, statusEvent(at(2), a2a.StateCanceled)))
	f.wantRejected(store.ErrNotFound, changeUnder(theirs, worker, 1, statusEvent(at(2), a2a.StateCanceled)))
	f.equal("Renew()", f.renew(at(9), heldLease(theirs, worker, 1)), []store.Key{theirs})
	f.equal("Feedback()", f.feedbackOf(theirs), []store.Feedback{})
	f.equal("FeedbackSummary()", f.summary(otherOwner), store.FeedbackSummary{})
	if page := f.contexts(store.ContextQuery{Owner: otherOwner}); len(page.Contexts) != 0 || page.Total != 0 {
		f.Errorf("Contexts() = %+v, want nothing", page)
	}
	suite.Call(f.trySaveContext(store.ContextChange{Context: fullContext(otherOwner, "c1", 2), Version: 1})).Fails(f, store.ErrNotFound, "SaveContext()")
	suite.Call(f.s.DeleteContext(f.ctx, otherOwner, "c1", 9)).Fails(f, store.ErrNotFound, "DeleteContext()")
	for _, q := range []store.Query{{}, {ContextID: "c1"}, {States: []a2a.TaskState{a2a.StateWorking}}} {
		q.Owner, q.Limit, q.Total = otherOwner, 10, true
		if page := f.list(q); len(page.Tasks) != 0 || page.Total != 0 {
			f.Errorf("Tasks(%+v) = %v, want nothing", q, ids(page.Tasks))
		}
	}
	f.equal("Task()", f.task(k), before)
}

func isolationSameIDs(f *fixture) {
	mine, theirs := key("t1"), store.Key{Owner: otherOwner, ID: "t1"}
	for _, k := range []store.Key{mine, theirs} {
		c := withKey(newTask(k, "c1", at(0)), "key", at(0))
		c.Steps = []store.Step{step(1, "step", k.Owner)}
		c.Events[0].Received = message(a2a.RoleUser, "m1", k.Owner)
		f.commit(c)
		f.addFeedback(store.Feedback{Key: k, ID: "f", Text: k.Owner, CreatedAt: at(1)})
	}
	f.commit(changeAt(mine, 1, agentMessage(at(5), a2a.StateCompleted, "m2")))
	for _, k := range []store.Key{mine, theirs} {
		t := f.task(k)
		if got := t.History[0].Message.Text(); t.Key != k || got != k.Owner {
			f.Errorf("Task(%s) = %v with %q, want the task of the same owner", taskName(k), t.Key, got)
		}
		f.equal("Steps()", f.steps(k, 1), []store.Step{step(1, "step", k.Owner)})
		if got := f.feedbackOf(k); len(got) != 1 || got[0].Text != k.Owner || got[0].Key != k {
			f.Errorf("Feedback(%s) = %+v, want the feedback of the same owner", taskName(k), got)
		}
		if got := f.list(store.Query{Owner: k.Owner, ContextID: "c1", Limit: 5, Total: true}); len(got.Tasks) != 1 || got.Tasks[0].Key != k || got.Total != 1 {
			f.Errorf("Tasks() of %q = %+v, want its own task", k.Owner, got)
		}
		suite.Equal(f, f.record(k.Owner, "key").Owner, k.Owner, "Idempotency().Owner")
	}
	f.equal("versions", []int64{f.task(mine).Seq, f.task(theirs).Seq}, []int64{2, 1})
	got := f.claim(claimAt(worker, at(10), 1))
	if len(got) != 1 || got[0].Key != mine {
		f.Fatalf("Claim() = %v, want the task of %q", got, owner)
	}
	f.wantRejected(store.ErrLeaseLost, changeUnder(theirs, worker, 1))
	f.equal("Renew()", f.renew(at(9), heldLease(theirs, worker, 1)), []store.Key{theirs})
}

func isolationSimilarOwners(f *fixture) {
	owners := []string{"alice", "Alice", "alice ", "alic_", "alic%", "alicé", "alice\u0301", "a"}
	for i, o := range owners {
		f.commit(newTask(store.Key{Owner: o, ID: "t"}, "c", at(i)))
	}
	for i, o := range owners {
		page := f.list(store.Query{Owner: o, ContextID: "c", Limit: 10})
		if len(page.Tasks) != 1 || page.Tasks[0].Key.Owner != o || !page.Tasks[0].CreatedAt.Equal(at(i)) {
			f.Errorf("Tasks() of %q = %d tasks, want 1 of its own", o, len(page.Tasks))
		}
		f.equal("Context()", f.context(o, "c"), implicitContext(o, "c", i, "t"))
	}
	// Keys that a store joins from an owner and an id must not collide.
	f.commit(newTask(store.Key{Owner: "a/b", ID: "c"}, "x", at(0)))
	f.wantNoTask(store.Key{Owner: "a", ID: "b/c"})
	f.commit(newTask(store.Key{Owner: "a", ID: "b/c"}, "x", at(0)), newTask(store.Key{Owner: "ab", ID: "c"}, "x", at(0)))
	f.wantNoTask(store.Key{Owner: "a", ID: "bc"})
}
