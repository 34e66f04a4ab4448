package storetest

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func durableContexts(f *fixture, reopen func()) {
	f.rich(owner, "c1", 3)
	f.rich(other, "c1", 1)
	child := newContext("child", 4)
	child.Context.ParentID = "c1"
	f.saved(as(f.saved(child), a2a.ContextArchived))
	f.commit(newTask(key("t"), "born", at(9)))
	all := f.circle(20)
	type kept struct {
		Pages    []store.ContextPage
		Read     []store.Context
		Feedback []store.Feedback
		Counts   [2]store.FeedbackSummary
		Records  []store.IdempotencyRecord
	}
	read := func() kept {
		f.Helper()
		k := kept{Counts: [2]store.FeedbackSummary{f.summary(owner), f.summary("")}}
		for _, sort := range contextSorts {
			k.Pages = append(k.Pages, f.contexts(store.ContextQuery{Owner: owner, Sort: sort, Limit: 7, Tasks: 2}))
		}
		k.Pages = append(k.Pages, f.contexts(store.ContextQuery{Owner: owner, Tags: []string{"x"}, Role: "analyst"}))
		for _, id := range []string{"c1", "child", "born", all[3].Key.ID} {
			k.Read = append(k.Read, f.context(owner, id))
		}
		k.Feedback = f.pagedFeedback(store.FeedbackQuery{Owner: owner, Limit: 4})
		k.Records = append(k.Records, f.record(owner, "context c1"), f.record(other, "context c1"))
		return k
	}
	before := read()
	for range 2 {
		reopen()
		f.equal("contexts and feedback", read(), before)
	}
	f.refused(store.ErrContextClosed, newTask(key("new"), "child", at(9)))
	f.unsaved(store.ErrConflict, store.ContextChange{Context: described(owner, "child", 9), Version: 1})
	f.unsaved(store.ErrParentCycle, within(before.Read[0], "child"))
	f.saved(within(before.Read[1], "born"))
}

func durableDelete(f *fixture, reopen func()) {
	keys, beside := f.rich(owner, "c1", 4), f.rich(owner, "c2", 2)
	want := f.context(owner, "c2")
	for i := range 3 {
		f.batch("c1", 1)
		reopen()
		f.equal(fmt.Sprintf("PendingDeletions() after batch %d", i+1), f.pendingDeletions(9), []string{owner + "/c1"})
		f.noContext(owner, "c1")
		f.refused(store.ErrContextClosed, newTask(key("new"), "c1", at(9)))
		f.refused(store.ErrNotFound, next(keys[i], 4, received(at(9), "m9")))
		f.unsaved(store.ErrExists, newContext("c1", 9))
		page := f.contexts(store.ContextQuery{Owner: owner, Tasks: 9})
		f.equal("Contexts()", page, store.ContextPage{Contexts: []store.Context{want}, Total: 1})
	}
	f.remove("c1", 1, 1)
	reopen()
	f.gone(owner, "c1", keys)
	f.equal("PendingDeletions()", f.pendingDeletions(9), []string{})
	f.equal("FeedbackSummary()", f.summary(""), store.FeedbackSummary{Ratings: [6]int{0: 2, 4: 2}})
	for _, k := range beside {
		f.task(k)
	}
	f.commit(newTask(keys[0], "c1", at(9)))
	reopen()
	f.equal("Context()", f.context(owner, "c1"), born(owner, "c1", 9, keys[0].ID))
}
