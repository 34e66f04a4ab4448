package storetest

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var commitTests = []test{
	{"a created task can be read", commitCreates},
	{"a task is created once", commitCreatesOnce},
	{"a change must name the current version", commitChecksVersion},
	{"a change of an absent task is not found", commitOfAbsentTask},
	{"a change under a lease needs that lease", commitChecksLease},
	{"a lease is valid after its deadline until another worker claims the task", leaseHeldPastDeadline},
	{"a change that removes the lease makes it lost", leaseRevoked},
	{"a change with an unread message is rejected", commitChecksUnread},
	{"a rejected change has no effect", rejectedChangeHasNoEffect},
	{"a duplicate key has precedence over every other error", duplicateHasPrecedence},
	{"a conflict has precedence over an unread message", guardPrecedesUnread},
	{"changes of one call are independent", changesAreIndependent},
	{"changes of one task in one call are applied in order", changesInOrder},
	{"a call without changes does nothing", commitOfNothing},
	{"a malformed change rejects the whole call", malformedChange},
	{"sequences start at 1 and have no gaps", sequencesAreGapless},
	{"sequences passed by the caller are ignored", callerSeqIgnored},
	{"a change without events does not change the version", commitWithoutEvents},
	{"a queue entry is replaced completely or not at all", queueEntryReplaced},
	{"times are stored in UTC with millisecond precision", timePrecision},
}

func commitCreates(f *fixture) {
	k := key("t1")
	events := []store.Event{clientMessage(at(0), "m1"), statusEvent(at(1), a2a.StateWorking)}
	c := store.Change{Key: k, Create: &store.Create{ContextID: "c1"}, Events: events, Queue: leased(worker, at(100))}
	suite.Equal(f, f.commit(c), 2, "version of Commit()")
	f.equal("Task()", f.task(k), fold(k, "c1", *leased(worker, at(100)), events...))
	f.equal("Events()", f.events(k), withSeqs(events))
}

func commitCreatesOnce(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	before := f.task(k)
	f.wantRejected(store.ErrExists, newTask(k, "other context", at(1)))
	f.equal("Task()", f.task(k), before)
	f.wantNoContext(owner, "other context")
}

func commitChecksVersion(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	suite.Equal(f, f.commit(changeAt(k, 1, statusEvent(at(1), a2a.StateWorking))), 2, "version of Commit()")
	before := f.task(k)
	for _, version := range []int64{1, 3, 1 << 60} {
		f.wantRejected(store.ErrConflict, changeAt(k, version, statusEvent(at(2), a2a.StateCompleted)))
	}
	f.equal("Task()", f.task(k), before)
	f.commit(changeAt(k, 2, statusEvent(at(3), a2a.StateCompleted)))
}

func commitOfAbsentTask(f *fixture) {
	f.wantRejected(store.ErrNotFound, changeAt(key("t1"), 1, statusEvent(at(0), a2a.StateWorking)))
	f.wantRejected(store.ErrNotFound, changeUnder(key("t1"), worker, 1, statusEvent(at(0), a2a.StateWorking)))
	f.wantNoTask(key("t1"))
}

func commitChecksLease(f *fixture) {
	k := key("t1")
	c := newTask(k, "c1", at(0))
	c.Queue = leased(worker, at(1000))
	f.commit(c)
	working := statusEvent(at(1), a2a.StateWorking)
	f.wantRejected(store.ErrLeaseLost, changeUnder(k, worker, 2, working))
	f.wantRejected(store.ErrLeaseLost, changeUnder(k, worker, 0, working))
	f.wantRejected(store.ErrLeaseLost, changeUnder(k, otherWorker, 1, working))
	suite.Equal(f, f.commit(changeUnder(k, worker, 1, working)), 2, "version of Commit()")
	f.commit(changeAt(k, 2, statusEvent(at(2), a2a.StateWorking)))
	suite.Equal(f, f.commit(changeUnder(k, worker, 1, statusEvent(at(3), a2a.StateCompleted))), 4, "version of Commit() under a lease after a change by version")
}

func leaseHeldPastDeadline(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	f.claim(claimAt(worker, at(1), 1))
	late := at(1).Add(1000 * 3600e9)
	f.commit(changeUnder(k, worker, 1, statusEvent(late, a2a.StateWorking)))
	if got := f.claim(claimAt(otherWorker, late, 1)); len(got) != 1 {
		f.Fatalf("Claim() of a task with an expired lease = %d tasks, want 1", len(got))
	}
	before := f.task(k)
	f.wantRejected(store.ErrLeaseLost, changeUnder(k, worker, 1, statusEvent(late, a2a.StateCompleted)))
	f.equal("Task()", f.task(k), before)
	f.commit(changeUnder(k, otherWorker, 2, statusEvent(late, a2a.StateCompleted)))
}

func leaseRevoked(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	f.claim(claimAt(worker, at(1), 1))
	canceled := changeAt(k, 2, statusEvent(at(2), a2a.StateCanceled))
	canceled.Queue = &store.QueueEntry{Phase: store.PhaseIdle, Turn: 1, Lease: store.Lease{Worker: worker, Fence: 1}}
	f.commit(canceled)
	f.wantRejected(store.ErrLeaseLost, changeUnder(k, worker, 1, statusEvent(at(3), a2a.StateCompleted)))
	suite.Equal(f, f.task(k).Status.State, a2a.StateCanceled, "Task().Status.State")
}

func commitChecksUnread(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	f.claim(claimAt(worker, at(1), 1))
	f.commit(changeAt(k, 2, clientMessage(at(2), "m2")))

	done := changeUnder(k, worker, 1, statusEvent(at(3), a2a.StateCompleted))
	done.Seen = 1
	f.wantRejected(store.ErrUnread, done)
	done.Seen = 2
	f.wantRejected(store.ErrUnread, done)
	byVersion := changeAt(k, 3, statusEvent(at(3), a2a.StateCompleted))
	byVersion.Seen = 2
	f.wantRejected(store.ErrUnread, byVersion)

	progress := changeUnder(k, worker, 1, statusEvent(at(3), a2a.StateWorking))
	suite.Equal(f, f.commit(progress), 4, "version of Commit() without Seen")
	done.Seen = 3
	suite.Equal(f, f.commit(done), 5, "version of Commit() with Seen at the message")
}

func rejectedChangeHasNoEffect(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	f.claim(claimAt(worker, at(1), 1))
	f.commit(changeAt(k, 2, clientMessage(at(2), "m2")))
	before, log, queue := f.task(k), f.events(k), f.backlog()

	unread := changeUnder(k, worker, 1)
	unread.Seen = 2
	rejections := []struct {
		want   error
		change store.Change
	}{
		{store.ErrConflict, changeAt(k, 1)},
		{store.ErrLeaseLost, changeUnder(k, worker, 7)},
		{store.ErrUnread, unread},
		{store.ErrExists, store.Change{Key: k, Create: &store.Create{ContextID: "new context"}}},
		{store.ErrNotFound, changeAt(key("none"), 1)},
	}
	for i, r := range rejections {
		c := withKey(r.change, fmt.Sprint("key ", i), at(5))
		c.Events = []store.Event{chunkEvent(at(5), "a", "text", false), agentMessage(at(5), a2a.StateCompleted, "m3")}
		c.Queue = idle()
		c.Steps = []store.Step{{Turn: 1, Name: "step", Result: []byte("result")}}
		f.wantRejected(r.want, c)
		f.wantNoRecord(owner, c.Idempotency.Key)
		f.equal(fmt.Sprintf("Steps() after %v", r.want), f.steps(c.Key, 1), []store.Step{})
	}
	f.equal("Task()", f.task(k), before)
	f.equal("Events()", f.events(k), log)
	f.equal("Backlog()", f.backlog(), queue)
	f.wantNoContext(owner, "new context")
	f.wantNoTask(key("none"))
}

func duplicateHasPrecedence(f *fixture) {
	k := key("t1")
	create := withKey(newTask(k, "c1", at(0)), "key", at(0))
	f.commit(create)
	f.wantRejected(store.ErrDuplicate, create)
	f.wantRejected(store.ErrDuplicate, withKey(changeAt(k, 7), "key", at(1)))
	f.wantRejected(store.ErrDuplicate, withKey(changeAt(key("none"), 1), "key", at(1)))
	f.wantRejected(store.ErrDuplicate, withKey(changeUnder(k, worker, 3), "key", at(1)))
	f.commit(changeAt(k, 1, clientMessage(at(1), "m2")))
	unread := withKey(changeAt(k, 2), "key", at(1))
	unread.Seen = 1
	f.wantRejected(store.ErrDuplicate, unread)
}

func guardPrecedesUnread(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	f.commit(changeAt(k, 1, clientMessage(at(1), "m2")))
	c := changeAt(k, 1)
	c.Seen = 1
	f.wantRejected(store.ErrConflict, c)
	c = changeUnder(k, worker, 1)
	c.Seen = 1
	f.wantRejected(store.ErrLeaseLost, c)
}

func changesAreIndependent(f *fixture) {
	f.create(key("t1"), at(0))
	results := f.commitResults(
		newTask(key("t2"), "c2", at(1)),
		newTask(key("t1"), "c1", at(1)),
		changeAt(key("none"), 1, statusEvent(at(1), a2a.StateWorking)),
		changeAt(key("t1"), 5, statusEvent(at(1), a2a.StateWorking)),
		changeAt(key("t1"), 1, statusEvent(at(1), a2a.StateWorking), statusEvent(at(2), a2a.StateWorking)),
	)
	var errs []error
	var seqs []int64
	for _, r := range results {
		errs, seqs = append(errs, r.Err), append(seqs, r.Seq)
	}
	want := []error{nil, store.ErrExists, store.ErrNotFound, store.ErrConflict, nil}
	f.equal("Commit() errors", fmt.Sprint(errs), fmt.Sprint(want))
	f.equal("Commit() versions", seqs, []int64{1, 0, 0, 0, 3})
	f.task(key("t2"))
	suite.Equal(f, f.task(key("t1")).Seq, 3, "Task().Seq")
}

func changesInOrder(f *fixture) {
	k := key("t1")
	events := []store.Event{clientMessage(at(0), "m1"), agentMessage(at(1), a2a.StateWorking, "m2"), agentMessage(at(2), a2a.StateWorking, "m3"), agentMessage(at(3), a2a.StateCompleted, "m4")}
	done := changeAt(k, 3, events[3])
	done.Queue = idle()
	results := f.commitResults(
		store.Change{Key: k, Create: &store.Create{ContextID: "c1"}, Events: events[:1], Queue: queued()},
		changeAt(k, 1, events[1]),
		changeAt(k, 1, statusEvent(at(9), a2a.StateFailed)),
		changeAt(k, 2, events[2]),
		done,
		newTask(k, "c1", at(9)),
	)
	var seqs []int64
	for _, r := range results {
		seqs = append(seqs, r.Seq)
	}
	f.equal("Commit() versions", seqs, []int64{1, 2, 0, 3, 4, 0})
	f.equal("Task()", f.task(k), fold(k, "c1", *idle(), events...))
	f.equal("Events()", f.events(k), withSeqs(events))
}

func commitOfNothing(f *fixture) {
	suite.Call(f.s.Commit(f.ctx)).Empty(f, "Commit() of nothing")
}

func malformedChange(f *fixture) {
	good := func() store.Change { return newTask(key("good"), "c1", at(0)) }
	twoGuards, noGuard, noRun, noEvents, noOwner, noContext := good(), good(), good(), good(), good(), good()
	twoGuards.Version = 1
	noGuard.Create = nil
	noRun.Queue = nil
	noEvents.Events = nil
	noOwner.Key.Owner = ""
	noContext.Create = &store.Create{}
	for i, bad := range []store.Change{twoGuards, noGuard, noRun, noEvents, noOwner, noContext} {
		if results, err := f.s.Commit(f.ctx, good(), bad); err == nil {
			f.Errorf("Commit() of malformed change %d = %+v, want an error", i, results)
		}
	}
	f.wantNoTask(key("good"))
	f.wantNoContext(owner, "c1")
}

func sequencesAreGapless(f *fixture) {
	k := key("t1")
	var log []store.Event
	many := func(n int) []store.Event {
		events := make([]store.Event, n)
		for i := range events {
			events[i] = agentMessage(at(len(log)+i), a2a.StateWorking, fmt.Sprint("m", len(log)+i))
		}
		log = append(log, events...)
		return events
	}
	f.commit(store.Change{Key: k, Create: &store.Create{ContextID: "c1"}, Events: many(3), Queue: queued()})
	for _, n := range []int{1, 7, 0, 120, 2} {
		version := int64(len(log))
		if seq := f.commit(changeAt(k, version, many(n)...)); seq != int64(len(log)) {
			f.Fatalf("Commit() of %d events at version %d = version %d, want %d", n, version, seq, len(log))
		}
	}
	f.equal("Events()", f.events(k), withSeqs(log))
	f.equal("Task()", f.task(k), fold(k, "c1", *queued(), log...))
}

func callerSeqIgnored(f *fixture) {
	k := key("t1")
	c := newTask(k, "c1", at(0))
	c.Events[0].Seq = 77
	f.commit(c)
	e := statusEvent(at(1), a2a.StateWorking)
	e.Seq = 1
	f.commit(changeAt(k, 1, e))
	f.equal("Events()", f.events(k), withSeqs([]store.Event{clientMessage(at(0), "m1"), statusEvent(at(1), a2a.StateWorking)}))
}

func commitWithoutEvents(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	c := changeAt(k, 1)
	c.Queue = &store.QueueEntry{Phase: store.PhaseQueued, Turn: 4, DueAt: at(500)}
	suite.Equal(f, f.commit(c), 1, "version of Commit() without events")
	f.equal("Task().Queue", f.task(k).Queue, *c.Queue)
	f.equal("Events()", f.events(k), withSeqs([]store.Event{clientMessage(at(0), "m1")}))
}

func queueEntryReplaced(f *fixture) {
	k := key("t1")
	c := newTask(k, "c1", at(0))
	c.Queue = &store.QueueEntry{
		Phase: store.PhaseLeased, Turn: 3, Attempt: 4, SeenSeq: 1, StartSeq: 6,
		Lease: store.Lease{Worker: worker, Fence: 9, Until: at(100)},
	}
	f.commit(c)
	f.equal("Task().Queue", f.task(k).Queue, *c.Queue)
	f.commit(changeAt(k, 1, statusEvent(at(1), a2a.StateWorking)))
	f.equal("Task().Queue after a change without Queue", f.task(k).Queue, *c.Queue)

	c = changeUnder(k, worker, 9)
	c.Queue = &store.QueueEntry{Phase: store.PhaseQueued, DueAt: at(200), Turn: 4, SeenSeq: 2, StartSeq: 1 << 40, Lease: store.Lease{Worker: worker, Fence: 9}}
	f.commit(c)
	f.equal("Task().Queue", f.task(k).Queue, *c.Queue)
	f.wantRejected(store.ErrLeaseLost, changeUnder(k, worker, 9))
	c = changeAt(k, 2)
	c.Queue = &store.QueueEntry{Phase: store.PhaseIdle}
	f.commit(c)
	f.equal("Task().Queue", f.task(k).Queue, *c.Queue)
}
