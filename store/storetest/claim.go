package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var claimTests = []test{
	{"a claim leases a due task and appends its event", claimLeases},
	{"nothing is claimed when nothing is due", claimNothing},
	{"the longest due task is claimed first", claimDueOrder},
	{"a delayed task takes its place by its due time", claimDelayed},
	{"tasks due at the same time are claimed in the order of their ids", claimTies},
	{"a claim returns at most Limit tasks", claimLimit},
	{"a task is not claimed before it is due", claimNotDue},
	{"a task due after the horizon is claimed", claimHorizon},
	{"owners are visited round-robin", claimFairOwners},
	{"a claim continues after AfterOwner", claimAfterOwner},
	{"an owner with many tasks does not delay another owner", claimBusyOwner},
	{"contexts of an owner are visited round-robin", claimFairContexts},
	{"a claim continues after AfterContexts", claimAfterContext},
	{"OldestFirst ignores contexts", claimOldestFirst},
	{"tasks with an ended lease are claimed first", claimEndedLeasesFirst},
	{"a context with many tasks does not delay another context", claimBusyContext},
	{"contexts added between claims delay no other context", claimNewContexts},
	{"contexts without due tasks delay no other context", claimManyUndueContexts},
	{"owners with tasks that are not due do not slow down claims", claimManyWaitingOwners},
	{"many tasks that become due together are all claimed", claimManyDueTogether},
	{"another worker claims a task after its lease has ended", claimEndedLease},
	{"a lease that ends at Now has ended", claimLeaseEndsNow},
	{"a worker does not claim tasks that are leased to it", claimOwnLease},
	{"Takeover claims the tasks of other workers", claimTakeover},
	{"QueuedOnly ignores tasks with an ended lease", claimQueuedOnly},
	{"every claim increments the fence and the attempt", claimFence},
	{"a claim keeps the turn and its positions", claimKeepsTurn},
	{"a claim appends its event completely", claimEvent},
	{"the time of a claim's event is not before the last event", claimEventTime},
	{"tasks larger than OutlineAbove are returned as outlines", claimOutlines},
	{"an idle task is not claimed", claimIdle},
	{"a requeued task is claimed again", claimRequeued},
	{"a task created with a lease is claimed after the lease ends", claimCreatedLeased},
	{"a canceled claim reports leases that it does not return", claimCanceled},
	{"a claim skips the owners in Skip", claimSkip},
	{"the backlog counts queued and leased tasks", backlogCounts},
	{"queued tasks of an owner are counted up to a limit", queuedCounts},
}

func claimOutlines(f *fixture) {
	small, large := key("t1"), key("t2")
	f.commit(newTask(small, "c1", at(0)))
	c := newTask(large, "c2", at(1))
	c.Events = append(c.Events, chunkEvent(at(1), "a", strings.Repeat("x", 1000), false))
	f.commit(c)
	p := claimAt(worker, at(2), 5)
	p.OutlineAbove = 100
	claimed := f.claim(p)
	if len(claimed) != 2 || claimed[0].Outline || len(claimed[0].History) != 1 {
		f.Fatalf("Claim() = %+v, want the small task with its content, then an outline", claimed)
	}
	whole := f.task(large)
	if whole.Outline || len(whole.Artifacts) != 1 || whole.Bytes < 1000 {
		f.Errorf("Task() = %+v, want the complete task with its size", whole)
	}
	f.equal("Claim()[1]", claimed[1], whole.AsOutline())
	versions, err := f.s.Versions(f.ctx, []store.Key{large})
	if err != nil || versions[large].Bytes != whole.Bytes {
		f.Errorf("Versions() = %+v, %v, want %d bytes", versions, err, whole.Bytes)
	}
}

// claimCanceled cancels the contexts of claims after different times. Every task that a claim
// leased must be returned, unless the claim returns an error.
func claimCanceled(f *fixture) {
	for i := range 20 {
		w, now := fmt.Sprint("worker ", i), at(100*i)
		keys := make([]store.Key, 8)
		for n := range keys {
			keys[n] = key(fmt.Sprintf("t%d-%d", i, n))
			f.commit(newTask(keys[n], fmt.Sprint("c", n%5), now))
		}
		ctx, cancel := context.WithCancel(f.ctx)
		stop := time.AfterFunc(time.Duration(i*i)*50*time.Microsecond, cancel)
		tasks, err := f.s.Claim(ctx, claimAt(w, now, len(keys)))
		stop.Stop()
		cancel()
		returned := make(map[store.Key]bool)
		for _, t := range tasks {
			returned[t.Key] = true
		}
		for _, k := range keys {
			leased := f.task(k).Queue.Lease.Worker == w
			if returned[k] && !leased || leased && !returned[k] && err == nil {
				f.Errorf("Claim() = task %s: %t, error %v; leased: %t", k.ID, returned[k], err, leased)
			}
		}
		f.claim(claimAt("rest", now, len(keys)))
	}
}

func claimLeases(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	got := f.claim(claimAt(worker, at(5), 10))
	want := fold(k, "context", *leased(worker, at(5).Add(time.Minute)), clientMessage(at(0), "m1"), statusEvent(at(5), a2a.StateWorking))
	f.equal("Claim()", got, []*store.Task{want})
	f.equal("Task()", f.task(k), want)
	f.equal("Events()", f.events(k), withSeqs([]store.Event{clientMessage(at(0), "m1"), statusEvent(at(5), a2a.StateWorking)}))
	suite.Empty(f, ids(f.claim(claimAt(otherWorker, at(6), 10))), "Claim() of a leased task")
}

func claimNothing(f *fixture) {
	suite.Empty(f, ids(f.claim(claimAt(worker, at(0), 10))), "Claim() of an empty store")
}

// createDueTasks creates tasks of one owner, with the given due times by id.
func (f *fixture) createDueTasks(owner string, due map[string]time.Time) {
	f.Helper()
	for id, t := range due {
		c := newTask(store.Key{Owner: owner, ID: id}, "context", at(0))
		c.Queue.DueAt = t
		f.commit(c)
	}
}

func claimDueOrder(f *fixture) {
	f.createDueTasks(owner, map[string]time.Time{"a": at(30), "b": at(10), "c": {}, "d": at(20), "e": at(-5)})
	got := ids(f.claim(claimAt(worker, at(100), 10)))
	f.equal("Claim()", got, []string{"c", "e", "b", "d", "a"})
}

func claimTies(f *fixture) {
	f.createDueTasks(owner, map[string]time.Time{"b": at(1), "a": at(1), "Z": at(1), "é": at(1), "a b": at(1), "a-b": at(1), "10": at(1), "9": at(1)})
	got := ids(f.claim(claimAt(worker, at(100), 10)))
	f.equal("Claim()", got, []string{"10", "9", "Z", "a", "a b", "a-b", "b", "é"})
}

func claimLimit(f *fixture) {
	f.createDueTasks(owner, map[string]time.Time{"a": at(1), "b": at(2), "c": at(3), "d": at(4), "e": at(5)})
	suite.Empty(f, ids(f.claim(claimAt(worker, at(100), 0))), "Claim() with limit 0")
	for _, want := range [][]string{{"a", "b"}, {"c", "d"}, {"e"}, {}} {
		f.equal("Claim()", ids(f.claim(claimAt(worker, at(100), 2))), want)
	}
}

func claimNotDue(f *fixture) {
	f.createDueTasks(owner, map[string]time.Time{"a": at(50)})
	suite.Empty(f, ids(f.claim(claimAt(worker, at(49), 1))), "Claim() before the task is due")
	f.equal("Claim() when the task is due", ids(f.claim(claimAt(worker, at(50), 1))), []string{"a"})
}

func claimHorizon(f *fixture) {
	hour := int(time.Hour / time.Millisecond)
	f.createDueTasks(owner, map[string]time.Time{"soon": at(hour), "past": at(-1), "beyond": at(hour + 1), "far": at(100 * hour)})
	lent := newTask(key("leased"), "context", at(0))
	lent.Queue = leased(otherWorker, at(50*hour))
	own := newTask(key("own"), "context", at(0))
	own.Queue = leased(worker, at(50*hour))
	f.commit(lent, own)
	p := claimAt(worker, at(0), 10)
	p.Horizon = time.Hour
	f.equal("Claim() with a horizon", ids(f.claim(p)), []string{"leased", "past", "beyond", "far"})
}

func claimFairOwners(f *fixture) {
	f.createDueTasks("a", map[string]time.Time{"a1": at(0), "a2": at(1), "a3": at(2), "a4": at(3)})
	f.createDueTasks("b", map[string]time.Time{"b1": at(50)})
	f.createDueTasks("c", map[string]time.Time{"c1": at(20), "c2": at(10)})
	got := ids(f.claim(claimAt(worker, at(100), 6)))
	f.equal("Claim()", got, []string{"a1", "b1", "c2", "a2", "c1", "a3"})
}

func claimAfterOwner(f *fixture) {
	for _, o := range []string{"a", "b", "B", "c", "ä"} {
		f.createDueTasks(o, map[string]time.Time{o + "1": at(1), o + "2": at(2), o + "3": at(3)})
	}
	claim := func(after string, limit int) []string {
		p := claimAt(worker, at(100), limit)
		p.AfterOwner = after
		return ids(f.claim(p))
	}
	f.equal("Claim() after b", claim("b", 3), []string{"c1", "ä1", "B1"})
	f.equal("Claim() after B", claim("B", 3), []string{"a1", "b1", "c2"})
	f.equal("Claim() after an absent owner", claim("bb", 2), []string{"c3", "ä2"})
	f.equal("Claim() after the last owner", claim("ä", 1), []string{"B2"})
	f.equal("Claim() of the rest after a", claim("a", 10), []string{"b2", "ä3", "B3", "a2", "b3", "a3"})
}

func claimBusyOwner(f *fixture) {
	var changes []store.Change
	for i := range 200 {
		changes = append(changes, newTask(store.Key{Owner: "flood", ID: fmt.Sprint(i)}, "context", at(0)))
	}
	f.commit(changes...)
	c := newTask(store.Key{Owner: "quiet", ID: "t"}, "context", at(50))
	c.Queue.DueAt = at(50)
	f.commit(c)
	last := ""
	for range 2 {
		p := claimAt(worker, at(100), 1)
		p.AfterOwner = last
		got := suite.Len(f, f.claim(p), 1, "Claim()")
		if last = got[0].Key.Owner; last == "quiet" {
			return
		}
	}
	f.Errorf("two claims returned no task of the second owner")
}

func claimEndedLease(f *fixture) {
	f.create(key("t1"), at(0))
	f.claim(claimAt(worker, at(0), 1)) // for one minute
	suite.Empty(f, ids(f.claim(claimAt(otherWorker, at(59_999), 1))), "Claim() before the lease ends")
	got := f.claim(claimAt(otherWorker, at(60_001), 1))
	if len(got) != 1 || got[0].Queue.Lease.Worker != otherWorker {
		f.Fatalf("Claim() after the lease ended = %v, want the task", got)
	}
}

func claimLeaseEndsNow(f *fixture) {
	f.create(key("t1"), at(0))
	f.claim(claimAt(worker, at(0), 1))
	f.equal("Claim() when the lease ends", ids(f.claim(claimAt(otherWorker, at(60_000), 1))), []string{"t1"})
}

func claimOwnLease(f *fixture) {
	f.create(key("t1"), at(0))
	f.claim(claimAt(worker, at(0), 1))
	p := claimAt(worker, at(0).Add(1000*time.Hour), 1)
	p.Takeover, p.Horizon = true, time.Millisecond
	suite.Empty(f, ids(f.claim(p)), "Claim() of a task leased to the same worker")
	f.create(key("t2"), at(1))
	f.equal("Claim() with an own lease", ids(f.claim(p)), []string{"t2"})
}

func claimTakeover(f *fixture) {
	f.create(key("t1"), at(0))
	f.create(key("t2"), at(0))
	f.claim(claimAt(otherWorker, at(1), 1))
	f.claim(claimAt(worker, at(2), 1))
	f.create(key("t3"), at(3))
	f.createDueTasks(owner, map[string]time.Time{"t4": at(1000)})
	p := claimAt(worker, at(4), 10)
	p.Takeover = true
	f.equal("Claim() with Takeover", ids(f.claim(p)), []string{"t1", "t3"})
	f.wantRejected(store.ErrLeaseLost, changeUnder(key("t1"), otherWorker, 1))
	f.commit(changeUnder(key("t1"), worker, 2), changeUnder(key("t2"), worker, 1))
}

// claimQueuedOnly has leases that have ended, end now, and end beyond the horizon.
func claimQueuedOnly(f *fixture) {
	for _, o := range []string{owner, otherOwner} {
		for i, until := range []int{10, 100, 10_000} {
			c := newTask(store.Key{Owner: o, ID: fmt.Sprint("leased", i)}, "context", at(0))
			c.Queue = leased(otherWorker, at(until))
			f.commit(c)
		}
	}
	f.createDueTasks(owner, map[string]time.Time{"due": at(90), "far": at(20_000), "later": at(500)})
	for _, takeover := range []bool{false, true} {
		for _, horizon := range []time.Duration{0, time.Second} {
			p := claimAt(worker, at(100), 10)
			p.QueuedOnly, p.Takeover, p.Horizon = true, takeover, horizon
			want := []string{}
			switch {
			case !takeover && horizon == 0:
				want = []string{"due"}
			case !takeover:
				want = []string{"far"}
			}
			f.equal(fmt.Sprintf("Claim() with QueuedOnly, Takeover %v, Horizon %s", takeover, horizon), ids(f.claim(p)), want)
		}
	}
	p := claimAt(worker, at(100), 10)
	p.Horizon = time.Second
	f.equal("Claim() without QueuedOnly", len(f.claim(p)), 6)
}

func claimFence(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	now := at(0)
	for i := 1; i <= 5; i++ {
		w := []string{worker, otherWorker}[i%2]
		got := suite.Len(f, f.claim(claimAt(w, now, 1)), 1, "Claim() call %d", i)
		want := store.Lease{Worker: w, Fence: int64(i), Until: now.Add(time.Minute)}
		f.equal("Claim()[0].Queue.Lease", got[0].Queue.Lease, want)
		if r := got[0].Queue; r.Attempt != i || got[0].Seq != int64(i+1) {
			f.Errorf("Claim() call %d = attempt %d, version %d, want %d, %d", i, r.Attempt, got[0].Seq, i, i+1)
		}
		now = now.Add(2 * time.Minute)
	}
}

func claimKeepsTurn(f *fixture) {
	c := newTask(key("t1"), "context", at(0))
	c.Queue = &store.QueueEntry{Phase: store.PhaseQueued, Turn: 7, Attempt: 2, SeenSeq: 1, StartSeq: 1, Lease: store.Lease{Worker: otherWorker, Fence: 40}}
	f.commit(c)
	got := suite.Len(f, f.claim(claimAt(worker, at(1), 1)), 1, "Claim()")
	f.equal("Claim()[0].Queue", got[0].Queue, store.QueueEntry{
		Phase: store.PhaseLeased, Turn: 7, Attempt: 3, SeenSeq: 1, StartSeq: 1,
		Lease: store.Lease{Worker: worker, Fence: 41, Until: at(1).Add(time.Minute)},
	})
}

func claimEvent(f *fixture) {
	f.create(key("t1"), at(0))
	f.create(key("t2"), at(0))
	f.commit(changeAt(key("t2"), 1, statusEvent(at(1), a2a.StateSubmitted)))
	p := claimAt(worker, at(2), 2)
	p.Event = agentMessage(at(2), a2a.StateWorking, "hello")
	p.Event.Metadata = map[string]any{"claimed": "by " + worker}
	p.Event.Seq = 99
	got := f.claim(p)
	f.equal("Claim()", ids(got), []string{"t1", "t2"})
	for _, t := range got {
		log := f.events(t.Key)
		last := p.Event
		last.Seq = t.Seq
		f.equal("last of Events()", log[len(log)-1], last)
		f.equal("Claim()", t, f.task(t.Key))
		f.equal("Task().Metadata", t.Metadata, p.Event.Metadata)
	}
}

// claimEventTime claims tasks with a last event that is earlier than the claim, a later
// status, or a later artifact chunk.
func claimEventTime(f *fixture) {
	for id, last := range map[string]int{"t1": 0, "t2": 60, "t3": 70} {
		f.create(key(id), at(0))
		e := statusEvent(at(last), a2a.StateWorking)
		if id == "t3" {
			e = chunkEvent(at(last), "a", "text", false)
		}
		f.commit(changeAt(key(id), 1, e))
	}
	p := claimAt(worker, at(50), 3)
	p.Event = statusEvent(at(50), a2a.StateWorking)
	got := make(map[string]time.Time)
	for _, t := range f.claim(p) {
		log := f.events(t.Key)
		got[t.Key.ID] = log[len(log)-1].Time
		f.equal("Claim()", t, f.task(t.Key))
		f.equal("Task().Status.Timestamp", t.Status.Timestamp, got[t.Key.ID])
	}
	f.equal("event times", got, map[string]time.Time{"t1": at(50), "t2": at(60), "t3": at(70)})
}

func claimIdle(f *fixture) {
	c := newTask(key("t1"), "context", at(0))
	c.Queue = idle()
	f.commit(c)
	f.create(key("t2"), at(0))
	done := changeAt(key("t2"), 1, statusEvent(at(1), a2a.StateCompleted))
	done.Queue = idle()
	f.commit(done)
	p := claimAt(worker, at(0).Add(time.Hour), 10)
	p.Takeover, p.Horizon = true, time.Millisecond
	suite.Empty(f, ids(f.claim(p)), "Claim() of idle tasks")
}

func claimRequeued(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	f.claim(claimAt(worker, at(1), 1))
	c := changeUnder(k, worker, 1, statusEvent(at(2), a2a.StateSubmitted))
	c.Queue = &store.QueueEntry{Phase: store.PhaseQueued, DueAt: at(500), Turn: 1, Attempt: 1, Lease: store.Lease{Worker: worker, Fence: 1}}
	f.commit(c)
	suite.Empty(f, ids(f.claim(claimAt(worker, at(499), 1))), "Claim() before the retry is due")
	got := f.claim(claimAt(worker, at(500), 1))
	if len(got) != 1 || got[0].Queue.Attempt != 2 || got[0].Queue.Lease.Fence != 2 {
		f.Fatalf("Claim() of a task that the worker requeued = %+v, want attempt 2 under fence 2", got)
	}
	f.wantRejected(store.ErrLeaseLost, changeUnder(k, worker, 1))
}

func claimCreatedLeased(f *fixture) {
	c := newTask(key("t1"), "context", at(0))
	c.Queue = leased(worker, at(100))
	f.commit(c)
	suite.Empty(f, ids(f.claim(claimAt(otherWorker, at(99), 1))), "Claim() during the lease")
	got := f.claim(claimAt(otherWorker, at(100), 1))
	if len(got) != 1 || got[0].Queue.Lease.Fence != 2 {
		f.Errorf("Claim() after the lease = %+v, want the task under fence 2", got)
	}
}

// claimSkip has three owners with due tasks, ended leases, and tasks beyond the horizon, which
// stay due once a claim with a horizon has found them due.
func claimSkip(f *fixture) {
	for _, o := range []string{"a", "b", "c"} {
		c := newTask(store.Key{Owner: o, ID: "leased"}, "context", at(0))
		c.Queue = leased(otherWorker, at(10))
		f.commit(c)
		f.createDueTasksIn(o, "c1", map[string]time.Time{o + "1": at(1), o + "2": at(2)})
		f.createDueTasksIn(o, "c2", map[string]time.Time{o + "3": at(3), o + "far": at(20_000)})
	}
	claim := func(p store.ClaimParams, skip ...string) []string {
		p.Skip = skip
		return ids(f.claim(p))
	}
	f.equal("Claim() with Skip a and c", claim(claimAt(worker, at(100), 2), "c", "nobody", "a"), []string{"leased", "b1"})
	oldest := claimAt(worker, at(100), 2)
	oldest.OldestFirst, oldest.AfterOwner = true, "b"
	f.equal("Claim() with OldestFirst and Skip a and b", claim(oldest, "a", "b"), []string{"leased", "c1"})
	f.equal("Claim() with Skip a", claim(claimAt(worker, at(100), 10), "a"), []string{"b2", "c2", "b3", "c3"})
	far := claimAt(worker, at(100), 10)
	far.Horizon, far.Takeover = time.Second, true
	f.equal("Claim() beyond the horizon", claim(far, "a"), []string{"bfar", "cfar"})
	f.equal("Claim() of all", claim(claimAt(worker, at(100), 10)), []string{"leased", "a1", "a3", "a2", "afar"})
}

func backlogCounts(f *fixture) {
	want := func(queued, leased int) {
		f.Helper()
		f.equal("Backlog()", f.backlog(), store.Backlog{Queued: queued, Leased: leased})
	}
	want(0, 0)
	f.create(key("t1"), at(0))
	f.create(store.Key{Owner: otherOwner, ID: "t1"}, at(0))
	f.createDueTasks(owner, map[string]time.Time{"later": at(1 << 30)})
	want(3, 0)
	f.claim(claimAt(worker, at(1), 1))
	want(2, 1)
	f.claim(claimAt(otherWorker, at(1).Add(time.Hour), 2))
	want(1, 2)
	for _, t := range f.list(store.Query{Owner: owner, Limit: 10}).Tasks {
		c := changeAt(t.Key, t.Seq)
		c.Queue = idle()
		f.commit(c)
	}
	want(0, 1)
}

func queuedCounts(f *fixture) {
	want := func(owner string, limit, n int) {
		f.Helper()
		suite.Call(f.s.Queued(f.ctx, owner, limit)).Want(f, n, "Queued(%q, %d)", owner, limit)
	}
	want(owner, 10, 0)
	f.create(store.Key{Owner: otherOwner, ID: "t1"}, at(0))
	f.createDueTasks(owner, map[string]time.Time{"now": at(0), "soon": at(1), "later": at(1 << 30), "last": at(1 << 31)})
	want(owner, 10, 4)
	want(owner, 4, 4)
	want(owner, 3, 3)
	want(owner, 1, 1)
	want(otherOwner, 10, 1)
	want("nobody", 10, 0)
	f.claim(claimAt(worker, at(1), 3))
	want(owner, 10, 2) // the tasks that are due later
	want(owner, 1, 1)
	want(otherOwner, 10, 0)
}
