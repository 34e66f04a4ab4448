package storetest

import (
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

var webhookCommitTests = []test{
	{"a task is created with webhooks", webhookCommitCreates},
	{"a change adds a webhook that starts at its cursor", webhookCommitAdds},
	{"a change replaces an existing webhook", webhookCommitReplaces},
	{"an idle lane becomes due with the last event of a commit", webhookTailIdle},
	{"a commit does not make a lane in backoff due", webhookTailBackoff},
	{"a commit does not change a lease", webhookTailLeased},
	{"a commit makes a leased lane due that was not pending", webhookTailKeptLease},
	{"a claim of a task makes its lanes due", webhookTailClaim},
	{"commits move the tail of inactive lanes too", webhookTailInactive},
	{"changes of one call move a tail in order", webhookTailCall},
	{"a rejected change adds no webhook and moves no tail", webhookCommitRejected},
	{"a malformed change and the others of its call add no webhook", webhookMalformed},
}

func webhookCommitCreates(f *fixture) {
	k := key("t1")
	c := taskWithWebhooks(k, 3, "p", "q")
	c.Webhooks[1].LongRunning, c.Webhooks[1].Endpoint = true, "http://q.example:80"
	f.commit(c)
	q := committedWebhook(k, "q", 2)
	q.LongRunning, q.Endpoint = true, "http://q.example:80"
	f.equal("Lanes()", f.lanes(store.LaneQuery{}), store.LanePage{Lanes: []store.Lane{
		newLane(committedWebhook(k, "p", 2), cursorAt(0), 3, 2), newLane(q, cursorAt(0), 3, 2),
	}})
	f.wantNoDueLane(1)
	got := f.claimLanes(laneClaim(worker, 2, 9))
	f.equal("ClaimLanes()", laneNames(got), []string{owner + "/t1/p", owner + "/t1/q"})
	for _, l := range got {
		f.equal("ClaimLanes() events", l.Events, f.events(k))
	}
	f.equal("Task()", f.task(k), fold(k, "context", *idle(), c.Events...))
}

func webhookCommitAdds(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 3)
	c := changeAt(k, 3, deliverableEvent(10), deliverableEvent(20))
	c.Webhooks = testWebhooks("all", "some", "new")
	c.Webhooks[1].Cursor, c.Webhooks[2].Cursor = cursorAt(2), cursorAt(3)
	f.commit(c)
	for id, n := range map[string]int{"all": 0, "some": 2, "new": 3} {
		f.equal("Lanes()", f.lane(k, id), newLane(committedWebhook(k, id, 20), cursorAt(n), 5, 20))
	}
	quiet := changeAt(k, 5)
	quiet.Webhooks = testWebhooks("idle", "late")
	quiet.Webhooks[0].Cursor, quiet.Webhooks[1].Cursor = cursorAt(5), cursorAt(4)
	f.commit(quiet)
	f.equal("Lanes()", f.lane(k, "idle"), newLane(committedWebhook(k, "idle", 20), cursorAt(5), 5, 20))
	f.equal("Lanes()", f.lane(k, "late"), newLane(committedWebhook(k, "late", 20), cursorAt(4), 5, 20))
	f.wantNoDueLane(19)
	events := make(map[string]int)
	for _, l := range f.claimLanes(laneClaim(worker, 20, 9)) {
		events[l.Webhook.ID] = len(l.Events)
	}
	f.equal("ClaimLanes() numbers of events", events, map[string]int{"all": 5, "some": 3, "new": 2, "late": 1})
}

func webhookCommitReplaces(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 2, "p")
	claimed := f.claimLane(worker, 10)
	first := ackDelivered(claimed, 1, 20)
	first.KeepLease, first.State, first.Reason, first.Attempt, first.FailedAt = true, store.LaneParked, "why", 3, at(15)
	f.ack(first)
	c := changeAt(k, 2, deliverableEvent(30), deliverableEvent(40))
	c.Webhooks = []store.NewWebhook{{ID: "p", Endpoint: "http://q.example:80", Data: []byte("{}"), LongRunning: true, Cursor: cursorAt(2)}}
	f.commit(c)
	want := newLane(committedWebhook(k, "p", 1), cursorAt(1), 4, 40)
	want.Webhook.Endpoint, want.Webhook.Data, want.Webhook.LongRunning = "http://q.example:80", []byte("{}"), true
	want.Fence, want.Delivered, want.DeliveredAt, want.LeaseUntil = claimed.Fence+1, 1, at(20), claimed.LeaseUntil
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.wantLeaseLost(claimed, 45)
	f.wantNoDueLane(39)
	f.equal("ClaimLanes() events", f.claimLane(otherWorker, 40).Events, f.events(k)[1:])
}

// deliverDueLane claims the only due lane and delivers its events.
func (f *fixture) deliverDueLane(ms int) store.ClaimedLane {
	f.Helper()
	l := f.claimLane(worker, ms)
	f.ack(ackDelivered(l, len(l.Events), ms))
	return l
}

func webhookTailIdle(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 1, "p")
	f.deliverDueLane(10)
	f.wantNoDueLane(1000)
	f.commit(changeAt(k, 1)) // without events
	f.wantNoDueLane(1000)
	want := f.lane(k, "p")
	f.appendEvents(k, deliverableEvent(30), deliverableEvent(20), deliverableEvent(50))
	want.Tail, want.DueAt = 4, at(50)
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.appendEvents(k, deliverableEvent(60))
	want.Tail = 5
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.wantNoDueLane(49)
	f.equal("ClaimLanes() events", f.claimLane(worker, 50).Events, f.events(k)[1:])
}

func webhookTailBackoff(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 2, "p")
	f.ack(ackFailed(f.claimLane(worker, 10), 20, 5000))
	want := f.lane(k, "p")
	for _, ms := range []int{30, 4000, 9000} {
		f.appendEvents(k, deliverableEvent(ms))
		want.Tail++
		f.equal("Lanes()", f.lane(k, "p"), want)
	}
	f.wantNoDueLane(4999)
	l := f.claimLane(worker, 5000)
	f.equal("ClaimLanes() events", l.Events, f.events(k))
	f.equal("ClaimLanes() Attempt and FailedAt", []any{l.Attempt, l.FailedAt}, []any{1, at(20)})
}

func webhookTailLeased(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 1, "p")
	l := f.claimLane(worker, 10)
	want := f.lane(k, "p")
	f.equal("ClaimLanes()", l.Lane, want)
	f.appendEvents(k, deliverableEvent(20), deliverableEvent(30))
	want.Tail = 3
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.wantNoDueLane(60_009)
	f.ack(ackDelivered(l, 1, 50))
	want.Cursor, want.DueAt, want.UpdatedAt, want.Delivered, want.DeliveredAt = cursorAt(1), at(50), at(50), 1, at(50)
	want.Worker, want.LeaseUntil = "", time.Time{}
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.wantNoDueLane(49)
	f.equal("ClaimLanes() events", f.claimLane(otherWorker, 50).Events, f.events(k)[1:])
}

func webhookTailKeptLease(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 1, "p")
	l := f.claimLane(worker, 10)
	a := ackDelivered(l, 1, 20)
	a.KeepLease, a.DueAt = true, at(9000)
	f.ack(a)
	f.appendEvents(k, deliverableEvent(30))
	want := l.Lane
	want.Cursor, want.Tail, want.DueAt, want.UpdatedAt, want.Delivered, want.DeliveredAt = cursorAt(1), 2, at(30), at(20), 1, at(20)
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.wantNoDueLane(60_009)
	f.equal("ClaimLanes() fence", f.claimLane(otherWorker, 60_010).Fence, l.Fence+1)
	f.wantLeaseLost(l, 60_020)
}

func webhookTailClaim(f *fixture) {
	idler, busy, backoff := key("idler"), key("busy"), key("backoff")
	for _, k := range []store.Key{idler, busy, backoff} {
		c := taskWithWebhooks(k, 1, "p")
		c.Queue = queued()
		f.commit(c)
	}
	for _, l := range f.claimLanes(laneClaim(worker, 5, 9)) {
		switch l.Webhook.Task {
		case idler:
			f.ack(ackDelivered(l, 1, 5))
		case backoff:
			f.ack(ackFailed(l, 5, 5000))
		}
	}
	f.wantNoDueLane(1000)
	before := f.lane(busy, "p")
	if got := len(f.claim(claimAt(worker, at(50), 9))); got != 3 {
		f.Fatalf("Claim() = %d tasks, want 3", got)
	}
	before.Tail = 2
	f.equal("Lanes() of a leased lane", f.lane(busy, "p"), before)
	if l := f.lane(backoff, "p"); l.Tail != 2 || !l.DueAt.Equal(at(5000)) {
		f.Errorf("Lanes() of the lane in backoff = tail %d, due %v, want 2, %v", l.Tail, l.DueAt, at(5000))
	}
	f.wantNoDueLane(49)
	l := f.claimLane(worker, 50)
	f.equal("ClaimLanes()", laneNames([]store.ClaimedLane{l}), []string{owner + "/idler/p"})
	f.equal("ClaimLanes() events", l.Events, f.events(idler)[1:])

	late := store.Key{Owner: owner, ID: "late"}
	c := taskWithWebhooks(late, 1, "p")
	c.Queue = queued()
	f.commit(c)
	f.deliverDueLane(51)
	f.appendEvents(late, statusEvent(at(99), a2a.StateSubmitted))
	f.deliverDueLane(99)
	f.claim(claimAt(worker, at(60), 9)) // its event gets the time of the last one
	f.wantNoDueLane(98)
	f.equal("ClaimLanes() tail", f.claimLane(worker, 99).Tail, int64(3))
}

func webhookTailInactive(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 1, "parked", "disabled")
	for _, l := range f.claimLanes(laneClaim(worker, 5, 9)) {
		a := ackDelivered(l, 1, 6)
		a.State, a.Reason = store.LaneState(l.Webhook.ID), "why"
		f.ack(a)
	}
	f.wantNoDueLane(1000)
	f.appendEvents(k, deliverableEvent(20))
	f.wantNoDueLane(19)
	for _, l := range f.claimLanes(laneClaim(worker, 20, 9)) {
		if string(l.State) != l.Webhook.ID || l.Reason != "why" {
			f.Errorf("lane %q has state %s and reason %q, want the state and reason of the acknowledgement", l.Webhook.ID, l.State, l.Reason)
		}
		f.ack(ackDeadLetters(l, 1, 30))
	}
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{Dead: 2})
}

func webhookTailCall(f *fixture) {
	k, k2 := key("t1"), key("t2")
	brings := changeAt(k, 2, deliverableEvent(20))
	brings.Webhooks = testWebhooks("q")
	brings.Webhooks[0].Cursor = cursorAt(2)
	f.commit(taskWithWebhooks(k, 1, "p"), changeAt(k, 1, deliverableEvent(10)), brings, changeAt(k, 3, deliverableEvent(30)), taskWithWebhooks(k2, 1, "p"))
	f.equal("Lanes()", f.lanes(store.LaneQuery{}).Lanes, []store.Lane{
		newLane(committedWebhook(k, "p", 0), cursorAt(0), 4, 0),
		newLane(committedWebhook(k, "q", 20), cursorAt(2), 4, 20),
		newLane(committedWebhook(k2, "p", 0), cursorAt(0), 1, 0),
	})
}

func webhookCommitRejected(f *fixture) {
	k := key("t1")
	f.commit(withKey(taskWithWebhooks(k, 2, "p"), "key", at(0)))
	f.appendEvents(k, clientMessage(at(5), "m"))
	f.claimLane(worker, 10)
	f.saveContext(store.ContextChange{Context: fullContext(owner, "closed", 0), Create: true})
	f.saveContext(withStatus(f.context(owner, "closed"), a2a.ContextArchived))
	before, backlog := f.lanes(store.LaneQuery{}), f.webhookBacklog()

	closed := taskWithWebhooks(key("t2"), 1, "p")
	closed.Create.ContextID = "closed"
	unread := changeAt(k, 3, deliverableEvent(20))
	unread.Seen = 2
	for _, test := range []struct {
		want error
		c    store.Change
	}{
		{store.ErrExists, taskWithWebhooks(k, 3)},
		{store.ErrConflict, changeAt(k, 2, deliverableEvent(20))},
		{store.ErrLeaseLost, changeUnder(k, worker, 1, deliverableEvent(20))},
		{store.ErrUnread, unread},
		{store.ErrNotFound, changeAt(key("t2"), 1, deliverableEvent(20))},
		{store.ErrNotFound, changeAt(store.Key{Owner: otherOwner, ID: "t1"}, 3, deliverableEvent(20))},
		{store.ErrContextClosed, closed},
		{store.ErrDuplicate, withKey(changeAt(k, 3, deliverableEvent(20)), "key", at(20))},
	} {
		test.c.Webhooks = testWebhooks("p", "new")
		f.wantRejected(test.want, test.c)
		f.equal("Lanes() after "+test.want.Error(), f.lanes(store.LaneQuery{}), before)
		f.equal("WebhookBacklog()", f.webhookBacklog(), backlog)
	}
	good := changeAt(k, 3, deliverableEvent(30))
	good.Webhooks = testWebhooks("good")
	rejected := taskWithWebhooks(k, 1, "p", "new")
	results := f.commitResults(rejected, good, rejected)
	f.equal("versions", []int64{results[0].Seq, results[1].Seq, results[2].Seq}, []int64{0, 4, 0})
	f.wantNoLane(k, "new")
	f.lane(k, "good")
	f.equal("Lanes() fence", f.lane(k, "p").Fence, before.Lanes[0].Fence)
}

func webhookMalformed(f *fixture) {
	k := key("t1")
	bad := changeAt(k, 0)
	if _, err := f.s.Commit(f.ctx, taskWithWebhooks(k, 1, "p"), bad); err == nil {
		f.Fatalf("Commit() with a malformed change = nil, want an error")
	}
	f.wantNoTask(k)
	f.wantNoLane(k, "p")
	f.equal("Lanes()", f.lanes(store.LaneQuery{}), store.LanePage{})
	f.wantNoDueLane(1000)
}
