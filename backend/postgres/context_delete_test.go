//go:build services

package postgres

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// deleteTogether deletes the contexts of tasks created by submitted, in one transaction after the first.
func deleteTogether(s *Store, tasks []int, check func(n int, more bool, err error)) {
	var all sync.WaitGroup
	for _, n := range tasks {
		all.Go(func() {
			more, err := s.DeleteContext(bg, taskKey(n).Owner, "c"+taskID(n), 200)
			check(n, more, err)
		})
	}
	all.Wait()
}

// wantDeleted checks that nothing of contexts and their tasks remains.
func wantDeleted(t *testing.T, s *Store) {
	t.Helper()
	for _, table := range []string{"context_rows", "task_rows", "task_log", "task_steps", "tasks_deleted", "idempotency_keys"} {
		if left, err := s.exists(bg, s.pool, `SELECT 1 FROM {s}.`+table); err != nil || left {
			t.Errorf("rows of %s remain: %t, %v", table, left, err)
		}
	}
	counts, err := s.readCounters(bg, s.pool, taskKey(0).Owner)
	if err != nil || counts["active"] != 0 {
		t.Errorf("%d contexts are counted, %v, want 0", counts["active"], err)
	}
}

// The connection of a transaction with several deletions is cut at every byte of its answers.
func TestDeletionsAreCompleteWhenTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	p, s, direct := openBehindProxy(t, Config{MaxRetries: 10})
	n, cuts := 0, 0
	for bytes := 0; bytes < 1500; bytes += 61 {
		var tasks []int
		for range 6 {
			must(t, runTask(direct, n))
			tasks, n = append(tasks, n), n+1
		}
		before := p.Cuts()
		p.CutAfter(bytes)
		deleteTogether(s, tasks, func(n int, more bool, err error) {
			if err != nil || more {
				t.Errorf("DeleteContext() of task %d cut after %d bytes = %t, %v, want everything removed", n, bytes, more, err)
			}
		})
		p.Disarm()
		cuts += p.Cuts() - before
		wantDeleted(t, direct)
	}
	if cuts < 5 {
		t.Errorf("%d cuts, want at least 5", cuts)
	}
}

// Deletions of one transaction that are refused, locked or large do not affect the others.
func TestDeletionDoesNotAffectItsGroup(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{CommandTimeout: 10 * time.Minute}))
	const first, running, locked, large, small = 0, 1, 2, 3, 4
	for _, n := range []int{first, locked, small} {
		must(t, runTask(s, n))
	}
	must(t, commitOne(s, submitted(running)))
	for n := range groupedTasks + 10 {
		c := submitted(100 + n)
		c.Create.ContextID = "c" + taskID(large)
		must(t, commitOne(s, c))
		must(t, commitOne(s, completed(c)))
	}
	unlock := lockRows(t, s, `SELECT 1 FROM {s}.context_rows WHERE id = $1 FOR UPDATE`, "c"+taskID(first))
	done := make(map[int]chan struct{})
	for _, n := range []int{first, running, locked, large, small, 99} {
		done[n] = make(chan struct{})
	}
	var all sync.WaitGroup
	start := func(n int, want error, wantMore bool) {
		all.Go(func() {
			defer close(done[n])
			if more, err := s.DeleteContext(bg, taskKey(n).Owner, "c"+taskID(n), 200); !errors.Is(err, want) || more != wantMore {
				t.Errorf("DeleteContext() of task %d = %t, %v, want %t, %v", n, more, err, wantMore, want)
			}
		})
	}
	start(first, nil, false)
	await.True(t, "the first deletion starts", func() bool { return len(s.callSlots) > 0 })
	alsoLocked := lockRows(t, s, `SELECT 1 FROM {s}.context_rows WHERE id = $1 FOR UPDATE`, "c"+taskID(locked))
	start(running, store.ErrBusy, false)
	start(locked, nil, false)
	start(large, nil, true)
	start(small, nil, false)
	start(99, store.ErrNotFound, false)
	for _, n := range []int{running, large, small, 99} {
		within(t, fmt.Sprintf("deletion of context %d", n), func() { <-done[n] })
	}
	unlock()
	alsoLocked()
	all.Wait()
	if more, err := s.FinishDelete(bg, taskKey(0).Owner, "c"+taskID(large), 200); err != nil || more {
		t.Errorf("FinishDelete() of the large context = %t, %v, want everything removed", more, err)
	}
	must(t, commitOne(s, completed(submitted(running))))
	deleteTogether(s, []int{running}, func(_ int, more bool, err error) {
		if err != nil || more {
			t.Errorf("DeleteContext() after the task has ended = %t, %v", more, err)
		}
	})
	wantDeleted(t, s)
}

// Two replicas delete the same contexts, each in groups.
func TestReplicasDeleteTheSameContexts(t *testing.T) {
	t.Parallel()
	cfg := emptyConfig(storetest.Wrap(t), Config{})
	a, b := open(storetest.Wrap(t), cfg), open(storetest.Wrap(t), cfg)
	var tasks []int
	for n := range 64 {
		must(t, runTask(a, n))
		tasks = append(tasks, n)
	}
	removed := make([]int, len(tasks))
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, s := range []*Store{a, b} {
		all.Go(func() {
			deleteTogether(s, tasks, func(n int, more bool, err error) {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil && !more:
					removed[n]++
				case !errors.Is(err, store.ErrNotFound):
					t.Errorf("DeleteContext() = %t, %v, want the context removed or not found", more, err)
				}
			})
		})
	}
	all.Wait()
	for n, times := range removed {
		if times != 1 {
			t.Errorf("context of task %d was removed %d times, want 1", n, times)
		}
	}
	wantDeleted(t, a)
}
