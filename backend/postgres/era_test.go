//go:build services

package postgres

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// holdSnapshot keeps a snapshot of the database in another session.
func holdSnapshot(t testing.TB, s *Store) {
	t.Helper()
	c, err := pgx.Connect(bg, s.cfg.URL)
	must(t, err)
	t.Cleanup(func() { _ = c.Close(bg) })
	_, err = c.Exec(bg, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1")
	must(t, err)
}

// queued returns the change that creates a task which can be claimed.
func queued(n int) store.Change {
	c := submitted(n)
	c.Events = c.Events[:1]
	c.Queue = &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1, SeenSeq: 1}
	return c
}

func claimTasks(t testing.TB, s *Store, limit int) []*store.Task {
	t.Helper()
	tasks, err := s.Claim(bg, store.ClaimParams{
		Worker: testWorker, Now: testStart.Add(time.Hour), Until: testStart.Add(2 * time.Hour), Limit: limit,
		Event: store.Event{Time: testStart.Add(time.Hour), State: a2a.StateWorking},
	})
	must(t, err)
	return tasks
}

// runQueued creates n tasks from a number on, claims them all and completes them.
func runQueued(t testing.TB, s *Store, from, n int) {
	t.Helper()
	for at := from; at < from+n; at += 200 {
		var changes []store.Change
		for i := at; i < min(at+200, from+n); i++ {
			changes = append(changes, queued(i))
		}
		_, err := s.Commit(bg, changes...)
		must(t, err)
	}
	for done := 0; done < n; {
		var tasks []*store.Task
		await.True(t, "tasks are claimed", func() bool { // those that were added while an era started are found soon
			tasks = claimTasks(t, s, 64)
			return len(tasks) > 0
		})
		done += len(tasks)
		var changes []store.Change
		for _, task := range tasks {
			changes = append(changes, completedClaim(task))
		}
		_, err := s.Commit(bg, changes...)
		must(t, err)
	}
}

// completedClaim returns the change that completes a claimed task.
func completedClaim(task *store.Task) store.Change {
	c := completed(store.Change{Key: task.Key, Events: []store.Event{{Time: task.Status.Timestamp}}})
	c.Lease.Fence, c.Queue.Lease.Fence = task.Queue.Lease.Fence, task.Queue.Lease.Fence
	return c
}

// pagesOf returns the number of pages that a query reads.
func pagesOf(t *testing.T, s *Store, query string) int {
	t.Helper()
	var text []byte
	must(t, s.pool.QueryRow(bg, s.qualify("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+query)).Scan(&text))
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	must(t, json.Unmarshal(text, &plans))
	return plans[0].Plan.Hit + plans[0].Plan.Read
}

func TestCallsPassFewEntriesWhileASnapshotIsHeld(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start(pgtest.Config{Settings: map[string]string{"shared_buffers": "16MB"}}) // the snapshot would delay other tests
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	s := open(storetest.Wrap(t), freshConfig(storetest.Wrap(t), Config{URL: server.URL()}))
	s.eras.shortest.Store(256)
	s.eras.started(0)
	holdSnapshot(t, s)
	wantFewPages := func(what, query, all, now string) {
		t.Helper()
		if all, now := pagesOf(t, s, fmt.Sprintf(query, all)), pagesOf(t, s, fmt.Sprintf(query, now)); now*4 > all {
			t.Errorf("%s: a walk reads %d pages, of all entries %d, want a fourth of these at most", what, now, all)
		}
	}
	const batch = 64
	for round := range 60 {
		runQueued(t, s, batch*round, batch)
	}
	for _, phase := range []string{"{ready}", "{leased}"} {
		wantFewPages("claims of "+phase, `SELECT owner FROM {s}.task_rows WHERE phase = `+phase+` AND %s ORDER BY era, owner COLLATE "ucs_basic" LIMIT 1`, "era >= 0", "era = {era}")
	}
	const records, swept = 4_000, 200
	_, err = s.pool.Exec(bg, s.qualify(`INSERT INTO {s}.records (owner, namespace, key, version, value, expires_at)
		SELECT 'alice', 'n', n::text, 1, '', n FROM generate_series(1, $1::integer) n`), records)
	must(t, err)
	for range records/swept - 1 {
		n, err := s.ExpireRecords(bg, testStart, swept)
		must(t, err)
		if n != swept {
			t.Fatalf("a batch removes %d records, want %d", n, swept)
		}
	}
	wantFewPages("sweeps", `SELECT owner FROM {s}.records WHERE expires_at > 0 AND expires_at >= %s ORDER BY expires_at LIMIT 1`,
		"0", strconv.FormatInt(s.sweptRecords.from.Load(), 10))
}

// A transaction adds entries to an era that ends before it commits.
func TestLateEntriesAreMoved(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	must(t, commitOne(s, queued(1)))
	leased := submitted(2)
	must(t, commitOne(s, leased))
	must(t, commitOne(s, submitted(3)))
	_, err := s.SaveWebhook(bg, webhook(3, "p", "http://x"), store.WebhookCursor{}, testStart)
	must(t, err)
	for _, table := range []string{"task_rows", "webhook_lanes"} {
		_, err := s.pool.Exec(bg, s.qualify(`UPDATE {s}.`+table+` SET era = 0`))
		must(t, err)
	}
	if newest, _, err := s.moveEntries(bg, 0, false); err != nil || newest != 1 {
		t.Errorf("moveEntries() = era %d, %v, want era 1", newest, err)
	}
	if tasks := claimTasks(t, s, 10); len(tasks) != 1 || tasks[0].Key != taskKey(1) {
		t.Errorf("Claim() = %d tasks, want task 1", len(tasks))
	}
	lanes, err := s.ClaimLanes(bg, claimParams("w", 10))
	if err != nil || len(lanes) != 1 {
		t.Errorf("ClaimLanes() = %d lanes, %v, want 1", len(lanes), err)
	}
}

// A process is killed after it has started an era and before it has moved all entries. The next one moves them.
func TestEntriesOfEndedErasAreFoundAfterARestart(t *testing.T) {
	t.Parallel()
	cfg := emptyConfig(storetest.Wrap(t), Config{})
	s := open(storetest.Wrap(t), cfg)
	must(t, commitOne(s, queued(1)))
	must(t, s.Close())
	c, err := pgx.Connect(bg, s.cfg.URL)
	must(t, err)
	t.Cleanup(func() { _ = c.Close(bg) })
	_, err = c.Exec(bg, s.qualify(`UPDATE {s}.queue_era SET era = 7`))
	must(t, err)
	other := open(storetest.Wrap(t), cfg)
	await.True(t, "the task is claimed", func() bool { return len(claimTasks(t, other, 10)) == 1 })
}

// Two replicas start eras while they claim. Each task is claimed once.
func TestReplicasStartErasWhileTheyClaim(t *testing.T) {
	t.Parallel()
	cfg := emptyConfig(storetest.Wrap(t), Config{})
	stores := []*Store{open(storetest.Wrap(t), cfg), open(storetest.Wrap(t), cfg)}
	const tasks = 600
	var mu sync.Mutex
	claimed := make(map[store.Key]int)
	var all sync.WaitGroup
	for i, s := range stores {
		s.eras.shortest.Store(8)
		s.eras.started(0)
		all.Go(func() {
			for n := i; n < tasks; n += len(stores) {
				if err := commitOne(s, queued(n)); err != nil {
					t.Errorf("Commit() = %v", err)
				}
			}
		})
		all.Go(func() {
			await.True(t, "all tasks are claimed", func() bool {
				got := claimTasks(t, s, 4)
				mu.Lock()
				defer mu.Unlock()
				for _, task := range got {
					claimed[task.Key]++
				}
				return len(claimed) == tasks
			})
		})
	}
	all.Wait()
	for key, n := range claimed {
		if n != 1 {
			t.Errorf("task %s was claimed %d times", key.ID, n)
		}
	}
	var era int64
	must(t, stores[0].pool.QueryRow(bg, stores[0].qualify(stmtEra.text)).Scan(&era))
	if era < 3 { // fewer and fewer start, since all leased tasks move
		t.Errorf("era %d after %d claims, want at least 3", era, tasks)
	}
}

// Another replica adds a waiting task that is due before the claims of this one read.
func TestEarlyWaitingTaskOfAnotherReplicaIsFoundLater(t *testing.T) {
	t.Parallel()
	cfg := emptyConfig(storetest.Wrap(t), Config{})
	s, other := open(storetest.Wrap(t), cfg), open(storetest.Wrap(t), cfg)
	waiting := func(n int) store.Change {
		c := queued(n)
		c.Queue.DueAt = testStart.Add(time.Minute)
		return c
	}
	if tasks := claimTasks(t, s, 10); len(tasks) != 0 {
		t.Fatalf("Claim() = %d tasks, want none", len(tasks))
	}
	must(t, commitOne(other, waiting(1)))
	if tasks := claimTasks(t, s, 10); len(tasks) != 0 {
		t.Fatalf("Claim() = %d tasks: it has read entries that were due an hour ago", len(tasks))
	}
	s.waitingTasks.mu.Lock()
	s.waitingTasks.full = s.waitingTasks.full.Add(-waitingCheckInterval)
	s.waitingTasks.mu.Unlock()
	if tasks := claimTasks(t, s, 10); len(tasks) != 1 {
		t.Errorf("Claim() = %d tasks after the interval of checks, want 1", len(tasks))
	}
	must(t, commitOne(s, waiting(2)))
	if tasks := claimTasks(t, s, 10); len(tasks) != 1 {
		t.Errorf("Claim() = %d tasks after this replica has added one, want 1", len(tasks))
	}
}
