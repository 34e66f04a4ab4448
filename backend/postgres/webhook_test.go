//go:build services

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// webhook returns a webhook of task n.
func webhook(n int, id, data string) store.Webhook {
	return store.Webhook{Task: taskKey(n), ID: id, Endpoint: data, Data: []byte(`"` + data + `"`), CreatedAt: testStart}
}

// progress returns a change under the lease of testWorker with an event for webhooks.
func progress(n int) store.Change {
	k := taskKey(n)
	return store.Change{
		Key: k, Lease: &store.HeldLease{Key: k, Worker: testWorker, Fence: 1},
		Events: []store.Event{{Time: testStart.Add(time.Second), State: a2a.StateWorking, Message: message("m", "agent", "x")}},
	}
}

func claimParams(worker string, limit int) store.LaneClaim {
	return store.LaneClaim{Worker: worker, Now: testStart.Add(time.Hour), Until: testStart.Add(2 * time.Hour), Limit: limit, Events: 16}
}

// ackOf returns the acknowledgement of all events of a claimed lane.
func ackOf(c *store.ClaimedLane, hold bool) store.LaneAck {
	a := store.LaneAck{
		Lease:     store.LaneLease{Task: c.Webhook.Task, ID: c.Webhook.ID, Worker: c.Worker, Fence: c.Fence},
		KeepLease: hold, At: testStart.Add(time.Hour), Cursor: c.Cursor, State: store.LaneActive, DueAt: testStart.Add(time.Hour),
	}
	for i := range c.Events {
		next, sent := a.Cursor.Next(&c.Events[i])
		if a.Cursor = next; sent {
			a.Delivered++
			a.Attempts = append(a.Attempts, store.DeliveryAttempt{Seq: next.Seq, Sequence: next.Sequence, Attempt: 1, At: a.At, Status: 200, Outcome: "delivered"})
		}
	}
	return a
}

// checkLanes checks that lanes, webhooks and tasks are consistent.
func checkLanes(t *testing.T, s *Store) {
	t.Helper()
	for what, query := range map[string]string{
		"lanes whose tail is not the task's version": `SELECT count(*) FROM {s}.webhook_lanes l
			JOIN {s}.task_rows t ON t.owner = l.owner AND t.id = l.task_id WHERE t.seq <> l.tail_seq`,
		"lanes with a wrong phase": `SELECT count(*) FROM {s}.webhook_lanes
			WHERE (cursor_seq < tail_seq) <> (phase IN ({ready}, {leased}, {waiting})) OR phase IN ({ready}, {waiting}) AND lease_until > 0 OR phase = {leased} AND lease_until = 0`,
		"tasks with a wrong number of webhooks": `SELECT count(*) FROM {s}.task_rows t
			WHERE t.webhooks <> (SELECT count(*) FROM {s}.webhook_lanes l WHERE l.owner = t.owner AND l.task_id = t.id)`,
		"webhooks without a lane, or lanes without a webhook": `SELECT count(*) FROM {s}.webhook_lanes l FULL JOIN {s}.webhooks c
			ON c.owner = l.owner AND c.task_id = l.task_id AND c.id = l.id AND c.rev = l.rev WHERE l.id IS NULL OR c.id IS NULL`,
	} {
		var n int
		must(t, s.pool.QueryRow(bg, s.qualify(query)).Scan(&n))
		if n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
}

// All calls that lock tasks and lanes run concurrently on a few tasks. There must be no deadlock,
// and claimed lanes must be consistent.
func TestLanesStayConsistentUnderConcurrentCalls(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start(pgtest.Config{})
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	cfg := freshConfig(storetest.Wrap(t), Config{URL: server.URL(), PoolMax: 8})
	stores := []*Store{open(storetest.Wrap(t), cfg), open(storetest.Wrap(t), cfg)}
	const tasks = 8
	for n := range tasks {
		must(t, commitOne(stores[0], submitted(n)))
		_, err := stores[0].SaveWebhook(bg, webhook(n, "p0", "first"), store.WebhookCursor{}, testStart)
		must(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	stop := sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	var commits, claims, acks, saves atomic.Int64
	run := func(f func(s *Store, r *rand.Rand) error) {
		for i, s := range stores {
			wg.Go(func() {
				for r := rand.New(rand.NewPCG(1, uint64(i))); ctx.Err() == nil; {
					if err := f(s, r); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	for range 2 {
		run(func(s *Store, r *rand.Rand) error {
			commits.Add(1)
			var changes []store.Change
			for _, n := range r.Perm(tasks)[:1+r.IntN(4)] {
				changes = append(changes, progress(n))
			}
			results, err := s.Commit(bg, changes...)
			for _, res := range results {
				err = errors.Join(err, res.Err)
			}
			return err
		})
	}
	run(func(s *Store, r *rand.Rand) error {
		worker := fmt.Sprint("w", r.IntN(3))
		lanes, err := s.ClaimLanes(bg, claimParams(worker, 1+r.IntN(2*tasks)))
		claims.Add(int64(len(lanes)))
		var all []store.LaneAck
		var leases []store.LaneLease
		for i := range lanes {
			c := &lanes[i]
			if want := `"` + c.Webhook.Endpoint + `"`; string(c.Webhook.Data) != want {
				err = errors.Join(err, fmt.Errorf("claimed lane has data %s, want %s", c.Webhook.Data, want))
			}
			a := ackOf(c, r.IntN(5) == 0)
			if r.IntN(3) == 0 {
				a.DueAt, a.Cursor = a.At.Add(time.Minute), c.Cursor
			}
			all, leases = append(all, a), append(leases, a.Lease)
		}
		_, e := s.RenewLanes(bg, testStart.Add(2*time.Hour), leases)
		lost, e2 := s.AckLanes(bg, all...)
		acks.Add(int64(len(all) - len(lost)))
		return errors.Join(err, e, e2)
	})
	run(func(s *Store, r *rand.Rand) error {
		id, n := fmt.Sprint("p", r.IntN(3)), r.IntN(tasks)
		var err error
		switch r.IntN(4) {
		case 0:
			_, err = s.DeleteWebhook(bg, taskKey(n), id, testStart.Add(3*time.Hour))
		case 1:
			_, err = s.ReplayWebhook(bg, taskKey(n), id, store.WebhookCursor{Seq: 1}, testStart)
		case 2:
			_, err = s.WakeLanes(bg, fmt.Sprint("at ", r.IntN(5)), testStart, 10)
		default:
			saves.Add(1)
			_, err = s.SaveWebhook(bg, webhook(n, id, fmt.Sprint("at ", r.IntN(5))), store.WebhookCursor{}, testStart)
		}
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return err
	})
	await.True(t, "enough calls of each kind", func() bool {
		return commits.Load() > 100 && acks.Load() > 100 && saves.Load() > 40 || t.Failed()
	})
	stop()
	checkLanes(t, stores[0])
	var deadlocks int
	must(t, stores[0].pool.QueryRow(bg, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").Scan(&deadlocks))
	if deadlocks != 0 {
		t.Errorf("%d deadlocks, want none", deadlocks)
	}
	t.Logf("%d commits, %d claimed, %d acknowledged, %d saved", commits.Load(), claims.Load(), acks.Load(), saves.Load())
}

// A commit that starts before a webhook is added and ends after must advance its lane.
func TestCommitAdvancesAWebhookAddedConcurrently(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	must(t, commitOne(s, submitted(1)))
	c, err := s.pool.Acquire(bg)
	must(t, err)
	defer c.Release()
	tx, err := c.Begin(bg)
	must(t, err)
	_, err = s.exists(bg, tx, sqlLockTaskUpdate, taskKey(1).Owner, taskKey(1).ID)
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- commitOne(s, progress(1)) }()
	waitForLock(t, s)
	must(t, s.eachRow(bg, tx, stmtWebhook.text, func(record) error { return nil },
		[]string{taskKey(1).Owner}, []string{taskKey(1).ID}, []string{"p"}, []string{"http://x"}, []string{"{}"}, []bool{false},
		[]int64{2}, []int64{0}, []string{""}, []int64{1}, []int64{1}))
	must(t, tx.Commit(bg))
	must(t, <-done)
	checkLanes(t, s)
	lanes, err := s.ClaimLanes(bg, claimParams("w", 10))
	if err != nil || len(lanes) != 1 || len(lanes[0].Events) != 1 {
		t.Errorf("ClaimLanes() = %+v, %v, want the lane with one event", lanes, err)
	}
}

// The connection is cut at many bytes of the answer to an acknowledgement. After a repeated
// acknowledgement everything is stored once.
func TestRepeatedAcknowledgementAfterALostAnswerIsSafe(t *testing.T) {
	t.Parallel()
	p, s, direct := openBehindProxy(t, Config{})
	must(t, commitOne(s, submitted(1)))
	_, err := s.SaveWebhook(bg, webhook(1, "p", "http://x"), store.WebhookCursor{Seq: 2}, testStart)
	must(t, err)
	lost, sequence := 0, int64(0)
	for bytes := 0; bytes < 400; bytes += 7 {
		must(t, commitOne(direct, progress(1)))
		lanes, err := s.ClaimLanes(bg, claimParams("w", 10))
		for try := 0; a2a.CodeOf(err) == a2a.CodeUnavailable && try < 10; try++ { // the last cut closed a connection
			lanes, err = s.ClaimLanes(bg, claimParams("w", 10))
		}
		if err != nil || len(lanes) != 1 || len(lanes[0].Events) != 1 {
			t.Fatalf("ClaimLanes() = %+v, %v, want the lane with one event", lanes, err)
		}
		ack := ackOf(&lanes[0], true)
		ack.Dead = []store.DeadLetter{{Seq: ack.Cursor.Seq, Sequence: ack.Cursor.Sequence, At: ack.At}}
		p.CutAfter(bytes)
		_, err = s.AckLanes(bg, ack)
		p.Disarm()
		if err != nil {
			lost++
			if a2a.CodeOf(err) != a2a.CodeUnavailable {
				t.Errorf("AckLanes() cut after %d bytes = %v, want code unavailable", bytes, err)
			}
		}
		for range 2 {
			if rejected, err := direct.AckLanes(bg, ack); err != nil || len(rejected) != 0 {
				t.Fatalf("AckLanes() again = %v, %v, want it accepted", rejected, err)
			}
		}
		stale := ack
		stale.Cursor.Seq-- // as of a call that reaches the server late
		ack.KeepLease = false
		if rejected, err := direct.AckLanes(bg, ack); err != nil || len(rejected) != 0 {
			t.Fatalf("AckLanes() without KeepLease = %v, %v, want it accepted", rejected, err)
		}
		if rejected, err := direct.AckLanes(bg, stale); err != nil || len(rejected) != 1 {
			t.Fatalf("late AckLanes() = %v, %v, want a lost lease", rejected, err)
		}
		sequence = ack.Cursor.Sequence
	}
	if lost < 5 {
		t.Errorf("%d answers were lost, want at least 5", lost)
	}
	q := store.WebhookQuery{Limit: 1000}
	attempts, err := direct.DeliveryAttempts(bg, q)
	dead, e := direct.DeadLetters(bg, q)
	if must(t, errors.Join(err, e)); int64(len(attempts.Attempts)) != sequence || int64(len(dead.Letters)) != sequence {
		t.Errorf("%d attempts and %d dead letters of %d events, want one each", len(attempts.Attempts), len(dead.Letters), sequence)
	}
	checkLanes(t, direct)
}

// An acknowledgement that arrives after a later one does not move the cursor back.
func TestLateAcknowledgementChangesNothing(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	must(t, commitOne(s, submitted(1)))
	_, err := s.SaveWebhook(bg, webhook(1, "p", "http://x"), store.WebhookCursor{}, testStart)
	must(t, err)
	lanes, err := s.ClaimLanes(bg, claimParams("w", 1))
	must(t, err)
	first, second := ackOf(&lanes[0], true), ackOf(&lanes[0], true)
	first.Cursor.Seq--
	for i, want := range []int{0, 0, 1} {
		if lost, err := s.AckLanes(bg, []store.LaneAck{first, second, first}[i]); err != nil || len(lost) != want {
			t.Errorf("AckLanes() %d = %v, %v, want %d lost", i, lost, err, want)
		}
	}
}

func TestStoresNotifyEachOtherOfLanes(t *testing.T) {
	t.Parallel()
	cfg := emptyConfig(storetest.Wrap(t), Config{})
	a, b := open(storetest.Wrap(t), cfg), open(storetest.Wrap(t), cfg)
	must(t, commitOne(a, submitted(1)))
	ctx, leave := context.WithCancel(t.Context())
	e := recordWatch(ctx, b)
	e.await(t, "the first notification", func() bool { return e.lost == 1 })
	var ofSame, ofOther atomic.Int64
	a.WatchLanes(func() { ofSame.Add(1) })
	stop := b.WatchLanes(func() { ofOther.Add(1) })
	tasks := 1
	awaitEarlierNotifications := func() { // waits for a notification that follows them
		t.Helper()
		awaitNotified(t, a)
		tasks++
		must(t, commitOne(a, submitted(tasks)))
		e.await(t, "a task without webhooks", func() bool { return slices.Contains(e.tasks, taskKey(tasks)) })
	}
	wantNotified := func(what string, f func() error) {
		t.Helper()
		otherBefore, sameBefore := ofOther.Load(), ofSame.Load()
		must(t, f())
		if ofSame.Load() == sameBefore {
			t.Errorf("%s: watchers in this process were not notified", what)
		}
		e.await(t, what, func() bool { return ofOther.Load() > otherBefore })
		awaitEarlierNotifications()
	}
	awaitEarlierNotifications()
	wantNotified("a webhook", func() error {
		_, err := a.SaveWebhook(bg, webhook(1, "p", "http://x"), store.WebhookCursor{}, testStart)
		return err
	})
	wantNotified("a commit", func() error { return commitOne(a, progress(1)) })
	wantNotified("a replay", func() error {
		_, err := a.ReplayWebhook(bg, taskKey(1), "p", store.WebhookCursor{}, testStart)
		return err
	})
	was := ofOther.Load()
	awaitEarlierNotifications()
	if ofOther.Load() != was {
		t.Error("lane watchers were notified of a task without webhooks")
	}
	stop()
	must(t, commitOne(a, progress(1)))
	awaitEarlierNotifications()
	if ofOther.Load() != was {
		t.Error("a stopped watcher was notified")
	}
	leave()
	must(t, <-e.ended)
}

func TestPayloadNamesDueLanes(t *testing.T) {
	t.Parallel()
	n := newOutbox()
	n.addLanes()
	if p := n.take(); len(p) != 1 || !strings.Contains(p[0], `"p":true`) {
		t.Errorf("take() = %q, want one with lanes", p)
	}
	if p := n.take(); p != nil {
		t.Errorf("take() again = %v, want nothing", p)
	}
}

// Attempts are stored in rows of several and listed one by one, whatever their times.
func TestAttemptsAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	r := rand.New(rand.NewPCG(3, 4))
	want := map[string]int{}
	for n := range 3 {
		must(t, commitOne(s, submitted(n)))
		_, err := s.SaveWebhook(bg, webhook(n, "p", "http://x"), store.WebhookCursor{}, testStart)
		must(t, err)
	}
	lanes, err := s.ClaimLanes(bg, claimParams("w", 3))
	must(t, err)
	for range 30 {
		for i := range lanes {
			ack := ackOf(&lanes[i], true)
			ack.Attempts = nil
			for range r.IntN(5) {
				a := store.DeliveryAttempt{
					Sequence: int64(1 + r.IntN(3)), Attempt: 1 + r.IntN(99), Detail: "\x00 \xff",
					At: testStart.Add(time.Duration(r.IntN(200)) * time.Second),
				}
				ack.Attempts = append(ack.Attempts, a)
				want[fmt.Sprint(ack.Lease.Task.ID, a.At.UnixMilli(), a.Sequence, a.Attempt)]++
			}
			_, err := s.AckLanes(bg, ack)
			must(t, err)
		}
	}
	for _, limit := range []int{1, 7, 1000} {
		var all []store.DeliveryAttempt
		for q := (store.WebhookQuery{Limit: limit}); ; {
			page, err := s.DeliveryAttempts(bg, q)
			must(t, err)
			if all = append(all, page.Attempts...); page.Next == "" {
				break
			}
			q.Cursor = page.Next
		}
		seen := map[string]bool{}
		for i := range all {
			a := &all[i]
			k := fmt.Sprint(a.Task.ID, a.At.UnixMilli(), a.Sequence, a.Attempt)
			if want[k] == 0 || seen[k] {
				t.Errorf("pages of %d: %s is listed twice or was never stored", limit, k)
			}
			seen[k] = true
			if i > 0 && all[i-1].At.Before(a.At) {
				t.Errorf("pages of %d: %v is listed after %v, want the newest first", limit, a.At, all[i-1].At)
			}
		}
		if len(seen) != len(want) {
			t.Errorf("pages of %d have %d attempts, want %d", limit, len(seen), len(want))
		}
	}
	// Rows are rewritten if only some of their attempts are old.
	cut := testStart.Add(100 * time.Second)
	for n := -1; n != 0; {
		n, err = s.ExpireWebhooks(bg, store.WebhookExpiry{Attempts: cut}, 7)
		if must(t, err); n > 7 {
			t.Fatalf("ExpireWebhooks() = %d, want at most 7", n)
		}
	}
	page, err := s.DeliveryAttempts(bg, store.WebhookQuery{Limit: 1000})
	must(t, err)
	for _, a := range page.Attempts {
		if a.At.Before(cut) {
			t.Errorf("an attempt of %v remains, want those before %v removed", a.At, cut)
		}
		delete(want, fmt.Sprint(a.Task.ID, a.At.UnixMilli(), a.Sequence, a.Attempt))
	}
	for k := range want {
		if ms, _ := strconv.ParseInt(strings.Fields(strings.TrimPrefix(k, k[:36]))[0], 10, 64); ms >= cut.UnixMilli() {
			t.Errorf("%s was removed, want only those before %v removed", k, cut)
		}
	}
}

// Claims find due lanes although more lanes are waiting than one claim promotes.
func TestClaimsPromoteManyWaitingLanes(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	made, lanes := 0, 2*promoteLimit+10
	must(t, fillTasks(s, &made, lanes))
	must(t, fillLanes(s, lanes))
	_, err := s.pool.Exec(bg, s.qualify(`UPDATE {s}.webhook_lanes SET phase = {waiting}, due_at = tail_seq, cursor_seq = 0`))
	must(t, err)
	claimed := map[store.Key]bool{}
	for {
		got, err := s.ClaimLanes(bg, claimParams("w", 300))
		must(t, err)
		if len(got) == 0 {
			break
		}
		for _, c := range got {
			if claimed[c.Webhook.Task] || len(c.Events) == 0 {
				t.Fatalf("%v is claimed twice or without an event", c.Webhook.Task)
			}
			claimed[c.Webhook.Task] = true
		}
	}
	if len(claimed) != lanes {
		t.Errorf("%d lanes were claimed, want %d", len(claimed), lanes)
	}
}

// A lane with a damaged log row, or with a webhook of another revision, does not prevent claims
// of other lanes.
func TestClaimSkipsUnreadableLanes(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	for n := range 3 {
		must(t, commitOne(s, submitted(n)))
		_, err := s.SaveWebhook(bg, webhook(n, "p", "http://x"), store.WebhookCursor{}, testStart)
		must(t, err)
	}
	for _, text := range []string{
		`UPDATE {s}.task_log SET events = 'x' WHERE task_pk = (SELECT pk FROM {s}.task_rows WHERE id = $1)`,
		`UPDATE {s}.webhooks SET rev = 7 WHERE task_id = $1`,
	} {
		n := 0
		if strings.Contains(text, "rev") {
			n = 1
		}
		_, err := s.pool.Exec(bg, s.qualify(text), taskID(n))
		must(t, err)
	}
	lanes, err := s.ClaimLanes(bg, claimParams("w", 10))
	must(t, err)
	var got []string
	for _, l := range lanes {
		got = append(got, l.Webhook.Task.ID)
		if len(l.Events) != 2 || string(l.Webhook.Data) != `"http://x"` || l.ContextID != "c"+l.Webhook.Task.ID ||
			!l.Created.Equal(store.Time(submitted(2).Events[0].Time)) {
			t.Errorf("ClaimLanes() has %+v, want all events and data", l)
		}
	}
	if diff := cmp.Diff([]string{taskID(2)}, got); diff != "" {
		t.Errorf("claimed lanes (-want +got):\n%s", diff)
	}
}

func TestOperatorReadsWebhooks(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	must(t, commitOne(s, submitted(1)))
	c := webhook(1, "p", "http://x")
	c.Data = []byte(`{"url": "http://x/", "nul": "\u0000"}`)
	_, err := s.SaveWebhook(bg, c, store.WebhookCursor{}, testStart.Add(time.Second))
	must(t, err)
	var got string
	must(t, s.pool.QueryRow(bg, s.qualify(`SELECT jsonb_build_array(task_id, id, config, created_at AT TIME ZONE 'UTC', updated_at AT TIME ZONE 'UTC', owner_did)
		FROM {s}.webhook_configs`)).Scan(&got))
	want := `["` + taskID(1) + `", "p", {"nul": "` + "\ufffd" + `", "url": "http://x/"}, "2026-11-20T12:00:00", "2026-11-20T12:00:01", "did:key:z6MkhaXgBZDvotDkL5257"]`
	if got != want {
		t.Errorf("webhook_configs has %s, want %s", got, want)
	}
}
