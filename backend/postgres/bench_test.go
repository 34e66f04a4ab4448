package postgres

import (
	"fmt"
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

// durable is a server that writes to the disk what it acknowledges.
var durable = sync.OnceValues(func() (*pgtest.Server, error) {
	return pgtest.Start(pgtest.Config{Fsync: true, Settings: map[string]string{"shared_buffers": "512MB"}})
})

// benched opens a store on a durable server.
func benched(b *testing.B, cfg Config) *Store {
	b.Helper()
	server, err := durable()
	must(b, err)
	cfg.URL = server.URL()
	cfg.PoolMin, cfg.PoolMax = 2, 10
	return open(storetest.Wrap(b), fresh(storetest.Wrap(b), cfg))
}

// BenchmarkTask is a short task as the engine commits it: made and claimed in
// one change, ended in another. The reference is two inserts of a 1 KB row, each
// committed by itself on a connection of its own.
func BenchmarkTask(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		if callers <= 64 {
			b.Run(fmt.Sprintf("reference/callers=%d", callers), func(b *testing.B) { reference(b, callers) })
		}
		b.Run(fmt.Sprintf("task/callers=%d", callers), func(b *testing.B) {
			s := benched(b, Config{})
			share(b, callers, func(n int) error { return runTask(s, n) })
		})
	}
	b.Run("pooler/callers=64", func(b *testing.B) {
		s := benched(b, Config{Pooler: true})
		share(b, 64, func(n int) error { return runTask(s, n) })
	})
}

func reference(b *testing.B, callers int) {
	s := benched(b, Config{})
	_, err := s.pool.Exec(bg, s.q(`CREATE TABLE {s}.bare (id bigint PRIMARY KEY, data text)`))
	must(b, err)
	insert := s.q(`INSERT INTO {s}.bare VALUES ($1, repeat('x', 1024))`)
	share(b, callers, func(n int) error {
		for i := range 2 {
			if _, err := s.pool.Exec(bg, insert, 2*n+i); err != nil {
				return err
			}
		}
		return nil
	})
}

// share runs f for 0 to b.N-1 on a number of goroutines.
func share(b *testing.B, callers int, f func(n int) error) {
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

// BenchmarkGrowth measures at growing numbers of stored tasks.
func BenchmarkGrowth(b *testing.B) {
	s := benched(b, Config{})
	made := 0
	sizes := []int{1_000, 100_000}
	if !testing.Short() {
		sizes = append(sizes, 1_000_000)
	}
	for _, size := range sizes {
		must(b, fill(s, &made, size))
		name := func(what string) string { return fmt.Sprintf("tasks=%d/%s", size, what) }
		b.Run(name("task"), func(b *testing.B) {
			base := made
			share(b, 64, func(n int) error { return runTask(s, base+n) })
			made += b.N
		})
		b.Run(name("get"), func(b *testing.B) {
			share(b, 8, func(n int) error {
				_, err := s.Task(bg, taskKey(n*7919%size), store.TaskOptions{})
				return err
			})
		})
		limits := store.TaskOptions{OmitArtifacts: true, History: new(int)}
		middle := &store.Cursor{Time: began.Add(time.Duration(size/12) * time.Millisecond), ID: "f"}
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
				share(b, 8, func(int) error {
					_, err := s.Tasks(bg, list.q)
					return err
				})
			})
		}
		b.Run(name("contexts"), func(b *testing.B) {
			share(b, 8, func(int) error {
				_, err := s.Contexts(bg, store.ContextQuery{Owner: taskKey(0).Owner, Sort: store.ContextsByUpdated, Limit: 20, Tasks: 5})
				return err
			})
		})
		b.Run(name("claim-none"), func(b *testing.B) {
			share(b, 1, func(int) error {
				_, err := s.Claim(bg, store.ClaimParams{Worker: "w", Now: began, Until: began, Limit: 10, Event: store.Event{State: a2a.StateWorking}})
				return err
			})
		})
	}
}

// fill brings the store to a number of completed tasks by copying the first one,
// which is much faster than to run them.
func fill(s *Store, made *int, size int) error {
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
		`INSERT INTO {s}.task_log SELECT i.pk, l.seq, l.mark, l.n, l.snapshot, l.events, l.large
			FROM i JOIN {s}.task_rows t ON t.owner = $4 AND t.id = $5 JOIN {s}.task_log l ON l.task_pk = t.pk`,
		`INSERT INTO {s}.tallies SELECT $4, 'active', count(*) FROM i WHERE $5::text IS NOT NULL`,
	} {
		if _, err := s.pool.Exec(bg, s.q(numbers+text), pgx.QueryExecModeExec, *made, size, began.UnixMilli(), first.Owner, first.ID); err != nil {
			return err
		}
	}
	*made = size
	_, err := s.pool.Exec(bg, s.q(`VACUUM ANALYZE {s}.task_rows, {s}.task_log, {s}.context_rows, {s}.tallies`))
	return err
}

// BenchmarkLanes claims 64 lanes with 5 events each and acknowledges them, beside
// growing numbers of lanes that have told everything, or wait for a time far away.
// An operation is a lane.
func BenchmarkLanes(b *testing.B) {
	const batch, events = 64, 5
	for _, idle := range []int{1_000, 100_000} {
		for _, kind := range []struct {
			name, update string
		}{
			{"idle", ""},
			{"waiting", `UPDATE {s}.push_lanes SET phase = 2, cursor_seq = 0, due_at = 9000000000000`},
			{"waiting-of-many-owners", `UPDATE {s}.push_lanes SET owner = 'o' || task_id`},
		} {
			if kind.update != "" && idle == 1_000 {
				continue
			}
			b.Run(fmt.Sprintf("%s=%d", kind.name, idle), func(b *testing.B) {
				s := benched(b, Config{})
				made := 0
				must(b, fill(s, &made, idle))
				must(b, fillLanes(s, idle))
				for _, text := range []string{kind.update, `VACUUM ANALYZE {s}.push_lanes`} {
					if text != "" {
						_, err := s.pool.Exec(bg, s.q(text))
						must(b, err)
					}
				}
				for n := range batch {
					must(b, commitOne(s, submitted(made+n)))
					_, err := s.SavePush(bg, webhook(made+n, "p", "http://x"), store.PushCursor{Seq: 2}, began)
					must(b, err)
				}
				deliver(b, s, made, batch, events)
			})
		}
	}
}

// deliver has tasks from a number on tell some events over and over, and measures
// claims and acknowledgements of their lanes.
func deliver(b *testing.B, s *Store, from, batch, events int) {
	b.Helper()
	b.ResetTimer()
	lanes := 0
	for lanes < b.N {
		b.StopTimer()
		var changes []store.Change
		for n := range batch {
			for range events {
				changes = append(changes, told(from+n))
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

func BenchmarkClaims(b *testing.B) { storetest.BenchClaims(b, durableHarness()) }

func durableHarness() storetest.Harness {
	h := harness
	h.Open = func(t storetest.T) store.Store {
		server, err := durable()
		if err != nil {
			t.Fatalf("%v", err)
		}
		return open(t, fresh(t, Config{URL: server.URL(), PoolMin: 2, PoolMax: 10}))
	}
	return h
}
