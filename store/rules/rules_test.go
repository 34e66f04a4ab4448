package rules

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func checkVerdict(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || (want == nil) != (got == nil) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The cases are in the order of precedence: the state of a case also has the causes of those below it.
func TestChangeReportsTheFirstRuleThatItBreaks(t *testing.T) {
	t.Parallel()
	create := &store.Create{ContextID: "c"}
	lease := &store.HeldLease{Worker: "w", Fence: 3}
	fromClient := []store.Event{{Received: &a2a.Message{}}}
	broken := func() *Task { return &Task{Seq: 4, ReceivedSeq: 4, Worker: "other", Fence: 9, Deleting: true} }
	held := func(change func(*Task)) *Task {
		task := &Task{Seq: 5, ReceivedSeq: 2, Worker: "w", Fence: 3}
		change(task)
		return task
	}
	names := []store.RecordChange{{Version: 1}}
	update := store.Change{Events: fromClient, Version: 5, Lease: lease, Seen: 2, Records: names}
	for _, c := range []struct {
		name     string
		change   store.Change
		record   *store.IdempotencyRecord
		task     *Task
		closed   bool
		versions []int64
		want     error
	}{
		{"key exists", store.Change{Create: create}, &store.IdempotencyRecord{}, broken(), true, nil, store.ErrDuplicate},
		{"new task exists", store.Change{Create: create}, nil, broken(), true, nil, store.ErrExists},
		{"context is not active", store.Change{Create: create, Records: names}, nil, nil, true, []int64{2}, store.ErrContextClosed},
		{"record of a new task changed", store.Change{Create: create, Records: names}, nil, nil, false, []int64{2}, store.ErrRecordConflict},
		{"new task", store.Change{Create: create, Records: names}, nil, nil, false, []int64{1}, nil},
		{"no task", update, nil, nil, false, []int64{2}, store.ErrNotFound},
		{"context is being deleted", update, nil, broken(), false, []int64{2}, store.ErrNotFound},
		{"other version", update, nil, held(func(t *Task) { *t = *broken(); t.Deleting = false }), false, []int64{2}, store.ErrConflict},
		{"other worker", update, nil, held(func(t *Task) { t.Worker, t.ReceivedSeq = "other", 3 }), false, []int64{2}, store.ErrLeaseLost},
		{"newer lease of the worker", update, nil, held(func(t *Task) { t.Fence = 4 }), false, []int64{1}, store.ErrLeaseLost},
		{"not leased", store.Change{Lease: &store.HeldLease{}}, nil, &Task{}, false, nil, store.ErrLeaseLost},
		{"unread message", update, nil, held(func(t *Task) { t.ReceivedSeq = 3 }), false, []int64{2}, store.ErrUnread},
		{"record changed", update, nil, held(func(*Task) {}), false, []int64{2}, store.ErrRecordConflict},
		{"all guards hold", update, nil, held(func(*Task) {}), false, []int64{1}, nil},
		{"worker of a context that is being deleted", store.Change{Lease: lease, Events: []store.Event{{}}}, nil, held(func(t *Task) { t.Deleting = true }), false, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			checkVerdict(t, Change(&c.change, c.record, c.task, c.closed, c.versions), c.want)
		})
	}
}

func TestDeleteTaskNeedsAFinishedDeliveredTask(t *testing.T) {
	t.Parallel()
	checkVerdict(t, DeleteTask(nil, true), store.ErrNotFound)
	checkVerdict(t, DeleteTask(&Task{}, true), store.ErrBusy)
	checkVerdict(t, DeleteTask(&Task{Finished: true}, true), store.ErrUndelivered)
	checkVerdict(t, DeleteTask(&Task{Finished: true}, false), nil)
}

func TestSaveContextReportsTheFirstRuleThatItBreaks(t *testing.T) {
	t.Parallel()
	ancestors := func(n int) (a Ancestors) {
		for range n {
			a.Add("c", "p", "q")
		}
		return a
	}
	cycle := func() (a Ancestors) {
		a.Add("c", "p", "c")
		return a
	}()
	child := store.Context{ParentID: "p"}
	for _, c := range []struct {
		name   string
		change store.ContextChange
		state  Context
		want   error
	}{
		{"key exists", store.ContextChange{Create: true}, Context{Duplicate: true, Exists: true}, store.ErrDuplicate},
		{"new context exists", store.ContextChange{Create: true}, Context{Exists: true}, store.ErrExists},
		{"no context", store.ContextChange{Version: 1}, Context{}, store.ErrNotFound},
		{"deletion is pending", store.ContextChange{Version: 1}, Context{Exists: true, Deleting: true}, store.ErrNotFound},
		{"other version", store.ContextChange{Version: 1, RequireFinished: true}, Context{Exists: true, Version: 2, Unfinished: true}, store.ErrConflict},
		{"unfinished task", store.ContextChange{Context: child, RequireFinished: true}, Context{Exists: true, Unfinished: true}, store.ErrBusy},
		{"unfinished task is allowed", store.ContextChange{}, Context{Exists: true, Unfinished: true}, nil},
		{"same parent", store.ContextChange{Context: child}, Context{Exists: true, ParentID: "p"}, nil},
		{"parent does not exist", store.ContextChange{Context: child}, Context{Exists: true}, store.ErrParentNotFound},
		{"cycle", store.ContextChange{Context: child}, Context{Exists: true, Ancestors: cycle}, store.ErrParentCycle},
		{"deepest parent", store.ContextChange{Context: child}, Context{Exists: true, Ancestors: ancestors(store.MaxContextDepth)}, nil},
		{"too deep", store.ContextChange{Context: child}, Context{Exists: true, Ancestors: ancestors(store.MaxContextDepth + 1)}, store.ErrParentDepth},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			checkVerdict(t, SaveContext(&c.change, &c.state), c.want)
		})
	}
}

func TestDeleteContextContinuesWhileTasksAreBusy(t *testing.T) {
	t.Parallel()
	checkVerdict(t, DeleteContext(&Context{}, false), store.ErrNotFound)
	checkVerdict(t, DeleteContext(&Context{Exists: true}, true), store.ErrNotFound)
	checkVerdict(t, DeleteContext(&Context{Exists: true, Busy: true}, false), store.ErrBusy)
	checkVerdict(t, DeleteContext(&Context{Exists: true, Deleting: true, Busy: true}, false), nil)
	checkVerdict(t, DeleteContext(&Context{Exists: true, Deleting: true}, true), nil)
}

func TestAncestorsEndAtTheRootACycleOrTheMaximumDepth(t *testing.T) {
	t.Parallel()
	var a Ancestors
	for i := 1; i <= store.MaxContextDepth; i++ {
		if !a.Add("c", "p", "q") {
			t.Fatalf("stopped at ancestor %d, want to read one beyond the maximum depth", i)
		}
	}
	root, self := Ancestors{}, Ancestors{}
	if a.Add("c", "p", "q") || root.Add("c", "p", "") || self.Add("c", "c", "q") {
		t.Error("continued beyond the maximum depth, the root or a cycle")
	}
}

func TestAckNeedsTheCurrentLease(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	lease := store.LaneLease{Worker: "w", Fence: 7}
	leased := Lane{Lane: store.Lane{Worker: "w", Fence: 7, LeaseUntil: at.Add(time.Minute), State: store.LaneActive}}
	revoked, deleted := leased.revoked(), leased.revoked()
	deleted.Deleted = true
	for _, c := range []struct {
		name    string
		lane    Lane
		keep    bool
		want    LaneVerdict
		blocked bool // after the acknowledgement
	}{
		{"held", leased, false, LaneAcked, false},
		{"held and kept", leased, true, LaneAcked, true},
		{"revoked", revoked, false, LaneReleased, false},
		{"revoked and kept", revoked, true, LaneLost, true},
		{"revoked twice", revoked.revoked(), false, LaneReleased, false},
		{"deleted", deleted, false, LaneRemoved, true},
		{"never leased", Lane{}, false, LaneLost, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			after, got := c.lane.Ack(&store.LaneAck{Lease: lease, KeepLease: c.keep, At: at, Delivered: 2, State: store.LaneActive})
			if got != c.want || after.Blocked() != c.blocked {
				t.Errorf("verdict %d, blocked %t; want %d, %t", got, after.Blocked(), c.want, c.blocked)
			}
			if delivered := after.Delivered == 2 && after.DeliveredAt.Equal(at); delivered != (got == LaneAcked) {
				t.Errorf("delivered %d at %s with verdict %d", after.Delivered, after.DeliveredAt, got)
			}
		})
	}
}

func TestReplayMovesTheCursorBackOnly(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	parked := Lane{Lane: store.Lane{Cursor: store.WebhookCursor{Seq: 5}, Tail: 9, State: store.LaneParked, Attempt: 3, DueAt: now.Add(time.Hour), Fence: 2}}
	for requested, want := range map[int64]int64{2: 2, 5: 5, 8: 5} {
		l := parked.Replay(store.WebhookCursor{Seq: requested}, now)
		if l.Cursor.Seq != want || l.State != store.LaneActive || l.Attempt != 0 || !l.DueAt.Equal(now) || l.Fence != 3 {
			t.Errorf("replay from %d: %+v, want an active lane at %d that is due now", requested, l.Lane, want)
		}
	}
}

func TestAppendSetsTheDueTimeOfLanesWithoutPendingEvents(t *testing.T) {
	t.Parallel()
	due, at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)
	idle := Lane{Lane: store.Lane{Cursor: store.WebhookCursor{Seq: 5}, Tail: 5, State: store.LaneActive, DueAt: due}}
	if l := idle.Append(6, at); !l.DueAt.Equal(at) || l.Tail != 6 {
		t.Errorf("idle lane: due at %s with tail %d", l.DueAt, l.Tail)
	}
	pending := idle.Append(6, due)
	if l := pending.Append(7, at); !l.DueAt.Equal(due) || l.Tail != 7 {
		t.Errorf("pending lane: due at %s with tail %d", l.DueAt, l.Tail)
	}
}

func TestSaveLaneKeepsTheProgressOfAnExistingWebhook(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w := store.Webhook{ID: "w", CreatedAt: now}
	first := SaveLane(w, store.WebhookCursor{Seq: 4}, 6, now, nil)
	if first.Cursor.Seq != 4 || first.Tail != 6 || first.Blocked() {
		t.Errorf("new webhook: %+v", first.Lane)
	}
	later := now.Add(time.Hour)
	again := SaveLane(store.Webhook{ID: "w", CreatedAt: later}, store.WebhookCursor{Seq: 6}, 6, later, &first)
	if again.Cursor.Seq != 4 || !again.Webhook.CreatedAt.Equal(now) || again.Fence <= first.Fence {
		t.Errorf("replaced webhook: %+v", again.Lane)
	}
	first.Worker, first.LeaseUntil = "worker", later
	deleted, busy := first.Delete(now)
	if !busy {
		t.Error("a deleted webhook with a lease is not busy")
	}
	recreated := SaveLane(w, store.WebhookCursor{Seq: 6}, 6, now, &deleted)
	if recreated.Cursor.Seq != 6 || recreated.Fence != deleted.Fence || !recreated.Blocked() || recreated.Deleted {
		t.Errorf("webhook created after a deletion: %+v", recreated)
	}
}
