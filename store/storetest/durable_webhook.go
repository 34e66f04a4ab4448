package storetest

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

func durableWebhook(f *fixture, reopen func()) {
	keys := f.createContextWithWebhooks(owner, "c1", 2)
	f.createContextWithWebhooks(otherOwner, "c2", 1)
	f.createFinishedTask(key("over"), 10, "p")
	deleted := key("deleted")
	f.createTaskWithWebhooks(deleted, 2, "p")
	held := f.claimLanes(laneClaim(worker, 20, 9))
	f.deleteWebhook(deleted, "p", 30, true)
	for _, e := range []store.Endpoint{
		{Name: endpoint, Failures: 3, FailedAt: at(10), OpenUntil: at(500), UpdatedAt: at(20)},
		{Name: endpoint + "0", Disabled: true, Reason: "gone", UpdatedAt: at(20)},
	} {
		suite.Do(f.s.SaveEndpoint(f.ctx, e)).Must(f, "SaveEndpoint()")
	}
	type snapshot struct {
		Lanes     []store.Lane
		Letters   []store.DeadLetter
		Attempts  []store.DeliveryAttempt
		Endpoints int
		Backlog   store.WebhookBacklog
	}
	read := func() snapshot {
		f.Helper()
		f.wantNoLane(deleted, "p")
		return snapshot{
			f.lanes(store.LaneQuery{}).Lanes, f.deadLetters(store.WebhookQuery{}), f.deliveryAttempts(store.WebhookQuery{}), len(f.endpoints()), f.webhookBacklog(),
		}
	}
	before := read()
	for range 2 {
		reopen()
		f.equal("webhooks", read(), before)
	}
	f.equal("RenewLanes()", len(f.renewLanes(90_000, leaseOf(held[1].Lane))), 0)
	f.wantNoDueLane(60_009)
	f.deleteWebhook(deleted, "p", 40, true)
	reopen()
	f.wantNoDueLane(60_009)
	for i, l := range held {
		if l.Webhook.Task == deleted {
			f.equal("AckLanes() of a deleted webhook", len(f.ackLanes(ackDelivered(l, 1, 50))), 1)
			continue
		}
		f.ack(ackDelivered(l, len(l.Events), 50+i))
	}
	f.wantNoWebhook(deleted, "p", 60)
	f.appendEvents(keys[0], statusEvent(at(70), a2a.StateCompleted))
	f.replay(keys[1], "r", cursorAt(1), 70)
	reopen()
	f.equal("DeadLetters() after a replay", len(f.deadLetters(store.WebhookQuery{Owner: owner, TaskID: keys[1].ID, ID: "r"})), 1)
	want := map[string]int{fmt.Sprint(owner, "/c1-0/p"): 1, fmt.Sprint(owner, "/c1-0/r"): 1, fmt.Sprint(owner, "/c1-1/r"): 2}
	got := make(map[string]int)
	for _, l := range f.claimLanes(laneClaim(otherWorker, 80, 9)) {
		got[laneName(&l.Lane)] = len(l.Events)
	}
	f.equal("ClaimLanes() numbers of events", got, want)
}
