package storetest

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

func webhookReplayed(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 4, "p")
	l := f.claimLane(worker, 10)
	a := ackDelivered(l, 3, 20)
	a.KeepLease = true
	f.ack(a)
	f.replay(k, "p", cursorAt(1), 30)
	want := newLane(committedWebhook(k, "p", 3), cursorAt(1), 4, 30)
	want.Fence, want.Delivered, want.DeliveredAt, want.LeaseUntil = l.Fence+1, 3, at(20), l.LeaseUntil
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.wantLeaseLost(l, 40)
	f.wantNoDueLane(29)
	l = f.claimLane(worker, 30)
	f.equal("ClaimLanes() events", l.Events, f.events(k)[1:])
	f.ack(ackDelivered(l, 3, 50))
	f.replay(k, "p", cursorAt(0), 60) // not leased
	want.Cursor, want.DueAt, want.UpdatedAt = cursorAt(0), at(60), at(60)
	want.Fence, want.Delivered, want.DeliveredAt, want.LeaseUntil = l.Fence+1, 6, at(50), time.Time{}
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.wantLeaseLost(l, 70)
	f.equal("ClaimLanes() events", f.claimLane(otherWorker, 60).Events, f.events(k))
	suite.Call(f.s.ReplayWebhook(f.ctx, k, "q", cursorAt(0), at(9))).Fails(f, store.ErrNotFound, "ReplayWebhook() of an absent webhook")
}

func webhookReplayedLetters(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 4, "p", "q")
	var a, unrelated store.LaneAck
	for _, l := range f.claimLanes(laneClaim(worker, 10, 9)) {
		if l.Webhook.ID == "p" {
			a = ackDeadLetters(l, 4, 20)
			f.ack(a)
		} else {
			unrelated = ackDeadLetters(l, 4, 20)
			f.ack(unrelated)
		}
	}
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{Dead: 8})
	q := store.WebhookQuery{Owner: owner, TaskID: "t1", ID: "p"}
	for _, n := range []int{4, 3, 1, 0} {
		f.replay(k, "p", cursorAt(n), 30)
		f.equal(fmt.Sprint("DeadLetters() after a replay at ", n), f.deadLetters(q), sortedLetters(a.Dead[:n]))
	}
	f.equal("DeliveryAttempts()", f.deliveryAttempts(q), sortedAttempts(a.Attempts))
	q.ID = "q"
	f.equal("DeadLetters() of the others", f.deadLetters(q), sortedLetters(unrelated.Dead))
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{Pending: 1, Dead: 4})
	f.equal("ClaimLanes() events", f.claimLane(worker, 40).Events, f.events(k))
}

func webhookReplayedState(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 2, "p")
	for _, state := range []store.LaneState{store.LaneActive, store.LaneParked, store.LaneDisabled} {
		l := f.claimLane(worker, 50)
		a := ackFailed(l, 50, 1<<30)
		a.State, a.Reason = state, "why"
		f.ack(a)
		f.replay(k, "p", cursorAt(0), 50)
		want := newLane(committedWebhook(k, "p", 1), cursorAt(0), 2, 50)
		want.Fence = l.Fence + 1
		f.equal("Lanes()", f.lane(k, "p"), want)
	}
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{Pending: 1})
}

func webhookReplayedForward(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 5, "p")
	l := f.claimLane(worker, 10)
	f.ack(ackDeadLetters(l, 2, 20))
	q := store.WebhookQuery{Owner: owner, TaskID: "t1", ID: "p"}
	letters := f.deadLetters(q)
	for _, n := range []int{4, 5, 3, 2} {
		f.equal(fmt.Sprint("ReplayWebhook() at ", n), f.replay(k, "p", cursorAt(n), 30), cursorAt(2))
	}
	want := newLane(committedWebhook(k, "p", 4), cursorAt(2), 5, 30)
	want.Fence = l.Fence + 4
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.equal("DeadLetters()", f.deadLetters(q), letters)
	l = f.claimLane(worker, 30)
	f.equal("ClaimLanes() events", l.Events, f.events(k)[2:])
	f.ack(ackDelivered(l, 3, 40))
	f.equal("ReplayWebhook() at the end", f.replay(k, "p", cursorAt(5), 50), cursorAt(5))
	f.wantNoDueLane(1 << 30)
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{Dead: 2})
	f.equal("ReplayWebhook() of the last event", f.replay(k, "p", cursorAt(4), 60), cursorAt(4))
	f.equal("ClaimLanes() events", f.claimLane(worker, 60).Events, f.events(k)[4:])
}
