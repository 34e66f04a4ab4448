package storetest

import (
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func pushCommitTests() []test {
	return []test{
		{"a task is created with webhooks", pushBorn},
		{"a change brings a webhook that begins where it says", pushBrought},
		{"a change replaces a webhook that is there", pushBroughtAgain},
		{"an idle lane becomes due with the last event of a commit", pushTailIdle},
		{"a lane that backs off is not made due by a commit", pushTailBackoff},
		{"a commit leaves a lease alone", pushTailLeased},
		{"a commit makes a lane due that is held with nothing to do", pushTailHeld},
		{"a claim of a task makes its lanes due", pushTailClaim},
		{"lanes that are not active have a tail as well", pushTailInactive},
		{"changes of one call move a tail one after the other", pushTailCall},
		{"a refused change brings no webhook and moves no tail", pushRefused},
		{"a malformed change brings no webhook, nor do those beside it", pushMalformed},
	}
}

func pushBorn(f *fixture) {
	k := key("t1")
	c := hookedTask(k, 3, "p", "q")
	c.Push[1].LongRunning, c.Push[1].Endpoint = true, "http://q.example:80"
	f.commit(c)
	q := committedHook(k, "q", 2)
	q.LongRunning, q.Endpoint = true, "http://q.example:80"
	f.equal("Lanes()", f.lanes(store.LaneQuery{}), store.LanePage{Lanes: []store.Lane{
		newLane(committedHook(k, "p", 2), place(0), 3, 2), newLane(q, place(0), 3, 2),
	}})
	f.notDue(1)
	got := f.claimLanes(laneClaim(worker, 2, 9))
	f.equal("ClaimLanes()", laneNames(got), []string{owner + "/t1/p", owner + "/t1/q"})
	for _, l := range got {
		f.equal("events", l.Events, f.events(k))
	}
	f.equal("Task()", f.task(k), fold(k, "context", *idle(), c.Events...))
}

func pushBrought(f *fixture) {
	k := key("t1")
	f.hooked(k, 3)
	c := next(k, 3, event(10), event(20))
	c.Push = newHooks("all", "some", "new")
	c.Push[1].Cursor, c.Push[2].Cursor = place(2), place(3)
	f.commit(c)
	for id, n := range map[string]int{"all": 0, "some": 2, "new": 3} {
		f.equal("Lanes()", f.lane(k, id), newLane(committedHook(k, id, 20), place(n), 5, 20))
	}
	quiet := next(k, 5)
	quiet.Push = newHooks("idle", "late")
	quiet.Push[0].Cursor, quiet.Push[1].Cursor = place(5), place(4)
	f.commit(quiet)
	f.equal("Lanes()", f.lane(k, "idle"), newLane(committedHook(k, "idle", 20), place(5), 5, 20))
	f.equal("Lanes()", f.lane(k, "late"), newLane(committedHook(k, "late", 20), place(4), 5, 20))
	f.notDue(19)
	events := make(map[string]int)
	for _, l := range f.claimLanes(laneClaim(worker, 20, 9)) {
		events[l.Config.ID] = len(l.Events)
	}
	f.equal("numbers of events", events, map[string]int{"all": 5, "some": 3, "new": 2, "late": 1})
}

func pushBroughtAgain(f *fixture) {
	k := key("t1")
	f.hooked(k, 2, "p")
	claimed := f.claimLane(worker, 10)
	first := delivered(claimed, 1, 20)
	first.Hold, first.State, first.Reason, first.Attempt, first.FailedAt = true, store.LaneParked, "why", 3, at(15)
	f.ack(first)
	c := next(k, 2, event(30), event(40))
	c.Push = []store.NewPush{{ID: "p", Endpoint: "http://q.example:80", Data: []byte("{}"), LongRunning: true, Cursor: place(2)}}
	f.commit(c)
	want := newLane(committedHook(k, "p", 1), place(1), 4, 40)
	want.Config.Endpoint, want.Config.Data, want.Config.LongRunning = "http://q.example:80", []byte("{}"), true
	want.Fence, want.Delivered, want.DeliveredAt, want.LeaseUntil = claimed.Fence+1, 1, at(20), claimed.LeaseUntil
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.fenced(claimed, 45)
	f.notDue(39)
	f.equal("events", f.claimLane(rival, 40).Events, f.events(k)[1:])
}

// done claims the lane that is due and delivers all.
func (f *fixture) done(ms int) store.ClaimedLane {
	f.Helper()
	l := f.claimLane(worker, ms)
	f.ack(delivered(l, len(l.Events), ms))
	return l
}

func pushTailIdle(f *fixture) {
	k := key("t1")
	f.hooked(k, 1, "p")
	f.done(10)
	f.notDue(1000)
	f.commit(next(k, 1)) // nothing to send
	f.notDue(1000)
	want := f.lane(k, "p")
	f.add(k, event(30), event(20), event(50))
	want.Tail, want.DueAt = 4, at(50)
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.add(k, event(60))
	want.Tail = 5
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.notDue(49)
	f.equal("events", f.claimLane(worker, 50).Events, f.events(k)[1:])
}

func pushTailBackoff(f *fixture) {
	k := key("t1")
	f.hooked(k, 2, "p")
	f.ack(failed(f.claimLane(worker, 10), 20, 5000))
	want := f.lane(k, "p")
	for _, ms := range []int{30, 4000, 9000} {
		f.add(k, event(ms))
		want.Tail++
		f.equal("Lanes()", f.lane(k, "p"), want)
	}
	f.notDue(4999)
	l := f.claimLane(worker, 5000)
	f.equal("events", l.Events, f.events(k))
	f.equal("Attempt and FailedAt", []any{l.Attempt, l.FailedAt}, []any{1, at(20)})
}

func pushTailLeased(f *fixture) {
	k := key("t1")
	f.hooked(k, 1, "p")
	l := f.claimLane(worker, 10)
	want := f.lane(k, "p")
	f.equal("ClaimLanes()", l.Lane, want)
	f.add(k, event(20), event(30))
	want.Tail = 3
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.notDue(60_009)
	f.ack(delivered(l, 1, 50))
	want.Cursor, want.DueAt, want.UpdatedAt, want.Delivered, want.DeliveredAt = place(1), at(50), at(50), 1, at(50)
	want.Worker, want.LeaseUntil = "", time.Time{}
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.notDue(49)
	f.equal("events", f.claimLane(rival, 50).Events, f.events(k)[1:])
}

func pushTailHeld(f *fixture) {
	k := key("t1")
	f.hooked(k, 1, "p")
	l := f.claimLane(worker, 10)
	a := delivered(l, 1, 20)
	a.Hold, a.DueAt = true, at(9000)
	f.ack(a)
	f.add(k, event(30))
	want := l.Lane
	want.Cursor, want.Tail, want.DueAt, want.UpdatedAt, want.Delivered, want.DeliveredAt = place(1), 2, at(30), at(20), 1, at(20)
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.notDue(60_009)
	f.equal("Fence", f.claimLane(rival, 60_010).Fence, l.Fence+1)
	f.fenced(l, 60_020)
}

func pushTailClaim(f *fixture) {
	idler, busy, backoff := key("idler"), key("busy"), key("backoff")
	for _, k := range []store.Key{idler, busy, backoff} {
		c := hookedTask(k, 1, "p")
		c.Run = queued()
		f.commit(c)
	}
	for _, l := range f.claimLanes(laneClaim(worker, 5, 9)) {
		switch l.Config.Task {
		case idler:
			f.ack(delivered(l, 1, 5))
		case backoff:
			f.ack(failed(l, 5, 5000))
		}
	}
	f.notDue(1000)
	before := f.lane(busy, "p")
	if got := len(f.claim(claimAt(worker, at(50), 9))); got != 3 {
		f.Fatalf("Claim() = %d tasks, want 3", got)
	}
	before.Tail = 2
	f.equal("Lanes() of a lane that is held", f.lane(busy, "p"), before)
	if l := f.lane(backoff, "p"); l.Tail != 2 || !l.DueAt.Equal(at(5000)) {
		f.Errorf("lane that backs off = tail %d, due %v, want 2, %v", l.Tail, l.DueAt, at(5000))
	}
	f.notDue(49)
	l := f.claimLane(worker, 50)
	f.equal("ClaimLanes()", laneNames([]store.ClaimedLane{l}), []string{owner + "/idler/p"})
	f.equal("events", l.Events, f.events(idler)[1:])

	late := store.Key{Owner: owner, ID: "late"}
	c := hookedTask(late, 1, "p")
	c.Run = queued()
	f.commit(c)
	f.done(51)
	f.add(late, status(at(99), a2a.StateSubmitted))
	f.done(99)
	f.claim(claimAt(worker, at(60), 9)) // its event has the time of the last
	f.notDue(98)
	f.equal("Tail", f.claimLane(worker, 99).Tail, int64(3))
}

func pushTailInactive(f *fixture) {
	k := key("t1")
	f.hooked(k, 1, "parked", "disabled")
	for _, l := range f.claimLanes(laneClaim(worker, 5, 9)) {
		a := delivered(l, 1, 6)
		a.State, a.Reason = store.LaneState(l.Config.ID), "why"
		f.ack(a)
	}
	f.notDue(1000)
	f.add(k, event(20))
	f.notDue(19)
	for _, l := range f.claimLanes(laneClaim(worker, 20, 9)) {
		if string(l.State) != l.Config.ID || l.Reason != "why" {
			f.Errorf("lane %q is %s for %q, want what was acknowledged", l.Config.ID, l.State, l.Reason)
		}
		f.ack(noted(l, 1, 30))
	}
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{Dead: 2})
}

func pushTailCall(f *fixture) {
	k, k2 := key("t1"), key("t2")
	brings := next(k, 2, event(20))
	brings.Push = newHooks("q")
	brings.Push[0].Cursor = place(2)
	f.commit(hookedTask(k, 1, "p"), next(k, 1, event(10)), brings, next(k, 3, event(30)), hookedTask(k2, 1, "p"))
	f.equal("Lanes()", f.lanes(store.LaneQuery{}).Lanes, []store.Lane{
		newLane(committedHook(k, "p", 0), place(0), 4, 0),
		newLane(committedHook(k, "q", 20), place(2), 4, 20),
		newLane(committedHook(k2, "p", 0), place(0), 1, 0),
	})
}

func pushRefused(f *fixture) {
	k := key("t1")
	f.commit(idempotent(hookedTask(k, 2, "p"), "key", at(0)))
	f.add(k, received(at(5), "m"))
	f.claimLane(worker, 10)
	f.saved(store.ContextChange{Context: described(owner, "closed", 0), Create: true})
	f.saved(as(f.context(owner, "closed"), a2a.ContextArchived))
	before, backlog := f.lanes(store.LaneQuery{}), f.pushBacklog()

	born := hookedTask(key("t2"), 1, "p")
	born.Create.ContextID = "closed"
	unread := next(k, 3, event(20))
	unread.Seen = 2
	for _, test := range []struct {
		want error
		c    store.Change
	}{
		{store.ErrExists, hookedTask(k, 3)},
		{store.ErrConflict, next(k, 2, event(20))},
		{store.ErrLeaseLost, under(k, worker, 1, event(20))},
		{store.ErrUnread, unread},
		{store.ErrNotFound, next(key("t2"), 1, event(20))},
		{store.ErrNotFound, next(store.Key{Owner: other, ID: "t1"}, 3, event(20))},
		{store.ErrContextClosed, born},
		{store.ErrDuplicate, idempotent(next(k, 3, event(20)), "key", at(20))},
	} {
		test.c.Push = newHooks("p", "new")
		f.refused(test.want, test.c)
		f.equal("Lanes() after "+test.want.Error(), f.lanes(store.LaneQuery{}), before)
		f.equal("PushBacklog()", f.pushBacklog(), backlog)
	}
	good := next(k, 3, event(30))
	good.Push = newHooks("good")
	refused := hookedTask(k, 1, "p", "new")
	results := f.results(refused, good, refused)
	f.equal("versions", []int64{results[0].Seq, results[1].Seq, results[2].Seq}, []int64{0, 4, 0})
	f.noLane(k, "new")
	f.lane(k, "good")
	f.equal("Fence", f.lane(k, "p").Fence, before.Lanes[0].Fence)
}

func pushMalformed(f *fixture) {
	k := key("t1")
	bad := next(k, 0)
	if _, err := f.s.Commit(f.ctx, hookedTask(k, 1, "p"), bad); err == nil {
		f.Fatalf("Commit() with a malformed change = nil, want an error")
	}
	f.absent(k)
	f.noLane(k, "p")
	f.equal("Lanes()", f.lanes(store.LaneQuery{}), store.LanePage{})
	f.notDue(1000)
}
