package storetest

import (
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

func pushMoveTests() []test {
	return []test{
		{"a webhook that nobody holds is deleted at once", pushDeleted},
		{"a webhook that is held is gone for reads and busy until it is acknowledged", pushDeletedBusy},
		{"a webhook that is held is busy until its lease ends", pushDeletedLate},
		{"a deleted webhook is no use to anybody", pushDeletedHidden},
		{"a webhook that was deleted may be saved again", pushDeletedSaved},
		{"a webhook made again does not accept an old lease", pushMadeAgain},
		{"a lane whose lease was taken away waits for its worker", pushTaken},
		{"a lane whose lease was taken away waits no longer than for its end", pushTakenLate},
		{"a lane whose lease was taken away is deleted", pushTakenDeleted},
		{"a lane that was set back tells again", pushReplayed},
		{"a lane that was set back loses what was noted behind", pushReplayedLetters},
		{"a lane that was set back is active and due", pushReplayedState},
		{"a lane is never set forward", pushReplayedForward},
		{"lanes of an endpoint are woken, the longest due first", lanesWoken},
		{"lanes that do not wait are not woken", lanesNotWoken},
		{"who watches is told of lanes that become due", lanesWatched},
	}
}

func pushDeleted(f *fixture) {
	k := key("t1")
	f.hooked(k, 2, "due", "acked", "idle", "kept")
	f.ack(noted(f.claimLanes(laneClaim(worker, 10, 1))[0], 1, 20)) // of "acked"
	f.add(k, event(30))
	f.undeletable(k, "absent", 30)
	f.undeletable(k, "Due", 30)
	for _, id := range []string{"acked", "due", "idle"} {
		f.deletePush(k, id, 30, false)
		f.undeletable(k, id, 30)
	}
	f.equal("Lanes()", len(f.lanes(store.LaneQuery{}).Lanes), 1)
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{Pending: 1})
	f.equal("DeadLetters()", f.letters(store.PushQuery{}), []store.DeadLetter{})
	f.equal("PushAttempts()", f.attempts(store.PushQuery{}), []store.PushAttempt{})
	f.equal("ClaimLanes()", laneNames(f.claimLanes(laneClaim(worker, 1<<30, 9))), []string{owner + "/t1/kept"})
}

func pushDeletedBusy(f *fixture) {
	k := key("t1")
	f.hooked(k, 2, "p")
	first := f.claimLane(worker, 10)
	a := noted(first, 1, 20)
	a.Hold = true
	f.ack(a)
	f.deletePush(k, "p", 30, true)
	f.deletePush(k, "p", 40, true)
	f.equal("RenewLanes()", f.renewLanes(500_000, leaseOf(first.Lane)), []store.LaneLease{leaseOf(first.Lane)})
	f.deletePush(k, "p", 60_009, true)
	foreign := delivered(first, 1, 50)
	foreign.Lease.Fence--
	f.equal("AckLanes() of another lease", f.lost(foreign), []store.LaneLease{foreign.Lease})
	f.deletePush(k, "p", 60, true)
	f.equal("AckLanes()", f.lost(noted(first, 2, 70)), []store.LaneLease{leaseOf(first.Lane)})
	f.undeletable(k, "p", 80)
	f.noLane(k, "p")
	f.add(k, event(90))
	f.notDue(1 << 30)
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{})

	f.savePush(hook(k, "p"), place(0), 100)
	held := f.claimLane(worker, 100)
	f.deletePush(k, "p", 110, true)
	hold := delivered(held, 1, 120)
	hold.Hold = true
	f.equal("AckLanes() that would hold it", f.lost(hold), []store.LaneLease{hold.Lease})
	f.deletePush(k, "p", 130, true) // its worker may have gone on
	hold.Hold = false
	f.equal("AckLanes()", f.lost(hold), []store.LaneLease{hold.Lease})
	f.undeletable(k, "p", 140)
}

func pushDeletedLate(f *fixture) {
	k := key("t1")
	f.hooked(k, 2, "p", "q", "r")
	l := f.claimLanes(laneClaim(worker, 10, 9))
	f.deletePush(k, "p", 60_009, true)
	f.deletePush(k, "p", 60_010, false)
	f.undeletable(k, "p", 60_011)
	f.equal("AckLanes() once it is removed", f.lost(noted(l[0], 1, 60_012)), []store.LaneLease{leaseOf(l[0].Lane)})
	f.deletePush(k, "q", 60_010, false)
	f.undeletable(k, "q", 60_011)

	// Whoever looks for work may remove it, or it is removed when it is asked about.
	f.deletePush(k, "r", 60_000, true)
	f.notDue(70_000)
	if busy, err := f.s.DeletePush(f.ctx, k, "r", at(70_000)); busy || err != nil && !errors.Is(err, store.ErrNotFound) {
		f.Errorf("DeletePush() after the lease has ended = %t, %v, want it gone", busy, err)
	}
	f.undeletable(k, "r", 70_001)
	f.equal("Lanes()", f.lanes(store.LaneQuery{}), store.LanePage{})
}

func pushDeletedHidden(f *fixture) {
	k := key("t1")
	f.hooked(k, 2, "p", "parked")
	l := f.claimLanes(laneClaim(worker, 10, 9))
	parked := noted(l[1], 1, 20)
	parked.State, parked.Hold = store.LaneParked, true
	f.ack(parked)
	f.deletePush(k, "p", 30, true)
	f.deletePush(k, "parked", 30, true)
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{})
	f.equal("Lanes()", f.lanes(store.LaneQuery{States: []store.LaneState{store.LaneActive, store.LaneParked}}), store.LanePage{})
	if _, err := f.s.ReplayPush(f.ctx, k, "p", place(0), at(40)); !errors.Is(err, store.ErrNotFound) {
		f.Errorf("ReplayPush() = %v, want ErrNotFound", err)
	}
	f.equal("WakeLanes()", f.wake(endpoint, 0, 9), 0)
	f.add(k, event(50))
	p := laneClaim(rival, 60, 9)
	p.Takeover, p.Horizon = true, time.Millisecond
	f.equal("ClaimLanes() with Takeover", laneNames(f.claimLanes(p)), []string{})
	f.equal("ClaimLanes() later", laneNames(f.claimLanes(laneClaim(rival, 1<<30, 9))), []string{})
	f.noLane(k, "p")
	f.noLane(k, "parked")
	f.task(k)
}

func pushDeletedSaved(f *fixture) {
	k := key("t1")
	f.hooked(k, 3, "p")
	l := f.claimLane(worker, 10)
	a := noted(l, 2, 20)
	a.Hold, a.Delivered = true, 2
	f.ack(a)
	f.deletePush(k, "p", 30, true)
	c := hook(k, "p")
	c.CreatedAt, c.Endpoint = at(35), "http://q.example:80"
	got := f.savePush(c, place(1), 40)
	want := newLane(c, place(1), 3, 40)
	if got.Fence <= l.Fence {
		f.Errorf("Fence of a webhook saved again = %d, want more than %d", got.Fence, l.Fence)
	}
	want.Fence, want.LeaseUntil = got.Fence, l.LeaseUntil
	f.equal("SavePush()", got, want)
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.equal("DeadLetters()", f.letters(store.PushQuery{}), []store.DeadLetter{})
	f.equal("PushAttempts()", f.attempts(store.PushQuery{}), []store.PushAttempt{})
	f.notDue(59_000)
	f.fenced(l, 45)
	want.LeaseUntil = time.Time{}
	f.equal("Lanes()", f.lane(k, "p"), want)
	next := f.claimLane(worker, 50)
	f.equal("events", next.Events, f.events(k)[1:])
	f.fenced(l, 55)
	f.deletePush(k, "p", 60, true)

	brings := withPush(k, 3, "p") // a change may make it again as well
	f.commit(brings)
	f.fenced(next, 70)
	f.equal("events", f.claimLane(rival, 70).Events, f.events(k))
}

// withPush is a change without events that brings a webhook.
func withPush(k store.Key, version int64, id string) store.Change {
	c := next(k, version)
	c.Push = newHooks(id)
	return c
}

func pushMadeAgain(f *fixture) {
	k := key("t1")
	f.hooked(k, 2)
	f.savePush(hook(k, "p"), place(0), 10)
	l := f.claimLane(worker, 10)
	f.deletePush(k, "p", 60_010, false)
	f.savePush(hook(k, "p"), place(0), 60_011)
	f.equal("ClaimLanes()", len(f.claimLanes(laneClaim(worker, 60_011, 9))), 1)
	f.fenced(l, 60_012)

	c := hookedTask(key("t2"), 1, "p")
	c.Create.ContextID = "c1"
	f.commit(c)
	l = f.claimLane(worker, 60_013)
	f.remove("c1", 1, 9)
	c.Events[0].Time = at(70_000)
	f.commit(c)
	f.equal("ClaimLanes()", laneNames(f.claimLanes(laneClaim(worker, 70_000, 9))), []string{owner + "/t2/p"})
	f.fenced(l, 70_001)
}

// takers are the ways to take a lane's lease away, by the webhook's id.
func (f *fixture) takers(k store.Key) map[string]func(ms int) {
	return map[string]func(ms int){
		"brought": func(ms int) {
			c := next(k, f.task(k).Seq, event(ms))
			c.Push = newHooks("brought")
			f.commit(c)
		},
		"replaced": func(ms int) { f.savePush(hook(k, "replaced"), place(0), ms) },
		"replayed": func(ms int) { f.replay(k, "replayed", place(0), ms) },
	}
}

func pushTaken(f *fixture) {
	for _, id := range []string{"brought", "replaced", "replayed"} {
		k := key(id)
		f.hooked(k, 2, id)
		take := f.takers(k)[id]
		l := f.claimLane(worker, 10)
		take(20)
		want := f.lane(k, id)
		f.equal(id+": Worker, Fence and LeaseUntil", []any{want.Worker, want.Fence, want.LeaseUntil}, []any{"", l.Fence + 1, l.LeaseUntil})
		for _, who := range []string{worker, rival} {
			f.equal(id+": ClaimLanes()", laneNames(f.claimLanes(laneClaim(who, 60_009, 9))), []string{})
		}
		f.equal(id+": WakeLanes()", f.wake(endpoint, 0, 9), 0)
		f.equal(id+": RenewLanes()", f.renewLanes(500_000, leaseOf(l.Lane)), []store.LaneLease{leaseOf(l.Lane)})
		hold, older := delivered(l, 1, 30), delivered(l, 1, 30)
		hold.Hold = true
		older.Lease.Fence--
		f.equal(id+": AckLanes()", len(f.lost(hold, older)), 2)
		f.equal(id+": Lanes() after acknowledgements that do not end it", f.lane(k, id), want)
		take(40)
		f.equal(id+": Fence of what was taken twice", f.lane(k, id).Fence, l.Fence+1)
		f.notDue(60_009)
		hold.Hold = false
		f.equal(id+": AckLanes()", f.lost(hold), []store.LaneLease{hold.Lease})
		f.equal(id+": LeaseUntil", f.lane(k, id).LeaseUntil, time.Time{})
		again := f.claimLane(rival, 41)
		f.equal(id+": events", again.Events, f.events(k))
		f.equal(id+": AckLanes() once more", f.lost(hold), []store.LaneLease{hold.Lease})
		f.notDue(60_000)
		f.ack(delivered(again, len(again.Events), 50))
	}
}

func pushTakenLate(f *fixture) {
	k := key("t1")
	f.hooked(k, 2, "brought", "replaced", "replayed")
	l := f.claimLanes(laneClaim(worker, 10, 9))
	takers := f.takers(k)
	for _, c := range l {
		takers[c.Config.ID](20)
	}
	f.notDue(60_009)
	f.equal("ClaimLanes()", len(f.claimLanes(laneClaim(rival, 60_010, 9))), 3)
	for _, c := range l {
		f.fenced(c, 60_020) // they are the rival's
	}
	p := laneClaim(worker, 60_030, 9)
	p.Takeover = true
	for _, c := range l {
		takers[c.Config.ID](60_030)
	}
	over := f.claimLanes(p)
	f.equal("ClaimLanes() with Takeover", len(over), 3)
	for _, c := range over {
		f.ack(delivered(c, len(c.Events), 60_035))
	}

	idle := key("t2") // with nothing to send
	f.hooked(idle, 1, "replaced")
	held := f.claimLane(worker, 60_040)
	done := delivered(held, 1, 60_050)
	done.Hold = true
	f.ack(done)
	f.takers(idle)["replaced"](60_060)
	f.add(idle, event(60_070))
	f.notDue(120_039)
	f.equal("events", f.claimLane(rival, 120_040).Events, f.events(idle)[1:])
}

func pushTakenDeleted(f *fixture) {
	k := key("t1")
	f.hooked(k, 2, "brought", "replaced", "replayed")
	takers := f.takers(k)
	for _, c := range f.claimLanes(laneClaim(worker, 10, 9)) {
		id := c.Config.ID
		takers[id](20)
		f.deletePush(k, id, 30, true)
		f.equal("RenewLanes()", f.renewLanes(500_000, leaseOf(c.Lane)), []store.LaneLease{leaseOf(c.Lane)})
		if id == "replaced" { // and saved again before its worker knows
			got := f.savePush(hook(k, id), place(0), 40)
			f.equal("Fence and LeaseUntil", []any{got.Fence, got.LeaseUntil}, []any{c.Fence + 1, c.LeaseUntil})
			f.deletePush(k, id, 60_009, true)
		}
		a := delivered(c, 1, 50)
		f.equal("AckLanes()", f.lost(a), []store.LaneLease{a.Lease})
		f.undeletable(k, id, 60)
	}
	f.equal("Lanes()", f.lanes(store.LaneQuery{}), store.LanePage{})
}

func lanesWoken(f *fixture) {
	due := map[string]int{"t1": 5000, "t2": 3000, "t3": 4000, "t4": 101, "t5": 100}
	f.waiting(owner, due)
	f.waiting(other, map[string]int{"t6": 3500})
	elsewhere := hook(key("t1"), "q")
	elsewhere.Endpoint = endpoint + "0"
	f.savePush(elsewhere, place(0), 2000)
	before := f.lanes(store.LaneQuery{}).Lanes
	f.equal("WakeLanes()", f.wake(endpoint, 100, 3), 3)
	woken := map[string]bool{owner + "/t4/p": true, owner + "/t2/p": true, other + "/t6/p": true}
	for i := range before {
		if woken[laneName(&before[i])] {
			before[i].DueAt = at(100)
		}
	}
	f.equal("Lanes()", f.lanes(store.LaneQuery{}).Lanes, before)
	f.equal("ClaimLanes()", laneNames(f.claimLanes(laneClaim(worker, 100, 9))),
		[]string{owner + "/t2/p", other + "/t6/p", owner + "/t4/p", owner + "/t5/p"})
	f.equal("WakeLanes() of none", f.wake(endpoint, 100, 0), 0)
	f.equal("WakeLanes() of the others", f.wake(endpoint, 200, 9), 2)
	f.equal("WakeLanes() again", f.wake(endpoint, 200, 9), 0)
	f.equal("ClaimLanes()", laneNames(f.claimLanes(laneClaim(worker, 200, 9))), []string{owner + "/t1/p", owner + "/t3/p"})
}

func lanesNotWoken(f *fixture) {
	k := key("t1")
	f.hooked(k, 2, "held", "idle", "retries", "parked", "moved")
	for _, l := range f.claimLanes(laneClaim(worker, 10, 9)) {
		a := failed(l, 20, 9000)
		switch l.Config.ID {
		case "held":
			a.Hold = true
		case "idle":
			a = delivered(l, 2, 9000)
		case "parked":
			a.State = store.LaneParked
		case "moved":
			f.ack(a)
			c := hook(k, "moved")
			c.Endpoint = "http://q.example:80"
			f.savePush(c, place(0), 9000)
			continue
		}
		f.ack(a)
	}
	before := f.lanes(store.LaneQuery{}).Lanes
	f.equal("WakeLanes() of another endpoint", f.wake("https://hooks.example", 30, 9), 0)
	f.equal("WakeLanes() when all are due", f.wake(endpoint, 9000, 9), 0)
	f.equal("Lanes()", f.lanes(store.LaneQuery{}).Lanes, before)
	f.equal("WakeLanes()", f.wake(endpoint, 30, 9), 2) // of any state
	for i, l := range before {
		if l.Config.ID == "parked" || l.Config.ID == "retries" {
			before[i].DueAt = at(30)
		}
	}
	f.equal("Lanes()", f.lanes(store.LaneQuery{}).Lanes, before)
	f.equal("WakeLanes() of the moved", f.wake("http://q.example:80", 30, 9), 1)
	f.equal("WakeLanes() of the moved by its old endpoint", f.wake(endpoint, 20, 9), 2)
}

// lanesWatched makes each call until the watcher is told: that may be late, or lost.
func lanesWatched(f *fixture) {
	told := make(chan struct{}, 1)
	stop := f.s.WatchLanes(func() {
		select {
		case told <- struct{}{}:
		default:
		}
	})
	k := key("t1")
	f.hooked(k, 1, "p")
	for _, test := range []struct {
		what    string
		pending bool // before
		call    func()
	}{
		{"a commit", false, func() { f.add(k, event(10)) }},
		{"a save", true, func() { f.savePush(hook(k, "p"), place(0), 10) }},
		{"a replay", false, func() { f.replay(k, "p", place(0), 10) }},
		{"a wake-up", true, func() { f.wake(endpoint, 5, 9) }},
		{"a claim of a task", false, func() {
			c := next(k, f.task(k).Seq)
			c.Run = queued()
			f.commit(c)
			f.claim(claimAt(worker, at(10), 9))
		}},
	} {
		f.replay(k, "p", place(0), 100)
		if !test.pending {
			l := f.claimLane(worker, 100)
			f.ack(delivered(l, len(l.Events), 100))
		}
		select {
		case <-told:
		default:
		}
		if !retried(told, test.call) {
			f.Fatalf("nobody was told of a lane that is due by %s", test.what)
		}
	}
	stop()
	f.add(k, event(10))
}

// retried repeats a call until a notification arrives, for a minute at most.
func retried(told <-chan struct{}, call func()) bool {
	for range 600 {
		call()
		select {
		case <-told:
			return true
		case <-time.After(100 * time.Millisecond):
		}
	}
	return false
}
