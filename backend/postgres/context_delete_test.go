//go:build services

package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
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

// The contexts of TestDeletionDoesNotAffectItsGroup.
const (
	runningContext = iota
	lockedContext
	largeContext
	smallContext
	missingContext
)

// fillContexts creates them.
func fillContexts(t *testing.T, s *Store) {
	t.Helper()
	must(t, commitOne(s, submitted(runningContext)))
	must(t, runTask(s, lockedContext))
	must(t, runTask(s, smallContext))
	for n := range groupedTasks + 10 {
		c := submitted(100 + n)
		c.Create.ContextID = "c" + taskID(largeContext)
		must(t, commitOne(s, c))
		must(t, commitOne(s, completed(c)))
	}
}

// Deletions that are refused, locked or large do not affect others of their transaction, also if its
// answer is lost.
func TestDeletionDoesNotAffectItsGroup(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"none", "a locked context", "a lost answer"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{CommandTimeout: 10 * time.Minute}))
			fillContexts(t, s)
			unlock := func() {}
			groups := 0
			together := s.deletions.together
			s.deletions.together = func(ctx context.Context, group []*contextDeletion) error {
				groups++
				err := together(ctx, group)
				if err == nil && fault == "a lost answer" {
					err = errAnswerLost
				}
				return err
			}
			if fault == "a locked context" {
				unlock = lockRows(t, s, `SELECT 1 FROM {s}.context_rows WHERE id = $1 FOR UPDATE`, "c"+taskID(lockedContext))
			}
			gatherRequests(t, &s.deletions)
			var all sync.WaitGroup
			done := make(map[int]chan struct{})
			start := func(n int, want error, wantMore bool) {
				ended := make(chan struct{})
				done[n] = ended
				all.Go(func() {
					defer close(ended)
					if more, err := s.DeleteContext(bg, taskKey(n).Owner, "c"+taskID(n), 200); !errors.Is(err, want) || more != wantMore {
						t.Errorf("DeleteContext() of context %d = %t, %v, want %t, %v", n, more, err, wantMore, want)
					}
				})
			}
			start(runningContext, store.ErrBusy, false)
			start(lockedContext, nil, false)
			start(largeContext, nil, true)
			start(smallContext, nil, false)
			start(missingContext, store.ErrNotFound, false)
			await.True(t, "the requests wait", func() bool { return s.deletions.waitingRequests() == len(done) })
			go s.deletions.commitWaiting()
			for n, ended := range done {
				if n != lockedContext {
					within(t, fmt.Sprintf("deletion of context %d", n), func() { <-ended })
				}
			}
			unlock()
			all.Wait()
			if groups != 1 {
				t.Errorf("%d transactions for several contexts, want 1", groups)
			}
			if more, err := s.FinishDelete(bg, taskKey(0).Owner, "c"+taskID(largeContext), math.MaxInt); err != nil || more {
				t.Errorf("FinishDelete() of the large context = %t, %v, want everything removed", more, err)
			}
			must(t, commitOne(s, completed(submitted(runningContext))))
			deleteTogether(s, []int{runningContext}, func(_ int, more bool, err error) {
				if err != nil || more {
					t.Errorf("DeleteContext() after the task has ended = %t, %v", more, err)
				}
			})
			wantDeleted(t, s)
		})
	}
}

func TestCloseWaitsForDeletions(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for {
				if _, err := s.DeleteContext(bg, "o", "missing", 200); errors.Is(err, store.ErrClosed) {
					return
				} else if !errors.Is(err, store.ErrNotFound) {
					t.Errorf("DeleteContext() = %v, want ErrNotFound or ErrClosed", err)
					return
				}
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	within(t, "Close", func() { must(t, s.Close()) })
	within(t, "the end of the callers", all.Wait)
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
