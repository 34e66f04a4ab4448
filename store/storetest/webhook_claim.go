package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var webhookClaimTests = []test{
	{"a claimed lane contains its events and its task's properties", laneClaimed},
	{"a lane is not claimed before it is due", laneDue},
	{"any worker claims a lane after its lease has ended", laneLeaseEnds},
	{"Takeover ends only the leases of other workers", laneTakeover},
	{"a lane due after the horizon is claimed", laneHorizon},
	{"lanes found due are not lost when the clock is set back", laneClockBack},
	{"a lane that is not pending is not claimed", laneNotPending},
	{"the longest due lane of an owner is claimed first", laneOrder},
	{"owners are visited round-robin", laneFairOwners},
	{"a claim continues after AfterOwner", laneAfterOwner},
	{"a claim skips the owners in Skip", laneSkip},
	{"a claim returns at most Limit lanes", laneLimit},
	{"a claim reads at most Events events per lane", laneEvents},
	{"a claim reads events up to Bytes", laneBytes},
	{"a claim does not read events larger than LargestRow", laneLargeEvents},
}

func laneClaimed(f *fixture) {
	k := key("t1")
	c := taskWithWebhooks(k, 2, "p")
	c.Create.ContextID = "c1"
	c.Events[1] = chunkEvent(at(7), "a", "text", false)
	f.commit(c)
	for i := range 3 {
		ms := 100_000 * (i + 1)
		p := laneClaim(fmt.Sprint("worker-", i), ms, 1)
		got := f.claimLanes(p)
		want := newLane(committedWebhook(k, "p", 7), cursorAt(0), 2, 7)
		want.Worker, want.Fence, want.LeaseUntil = p.Worker, want.Fence+1+int64(i), p.Until
		f.equal("ClaimLanes()", got, []store.ClaimedLane{{
			Lane: want, Events: withSeqs(c.Events), Created: at(0), ContextID: "c1",
		}})
		f.equal("Lanes()", f.lane(k, "p"), want)
	}
}

// createDueLanes creates lanes of an owner, one per task, with the given due times in ms.
func (f *fixture) createDueLanes(o string, due map[string]int) {
	f.Helper()
	for id, ms := range due {
		k := store.Key{Owner: o, ID: id}
		f.createTaskWithWebhooks(k, 1)
		f.saveWebhook(testWebhook(k, "p"), cursorAt(0), ms)
	}
}

func laneDue(f *fixture) {
	f.createDueLanes(owner, map[string]int{"t1": 100, "t2": 200})
	for _, test := range []struct {
		ms   int
		want []string
	}{{99, []string{}}, {100, []string{owner + "/t1/p"}}, {199, []string{}}, {200, []string{owner + "/t2/p"}}, {9999, []string{}}} {
		f.equal(fmt.Sprint("ClaimLanes() at ", test.ms), laneNames(f.claimLanes(laneClaim(worker, test.ms, 9))), test.want)
	}
}

func laneLeaseEnds(f *fixture) {
	k := key("t1")
	f.createDueLanes(owner, map[string]int{"t1": 0})
	var last store.ClaimedLane
	for i, w := range []string{worker, worker, otherWorker, worker} {
		ms := i * 60_000
		if i > 0 {
			f.wantNoDueLane(ms - 1)
		}
		l := f.claimLane(w, ms)
		if l.Worker != w || !l.LeaseUntil.Equal(at(ms+60_000)) || i > 0 && l.Fence != last.Fence+1 {
			f.Errorf("ClaimLanes() = worker %s, fence %d until %v, want %s, %d, %v", l.Worker, l.Fence, l.LeaseUntil, w, last.Fence+1, at(ms+60_000))
		}
		if i > 0 {
			f.wantLeaseLost(last, ms)
		}
		last = l
	}
	f.equal("Lanes()", f.lane(k, "p"), last.Lane)
	f.ack(ackDelivered(last, 1, 1<<30)) // long after its deadline, but no other worker has claimed it
	f.equal("Lanes() cursor", f.lane(k, "p").Cursor, cursorAt(1))
}

func laneTakeover(f *fixture) {
	f.createDueLanes(owner, map[string]int{"mine": 0, "theirs": 1, "waits": 1 << 30})
	f.equal("ClaimLanes()", len(f.claimLanes(laneClaim(worker, 0, 9))), 1)
	theirs := f.claimLane(otherWorker, 1)
	f.createDueLanes(otherOwner, map[string]int{"due": 5})
	p := laneClaim(worker, 10, 9)
	p.Takeover = true
	got := f.claimLanes(p)
	f.equal("ClaimLanes() with Takeover", laneNames(got), []string{owner + "/theirs/p", otherOwner + "/due/p"})
	f.wantLeaseLost(theirs, 11)
	p.Worker = "worker-3"
	f.equal("ClaimLanes() with Takeover", laneNames(f.claimLanes(p)), []string{owner + "/mine/p", otherOwner + "/due/p", owner + "/theirs/p"})
	f.equal("ClaimLanes() again", laneNames(f.claimLanes(p)), []string{})
}

func laneHorizon(f *fixture) {
	f.createDueLanes(owner, map[string]int{"beyond": 100_001, "at": 100_000, "leased": 0})
	long := laneClaim(worker, 0, 1)
	long.Until = at(200_000)
	f.claimLanes(long)
	p := laneClaim(otherWorker, 0, 9)
	p.Horizon = 100 * time.Second
	f.equal("ClaimLanes()", laneNames(f.claimLanes(p)), []string{owner + "/beyond/p", owner + "/leased/p"})
	f.equal("ClaimLanes() again", laneNames(f.claimLanes(p)), []string{})
}

// laneClockBack makes lanes due by a late claim, and then sets the clock back.
func laneClockBack(f *fixture) {
	f.createDueLanes(owner, map[string]int{"first": 500_000, "t1": 500_001})
	f.createDueLanes(otherOwner, map[string]int{"t1": 500_000, "t2": 3000})
	f.equal("ClaimLanes()", laneNames(f.claimLanes(laneClaim(worker, 600_000, 1))), []string{owner + "/first/p"})
	f.wantNoDueLane(1000)
	p := laneClaim(otherWorker, 1000, 9)
	p.Horizon = 499 * time.Second
	f.equal("ClaimLanes() after the clock was set back", laneNames(f.claimLanes(p)), []string{owner + "/t1/p", owner + "/first/p"})
	f.wantNoDueLane(2999)
	f.equal("ClaimLanes()", laneNames(f.claimLanes(laneClaim(worker, 3000, 9))), []string{otherOwner + "/t2/p"})
	p = laneClaim("worker-3", 3001, 9)
	p.Horizon = 400 * time.Second
	f.equal("ClaimLanes()", laneNames(f.claimLanes(p)), []string{otherOwner + "/t1/p"})
}

func laneNotPending(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 2, "idle", "held", "deleted")
	f.saveWebhook(testWebhook(k, "late"), cursorAt(2), 0)
	for _, l := range f.claimLanes(laneClaim(worker, 10, 9)) {
		a := ackDelivered(l, 2, 20)
		a.KeepLease = l.Webhook.ID == "held"
		if l.Webhook.ID == "deleted" {
			f.deleteWebhook(k, "deleted", 20, true)
			continue
		}
		f.ack(a)
	}
	for _, p := range []store.LaneClaim{
		laneClaim(otherWorker, 1000, 9), {Takeover: true}, {Horizon: time.Millisecond}, {Takeover: true, Horizon: time.Millisecond},
	} {
		p.Worker, p.Now, p.Until, p.Limit, p.Events = otherWorker, at(1000), at(2000), 9, 9
		f.equal(fmt.Sprintf("ClaimLanes(%+v)", p), laneNames(f.claimLanes(p)), []string{})
	}
	f.equal("ClaimLanes() much later", laneNames(f.claimLanes(laneClaim(otherWorker, 1<<30, 9))), []string{})
}

func laneOrder(f *fixture) {
	f.createDueLanes(owner, map[string]int{"t9": 100, "T": 200, "t": 200, "ta": 200, "leased": 1})
	f.saveWebhook(testWebhook(key("t"), "P"), cursorAt(0), 200)
	f.saveWebhook(testWebhook(key("t9"), "q"), cursorAt(0), 99)
	l := f.claimLane(worker, 1)
	f.renewLanes(150, leaseOf(l.Lane))
	want := []string{"t9/q", "t9/p", "leased/p", "T/p", "t/P", "t/p", "ta/p"}
	for i := range want {
		want[i] = owner + "/" + want[i]
	}
	first := f.claimLanes(laneClaim(otherWorker, 1000, 3))
	f.equal("ClaimLanes()", laneNames(first), want[:3])
	f.equal("ClaimLanes() of the others", laneNames(f.claimLanes(laneClaim(otherWorker, 1000, 9))), want[3:])
}

func laneFairOwners(f *fixture) {
	f.createDueLanes("a", map[string]int{"1": 50, "2": 51, "3": 52, "4": 53})
	f.createDueLanes("B", map[string]int{"1": 90})
	f.createDueLanes("b", map[string]int{"1": 70, "2": 60})
	f.equal("ClaimLanes()", laneNames(f.claimLanes(laneClaim(worker, 100, 6))),
		[]string{"B/1/p", "a/1/p", "b/2/p", "a/2/p", "b/1/p", "a/3/p"})
	f.equal("ClaimLanes() of the others", laneNames(f.claimLanes(laneClaim(worker, 100, 6))), []string{"a/4/p"})
}

func laneAfterOwner(f *fixture) {
	f.createDueLanes("held", map[string]int{"t1": 0})
	f.claimLane(otherWorker, 0)
	for _, test := range []struct {
		after string
		want  []string
	}{
		{"", []string{"B", "a", "b"}},
		{"A", []string{"B", "a", "b"}},
		{"B", []string{"a", "b", "B"}},
		{"a", []string{"b", "B", "a"}},
		{"aa", []string{"b", "B", "a"}},
		{"b", []string{"B", "a", "b"}},
		{"z", []string{"B", "a", "b"}},
	} {
		for _, takeover := range []bool{false, true} {
			for _, o := range test.want {
				f.createTaskWithWebhooks(store.Key{Owner: o, ID: fmt.Sprint(test.after, takeover)}, 1, "p")
			}
			p := laneClaim(worker, 10, 2)
			p.AfterOwner, p.Takeover, p.Skip = test.after, takeover, []string{"held"}
			var got []string
			for range 2 {
				for _, l := range f.claimLanes(p) {
					got = append(got, l.Webhook.Task.Owner)
					p.AfterOwner = l.Webhook.Task.Owner
					f.ack(ackDelivered(l, 1, 10))
				}
			}
			f.equal(fmt.Sprintf("ClaimLanes() owners after %q, takeover %t", test.after, takeover), got, test.want)
		}
	}
}

func laneSkip(f *fixture) {
	for _, o := range []string{"a", "b", "c"} {
		f.createDueLanes(o, map[string]int{"1": 0, "2": 0})
	}
	p := laneClaim(worker, 10, 3)
	p.Skip = []string{"b", "nobody", "a"}
	f.equal("ClaimLanes()", laneNames(f.claimLanes(p)), []string{"c/1/p", "c/2/p"})
	p.Skip = []string{"a"}
	p.Takeover, p.Worker = true, otherWorker
	f.equal("ClaimLanes() with Takeover", laneNames(f.claimLanes(p)), []string{"b/1/p", "c/1/p", "b/2/p"})
	p.Skip = nil
	f.equal("ClaimLanes() without Skip", laneNames(f.claimLanes(laneClaim(worker, 10, 9))), []string{"a/1/p", "a/2/p"})
}

func laneLimit(f *fixture) {
	n := min(f.h.Tasks, 300)
	for i := range n {
		f.createTaskWithWebhooks(key(fmt.Sprintf("t%03d", i)), 1, "p")
	}
	f.equal("ClaimLanes() with limit 0", laneNames(f.claimLanes(laneClaim(worker, 10, 0))), []string{})
	got := 0
	for _, limit := range []int{1, n / 2, n, 1} {
		lanes := f.claimLanes(laneClaim(worker, 10, limit))
		if want := min(limit, n-got); len(lanes) != want {
			f.Errorf("ClaimLanes() of %d, %d of %d left = %d, want %d", limit, n-got, n, len(lanes), want)
		}
		for _, l := range lanes {
			if want := fmt.Sprintf("t%03d", got); l.Webhook.Task.ID != want {
				f.Fatalf("lane %d belongs to task %q, want %q", got, l.Webhook.Task.ID, want)
			}
			got++
		}
	}
}

func laneEvents(f *fixture) {
	k, k2 := key("t1"), key("t2")
	f.createTaskWithWebhooks(k, 5, "p")
	f.saveWebhook(testWebhook(k, "q"), cursorAt(3), 0)
	f.createTaskWithWebhooks(k2, 1, "p")
	for i, n := range []int{1, 2, 5, 6} {
		p := laneClaim(fmt.Sprint("worker-", i), 10, 9)
		p.Events, p.Takeover = n, true
		got := make(map[string][]store.Event)
		for _, l := range f.claimLanes(p) {
			got[laneName(&l.Lane)] = l.Events
		}
		f.equal(fmt.Sprintf("ClaimLanes() with Events %d", n), got, map[string][]store.Event{
			owner + "/t1/p": f.events(k)[:min(n, 5)], owner + "/t1/q": f.events(k)[3:min(3+n, 5)], owner + "/t2/p": f.events(k2),
		})
	}
}

func laneBytes(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 1, "p")
	sized := func(n int) store.Event { return chunkEvent(at(1), "a", fmt.Sprintf("%0*d", n, 7), true) }
	f.appendEvents(k, sized(10), sized(10), statusEvent(at(2), a2a.StateInputRequired), sized(10), sized(10_000), sized(1))
	first := f.events(k)[0]
	firstSize := first.Size()
	for i, test := range []struct{ bytes, events int }{
		{0, 7},
		{-1, 7},
		{1, 1},
		{firstSize - 1, 1},
		{firstSize, 2},
		{firstSize + 9, 2},
		{firstSize + 10, 3},
		{firstSize + 20, 5},
		{firstSize + 30, 6},
		{firstSize + 10_029, 6},
		{firstSize + 10_030, 7},
		{1 << 30, 7},
	} {
		p := laneClaim(fmt.Sprint("worker-", i), 10, 9)
		p.Bytes, p.Takeover = test.bytes, true
		l := suite.Len(f, f.claimLanes(p), 1, "ClaimLanes()")
		f.equal(fmt.Sprintf("ClaimLanes() events with Bytes %d, the first event has %d", test.bytes, firstSize), l[0].Events, f.events(k)[:test.events])
	}
	p := laneClaim("last", 10, 9)
	p.Bytes, p.Events, p.Takeover = firstSize+20, 2, true
	f.equal("ClaimLanes() with Events 2", len(f.claimLanes(p)[0].Events), 2)
}

func laneLargeEvents(f *fixture) {
	k := key("t1")
	f.createTaskWithWebhooks(k, 1, "p")
	f.appendEvents(k, chunkEvent(at(1), "a", "small", false))
	f.appendEvents(k, chunkEvent(at(1), "a", strings.Repeat("x", 1<<20), true))
	f.appendEvents(k, chunkEvent(at(1), "a", "small", true))
	log := f.events(k)
	for cursor, want := range []int{2, 1, 0, 1} {
		f.saveWebhook(testWebhook(k, fmt.Sprint("q", cursor)), cursorAt(cursor), 0)
		p := laneClaim(fmt.Sprint("worker-", cursor), 10, 9)
		p.Bytes, p.Takeover = 64<<10, true
		for _, l := range f.claimLanes(p) {
			if l.Webhook.ID == fmt.Sprint("q", cursor) {
				f.equal(fmt.Sprintf("ClaimLanes() events after %d", cursor), l.Events, log[cursor:cursor+want:cursor+want])
				want = -1
			}
		}
		if want != -1 {
			f.Errorf("ClaimLanes() does not return the lane with cursor %d", cursor)
		}
		p.Bytes = 0
		for _, l := range f.claimLanes(p) {
			if l.Webhook.ID == fmt.Sprint("q", cursor) {
				f.equal(fmt.Sprintf("ClaimLanes() events after %d without Bytes", cursor), l.Events, log[cursor:])
			}
		}
	}
}
