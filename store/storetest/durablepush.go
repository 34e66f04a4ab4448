package storetest

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func durablePush(f *fixture, reopen func()) {
	keys := f.hookedContext(owner, "c1", 2)
	f.hookedContext(other, "c2", 1)
	f.over(key("over"), 10, "p")
	deleted := key("deleted")
	f.hooked(deleted, 2, "p")
	held := f.claimLanes(laneClaim(worker, 20, 9))
	f.deletePush(deleted, "p", 30, true)
	for _, e := range []store.Endpoint{
		{Name: endpoint, Failures: 3, FailedAt: at(10), OpenUntil: at(500), UpdatedAt: at(20)},
		{Name: endpoint + "0", Disabled: true, Reason: "gone", UpdatedAt: at(20)},
	} {
		if err := f.s.SaveEndpoint(f.ctx, e); err != nil {
			f.Fatalf("SaveEndpoint() = %v", err)
		}
	}
	type kept struct {
		Lanes     []store.Lane
		Letters   []store.DeadLetter
		Attempts  []store.PushAttempt
		Endpoints int
		Backlog   store.PushBacklog
	}
	read := func() kept {
		f.Helper()
		f.noLane(deleted, "p")
		return kept{
			f.lanes(store.LaneQuery{}).Lanes, f.letters(store.PushQuery{}), f.attempts(store.PushQuery{}), len(f.endpoints()), f.pushBacklog(),
		}
	}
	before := read()
	for range 2 {
		reopen()
		f.equal("webhooks", read(), before)
	}
	f.equal("RenewLanes()", len(f.renewLanes(90_000, leaseOf(held[1].Lane))), 0)
	f.notDue(60_009)
	f.deletePush(deleted, "p", 40, true)
	reopen()
	f.notDue(60_009)
	for i, l := range held {
		if l.Config.Task == deleted {
			f.equal("AckLanes() of a deleted webhook", len(f.lost(delivered(l, 1, 50))), 1)
			continue
		}
		f.ack(delivered(l, len(l.Events), 50+i))
	}
	f.undeletable(deleted, "p", 60)
	f.add(keys[0], status(at(70), a2a.StateCompleted))
	f.replay(keys[1], "r", place(1), 70)
	reopen()
	f.equal("DeadLetters() after a replay", len(f.letters(store.PushQuery{Owner: owner, TaskID: keys[1].ID, ID: "r"})), 1)
	want := map[string]int{fmt.Sprint(owner, "/c1-0/p"): 1, fmt.Sprint(owner, "/c1-0/r"): 1, fmt.Sprint(owner, "/c1-1/r"): 2}
	got := make(map[string]int)
	for _, l := range f.claimLanes(laneClaim(rival, 80, 9)) {
		got[laneName(&l.Lane)] = len(l.Events)
	}
	f.equal("numbers of events", got, want)
}
