package storetest

import (
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// wantRemovals checks the removals after a position, up to a limit, without their times.
func (f *fixture) wantRemovals(after store.Removal, limit int, want ...string) []store.Removal {
	f.Helper()
	got := suite.Call(f.s.Removals(f.ctx, after, limit)).Must(f, "Removals()")
	names := []string{}
	for _, r := range got {
		names = append(names, fmt.Sprintf("%s in %s at %d", taskName(r.Key), r.ContextID, r.CreatedAt.Sub(at(0)).Milliseconds()))
	}
	f.equal("Removals()", names, append([]string{}, want...))
	return got
}

func taskRemovals(f *fixture) {
	end := func(k store.Key, contextID string, ms int) { f.commit(idleTask(k, contextID, ms, a2a.StateCompleted)) }
	forget := func(removals ...store.Removal) {
		f.Helper()
		suite.Do(f.s.ForgetRemovals(f.ctx, removals)).Must(f, "ForgetRemovals()")
	}
	theirs := store.Key{Owner: otherOwner, ID: "t1"}
	for _, ms := range []int{1, 7} { // the id is used again
		end(key("t1"), fmt.Sprint("c", ms), ms)
		f.deleteTask(key("t1"), false)
	}
	end(key("t2"), "c1", 2)
	end(theirs, "c1", 3)
	f.equal("ExpireTasks()", f.expireTasks(store.TaskExpiry{State: a2a.StateCompleted, Before: at(99), Limit: 9}), 2)
	for i := range 3 {
		f.commit(idleTask(key(fmt.Sprint("u", i)), "c2", 10+i, a2a.StateInputRequired))
	}
	f.deleteContext("c2", 3, 2)
	mine := []string{
		taskName(key("t1")) + " in c1 at 1", taskName(key("t1")) + " in c7 at 7", taskName(key("t2")) + " in c1 at 2",
		taskName(key("u0")) + " in c2 at 10", taskName(key("u1")) + " in c2 at 11", taskName(key("u2")) + " in c2 at 12",
	}
	all := slices.Concat(mine, []string{taskName(theirs) + " in c1 at 3"})
	if otherOwner < owner {
		all = slices.Concat(all[len(mine):], mine)
	}
	removals := f.wantRemovals(store.Removal{}, 9, all...)
	f.wantRemovals(store.Removal{}, 4, all[:4]...)
	f.wantRemovals(removals[3], 9, all[4:]...)
	f.wantRemovals(removals[6], 9)
	forget(removals[1], removals[4])
	forget(removals[1]) // again
	forget()
	left := slices.Concat(all[:1], all[2:4], all[5:])
	f.wantRemovals(store.Removal{}, 9, left...)
	if f.h.Reopen != nil {
		f.s = f.h.Reopen(f, f.s)
	}
	forget(f.wantRemovals(store.Removal{}, 9, left...)...)
	f.wantRemovals(store.Removal{}, 9)
}

func noTaskRemovals(f *fixture) {
	f.commit(newTask(key("queued"), "c1", at(1)))
	f.wantDeleteTaskRejected(store.ErrBusy, key("queued"), true)
	undelivered := idleTask(key("undelivered"), "c1", 1, a2a.StateCompleted)
	undelivered.Webhooks = testWebhooks("p")
	f.commit(undelivered)
	f.wantDeleteTaskRejected(store.ErrUndelivered, key("undelivered"), false)
	f.equal("ExpireTasks()", f.expireTasks(store.TaskExpiry{State: a2a.StateCompleted, Before: at(99), Limit: 9}), 0)
	f.wantDeleteContextRejected(store.ErrBusy, owner, "c1")
	f.wantRemovals(store.Removal{}, 9)
}
