package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var taskDeleteTests = []test{
	{"nothing is left of a deleted task", deleteTaskEverything},
	{"deleting a task does not affect other tasks of its context", deleteTaskKeepsOthers},
	{"an unfinished task is not deleted", deleteTaskUnfinished},
	{"a task with undelivered events is deleted only with force", deleteTaskUndelivered},
	{"workers lose the lanes of a deleted task", deleteTaskLeased},
	{"a task with the id of a deleted one is new", deleteTaskThenRecreate},
	{"a task with much content is removed from reads at once", deleteTaskLarge},
	{"a task with many dead letters is deleted", deleteTaskLetters},
	{"a task of a context pending deletion can be deleted", deleteTaskOfPending},
	{"no content of a deleted task is left after a restart", deleteTaskReopened},
	{"a removed task has a removal until it is forgotten", taskRemovals},
	{"a task that is not removed has no removal", noTaskRemovals},
}

// createFullTask creates a completed task with all kinds of related objects. The events of its
// webhook p are delivered, and the events of q are dead letters. The names of the objects
// contain the id of the task.
func (f *fixture) createFullTask(k store.Key, contextID string, ms int) {
	f.Helper()
	c := withKey(newTask(k, contextID, at(ms)), "create "+k.ID, at(ms))
	c.Webhooks = testWebhooks("p", "q")
	for i := range c.Webhooks {
		c.Webhooks[i].Endpoint = endpoint + k.ID
	}
	c.Steps = []store.Step{step(1, "step", "result")}
	f.commit(c)
	end := withKey(changeAt(k, 1, chunkEvent(at(ms), "a", "text", false), agentMessage(at(ms), a2a.StateCompleted, "m2")), "end "+k.ID, at(ms))
	end.Queue = idle()
	f.commit(end)
	f.addFeedback(store.Feedback{Key: k, ID: "f", Rating: 4, CreatedAt: at(ms)})
	f.deliverTask(k, ms)
}

// deliverTask processes the due lanes of a task. The events of webhook p are delivered, and
// the events of q become dead letters.
func (f *fixture) deliverTask(k store.Key, ms int) {
	f.Helper()
	for _, l := range f.claimLanes(laneClaim(worker, ms+1000, 99)) {
		if l.Webhook.Task != k {
			continue
		}
		ack := ackDeadLetters(l, len(l.Events), ms)
		if l.Webhook.ID == "p" {
			ack.Dead, ack.Delivered = nil, len(l.Events)
		}
		f.ack(ack)
	}
}

// wantTaskGone checks that no read finds anything of a task made by createFullTask.
func (f *fixture) wantTaskGone(k store.Key) {
	f.Helper()
	f.wantNoTask(k)
	f.wantNoRecord(k.Owner, "create "+k.ID)
	f.wantNoRecord(k.Owner, "end "+k.ID)
	f.equal("Feedback()", f.feedbackOf(k), []store.Feedback{})
	f.equal("Steps()", f.steps(k, 1), []store.Step{})
	f.wantNoLane(k, "p")
	f.wantNoLane(k, "q")
	versions, err := f.s.Versions(f.ctx, []store.Key{k})
	if err != nil || len(versions) != 0 {
		f.Errorf("Versions() of a deleted task = %v, %v, want none", versions, err)
	}
}

// deleteTask deletes a task and purges its content.
func (f *fixture) deleteTask(k store.Key, force bool) {
	f.Helper()
	suite.Call(f.s.DeleteTask(f.ctx, k, force)).Must(f, "DeleteTask(%s)", taskName(k))
	f.purge()
}

func (f *fixture) purge() (calls int) {
	f.Helper()
	for range 1000 {
		more := suite.Call(f.s.PurgeDeleted(f.ctx)).Must(f, "PurgeDeleted()")
		if calls++; !more {
			return calls
		}
	}
	f.Fatalf("PurgeDeleted() reports more after 1000 calls")
	return calls
}

// wantDeleteTaskRejected checks that a deletion fails with an error and has no effect.
func (f *fixture) wantDeleteTaskRejected(want error, k store.Key, force bool) {
	f.Helper()
	task, err := f.s.Task(f.ctx, k, store.TaskOptions{})
	if err != nil && !errors.Is(want, store.ErrNotFound) {
		f.Fatalf("Task(%s) = %v, want a task", taskName(k), err)
	}
	contexts := f.contexts(store.ContextQuery{Owner: k.Owner})
	lanes := f.lanes(store.LaneQuery{})
	if more, err := f.s.DeleteTask(f.ctx, k, force); !errors.Is(err, want) || a2a.CodeOf(err) == a2a.CodeUnavailable || more {
		f.Errorf("DeleteTask(%s, %t) = %t, %v, want %v without a code", taskName(k), force, more, err, want)
	}
	if err == nil {
		f.equal("Task() after a rejected deletion", f.task(k), task)
	}
	f.equal("Contexts() after a rejected deletion", f.contexts(store.ContextQuery{Owner: k.Owner}), contexts)
	f.equal("Lanes() after a rejected deletion", f.lanes(store.LaneQuery{}), lanes)
}

func deleteTaskEverything(f *fixture) {
	k := key("t1")
	f.createFullTask(k, "c1", 1)
	f.deleteTask(k, false)
	f.wantTaskGone(k)
	f.equal("Tasks()", f.list(store.Query{Owner: owner, Limit: 9, Total: true}), store.Page{})
	f.equal("FeedbackSummary()", f.summary(owner), store.FeedbackSummary{})
	f.equal("FeedbackSummary() of all owners", f.summary(""), store.FeedbackSummary{})
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{})
	f.equal("Backlog()", f.backlog(), store.Backlog{})
	f.equal("Context()", f.context(owner, "c1"), implicitContext(owner, "c1", 1))
	f.wantDeleteTaskRejected(store.ErrNotFound, k, false)
	f.wantDeleteTaskRejected(store.ErrNotFound, key("T1"), true)
	suite.Do(f.s.AddFeedback(f.ctx, store.Feedback{Key: k, ID: "h", CreatedAt: at(9)})).Fails(f, store.ErrNotFound, "AddFeedback() on a deleted task")
	f.wantRejected(store.ErrNotFound, changeAt(k, 3, statusEvent(at(9), a2a.StateWorking)))
}

func deleteTaskKeepsOthers(f *fixture) {
	for i := range 3 {
		f.createFullTask(key(fmt.Sprint("t", i)), "c1", i)
	}
	theirs := store.Key{Owner: otherOwner, ID: "t1"}
	f.createFullTask(theirs, "c1", 1)
	f.wantDeleteTaskRejected(store.ErrNotFound, store.Key{Owner: "did:example:eve", ID: "t1"}, true)
	before := f.task(theirs)
	for n, id := range []string{"t1", "t0", "t2"} { // t0 is the first task of the context
		f.deleteTask(key(id), false)
		f.wantTaskGone(key(id))
		left := map[int][]string{0: {"t0", "t2"}, 1: {"t2"}, 2: nil}[n]
		want := implicitContext(owner, "c1", 0, left...)
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
			f.equal("Feedback()", len(f.feedbackOf(key(id))), 1)
			f.equal("number of Events()", len(f.events(key(id))), 3)
		}
		f.equal("FeedbackSummary()", f.summary(owner), store.FeedbackSummary{Ratings: [6]int{4: len(left)}})
		f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{Dead: 3 * (len(left) + 1)})
	}
	f.equal("Task() of the other owner", f.task(theirs), before)
	f.createFullTask(key("t4"), "c1", 9)
	f.equal("Context().TaskIDs", f.context(owner, "c1").TaskIDs, []string{"t4"})
}

func deleteTaskUnfinished(f *fixture) {
	for i, s := range a2a.States() {
		k := key(fmt.Sprint("t", i))
		f.commit(idleTask(k, "c1", i, s))
		if s.Terminal() {
			f.deleteTask(k, false)
			f.wantNoTask(k)
		} else {
			f.wantDeleteTaskRejected(store.ErrBusy, k, false)
			f.wantDeleteTaskRejected(store.ErrBusy, k, true)
		}
	}
	k := key("queued")
	f.commit(newTask(k, "c2", at(0)))
	f.wantDeleteTaskRejected(store.ErrBusy, k, true)
	f.claim(claimAt(worker, at(1), 1))
	f.wantDeleteTaskRejected(store.ErrBusy, k, true)
	f.equal("Backlog()", f.backlog(), store.Backlog{Leased: 1})
}

func deleteTaskUndelivered(f *fixture) {
	k := key("t1")
	c := idleTask(k, "c1", 0, a2a.StateCompleted)
	c.Webhooks = testWebhooks("p", "q")
	f.commit(c)
	for _, ms := range []int{1000, 2000} { // one lane after the other
		f.wantDeleteTaskRejected(store.ErrUndelivered, k, false)
		lanes := suite.Len(f, f.claimLanes(laneClaim(worker, ms, 1)), 1, "ClaimLanes()")
		l := lanes[0]
		f.ack(ackDelivered(l, len(l.Events), ms))
	}
	f.replay(k, "p", cursorAt(0), 3000)
	f.wantDeleteTaskRejected(store.ErrUndelivered, k, false)
	f.deleteTask(k, true)
	f.wantNoTask(k)
	f.wantNoLane(k, "p")
	f.wantNoDueLane(1 << 30)
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{})
}

func deleteTaskLeased(f *fixture) {
	k := key("t1")
	c := idleTask(k, "c1", 0, a2a.StateCompleted)
	c.Webhooks = testWebhooks("p", "deleted")
	f.commit(c)
	lanes := f.claimLanes(laneClaim(worker, 1000, 9))
	f.deleteWebhook(k, "deleted", 1001, true)
	f.deleteTask(k, true)
	for _, l := range lanes {
		f.wantLeaseLost(l, 1002)
	}
	f.wantNoWebhook(k, "p", 1003)
}

func deleteTaskThenRecreate(f *fixture) {
	k := key("t1")
	for round := range 3 {
		f.createFullTask(k, "c1", 10*round)
		f.deleteTask(k, false)
		f.wantTaskGone(k)
	}
	again := newTask(k, "c2", at(50))
	again.Webhooks = testWebhooks("p")
	suite.Equal(f, f.commit(again), 1, "version of Commit() of a recreated task")
	f.equal("Task()", f.task(k), fold(k, "c2", *queued(), again.Events...))
	f.equal("Lanes()", f.lane(k, "p"), newLane(committedWebhook(k, "p", 50), cursorAt(0), 1, 50))
	f.equal("DeliveryAttempts()", f.deliveryAttempts(store.WebhookQuery{Owner: owner, TaskID: k.ID}), []store.DeliveryAttempt{})
}

// createLargeTask creates a completed task with content that takes several transactions to remove.
func (f *fixture) createLargeTask(k store.Key, contextID string) {
	f.Helper()
	f.commit(withKey(newTask(k, contextID, at(0)), "create "+k.ID, at(0)))
	text := strings.Repeat("x", store.DeleteBytes/3)
	for i := range int64(4) {
		c := changeAt(k, 1+i, chunkEvent(at(1), "a", fmt.Sprint(i, text), true)) // different, so that a store cannot share it
		c.Steps = []store.Step{{Turn: 1, Name: fmt.Sprint(i), Result: []byte(text[:store.DeleteBytes/3])}}
		f.commit(c)
	}
	end := withKey(changeAt(k, 5, statusEvent(at(2), a2a.StateCompleted)), "end "+k.ID, at(2))
	end.Queue = idle()
	f.commit(end)
}

func deleteTaskLarge(f *fixture) {
	k := key("t1")
	f.createLargeTask(k, "c1")
	f.createFullTask(key("unrelated"), "c1", 5)
	unrelated := f.task(key("unrelated"))
	suite.Call(f.s.DeleteTask(f.ctx, k, false)).Must(f, "DeleteTask()")
	f.wantNoTask(k)
	f.equal("Steps()", f.steps(k, 1), []store.Step{})
	f.equal("Context().TaskCount", f.context(owner, "c1").TaskCount, 1)
	f.wantDeleteTaskRejected(store.ErrNotFound, k, true)
	again := newTask(k, "c1", at(9))
	again.Steps = []store.Step{step(1, "0", "result")}
	f.commit(again)
	f.purge()
	f.equal("Task()", f.task(k), fold(k, "c1", *queued(), again.Events...))
	f.equal("Events()", f.events(k), withSeqs(again.Events))
	f.equal("Steps()", f.steps(k, 1), again.Steps)
	f.equal("Task() of another task", f.task(key("unrelated")), unrelated)
	f.wantNoRecord(owner, "create t1")
	f.wantNoRecord(owner, "end t1")
}

func deleteTaskLetters(f *fixture) {
	const batch = 100
	k, n := key("t1"), store.DeleteRows/2+batch
	f.createTaskWithWebhooks(k, 1, "p")
	end := changeAt(k, 1, statusEvent(at(1), a2a.StateCompleted))
	f.commit(end)
	for ms := 0; ms < n; ms += batch {
		l := f.claimLane(worker, 1000+ms)
		ack := ackDelivered(l, 0, 1000+ms)
		for i := range batch {
			// A minute apart, so that a store cannot keep several attempts in one row.
			ack.Attempts = append(ack.Attempts, deliveryAttempt(k, "p", 1, 1, (ms+i)*61_000))
			d := deadLetter(k, "p", int64(ms+i), ms+i)
			d.Seq = int64(ms + i + 1)
			ack.Dead = append(ack.Dead, d)
		}
		f.ack(ack)
	}
	f.wantDeleteTaskRejected(store.ErrUndelivered, k, false)
	f.deleteTask(k, true)
	f.wantNoTask(k)
	f.wantNoLane(k, "p")
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{})
}

func deleteTaskOfPending(f *fixture) {
	for i := range 3 {
		f.createFullTask(key(fmt.Sprint("t", i)), "c1", i)
	}
	f.deleteContextBatch("c1", 1)
	for i := range 3 {
		k := key(fmt.Sprint("t", i))
		suite.Do(suite.Err(f.s.DeleteTask(f.ctx, k, false))).MayFail(f, store.ErrNotFound, "DeleteTask(%s)", taskName(k))
		f.wantTaskGone(k)
	}
	f.deleteContext("c1", 3, 9)
	f.wantNoContext(owner, "c1")
	f.equal("PendingDeletions()", f.pendingDeletions(9), []string{})
}

func deleteTaskReopened(f *fixture) {
	if f.h.Reopen == nil {
		return
	}
	k := key("t1")
	f.createLargeTask(k, "c1")
	if more, err := f.s.DeleteTask(f.ctx, k, false); err != nil || !more {
		f.Fatalf("DeleteTask() of a large task = %t, %v, want more", more, err)
	}
	f.s = f.h.Reopen(f, f.s)
	f.wantNoTask(k)
	// If the store numbers tasks, it must not use the number of the removed task again.
	again := newTask(key("t2"), "c1", at(9))
	f.commit(again)
	f.purge()
	f.equal("Events()", f.events(key("t2")), withSeqs(again.Events))
	f.equal("Steps()", f.steps(key("t2"), 1), []store.Step{})
}

var taskExpireTests = []test{
	{"tasks expire by state and status time", expireByState},
	{"unfinished tasks and those with undelivered events do not expire", expireKeepsUnfinished},
	{"the tasks of all owners are checked, in batches of any size", expireAllOwners},
}

// expireTasks calls ExpireTasks until it is complete, purges, and returns the number of removed
// tasks.
func (f *fixture) expireTasks(p store.TaskExpiry) (total int) {
	f.Helper()
	for range 1000 {
		n, next, err := f.s.ExpireTasks(f.ctx, p)
		if err != nil {
			f.Fatalf("ExpireTasks(%+v) = %v, want nil", p, err)
		}
		if n > p.Limit {
			f.Errorf("ExpireTasks() with limit %d removed %d", p.Limit, n)
		}
		total += n
		if p.After = next; next == nil {
			f.purge()
			return total
		}
	}
	f.Fatalf("ExpireTasks() returns a next after 1000 calls")
	return total
}

func expireByState(f *fixture) {
	states := []a2a.TaskState{a2a.StateCompleted, a2a.StateFailed, a2a.StateCanceled, a2a.StateRejected}
	for i, s := range states {
		for ms := range 3 {
			f.commit(idleTask(key(fmt.Sprint(s, ms)), fmt.Sprint("c", ms), i+ms*10, s))
		}
	}
	f.equal("ExpireTasks()", f.expireTasks(store.TaskExpiry{State: a2a.StateFailed, Before: at(1), Limit: 9}), 0)
	f.equal("ExpireTasks()", f.expireTasks(store.TaskExpiry{State: a2a.StateFailed, Before: at(11).Add(time.Microsecond), Limit: 9}), 2)
	f.wantNoTask(key("failed0"))
	f.wantNoTask(key("failed1"))
	f.equal("Tasks() after ExpireTasks()", ids(f.list(store.Query{Owner: owner, Limit: 99, ByCreated: true, Ascending: true, States: []a2a.TaskState{a2a.StateFailed}}).Tasks), []string{"failed2"})
	f.equal("page.Total", f.list(store.Query{Owner: owner, Limit: 1, Total: true}).Total, 10)
	f.equal("Context().TaskCount", f.context(owner, "c0").TaskCount, 3)
	f.equal("ExpireTasks()", f.expireTasks(store.TaskExpiry{State: a2a.StateCompleted, Before: at(99), Limit: 9}), 3)
	f.equal("page.Total", f.list(store.Query{Owner: owner, Limit: 1, Total: true}).Total, 7)
}

func expireKeepsUnfinished(f *fixture) {
	for i, s := range a2a.States() {
		if !s.Terminal() {
			f.commit(idleTask(key(fmt.Sprint("t", i)), "c1", i, s))
		}
	}
	f.createFullTask(key("delivered"), "c1", 0)
	pending := idleTask(key("pending"), "c1", 1, a2a.StateCompleted)
	pending.Webhooks = testWebhooks("p")
	f.commit(pending)
	before := f.list(store.Query{Owner: owner, Limit: 99}).Tasks
	for _, limit := range []int{1, 9} {
		for _, s := range a2a.States() {
			if s.Terminal() {
				f.expireTasks(store.TaskExpiry{State: s, Before: at(1 << 40), Limit: limit})
			}
		}
	}
	f.wantTaskGone(key("delivered"))
	f.equal("Tasks() after ExpireTasks()", len(f.list(store.Query{Owner: owner, Limit: 99}).Tasks), len(before)-1)
	f.lane(key("pending"), "p")
	l := f.claimLane(worker, 5000)
	f.ack(ackDelivered(l, len(l.Events), 5000))
	f.equal("ExpireTasks()", f.expireTasks(store.TaskExpiry{State: a2a.StateCompleted, Before: at(1 << 40), Limit: 1}), 1)
	f.wantNoTask(key("pending"))
}

func expireAllOwners(f *fixture) {
	for _, limit := range []int{1, 2, 3, 100} {
		want := 0
		for o := range 4 {
			for i := range o + 1 {
				k := store.Key{Owner: fmt.Sprint("owner-", o), ID: fmt.Sprint(limit, "-", i)}
				f.commit(idleTask(k, fmt.Sprint("c", i%2), i/2, a2a.StateCompleted), idleTask(store.Key{Owner: k.Owner, ID: k.ID + "new"}, "c1", 100, a2a.StateCompleted))
				want++
			}
		}
		f.equal("ExpireTasks()", f.expireTasks(store.TaskExpiry{State: a2a.StateCompleted, Before: at(50), Limit: limit}), want)
	}
	for o := range 4 {
		page := f.list(store.Query{Owner: fmt.Sprint("owner-", o), Limit: 99})
		f.equal("Tasks() after ExpireTasks()", len(page.Tasks), 4*(o+1))
		for _, t := range page.Tasks {
			f.equal("Task().Status.Timestamp", t.Status.Timestamp, at(100))
		}
	}
}
