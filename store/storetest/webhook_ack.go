package storetest

import (
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var webhookAckTests = []test{
	{"an acknowledgement releases the lane", ackReleases},
	{"KeepLease keeps the lease", ackKeepsLease},
	{"an acknowledgement sets the fields of the lane", ackSetsLane},
	{"an acknowledgement is applied once", ackOnce},
	{"a lease is lost when another worker claims the lane", ackAfterLeaseClaimed},
	{"a lease of another worker, fence or webhook is rejected", ackOtherLease},
	{"of several acknowledgements only those with a valid lease are applied", ackSomeLost},
	{"acknowledging and renewing nothing has no effect", ackNothing},
	{"a valid lease is renewed", renewLanesHeld},
	{"a renewal reports lost leases", renewLanesLost},
}

func ackReleases(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 3, "p")
	l := f.claimLane(worker, 10)
	f.ack(ackDelivered(l, 2, 20))
	want := newLane(committedWebhook(k, "p", 2), cursorAt(2), 3, 20)
	want.Fence, want.Delivered, want.DeliveredAt = l.Fence, 2, at(20)
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.wantLeaseLost(l, 21)
	f.wantNoDueLane(19)
	l = f.claimLane(worker, 20)
	f.equal("ClaimLanes() fence", l.Fence, want.Fence+1)
	f.equal("ClaimLanes() events", l.Events, f.events(k)[2:])
	f.ack(ackDelivered(l, 1, 30))
	want.Cursor, want.Fence, want.Delivered, want.DeliveredAt, want.UpdatedAt = cursorAt(3), l.Fence, 3, at(30), at(30)
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.wantNoDueLane(1 << 30)
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{})
}

func ackKeepsLease(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 3, "p")
	l := f.claimLane(worker, 10)
	want := l.Lane
	for i := range 3 {
		a := ackDelivered(l, i+1, 20+i)
		a.KeepLease, a.Delivered = true, 1
		f.ack(a)
		want.Cursor, want.DueAt, want.UpdatedAt, want.Delivered, want.DeliveredAt = cursorAt(i+1), at(20+i), at(20+i), int64(i+1), at(20+i)
		f.equal("Lanes()", f.lane(k, "p"), want)
		f.wantNoDueLane(60_009)
		f.equal("RenewLanes()", f.renewLanes(60_010, leaseOf(l.Lane)), []store.LaneLease{})
	}
	f.appendEvents(k, deliverableEvent(40))
	f.wantNoDueLane(60_009)
	a := ackDelivered(l, 3, 50)
	a.Delivered = 0
	f.ack(a)
	f.equal("ClaimLanes() events", f.claimLane(otherWorker, 50).Events, f.events(k)[3:])
}

func ackSetsLane(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 9, "p")
	want := newLane(committedWebhook(k, "p", 8), cursorAt(0), 9, 8)
	for i, a := range []store.LaneAck{
		{Cursor: cursorAt(1), State: store.LaneActive, DueAt: at(100), Attempt: 0, Delivered: 1},
		{Cursor: cursorAt(1), State: store.LaneActive, DueAt: at(200), Attempt: 1, FailedAt: at(150)},
		{Cursor: cursorAt(1), State: store.LaneActive, DueAt: at(300), Attempt: 7, FailedAt: at(150), Reason: "a reason, é"},
		{Cursor: cursorAt(4), State: store.LaneParked, DueAt: at(400), Reason: "it has used up its attempts"},
		{Cursor: store.WebhookCursor{Seq: 5, Sequence: 3, State: "submitted"}, State: store.LaneDisabled, DueAt: at(500), Reason: "gone"},
		{Cursor: cursorAt(8), State: store.LaneActive, DueAt: at(450), Delivered: 3},
		{Cursor: store.WebhookCursor{Seq: 9, Sequence: 1 << 40}, State: store.LaneActive, Delivered: 1},
	} {
		p := laneClaim(worker, 1000*(i+1), 1)
		l := suite.Len(f, f.claimLanes(p), 1, "ClaimLanes() before acknowledgement %d", i)
		a.Lease, a.At = leaseOf(l[0].Lane), at(1000*(i+1)+9)
		f.ack(a)
		want.Cursor, want.State, want.Reason, want.DueAt, want.Attempt, want.FailedAt = a.Cursor, a.State, a.Reason, a.DueAt, a.Attempt, a.FailedAt
		want.Fence, want.UpdatedAt = want.Fence+1, a.At
		if a.Delivered > 0 {
			want.Delivered, want.DeliveredAt = want.Delivered+int64(a.Delivered), a.At
		}
		f.equal(fmt.Sprintf("Lanes() after acknowledgement %d", i), f.lane(k, "p"), want)
	}
	f.equal("WebhookBacklog()", f.webhookBacklog(), store.WebhookBacklog{})
}

func ackOnce(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 3, "p")
	l := f.claimLane(worker, 10)
	a := ackDeadLetters(l, 2, 20)
	a.Delivered = 2
	f.ack(a)
	before := f.lane(k, "p")
	for range 2 {
		f.equal("AckLanes() again", f.ackLanes(a), []store.LaneLease{a.Lease})
		f.equal("Lanes()", f.lane(k, "p"), before)
		f.equal("DeadLetters()", f.deadLetters(store.WebhookQuery{}), sortedLetters(a.Dead))
		f.equal("DeliveryAttempts()", f.deliveryAttempts(store.WebhookQuery{}), sortedAttempts(a.Attempts))
	}
	l = f.claimLane(worker, 30)
	f.equal("AckLanes() again, under the next lease", f.ackLanes(a), []store.LaneLease{a.Lease})
	f.ack(ackDeadLetters(l, 1, 40))
	f.equal("number of DeadLetters()", len(f.deadLetters(store.WebhookQuery{})), 3)
	f.equal("number of DeliveryAttempts()", len(f.deliveryAttempts(store.WebhookQuery{})), 3)
}

func ackAfterLeaseClaimed(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 2, "p")
	first := f.claimLane(worker, 10)
	second := f.claimLane(worker, 60_010)
	f.wantLeaseLost(first, 60_020)
	third := f.claimLane(otherWorker, 120_010)
	f.wantLeaseLost(first, 120_020)
	f.wantLeaseLost(second, 120_020)
	f.ack(ackDelivered(third, 2, 120_030))
	f.wantLeaseLost(third, 120_040)
}

func ackOtherLease(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 2, "p", "q")
	l := f.claimLanes(laneClaim(worker, 10, 1))[0]
	for label, change := range map[string]func(*store.LaneLease){
		"worker":     func(l *store.LaneLease) { l.Worker = otherWorker },
		"no worker":  func(l *store.LaneLease) { l.Worker = "" },
		"fence":      func(l *store.LaneLease) { l.Fence++ },
		"last fence": func(l *store.LaneLease) { l.Fence-- },
		"owner":      func(l *store.LaneLease) { l.Task.Owner = otherOwner },
		"task":       func(l *store.LaneLease) { l.Task.ID = "t2" },
		"webhook":    func(l *store.LaneLease) { l.ID = "q" },
		"absent one": func(l *store.LaneLease) { l.ID = "P" },
	} {
		a := ackDeadLetters(l, 2, 20)
		change(&a.Lease)
		f.equal("AckLanes() of another "+label, f.ackLanes(a), []store.LaneLease{a.Lease})
		f.equal("RenewLanes() of another "+label, f.renewLanes(1<<30, a.Lease), []store.LaneLease{a.Lease})
	}
	f.equal("Lanes()", f.lane(k, "p"), l.Lane)
	f.equal("Lanes()", f.lane(k, "q"), newLane(committedWebhook(k, "q", 1), cursorAt(0), 2, 1))
	f.equal("DeadLetters()", f.deadLetters(store.WebhookQuery{}), []store.DeadLetter{})
	f.equal("DeliveryAttempts()", f.deliveryAttempts(store.WebhookQuery{}), []store.DeliveryAttempt{})
	// The empty worker does not hold an unleased lane.
	free := store.LaneAck{Lease: store.LaneLease{Task: k, ID: "q", Fence: at(1).UnixMilli()}, At: at(20), Cursor: cursorAt(2), State: store.LaneActive}
	f.equal("AckLanes() of a free lane", f.ackLanes(free), []store.LaneLease{free.Lease})
	f.equal("RenewLanes() of a free lane", f.renewLanes(1<<30, free.Lease), []store.LaneLease{free.Lease})
}

func ackSomeLost(f *fixture) {
	const n = 6
	var keys []store.Key
	for i := range n {
		k := store.Key{Owner: []string{owner, otherOwner}[i%2], ID: fmt.Sprint("t", i)}
		f.createTaskWithWebhooks(k, 2, "p")
		keys = append(keys, k)
	}
	claimed := make(map[store.Key]store.ClaimedLane)
	for _, l := range f.claimLanes(laneClaim(worker, 10, n)) {
		claimed[l.Webhook.Task] = l
	}
	f.replay(keys[1], "p", cursorAt(0), 15)
	f.saveWebhook(testWebhook(keys[3], "p"), cursorAt(0), 15)
	f.deleteWebhook(keys[4], "p", 15, true)
	var acks []store.LaneAck
	var want []store.LaneLease
	for i, k := range keys {
		a := ackDeadLetters(claimed[k], 1, 20+i)
		a.Delivered = 1
		acks = append(acks, a)
		if i == 1 || i == 3 || i == 4 {
			want = append(want, a.Lease)
		}
	}
	slices.SortFunc(want, compareLeases)
	f.equal("AckLanes()", f.ackLanes(acks...), want)
	for i, k := range keys {
		q := store.WebhookQuery{Owner: k.Owner, TaskID: k.ID, ID: "p"}
		switch i {
		case 1, 3:
			f.equal("Lanes() cursor after a lost acknowledgement", f.lane(k, "p").Cursor, cursorAt(0))
			f.equal("DeadLetters() after a lost acknowledgement", f.deadLetters(q), []store.DeadLetter{})
		case 4:
			f.wantNoWebhook(k, "p", 30)
		default:
			f.equal("Lanes() cursor", f.lane(k, "p").Cursor, cursorAt(1))
			f.equal("DeadLetters()", f.deadLetters(q), acks[i].Dead)
			f.equal("DeliveryAttempts()", f.deliveryAttempts(q), acks[i].Attempts)
		}
	}
}

func ackNothing(f *fixture) {
	f.equal("AckLanes() of nothing", f.ackLanes(), []store.LaneLease{})
	f.equal("RenewLanes() of nothing", f.renewLanes(9), []store.LaneLease{})
}

func renewLanesHeld(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 1, "p")
	l := f.claimLane(worker, 10)
	for _, ms := range []int{100_000, 90_000, 200_000} {
		f.equal("RenewLanes()", f.renewLanes(ms, leaseOf(l.Lane)), []store.LaneLease{})
		want := l.Lane
		want.LeaseUntil = at(ms)
		f.equal("Lanes()", f.lane(k, "p"), want)
		f.wantNoDueLane(ms - 1)
	}
	// An ended lease is valid until another worker claims the lane.
	f.equal("RenewLanes() after the deadline", f.renewLanes(300_000, leaseOf(l.Lane)), []store.LaneLease{})
	f.wantNoDueLane(250_000)
	a := ackDelivered(l, 1, 20)
	a.KeepLease = true
	f.ack(a)
	f.equal("RenewLanes() of a lane that is not pending", f.renewLanes(400_000, leaseOf(l.Lane)), []store.LaneLease{})
	f.appendEvents(k, deliverableEvent(30))
	f.wantNoDueLane(399_999)
	f.equal("ClaimLanes() fence", f.claimLane(otherWorker, 400_000).Fence, l.Fence+1)
}

func renewLanesLost(f *fixture) {
	ids := []string{"acked", "deleted", "held", "replaced", "replayed", "taken"}
	k := key("t1")
	f.createTaskWithWebhooks(k, 2, ids...)
	claimed := f.claimLanes(laneClaim(worker, 10, 9))
	var leases []store.LaneLease
	for _, l := range claimed {
		leases = append(leases, leaseOf(l.Lane))
	}
	f.ack(ackDelivered(claimed[0], 1, 20))
	f.deleteWebhook(k, "deleted", 20, true)
	f.saveWebhook(testWebhook(k, "replaced"), cursorAt(0), 200_000)
	f.replay(k, "replayed", cursorAt(0), 200_000)
	f.renewLanes(30, leases[5])
	f.equal("ClaimLanes()", laneNames(f.claimLanes(laneClaim(otherWorker, 31, 9))), []string{owner + "/t1/acked", owner + "/t1/taken"})
	f.equal("RenewLanes()", f.renewLanes(100_000, leases...), []store.LaneLease{leases[0], leases[1], leases[3], leases[4], leases[5]})
	if got := f.lane(k, "held").LeaseUntil; !got.Equal(at(100_000)) {
		f.Errorf("LeaseUntil of the renewed lane = %v, want %v", got, at(100_000))
	}
}
