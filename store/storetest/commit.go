package storetest

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func commitTests() []test {
	return []test{
		{"a created task can be read", createdIsRead},
		{"a task is created once", createdOnce},
		{"a change names the version it saw", versionGuard},
		{"a change of an absent task is not found", absentTask},
		{"a change under a lease needs that lease", leaseGuard},
		{"a lease is held past its deadline until another claims", leaseOutlivesDeadline},
		{"a lease that the owner took away is lost", leaseTakenAway},
		{"a change that has not seen a message is refused", unreadGuard},
		{"a refused change leaves nothing behind", refusedLeavesNothing},
		{"a taken key wins over every other refusal", duplicateFirst},
		{"a broken guard wins over an unread message", guardBeforeUnread},
		{"changes of one call stand alone", changesStandAlone},
		{"changes of one task in one call build on each other", changesInOrder},
		{"a call without changes does nothing", noChanges},
		{"a malformed change stops the whole call", malformed},
		{"sequences begin at 1 and have no gaps", gapless},
		{"the sequences passed in are ignored", passedSeqIgnored},
		{"a change without events keeps the version", noEvents},
		{"a run is replaced as a whole or left alone", runReplaced},
		{"times are kept in UTC to the millisecond", timesKept},
	}
}

func createdIsRead(f *fixture) {
	k := key("t1")
	events := []store.Event{received(at(0), "m1"), status(at(1), a2a.StateWorking)}
	c := store.Change{Key: k, Create: &store.Create{ContextID: "c1"}, Events: events, Run: leased(worker, at(100))}
	if seq := f.commit(c); seq != 2 {
		f.Errorf("Commit() = version %d, want 2", seq)
	}
	f.equal("Task()", f.task(k), fold(k, "c1", *leased(worker, at(100)), events...))
	f.equal("Events()", f.events(k), numbered(events))
}

func createdOnce(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	before := f.task(k)
	f.refused(store.ErrExists, newTask(k, "other context", at(1)))
	f.equal("Task()", f.task(k), before)
	f.noContext(owner, "other context")
}

func versionGuard(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	if seq := f.commit(next(k, 1, status(at(1), a2a.StateWorking))); seq != 2 {
		f.Errorf("Commit() = version %d, want 2", seq)
	}
	before := f.task(k)
	for _, version := range []int64{1, 3, 1 << 60} {
		f.refused(store.ErrConflict, next(k, version, status(at(2), a2a.StateCompleted)))
	}
	f.equal("Task()", f.task(k), before)
	f.commit(next(k, 2, status(at(3), a2a.StateCompleted)))
}

func absentTask(f *fixture) {
	f.refused(store.ErrNotFound, next(key("t1"), 1, status(at(0), a2a.StateWorking)))
	f.refused(store.ErrNotFound, under(key("t1"), worker, 1, status(at(0), a2a.StateWorking)))
	f.absent(key("t1"))
}

func leaseGuard(f *fixture) {
	k := key("t1")
	c := newTask(k, "c1", at(0))
	c.Run = leased(worker, at(1000))
	f.commit(c)
	working := status(at(1), a2a.StateWorking)
	f.refused(store.ErrLeaseLost, under(k, worker, 2, working))
	f.refused(store.ErrLeaseLost, under(k, worker, 0, working))
	f.refused(store.ErrLeaseLost, under(k, rival, 1, working))
	if seq := f.commit(under(k, worker, 1, working)); seq != 2 {
		f.Errorf("Commit() = version %d, want 2", seq)
	}
	f.commit(next(k, 2, status(at(2), a2a.StateWorking)))
	if seq := f.commit(under(k, worker, 1, status(at(3), a2a.StateCompleted))); seq != 4 {
		f.Errorf("Commit() under a lease after another's change = version %d, want 4", seq)
	}
}

func leaseOutlivesDeadline(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	f.claim(claimAt(worker, at(1), 1))
	late := at(1).Add(1000 * 3600e9)
	f.commit(under(k, worker, 1, status(late, a2a.StateWorking)))
	if got := f.claim(claimAt(rival, late, 1)); len(got) != 1 {
		f.Fatalf("Claim() of a task whose lease has ended = %d tasks, want 1", len(got))
	}
	before := f.task(k)
	f.refused(store.ErrLeaseLost, under(k, worker, 1, status(late, a2a.StateCompleted)))
	f.equal("Task()", f.task(k), before)
	f.commit(under(k, rival, 2, status(late, a2a.StateCompleted)))
}

func leaseTakenAway(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	f.claim(claimAt(worker, at(1), 1))
	canceled := next(k, 2, status(at(2), a2a.StateCanceled))
	canceled.Run = &store.Run{Phase: store.PhaseIdle, Turn: 1, Lease: store.Lease{Worker: worker, Fence: 1}}
	f.commit(canceled)
	f.refused(store.ErrLeaseLost, under(k, worker, 1, status(at(3), a2a.StateCompleted)))
	if got := f.task(k).Status.State; got != a2a.StateCanceled {
		f.Errorf("Task().Status.State = %s, want canceled", got)
	}
}

func unreadGuard(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	f.claim(claimAt(worker, at(1), 1))
	f.commit(next(k, 2, received(at(2), "m2")))

	done := under(k, worker, 1, status(at(3), a2a.StateCompleted))
	done.Seen = 1
	f.refused(store.ErrUnread, done)
	done.Seen = 2
	f.refused(store.ErrUnread, done)
	byVersion := next(k, 3, status(at(3), a2a.StateCompleted))
	byVersion.Seen = 2
	f.refused(store.ErrUnread, byVersion)

	progress := under(k, worker, 1, status(at(3), a2a.StateWorking))
	if seq := f.commit(progress); seq != 4 {
		f.Errorf("Commit() without Seen = version %d, want 4", seq)
	}
	done.Seen = 3
	if seq := f.commit(done); seq != 5 {
		f.Errorf("Commit() with Seen at the message = version %d, want 5", seq)
	}
}

func refusedLeavesNothing(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	f.claim(claimAt(worker, at(1), 1))
	f.commit(next(k, 2, received(at(2), "m2")))
	before, log, queue := f.task(k), f.events(k), f.backlog()

	unread := under(k, worker, 1)
	unread.Seen = 2
	refusals := []struct {
		want   error
		change store.Change
	}{
		{store.ErrConflict, next(k, 1)},
		{store.ErrLeaseLost, under(k, worker, 7)},
		{store.ErrUnread, unread},
		{store.ErrExists, store.Change{Key: k, Create: &store.Create{ContextID: "new context"}}},
		{store.ErrNotFound, next(key("none"), 1)},
	}
	for i, r := range refusals {
		c := idempotent(r.change, fmt.Sprint("key ", i), at(5))
		c.Events = []store.Event{chunk(at(5), "a", "text", false), said(at(5), a2a.StateCompleted, "m3")}
		c.Run = idle()
		c.Steps = []store.Step{{Turn: 1, Name: "step", Result: []byte("result")}}
		f.refused(r.want, c)
		f.noRecord(owner, c.Idempotency.Key)
		f.equal(fmt.Sprintf("Steps() after %v", r.want), f.steps(c.Key, 1), []store.Step{})
	}
	f.equal("Task()", f.task(k), before)
	f.equal("Events()", f.events(k), log)
	f.equal("Backlog()", f.backlog(), queue)
	f.noContext(owner, "new context")
	f.absent(key("none"))
}

func duplicateFirst(f *fixture) {
	k := key("t1")
	create := idempotent(newTask(k, "c1", at(0)), "key", at(0))
	f.commit(create)
	f.refused(store.ErrDuplicate, create)
	f.refused(store.ErrDuplicate, idempotent(next(k, 7), "key", at(1)))
	f.refused(store.ErrDuplicate, idempotent(next(key("none"), 1), "key", at(1)))
	f.refused(store.ErrDuplicate, idempotent(under(k, worker, 3), "key", at(1)))
	f.commit(next(k, 1, received(at(1), "m2")))
	unread := idempotent(next(k, 2), "key", at(1))
	unread.Seen = 1
	f.refused(store.ErrDuplicate, unread)
}

func guardBeforeUnread(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	f.commit(next(k, 1, received(at(1), "m2")))
	c := next(k, 1)
	c.Seen = 1
	f.refused(store.ErrConflict, c)
	c = under(k, worker, 1)
	c.Seen = 1
	f.refused(store.ErrLeaseLost, c)
}

func changesStandAlone(f *fixture) {
	f.create(key("t1"), at(0))
	results := f.results(
		newTask(key("t2"), "c2", at(1)),
		newTask(key("t1"), "c1", at(1)),
		next(key("none"), 1, status(at(1), a2a.StateWorking)),
		next(key("t1"), 5, status(at(1), a2a.StateWorking)),
		next(key("t1"), 1, status(at(1), a2a.StateWorking), status(at(2), a2a.StateWorking)),
	)
	var errs []error
	var seqs []int64
	for _, r := range results {
		errs, seqs = append(errs, r.Err), append(seqs, r.Seq)
	}
	want := []error{nil, store.ErrExists, store.ErrNotFound, store.ErrConflict, nil}
	f.equal("errors of Commit()", fmt.Sprint(errs), fmt.Sprint(want))
	f.equal("versions of Commit()", seqs, []int64{1, 0, 0, 0, 3})
	f.task(key("t2"))
	if got := f.task(key("t1")).Seq; got != 3 {
		f.Errorf("Task().Seq = %d, want 3", got)
	}
}

func changesInOrder(f *fixture) {
	k := key("t1")
	events := []store.Event{received(at(0), "m1"), said(at(1), a2a.StateWorking, "m2"), said(at(2), a2a.StateWorking, "m3"), said(at(3), a2a.StateCompleted, "m4")}
	done := next(k, 3, events[3])
	done.Run = idle()
	results := f.results(
		store.Change{Key: k, Create: &store.Create{ContextID: "c1"}, Events: events[:1], Run: queued()},
		next(k, 1, events[1]),
		next(k, 1, status(at(9), a2a.StateFailed)),
		next(k, 2, events[2]),
		done,
		newTask(k, "c1", at(9)),
	)
	var seqs []int64
	for _, r := range results {
		seqs = append(seqs, r.Seq)
	}
	f.equal("versions of Commit()", seqs, []int64{1, 2, 0, 3, 4, 0})
	f.equal("Task()", f.task(k), fold(k, "c1", *idle(), events...))
	f.equal("Events()", f.events(k), numbered(events))
}

func noChanges(f *fixture) {
	if results, err := f.s.Commit(f.ctx); err != nil || len(results) != 0 {
		f.Errorf("Commit() of nothing = %v, %v, want nothing", results, err)
	}
}

func malformed(f *fixture) {
	good := func() store.Change { return newTask(key("good"), "c1", at(0)) }
	twoGuards, noGuard, noRun, noEvents, noOwner, noContext := good(), good(), good(), good(), good(), good()
	twoGuards.Version = 1
	noGuard.Create = nil
	noRun.Run = nil
	noEvents.Events = nil
	noOwner.Key.Owner = ""
	noContext.Create = &store.Create{}
	for i, bad := range []store.Change{twoGuards, noGuard, noRun, noEvents, noOwner, noContext} {
		if results, err := f.s.Commit(f.ctx, good(), bad); err == nil {
			f.Errorf("Commit() of malformed change %d = %+v, want an error", i, results)
		}
	}
	f.absent(key("good"))
	f.noContext(owner, "c1")
}

func gapless(f *fixture) {
	k := key("t1")
	var log []store.Event
	many := func(n int) []store.Event {
		events := make([]store.Event, n)
		for i := range events {
			events[i] = said(at(len(log)+i), a2a.StateWorking, fmt.Sprint("m", len(log)+i))
		}
		log = append(log, events...)
		return events
	}
	f.commit(store.Change{Key: k, Create: &store.Create{ContextID: "c1"}, Events: many(3), Run: queued()})
	for _, n := range []int{1, 7, 0, 120, 2} {
		version := int64(len(log))
		if seq := f.commit(next(k, version, many(n)...)); seq != int64(len(log)) {
			f.Fatalf("Commit() of %d events at version %d = version %d, want %d", n, version, seq, len(log))
		}
	}
	f.equal("Events()", f.events(k), numbered(log))
	f.equal("Task()", f.task(k), fold(k, "c1", *queued(), log...))
}

func passedSeqIgnored(f *fixture) {
	k := key("t1")
	c := newTask(k, "c1", at(0))
	c.Events[0].Seq = 77
	f.commit(c)
	e := status(at(1), a2a.StateWorking)
	e.Seq = 1
	f.commit(next(k, 1, e))
	f.equal("Events()", f.events(k), numbered([]store.Event{received(at(0), "m1"), status(at(1), a2a.StateWorking)}))
}

func noEvents(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	c := next(k, 1)
	c.Run = &store.Run{Phase: store.PhaseQueued, Turn: 4, DueAt: at(500)}
	if seq := f.commit(c); seq != 1 {
		f.Errorf("Commit() without events = version %d, want 1", seq)
	}
	f.equal("Task().Run", f.task(k).Run, *c.Run)
	f.equal("Events()", f.events(k), numbered([]store.Event{received(at(0), "m1")}))
}

func runReplaced(f *fixture) {
	k := key("t1")
	c := newTask(k, "c1", at(0))
	c.Run = &store.Run{
		Phase: store.PhaseLeased, Turn: 3, Attempt: 4, SeenSeq: 1, StartSeq: 6,
		Lease: store.Lease{Worker: worker, Fence: 9, Until: at(100)},
	}
	f.commit(c)
	f.equal("Task().Run", f.task(k).Run, *c.Run)
	f.commit(next(k, 1, status(at(1), a2a.StateWorking)))
	f.equal("Task().Run after a change without Run", f.task(k).Run, *c.Run)

	c = under(k, worker, 9)
	c.Run = &store.Run{Phase: store.PhaseQueued, DueAt: at(200), Turn: 4, SeenSeq: 2, StartSeq: 1 << 40, Lease: store.Lease{Worker: worker, Fence: 9}}
	f.commit(c)
	f.equal("Task().Run", f.task(k).Run, *c.Run)
	f.refused(store.ErrLeaseLost, under(k, worker, 9))
	c = next(k, 2)
	c.Run = &store.Run{Phase: store.PhaseIdle}
	f.commit(c)
	f.equal("Task().Run", f.task(k).Run, *c.Run)
}
