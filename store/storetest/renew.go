package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

func renewTests() []test {
	return []test{
		{"a renewed lease is not claimed at its old end", renewExtends},
		{"a lease can be renewed past its end", renewLate},
		{"lost leases are reported and the others extended", renewLost},
		{"a renewal changes no version and no log", renewIsQuiet},
		{"renewing nothing does nothing", renewNothing},
	}
}

func renewExtends(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	f.claim(claimAt(worker, at(0), 1))
	f.renew(at(100_000), held(k, worker, 1))
	if got := f.task(k).Run.Lease.Until; !got.Equal(at(100_000)) {
		f.Errorf("Task().Run.Lease.Until = %v, want %v", got, at(100_000))
	}
	if got := f.claim(claimAt(rival, at(99_999), 1)); len(got) != 0 {
		f.Errorf("Claim() of a renewed lease = %v, want nothing", ids(got))
	}
	f.equal("Claim() after the renewed lease", ids(f.claim(claimAt(rival, at(100_000), 1))), []string{"t1"})
}

func renewLate(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	f.claim(claimAt(worker, at(0), 1))
	f.renew(at(200_000), held(k, worker, 1))
	if got := f.claim(claimAt(rival, at(150_000), 1)); len(got) != 0 {
		f.Errorf("Claim() of a lease renewed late = %v, want nothing", ids(got))
	}
}

func renewLost(f *fixture) {
	for i := range 4 {
		f.create(key(fmt.Sprint("t", i)), at(i))
	}
	f.create(store.Key{Owner: other, ID: "t0"}, at(0))
	f.claim(claimAt(worker, at(10), 10))
	idled := next(key("t1"), 2)
	idled.Run = idle()
	f.commit(idled)
	requeued := next(key("t2"), 2)
	requeued.Run = &store.Run{Phase: store.PhaseQueued, Turn: 1, Attempt: 1, Lease: store.Lease{Worker: worker, Fence: 1}, DueAt: at(1 << 30)}
	f.commit(requeued)

	absent := store.Key{Owner: other, ID: "t3"}
	got := f.renew(at(500_000),
		held(key("t0"), worker, 1), held(key("t1"), worker, 1), held(key("t2"), worker, 1),
		held(key("t3"), worker, 2), held(store.Key{Owner: other, ID: "t0"}, rival, 1), held(absent, worker, 1))
	want := []store.Key{key("t1"), key("t2"), key("t3"), {Owner: other, ID: "t0"}, absent}
	slices.SortFunc(got, compareKeys)
	slices.SortFunc(want, compareKeys)
	f.equal("Renew()", got, want)
	if got := f.task(key("t0")).Run.Lease.Until; !got.Equal(at(500_000)) {
		f.Errorf("Until of the lease still held = %v, want %v", got, at(500_000))
	}
	if got := f.task(key("t3")).Run.Lease.Until; !got.Equal(at(60_010)) {
		f.Errorf("Until of a lease with another fence = %v, want %v", got, at(60_010))
	}
	f.equal("Run of a queued task", f.task(key("t2")).Run, *requeued.Run)
}

func renewIsQuiet(f *fixture) {
	k := key("t1")
	f.create(k, at(0))
	want := f.claim(claimAt(worker, at(0), 1))[0]
	log := f.events(k)
	f.renew(at(100_000), held(k, worker, 1))
	want.Run.Lease.Until = at(100_000)
	f.equal("Task()", f.task(k), want)
	f.equal("Events()", f.events(k), log)
}

func renewNothing(f *fixture) {
	if got := f.renew(at(1)); len(got) != 0 {
		f.Errorf("Renew() of nothing = %v, want nothing", got)
	}
}

// renew extends leases and returns the keys of those that are lost.
func (f *fixture) renew(until time.Time, leases ...store.HeldLease) []store.Key {
	f.Helper()
	lost, err := f.s.Renew(f.ctx, until, leases)
	if err != nil {
		f.Fatalf("Renew() = %v, want no error", err)
	}
	return lost
}

func held(k store.Key, worker string, fence int64) store.HeldLease {
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
