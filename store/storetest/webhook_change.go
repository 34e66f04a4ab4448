package storetest

import (
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var webhookMoveTests = []test{
	{"an unleased webhook is deleted at once", webhookDeleted},
	{"a leased webhook is removed from reads and busy until it is released", webhookDeletedBusy},
	{"a leased webhook is busy until its lease ends", webhookDeletedLeaseEnds},
	{"no method finds a deleted webhook", webhookDeletedInvisible},
	{"a deleted webhook can be saved again", webhookDeletedSaved},
	{"a recreated webhook does not accept an old lease", webhookRecreated},
	{"a lane with a revoked lease waits for its worker", leaseOfLaneRevoked},
	{"a lane with a revoked lease can be claimed after LeaseUntil", revokedLeaseEnds},
	{"a lane with a revoked lease can be deleted", revokedLaneDeleted},
	{"a replayed lane sends its events again", webhookReplayed},
	{"a replay removes the dead letters after the cursor", webhookReplayedLetters},
	{"a replayed lane is active and due", webhookReplayedState},
	{"a replay never moves a lane forward", webhookReplayedForward},
	{"lanes of an endpoint are woken, the first due first", lanesWoken},
	{"lanes that are leased, due or not pending are not woken", lanesNotWoken},
	{"watchers are notified of lanes that become due", lanesWatched},
}

func webhookDeleted(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 2, "due", "acked", "idle", "kept")
	f.ack(ackDeadLetters(f.claimLanes(laneClaim(worker, 10, 1))[0], 1, 20)) // of "acked"
	f.appendEvents(k, deliverableEvent(30))
	f.wantNoWebhook(k, "absent", 30)
	f.wantNoWebhook(k, "Due", 30)
	for _, id := range []string{"acked", "due", "idle"} {
		f.deleteWebhook(k, id, 30, false)
		f.wantNoWebhook(k, id, 30)
	}
	f.equal("Lanes()", len(f.lanes(store.LaneQuery{}).Lanes), 1)
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{Pending: 1})
	f.equal("DeadLetters()", f.deadLetters(store.WebhookQuery{}), []store.DeadLetter{})
	f.equal("DeliveryAttempts()", f.deliveryAttempts(store.WebhookQuery{}), []store.DeliveryAttempt{})
	f.equal("ClaimLanes()", laneNames(f.claimLanes(laneClaim(worker, 1<<30, 9))), []string{owner + "/t1/kept"})
}

func webhookDeletedBusy(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 2, "p")
	first := f.claimLane(worker, 10)
	a := ackDeadLetters(first, 1, 20)
	a.KeepLease = true
	f.ack(a)
	f.deleteWebhook(k, "p", 30, true)
	f.deleteWebhook(k, "p", 40, true)
	f.equal("RenewLanes()", f.renewLanes(500_000, leaseOf(first.Lane)), []store.LaneLease{leaseOf(first.Lane)})
	f.deleteWebhook(k, "p", 60_009, true)
	foreign := ackDelivered(first, 1, 50)
	foreign.Lease.Fence--
	f.equal("AckLanes() of another lease", f.ackLanes(foreign), []store.LaneLease{foreign.Lease})
	f.deleteWebhook(k, "p", 60, true)
	f.equal("AckLanes()", f.ackLanes(ackDeadLetters(first, 2, 70)), []store.LaneLease{leaseOf(first.Lane)})
	f.wantNoWebhook(k, "p", 80)
	f.wantNoLane(k, "p")
	f.appendEvents(k, deliverableEvent(90))
	f.wantNoDueLane(1 << 30)
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{})

	f.saveWebhook(testWebhook(k, "p"), cursorAt(0), 100)
	held := f.claimLane(worker, 100)
	f.deleteWebhook(k, "p", 110, true)
	hold := ackDelivered(held, 1, 120)
	hold.KeepLease = true
	f.equal("AckLanes() with KeepLease", f.ackLanes(hold), []store.LaneLease{hold.Lease})
	f.deleteWebhook(k, "p", 130, true) // its worker may still send
	hold.KeepLease = false
	f.equal("AckLanes()", f.ackLanes(hold), []store.LaneLease{hold.Lease})
	f.wantNoWebhook(k, "p", 140)
}

func webhookDeletedLeaseEnds(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 2, "p", "q", "r")
	l := f.claimLanes(laneClaim(worker, 10, 9))
	f.deleteWebhook(k, "p", 60_009, true)
	f.deleteWebhook(k, "p", 60_010, false)
	f.wantNoWebhook(k, "p", 60_011)
	f.equal("AckLanes() after the lane was removed", f.ackLanes(ackDeadLetters(l[0], 1, 60_012)), []store.LaneLease{leaseOf(l[0].Lane)})
	f.deleteWebhook(k, "q", 60_010, false)
	f.wantNoWebhook(k, "q", 60_011)

	// A store may remove it in ClaimLanes or in DeleteWebhook.
	f.deleteWebhook(k, "r", 60_000, true)
	f.wantNoDueLane(70_000)
	if busy, err := f.s.DeleteWebhook(f.ctx, k, "r", at(70_000)); busy || err != nil && !errors.Is(err, store.ErrNotFound) {
		f.Errorf("DeleteWebhook() after the lease ended = %t, %v, want false, nil or ErrNotFound", busy, err)
	}
	f.wantNoWebhook(k, "r", 70_001)
	f.equal("Lanes()", f.lanes(store.LaneQuery{}), store.LanePage{})
}

func webhookDeletedInvisible(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 2, "p", "parked")
	l := f.claimLanes(laneClaim(worker, 10, 9))
	parked := ackDeadLetters(l[1], 1, 20)
	parked.State, parked.KeepLease = store.LaneParked, true
	f.ack(parked)
	f.deleteWebhook(k, "p", 30, true)
	f.deleteWebhook(k, "parked", 30, true)
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{})
	f.equal("Lanes()", f.lanes(store.LaneQuery{States: []store.LaneState{store.LaneActive, store.LaneParked}}), store.LanePage{})
	suite.Call(f.s.ReplayWebhook(f.ctx, k, "p", cursorAt(0), at(40))).Fails(f, store.ErrNotFound, "ReplayWebhook()")
	f.equal("WakeLanes()", f.wakeLanes(endpoint, 0, 9), 0)
	f.appendEvents(k, deliverableEvent(50))
	p := laneClaim(otherWorker, 60, 9)
	p.Takeover, p.Horizon = true, time.Millisecond
	f.equal("ClaimLanes() with Takeover", laneNames(f.claimLanes(p)), []string{})
	f.equal("ClaimLanes() later", laneNames(f.claimLanes(laneClaim(otherWorker, 1<<30, 9))), []string{})
	f.wantNoLane(k, "p")
	f.wantNoLane(k, "parked")
	f.task(k)
}

func webhookDeletedSaved(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 3, "p")
	l := f.claimLane(worker, 10)
	a := ackDeadLetters(l, 2, 20)
	a.KeepLease, a.Delivered = true, 2
	f.ack(a)
	f.deleteWebhook(k, "p", 30, true)
	c := testWebhook(k, "p")
	c.CreatedAt, c.Endpoint = at(35), "http://q.example:80"
	got := f.saveWebhook(c, cursorAt(1), 40)
	want := newLane(c, cursorAt(1), 3, 40)
	if got.Fence <= l.Fence {
		f.Errorf("SaveWebhook() of a deleted webhook = fence %d, want more than %d", got.Fence, l.Fence)
	}
	want.Fence, want.LeaseUntil = got.Fence, l.LeaseUntil
	f.equal("SaveWebhook()", got, want)
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.equal("DeadLetters()", f.deadLetters(store.WebhookQuery{}), []store.DeadLetter{})
	f.equal("DeliveryAttempts()", f.deliveryAttempts(store.WebhookQuery{}), []store.DeliveryAttempt{})
	f.wantNoDueLane(59_000)
	f.wantLeaseLost(l, 45)
	want.LeaseUntil = time.Time{}
	f.equal("Lanes()", f.lane(k, "p"), want)
	next := f.claimLane(worker, 50)
	f.equal("ClaimLanes() events", next.Events, f.events(k)[1:])
	f.wantLeaseLost(l, 55)
	f.deleteWebhook(k, "p", 60, true)

	brings := withWebhook(k, 3, "p") // a commit may recreate it too
	f.commit(brings)
	f.wantLeaseLost(next, 70)
	f.equal("ClaimLanes() events", f.claimLane(otherWorker, 70).Events, f.events(k))
}

// withWebhook returns a change without events that registers a webhook.
func withWebhook(k store.Key, version int64, id string) store.Change {
	c := changeAt(k, version)
	c.Webhooks = testWebhooks(id)
	return c
}

func webhookRecreated(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 2)
	f.saveWebhook(testWebhook(k, "p"), cursorAt(0), 10)
	l := f.claimLane(worker, 10)
	f.deleteWebhook(k, "p", 60_010, false)
	f.saveWebhook(testWebhook(k, "p"), cursorAt(0), 60_011)
	f.equal("ClaimLanes()", len(f.claimLanes(laneClaim(worker, 60_011, 9))), 1)
	f.wantLeaseLost(l, 60_012)

	c := taskWithWebhooks(key("t2"), 1, "p")
	c.Create.ContextID = "c1"
	f.commit(c)
	l = f.claimLane(worker, 60_013)
	f.deleteContext("c1", 1, 9)
	c.Events[0].Time = at(70_000)
	f.commit(c)
	f.equal("ClaimLanes()", laneNames(f.claimLanes(laneClaim(worker, 70_000, 9))), []string{owner + "/t2/p"})
	f.wantLeaseLost(l, 70_001)
}

// revokers returns the ways to revoke the lease of a lane, by the id of its webhook.
func (f *fixture) revokers(k store.Key) map[string]func(ms int) {
	return map[string]func(ms int){
		"brought": func(ms int) {
			c := changeAt(k, f.task(k).Seq, deliverableEvent(ms))
			c.Webhooks = testWebhooks("brought")
			f.commit(c)
		},
		"replaced": func(ms int) { f.saveWebhook(testWebhook(k, "replaced"), cursorAt(0), ms) },
		"replayed": func(ms int) { f.replay(k, "replayed", cursorAt(0), ms) },
	}
}

func leaseOfLaneRevoked(f *fixture) {
	for _, id := range []string{"brought", "replaced", "replayed"} {
		k := key(id)
		f.createTaskWithWebhooks(k, 2, id)
		take := f.revokers(k)[id]
		l := f.claimLane(worker, 10)
		take(20)
		want := f.lane(k, id)
		f.equal(id+": Worker, Fence and LeaseUntil after a revocation", []any{want.Worker, want.Fence, want.LeaseUntil}, []any{"", l.Fence + 1, l.LeaseUntil})
		for _, who := range []string{worker, otherWorker} {
			f.equal(id+": ClaimLanes()", laneNames(f.claimLanes(laneClaim(who, 60_009, 9))), []string{})
		}
		f.equal(id+": WakeLanes()", f.wakeLanes(endpoint, 0, 9), 0)
		f.equal(id+": RenewLanes()", f.renewLanes(500_000, leaseOf(l.Lane)), []store.LaneLease{leaseOf(l.Lane)})
		hold, older := ackDelivered(l, 1, 30), ackDelivered(l, 1, 30)
		hold.KeepLease = true
		older.Lease.Fence--
		f.equal(id+": AckLanes()", len(f.ackLanes(hold, older)), 2)
		f.equal(id+": Lanes() after acknowledgements that do not release the lease", f.lane(k, id), want)
		take(40)
		f.equal(id+": Fence after a second revocation", f.lane(k, id).Fence, l.Fence+1)
		f.wantNoDueLane(60_009)
		hold.KeepLease = false
		f.equal(id+": AckLanes()", f.ackLanes(hold), []store.LaneLease{hold.Lease})
		f.equal(id+": LeaseUntil", f.lane(k, id).LeaseUntil, time.Time{})
		again := f.claimLane(otherWorker, 41)
		f.equal(id+": events", again.Events, f.events(k))
		f.equal(id+": AckLanes() once more", f.ackLanes(hold), []store.LaneLease{hold.Lease})
		f.wantNoDueLane(60_000)
		f.ack(ackDelivered(again, len(again.Events), 50))
	}
}

func revokedLeaseEnds(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 2, "brought", "replaced", "replayed")
	l := f.claimLanes(laneClaim(worker, 10, 9))
	takers := f.revokers(k)
	for _, c := range l {
		takers[c.Webhook.ID](20)
	}
	f.wantNoDueLane(60_009)
	f.equal("ClaimLanes()", len(f.claimLanes(laneClaim(otherWorker, 60_010, 9))), 3)
	for _, c := range l {
		f.wantLeaseLost(c, 60_020) // the other worker holds them
	}
	p := laneClaim(worker, 60_030, 9)
	p.Takeover = true
	for _, c := range l {
		takers[c.Webhook.ID](60_030)
	}
	claimed := f.claimLanes(p)
	f.equal("ClaimLanes() with Takeover", len(claimed), 3)
	for _, c := range claimed {
		f.ack(ackDelivered(c, len(c.Events), 60_035))
	}

	idle := key("t2") // not pending
	f.createTaskWithWebhooks(idle, 1, "replaced")
	held := f.claimLane(worker, 60_040)
	done := ackDelivered(held, 1, 60_050)
	done.KeepLease = true
	f.ack(done)
	f.revokers(idle)["replaced"](60_060)
	f.appendEvents(idle, deliverableEvent(60_070))
	f.wantNoDueLane(120_039)
	f.equal("ClaimLanes() events", f.claimLane(otherWorker, 120_040).Events, f.events(idle)[1:])
}

func revokedLaneDeleted(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 2, "brought", "replaced", "replayed")
	takers := f.revokers(k)
	for _, c := range f.claimLanes(laneClaim(worker, 10, 9)) {
		id := c.Webhook.ID
		takers[id](20)
		f.deleteWebhook(k, id, 30, true)
		f.equal("RenewLanes()", f.renewLanes(500_000, leaseOf(c.Lane)), []store.LaneLease{leaseOf(c.Lane)})
		if id == "replaced" { // save it again before its worker learns of the revocation
			got := f.saveWebhook(testWebhook(k, id), cursorAt(0), 40)
			f.equal("SaveWebhook() fence and LeaseUntil", []any{got.Fence, got.LeaseUntil}, []any{c.Fence + 1, c.LeaseUntil})
			f.deleteWebhook(k, id, 60_009, true)
		}
		a := ackDelivered(c, 1, 50)
		f.equal("AckLanes()", f.ackLanes(a), []store.LaneLease{a.Lease})
		f.wantNoWebhook(k, id, 60)
	}
	f.equal("Lanes()", f.lanes(store.LaneQuery{}), store.LanePage{})
}

func lanesWoken(f *fixture) {
	due := map[string]int{"t1": 5000, "t2": 3000, "t3": 4000, "t4": 101, "t5": 100}
	f.createDueLanes(owner, due)
	f.createDueLanes(otherOwner, map[string]int{"t6": 3500})
	elsewhere := testWebhook(key("t1"), "q")
	elsewhere.Endpoint = endpoint + "0"
	f.saveWebhook(elsewhere, cursorAt(0), 2000)
	before := f.lanes(store.LaneQuery{}).Lanes
	f.equal("WakeLanes()", f.wakeLanes(endpoint, 100, 3), 3)
	woken := map[string]bool{owner + "/t4/p": true, owner + "/t2/p": true, otherOwner + "/t6/p": true}
	for i := range before {
		if woken[laneName(&before[i])] {
			before[i].DueAt = at(100)
		}
	}
	f.equal("Lanes()", f.lanes(store.LaneQuery{}).Lanes, before)
	f.equal("ClaimLanes()", laneNames(f.claimLanes(laneClaim(worker, 100, 9))),
		[]string{owner + "/t2/p", otherOwner + "/t6/p", owner + "/t4/p", owner + "/t5/p"})
	f.equal("WakeLanes() with limit 0", f.wakeLanes(endpoint, 100, 0), 0)
	f.equal("WakeLanes() of the others", f.wakeLanes(endpoint, 200, 9), 2)
	f.equal("WakeLanes() again", f.wakeLanes(endpoint, 200, 9), 0)
	f.equal("ClaimLanes()", laneNames(f.claimLanes(laneClaim(worker, 200, 9))), []string{owner + "/t1/p", owner + "/t3/p"})
}

func lanesNotWoken(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 2, "held", "idle", "retries", "parked", "moved")
	for _, l := range f.claimLanes(laneClaim(worker, 10, 9)) {
		a := ackFailed(l, 20, 9000)
		switch l.Webhook.ID {
		case "held":
			a.KeepLease = true
		case "idle":
			a = ackDelivered(l, 2, 9000)
		case "parked":
			a.State = store.LaneParked
		case "moved":
			f.ack(a)
			c := testWebhook(k, "moved")
			c.Endpoint = "http://q.example:80"
			f.saveWebhook(c, cursorAt(0), 9000)
			continue
		}
		f.ack(a)
	}
	before := f.lanes(store.LaneQuery{}).Lanes
	f.equal("WakeLanes() of another endpoint", f.wakeLanes("https://hooks.example", 30, 9), 0)
	f.equal("WakeLanes() when all are due", f.wakeLanes(endpoint, 9000, 9), 0)
	f.equal("Lanes()", f.lanes(store.LaneQuery{}).Lanes, before)
	f.equal("WakeLanes()", f.wakeLanes(endpoint, 30, 9), 2) // in any state
	for i, l := range before {
		if l.Webhook.ID == "parked" || l.Webhook.ID == "retries" {
			before[i].DueAt = at(30)
		}
	}
	f.equal("Lanes()", f.lanes(store.LaneQuery{}).Lanes, before)
	f.equal("WakeLanes() of the new endpoint", f.wakeLanes("http://q.example:80", 30, 9), 1)
	f.equal("WakeLanes() of the previous endpoint", f.wakeLanes(endpoint, 20, 9), 2)
}

// lanesWatched repeats each call until the watcher is called, since calls may be late or lost.
func lanesWatched(f *fixture) {
	notified := make(chan struct{}, 1)
	stop := f.s.WatchLanes(func() {
		select {
		case notified <- struct{}{}:
		default:
		}
	})
	k := key("t1")
	f.createTaskWithWebhooks(k, 1, "p")
	for _, test := range []struct {
		label   string
		pending bool // before
		call    func()
	}{
		{"a commit", false, func() { f.appendEvents(k, deliverableEvent(10)) }},
		{"a save", true, func() { f.saveWebhook(testWebhook(k, "p"), cursorAt(0), 10) }},
		{"a replay", false, func() { f.replay(k, "p", cursorAt(0), 10) }},
		{"a wake-up", true, func() { f.wakeLanes(endpoint, 5, 9) }},
		{"a claim of a task", false, func() {
			c := changeAt(k, f.task(k).Seq)
			c.Queue = queued()
			f.commit(c)
			f.claim(claimAt(worker, at(10), 9))
		}},
	} {
		f.replay(k, "p", cursorAt(0), 100)
		if !test.pending {
			l := f.claimLane(worker, 100)
			f.ack(ackDelivered(l, len(l.Events), 100))
		}
		select {
		case <-notified:
		default:
		}
		if !retryUntilNotified(notified, test.call) {
			f.Fatalf("watcher was not called for a lane that became due by %s", test.label)
		}
	}
	stop()
	f.appendEvents(k, deliverableEvent(10))
}

// retryUntilNotified repeats a call until a notification arrives, for up to a minute.
func retryUntilNotified(notified <-chan struct{}, call func()) bool {
	for range 600 {
		call()
		select {
		case <-notified:
			return true
		case <-time.After(100 * time.Millisecond):
		}
	}
	return false
}
