package postgres

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// The answer to a commit is lost, and the database is away for longer than anybody
// tries to find out what became of it. Whoever gets the error looks at the task
// before going on, so that the store must not.
func TestAChangeThatMayHaveBeenStoredIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	// Some cuts meet the clock's question instead of the commit, more of them on a busy machine.
	for range 40 {
		if cutOffForLong(t) {
			return
		}
	}
	t.Error("no answer of a commit was lost")
}

// cutOffForLong cuts the connection off from an answer and keeps new ones out until
// the change's caller is told, or the change is tried again. It reports whether the
// answer was that of a commit, and not that of what is told to other processes.
func cutOffForLong(t *testing.T) (lost bool) {
	p, s, direct := behind(t, Config{PoolMin: 1, PoolMax: 1, MaxRetries: 20, RetryDelay: 100 * time.Millisecond})
	must(t, commitOne(s, submitted(1)))
	k := taskKey(1)
	change := func(text string) store.Change {
		return store.Change{
			Key: k, Lease: &store.HeldLease{Key: k, Worker: testWorker, Fence: 1},
			Events: []store.Event{{Time: began.Add(time.Hour), State: a2a.StateWorking, Message: message("m", "agent", text)}},
		}
	}
	must(t, commitOne(s, change("before"))) // its statements are prepared
	untilNotified(t, s)                     // else the answer to the notification may be what is cut
	s.cfg.CommandTimeout = 300 * time.Millisecond
	// The connection stays until it is cut, and no new ones are made.
	addr := p.listen.Addr().String()
	must(t, p.listen.Close())
	p.cutAfter(20)
	type answer struct {
		results []store.Result
		err     error
	}
	answers := make(chan answer, 1)
	go func() {
		results, err := s.Commit(bg, change("once"))
		answers <- answer{results, err}
	}()
	time.Sleep(700 * time.Millisecond)
	l, err := net.Listen("tcp", addr) //nolint:noctx // closed by the test
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	got := <-answers
	if got.err != nil && a2a.CodeOf(got.err) != a2a.CodeUnavailable {
		t.Errorf("Commit() = %+v, %v, want it to say that it does not know", got.results, got.err)
	}
	log, err := direct.Events(bg, k, 0, 100)
	await(t, "the server makes the change without its client", func() bool {
		log, err = direct.Events(bg, k, 0, 100)
		return err != nil || len(log) > 3
	})
	if err != nil || len(log) != 4 {
		t.Errorf("the log has %d events, %v, want 4: the change was made once", len(log), err)
	}
	return got.err != nil
}

// A commit is on its way when nothing gets through any more, and arrives long after
// its caller was told that nobody knows what became of it. By then the caller has
// looked and made its change again.
func TestACommitWhoseOutcomeWasNotKnownIsRuledOutBeforeTheNext(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]func(s *Store, k store.Key) error{
		"after a look at the log": func(s *Store, k store.Key) error {
			log, err := s.Events(bg, k, 0, 100)
			if err == nil && len(log) != 3 {
				t.Errorf("the log has %d events, want 3 before the change is made again", len(log))
			}
			return err
		},
		"after a look at the task": func(s *Store, k store.Key) error {
			task, err := s.Task(bg, k, store.TaskOptions{})
			if err == nil && task.Seq != 3 {
				t.Errorf("the task is at version %d, want 3 before the change is made again", task.Seq)
			}
			return err
		},
		"without a look": func(*Store, store.Key) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 10 {
				if arriveLate(t, look) {
					return
				}
			}
			t.Error("no commit was on its way")
		})
	}
}

// untilNotified waits until no connection of the store is in use and no notification is
// pending, at two looks with more than noticeEvery between them.
func untilNotified(t *testing.T, s *Store) {
	t.Helper()
	idle := 0
	await(t, "the notifications of the store are sent", func() bool {
		time.Sleep(2 * noticeEvery)
		s.news.mu.Lock()
		pending := len(s.news.tasks) > 0 || s.news.lanes
		s.news.mu.Unlock()
		if idle++; pending || s.pool.Stat().AcquiredConns() > 0 {
			idle = 0
		}
		return idle >= 2
	})
}

// arriveLate holds a commit back until its change has been made again. It reports
// whether there was one on its way, and not only what is told to other processes.
func arriveLate(t *testing.T, look func(s *Store, k store.Key) error) bool {
	p, s, direct := behind(t, Config{PoolMin: 1, PoolMax: 1, MaxRetries: 4, RetryDelay: 50 * time.Millisecond})
	s.cfg.CommandTimeout = 3 * time.Second
	k := taskKey(1)
	again := store.Change{
		Key: k, Lease: &store.HeldLease{Key: k, Worker: testWorker, Fence: 1},
		Events: []store.Event{{Time: began.Add(time.Hour), State: a2a.StateWorking, Message: message("m", "agent", "once")}},
	}
	must(t, commitOne(s, submitted(1)))
	must(t, commitOne(s, again)) // its statements are prepared
	untilNotified(t, s)          // else the notification may be what is on its way
	old := p.part()
	_, err := s.Commit(bg, again)
	if a2a.CodeOf(err) != a2a.CodeUnavailable {
		t.Fatalf("Commit() while nothing gets through = %v, want code unavailable", err)
	}
	late := p.detach()
	p.cutAll()
	if !errors.Is(err, errOpen) {
		late()
		return false
	}
	must(t, look(s, k))
	must(t, commitOne(s, again))
	late() // now the server reads what was sent first
	within(t, "the end of the old connections", func() {
		for _, done := range old {
			<-done
		}
	})
	if log, err := direct.Events(bg, k, 0, 100); err != nil || len(log) != 4 {
		t.Errorf("the log has %d events, %v, want 4: the change was made once", len(log), err)
	}
	return true
}
