package sqlrow

import (
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

func TestLanePhase(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	idle := rules.Lane{Lane: store.Lane{State: store.LaneActive, Cursor: store.WebhookCursor{Seq: 3}, Tail: 3, DueAt: now}}
	pending := idle
	pending.Tail = 4
	waiting, leased, deleted := pending, pending, pending
	waiting.DueAt = now.Add(time.Second)
	leased.LeaseUntil = now.Add(-time.Second) // an expired lease still has to be revoked by a claim
	deleted.Deleted = true
	for _, c := range []struct {
		lane rules.Lane
		done bool
		want Phase
	}{
		{idle, false, PhaseIdle},
		{idle, true, PhaseDone},
		{pending, true, PhaseReady},
		{waiting, false, PhaseWaiting},
		{leased, false, PhaseLeased},
		{deleted, true, PhaseDeleted},
	} {
		if got := LanePhase(&c.lane, c.done, now); got != c.want {
			t.Errorf("LanePhase(%+v, %t) = %d, want %d", c.lane.Lane, c.done, got, c.want)
		}
	}
}

func TestQueueEntriesKeepTheirPhase(t *testing.T) {
	t.Parallel()
	due := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, q := range []store.QueueEntry{
		{Phase: store.PhaseIdle, Turn: 2},
		{Phase: store.PhaseQueued, Turn: 3, Attempt: 1, SeenSeq: 4, StartSeq: 2},
		{Phase: store.PhaseQueued, DueAt: due},
		{Phase: store.PhaseLeased, Lease: store.Lease{Worker: "w", Fence: 5, Until: due}},
	} {
		var row Task
		row.SetQueueEntry(&q)
		if got := row.Value().Queue; !reflect.DeepEqual(got, q) {
			t.Errorf("read %+v, want %+v", got, q)
		}
		if seen := row.Seen(); (seen.Worker != "") != (q.Phase == store.PhaseLeased) {
			t.Errorf("%+v: worker %q, want a worker only for a lease", q, seen.Worker)
		}
	}
}

func TestAdvanceCountsEventsAndTheLastMessage(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var row Task
	status := row.Advance([]store.Event{
		{State: a2a.StateSubmitted, Time: at, Received: &a2a.Message{}},
		{State: a2a.StateWorking, Time: at.Add(time.Second)},
	})
	if !status || row.Seq != 2 || row.ReceivedSeq != 1 || row.State != string(a2a.StateWorking) || row.UpdatedAt-row.CreatedAt != 1000 {
		t.Errorf("status %t, row %+v", status, row)
	}
	if row.Advance([]store.Event{{Time: at.Add(2 * time.Second), Artifact: &a2a.Artifact{}}}) {
		t.Error("an artifact changed the status")
	}
	if row.Seq != 3 || row.UpdatedAt-row.StateAt != 1000 {
		t.Errorf("after the artifact: %+v", row)
	}
}

func TestColumnsHaveOneOrder(t *testing.T) {
	t.Parallel()
	type embedded struct {
		Name string `col:"name"`
	}
	type row struct {
		embedded
		Key    store.Key `col:"owner,id"`
		N      int64     `col:"n"`
		Set    bool      `col:"set"`
		Unused int
	}
	all := Of[row]()
	if got, want := all.List("t."), "t.name, t.owner, t.id, t.n, t.set"; got != want {
		t.Errorf("columns %s, want %s", got, want)
	}
	some := all.Only("n id").And(all.Without("n id owner"))
	if got, want := some.Set(), "n=?, id=?, name=?, set=?"; got != want {
		t.Errorf("assignments %s, want %s", got, want)
	}
	in := row{embedded{"a"}, store.Key{Owner: "o", ID: "i"}, 7, true, 0}
	if got, want := some.Args(&in, "more"), []any{int64(7), "i", "a", true, "more"}; !reflect.DeepEqual(got, want) {
		t.Errorf("arguments %v, want %v", got, want)
	}
	texts, integers := []string{"a", "o", "i", "", ""}, []int64{0, 0, 0, 7, 1}
	var out row
	all.Scan(&out, func(i int) int64 { return integers[i] }, func(i int) string { return texts[i] })
	if out != in {
		t.Errorf("scanned %+v, want %+v", out, in)
	}
}
