package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

func pushReplayed(f *fixture) {
	k := key("t1")
	f.hooked(k, 4, "p")
	l := f.claimLane(worker, 10)
	a := delivered(l, 3, 20)
	a.Hold = true
	f.ack(a)
	f.replay(k, "p", place(1), 30)
	want := newLane(committedHook(k, "p", 3), place(1), 4, 30)
	want.Fence, want.Delivered, want.DeliveredAt, want.LeaseUntil = l.Fence+1, 3, at(20), l.LeaseUntil
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.fenced(l, 40)
	f.notDue(29)
	l = f.claimLane(worker, 30)
	f.equal("events", l.Events, f.events(k)[1:])
	f.ack(delivered(l, 3, 50))
	f.replay(k, "p", place(0), 60) // nobody holds it
	want.Cursor, want.DueAt, want.UpdatedAt = place(0), at(60), at(60)
	want.Fence, want.Delivered, want.DeliveredAt, want.LeaseUntil = l.Fence+1, 6, at(50), time.Time{}
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.fenced(l, 70)
	f.equal("events", f.claimLane(rival, 60).Events, f.events(k))
	if _, err := f.s.ReplayPush(f.ctx, k, "q", place(0), at(9)); !errors.Is(err, store.ErrNotFound) {
		f.Errorf("ReplayPush() of an absent webhook = %v, want ErrNotFound", err)
	}
}

func pushReplayedLetters(f *fixture) {
	k := key("t1")
	f.hooked(k, 4, "p", "q")
	var a, beside store.LaneAck
	for _, l := range f.claimLanes(laneClaim(worker, 10, 9)) {
		if l.Config.ID == "p" {
			a = noted(l, 4, 20)
			f.ack(a)
		} else {
			beside = noted(l, 4, 20)
			f.ack(beside)
		}
	}
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{Dead: 8})
	q := store.PushQuery{Owner: owner, TaskID: "t1", ID: "p"}
	for _, n := range []int{4, 3, 1, 0} {
		f.replay(k, "p", place(n), 30)
		f.equal(fmt.Sprint("DeadLetters() after a replay behind ", n), f.letters(q), sortedLetters(a.Dead[:n]))
	}
	f.equal("PushAttempts()", f.attempts(q), sortedAttempts(a.Attempts))
	q.ID = "q"
	f.equal("DeadLetters() of the other", f.letters(q), sortedLetters(beside.Dead))
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{Pending: 1, Dead: 4})
	f.equal("events", f.claimLane(worker, 40).Events, f.events(k))
}

func pushReplayedState(f *fixture) {
	k := key("t1")
	f.hooked(k, 2, "p")
	for _, state := range []store.LaneState{store.LaneActive, store.LaneParked, store.LaneDisabled} {
		l := f.claimLane(worker, 50)
		a := failed(l, 50, 1<<30)
		a.State, a.Reason = state, "why"
		f.ack(a)
		f.replay(k, "p", place(0), 50)
		want := newLane(committedHook(k, "p", 1), place(0), 2, 50)
		want.Fence = l.Fence + 1
		f.equal("Lanes()", f.lane(k, "p"), want)
	}
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{Pending: 1})
}

func pushReplayedForward(f *fixture) {
	k := key("t1")
	f.hooked(k, 5, "p")
	l := f.claimLane(worker, 10)
	f.ack(noted(l, 2, 20))
	q := store.PushQuery{Owner: owner, TaskID: "t1", ID: "p"}
	letters := f.letters(q)
	for _, n := range []int{4, 5, 3, 2} {
		f.equal(fmt.Sprint("ReplayPush() behind ", n), f.replay(k, "p", place(n), 30), place(2))
	}
	want := newLane(committedHook(k, "p", 4), place(2), 5, 30)
	want.Fence = l.Fence + 4
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.equal("DeadLetters()", f.letters(q), letters)
	l = f.claimLane(worker, 30)
	f.equal("events", l.Events, f.events(k)[2:])
	f.ack(delivered(l, 3, 40))
	f.equal("ReplayPush() behind all", f.replay(k, "p", place(5), 50), place(5))
	f.notDue(1 << 30)
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{Dead: 2})
	f.equal("ReplayPush() of the last", f.replay(k, "p", place(4), 60), place(4))
	f.equal("events", f.claimLane(worker, 60).Events, f.events(k)[4:])
}
