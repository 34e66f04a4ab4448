package engine_test

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
)

// queueTasks commits queued tasks of alice.
func queueTasks(t *testing.T, s store.Store, n int) (keys []store.Key) {
	t.Helper()
	for i := range n {
		k := store.Key{Owner: "alice", ID: fmt.Sprint("t", i)}
		params := message("hello")
		results, err := s.Commit(t.Context(), store.Change{
			Key: k, Create: &store.Create{ContextID: fmt.Sprint("c", i)}, Queue: &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1},
			Events: []store.Event{{Time: store.Time(time.Now()), State: a2a.StateSubmitted, Received: &params.Message}},
		})
		if err != nil || results[0].Err != nil {
			t.Fatalf("Commit() = %+v, %v", results, err)
		}
		keys = append(keys, k)
	}
	return keys
}

func stateOf(t *testing.T, s store.Store, k store.Key) (a2a.TaskState, int) {
	t.Helper()
	task, err := s.Task(t.Context(), k, store.TaskOptions{})
	if err != nil {
		return "", 0
	}
	return task.Status.State, task.Queue.Attempt
}

// partialClaimStore is a store that loses the answer to the first claim of several tasks after
// the first task.
type partialClaimStore struct {
	store.Store
	mu   sync.Mutex
	lost int
}

func (s *partialClaimStore) Claim(ctx context.Context, p store.ClaimParams) ([]*store.Task, error) {
	tasks, err := s.Store.Claim(ctx, p)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == 0 && len(tasks) > 1 {
		s.lost = len(tasks) - 1
		return tasks[:1], &store.ClaimError{Indeterminate: a2a.Errorf(a2a.CodeUnavailable, "connection lost")}
	}
	return tasks, err
}

func TestLeasesOfLostClaimExpireOnSingleReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &partialClaimStore{Store: inmem.New()}
		keys := queueTasks(t, s, 8)
		start(t, engine.Config{
			Store: s, Turns: engine.Turns{Lease: 300 * time.Millisecond, Poll: 10 * time.Millisecond, MaxAttempts: 3},
			Handler: func(context.Context, *engine.Turn) error { return nil },
		})
		attempts := make(map[int]int)
		for _, k := range keys {
			await.True(t, "the task is completed", func() bool {
				state, _ := stateOf(t, s, k)
				return state == a2a.StateCompleted
			})
			_, attempt := stateOf(t, s, k)
			attempts[attempt]++
		}
		if attempts[1] != 8-s.lost || attempts[2] != s.lost || s.lost == 0 {
			t.Errorf("tasks by attempts = %v, want %d with 2 attempts, because their leases were lost", attempts, s.lost)
		}
	})
}

// A task with a damaged log is tried once per lease period, and its attempts are not counted.
// It runs after the log is repaired.
func TestUnreadableTaskIsClaimedAgainAfterLease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	keys := queueTasks(t, s, 3)
	db, err := sql.Open("sqlite", filepath.Join(dir, sqlite.FileName))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	const which = ` WHERE id = (SELECT pk << 24 FROM task_rows WHERE id = 't1') + 1`
	var original string
	if err := db.QueryRowContext(t.Context(), `SELECT events FROM task_log`+which).Scan(&original); err != nil {
		t.Fatal(err)
	}
	write := func(events string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), `PRAGMA busy_timeout = 60000; UPDATE task_log SET events = ?`+which, events); err != nil {
			t.Fatal(err)
		}
	}
	write("[{")
	var log await.Buffer
	const lease = 300 * time.Millisecond
	startedAt := time.Now()
	start(t, engine.Config{
		Store: s, Turns: engine.Turns{Lease: lease, Poll: 5 * time.Millisecond}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Handler: func(context.Context, *engine.Turn) error { return nil },
	})
	row := func() (phase, attempt, claims int) {
		t.Helper()
		if err := db.QueryRowContext(t.Context(), `SELECT phase, attempt, fence FROM task_rows WHERE id = 't1'`).Scan(&phase, &attempt, &claims); err != nil {
			t.Fatal(err)
		}
		return phase, attempt, claims
	}
	await.True(t, "the readable tasks are completed", func() bool {
		a, _ := stateOf(t, s, keys[0])
		b, _ := stateOf(t, s, keys[2])
		return a == a2a.StateCompleted && b == a2a.StateCompleted
	})
	await.True(t, "the unreadable task is queued with a delay", func() bool {
		phase, attempt, claims := row()
		return claims >= 3 && phase == 3 && attempt == 0 // it is queued with a delay
	})
	if _, _, claims := row(); claims > 2+int(time.Since(startedAt)/lease) {
		t.Errorf("%d claims within %s, want one per lease of %s", claims, time.Since(startedAt), lease)
	}
	if got := log.String(); !strings.Contains(got, "read claimed task") || !strings.Contains(got, "task=t1") || !strings.Contains(got, "event 1") {
		t.Errorf("log = %s, want the task and the cause", got)
	}
	write(original)
	await.True(t, "the repaired task is completed", func() bool {
		state, _ := stateOf(t, s, keys[1])
		return state == a2a.StateCompleted
	})
	if _, attempt := stateOf(t, s, keys[1]); attempt != 1 {
		t.Errorf("the repaired task completed at attempt %d, want 1", attempt)
	}
}
