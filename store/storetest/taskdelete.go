package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func taskDeleteTests() []test {
	return []test{
		{"nothing is left of a deleted task", deleteTaskWhole},
		{"deleting a task leaves the others of its context alone", deleteTaskAmong},
		{"a task that is not over is not deleted", deleteTaskUnfinished},
		{"a task with undelivered events is deleted only by force", deleteTaskUndelivered},
		{"a lane of a deleted task is lost to its worker", deleteTaskLeased},
		{"a task with a deleted task's id starts afresh", deleteTaskAfresh},
		{"a task with much content is gone at once", deleteTaskLarge},
		{"a task with many dead letters is deleted", deleteTaskLetters},
		{"a task of a context that is being deleted can be deleted", deleteTaskOfPending},
		{"no content of a deleted task is left after a restart", deleteTaskReopened},
	}
}

// finished makes a completed task that has everything a task may have, its events delivered to
// its webhook p and dead letters of q. Everything is named for the task.
func (f *fixture) finished(k store.Key, contextID string, ms int) {
	f.Helper()
	c := idempotent(newTask(k, contextID, at(ms)), "create "+k.ID, at(ms))
	c.Push = newHooks("p", "q")
	for i := range c.Push {
		c.Push[i].Endpoint = endpoint + k.ID
	}
	c.Steps = []store.Step{step(1, "step", "result")}
	f.commit(c)
	end := idempotent(next(k, 1, chunk(at(ms), "a", "text", false), said(at(ms), a2a.StateCompleted, "m2")), "end "+k.ID, at(ms))
	end.Run = idle()
	f.commit(end)
	f.feedback(store.Feedback{Key: k, ID: "f", Rating: 4, CreatedAt: at(ms)})
	f.ackAll(k, ms)
}

// ackAll delivers what is due of a task: webhook p gets its events, those of q become dead letters.
func (f *fixture) ackAll(k store.Key, ms int) {
	f.Helper()
	for _, l := range f.claimLanes(laneClaim(worker, ms+1000, 99)) {
		if l.Config.Task != k {
			continue
		}
		ack := noted(l, len(l.Events), ms)
		if l.Config.ID == "p" {
			ack.Dead, ack.Delivered = nil, len(l.Events)
		}
		f.ack(ack)
	}
}

// goneTask checks that nothing is to be found of a task made by finished.
func (f *fixture) goneTask(k store.Key) {
	f.Helper()
	f.absent(k)
	f.noRecord(k.Owner, "create "+k.ID)
	f.noRecord(k.Owner, "end "+k.ID)
	f.equal("Feedback()", f.feedbackOn(k), []store.Feedback{})
	f.equal("Steps()", f.steps(k, 1), []store.Step{})
	f.noLane(k, "p")
	f.noLane(k, "q")
	versions, err := f.s.Versions(f.ctx, []store.Key{k})
	if err != nil || len(versions) != 0 {
		f.Errorf("Versions() of a deleted task = %v, %v, want none", versions, err)
	}
}

// deleteTask deletes a task, and then what it leaves behind.
func (f *fixture) deleteTask(k store.Key, force bool) {
	f.Helper()
	if _, err := f.s.DeleteTask(f.ctx, k, force); err != nil {
		f.Fatalf("DeleteTask(%s) = %v, want it deleted", name(k), err)
	}
	f.purge()
}

func (f *fixture) purge() (calls int) {
	f.Helper()
	for range 1000 {
		more, err := f.s.PurgeDeleted(f.ctx)
		if err != nil {
			f.Fatalf("PurgeDeleted() = %v, want nil", err)
		}
		if calls++; !more {
			return calls
		}
	}
	f.Fatalf("PurgeDeleted() does not end")
	return calls
}

// keptTask checks that a deletion is rejected and changes nothing.
func (f *fixture) keptTask(want error, k store.Key, force bool) {
	f.Helper()
	task, err := f.s.Task(f.ctx, k, store.TaskOptions{})
	if err != nil && !errors.Is(want, store.ErrNotFound) {
		f.Fatalf("Task(%s) = %v, want a task", name(k), err)
	}
	contexts := f.contexts(store.ContextQuery{Owner: k.Owner})
	lanes := f.lanes(store.LaneQuery{})
	if more, err := f.s.DeleteTask(f.ctx, k, force); !errors.Is(err, want) || more {
		f.Errorf("DeleteTask(%s, %t) = %t, %v, want %v", name(k), force, more, err, want)
	}
	if err == nil {
		f.equal("Task() after a rejected deletion", f.task(k), task)
	}
	f.equal("Contexts() after a rejected deletion", f.contexts(store.ContextQuery{Owner: k.Owner}), contexts)
	f.equal("Lanes() after a rejected deletion", f.lanes(store.LaneQuery{}), lanes)
}

func deleteTaskWhole(f *fixture) {
	k := key("t1")
	f.finished(k, "c1", 1)
	f.deleteTask(k, false)
	f.goneTask(k)
	f.equal("Tasks()", f.list(store.Query{Owner: owner, Limit: 9, Total: true}), store.Page{})
	f.equal("FeedbackSummary()", f.summary(owner), store.FeedbackSummary{})
	f.equal("FeedbackSummary() over all", f.summary(""), store.FeedbackSummary{})
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{})
	f.equal("Backlog()", f.backlog(), store.Backlog{})
	f.equal("Context()", f.context(owner, "c1"), born(owner, "c1", 1))
	f.keptTask(store.ErrNotFound, k, false)
	f.keptTask(store.ErrNotFound, key("T1"), true)
	if err := f.s.AddFeedback(f.ctx, store.Feedback{Key: k, ID: "h", CreatedAt: at(9)}); !errors.Is(err, store.ErrNotFound) {
		f.Errorf("AddFeedback() on a deleted task = %v, want ErrNotFound", err)
	}
	f.refused(store.ErrNotFound, next(k, 3, status(at(9), a2a.StateWorking)))
}

func deleteTaskAmong(f *fixture) {
	for i := range 3 {
		f.finished(key(fmt.Sprint("t", i)), "c1", i)
	}
	theirs := store.Key{Owner: other, ID: "t1"}
	f.finished(theirs, "c1", 1)
	f.keptTask(store.ErrNotFound, store.Key{Owner: "did:example:eve", ID: "t1"}, true)
	before := f.task(theirs)
	for n, id := range []string{"t1", "t0", "t2"} { // t0 is the first task of the context
		f.deleteTask(key(id), false)
		f.goneTask(key(id))
		left := map[int][]string{0: {"t0", "t2"}, 1: {"t2"}, 2: nil}[n]
		want := born(owner, "c1", 0, left...)
		want.UpdatedAt = at(2)
		f.equal("Context()", f.context(owner, "c1"), want)
		for _, q := range orders(store.Query{Owner: owner, ContextID: "c1", Limit: 9, Total: true}) {
			if page := f.list(q); len(page.Tasks) != len(left) || page.Total != len(left) {
				f.Errorf("Tasks(%+v) = %v of %d, want %v", q, ids(page.Tasks), page.Total, left)
			}
		}
		for _, id := range left {
			f.record(owner, "create "+id)
			f.lane(key(id), "p")
			f.equal("Feedback()", len(f.feedbackOn(key(id))), 1)
			f.equal("len of Events()", len(f.events(key(id))), 3)
		}
		f.equal("FeedbackSummary()", f.summary(owner), store.FeedbackSummary{Ratings: [6]int{4: len(left)}})
		f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{Dead: 3 * (len(left) + 1)})
	}
	f.equal("Task() of the other", f.task(theirs), before)
	f.finished(key("t4"), "c1", 9)
	f.equal("TaskIDs", f.context(owner, "c1").TaskIDs, []string{"t4"})
}

func deleteTaskUnfinished(f *fixture) {
	for i, s := range a2a.States() {
		k := key(fmt.Sprint("t", i))
		f.commit(idleTask(k, "c1", i, s))
		if s.Terminal() {
			f.deleteTask(k, false)
			f.absent(k)
		} else {
			f.keptTask(store.ErrBusy, k, false)
			f.keptTask(store.ErrBusy, k, true)
		}
	}
	k := key("queued")
	f.commit(newTask(k, "c2", at(0)))
	f.keptTask(store.ErrBusy, k, true)
	f.claim(claimAt(worker, at(1), 1))
	f.keptTask(store.ErrBusy, k, true)
	f.equal("Backlog()", f.backlog(), store.Backlog{Leased: 1})
}

func deleteTaskUndelivered(f *fixture) {
	k := key("t1")
	c := idleTask(k, "c1", 0, a2a.StateCompleted)
	c.Push = newHooks("p", "q")
	f.commit(c)
	for _, ms := range []int{1000, 2000} { // one lane after the other
		f.keptTask(store.ErrUndelivered, k, false)
		lanes := f.claimLanes(laneClaim(worker, ms, 1))
		if len(lanes) != 1 {
			f.Fatalf("ClaimLanes() = %d lanes, want one", len(lanes))
		}
		l := lanes[0]
		f.ack(delivered(l, len(l.Events), ms))
	}
	f.replay(k, "p", place(0), 3000)
	f.keptTask(store.ErrUndelivered, k, false)
	f.deleteTask(k, true)
	f.absent(k)
	f.noLane(k, "p")
	f.notDue(1 << 30)
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{})
}

func deleteTaskLeased(f *fixture) {
	k := key("t1")
	c := idleTask(k, "c1", 0, a2a.StateCompleted)
	c.Push = newHooks("p", "gone")
	f.commit(c)
	lanes := f.claimLanes(laneClaim(worker, 1000, 9))
	f.deletePush(k, "gone", 1001, true)
	f.deleteTask(k, true)
	for _, l := range lanes {
		f.fenced(l, 1002)
	}
	f.undeletable(k, "p", 1003)
}

func deleteTaskAfresh(f *fixture) {
	k := key("t1")
	for round := range 3 {
		f.finished(k, "c1", 10*round)
		f.deleteTask(k, false)
		f.goneTask(k)
	}
	again := newTask(k, "c2", at(50))
	again.Push = newHooks("p")
	if seq := f.commit(again); seq != 1 {
		f.Errorf("Commit() of a task that was deleted = version %d, want 1", seq)
	}
	f.equal("Task()", f.task(k), fold(k, "c2", *queued(), again.Events...))
	f.equal("Lanes()", f.lane(k, "p"), newLane(committedHook(k, "p", 50), place(0), 1, 50))
	f.equal("PushAttempts()", f.attempts(store.PushQuery{Owner: owner, TaskID: k.ID}), []store.PushAttempt{})
}

// large makes a completed task whose content takes several transactions to remove, by its
// bytes or by its rows.
func (f *fixture) large(k store.Key, contextID string) {
	f.Helper()
	f.commit(idempotent(newTask(k, contextID, at(0)), "create "+k.ID, at(0)))
	text := strings.Repeat("x", store.DeleteBytes/3)
	for i := range int64(4) {
		c := next(k, 1+i, chunk(at(1), "a", fmt.Sprint(i, text), true)) // none is stored once for several
		c.Steps = []store.Step{{Turn: 1, Name: fmt.Sprint(i), Result: []byte(text[:store.DeleteBytes/3])}}
		f.commit(c)
	}
	end := idempotent(next(k, 5, status(at(2), a2a.StateCompleted)), "end "+k.ID, at(2))
	end.Run = idle()
	f.commit(end)
}

func deleteTaskLarge(f *fixture) {
	k := key("t1")
	f.large(k, "c1")
	f.finished(key("beside"), "c1", 5)
	beside := f.task(key("beside"))
	if _, err := f.s.DeleteTask(f.ctx, k, false); err != nil {
		f.Fatalf("DeleteTask() = %v, want it deleted", err)
	}
	f.absent(k)
	f.equal("Steps()", f.steps(k, 1), []store.Step{})
	f.equal("TaskCount", f.context(owner, "c1").TaskCount, 1)
	f.keptTask(store.ErrNotFound, k, true)
	again := newTask(k, "c1", at(9))
	again.Steps = []store.Step{step(1, "0", "result")}
	f.commit(again)
	f.purge()
	f.equal("Task()", f.task(k), fold(k, "c1", *queued(), again.Events...))
	f.equal("Events()", f.events(k), numbered(again.Events))
	f.equal("Steps()", f.steps(k, 1), again.Steps)
	f.equal("Task() beside", f.task(key("beside")), beside)
	f.noRecord(owner, "create t1")
	f.noRecord(owner, "end t1")
}

func deleteTaskLetters(f *fixture) {
	const batch = 100
	k, n := key("t1"), store.DeleteRows/2+batch
	f.hooked(k, 1, "p")
	end := next(k, 1, status(at(1), a2a.StateCompleted))
	f.commit(end)
	for ms := 0; ms < n; ms += batch {
		l := f.claimLane(worker, 1000+ms)
		ack := delivered(l, 0, 1000+ms)
		for i := range batch {
			// Attempts that are a minute apart do not share a row.
			ack.Attempts = append(ack.Attempts, attempt(k, "p", 1, 1, (ms+i)*61_000))
			d := letter(k, "p", int64(ms+i), ms+i)
			d.Seq = int64(ms + i + 1)
			ack.Dead = append(ack.Dead, d)
		}
		f.ack(ack)
	}
	f.keptTask(store.ErrUndelivered, k, false)
	f.deleteTask(k, true)
	f.absent(k)
	f.noLane(k, "p")
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{})
}

func deleteTaskOfPending(f *fixture) {
	for i := range 3 {
		f.finished(key(fmt.Sprint("t", i)), "c1", i)
	}
	f.batch("c1", 1)
	for i := range 3 {
		k := key(fmt.Sprint("t", i))
		if _, err := f.s.DeleteTask(f.ctx, k, false); err != nil && !errors.Is(err, store.ErrNotFound) {
			f.Errorf("DeleteTask(%s) = %v, want it deleted", name(k), err)
		}
		f.goneTask(k)
	}
	f.remove("c1", 3, 9)
	f.noContext(owner, "c1")
	f.equal("PendingDeletions()", f.pendingDeletions(9), []string{})
}

func deleteTaskReopened(f *fixture) {
	if f.h.Reopen == nil {
		return
	}
	k := key("t1")
	f.large(k, "c1")
	if more, err := f.s.DeleteTask(f.ctx, k, false); err != nil || !more {
		f.Fatalf("DeleteTask() of a large task = %t, %v, want content left to remove", more, err)
	}
	f.s = f.h.Reopen(f, f.s)
	f.absent(k)
	// A number of the task, if the store gives it one, is not given to another.
	again := newTask(key("t2"), "c1", at(9))
	f.commit(again)
	f.purge()
	f.equal("Events()", f.events(key("t2")), numbered(again.Events))
	f.equal("Steps()", f.steps(key("t2"), 1), []store.Step{})
}

func taskExpireTests() []test {
	return []test{
		{"tasks expire by their state and its time", expireByState},
		{"unfinished tasks and those with undelivered events do not expire", expireSpares},
		{"all owners are visited, by any number of tasks", expireOwners},
	}
}

// expire removes old tasks to the end and returns how many it removed.
func (f *fixture) expire(p store.TaskExpiry) (total int) {
	f.Helper()
	for range 1000 {
		n, next, err := f.s.ExpireTasks(f.ctx, p)
		if err != nil {
			f.Fatalf("ExpireTasks(%+v) = %v, want nil", p, err)
		}
		if n > p.Limit {
			f.Errorf("ExpireTasks() of at most %d tasks removed %d", p.Limit, n)
		}
		total += n
		if p.After = next; next == nil {
			f.purge()
			return total
		}
	}
	f.Fatalf("ExpireTasks() does not end")
	return total
}

func expireByState(f *fixture) {
	states := []a2a.TaskState{a2a.StateCompleted, a2a.StateFailed, a2a.StateCanceled, a2a.StateRejected}
	for i, s := range states {
		for ms := range 3 {
			f.commit(idleTask(key(fmt.Sprint(s, ms)), fmt.Sprint("c", ms), i+ms*10, s))
		}
	}
	f.equal("removed", f.expire(store.TaskExpiry{State: a2a.StateFailed, Before: at(1), Limit: 9}), 0)
	f.equal("removed", f.expire(store.TaskExpiry{State: a2a.StateFailed, Before: at(11).Add(time.Microsecond), Limit: 9}), 2)
	f.absent(key("failed0"))
	f.absent(key("failed1"))
	f.equal("left", ids(f.list(store.Query{Owner: owner, Limit: 99, ByCreated: true, Ascending: true, States: []a2a.TaskState{a2a.StateFailed}}).Tasks), []string{"failed2"})
	f.equal("Total", f.list(store.Query{Owner: owner, Limit: 1, Total: true}).Total, 10)
	f.equal("TaskCount", f.context(owner, "c0").TaskCount, 3)
	f.equal("removed", f.expire(store.TaskExpiry{State: a2a.StateCompleted, Before: at(99), Limit: 9}), 3)
	f.equal("Total", f.list(store.Query{Owner: owner, Limit: 1, Total: true}).Total, 7)
}

func expireSpares(f *fixture) {
	for i, s := range a2a.States() {
		if !s.Terminal() {
			f.commit(idleTask(key(fmt.Sprint("t", i)), "c1", i, s))
		}
	}
	f.finished(key("delivered"), "c1", 0)
	pending := idleTask(key("pending"), "c1", 1, a2a.StateCompleted)
	pending.Push = newHooks("p")
	f.commit(pending)
	before := f.list(store.Query{Owner: owner, Limit: 99}).Tasks
	for _, limit := range []int{1, 9} {
		for _, s := range a2a.States() {
			if s.Terminal() {
				f.expire(store.TaskExpiry{State: s, Before: at(1 << 40), Limit: limit})
			}
		}
	}
	f.goneTask(key("delivered"))
	f.equal("left", len(f.list(store.Query{Owner: owner, Limit: 99}).Tasks), len(before)-1)
	f.lane(key("pending"), "p")
	l := f.claimLane(worker, 5000)
	f.ack(delivered(l, len(l.Events), 5000))
	f.equal("removed", f.expire(store.TaskExpiry{State: a2a.StateCompleted, Before: at(1 << 40), Limit: 1}), 1)
	f.absent(key("pending"))
}

func expireOwners(f *fixture) {
	for _, limit := range []int{1, 2, 3, 100} {
		want := 0
		for o := range 4 {
			for i := range o + 1 {
				k := store.Key{Owner: fmt.Sprint("owner-", o), ID: fmt.Sprint(limit, "-", i)}
				f.commit(idleTask(k, fmt.Sprint("c", i%2), i/2, a2a.StateCompleted), idleTask(store.Key{Owner: k.Owner, ID: k.ID + "new"}, "c1", 100, a2a.StateCompleted))
				want++
			}
		}
		f.equal("removed", f.expire(store.TaskExpiry{State: a2a.StateCompleted, Before: at(50), Limit: limit}), want)
	}
	for o := range 4 {
		page := f.list(store.Query{Owner: fmt.Sprint("owner-", o), Limit: 99})
		f.equal("left", len(page.Tasks), 4*(o+1))
		for _, t := range page.Tasks {
			f.equal("Timestamp", t.Status.Timestamp, at(100))
		}
	}
}
