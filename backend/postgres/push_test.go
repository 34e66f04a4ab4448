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
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// webhook is a webhook of a test's task.
func webhook(n int, id, data string) store.PushConfig {
	return store.PushConfig{Task: taskKey(n), ID: id, Endpoint: data, Data: []byte(`"` + data + `"`), CreatedAt: began}
}

// told is a change under the lease of testWorker that a webhook is told of.
func told(n int) store.Change {
	k := taskKey(n)
	return store.Change{
		Key: k, Lease: &store.HeldLease{Key: k, Worker: testWorker, Fence: 1},
		Events: []store.Event{{Time: began.Add(time.Second), State: a2a.StateWorking, Message: message("m", "agent", "x")}},
	}
}

func claimParams(worker string, limit int) store.LaneClaim {
	return store.LaneClaim{Worker: worker, Now: began.Add(time.Hour), Until: began.Add(2 * time.Hour), Limit: limit, Events: 16}
}

// ackOf acknowledges all events of a claimed lane.
func ackOf(c *store.ClaimedLane, hold bool) store.LaneAck {
	a := store.LaneAck{
		Lease: store.LaneLease{Task: c.Config.Task, ID: c.Config.ID, Worker: c.Worker, Fence: c.Fence},
		Hold:  hold, At: began.Add(time.Hour), Cursor: c.Cursor, State: store.LaneActive, DueAt: began.Add(time.Hour),
	}
	for i := range c.Events {
		next, told := a.Cursor.Next(&c.Events[i])
		if a.Cursor = next; told {
			a.Delivered++
			a.Attempts = append(a.Attempts, store.PushAttempt{Seq: next.Seq, Sequence: next.Sequence, Attempt: 1, At: a.At, Status: 200, Outcome: "delivered"})
		}
	}
	return a
}

// checkLanes finds lanes that are not where their tasks are, and tasks that count
// other webhooks than they have.
func checkLanes(t *testing.T, s *Store) {
	t.Helper()
	for what, query := range map[string]string{
		"lanes whose tail is not the task's version": `SELECT count(*) FROM {s}.push_lanes l
			JOIN {s}.task_rows t ON t.owner = l.owner AND t.id = l.task_id WHERE t.seq <> l.tail_seq`,
		"lanes that are not in the phase of what they are": `SELECT count(*) FROM {s}.push_lanes
			WHERE (cursor_seq < tail_seq) <> (phase > 0) OR phase IN (1, 2) AND lease_until > 0 OR phase = 3 AND lease_until = 0`,
		"tasks that count other webhooks than they have": `SELECT count(*) FROM {s}.task_rows t
			WHERE t.webhooks <> (SELECT count(*) FROM {s}.push_lanes l WHERE l.owner = t.owner AND l.task_id = t.id)`,
		"webhooks without a lane, or lanes without a webhook": `SELECT count(*) FROM {s}.push_lanes l FULL JOIN {s}.push_configs c
			ON c.owner = l.owner AND c.task_id = l.task_id AND c.id = l.id AND c.rev = l.rev WHERE l.id IS NULL OR c.id IS NULL`,
	} {
		var n int
		must(t, s.pool.QueryRow(bg, s.q(query)).Scan(&n))
		if n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
}

// Everything that locks tasks and lanes at the same time, over a few of them: nobody
// waits in a circle, nothing is missed, and what is claimed is of one piece.
func TestLanesStayRightWhileAllIsDoneAtOnce(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start(pgtest.Config{})
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	cfg := fresh(storetest.Wrap(t), Config{URL: server.URL(), PoolMax: 8})
	stores := []*Store{open(storetest.Wrap(t), cfg), open(storetest.Wrap(t), cfg)}
	const tasks = 8
	for n := range tasks {
		must(t, commitOne(stores[0], submitted(n)))
		_, err := stores[0].SavePush(bg, webhook(n, "p0", "first"), store.PushCursor{}, began)
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
				for r := rand.New(rand.NewPCG(1, uint64(i))); ctx.Err() == nil; { //nolint:gosec // a test's seed
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
				changes = append(changes, told(n))
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
			if want := `"` + c.Config.Endpoint + `"`; string(c.Config.Data) != want {
				err = errors.Join(err, fmt.Errorf("claimed lane has the data %s, want %s of the same webhook", c.Config.Data, want))
			}
			a := ackOf(c, r.IntN(5) == 0)
			if r.IntN(3) == 0 {
				a.DueAt, a.Cursor = a.At.Add(time.Minute), c.Cursor
			}
			all, leases = append(all, a), append(leases, a.Lease)
		}
		_, e := s.RenewLanes(bg, began.Add(2*time.Hour), leases)
		lost, e2 := s.AckLanes(bg, all...)
		acks.Add(int64(len(all) - len(lost)))
		return errors.Join(err, e, e2)
	})
	run(func(s *Store, r *rand.Rand) error {
		id, n := fmt.Sprint("p", r.IntN(3)), r.IntN(tasks)
		var err error
		switch r.IntN(4) {
		case 0:
			_, err = s.DeletePush(bg, taskKey(n), id, began.Add(3*time.Hour))
		case 1:
			_, err = s.ReplayPush(bg, taskKey(n), id, store.PushCursor{Seq: 1}, began)
		case 2:
			_, err = s.WakeLanes(bg, fmt.Sprint("at ", r.IntN(5)), began, 10)
		default:
			saves.Add(1)
			_, err = s.SavePush(bg, webhook(n, id, fmt.Sprint("at ", r.IntN(5))), store.PushCursor{}, began)
		}
		if errors.Is(err, store.ErrNotFound) {
			err = nil
		}
		return err
	})
	await(t, "enough of each is done", func() bool {
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

// A commit that begins before a webhook is there and ends after must not leave its
// lane behind.
func TestACommitFollowsAWebhookThatComesMeanwhile(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), fresh(storetest.Wrap(t), Config{}))
	must(t, commitOne(s, submitted(1)))
	c, err := s.pool.Acquire(bg)
	must(t, err)
	defer c.Release()
	tx, err := c.Begin(bg)
	must(t, err)
	_, err = s.any(bg, tx, sqlHoldTask, taskKey(1).Owner, taskKey(1).ID)
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- commitOne(s, told(1)) }()
	waitForLock(t, s)
	must(t, s.each(bg, tx, stmtPush.text, func(record) error { return nil },
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

// Claims and acknowledgements are cut off from their answers at many places. Who
// acknowledges again ends where all is stored once.
func TestAcknowledgingAgainAfterALostAnswerIsSafe(t *testing.T) {
	t.Parallel()
	p, s, direct := behind(t, Config{})
	must(t, commitOne(s, submitted(1)))
	_, err := s.SavePush(bg, webhook(1, "p", "http://x"), store.PushCursor{Seq: 2}, began)
	must(t, err)
	lost, sequence := 0, int64(0)
	for bytes := 0; bytes < 400; bytes += 7 {
		must(t, commitOne(direct, told(1)))
		lanes, err := s.ClaimLanes(bg, claimParams("w", 10))
		for try := 0; a2a.CodeOf(err) == a2a.CodeUnavailable && try < 10; try++ { // a connection that the last cut ended
			lanes, err = s.ClaimLanes(bg, claimParams("w", 10))
		}
		if err != nil || len(lanes) != 1 || len(lanes[0].Events) != 1 {
			t.Fatalf("ClaimLanes() = %+v, %v, want the lane with one event", lanes, err)
		}
		ack := ackOf(&lanes[0], true)
		ack.Dead = []store.DeadLetter{{Seq: ack.Cursor.Seq, Sequence: ack.Cursor.Sequence, At: ack.At}}
		p.cutAfter(bytes)
		_, err = s.AckLanes(bg, ack)
		p.disarm()
		if err != nil {
			lost++
			if a2a.CodeOf(err) != a2a.CodeUnavailable {
				t.Errorf("AckLanes() cut after %d bytes = %v, want code unavailable", bytes, err)
			}
		}
		for range 2 {
			if gone, err := direct.AckLanes(bg, ack); err != nil || len(gone) != 0 {
				t.Fatalf("AckLanes() again = %v, %v, want it taken", gone, err)
			}
		}
		stale := ack
		stale.Cursor.Seq-- // of a call that reaches the server late
		ack.Hold = false
		if gone, err := direct.AckLanes(bg, ack); err != nil || len(gone) != 0 {
			t.Fatalf("AckLanes() that lets go = %v, %v, want it taken", gone, err)
		}
		if gone, err := direct.AckLanes(bg, stale); err != nil || len(gone) != 1 {
			t.Fatalf("AckLanes() late = %v, %v, want it refused", gone, err)
		}
		sequence = ack.Cursor.Sequence
	}
	if lost < 5 {
		t.Errorf("%d answers were lost, want more", lost)
	}
	q := store.PushQuery{Limit: 1000}
	attempts, err := direct.PushAttempts(bg, q)
	dead, e := direct.DeadLetters(bg, q)
	if must(t, errors.Join(err, e)); int64(len(attempts.Attempts)) != sequence || int64(len(dead.Letters)) != sequence {
		t.Errorf("%d attempts and %d dead letters of %d events, want one each", len(attempts.Attempts), len(dead.Letters), sequence)
	}
	checkLanes(t, direct)
}

// A held lane's acknowledgement that arrives after the next one does not set it back.
func TestAnAcknowledgementThatArrivesLateChangesNothing(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), fresh(storetest.Wrap(t), Config{}))
	must(t, commitOne(s, submitted(1)))
	_, err := s.SavePush(bg, webhook(1, "p", "http://x"), store.PushCursor{}, began)
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

func TestStoresTellEachOtherOfLanes(t *testing.T) {
	t.Parallel()
	cfg := fresh(storetest.Wrap(t), Config{})
	a, b := open(storetest.Wrap(t), cfg), open(storetest.Wrap(t), cfg)
	must(t, commitOne(a, submitted(1)))
	ctx, leave := context.WithCancel(t.Context())
	e := listenTo(ctx, b)
	e.until(t, "the beginning", func() bool { return e.lost == 1 })
	var here, there atomic.Int64
	a.WatchLanes(func() { here.Add(1) })
	stop := b.WatchLanes(func() { there.Add(1) })
	tasks := 1
	settle := func() { // earlier notifications have arrived when that of a task arrives
		t.Helper()
		untilNotified(t, a)
		tasks++
		must(t, commitOne(a, submitted(tasks)))
		e.until(t, "a task without webhooks", func() bool { return slices.Contains(e.tasks, taskKey(tasks)) })
	}
	heard := func(what string, f func() error) {
		t.Helper()
		was, wasHere := there.Load(), here.Load()
		must(t, f())
		if here.Load() == wasHere {
			t.Errorf("%s: those who watch in this process were not told", what)
		}
		e.until(t, what, func() bool { return there.Load() > was })
		settle()
	}
	settle()
	heard("a webhook", func() error {
		_, err := a.SavePush(bg, webhook(1, "p", "http://x"), store.PushCursor{}, began)
		return err
	})
	heard("a commit", func() error { return commitOne(a, told(1)) })
	heard("a replay", func() error { _, err := a.ReplayPush(bg, taskKey(1), "p", store.PushCursor{}, began); return err })
	was := there.Load()
	settle()
	if there.Load() != was {
		t.Error("a task without webhooks was told to those who watch lanes")
	}
	stop()
	must(t, commitOne(a, told(1)))
	settle()
	if there.Load() != was {
		t.Error("who does not watch any more was told")
	}
	leave()
	must(t, <-e.ended)
}

func TestNoticesOfLanesFitANotification(t *testing.T) {
	t.Parallel()
	n := newNews()
	n.addLanes()
	if p := n.take(); len(p) != 1 || !strings.Contains(p[0], `"p":true`) {
		t.Errorf("take() = %q, want one that tells of lanes", p)
	}
	if p := n.take(); p != nil {
		t.Errorf("take() again = %v, want nothing", p)
	}
}

// Attempts are kept many to a row and listed one by one, whatever their times.
func TestAttemptsAreListedInOrderHoweverTheyWereNoted(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), fresh(storetest.Wrap(t), Config{}))
	r := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a test's seed
	want := map[string]int{}
	for n := range 3 {
		must(t, commitOne(s, submitted(n)))
		_, err := s.SavePush(bg, webhook(n, "p", "http://x"), store.PushCursor{}, began)
		must(t, err)
	}
	lanes, err := s.ClaimLanes(bg, claimParams("w", 3))
	must(t, err)
	for range 30 {
		for i := range lanes {
			ack := ackOf(&lanes[i], true)
			ack.Attempts = nil
			for range r.IntN(5) {
				a := store.PushAttempt{
					Sequence: int64(1 + r.IntN(3)), Attempt: 1 + r.IntN(99), Detail: "\x00 \xff",
					At: began.Add(time.Duration(r.IntN(200)) * time.Second),
				}
				ack.Attempts = append(ack.Attempts, a)
				want[fmt.Sprint(ack.Lease.Task.ID, a.At.UnixMilli(), a.Sequence, a.Attempt)]++
			}
			_, err := s.AckLanes(bg, ack)
			must(t, err)
		}
	}
	for _, limit := range []int{1, 7, 1000} {
		var all []store.PushAttempt
		for q := (store.PushQuery{Limit: limit}); ; {
			page, err := s.PushAttempts(bg, q)
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
				t.Errorf("pages of %d: %s is there twice, or was never noted", limit, k)
			}
			seen[k] = true
			if i > 0 && all[i-1].At.Before(a.At) {
				t.Errorf("pages of %d: %v comes after %v, want the newest first", limit, a.At, all[i-1].At)
			}
		}
		if len(seen) != len(want) {
			t.Errorf("pages of %d have %d attempts, want %d", limit, len(seen), len(want))
		}
	}
	// Rows are parted when only some of theirs are old.
	cut := began.Add(100 * time.Second)
	for n := -1; n != 0; {
		n, err = s.ExpirePush(bg, store.PushExpiry{Attempts: cut}, 7)
		if must(t, err); n > 7 {
			t.Fatalf("ExpirePush() = %d, want at most 7", n)
		}
	}
	page, err := s.PushAttempts(bg, store.PushQuery{Limit: 1000})
	must(t, err)
	for _, a := range page.Attempts {
		if a.At.Before(cut) {
			t.Errorf("an attempt of %v is there, want those before %v gone", a.At, cut)
		}
		delete(want, fmt.Sprint(a.Task.ID, a.At.UnixMilli(), a.Sequence, a.Attempt))
	}
	for k := range want {
		if ms, _ := strconv.ParseInt(strings.Fields(strings.TrimPrefix(k, k[:36]))[0], 10, 64); ms >= cut.UnixMilli() {
			t.Errorf("%s is gone, want only those before %v removed", k, cut)
		}
	}
}

// Waiting lanes do not stand in the way of a claim, and become ready in the order in
// which they are due, however many there are.
func TestMoreWaitingLanesThanBecomeReadyWithOneClaim(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), fresh(storetest.Wrap(t), Config{}))
	made, lanes := 0, 2*promoteLimit+10
	must(t, fill(s, &made, lanes))
	must(t, fillLanes(s, lanes))
	_, err := s.pool.Exec(bg, s.q(`UPDATE {s}.push_lanes SET phase = 2, due_at = tail_seq, cursor_seq = 0`))
	must(t, err)
	claimed := map[store.Key]bool{}
	for {
		got, err := s.ClaimLanes(bg, claimParams("w", 300))
		must(t, err)
		if len(got) == 0 {
			break
		}
		for _, c := range got {
			if claimed[c.Config.Task] || len(c.Events) == 0 {
				t.Fatalf("%v is claimed twice or without an event", c.Config.Task)
			}
			claimed[c.Config.Task] = true
		}
	}
	if len(claimed) != lanes {
		t.Errorf("%d lanes were claimed, want %d", len(claimed), lanes)
	}
}

// A lane whose log row is damaged, or whose webhook is another than the lane is for,
// keeps no other from being claimed.
func TestALaneThatCannotBeReadIsLeftOut(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), fresh(storetest.Wrap(t), Config{}))
	for n := range 3 {
		must(t, commitOne(s, submitted(n)))
		_, err := s.SavePush(bg, webhook(n, "p", "http://x"), store.PushCursor{}, began)
		must(t, err)
	}
	for _, text := range []string{
		`UPDATE {s}.task_log SET events = 'x' WHERE task_pk = (SELECT pk FROM {s}.task_rows WHERE id = $1)`,
		`UPDATE {s}.push_configs SET rev = 7 WHERE task_id = $1`,
	} {
		n := 0
		if strings.Contains(text, "rev") {
			n = 1
		}
		_, err := s.pool.Exec(bg, s.q(text), taskID(n))
		must(t, err)
	}
	lanes, err := s.ClaimLanes(bg, claimParams("w", 10))
	must(t, err)
	var got []string
	for _, l := range lanes {
		got = append(got, l.Config.Task.ID)
		if len(l.Events) != 2 || string(l.Config.Data) != `"http://x"` || l.ContextID != "c"+l.Config.Task.ID ||
			!l.Created.Equal(store.Time(submitted(2).Events[0].Time)) {
			t.Errorf("ClaimLanes() has %+v, want it whole", l)
		}
	}
	if diff := cmp.Diff([]string{taskID(2)}, got); diff != "" {
		t.Errorf("claimed lanes (-want +got):\n%s", diff)
	}
}

func TestOperatorReadsWebhooks(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), fresh(storetest.Wrap(t), Config{}))
	must(t, commitOne(s, submitted(1)))
	c := webhook(1, "p", "http://x")
	c.Data = []byte(`{"url": "http://x/", "nul": "\u0000"}`)
	_, err := s.SavePush(bg, c, store.PushCursor{}, began.Add(time.Second))
	must(t, err)
	var got string
	must(t, s.pool.QueryRow(bg, s.q(`SELECT jsonb_build_array(task_id, id, config, created_at AT TIME ZONE 'UTC', updated_at AT TIME ZONE 'UTC', owner_did)
		FROM {s}.webhook_configs`)).Scan(&got))
	want := `["` + taskID(1) + `", "p", {"nul": "` + "\ufffd" + `", "url": "http://x/"}, "2026-11-20T12:00:00", "2026-11-20T12:00:01", "did:key:z6MkhaXgBZDvotDkL5257"]`
	if got != want {
		t.Errorf("webhook_configs has %s, want %s", got, want)
	}
}
