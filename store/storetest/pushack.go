package storetest

import (
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/store"
)

func pushAckTests() []test {
	return []test{
		{"an acknowledgement gives the lane back", ackReleases},
		{"an acknowledgement may hold the lane", ackHolds},
		{"an acknowledged lane is as it was told to be", ackSets},
		{"an acknowledgement counts once", ackOnce},
		{"a lease that was claimed over is lost", ackClaimedOver},
		{"a lease that is another's is lost", ackForeign},
		{"of several acknowledgements those that are held count", ackSome},
		{"nothing may be acknowledged and renewed", ackNothing},
		{"a lease is renewed while it is held", renewLanesHeld},
		{"leases that are not held any more are told by a renewal", renewLanesLost},
	}
}

func ackReleases(f *fixture) {
	k := key("t1")
	f.hooked(k, 3, "p")
	l := f.claimLane(worker, 10)
	f.ack(delivered(l, 2, 20))
	want := newLane(committedHook(k, "p", 2), place(2), 3, 20)
	want.Fence, want.Delivered, want.DeliveredAt = l.Fence, 2, at(20)
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.fenced(l, 21)
	f.notDue(19)
	l = f.claimLane(worker, 20)
	f.equal("Fence", l.Fence, want.Fence+1)
	f.equal("events", l.Events, f.events(k)[2:])
	f.ack(delivered(l, 1, 30))
	want.Cursor, want.Fence, want.Delivered, want.DeliveredAt, want.UpdatedAt = place(3), l.Fence, 3, at(30), at(30)
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.notDue(1 << 30)
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{})
}

func ackHolds(f *fixture) {
	k := key("t1")
	f.hooked(k, 3, "p")
	l := f.claimLane(worker, 10)
	want := l.Lane
	for i := range 3 {
		a := delivered(l, i+1, 20+i)
		a.Hold, a.Delivered = true, 1
		f.ack(a)
		want.Cursor, want.DueAt, want.UpdatedAt, want.Delivered, want.DeliveredAt = place(i+1), at(20+i), at(20+i), int64(i+1), at(20+i)
		f.equal("Lanes()", f.lane(k, "p"), want)
		f.notDue(60_009)
		f.equal("RenewLanes()", f.renewLanes(60_010, leaseOf(l.Lane)), []store.LaneLease{})
	}
	f.add(k, event(40))
	f.notDue(60_009)
	a := delivered(l, 3, 50)
	a.Delivered = 0
	f.ack(a)
	f.equal("events", f.claimLane(rival, 50).Events, f.events(k)[3:])
}

func ackSets(f *fixture) {
	k := key("t1")
	f.hooked(k, 9, "p")
	want := newLane(committedHook(k, "p", 8), place(0), 9, 8)
	for i, a := range []store.LaneAck{
		{Cursor: place(1), State: store.LaneActive, DueAt: at(100), Attempt: 0, Delivered: 1},
		{Cursor: place(1), State: store.LaneActive, DueAt: at(200), Attempt: 1, FailedAt: at(150)},
		{Cursor: place(1), State: store.LaneActive, DueAt: at(300), Attempt: 7, FailedAt: at(150), Reason: "a reason, é"},
		{Cursor: place(4), State: store.LaneParked, DueAt: at(400), Reason: "it has used up its attempts"},
		{Cursor: store.PushCursor{Seq: 5, Sequence: 3, State: "submitted"}, State: store.LaneDisabled, DueAt: at(500), Reason: "gone"},
		{Cursor: place(8), State: store.LaneActive, DueAt: at(450), Delivered: 3},
		{Cursor: store.PushCursor{Seq: 9, Sequence: 1 << 40}, State: store.LaneActive, Delivered: 1},
	} {
		p := laneClaim(worker, 1000*(i+1), 1)
		l := f.claimLanes(p)
		if len(l) != 1 {
			f.Fatalf("ClaimLanes() before acknowledgement %d = %v, want the lane", i, laneNames(l))
		}
		a.Lease, a.At = leaseOf(l[0].Lane), at(1000*(i+1)+9)
		f.ack(a)
		want.Cursor, want.State, want.Reason, want.DueAt, want.Attempt, want.FailedAt = a.Cursor, a.State, a.Reason, a.DueAt, a.Attempt, a.FailedAt
		want.Fence, want.UpdatedAt = want.Fence+1, a.At
		if a.Delivered > 0 {
			want.Delivered, want.DeliveredAt = want.Delivered+int64(a.Delivered), a.At
		}
		f.equal(fmt.Sprintf("Lanes() after acknowledgement %d", i), f.lane(k, "p"), want)
	}
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{})
}

func ackOnce(f *fixture) {
	k := key("t1")
	f.hooked(k, 3, "p")
	l := f.claimLane(worker, 10)
	a := noted(l, 2, 20)
	a.Delivered = 2
	f.ack(a)
	before := f.lane(k, "p")
	for range 2 {
		f.equal("AckLanes() again", f.lost(a), []store.LaneLease{a.Lease})
		f.equal("Lanes()", f.lane(k, "p"), before)
		f.equal("DeadLetters()", f.letters(store.PushQuery{}), sortedLetters(a.Dead))
		f.equal("PushAttempts()", f.attempts(store.PushQuery{}), sortedAttempts(a.Attempts))
	}
	l = f.claimLane(worker, 30)
	f.equal("AckLanes() again, under the next lease", f.lost(a), []store.LaneLease{a.Lease})
	f.ack(noted(l, 1, 40))
	f.equal("number of DeadLetters()", len(f.letters(store.PushQuery{})), 3)
	f.equal("number of PushAttempts()", len(f.attempts(store.PushQuery{})), 3)
}

func ackClaimedOver(f *fixture) {
	k := key("t1")
	f.hooked(k, 2, "p")
	first := f.claimLane(worker, 10)
	second := f.claimLane(worker, 60_010)
	f.fenced(first, 60_020)
	third := f.claimLane(rival, 120_010)
	f.fenced(first, 120_020)
	f.fenced(second, 120_020)
	f.ack(delivered(third, 2, 120_030))
	f.fenced(third, 120_040)
}

func ackForeign(f *fixture) {
	k := key("t1")
	f.hooked(k, 2, "p", "q")
	l := f.claimLanes(laneClaim(worker, 10, 1))[0]
	for what, change := range map[string]func(*store.LaneLease){
		"worker":     func(l *store.LaneLease) { l.Worker = rival },
		"no worker":  func(l *store.LaneLease) { l.Worker = "" },
		"fence":      func(l *store.LaneLease) { l.Fence++ },
		"last fence": func(l *store.LaneLease) { l.Fence-- },
		"owner":      func(l *store.LaneLease) { l.Task.Owner = other },
		"task":       func(l *store.LaneLease) { l.Task.ID = "t2" },
		"webhook":    func(l *store.LaneLease) { l.ID = "q" },
		"absent one": func(l *store.LaneLease) { l.ID = "P" },
	} {
		a := noted(l, 2, 20)
		change(&a.Lease)
		f.equal("AckLanes() of another "+what, f.lost(a), []store.LaneLease{a.Lease})
		f.equal("RenewLanes() of another "+what, f.renewLanes(1<<30, a.Lease), []store.LaneLease{a.Lease})
	}
	f.equal("Lanes()", f.lane(k, "p"), l.Lane)
	f.equal("Lanes()", f.lane(k, "q"), newLane(committedHook(k, "q", 1), place(0), 2, 1))
	f.equal("DeadLetters()", f.letters(store.PushQuery{}), []store.DeadLetter{})
	f.equal("PushAttempts()", f.attempts(store.PushQuery{}), []store.PushAttempt{})
	// A lane that nobody holds has no lease with an empty name.
	free := store.LaneAck{Lease: store.LaneLease{Task: k, ID: "q", Fence: at(1).UnixMilli()}, At: at(20), Cursor: place(2), State: store.LaneActive}
	f.equal("AckLanes() of a free lane", f.lost(free), []store.LaneLease{free.Lease})
	f.equal("RenewLanes() of a free lane", f.renewLanes(1<<30, free.Lease), []store.LaneLease{free.Lease})
}

func ackSome(f *fixture) {
	const n = 6
	var keys []store.Key
	for i := range n {
		k := store.Key{Owner: []string{owner, other}[i%2], ID: fmt.Sprint("t", i)}
		f.hooked(k, 2, "p")
		keys = append(keys, k)
	}
	claimed := make(map[store.Key]store.ClaimedLane)
	for _, l := range f.claimLanes(laneClaim(worker, 10, n)) {
		claimed[l.Config.Task] = l
	}
	f.replay(keys[1], "p", place(0), 15)
	f.savePush(hook(keys[3], "p"), place(0), 15)
	f.deletePush(keys[4], "p", 15, true)
	var acks []store.LaneAck
	var want []store.LaneLease
	for i, k := range keys {
		a := noted(claimed[k], 1, 20+i)
		a.Delivered = 1
		acks = append(acks, a)
		if i == 1 || i == 3 || i == 4 {
			want = append(want, a.Lease)
		}
	}
	slices.SortFunc(want, compareLeases)
	f.equal("AckLanes()", f.lost(acks...), want)
	for i, k := range keys {
		q := store.PushQuery{Owner: k.Owner, TaskID: k.ID, ID: "p"}
		switch i {
		case 1, 3:
			f.equal("Cursor of a lost lane", f.lane(k, "p").Cursor, place(0))
			f.equal("DeadLetters() of a lost lane", f.letters(q), []store.DeadLetter{})
		case 4:
			f.undeletable(k, "p", 30)
		default:
			f.equal("Cursor", f.lane(k, "p").Cursor, place(1))
			f.equal("DeadLetters()", f.letters(q), acks[i].Dead)
			f.equal("PushAttempts()", f.attempts(q), acks[i].Attempts)
		}
	}
}

func ackNothing(f *fixture) {
	f.equal("AckLanes() of nothing", f.lost(), []store.LaneLease{})
	f.equal("RenewLanes() of nothing", f.renewLanes(9), []store.LaneLease{})
}

func renewLanesHeld(f *fixture) {
	k := key("t1")
	f.hooked(k, 1, "p")
	l := f.claimLane(worker, 10)
	for _, ms := range []int{100_000, 90_000, 200_000} {
		f.equal("RenewLanes()", f.renewLanes(ms, leaseOf(l.Lane)), []store.LaneLease{})
		want := l.Lane
		want.LeaseUntil = at(ms)
		f.equal("Lanes()", f.lane(k, "p"), want)
		f.notDue(ms - 1)
	}
	// It may have ended, as long as nobody has taken it.
	f.equal("RenewLanes() late", f.renewLanes(300_000, leaseOf(l.Lane)), []store.LaneLease{})
	f.notDue(250_000)
	a := delivered(l, 1, 20)
	a.Hold = true
	f.ack(a)
	f.equal("RenewLanes() with nothing to send", f.renewLanes(400_000, leaseOf(l.Lane)), []store.LaneLease{})
	f.add(k, event(30))
	f.notDue(399_999)
	f.equal("Fence", f.claimLane(rival, 400_000).Fence, l.Fence+1)
}

func renewLanesLost(f *fixture) {
	ids := []string{"acked", "deleted", "held", "replaced", "replayed", "taken"}
	k := key("t1")
	f.hooked(k, 2, ids...)
	claimed := f.claimLanes(laneClaim(worker, 10, 9))
	var leases []store.LaneLease
	for _, l := range claimed {
		leases = append(leases, leaseOf(l.Lane))
	}
	f.ack(delivered(claimed[0], 1, 20))
	f.deletePush(k, "deleted", 20, true)
	f.savePush(hook(k, "replaced"), place(0), 200_000)
	f.replay(k, "replayed", place(0), 200_000)
	f.renewLanes(30, leases[5])
	f.equal("ClaimLanes()", laneNames(f.claimLanes(laneClaim(rival, 31, 9))), []string{owner + "/t1/acked", owner + "/t1/taken"})
	f.equal("RenewLanes()", f.renewLanes(100_000, leases...), []store.LaneLease{leases[0], leases[1], leases[3], leases[4], leases[5]})
	if got := f.lane(k, "held").LeaseUntil; !got.Equal(at(100_000)) {
		f.Errorf("LeaseUntil of what is held = %v, want %v", got, at(100_000))
	}
}
