package storetest

import (
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func pushExpireTests() []test {
	return []test{
		{"old attempts are removed", expireAttempts},
		{"old dead letters are removed, and no undelivered event", expireLetters},
		{"webhooks that have told all of a task that is over are removed", expireHooks},
		{"long-running webhooks are kept for longer", expireLongRunning},
		{"only what is over and told is removed", expireKeeps},
		{"no more is removed than is asked for", expireLimit},
		{"zero times remove nothing", expireNever},
		{"nothing is left of the webhooks of a deleted context", pushContextDeleted},
		{"webhooks of a deleted context that are held are gone as well", pushContextDeletedHeld},
	}
}

func (f *fixture) expirePush(p store.PushExpiry, limit int) int {
	f.Helper()
	n, err := f.s.ExpirePush(f.ctx, p, limit)
	if err != nil {
		f.Fatalf("ExpirePush(%+v, %d) = %v, want no error", p, limit, err)
	}
	return n
}

// over is a task that is over, whose webhooks have told all at some ms.
func (f *fixture) over(k store.Key, ms int, ids ...string) {
	f.Helper()
	c := hookedTask(k, 1, ids...)
	c.Events = append(c.Events, status(at(1), a2a.StateCompleted))
	f.commit(c)
	for _, l := range f.claimLanes(laneClaim(worker, 1, len(ids))) {
		f.ack(delivered(l, len(l.Events), ms))
	}
}

func expireAttempts(f *fixture) {
	k := key("t1")
	f.hooked(k, 5, "p", "q")
	for _, l := range f.claimLanes(laneClaim(worker, 10, 9)) {
		a := noted(l, 5, 0)
		for i := range a.Attempts {
			a.Attempts[i].At = at(100 * i)
		}
		f.ack(a)
	}
	f.equal("ExpirePush()", f.expirePush(store.PushExpiry{Attempts: at(0)}, 99), 0)
	f.equal("ExpirePush()", f.expirePush(store.PushExpiry{Attempts: at(200)}, 99), 4)
	for _, a := range f.attempts(store.PushQuery{}) {
		if a.At.Before(at(200)) {
			f.Errorf("PushAttempts() after ExpirePush() = one of %v", a.At)
		}
	}
	f.equal("number of PushAttempts()", len(f.attempts(store.PushQuery{Owner: owner})), 6)
	f.equal("number of PushAttempts() of p", len(f.attempts(store.PushQuery{Owner: owner, TaskID: "t1", ID: "p"})), 3)
	f.equal("ExpirePush() again", f.expirePush(store.PushExpiry{Attempts: at(200)}, 99), 0)
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{Dead: 10})
	f.equal("ExpirePush() of the others", f.expirePush(store.PushExpiry{Attempts: at(401)}, 99), 6)
}

func expireLetters(f *fixture) {
	k := key("t1")
	f.over(k, 10, "p", "q")
	f.replay(k, "p", place(1), 20)
	l := f.claimLane(worker, 20)
	a := noted(l, 1, 20)
	a.State = store.LaneParked
	for i := range 3 {
		a.Dead = append(a.Dead, letter(k, "p", int64(10+i), 100*i))
	}
	a.Dead = a.Dead[len(a.Dead)-3:]
	f.ack(a)
	f.hooked(key("t2"), 3, "p") // pending
	f.equal("ExpirePush()", f.expirePush(store.PushExpiry{Dead: at(0)}, 99), 0)
	f.equal("ExpirePush()", f.expirePush(store.PushExpiry{Dead: at(101)}, 1), 1)
	f.equal("ExpirePush() of the others", f.expirePush(store.PushExpiry{Dead: at(101)}, 99), 1)
	f.equal("DeadLetters()", f.letters(store.PushQuery{}), a.Dead[2:])
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{Pending: 1, Parked: 1, Dead: 1})
	f.equal("State", f.lane(k, "p").State, store.LaneParked)

	all := store.PushExpiry{Finished: at(1 << 30)}
	f.equal("ExpirePush() of webhooks", f.expirePush(all, 99), 1) // q
	f.lane(k, "p")
	all.Dead = at(1 << 30)
	f.equal("ExpirePush() of all", f.expirePush(all, 99), 2) // p with its last dead letter
	f.noLane(k, "p")
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{Pending: 1})
	l = f.claimLane(worker, 5000)
	f.equal("events of the pending lane", len(l.Events), 3)
}

func expireHooks(f *fixture) {
	for i, s := range []a2a.TaskState{a2a.StateCompleted, a2a.StateFailed, a2a.StateCanceled, a2a.StateRejected} {
		k := key(fmt.Sprint("t", i))
		f.hooked(k, 1, "p")
		f.add(k, status(at(2), s))
		l := f.claimLane(worker, 10)
		a := delivered(l, 2, 100)
		a.Attempts = []store.PushAttempt{attempt(k, "p", 1, 1, 50)}
		f.ack(a)
	}
	f.equal("ExpirePush()", f.expirePush(store.PushExpiry{Finished: at(100)}, 99), 0)
	f.equal("Lanes()", len(f.lanes(store.LaneQuery{}).Lanes), 4)
	f.equal("ExpirePush()", f.expirePush(store.PushExpiry{Finished: at(101)}, 99), 4)
	for i := range 4 {
		f.noLane(key(fmt.Sprint("t", i)), "p")
		f.task(key(fmt.Sprint("t", i)))
		f.undeletable(key(fmt.Sprint("t", i)), "p", 200)
	}
	f.equal("ExpirePush() again", f.expirePush(store.PushExpiry{Finished: at(101), Attempts: at(101)}, 99), 0)
	f.savePush(hook(key("t0"), "p"), place(2), 300)
	f.equal("ExpirePush()", f.expirePush(store.PushExpiry{Finished: at(300)}, 99), 0)
	f.lane(key("t0"), "p")
}

func expireLongRunning(f *fixture) {
	k := key("t1")
	f.over(k, 100, "short", "long")
	c := hook(k, "long")
	c.LongRunning = true
	f.savePush(c, place(0), 100)
	p := store.PushExpiry{Finished: at(5000), LongRunning: at(100)}
	f.equal("ExpirePush()", f.expirePush(p, 99), 1)
	f.noLane(k, "short")
	f.lane(k, "long")
	p = store.PushExpiry{Finished: at(5000)}
	f.equal("ExpirePush() without LongRunning", f.expirePush(p, 99), 0)
	f.equal("ExpirePush()", f.expirePush(store.PushExpiry{LongRunning: at(101)}, 99), 1)
	f.noLane(k, "long")
}

func expireKeeps(f *fixture) {
	for _, s := range []a2a.TaskState{a2a.StateWorking, a2a.StateInputRequired} {
		k := key("is " + string(s))
		f.hooked(k, 1, "p")
		f.add(k, status(at(2), s))
		f.done(10)
	}
	pending, dead := key("pending"), key("dead")
	f.over(dead, 10, "p", "q")
	f.replay(dead, "p", place(1), 10)
	l := f.claimLane(worker, 20)
	a := noted(l, 1, 20)
	f.ack(a)
	f.over(pending, 10, "p")
	f.replay(pending, "p", place(1), 20)
	all := store.PushExpiry{Attempts: at(0), Finished: at(1 << 30), LongRunning: at(1 << 30)}
	f.equal("ExpirePush()", f.expirePush(all, 99), 1) // q of what has dead letters
	f.noLane(dead, "q")
	f.equal("Lanes()", f.listLanes(store.LaneQuery{Limit: 9}),
		[]string{owner + "/dead/p", owner + "/is input-required/p", owner + "/is working/p", owner + "/pending/p"})
	f.equal("DeadLetters()", f.letters(store.PushQuery{}), a.Dead)

	f.replay(dead, "p", place(2), 30)
	f.equal("DeadLetters() after a replay", f.letters(store.PushQuery{}), a.Dead)
	f.replay(dead, "p", place(1), 30)
	for _, l := range f.claimLanes(laneClaim(worker, 30, 9)) {
		f.ack(delivered(l, 1, 30))
	}
	f.add(key("is working"), status(at(40), a2a.StateFailed))
	f.equal("ExpirePush()", f.expirePush(all, 99), 2)
	f.equal("ExpirePush()", f.expirePush(all, 99), 0)
	f.done(40)
	f.equal("ExpirePush()", f.expirePush(all, 99), 1)
	f.equal("Lanes()", f.listLanes(store.LaneQuery{Limit: 9}), []string{owner + "/is input-required/p"})
}

func expireLimit(f *fixture) {
	const n = 5
	for i := range n {
		k := key(fmt.Sprint("t", i))
		f.over(k, 100+i, "short", "long")
		c := hook(k, "long")
		c.LongRunning = true
		f.savePush(c, place(0), 100+i)
	}
	k := key("noted")
	f.hooked(k, 1, "p")
	a := noted(f.claimLane(worker, 10), 1, 0)
	for i := range n - 1 {
		a.Attempts = append(a.Attempts, attempt(k, "p", 1, i+2, i))
	}
	f.ack(a)
	p := store.PushExpiry{Attempts: at(1000), Finished: at(1000), LongRunning: at(1000)}
	var removed []int
	for range 20 {
		n := f.expirePush(p, 2)
		if removed = append(removed, n); n == 0 {
			break
		}
		if n > 4 {
			f.Errorf("ExpirePush() of 2 of each kind removed %d", n)
		}
	}
	sum := 0
	for _, n := range removed {
		sum += n
	}
	f.equal(fmt.Sprint("removed in all, by ", removed), sum, 3*n)
	f.equal("ExpirePush() of none", f.expirePush(p, 0), 0)
	f.equal("Lanes()", f.listLanes(store.LaneQuery{Limit: 9}), []string{owner + "/noted/p"})
	f.equal("PushAttempts()", f.attempts(store.PushQuery{}), []store.PushAttempt{})
}

func expireNever(f *fixture) {
	k := key("t1")
	f.over(k, 10, "p", "q")
	long := hook(k, "q")
	long.LongRunning = true
	f.savePush(long, place(0), 10)
	f.hooked(key("t2"), 1, "p")
	f.ack(noted(f.claimLane(worker, 10), 1, 10))
	f.equal("ExpirePush()", f.expirePush(store.PushExpiry{}, 99), 0)
	f.equal("Lanes()", len(f.lanes(store.LaneQuery{}).Lanes), 3)
	f.equal("PushAttempts()", len(f.attempts(store.PushQuery{})), 1)
}

// hookedContext makes a context of tasks with webhooks, all of which have noted
// something.
func (f *fixture) hookedContext(o, id string, n int) (keys []store.Key) {
	f.Helper()
	for i := range n {
		k := store.Key{Owner: o, ID: fmt.Sprint(id, "-", i)}
		c := hookedTask(k, 3, "p", "q", "r")
		c.Create.ContextID = id
		f.commit(c)
		keys = append(keys, k)
	}
	for _, l := range f.claimLanes(laneClaim(worker, 10, 3*n)) {
		a := noted(l, 2, 20)
		a.Hold = l.Config.ID == "q"
		if l.Config.ID == "r" {
			a = noted(l, 3, 20)
			a.State = store.LaneParked
		}
		f.ack(a)
	}
	return keys
}

func pushContextDeleted(f *fixture) {
	keys, theirs := f.hookedContext(owner, "c1", 3), f.hookedContext(other, "c1", 1)
	beside := f.hookedContext(owner, "c2", 1)
	type kept struct {
		Lanes    []store.Lane
		Letters  []store.DeadLetter
		Attempts []store.PushAttempt
	}
	read := func() kept {
		f.Helper()
		k := kept{Letters: f.letters(store.PushQuery{}), Attempts: f.attempts(store.PushQuery{}), Lanes: f.lanes(store.LaneQuery{}).Lanes}
		mine := func(key store.Key) bool { return slices.Contains(keys, key) }
		k.Lanes = slices.DeleteFunc(k.Lanes, func(l store.Lane) bool { return mine(l.Config.Task) })
		k.Letters = slices.DeleteFunc(k.Letters, func(d store.DeadLetter) bool { return mine(d.Task) })
		k.Attempts = slices.DeleteFunc(k.Attempts, func(a store.PushAttempt) bool { return mine(a.Task) })
		return k
	}
	before := read()
	if len(before.Lanes) != 6 || len(before.Letters) != 14 || len(before.Attempts) != 14 {
		f.Fatalf("%d lanes, %d dead letters and %d attempts beside, want 6, 14 and 14", len(before.Lanes), len(before.Letters), len(before.Attempts))
	}
	f.batch("c1", 1)
	f.equal("what was not deleted, between batches", read(), before)
	f.remove("c1", 2, 1)
	f.equal("what was not deleted", read(), before)
	for _, k := range keys {
		for _, id := range []string{"p", "q", "r"} {
			f.noLane(k, id)
			f.undeletable(k, id, 30)
		}
	}
	f.equal("Lanes()", len(f.lanes(store.LaneQuery{}).Lanes), 6)
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{Pending: 4, Parked: 2, Dead: 14})
	p := laneClaim(rival, 1000, 99)
	p.Takeover = true
	f.equal("ClaimLanes()", laneNames(f.claimLanes(p)), []string{
		laneName(&store.Lane{Config: hook(beside[0], "p")}), laneName(&store.Lane{Config: hook(theirs[0], "p")}),
		laneName(&store.Lane{Config: hook(beside[0], "q")}), laneName(&store.Lane{Config: hook(theirs[0], "q")}),
	})
	f.equal("ExpirePush()", f.expirePush(store.PushExpiry{Attempts: at(1 << 30)}, 99), 14)

	f.hooked(keys[0], 2) // of the same id, without webhooks
	f.equal("Lanes() of a new task", f.lanes(store.LaneQuery{Owner: owner, TaskID: keys[0].ID}), store.LanePage{})
	f.savePush(hook(keys[0], "p"), place(0), 2000)
	f.equal("Cursor", f.lane(keys[0], "p").Cursor, place(0))
	f.noNotes(keys[0])
}

// noNotes checks that nothing is noted of a task's webhooks.
func (f *fixture) noNotes(k store.Key) {
	f.Helper()
	q := store.PushQuery{Owner: k.Owner, TaskID: k.ID}
	f.equal("DeadLetters()", f.letters(q), []store.DeadLetter{})
	f.equal("PushAttempts()", f.attempts(q), []store.PushAttempt{})
}

func pushContextDeletedHeld(f *fixture) {
	c := hookedTask(key("t1"), 2, "p", "q")
	c.Create.ContextID = "c1"
	f.commit(c)
	claimed := f.claimLanes(laneClaim(worker, 10, 9))
	f.deletePush(key("t1"), "q", 20, true)
	f.remove("c1", 1, 9)
	for _, l := range claimed {
		f.undeletable(key("t1"), l.Config.ID, 30)
		f.fenced(l, 30)
	}
	f.notDue(1 << 30)
	f.equal("PushBacklog()", f.pushBacklog(), store.PushBacklog{})
}
