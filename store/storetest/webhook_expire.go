package storetest

import (
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var webhookExpireTests = []test{
	{"old attempts are removed", expireAttempts},
	{"old dead letters are removed, but no undelivered events", expireLetters},
	{"webhooks of finished tasks are removed after delivery", expireFinishedWebhooks},
	{"long-running webhooks have a limit of their own", expireLongRunning},
	{"webhooks with undelivered events or of unfinished tasks are not removed", expireKeepsUnfinishedWebhooks},
	{"at most limit records of each kind are removed", expireWebhookLimit},
	{"zero times remove nothing", expireZeroTimes},
	{"nothing is left of the webhooks of a deleted context", webhookContextDeleted},
	{"leased webhooks of a deleted context are removed too", webhookContextDeletedHeld},
}

func (f *fixture) expireWebhooks(p store.WebhookExpiry, limit int) int {
	f.Helper()
	return suite.Call(f.s.ExpireWebhooks(f.ctx, p, limit)).Must(f, "ExpireWebhooks(%+v, %d)", p, limit)
}

// createFinishedTask creates a completed task with webhooks that have delivered all events at ms.
func (f *fixture) createFinishedTask(k store.Key, ms int, ids ...string) {
	f.Helper()
	c := taskWithWebhooks(k, 1, ids...)
	c.Events = append(c.Events, statusEvent(at(1), a2a.StateCompleted))
	f.commit(c)
	for _, l := range f.claimLanes(laneClaim(worker, 1, len(ids))) {
		f.ack(ackDelivered(l, len(l.Events), ms))
	}
}

func expireAttempts(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 5, "p", "q")
	for _, l := range f.claimLanes(laneClaim(worker, 10, 9)) {
		a := ackDeadLetters(l, 5, 0)
		for i := range a.Attempts {
			a.Attempts[i].At = at(100 * i)
		}
		f.ack(a)
	}
	f.equal("ExpireWebhooks()", f.expireWebhooks(store.WebhookExpiry{Attempts: at(0)}, 99), 0)
	f.equal("ExpireWebhooks()", f.expireWebhooks(store.WebhookExpiry{Attempts: at(200)}, 99), 4)
	for _, a := range f.deliveryAttempts(store.WebhookQuery{}) {
		if a.At.Before(at(200)) {
			f.Errorf("DeliveryAttempts() after ExpireWebhooks() contains one of %v", a.At)
		}
	}
	f.equal("number of DeliveryAttempts()", len(f.deliveryAttempts(store.WebhookQuery{Owner: owner})), 6)
	f.equal("number of DeliveryAttempts() of p", len(f.deliveryAttempts(store.WebhookQuery{Owner: owner, TaskID: "t1", ID: "p"})), 3)
	f.equal("ExpireWebhooks() again", f.expireWebhooks(store.WebhookExpiry{Attempts: at(200)}, 99), 0)
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{Dead: 10})
	f.equal("ExpireWebhooks() of the others", f.expireWebhooks(store.WebhookExpiry{Attempts: at(401)}, 99), 6)
}

func expireLetters(f *fixture) {
	k := key("t1")
	f.createFinishedTask(k, 10, "p", "q")
	f.replay(k, "p", cursorAt(1), 20)
	l := f.claimLane(worker, 20)
	a := ackDeadLetters(l, 1, 20)
	a.State = store.LaneParked
	for i := range 3 {
		a.Dead = append(a.Dead, deadLetter(k, "p", int64(10+i), 100*i))
	}
	a.Dead = a.Dead[len(a.Dead)-3:]
	f.ack(a)
	f.createTaskWithWebhooks(key("t2"), 3, "p") // pending
	f.equal("ExpireWebhooks()", f.expireWebhooks(store.WebhookExpiry{Dead: at(0)}, 99), 0)
	f.equal("ExpireWebhooks()", f.expireWebhooks(store.WebhookExpiry{Dead: at(101)}, 1), 1)
	f.equal("ExpireWebhooks() of the others", f.expireWebhooks(store.WebhookExpiry{Dead: at(101)}, 99), 1)
	f.equal("DeadLetters()", f.deadLetters(store.WebhookQuery{}), a.Dead[2:])
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{Pending: 1, Parked: 1, Dead: 1})
	f.equal("Lanes() state", f.lane(k, "p").State, store.LaneParked)

	all := store.WebhookExpiry{Finished: at(1 << 30)}
	f.equal("ExpireWebhooks() of webhooks", f.expireWebhooks(all, 99), 1) // q
	f.lane(k, "p")
	all.Dead = at(1 << 30)
	f.equal("ExpireWebhooks() of all", f.expireWebhooks(all, 99), 2) // p and its last dead letter
	f.wantNoLane(k, "p")
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{Pending: 1})
	l = f.claimLane(worker, 5000)
	f.equal("ClaimLanes() events of the pending lane", len(l.Events), 3)
}

func expireFinishedWebhooks(f *fixture) {
	for i, s := range []a2a.TaskState{a2a.StateCompleted, a2a.StateFailed, a2a.StateCanceled, a2a.StateRejected} {
		k := key(fmt.Sprint("t", i))
		f.createTaskWithWebhooks(k, 1, "p")
		f.appendEvents(k, statusEvent(at(2), s))
		l := f.claimLane(worker, 10)
		a := ackDelivered(l, 2, 100)
		a.Attempts = []store.DeliveryAttempt{deliveryAttempt(k, "p", 1, 1, 50)}
		f.ack(a)
	}
	f.equal("ExpireWebhooks()", f.expireWebhooks(store.WebhookExpiry{Finished: at(100)}, 99), 0)
	f.equal("Lanes()", len(f.lanes(store.LaneQuery{}).Lanes), 4)
	f.equal("ExpireWebhooks()", f.expireWebhooks(store.WebhookExpiry{Finished: at(101)}, 99), 4)
	for i := range 4 {
		f.wantNoLane(key(fmt.Sprint("t", i)), "p")
		f.task(key(fmt.Sprint("t", i)))
		f.wantNoWebhook(key(fmt.Sprint("t", i)), "p", 200)
	}
	f.equal("ExpireWebhooks() again", f.expireWebhooks(store.WebhookExpiry{Finished: at(101), Attempts: at(101)}, 99), 0)
	f.saveWebhook(testWebhook(key("t0"), "p"), cursorAt(2), 300)
	f.equal("ExpireWebhooks()", f.expireWebhooks(store.WebhookExpiry{Finished: at(300)}, 99), 0)
	f.lane(key("t0"), "p")
}

func expireLongRunning(f *fixture) {
	k := key("t1")
	f.createFinishedTask(k, 100, "short", "long")
	c := testWebhook(k, "long")
	c.LongRunning = true
	f.saveWebhook(c, cursorAt(0), 100)
	p := store.WebhookExpiry{Finished: at(5000), LongRunning: at(100)}
	f.equal("ExpireWebhooks()", f.expireWebhooks(p, 99), 1)
	f.wantNoLane(k, "short")
	f.lane(k, "long")
	p = store.WebhookExpiry{Finished: at(5000)}
	f.equal("ExpireWebhooks() without LongRunning", f.expireWebhooks(p, 99), 0)
	f.equal("ExpireWebhooks()", f.expireWebhooks(store.WebhookExpiry{LongRunning: at(101)}, 99), 1)
	f.wantNoLane(k, "long")
}

func expireKeepsUnfinishedWebhooks(f *fixture) {
	for _, s := range []a2a.TaskState{a2a.StateWorking, a2a.StateInputRequired} {
		k := key("is " + string(s))
		f.createTaskWithWebhooks(k, 1, "p")
		f.appendEvents(k, statusEvent(at(2), s))
		f.deliverDueLane(10)
	}
	pending, dead := key("pending"), key("dead")
	f.createFinishedTask(dead, 10, "p", "q")
	f.replay(dead, "p", cursorAt(1), 10)
	l := f.claimLane(worker, 20)
	a := ackDeadLetters(l, 1, 20)
	f.ack(a)
	f.createFinishedTask(pending, 10, "p")
	f.replay(pending, "p", cursorAt(1), 20)
	all := store.WebhookExpiry{Attempts: at(0), Finished: at(1 << 30), LongRunning: at(1 << 30)}
	f.equal("ExpireWebhooks()", f.expireWebhooks(all, 99), 1) // q of the task with dead letters
	f.wantNoLane(dead, "q")
	f.equal("Lanes()", f.allLaneNames(store.LaneQuery{Limit: 9}),
		[]string{owner + "/dead/p", owner + "/is input-required/p", owner + "/is working/p", owner + "/pending/p"})
	f.equal("DeadLetters()", f.deadLetters(store.WebhookQuery{}), a.Dead)

	f.replay(dead, "p", cursorAt(2), 30)
	f.equal("DeadLetters() after a replay", f.deadLetters(store.WebhookQuery{}), a.Dead)
	f.replay(dead, "p", cursorAt(1), 30)
	for _, l := range f.claimLanes(laneClaim(worker, 30, 9)) {
		f.ack(ackDelivered(l, 1, 30))
	}
	f.appendEvents(key("is working"), statusEvent(at(40), a2a.StateFailed))
	f.equal("ExpireWebhooks()", f.expireWebhooks(all, 99), 2)
	f.equal("ExpireWebhooks()", f.expireWebhooks(all, 99), 0)
	f.deliverDueLane(40)
	f.equal("ExpireWebhooks()", f.expireWebhooks(all, 99), 1)
	f.equal("Lanes()", f.allLaneNames(store.LaneQuery{Limit: 9}), []string{owner + "/is input-required/p"})
}

func expireWebhookLimit(f *fixture) {
	const n = 5
	for i := range n {
		k := key(fmt.Sprint("t", i))
		f.createFinishedTask(k, 100+i, "short", "long")
		c := testWebhook(k, "long")
		c.LongRunning = true
		f.saveWebhook(c, cursorAt(0), 100+i)
	}
	k := key("noted")
	f.createTaskWithWebhooks(k, 1, "p")
	a := ackDeadLetters(f.claimLane(worker, 10), 1, 0)
	for i := range n - 1 {
		a.Attempts = append(a.Attempts, deliveryAttempt(k, "p", 1, i+2, i))
	}
	f.ack(a)
	p := store.WebhookExpiry{Attempts: at(1000), Finished: at(1000), LongRunning: at(1000)}
	var removed []int
	for range 20 {
		n := f.expireWebhooks(p, 2)
		if removed = append(removed, n); n == 0 {
			break
		}
		if n > 4 {
			f.Errorf("ExpireWebhooks() with limit 2 removed %d, want at most 4", n)
		}
	}
	sum := 0
	for _, n := range removed {
		sum += n
	}
	f.equal(fmt.Sprint("ExpireWebhooks() in total, per call ", removed), sum, 3*n)
	f.equal("ExpireWebhooks() with limit 0", f.expireWebhooks(p, 0), 0)
	f.equal("Lanes()", f.allLaneNames(store.LaneQuery{Limit: 9}), []string{owner + "/noted/p"})
	f.equal("DeliveryAttempts()", f.deliveryAttempts(store.WebhookQuery{}), []store.DeliveryAttempt{})
}

func expireZeroTimes(f *fixture) {
	k := key("t1")
	f.createFinishedTask(k, 10, "p", "q")
	long := testWebhook(k, "q")
	long.LongRunning = true
	f.saveWebhook(long, cursorAt(0), 10)
	f.createTaskWithWebhooks(key("t2"), 1, "p")
	f.ack(ackDeadLetters(f.claimLane(worker, 10), 1, 10))
	f.equal("ExpireWebhooks()", f.expireWebhooks(store.WebhookExpiry{}, 99), 0)
	f.equal("Lanes()", len(f.lanes(store.LaneQuery{}).Lanes), 3)
	f.equal("DeliveryAttempts()", len(f.deliveryAttempts(store.WebhookQuery{})), 1)
}

// createContextWithWebhooks creates a context of n tasks with three webhooks each, all of which
// have delivery attempts and dead letters.
func (f *fixture) createContextWithWebhooks(o, id string, n int) (keys []store.Key) {
	f.Helper()
	for i := range n {
		k := store.Key{Owner: o, ID: fmt.Sprint(id, "-", i)}
		c := taskWithWebhooks(k, 3, "p", "q", "r")
		c.Create.ContextID = id
		f.commit(c)
		keys = append(keys, k)
	}
	for _, l := range f.claimLanes(laneClaim(worker, 10, 3*n)) {
		a := ackDeadLetters(l, 2, 20)
		a.KeepLease = l.Webhook.ID == "q"
		if l.Webhook.ID == "r" {
			a = ackDeadLetters(l, 3, 20)
			a.State = store.LaneParked
		}
		f.ack(a)
	}
	return keys
}

func webhookContextDeleted(f *fixture) {
	keys, theirs := f.createContextWithWebhooks(owner, "c1", 3), f.createContextWithWebhooks(otherOwner, "c1", 1)
	unrelated := f.createContextWithWebhooks(owner, "c2", 1)
	type snapshot struct {
		Lanes    []store.Lane
		Letters  []store.DeadLetter
		Attempts []store.DeliveryAttempt
	}
	read := func() snapshot {
		f.Helper()
		k := snapshot{Letters: f.deadLetters(store.WebhookQuery{}), Attempts: f.deliveryAttempts(store.WebhookQuery{}), Lanes: f.lanes(store.LaneQuery{}).Lanes}
		mine := func(key store.Key) bool { return slices.Contains(keys, key) }
		k.Lanes = slices.DeleteFunc(k.Lanes, func(l store.Lane) bool { return mine(l.Webhook.Task) })
		k.Letters = slices.DeleteFunc(k.Letters, func(d store.DeadLetter) bool { return mine(d.Task) })
		k.Attempts = slices.DeleteFunc(k.Attempts, func(a store.DeliveryAttempt) bool { return mine(a.Task) })
		return k
	}
	before := read()
	if len(before.Lanes) != 6 || len(before.Letters) != 14 || len(before.Attempts) != 14 {
		f.Fatalf("%d lanes, %d dead letters and %d attempts of other contexts, want 6, 14 and 14", len(before.Lanes), len(before.Letters), len(before.Attempts))
	}
	f.deleteContextBatch("c1", 1)
	f.equal("other contexts between two batches", read(), before)
	f.deleteContext("c1", 2, 1)
	f.equal("other contexts after the deletion", read(), before)
	for _, k := range keys {
		for _, id := range []string{"p", "q", "r"} {
			f.wantNoLane(k, id)
			f.wantNoWebhook(k, id, 30)
		}
	}
	f.equal("Lanes()", len(f.lanes(store.LaneQuery{}).Lanes), 6)
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{Pending: 4, Parked: 2, Dead: 14})
	p := laneClaim(otherWorker, 1000, 99)
	p.Takeover = true
	f.equal("ClaimLanes()", laneNames(f.claimLanes(p)), []string{
		laneName(&store.Lane{Webhook: testWebhook(unrelated[0], "p")}), laneName(&store.Lane{Webhook: testWebhook(theirs[0], "p")}),
		laneName(&store.Lane{Webhook: testWebhook(unrelated[0], "q")}), laneName(&store.Lane{Webhook: testWebhook(theirs[0], "q")}),
	})
	f.equal("ExpireWebhooks()", f.expireWebhooks(store.WebhookExpiry{Attempts: at(1 << 30)}, 99), 14)

	f.createTaskWithWebhooks(keys[0], 2) // with the id of a deleted task, without webhooks
	f.equal("Lanes() of a new task", f.lanes(store.LaneQuery{Owner: owner, TaskID: keys[0].ID}), store.LanePage{})
	f.saveWebhook(testWebhook(keys[0], "p"), cursorAt(0), 2000)
	f.equal("Lanes() cursor", f.lane(keys[0], "p").Cursor, cursorAt(0))
	f.wantNoDeliveries(keys[0])
}

// wantNoDeliveries checks that the webhooks of a task have no delivery attempts and dead
// letters.
func (f *fixture) wantNoDeliveries(k store.Key) {
	f.Helper()
	q := store.WebhookQuery{Owner: k.Owner, TaskID: k.ID}
	f.equal("DeadLetters()", f.deadLetters(q), []store.DeadLetter{})
	f.equal("DeliveryAttempts()", f.deliveryAttempts(q), []store.DeliveryAttempt{})
}

func webhookContextDeletedHeld(f *fixture) {
	c := taskWithWebhooks(key("t1"), 2, "p", "q")
	c.Create.ContextID = "c1"
	f.commit(c)
	claimed := f.claimLanes(laneClaim(worker, 10, 9))
	f.deleteWebhook(key("t1"), "q", 20, true)
	f.deleteContext("c1", 1, 9)
	for _, l := range claimed {
		f.wantNoWebhook(key("t1"), l.Webhook.ID, 30)
		f.wantLeaseLost(l, 30)
	}
	f.wantNoDueLane(1 << 30)
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{})
}
