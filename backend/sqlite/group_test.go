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
	"github.com/holdfast-dev/holdfast/store"
)

func TestGroupedChangesShareOneTransaction(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	commits := groups(s)
	_, err := queueAll(t, s, 100, func(n int) error { return commitOne(s, submitted(n)) })
	must(t, err)
	if got := commits(); got > 2 {
		t.Errorf("100 queued changes took %d transactions, want 1 besides the one that held them up", got)
	}
}

func TestAFailingRequestDoesNotFailItsNeighbours(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	poison := errors.New("poison")
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
			return poison
		}})
	})
	if !errors.Is(err, poison) || failures != 1 {
		t.Errorf("%d requests failed with %v, want only the poisonous one", failures, err)
	}
	for n := range 40 {
		_, err := s.Task(bg, taskKey(n), store.TaskOptions{})
		if want := n == 20; errors.Is(err, store.ErrNotFound) != want {
			t.Errorf("Task(%d) = %v, want it to be absent: %v", n, err, want)
		}
	}
	if b, err := s.Backlog(bg); err != nil || b.Leased != 39 {
		t.Errorf("Backlog() = %+v, %v, want 39 leased", b, err)
	}
}

func TestAnAbandonedRequestIsNotApplied(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	release := holdWriter(s)
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
		t.Errorf("Task() of an abandoned change = %v, want %v", err, store.ErrNotFound)
	}
}

// queueAll makes n calls while the writer is held, so that they form a group.
// It returns how many failed and the last error.
func queueAll(t *testing.T, s *Store, n int, call func(n int) error) (failed int, last error) {
	t.Helper()
	release := holdWriter(s)
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
	await(t, fmt.Sprint(n, " requests are queued"), func() bool { return len(s.writer.queue) >= n })
}

// groups returns a count of the transactions since the call.
func groups(s *Store) func() int {
	read := func() (n int) {
		_ = s.write(bg, &request{weight: 1, apply: func(w *writer) error { n = w.wal.groups; return nil }})
		return n
	}
	before := read()
	return func() int { return read() - before - 1 }
}

func TestTheLogStaysShortUnderConstantReads(t *testing.T) {
	t.Parallel()
	const limit = 4 << 20
	s := open(t, Config{Dir: t.TempDir()})
	release := holdWriter(s)
	s.writer.wal.limit = limit
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
	// As many groups may pass between two looks.
	if most := int64(limit + walEvery*2*size); longest > most {
		t.Errorf("write-ahead log grew to %d MB, want at most %d", longest>>20, most>>20)
	}
	t.Logf("write-ahead log grew to %d MB", longest>>20)
}

func TestTheLogIsEmptiedWhenIdle(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	must(t, runTask(s, 1))
	await(t, "the write-ahead log is emptied when the store is idle", func() bool {
		info, err := os.Stat(s.path + "-wal")
		return err == nil && info.Size() == 0
	})
}

func TestSecretsStayOutOfTheLog(t *testing.T) {
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
		t.Errorf("log and error hold a message's text: %.300s", text)
	}
}

func TestLargeChangesDoNotDelaySmallOnes(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Dir: t.TempDir()})
	release := holdWriter(s)
	const n = 20
	var before atomic.Int64 // large requests that were applied before the small one
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
				t.Errorf("a large request: %v", err)
			}
		})
	}
	started.Wait()
	waitQueued(t, s, largeQueued)
	time.Sleep(20 * time.Millisecond) // the others would be queued by now
	queued := len(s.writer.queue)
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
		t.Errorf("%d large requests were applied before a small one, want %d", n, largeQueued)
	}
}
