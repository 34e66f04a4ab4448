package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
)

// withWebhook returns the change that creates a task with a webhook and some events.
func withWebhook(k store.Key, endpoint string, events int) store.Change {
	c := store.Change{
		Key: k, Create: &store.Create{ContextID: "c" + k.ID}, Queue: &store.QueueEntry{Phase: store.PhaseIdle},
		Webhooks: []store.NewWebhook{{ID: "p", Endpoint: endpoint, Data: []byte(`{"url":"` + endpoint + `/hook","token":"secret"}`)}},
	}
	for i := range events {
		c.Events = append(c.Events, testEvent(i+1))
	}
	return c
}

// testEvent returns the event with a sequence, which receivers are sent.
func testEvent(seq int) store.Event {
	return store.Event{
		Time: testTime.Add(time.Duration(seq) * time.Millisecond), State: a2a.StateWorking,
		Message: message(fmt.Sprint("m", seq), "agent", "Event."),
	}
}

// ackFor acknowledges the events of a lane. Every seventh is a dead letter.
func ackFor(l *store.ClaimedLane, at time.Time) store.LaneAck {
	a := store.LaneAck{
		Lease: store.LaneLease{Task: l.Webhook.Task, ID: l.Webhook.ID, Worker: l.Worker, Fence: l.Fence},
		At:    at, Cursor: l.Cursor, State: l.State, DueAt: at,
	}
	for i := range l.Events {
		e := &l.Events[i]
		before := a.Cursor
		a.Cursor, _ = before.Next(e)
		attempt := store.DeliveryAttempt{
			Task: l.Webhook.Task, WebhookID: l.Webhook.ID, Seq: e.Seq, Sequence: a.Cursor.Sequence, Attempt: 1, At: at,
			Duration: 12 * time.Millisecond, Status: 200, Outcome: "delivered", Address: "203.0.113.7:443",
		}
		if isDead(e.Seq) {
			attempt.Status, attempt.Outcome = 400, "rejected"
			a.Dead = append(a.Dead, store.DeadLetter{
				Task: l.Webhook.Task, WebhookID: l.Webhook.ID, Cursor: before, Seq: e.Seq, Sequence: a.Cursor.Sequence,
				Attempts: 1, Status: 400, Reason: "HTTP status 400", At: at,
			})
		} else {
			a.Delivered++
		}
		a.Attempts = append(a.Attempts, attempt)
	}
	return a
}

func isDead(seq int64) bool { return seq%7 == 0 }

func claimLanes(s store.Store, now time.Time, limit, events int) ([]store.ClaimedLane, error) {
	return s.ClaimLanes(bg, store.LaneClaim{
		Worker: testWorker, Now: now, Until: now.Add(30 * time.Second), Limit: limit, Events: events, Takeover: true,
	})
}

// Attempts of one acknowledgement share rows. Lists and expiry treat them separately.
func TestAttemptsSharingARowAreListedAndExpiredSeparately(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	for n := range 2 {
		must(t, commitOne(s, withWebhook(taskKey(n), "https://hooks.example:443", 6)))
	}
	now := testTime.Add(time.Minute)
	lanes, err := claimLanes(s, now, 2, 6)
	must(t, err)
	var want []int // milliseconds of the attempts, newest first
	for i := range lanes {
		a := ackFor(&lanes[i], now)
		for j, ms := range []int{0, 100, 200, 300, 700, 750} {
			a.Attempts[j].At = now.Add(time.Duration(ms+50*i) * time.Millisecond)
		}
		_, err := s.AckLanes(bg, a)
		must(t, err)
	}
	want = []int{800, 750, 750, 700, 350, 300, 250, 200, 150, 100, 50, 0}
	rows := ints(t, s, "SELECT count(*), sum(n) FROM webhook_attempts")
	if diff := cmp.Diff([]int64{6, 12}, rows); diff != "" {
		t.Errorf("rows and attempts (-want +got):\n%s", diff)
	}
	for limit := 1; limit <= len(want)+1; limit++ {
		if diff := cmp.Diff(want, attemptTimes(t, s, now, limit)); diff != "" {
			t.Errorf("DeliveryAttempts() with limit %d (-want +got):\n%s", limit, diff)
		}
	}
	for _, test := range []struct{ before, limit, removed, left int }{
		{120, 1, 1, 11},
		{120, 9, 2, 9},
		{120, 9, 0, 9},
		{300, 2, 2, 7},
		{300, 9, 1, 6},
		{801, 9, 6, 0},
	} {
		n, err := s.ExpireWebhooks(bg, store.WebhookExpiry{Attempts: now.Add(time.Duration(test.before) * time.Millisecond)}, test.limit)
		must(t, err)
		left := attemptTimes(t, s, now, 5)
		if n != test.removed || len(left) != test.left {
			t.Errorf("ExpireWebhooks(before %d, limit %d) = %d and leaves %v, want %d and %d left", test.before, test.limit, n, left, test.removed, test.left)
		}
	}
}

// attemptTimes reads all attempts page by page.
func attemptTimes(t *testing.T, s *Store, from time.Time, limit int) (all []int) {
	t.Helper()
	for q := (store.WebhookQuery{Limit: limit}); ; {
		page, err := s.DeliveryAttempts(bg, q)
		must(t, err)
		for _, a := range page.Attempts {
			all = append(all, int(a.At.Sub(from).Milliseconds()))
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return all
		}
	}
}

// The row of a task has the number of its lanes, so tasks without lanes read no others.
func TestTasksWithoutWebhooksReadNoLanes(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	must(t, commitOne(s, withWebhook(taskKey(0), "https://hooks.example:443", 1)))
	release := blockWriter(s)
	err := s.committer.script("DROP TABLE webhook_lanes")
	release()
	must(t, err)
	must(t, runTask(s, 1))
	queued := submitted(2)
	queued.Queue = &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1, SeenSeq: 1}
	must(t, commitOne(s, queued))
	claimed, err := s.Claim(bg, store.ClaimParams{
		Worker: testWorker, Now: testTime.Add(time.Second), Until: testTime.Add(time.Minute), Limit: 1,
		Event: store.Event{Time: testTime.Add(time.Second), State: a2a.StateWorking},
	})
	must(t, err)
	if len(claimed) != 1 {
		t.Errorf("Claim() = %d tasks, want 1", len(claimed))
	}
	if _, err := s.DeleteContext(bg, taskKey(1).Owner, "c"+taskID(1), 1); err != nil {
		t.Errorf("DeleteContext() = %v, want nil", err)
	}
	err = commitOne(s, store.Change{Key: taskKey(0), Version: 1, Events: []store.Event{testEvent(2)}})
	if err == nil {
		t.Error("Commit() for a task with a webhook = nil, want an error without the lanes table")
	}
}

// More lanes can be due than one claim makes ready.
func TestAllWaitingLanesAreClaimedEventually(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	const size = promoteLimit + 100
	made := 0
	insertLanes(t, s, &made, size, sqlrow.PhaseWaiting, testTime.UnixMilli())
	now, claimed := testTime.Add(time.Hour), make(map[store.Key]bool)
	for len(claimed) < size {
		lanes, err := claimLanes(s, now, 500, 1)
		must(t, err)
		if len(lanes) == 0 {
			t.Fatalf("claimed %d lanes, want %d", len(claimed), size)
		}
		for i := range lanes {
			claimed[lanes[i].Webhook.Task] = true
		}
	}
}

// insertLanes adds tasks until the store has size, each with its own owner and a lane
// in the given phase.
func insertLanes(t testing.TB, s *Store, made *int, size int, phase sqlrow.Phase, dueAt int64) {
	t.Helper()
	if *made == 0 {
		must(t, commitOne(s, withWebhook(store.Key{Owner: "filled", ID: "filled"}, "https://dead.example:443", 5)))
		lanes, err := claimLanes(s, testTime.Add(time.Minute), 1, 5)
		must(t, err)
		_, err = s.AckLanes(bg, ackFor(&lanes[0], testTime.Add(time.Minute)))
		must(t, err)
	}
	base := *made
	err := s.write(bg, &request{weight: 1, apply: func(w *writer) error {
		n := fmt.Sprintf("WITH RECURSIVE i(n) AS (SELECT %d UNION ALL SELECT n + 1 FROM i WHERE n < %d) ", base, size-1)
		task, lane := w.pendingNext-int64(base), w.pendingNextLane-int64(base)
		for _, text := range []string{
			fmt.Sprintf("INSERT INTO task_rows SELECT n + %d, printf('owner%%07d', n), id, context_id, first, state, state_at, seq, received_seq, checkpoint, "+
				"phase, due_at, lease_worker, fence, lease_until, turn, attempt, seen_seq, turn_start_seq, created_at, updated_at, bytes, lanes "+
				"FROM i JOIN task_rows t ON t.owner = 'filled'", task),
			fmt.Sprintf("INSERT INTO task_log SELECT ((i.n + %d) << 24) + 1, l.n, NULL, NULL, NULL, events, large FROM i "+
				"JOIN task_log l ON l.id = (SELECT pk << 24 FROM task_rows WHERE owner = 'filled') + 1", task),
			fmt.Sprintf("INSERT INTO webhook_lanes SELECT n + %d, n + %d, printf('owner%%07d', n), task_id, id, endpoint, long_running, %d, state, reason, terminal, tail_seq, "+
				"%d, cursor_sequence, cursor_state, %d, attempt, failed_at, delivered, delivered_at, updated_at, dead, worker, fence, lease_until "+
				"FROM i JOIN webhook_lanes l ON l.owner = 'filled'", lane, task, phase, 5*number(phase == sqlrow.PhaseIdle), dueAt),
			fmt.Sprintf("INSERT INTO webhook_rows SELECT n + %d, data, created_at, saved_at FROM i JOIN webhook_rows ON pk = "+
				"(SELECT pk FROM webhook_lanes WHERE owner = 'filled')", lane),
		} {
			if err := w.script(n + text); err != nil {
				return err
			}
		}
		w.pendingNext += int64(size - base)
		w.pendingNextLane += int64(size - base)
		return nil
	}})
	must(t, err)
	*made = size
}

// BenchmarkLanes measures committing, claiming and acknowledging 5 events of each of 64
// lanes. The store also has many idle or waiting lanes, each with its own owner.
func BenchmarkLanes(b *testing.B) {
	for _, others := range []struct {
		name  string
		phase sqlrow.Phase
	}{{"idle", sqlrow.PhaseIdle}, {"waiting", sqlrow.PhaseWaiting}} {
		s := open(b, Config{Dir: b.TempDir()})
		made := 0
		for _, size := range []int{1_000, 100_000} {
			insertLanes(b, s, &made, size, others.phase, testTime.Add(1000*time.Hour).UnixMilli())
			first := int(s.committer.nextPK)
			for n := range 64 {
				must(b, commitOne(s, withWebhook(taskKey(first+n), "https://hooks.example:443", 1)))
			}
			now := testTime.Add(time.Hour)
			ackAllDue(b, s, now)
			seq := 1
			b.Run(fmt.Sprintf("%s=%d", others.name, size), func(b *testing.B) { benchLanes(b, s, first, &seq) })
		}
	}
}

func benchLanes(b *testing.B, s *Store, first int, seq *int) {
	var claiming, acking time.Duration
	lanes := 0
	for b.Loop() {
		b.StopTimer()
		changes := make([]store.Change, 64)
		for n := range changes {
			changes[n] = store.Change{Key: taskKey(first + n), Version: int64(*seq)}
			for i := range 5 {
				changes[n].Events = append(changes[n].Events, testEvent(*seq+1+i))
			}
		}
		results, err := s.Commit(bg, changes...)
		must(b, err)
		must(b, results[63].Err)
		*seq += 5
		now := testTime.Add(time.Hour + time.Duration(*seq)*time.Millisecond)
		b.StartTimer()
		claiming -= b.Elapsed()
		claimed, err := claimLanes(s, now, 64, 5)
		must(b, err)
		if len(claimed) != 64 || len(claimed[63].Events) != 5 {
			b.Fatalf("ClaimLanes() = %d lanes, want 64 with 5 events each", len(claimed))
		}
		claiming += b.Elapsed()
		acks := make([]store.LaneAck, len(claimed))
		for i := range claimed {
			acks[i] = ackFor(&claimed[i], now)
			acks[i].Dead = nil
		}
		acking -= b.Elapsed()
		lost, err := s.AckLanes(bg, acks...)
		must(b, err)
		if len(lost) > 0 {
			b.Fatalf("AckLanes() lost %v", lost)
		}
		acking += b.Elapsed()
		lanes += len(claimed)
	}
	b.ReportMetric(float64(lanes)/b.Elapsed().Seconds(), "lanes/s")
	b.ReportMetric(5*float64(lanes)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(claiming.Microseconds())/float64(lanes), "claim-us/lane")
	b.ReportMetric(float64(acking.Microseconds())/float64(lanes), "ack-us/lane")
}

// ackAllDue acknowledges all due lanes.
func ackAllDue(b *testing.B, s *Store, now time.Time) {
	b.Helper()
	for {
		lanes, err := claimLanes(s, now, 64, 5)
		must(b, err)
		if len(lanes) == 0 {
			return
		}
		for i := range lanes {
			_, err := s.AckLanes(bg, ackFor(&lanes[i], now))
			must(b, err)
		}
	}
}
