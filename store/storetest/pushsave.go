package storetest

import (
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

func pushSaveTests() []test {
	return []test{
		{"a webhook is saved with its lane", pushSaved},
		{"a webhook needs its task", pushNoTask},
		{"a webhook that is there is replaced", pushReplaced},
		{"replacing a webhook takes a failing lane up again", pushReplacedFailing},
		{"a webhook that has told everything is replaced quietly", pushReplacedQuiet},
		{"webhooks of a task do not meet", pushSeveral},
		{"webhooks of another owner's task of the same id do not meet", pushTwins},
		{"a webhook's times are kept in UTC to the millisecond", pushTimes},
		{"a webhook's data may be changed by those who gave or got it", pushAlias},
	}
}

func pushSaved(f *fixture) {
	k := key("t1")
	f.hooked(k, 3)
	for _, test := range []struct {
		id     string
		cursor store.PushCursor
	}{
		{"before all", place(0)}, {"behind one", place(1)}, {"behind all", place(3)},
	} {
		c := hook(k, test.id)
		c.LongRunning = test.id == "behind one"
		want := newLane(c, test.cursor, 3, 50)
		f.equal("SavePush()", f.savePush(c, test.cursor, 50), want)
		f.equal("Lanes()", f.lane(k, test.id), want)
		if got, want := want.Pending(), test.cursor.Seq < 3; got != want {
			f.Errorf("Lane.Pending() = %t, want %t", got, want)
		}
	}
	f.notDue(49)
	got := f.claimLanes(laneClaim(worker, 50, 9))
	f.equal("ClaimLanes()", laneNames(got), []string{owner + "/t1/before all", owner + "/t1/behind one"})
	f.equal("events before all", got[0].Events, f.events(k))
	f.equal("events behind one", got[1].Events, f.events(k)[1:])
}

func pushNoTask(f *fixture) {
	f.hooked(key("t1"), 1)
	gone := key("gone")
	c := hookedTask(gone, 1)
	c.Create.ContextID = "c1"
	f.commit(c)
	f.remove("c1", 1, 9)
	for _, k := range []store.Key{key("t2"), key("T1"), {Owner: other, ID: "t1"}, gone} {
		l, err := f.s.SavePush(f.ctx, hook(k, "p"), place(0), at(9))
		if !errors.Is(err, store.ErrNotFound) {
			f.Errorf("SavePush() of %s = %+v, %v, want ErrNotFound", name(k), l, err)
		}
		f.noLane(k, "p")
		f.undeletable(k, "p", 9)
		if _, err := f.s.ReplayPush(f.ctx, k, "p", place(0), at(9)); !errors.Is(err, store.ErrNotFound) {
			f.Errorf("ReplayPush() of %s = %v, want ErrNotFound", name(k), err)
		}
	}
	f.equal("Lanes()", f.lanes(store.LaneQuery{}), store.LanePage{})
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{})
}

func pushReplaced(f *fixture) {
	k := key("t1")
	f.hooked(k, 3, "p")
	claimed := f.claimLane(worker, 10)
	first := delivered(claimed, 1, 20)
	first.Hold, first.Attempts = true, []store.PushAttempt{attempt(k, "p", 1, 1, 15)}
	f.ack(first)

	c := store.PushConfig{
		Task: k, ID: "p", Endpoint: "http://elsewhere.example:80", Data: []byte(`{"b":1}`), LongRunning: true, CreatedAt: at(25),
	}
	got := f.savePush(c, place(3), 30)
	want := newLane(c, place(1), 3, 30)
	want.Config.CreatedAt = at(2) // of the first
	want.Fence, want.Delivered, want.DeliveredAt, want.LeaseUntil = claimed.Fence+1, 1, at(20), claimed.LeaseUntil
	f.equal("SavePush()", got, want)
	f.equal("Lanes()", f.lane(k, "p"), want)
	f.fenced(claimed, 35)
	f.equal("PushAttempts()", f.attempts(store.PushQuery{}), first.Attempts)
	f.notDue(29)

	again := f.savePush(c, place(0), 40)
	want.Fence, want.DueAt, want.UpdatedAt, want.LeaseUntil = want.Fence+1, at(40), at(40), time.Time{}
	f.equal("SavePush() again", again, want)
	next := f.claimLane(worker, 40)
	if next.Fence != want.Fence+1 {
		f.Errorf("Fence of the next claim = %d, want %d", next.Fence, want.Fence+1)
	}
	f.fenced(claimed, 45)
	f.ack(delivered(next, 2, 50))
}

func pushReplacedFailing(f *fixture) {
	k := key("t1")
	f.hooked(k, 3, "p")
	for _, state := range []store.LaneState{store.LaneActive, store.LaneParked, store.LaneDisabled} {
		claimed := f.claimLane(worker, 10)
		bad := failed(claimed, 20, 5000)
		bad.State, bad.Reason = state, "it went wrong"
		f.ack(bad)
		f.savePush(hook(k, "p"), place(0), 30)
		want := newLane(committedHook(k, "p", 2), place(0), 3, 30)
		want.Fence = claimed.Fence + 1
		f.equal("Lanes()", f.lane(k, "p"), want)
		f.savePush(hook(k, "p"), place(0), 5)
	}
	claimed := f.claimLane(worker, 10)
	f.ack(noted(claimed, 2, 20))
	f.savePush(hook(k, "p"), place(0), 30)
	if got := f.letters(store.PushQuery{}); len(got) != 2 {
		f.Errorf("DeadLetters() after SavePush() = %+v, want both kept", got)
	}
	if got := f.lane(k, "p").Cursor; got != place(2) {
		f.Errorf("Cursor after SavePush() = %+v, want it kept behind 2", got)
	}
}

func pushReplacedQuiet(f *fixture) {
	k := key("t1")
	f.hooked(k, 2, "p")
	claimed := f.claimLane(worker, 10)
	f.ack(delivered(claimed, 2, 20))
	f.savePush(hook(k, "p"), place(0), 30)
	f.notDue(1000)
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{})
	f.add(k, event(40))
	f.notDue(39)
	f.equal("events", f.claimLane(worker, 40).Events, f.events(k)[2:])
}

func pushSeveral(f *fixture) {
	k := key("t1")
	names := []string{"A", "a", "a ", "a/b", "ä"}
	f.hooked(k, 2, names...)
	for i, id := range names {
		f.equal("Lanes()", f.lane(k, id), newLane(committedHook(k, id, 1), place(0), 2, 1))
		f.savePush(hook(k, id), place(0), 10+i)
	}
	for i, id := range names {
		l := f.claimLane(worker, 10+i)
		f.equal("ClaimLanes()", l.Config.ID, id)
		f.ack(delivered(l, i%3, 20))
	}
	for i, id := range names {
		if got, want := f.lane(k, id).Cursor, place(i%3); got != want {
			f.Errorf("Cursor of %q = %+v, want %+v", id, got, want)
		}
	}
	f.deletePush(k, "a", 30, false)
	f.lane(k, "A")
	f.lane(k, "a ")
	f.equal("Lanes()", len(f.lanes(store.LaneQuery{Owner: owner, TaskID: "t1"}).Lanes), 4)
}

func pushTwins(f *fixture) {
	mine, theirs := key("t1"), store.Key{Owner: other, ID: "t1"}
	f.hooked(mine, 2, "p")
	f.hooked(theirs, 1, "p")
	l := f.claimLanes(laneClaim(worker, 10, 9))
	f.equal("ClaimLanes()", laneNames(l), []string{owner + "/t1/p", other + "/t1/p"})
	f.ack(noted(l[0], 2, 20))
	f.add(theirs, event(25))
	want := newLane(committedHook(theirs, "p", 0), place(0), 2, 0)
	want.Worker, want.Fence, want.LeaseUntil = worker, l[1].Fence, l[1].LeaseUntil
	f.equal("Lanes() of the other", f.lane(theirs, "p"), want)
	f.deletePush(mine, "p", 30, false)
	f.equal("Lanes() of the other", f.lane(theirs, "p"), want)
	f.equal("DeadLetters() of the other", f.letters(store.PushQuery{Owner: other}), []store.DeadLetter{})
	stolen := delivered(l[1], 1, 30)
	stolen.Lease.Task = mine
	f.equal("lost", f.lost(stolen), []store.LaneLease{stolen.Lease})
	f.ack(delivered(l[1], 1, 30))
}

func pushTimes(f *fixture) {
	fine := func(ms int) time.Time {
		return at(ms).Add(123_456 * time.Nanosecond).In(time.FixedZone("elsewhere", 2*3600))
	}
	k := key("t1")
	c := hookedTask(k, 2, "committed")
	c.Events[1].Time = fine(1)
	f.commit(c)
	saved := hook(k, "saved")
	saved.CreatedAt = fine(3)
	got, err := f.s.SavePush(f.ctx, saved, place(0), fine(4))
	if err != nil {
		f.Fatalf("SavePush() = %v", err)
	}
	p := laneClaim(worker, 9, 9)
	p.Until = fine(99)
	claimed := f.claimLanes(p)
	if len(claimed) != 2 {
		f.Fatalf("ClaimLanes() = %v, want 2", laneNames(claimed))
	}
	held := f.lane(k, "saved")
	a := noted(claimed[0], 1, 0)
	a.At, a.DueAt, a.FailedAt, a.Delivered = fine(10), fine(11), fine(12), 1
	a.Attempts[0].At, a.Dead[0].At = fine(13), fine(14)
	a.Attempts[0].Duration = 5*time.Millisecond + 999*time.Microsecond
	f.ack(a)
	acked := f.lane(k, "committed")
	committed := claimed[0].Lane
	tried, dead := f.attempts(store.PushQuery{}), f.letters(store.PushQuery{})
	for _, test := range []struct {
		what      string
		got, want time.Time
	}{
		{"Config.CreatedAt of a commit", committed.Config.CreatedAt, at(1)},
		{"DueAt of a commit", committed.DueAt, at(1)},
		{"UpdatedAt of a commit", committed.UpdatedAt, at(1)},
		{"Config.CreatedAt", got.Config.CreatedAt, at(3)},
		{"DueAt", got.DueAt, at(4)},
		{"UpdatedAt", got.UpdatedAt, at(4)},
		{"LeaseUntil of a claim", committed.LeaseUntil, at(99)},
		{"LeaseUntil", held.LeaseUntil, at(99)},
		{"UpdatedAt of an ack", acked.UpdatedAt, at(10)},
		{"DeliveredAt", acked.DeliveredAt, at(10)},
		{"DueAt of an ack", acked.DueAt, at(11)},
		{"FailedAt", acked.FailedAt, at(12)},
		{"PushAttempt.At", tried[0].At, at(13)},
		{"DeadLetter.At", dead[0].At, at(14)},
	} {
		if !test.got.Equal(test.want) || test.got.Location() != time.UTC {
			f.Errorf("%s = %v, want %v", test.what, test.got, test.want)
		}
	}
	if got := tried[0].Duration; got != 5*time.Millisecond {
		f.Errorf("PushAttempt.Duration = %v, want 5ms", got)
	}
	for what, got := range map[string]time.Time{"FailedAt": got.FailedAt, "DeliveredAt": got.DeliveredAt} {
		if !got.IsZero() {
			f.Errorf("%s of a new lane = %v, want the zero time", what, got)
		}
	}
}

func pushAlias(f *fixture) {
	k := key("t1")
	c := hookedTask(k, 1, "committed")
	f.commit(c)
	clear(c.Push[0].Data)
	c.Push[0] = store.NewPush{}
	saved := hook(k, "saved")
	got := f.savePush(saved, place(0), 0)
	clear(saved.Data)
	check := func() {
		f.Helper()
		for _, id := range []string{"committed", "saved"} {
			f.equal("Data", f.lane(k, id).Config.Data, hookData(id))
		}
	}
	check()
	f.equal("Data", got.Config.Data, hookData("saved"))
	clear(got.Config.Data)
	check()
	clear(f.lane(k, "saved").Config.Data)
	check()
	for _, l := range f.claimLanes(laneClaim(worker, 9, 9)) {
		clear(l.Config.Data)
		for i := range l.Events {
			wreckEvent(&l.Events[i])
		}
	}
	check()
	f.equal("Events()", f.events(k), numbered([]store.Event{event(0)}))
}
