package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
)

func TestQueuedChangesShareOneTransaction(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	commits := transactionCount(s)
	_, err := queueAll(t, s, 100, func(n int) error { return commitOne(s, submitted(n)) })
	must(t, err)
	if got := commits(); got > 2 {
		t.Errorf("100 queued changes took %d transactions, want at most 2", got)
	}
}

func TestFailedRequestDoesNotFailItsGroup(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	errRequest := errors.New("poison")
	failures, err := queueAll(t, s, 40, func(n int) error {
		if n != 20 {
			return commitOne(s, submitted(n))
		}
		return s.write(bg, &request{weight: 1, apply: func(w *writer) error {
			c := change{}
			half := submitted(n)
			must(t, c.prepare(&half))
			if err := w.apply(&c); err != nil {
				return err
			}
			return errRequest
		}})
	})
	if !errors.Is(err, errRequest) || failures != 1 {
		t.Errorf("%d requests failed with %v, want 1 with %v", failures, err, errRequest)
	}
	for n := range 40 {
		_, err := s.Task(bg, taskKey(n), store.TaskOptions{})
		if want := n == 20; errors.Is(err, store.ErrNotFound) != want {
			t.Errorf("Task(%d) = %v, want ErrNotFound: %v", n, err, want)
		}
	}
	if b, err := s.Backlog(bg); err != nil || b.Leased != 39 {
		t.Errorf("Backlog() = %+v, %v, want 39 leased", b, err)
	}
}

func TestCanceledRequestIsNotApplied(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	release := blockWriter(s)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := s.Commit(ctx, submitted(1))
		done <- err
	}()
	waitQueued(t, s, 1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Commit() = %v, want %v", err, context.Canceled)
	}
	release()
	must(t, commitOne(s, submitted(2)))
	if _, err := s.Task(bg, taskKey(1), store.TaskOptions{}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Task() of a canceled change = %v, want %v", err, store.ErrNotFound)
	}
}

// queueAll makes n calls while the writer is blocked, so that they form a group. It
// returns the number of failed calls and the last error.
func queueAll(t *testing.T, s *Store, n int, call func(n int) error) (failed int, last error) {
	t.Helper()
	release := blockWriter(s)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for i := range n {
		wg.Go(func() {
			if err := call(i); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed, last = failed+1, err
			}
		})
	}
	waitQueued(t, s, n)
	release()
	wg.Wait()
	return failed, last
}

func waitQueued(t *testing.T, s *Store, n int) {
	t.Helper()
	await.True(t, fmt.Sprint(n, " requests are queued"), func() bool { return len(s.committer.queue) >= n })
}

// transactionCount returns a function that counts the transactions since the call.
func transactionCount(s *Store) func() int {
	read := func() (n int) {
		_ = s.write(bg, &request{weight: 1, apply: func(w *writer) error { n = s.committer.wal.groups; return nil }})
		return n
	}
	before := read()
	return func() int { return read() - before - 1 }
}

func TestWALStaysBoundedUnderConstantReads(t *testing.T) {
	t.Parallel()
	const limit = 4 << 20
	s := open(t, Config{Dir: t.TempDir()})
	release := blockWriter(s)
	s.committer.wal.limit = limit
	release()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = s.Tasks(ctx, store.Query{Owner: taskKey(0).Owner, Limit: 2})
			}
		})
	}
	const size = 64 << 10
	var longest int64
	for n := range 400 {
		c := submitted(n)
		c.Events[0].Received = message("m1", "user", strings.Repeat("x", size))
		must(t, commitOne(s, c))
		if info, err := os.Stat(s.path + "-wal"); err == nil {
			longest = max(longest, info.Size())
		}
	}
	cancel()
	wg.Wait()
	// The log can grow by the groups between two checks of its size.
	if most := int64(limit + walCheckInterval*2*size); longest > most {
		t.Errorf("write-ahead log grew to %d MiB, want at most %d", longest>>20, most>>20)
	}
	t.Logf("write-ahead log grew to %d MiB", longest>>20)
}

func TestWALIsTruncatedWhenIdle(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	must(t, runTask(s, 1))
	await.True(t, "the write-ahead log is emptied when the store is idle", func() bool {
		info, err := os.Stat(s.path + "-wal")
		return err == nil && info.Size() == 0
	})
}

func TestErrorsAndLogsOmitMessageText(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s := open(t, Config{Dir: t.TempDir(), MaxPages: 60, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	c := submitted(1)
	c.Events[0].Received = message("m1", "user", strings.Repeat("hush-hush ", 1<<16))
	err := commitOne(s, c)
	if a2a.CodeOf(err) != a2a.CodeExhausted {
		t.Fatalf("Commit() = %v, want code %s", err, a2a.CodeExhausted)
	}
	must(t, s.Close())
	if text := log.String() + err.Error(); strings.Contains(text, "hush") {
		t.Errorf("log and error contain the message's text: %.300s", text)
	}
}

func TestLargeChangesDoNotDelaySmallOnes(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	release := blockWriter(s)
	const n = 20
	var before atomic.Int64 // large requests applied before the small one
	var small atomic.Bool
	var group sync.WaitGroup
	var started sync.WaitGroup
	started.Add(n)
	for range n {
		group.Go(func() {
			started.Done()
			err := s.write(bg, &request{weight: 1, bytes: largeBytes, apply: func(*writer) error {
				if !small.Load() {
					before.Add(1)
				}
				return nil
			}})
			if err != nil {
				t.Errorf("write() of a large request = %v", err)
			}
		})
	}
	started.Wait()
	waitQueued(t, s, largeQueued)
	time.Sleep(20 * time.Millisecond) // the others have time to be queued, which they must not be
	queued := len(s.committer.queue)
	group.Go(func() {
		_ = s.write(bg, &request{weight: 1, apply: func(*writer) error {
			small.Store(true)
			return nil
		}})
	})
	waitQueued(t, s, queued+1)
	release()
	group.Wait()
	if n := before.Load(); n > largeQueued {
		t.Errorf("%d large requests were applied before a small one, want at most %d", n, largeQueued)
	}
}
