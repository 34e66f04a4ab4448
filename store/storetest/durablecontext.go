package storetest

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func durableContexts(f *fixture, reopen func()) {
	f.createFullContext(owner, "c1", 3)
	f.createFullContext(otherOwner, "c1", 1)
	child := newContext("child", 4)
	child.Context.ParentID = "c1"
	f.saveContext(withStatus(f.saveContext(child), a2a.ContextArchived))
	f.commit(newTask(key("t"), "implicit", at(9)))
	all := f.createContexts(20)
	type snapshot struct {
		Pages    []store.ContextPage
		Read     []store.Context
		Feedback []store.Feedback
		Counts   [2]store.FeedbackSummary
		Records  []store.IdempotencyRecord
	}
	read := func() snapshot {
		f.Helper()
		k := snapshot{Counts: [2]store.FeedbackSummary{f.summary(owner), f.summary("")}}
		for _, sort := range contextSorts {
			k.Pages = append(k.Pages, f.contexts(store.ContextQuery{Owner: owner, Sort: sort, Limit: 7, MaxTaskIDs: 2}))
		}
		k.Pages = append(k.Pages, f.contexts(store.ContextQuery{Owner: owner, Tags: []string{"x"}, Role: "analyst"}))
		for _, id := range []string{"c1", "child", "implicit", all[3].Key.ID} {
			k.Read = append(k.Read, f.context(owner, id))
		}
		k.Feedback = f.allFeedback(store.FeedbackQuery{Owner: owner, Limit: 4})
		k.Records = append(k.Records, f.record(owner, "context c1"), f.record(otherOwner, "context c1"))
		return k
	}
	before := read()
	for range 2 {
		reopen()
		f.equal("contexts and feedback", read(), before)
	}
	f.wantRejected(store.ErrContextClosed, newTask(key("new"), "child", at(9)))
	f.wantSaveRejected(store.ErrConflict, store.ContextChange{Context: fullContext(owner, "child", 9), Version: 1})
	f.wantSaveRejected(store.ErrParentCycle, withParent(before.Read[0], "child"))
	f.saveContext(withParent(before.Read[1], "implicit"))
}

func durableDelete(f *fixture, reopen func()) {
	keys, unrelated := f.createFullContext(owner, "c1", 4), f.createFullContext(owner, "c2", 2)
	want := f.context(owner, "c2")
	for i := range 3 {
		f.deleteContextBatch("c1", 1)
		reopen()
		f.equal(fmt.Sprintf("PendingDeletions() after batch %d", i+1), f.pendingDeletions(9), []string{owner + "/c1"})
		f.wantNoContext(owner, "c1")
		f.wantRejected(store.ErrContextClosed, newTask(key("new"), "c1", at(9)))
		f.wantRejected(store.ErrNotFound, changeAt(keys[i], 4, clientMessage(at(9), "m9")))
		f.wantSaveRejected(store.ErrExists, newContext("c1", 9))
		page := f.contexts(store.ContextQuery{Owner: owner, MaxTaskIDs: 9})
		f.equal("Contexts()", page, store.ContextPage{Contexts: []store.Context{want}, Total: 1})
	}
	f.deleteContext("c1", 1, 1)
	reopen()
	f.wantContextGone(owner, "c1", keys)
	f.equal("PendingDeletions()", f.pendingDeletions(9), []string{})
	f.equal("FeedbackSummary()", f.summary(""), store.FeedbackSummary{Ratings: [6]int{0: 2, 4: 2}})
	for _, k := range unrelated {
		f.task(k)
	}
	f.commit(newTask(keys[0], "c1", at(9)))
	reopen()
	f.equal("Context()", f.context(owner, "c1"), implicitContext(owner, "c1", 9, keys[0].ID))
}
