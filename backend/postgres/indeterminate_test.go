//go:build services

package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
)

// The answer to a commit is lost, and the database is unreachable for longer than the store
// tries to resolve the outcome. The store must not retry the change: its caller reads the task
// first.
func TestIndeterminateChangeIsNotRetried(t *testing.T) {
	t.Parallel()
	// Some cuts hit a reading of the clock instead of the commit, more often on a busy machine.
	for range 40 {
		if loseCommitAnswer(t) {
			return
		}
	}
	t.Error("no answer of a commit was lost")
}

// loseCommitAnswer cuts the connection during an answer and refuses new ones until Commit has failed
// or retried the change. It reports whether it has cut the answer to a commit, not to a notification.
func loseCommitAnswer(t *testing.T) (lost bool) {
	p, s, direct := openBehindProxy(t, Config{PoolMin: 1, PoolMax: 1, MaxRetries: 20, RetryDelay: 100 * time.Millisecond})
	must(t, commitOne(s, submitted(1)))
	k := taskKey(1)
	change := func(text string) store.Change {
		return store.Change{
			Key: k, Lease: &store.HeldLease{Key: k, Worker: testWorker, Fence: 1},
			Events: []store.Event{{Time: testStart.Add(time.Hour), State: a2a.StateWorking, Message: message("m", "agent", text)}},
		}
	}
	must(t, commitOne(s, change("before"))) // prepares the statements
	awaitNotified(t, s)                     // else the cut may hit the answer to a notification
	s.cfg.CommandTimeout = 300 * time.Millisecond
	addr := p.Close()
	p.CutAfter(20)
	type answer struct {
		results []store.Result
		err     error
	}
	answers := make(chan answer, 1)
	go func() {
		results, err := s.Commit(bg, change("once"))
		answers <- answer{results, err}
	}()
	var got answer
	select {
	case got = <-answers:
	case <-time.After(700 * time.Millisecond): // it is retried, which must not apply it again
	}
	p.Listen(addr)
	if got.results == nil && got.err == nil {
		got = <-answers
	}
	if got.err != nil && a2a.CodeOf(got.err) != a2a.CodeUnavailable {
		t.Errorf("Commit() = %+v, %v, want code unavailable", got.results, got.err)
	}
	log, err := direct.Events(bg, k, 0, 100)
	await.True(t, "the server commits the change without its client", func() bool {
		log, err = direct.Events(bg, k, 0, 100)
		return err != nil || len(log) > 3
	})
	if err != nil || len(log) != 4 {
		t.Errorf("the log has %d events, %v, want 4: the change applied once", len(log), err)
	}
	return got.err != nil
}

// The network delays a commit until long after the caller has received an indeterminate error,
// read the task and repeated the change.
func TestIndeterminateCommitIsResolvedBeforeTheNext(t *testing.T) {
	t.Parallel()
	for name, readFirst := range map[string]func(s *Store, k store.Key) error{
		"after reading the log": func(s *Store, k store.Key) error {
			log, err := s.Events(bg, k, 0, 100)
			if err == nil && len(log) != 3 {
				t.Errorf("the log has %d events, want 3 before the change is repeated", len(log))
			}
			return err
		},
		"after reading the task": func(s *Store, k store.Key) error {
			task, err := s.Task(bg, k, store.TaskOptions{})
			if err == nil && task.Seq != 3 {
				t.Errorf("the task is at version %d, want 3 before the change is repeated", task.Seq)
			}
			return err
		},
		"without a read": func(*Store, store.Key) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 10 {
				if delayCommit(t, readFirst) {
					return
				}
			}
			t.Error("no commit was delayed")
		})
	}
}

// awaitNotified waits until, at two checks more than notifyInterval apart, no connection of the
// store is in use and no notification is pending.
func awaitNotified(t *testing.T, s *Store) {
	t.Helper()
	idle := 0
	await.True(t, "the notifications of the store are sent", func() bool {
		time.Sleep(2 * notifyInterval)
		s.outbox.mu.Lock()
		pending := len(s.outbox.tasks) > 0 || s.outbox.lanes
		s.outbox.mu.Unlock()
		if idle++; pending || s.pool.Stat().AcquiredConns() > 0 {
			idle = 0
		}
		return idle >= 2
	})
}

// delayCommit holds a commit until its change was repeated. It reports whether a commit was held,
// not only a notification.
func delayCommit(t *testing.T, readFirst func(s *Store, k store.Key) error) bool {
	p, s, direct := openBehindProxy(t, Config{PoolMin: 1, PoolMax: 1, MaxRetries: 4, RetryDelay: 50 * time.Millisecond})
	s.cfg.CommandTimeout = 3 * time.Second
	k := taskKey(1)
	again := store.Change{
		Key: k, Lease: &store.HeldLease{Key: k, Worker: testWorker, Fence: 1},
		Events: []store.Event{{Time: testStart.Add(time.Hour), State: a2a.StateWorking, Message: message("m", "agent", "once")}},
	}
	must(t, commitOne(s, submitted(1)))
	must(t, commitOne(s, again)) // prepares the statements
	awaitNotified(t, s)          // else the held data may be a notification
	old := p.Partition()
	_, err := s.Commit(bg, again)
	if a2a.CodeOf(err) != a2a.CodeUnavailable {
		t.Fatalf("Commit() without a network = %v, want code unavailable", err)
	}
	late := p.Heal()
	p.CutAll()
	if !errors.Is(err, errIndeterminate) {
		late()
		return false
	}
	must(t, readFirst(s, k))
	must(t, commitOne(s, again))
	late() // now the server reads the first commit
	within(t, "the end of the old connections", func() {
		for _, done := range old {
			<-done
		}
	})
	if log, err := direct.Events(bg, k, 0, 100); err != nil || len(log) != 4 {
		t.Errorf("the log has %d events, %v, want 4: the change applied once", len(log), err)
	}
	return true
}
