package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var renewTests = []test{
	{"a renewed lease is not claimed at its previous deadline", renewExtends},
	{"a lease can be renewed after its deadline", renewLate},
	{"lost leases are reported and the others are extended", renewLost},
	{"a renewal does not change the version or the log", renewIsQuiet},
	{"renewing no leases has no effect", renewNothing},
}

func renewExtends(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	f.claim(claimAt(worker, at(0), 1))
	f.renew(at(100_000), heldLease(k, worker, 1))
	if got := f.task(k).Queue.Lease.Until; !got.Equal(at(100_000)) {
		f.Errorf("Task().Queue.Lease.Until = %v, want %v", got, at(100_000))
	}
	suite.Empty(f, ids(f.claim(claimAt(otherWorker, at(99_999), 1))), "Claim() of a renewed lease")
	f.equal("Claim() after the renewed lease", ids(f.claim(claimAt(otherWorker, at(100_000), 1))), []string{"t1"})
}

func renewLate(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	f.claim(claimAt(worker, at(0), 1))
	f.renew(at(200_000), heldLease(k, worker, 1))
	suite.Empty(f, ids(f.claim(claimAt(otherWorker, at(150_000), 1))), "Claim() of a lease renewed late")
}

func renewLost(f *fixture) {
	for i := range 4 {
		f.create(key(fmt.Sprint("t", i)), at(i))
	}
	f.create(store.Key{Owner: otherOwner, ID: "t0"}, at(0))
	f.claim(claimAt(worker, at(10), 10))
	idled := changeAt(key("t1"), 2)
	idled.Queue = idle()
	f.commit(idled)
	requeued := changeAt(key("t2"), 2)
	requeued.Queue = &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1, Attempt: 1, Lease: store.Lease{Worker: worker, Fence: 1}, DueAt: at(1 << 30)}
	f.commit(requeued)

	absent := store.Key{Owner: otherOwner, ID: "t3"}
	got := f.renew(at(500_000),
		heldLease(key("t0"), worker, 1), heldLease(key("t1"), worker, 1), heldLease(key("t2"), worker, 1),
		heldLease(key("t3"), worker, 2), heldLease(store.Key{Owner: otherOwner, ID: "t0"}, otherWorker, 1), heldLease(absent, worker, 1))
	want := []store.Key{key("t1"), key("t2"), key("t3"), {Owner: otherOwner, ID: "t0"}, absent}
	slices.SortFunc(got, compareKeys)
	slices.SortFunc(want, compareKeys)
	f.equal("Renew()", got, want)
	if got := f.task(key("t0")).Queue.Lease.Until; !got.Equal(at(500_000)) {
		f.Errorf("Until of the valid lease = %v, want %v", got, at(500_000))
	}
	if got := f.task(key("t3")).Queue.Lease.Until; !got.Equal(at(60_010)) {
		f.Errorf("Until of a lease with another fence = %v, want %v", got, at(60_010))
	}
	f.equal("Task().Queue of the requeued task", f.task(key("t2")).Queue, *requeued.Queue)
}

func renewIsQuiet(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	want := f.claim(claimAt(worker, at(0), 1))[0]
	log := f.events(k)
	f.renew(at(100_000), heldLease(k, worker, 1))
	want.Queue.Lease.Until = at(100_000)
	f.equal("Task()", f.task(k), want)
	f.equal("Events()", f.events(k), log)
}

func renewNothing(f *fixture) {
	suite.Empty(f, f.renew(at(1)), "Renew() of nothing")
}

// renew extends leases and returns the keys of the lost ones.
func (f *fixture) renew(until time.Time, leases ...store.HeldLease) []store.Key {
	f.Helper()
	return suite.Call(f.s.Renew(f.ctx, until, leases)).Must(f, "Renew()")
}

func heldLease(k store.Key, worker string, fence int64) store.HeldLease {
	return store.HeldLease{Key: k, Worker: worker, Fence: fence}
}

func compareKeys(a, b store.Key) int {
	switch {
	case a == b:
		return 0
	case a.Owner < b.Owner || a.Owner == b.Owner && a.ID < b.ID:
		return -1
	}
	return 1
}
