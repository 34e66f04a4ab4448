package storetest

import (
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var webhookSaveTests = []test{
	{"a webhook is saved with its lane", webhookSaved},
	{"a webhook of an absent task is rejected", webhookOfAbsentTask},
	{"an existing webhook is replaced", webhookReplaced},
	{"replacing a webhook makes a failing lane active and due", webhookReplacedFailing},
	{"replacing a webhook does not make a delivered lane due", webhookReplacedDelivered},
	{"webhooks of a task are separate", webhooksOfOneTask},
	{"webhooks of two owners' tasks with equal ids are separate", webhooksOfTwoOwners},
	{"times of webhooks are stored in UTC with millisecond precision", webhookTimes},
	{"callers may change webhook data that they pass and receive", webhookAlias},
}

func webhookSaved(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 3)
	for _, test := range []struct {
		id     string
		cursor store.WebhookCursor
	}{
		{"before all", cursorAt(0)}, {"behind one", cursorAt(1)}, {"behind all", cursorAt(3)},
	} {
		c := testWebhook(k, test.id)
		c.LongRunning = test.id == "behind one"
		want := newLane(c, test.cursor, 3, 50)
		f.equal("SaveWebhook()", f.saveWebhook(c, test.cursor, 50), want)
		f.equal("Lanes()", f.lane(k, test.id), want)
		if got, want := want.Pending(), test.cursor.Seq < 3; got != want {
			f.Errorf("Lane.Pending() = %t, want %t", got, want)
		}
	}
	f.wantNoDueLane(49)
	got := f.claimLanes(laneClaim(worker, 50, 9))
	f.equal("ClaimLanes()", laneNames(got), []string{owner + "/t1/before all", owner + "/t1/behind one"})
	f.equal("ClaimLanes() events of the first lane", got[0].Events, f.events(k))
	f.equal("ClaimLanes() events of the second lane", got[1].Events, f.events(k)[1:])
}

func webhookOfAbsentTask(f *fixture) {
	f.createTaskWithWebhooks(key("t1"), 1)
	deleted := key("gone")
	c := taskWithWebhooks(deleted, 1)
	c.Create.ContextID = "c1"
	f.commit(c)
	f.deleteContext("c1", 1, 9)
	for _, k := range []store.Key{key("t2"), key("T1"), {Owner: otherOwner, ID: "t1"}, deleted} {
		l, err := f.s.SaveWebhook(f.ctx, testWebhook(k, "p"), cursorAt(0), at(9))
		if !errors.Is(err, store.ErrNotFound) {
			f.Errorf("SaveWebhook() of %s = %+v, %v, want ErrNotFound", taskName(k), l, err)
		}
		f.wantNoLane(k, "p")
		f.wantNoWebhook(k, "p", 9)
		suite.Call(f.s.ReplayWebhook(f.ctx, k, "p", cursorAt(0), at(9))).Fails(f, store.ErrNotFound, "ReplayWebhook() of %s", taskName(k))
	}
	f.equal("Lanes()", f.lanes(store.LaneQuery{}), store.LanePage{})
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{})
}

func webhookReplaced(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 3, "p")
	claimed := f.claimLane(worker, 10)
	first := ackDelivered(claimed, 1, 20)
	first.KeepLease, first.Attempts = true, []store.DeliveryAttempt{deliveryAttempt(k, "p", 1, 1, 15)}
	f.ack(first)

	c := store.Webhook{
		Task: k, ID: "p", Endpoint: "http://elsewhere.example:80", Data: []byte(`{"b":1}`), LongRunning: true, CreatedAt: at(25),
	}
	got := f.saveWebhook(c, cursorAt(3), 30)
	want := newLane(c, cursorAt(1), 3, 30)
	want.Webhook.CreatedAt = at(2) // of the first webhook
	want.Fence, want.Delivered, want.DeliveredAt, want.LeaseUntil = claimed.Fence+1, 1, at(20), claimed.LeaseUntil
	f.equal("SaveWebhook()", got, want)
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.wantLeaseLost(claimed, 35)
	f.equal("DeliveryAttempts()", f.deliveryAttempts(store.WebhookQuery{}), first.Attempts)
	f.wantNoDueLane(29)

	again := f.saveWebhook(c, cursorAt(0), 40)
	want.Fence, want.DueAt, want.UpdatedAt, want.LeaseUntil = want.Fence+1, at(40), at(40), time.Time{}
	f.equal("SaveWebhook() again", again, want)
	next := f.claimLane(worker, 40)
	suite.Equal(f, next.Fence, want.Fence+1, "ClaimLanes() fence after a replacement")
	f.wantLeaseLost(claimed, 45)
	f.ack(ackDelivered(next, 2, 50))
}

func webhookReplacedFailing(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 3, "p")
	for _, state := range []store.LaneState{store.LaneActive, store.LaneParked, store.LaneDisabled} {
		claimed := f.claimLane(worker, 10)
		bad := ackFailed(claimed, 20, 5000)
		bad.State, bad.Reason = state, "it went wrong"
		f.ack(bad)
		f.saveWebhook(testWebhook(k, "p"), cursorAt(0), 30)
		want := newLane(committedWebhook(k, "p", 2), cursorAt(0), 3, 30)
		want.Fence = claimed.Fence + 1
		f.equal("Lanes()", f.lane(k, "p"), want)
		f.saveWebhook(testWebhook(k, "p"), cursorAt(0), 5)
	}
	claimed := f.claimLane(worker, 10)
	f.ack(ackDeadLetters(claimed, 2, 20))
	f.saveWebhook(testWebhook(k, "p"), cursorAt(0), 30)
	if got := f.deadLetters(store.WebhookQuery{}); len(got) != 2 {
		f.Errorf("DeadLetters() after SaveWebhook() = %+v, want both", got)
	}
	suite.Equal(f, f.lane(k, "p").Cursor, cursorAt(2), "Cursor after SaveWebhook()")
}

func webhookReplacedDelivered(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 2, "p")
	claimed := f.claimLane(worker, 10)
	f.ack(ackDelivered(claimed, 2, 20))
	f.saveWebhook(testWebhook(k, "p"), cursorAt(0), 30)
	f.wantNoDueLane(1000)
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{})
	f.appendEvents(k, deliverableEvent(40))
	f.wantNoDueLane(39)
	f.equal("ClaimLanes() events", f.claimLane(worker, 40).Events, f.events(k)[2:])
}

func webhooksOfOneTask(f *fixture) {
	k := key("t1")
	names := []string{"A", "a", "a ", "a/b", "ä"}
	f.createTaskWithWebhooks(k, 2, names...)
	for i, id := range names {
		f.equal("Lanes()", f.lane(k, id), newLane(committedWebhook(k, id, 1), cursorAt(0), 2, 1))
		f.saveWebhook(testWebhook(k, id), cursorAt(0), 10+i)
	}
	for i, id := range names {
		l := f.claimLane(worker, 10+i)
		f.equal("ClaimLanes()", l.Webhook.ID, id)
		f.ack(ackDelivered(l, i%3, 20))
	}
	for i, id := range names {
		if got, want := f.lane(k, id).Cursor, cursorAt(i%3); got != want {
			f.Errorf("Cursor of %q = %+v, want %+v", id, got, want)
		}
	}
	f.deleteWebhook(k, "a", 30, false)
	f.lane(k, "A")
	f.lane(k, "a ")
	f.equal("Lanes()", len(f.lanes(store.LaneQuery{Owner: owner, TaskID: "t1"}).Lanes), 4)
}

func webhooksOfTwoOwners(f *fixture) {
	mine, theirs := key("t1"), store.Key{Owner: otherOwner, ID: "t1"}
	f.createTaskWithWebhooks(mine, 2, "p")
	f.createTaskWithWebhooks(theirs, 1, "p")
	l := f.claimLanes(laneClaim(worker, 10, 9))
	f.equal("ClaimLanes()", laneNames(l), []string{owner + "/t1/p", otherOwner + "/t1/p"})
	f.ack(ackDeadLetters(l[0], 2, 20))
	f.appendEvents(theirs, deliverableEvent(25))
	want := newLane(committedWebhook(theirs, "p", 0), cursorAt(0), 2, 0)
	want.Worker, want.Fence, want.LeaseUntil = worker, l[1].Fence, l[1].LeaseUntil
	f.equal("Lanes() of the other owner", f.lane(theirs, "p"), want)
	f.deleteWebhook(mine, "p", 30, false)
	f.equal("Lanes() of the other owner", f.lane(theirs, "p"), want)
	f.equal("DeadLetters() of the others", f.deadLetters(store.WebhookQuery{Owner: otherOwner}), []store.DeadLetter{})
	stolen := ackDelivered(l[1], 1, 30)
	stolen.Lease.Task = mine
	f.equal("AckLanes() with the key of another owner", f.ackLanes(stolen), []store.LaneLease{stolen.Lease})
	f.ack(ackDelivered(l[1], 1, 30))
}

func webhookTimes(f *fixture) {
	precise := func(ms int) time.Time {
		return at(ms).Add(123_456 * time.Nanosecond).In(time.FixedZone("elsewhere", 2*3600))
	}
	k := key("t1")
	c := taskWithWebhooks(k, 2, "committed")
	c.Events[1].Time = precise(1)
	f.commit(c)
	saved := testWebhook(k, "saved")
	saved.CreatedAt = precise(3)
	got := suite.Call(f.s.SaveWebhook(f.ctx, saved, cursorAt(0), precise(4))).Must(f, "SaveWebhook()")
	p := laneClaim(worker, 9, 9)
	p.Until = precise(99)
	claimed := suite.Len(f, f.claimLanes(p), 2, "ClaimLanes()")
	held := f.lane(k, "saved")
	a := ackDeadLetters(claimed[0], 1, 0)
	a.At, a.DueAt, a.FailedAt, a.Delivered = precise(10), precise(11), precise(12), 1
	a.Attempts[0].At, a.Dead[0].At = precise(13), precise(14)
	a.Attempts[0].Duration = 5*time.Millisecond + 999*time.Microsecond
	f.ack(a)
	acked := f.lane(k, "committed")
	committed := claimed[0].Lane
	tried, dead := f.deliveryAttempts(store.WebhookQuery{}), f.deadLetters(store.WebhookQuery{})
	for _, test := range []struct {
		label     string
		got, want time.Time
	}{
		{"Webhook.CreatedAt of a commit", committed.Webhook.CreatedAt, at(1)},
		{"DueAt of a commit", committed.DueAt, at(1)},
		{"UpdatedAt of a commit", committed.UpdatedAt, at(1)},
		{"Webhook.CreatedAt", got.Webhook.CreatedAt, at(3)},
		{"DueAt", got.DueAt, at(4)},
		{"UpdatedAt", got.UpdatedAt, at(4)},
		{"LeaseUntil of a claim", committed.LeaseUntil, at(99)},
		{"LeaseUntil", held.LeaseUntil, at(99)},
		{"UpdatedAt of an ack", acked.UpdatedAt, at(10)},
		{"DeliveredAt", acked.DeliveredAt, at(10)},
		{"DueAt of an ack", acked.DueAt, at(11)},
		{"FailedAt", acked.FailedAt, at(12)},
		{"DeliveryAttempt.At", tried[0].At, at(13)},
		{"DeadLetter.At", dead[0].At, at(14)},
	} {
		if !test.got.Equal(test.want) || test.got.Location() != time.UTC {
			f.Errorf("%s = %v, want %v", test.label, test.got, test.want)
		}
	}
	suite.Equal(f, tried[0].Duration, 5*time.Millisecond, "DeliveryAttempt.Duration")
	for label, got := range map[string]time.Time{"FailedAt": got.FailedAt, "DeliveredAt": got.DeliveredAt} {
		if !got.IsZero() {
			f.Errorf("%s of a new lane = %v, want the zero time", label, got)
		}
	}
}

func webhookAlias(f *fixture) {
	k := key("t1")
	c := taskWithWebhooks(k, 1, "committed")
	f.commit(c)
	clear(c.Webhooks[0].Data)
	c.Webhooks[0] = store.NewWebhook{}
	saved := testWebhook(k, "saved")
	got := f.saveWebhook(saved, cursorAt(0), 0)
	clear(saved.Data)
	check := func() {
		f.Helper()
		for _, id := range []string{"committed", "saved"} {
			f.equal("webhook data", f.lane(k, id).Webhook.Data, webhookData(id))
		}
	}
	check()
	f.equal("webhook data", got.Webhook.Data, webhookData("saved"))
	clear(got.Webhook.Data)
	check()
	clear(f.lane(k, "saved").Webhook.Data)
	check()
	for _, l := range f.claimLanes(laneClaim(worker, 9, 9)) {
		clear(l.Webhook.Data)
		for i := range l.Events {
			modifyEvent(&l.Events[i])
		}
	}
	check()
	f.equal("Events()", f.events(k), withSeqs([]store.Event{deliverableEvent(0)}))
}
