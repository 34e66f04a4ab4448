//go:build services

package postgres

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// durableServer is a server that flushes commits to the disk.
var durableServer = sync.OnceValues(func() (*pgtest.Server, error) {
	return pgtest.Start(pgtest.Config{Fsync: true, Settings: map[string]string{"shared_buffers": "512MB"}})
})

// openBench opens a store on a durable server.
func openBench(b *testing.B, cfg Config) *Store {
	b.Helper()
	server, err := durableServer()
	must(b, err)
	cfg.URL = server.URL()
	cfg.PoolMin, cfg.PoolMax = 2, 10
	return open(storetest.Wrap(b), freshConfig(storetest.Wrap(b), cfg))
}

// BenchmarkTask commits short tasks as the engine does: one change creates and claims a
// task, another completes it. The reference is two inserts of a 1 KB row, each in a
// transaction of its own.
func BenchmarkTask(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		if callers <= 64 {
			b.Run(fmt.Sprintf("reference/callers=%d", callers), func(b *testing.B) { reference(b, callers) })
		}
		b.Run(fmt.Sprintf("task/callers=%d", callers), func(b *testing.B) {
			s := openBench(b, Config{})
			runParallel(b, callers, func(n int) error { return runTask(s, n) })
		})
	}
	b.Run("pooler/callers=64", func(b *testing.B) {
		s := openBench(b, Config{Pooler: true})
		runParallel(b, 64, func(n int) error { return runTask(s, n) })
	})
}

func reference(b *testing.B, callers int) {
	s := openBench(b, Config{})
	_, err := s.pool.Exec(bg, s.qualify(`CREATE TABLE {s}.bare (id bigint PRIMARY KEY, data text)`))
	must(b, err)
	insert := s.qualify(`INSERT INTO {s}.bare VALUES ($1, repeat('x', 1024))`)
	runParallel(b, callers, func(n int) error {
		for i := range 2 {
			if _, err := s.pool.Exec(bg, insert, 2*n+i); err != nil {
				return err
			}
		}
		return nil
	})
}

// runParallel runs f for 0 to b.N-1 on a number of goroutines.
func runParallel(b *testing.B, callers int, f func(n int) error) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for n := int(next.Add(1)) - 1; n < b.N; n = int(next.Add(1)) - 1 {
				if err := f(n); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
}

// BenchmarkGrowth measures calls with growing numbers of stored tasks.
func BenchmarkGrowth(b *testing.B) {
	s := openBench(b, Config{})
	made := 0
	sizes := []int{1_000, 100_000}
	if !testing.Short() {
		sizes = append(sizes, 1_000_000)
	}
	for _, size := range sizes {
		must(b, fillTasks(s, &made, size))
		name := func(what string) string { return fmt.Sprintf("tasks=%d/%s", size, what) }
		b.Run(name("task"), func(b *testing.B) {
			base := made
			runParallel(b, 64, func(n int) error { return runTask(s, base+n) })
			made += b.N
		})
		b.Run(name("get"), func(b *testing.B) {
			runParallel(b, 8, func(n int) error {
				_, err := s.Task(bg, taskKey(n*7919%size), store.TaskOptions{})
				return err
			})
		})
		limits := store.TaskOptions{OmitArtifacts: true, History: new(int)}
		middle := &store.Cursor{Time: testStart.Add(time.Duration(size/12) * time.Millisecond), ID: "f"}
		for _, list := range []struct {
			name string
			q    store.Query
		}{
			{"list-all", store.Query{}},
			{"list-context", store.Query{ContextID: "c" + taskID(size/2)}},
			{"list-rare", store.Query{States: []a2a.TaskState{a2a.StateRejected}}},
			{"list-deep", store.Query{Cursor: middle}},
			{"list-created", store.Query{ByCreated: true, Cursor: middle}},
		} {
			list.q.Owner, list.q.Limit, list.q.Options = taskKey(0).Owner, 20, limits
			b.Run(name(list.name), func(b *testing.B) {
				runParallel(b, 8, func(int) error {
					_, err := s.Tasks(bg, list.q)
					return err
				})
			})
		}
		b.Run(name("contexts"), func(b *testing.B) {
			runParallel(b, 8, func(int) error {
				_, err := s.Contexts(bg, store.ContextQuery{Owner: taskKey(0).Owner, Sort: store.ContextsByUpdated, Limit: 20, MaxTaskIDs: 5})
				return err
			})
		})
		b.Run(name("claim-none"), func(b *testing.B) {
			runParallel(b, 1, func(int) error {
				_, err := s.Claim(bg, store.ClaimParams{Worker: "w", Now: testStart, Until: testStart, Limit: 10, Event: store.Event{State: a2a.StateWorking}})
				return err
			})
		})
	}
}

// fillTasks increases the number of completed tasks to size by copying the first one, which
// is much faster than running them.
func fillTasks(s *Store, made *int, size int) error {
	if *made == 0 {
		if err := runTask(s, 0); err != nil {
			return err
		}
		*made = 1
	}
	const numbers = `WITH n AS (SELECT n, $3::bigint + n / 6 AS ms, -n AS pk FROM generate_series($1::bigint, $2::bigint - 1) n),
		i AS (SELECT *, lpad(to_hex(ms >> 16), 8, '0') || '-' || lpad(to_hex(ms & 65535), 4, '0') || '-7' || lpad(to_hex(n % 6), 3, '0') ||
			'-8000-' || lpad(to_hex(n), 12, '0') AS id FROM n) `
	first := taskKey(0)
	for _, text := range []string{
		`INSERT INTO {s}.task_rows SELECT t.owner, i.id, i.pk, 'c' || i.id, state, ms, seq, received_seq, checkpoint, phase, due_at, lease_worker,
			fence, lease_until, turn, attempt, seen_seq, turn_start_seq, ms, ms, t.bytes FROM i JOIN {s}.task_rows t ON t.owner = $4 AND t.id = $5`,
		`INSERT INTO {s}.context_rows SELECT $4, 'c' || i.id, 'active', '', '', ms, ms, 1, 1, NULL, NULL FROM i WHERE $5::text IS NOT NULL`,
		`INSERT INTO {s}.task_log SELECT t.owner, i.pk, l.seq, l.mark, l.n, l.snapshot, l.events, l.large
			FROM i JOIN {s}.task_rows t ON t.owner = $4 AND t.id = $5 JOIN {s}.task_log l ON l.owner = t.owner AND l.task_pk = t.pk`,
		`INSERT INTO {s}.counters SELECT $4, 'active', count(*) FROM i WHERE $5::text IS NOT NULL`,
	} {
		if _, err := s.pool.Exec(bg, s.qualify(numbers+text), pgx.QueryExecModeExec, *made, size, testStart.UnixMilli(), first.Owner, first.ID); err != nil {
			return err
		}
	}
	*made = size
	_, err := s.pool.Exec(bg, s.qualify(`VACUUM ANALYZE {s}.task_rows, {s}.task_log, {s}.context_rows, {s}.counters`))
	return err
}

// BenchmarkLanes claims and acknowledges 64 lanes with 5 events each, with growing numbers of
// lanes that are idle or have a due time in the far future. An operation is one lane.
func BenchmarkLanes(b *testing.B) {
	const batch, events = 64, 5
	for _, idle := range []int{1_000, 100_000} {
		for _, kind := range []struct {
			name, update string
		}{
			{"idle", ""},
			{"waiting", `UPDATE {s}.webhook_lanes SET phase = {waiting}, cursor_seq = 0, due_at = 9000000000000`},
			{"waiting-of-many-owners", `UPDATE {s}.webhook_lanes SET owner = 'o' || task_id`},
		} {
			if kind.update != "" && idle == 1_000 {
				continue
			}
			b.Run(fmt.Sprintf("%s=%d", kind.name, idle), func(b *testing.B) {
				s := openBench(b, Config{})
				made := 0
				must(b, fillTasks(s, &made, idle))
				must(b, fillLanes(s, idle))
				for _, text := range []string{kind.update, `VACUUM ANALYZE {s}.webhook_lanes`} {
					if text != "" {
						_, err := s.pool.Exec(bg, s.qualify(text))
						must(b, err)
					}
				}
				for n := range batch {
					must(b, commitOne(s, submitted(made+n)))
					_, err := s.SaveWebhook(bg, webhook(made+n, "p", "http://x"), store.WebhookCursor{Seq: 2}, testStart)
					must(b, err)
				}
				deliver(b, s, made, batch, events)
			})
		}
	}
}

// deliver repeatedly adds events to a batch of tasks, and measures claims and acknowledgements
// of their lanes.
func deliver(b *testing.B, s *Store, from, batch, events int) {
	b.Helper()
	b.ResetTimer()
	lanes := 0
	for lanes < b.N {
		b.StopTimer()
		var changes []store.Change
		for n := range batch {
			for range events {
				changes = append(changes, progress(from+n))
			}
		}
		_, err := s.Commit(bg, changes...)
		must(b, err)
		b.StartTimer()
		claimed, err := s.ClaimLanes(bg, claimParams("w", batch))
		if err != nil || len(claimed) != batch || len(claimed[0].Events) != events {
			b.Fatalf("ClaimLanes() = %d lanes, %v, want %d with %d events", len(claimed), err, batch, events)
		}
		acks := make([]store.LaneAck, batch)
		for i := range claimed {
			acks[i] = ackOf(&claimed[i], false)
		}
		lost, err := s.AckLanes(bg, acks...)
		if err != nil || len(lost) > 0 {
			b.Fatalf("AckLanes() = %v, %v", lost, err)
		}
		lanes += batch
	}
	b.ReportMetric(float64(lanes)/b.Elapsed().Seconds(), "lanes/s")
	b.ReportMetric(float64(lanes*events)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkStore(b *testing.B) { storetest.Bench(b, durableHarness()) }

func BenchmarkDelete(b *testing.B) { storetest.BenchDelete(b, durableHarness()) }

func BenchmarkClaims(b *testing.B) { storetest.BenchClaims(b, durableHarness()) }

func durableHarness() storetest.Harness {
	h := harness
	h.Open = func(t storetest.T) store.Store {
		server, err := durableServer()
		if err != nil {
			t.Fatalf("%v", err)
		}
		return open(t, freshConfig(t, Config{URL: server.URL(), PoolMin: 2, PoolMax: 10}))
	}
	return h
}

// BenchmarkHeldSnapshot measures claims of 64 tasks, claims that find none, and claims of lanes while another
// session holds a snapshot, beside the same calls before. An operation is a task that is queued, claimed and completed,
// with -benchtime 1000000x a million. Each 16th task has a webhook.
func BenchmarkHeldSnapshot(b *testing.B) {
	const round, batch = 5_000, 64
	s := openBench(b, Config{})
	var last [3][]time.Duration // of the last round
	timed := func(kind int, f func()) {
		started := time.Now()
		f()
		last[kind] = append(last[kind], time.Since(started))
	}
	run := func(from int) {
		last = [3][]time.Duration{}
		for at := from; at < from+round; at += 250 {
			var changes []store.Change
			for n := range 250 {
				changes = append(changes, queued(at+n))
			}
			_, err := s.Commit(bg, changes...)
			must(b, err)
			for n := 0; n < 250; n += 16 {
				_, err := s.SaveWebhook(bg, webhook(at+n, "p", "http://x"), store.WebhookCursor{Seq: 1}, testStart)
				must(b, err)
			}
		}
		for left := round; left > 0; {
			var tasks []*store.Task
			timed(0, func() { tasks = claimTasks(b, s, batch) })
			left -= len(tasks)
			var changes []store.Change
			for _, task := range tasks {
				changes = append(changes, completedClaim(task))
			}
			_, err := s.Commit(bg, changes...)
			must(b, err)
			var lanes []store.ClaimedLane
			timed(2, func() { lanes, err = s.ClaimLanes(bg, claimParams("w", batch)) })
			must(b, err)
			for i := range lanes {
				_, err := s.AckLanes(bg, ackOf(&lanes[i], false))
				must(b, err)
			}
		}
		for range 50 {
			timed(1, func() { claimTasks(b, s, batch) })
		}
	}
	median := func(kind int) time.Duration {
		slices.Sort(last[kind])
		return last[kind][len(last[kind])/2]
	}
	run(0)
	run(round)
	before := [3]time.Duration{median(0), median(1), median(2)}
	holdSnapshot(b, s)
	b.ResetTimer()
	for n := 0; n < b.N; n += round {
		run(2*round + n)
	}
	for kind, name := range []string{"claim", "poll", "lanes"} {
		b.ReportMetric(float64(before[kind].Microseconds())/1000, name+"-ms-before")
		b.ReportMetric(float64(median(kind).Microseconds())/1000, name+"-ms")
		b.ReportMetric(float64(median(kind))/float64(before[kind]), name+"-ratio")
	}
}
