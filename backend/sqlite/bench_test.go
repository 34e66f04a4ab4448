package sqlite

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// BenchmarkTask measures a short task as the engine commits it: created and claimed in
// one change, completed in another. The reference is the least work for the same
// commits: two grouped inserts of a 1 KB row.
func BenchmarkTask(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("reference/callers=%d", callers), func(b *testing.B) {
			s := open(b, Config{Dir: b.TempDir()})
			insert, err := s.committer.prepare(`INSERT INTO bare VALUES (?, ?)`)
			if err == nil {
				b.Fatal("table bare already exists")
			}
			if err := s.committer.script(`CREATE TABLE bare (id INTEGER PRIMARY KEY, data TEXT)`); err != nil {
				b.Fatal(err)
			}
			if insert, err = s.committer.prepare(`INSERT INTO bare VALUES (?, ?)`); err != nil {
				b.Fatal(err)
			}
			data := strings.Repeat("x", 1024)
			runConcurrently(b, callers, func(n int) error {
				for i := range 2 {
					err := s.write(bg, &request{weight: 1, apply: func(w *writer) error {
						_, err := insert.exec(int64(2*n+i+2), data)
						return err
					}})
					if err != nil {
						return err
					}
				}
				return nil
			})
		})
		b.Run(fmt.Sprintf("task/callers=%d", callers), func(b *testing.B) {
			s := open(b, Config{Dir: b.TempDir()})
			runConcurrently(b, callers, func(n int) error { return runTask(s, n) })
		})
		b.Run(fmt.Sprintf("task with a webhook/callers=%d", callers), func(b *testing.B) {
			s := open(b, Config{Dir: b.TempDir()})
			runConcurrently(b, callers, func(n int) error {
				c := submitted(n)
				c.Webhooks = []store.NewWebhook{{ID: "p", Endpoint: "https://hooks.example:443", Data: []byte(`{"url":"https://hooks.example/p"}`)}}
				if err := commitOne(s, c); err != nil {
					return err
				}
				return commitOne(s, completed(c))
			})
		})
	}
}

// BenchmarkExpiry measures removing short tasks with their contexts by age, relative to
// creating them with 64 callers.
func BenchmarkExpiry(b *testing.B) {
	s := open(b, Config{Dir: b.TempDir()})
	start := time.Now()
	runConcurrently(b, 64, func(n int) error { return runTask(s, n) })
	creation := time.Since(start)
	before := processorTime()
	b.ResetTimer()
	tasks := store.TaskExpiry{State: a2a.StateCompleted, Before: testTime.Add(1000 * time.Hour), Limit: 200}
	contexts := store.ContextExpiry{Before: tasks.Before, Limit: tasks.Limit}
	for more := true; more; more = tasks.After != nil || contexts.After != nil {
		var err error
		_, tasks.After, err = s.ExpireTasks(bg, tasks)
		must(b, err)
		_, contexts.After, err = s.ExpireContexts(bg, contexts)
		must(b, err)
		must(b, purgeAll(s))
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
	b.ReportMetric(float64((processorTime()-before).Microseconds())/float64(b.N), "cpu-us/op")
	b.ReportMetric(creation.Seconds()/b.Elapsed().Seconds(), "x-creation")
	for _, table := range []string{"task_rows", "task_log", "context_rows"} {
		if left := ints(b, s, "SELECT count(*) FROM "+table)[0]; left != 0 {
			b.Errorf("%s has %d rows after expiry, want 0", table, left)
		}
	}
}

func runTask(s store.Store, n int) error {
	c := submitted(n)
	if err := commitOne(s, c); err != nil {
		return err
	}
	return commitOne(s, completed(c))
}

func commitOne(s store.Store, c store.Change) error {
	results, err := s.Commit(bg, c)
	if err != nil {
		return err
	}
	return results[0].Err
}

// runConcurrently runs f for 0 to b.N-1 on a number of goroutines.
func runConcurrently(b *testing.B, callers int, f func(n int) error) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ReportAllocs()
	before := processorTime()
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
	b.ReportMetric(float64((processorTime()-before).Microseconds())/float64(b.N), "cpu-us/op")
}

// BenchmarkGrowth measures operations with up to a million stored tasks.
func BenchmarkGrowth(b *testing.B) {
	sizes := []int{1_000, 100_000}
	if !testing.Short() {
		sizes = append(sizes, 1_000_000)
	}
	s := open(b, Config{Dir: b.TempDir()})
	made := 0
	for _, size := range sizes {
		insertTasks(b, s, &made, size)
		b.Run(fmt.Sprintf("tasks=%d/task", size), func(b *testing.B) {
			base := made
			runConcurrently(b, 64, func(n int) error { return runTask(s, base+n) })
			made += b.N
		})
		b.Run(fmt.Sprintf("tasks=%d/get", size), func(b *testing.B) {
			runConcurrently(b, 2, func(n int) error {
				_, err := s.Task(bg, taskKey(n*7919%made), store.TaskOptions{})
				return err
			})
		})
		limits := store.TaskOptions{OmitArtifacts: true, History: new(int)}
		for _, list := range []struct {
			name string
			q    store.Query
		}{
			{"all", store.Query{}},
			{"context", store.Query{ContextID: "c" + taskID(size/2)}},
			{"rare", store.Query{States: []a2a.TaskState{a2a.StateRejected}}},
			{"deep", store.Query{Cursor: &store.Cursor{Time: testTime.Add(time.Duration(size/12) * time.Millisecond), ID: "f"}}},
		} {
			list.q.Owner, list.q.Limit, list.q.Options = taskKey(0).Owner, 20, limits
			b.Run(fmt.Sprintf("tasks=%d/list-%s", size, list.name), func(b *testing.B) {
				runConcurrently(b, 2, func(int) error {
					_, err := s.Tasks(bg, list.q)
					return err
				})
			})
		}
		b.Run(fmt.Sprintf("tasks=%d/claim-none", size), func(b *testing.B) {
			runConcurrently(b, 1, func(int) error {
				_, err := s.Claim(bg, store.ClaimParams{Worker: "w", Now: testTime, Until: testTime, Limit: 10})
				return err
			})
		})
	}
}

// insertTasks copies the first task until the store has size completed tasks, which is
// much faster than running them.
func insertTasks(b *testing.B, s *Store, made *int, size int) {
	b.Helper()
	if *made == 0 {
		must(b, runTask(s, 0))
		*made = 1
	}
	err := s.write(bg, &request{weight: 1, apply: func(w *writer) error {
		first, base := w.pendingNext, *made
		n := fmt.Sprintf("WITH RECURSIVE n(n) AS (SELECT %d UNION ALL SELECT n + 1 FROM n WHERE n < %d), m AS MATERIALIZED "+
			"(SELECT n, %d + n / 6 AS ms, n - %d AS pk FROM n), i AS (SELECT *, printf('%%08x-%%04x-7%%03x-8000-%%012x', ms >> 16, ms & 65535, n %% 6, n) AS id FROM m) ",
			base, size-1, testTime.UnixMilli(), int64(base)-first)
		for _, text := range []string{
			"INSERT INTO task_rows SELECT i.pk, owner, i.id, 'c' || i.id, 1, state, ms, seq, received_seq, checkpoint, phase, due_at, lease_worker, " +
				"fence, lease_until, turn, attempt, seen_seq, turn_start_seq, ms, ms, t.bytes, 0 FROM i JOIN task_rows t ON t.pk = 16",
			"INSERT INTO context_rows (owner, id, bucket, created_at, updated_at, first_pk) SELECT owner, 'c' || i.id, 'active.new', ms, ms, i.pk FROM i JOIN task_rows t ON t.pk = 16",
			"INSERT INTO task_log SELECT (i.pk << 24) + (l.id & 16777215), l.n, NULL, NULL, l.snapshot, l.events, l.large FROM i JOIN task_log l ON l.id BETWEEN 16 << 24 AND 17 << 24",
		} {
			if err := w.script(n + text); err != nil {
				return err
			}
		}
		w.addCount(taskKey(0).Owner, labelAll, bucketNew, int64(size-base))
		w.pendingNext += int64(size - base)
		*made = size
		return nil
	}})
	must(b, err)
}
