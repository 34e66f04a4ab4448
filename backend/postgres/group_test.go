//go:build services

package postgres

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func appendText(s *Store, session, text string, p history.AppendParams) (history.AppendResult, error) {
	p.Messages = []history.Message{{Role: "user", Body: fmt.Appendf(nil, "%q", text)}}
	return historysql.Of(s).Append(bg, history.Key{Owner: "o", Agent: "a", Session: session}, p)
}

// wantMessages checks the number of messages of a session.
func wantMessages(t *testing.T, s *Store, session string, want int64) {
	t.Helper()
	if n, err := historysql.Of(s).Count(bg, history.Key{Owner: "o", Agent: "a", Session: session}); err != nil || n != want {
		t.Errorf("Count() of session %s = %d, %v, want %d", session, n, err, want)
	}
}

// While one transaction is not answered, requests of other callers gather. The connection of their
// common transaction is cut at every byte of its answer.
func TestGroupedRequestsAreAppliedOnceWhenTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	p, s, direct := openBehindProxy(t, Config{MaxRetries: 10})
	const callers = 8
	n, cuts := 0, 0
	for bytes := 0; bytes < 700; bytes += 23 {
		n++
		before := p.Cuts()
		p.CutAfter(bytes)
		var all sync.WaitGroup
		for caller := range callers {
			all.Go(func() {
				session := fmt.Sprint(caller)
				if caller%2 == 0 {
					p := history.AppendParams{Run: "run"}
					if caller%4 == 0 {
						p.IdempotencyKey = fmt.Sprint("key", n)
					}
					if r, err := appendText(s, session, "text", p); err != nil || r.First != int64(n) || r.Last != int64(n) || r.Repeated {
						t.Errorf("Append() cut after %d bytes = %+v, %v, want sequence %d", bytes, r, err, n)
					}
				} else if err := s.SaveRecords(bg, "o", store.RecordChange{Namespace: "n", Key: session, Version: int64(n - 1), Value: []byte("x")}); err != nil {
					t.Errorf("SaveRecords() cut after %d bytes = %v", bytes, err)
				}
			})
		}
		all.Wait()
		p.Disarm()
		cuts += p.Cuts() - before
		for caller := range callers {
			if session := fmt.Sprint(caller); caller%2 == 0 {
				wantMessages(t, direct, session, int64(n))
			} else if r, err := direct.Record(bg, store.RecordKey{Owner: "o", Namespace: "n", Key: session}); err != nil || r.Version != int64(n) {
				t.Errorf("Record() = version %d, %v, want %d", r.Version, err, n)
			}
		}
	}
	if cuts < 5 {
		t.Errorf("%d cuts, want at least 5", cuts)
	}
}

// hold locks the row of a session in a transaction and returns a function that ends it.
func hold(t *testing.T, s *Store, session string) (release func()) {
	t.Helper()
	c, err := pgx.Connect(bg, s.cfg.URL)
	must(t, err)
	_, err = c.Exec(bg, "BEGIN")
	if err == nil {
		_, err = c.Exec(bg, s.qualify(`SELECT 1 FROM {s}.history_sessions WHERE session = $1 FOR UPDATE`), session)
	}
	must(t, err)
	release = sync.OnceFunc(func() { _ = c.Close(bg) })
	t.Cleanup(release)
	return release
}

// gatherRequests makes further requests wait, as while a transaction is not answered. The caller
// starts commitWaiting for them.
func gatherRequests[R any](t *testing.T, g *requestGroups[R]) {
	t.Helper()
	await.True(t, "transactions end", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.running > 0 {
			return false
		}
		g.running++
		return true
	})
}

// waitingRequests returns the number of requests that wait for a transaction.
func (g *requestGroups[R]) waitingRequests() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

func TestRejectedRequestDoesNotAffectItsGroup(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	for _, session := range []string{"first", "a", "b", "c", "locked"} {
		_, err := appendText(s, session, "text", history.AppendParams{Run: "run", Fence: 2, IdempotencyKey: "key"})
		must(t, err)
	}
	release := hold(t, s, "locked")
	gatherRequests(t, &s.groups.requestGroups)
	var all sync.WaitGroup
	add := func(session string, p history.AppendParams, check func(r history.AppendResult, err error) bool) {
		before := s.groups.waitingRequests()
		all.Go(func() {
			if r, err := appendText(s, session, "text", p); !check(r, err) {
				t.Errorf("Append() to session %s = %+v, %v", session, r, err)
			}
		})
		await.True(t, "the request waits", func() bool { return s.groups.waitingRequests() > before })
	}
	appended := func(r history.AppendResult, err error) bool { return err == nil && !r.Repeated && r.First == 2 }
	add("first", history.AppendParams{}, appended)
	add("a", history.AppendParams{Run: "run", Fence: 1}, func(_ history.AppendResult, err error) bool { return errors.Is(err, history.ErrFenced) })
	add("b", history.AppendParams{IdempotencyKey: "key"}, func(r history.AppendResult, err error) bool { return err == nil && r.Repeated && r.First == 1 })
	add("c", history.AppendParams{Run: "run", Fence: 3}, appended)
	add("locked", history.AppendParams{}, appended)
	go s.groups.commitWaiting()
	await.True(t, "the group is applied without the locked session", func() bool {
		n, err := historysql.Of(s).Count(bg, history.Key{Owner: "o", Agent: "a", Session: "c"})
		return err == nil && n == 2
	})
	release()
	all.Wait()
	for session, want := range map[string]int64{"first": 2, "a": 1, "b": 1, "c": 2, "locked": 2} {
		wantMessages(t, s, session, want)
	}
	if _, err := appendText(s, "c", "text", history.AppendParams{Run: "run", Fence: 2}); !errors.Is(err, history.ErrFenced) {
		t.Errorf("Append() with the fence before = %v, want ErrFenced", err)
	}
}

func TestCloseWaitsForGroupedRequests(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{}))
	var all sync.WaitGroup
	for caller := range 32 {
		all.Go(func() {
			for {
				if _, err := appendText(s, fmt.Sprint(caller), "text", history.AppendParams{}); err != nil {
					if !errors.Is(err, store.ErrClosed) {
						t.Errorf("Append() = %v, want ErrClosed", err)
					}
					return
				}
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	within(t, "Close", func() { must(t, s.Close()) })
	within(t, "the end of the callers", all.Wait)
}

func TestLockedRecordDelaysNoOtherOwner(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{CommandTimeout: 10 * time.Minute}))
	save := func(owner string, version int64) error {
		return s.SaveRecords(bg, owner, store.RecordChange{Namespace: "n", Key: "k", Version: version, Value: []byte("x")})
	}
	must(t, save("locked", 0))
	must(t, save("other", 0))
	unlock := lockRows(t, s, `SELECT 1 FROM {s}.records WHERE owner = 'locked' FOR UPDATE`)
	first := make(chan error, 1)
	go func() { first <- save("locked", 1) }()
	await.True(t, "the first request starts", func() bool {
		s.groups.mu.Lock()
		defer s.groups.mu.Unlock()
		return s.groups.running > 0 || len(first) > 0 || len(s.callSlots) > 0
	})
	for version := range int64(3) {
		started := time.Now()
		must(t, save("other", version+1))
		if took := time.Since(started); took > s.cfg.lockTimeout()/2 {
			t.Errorf("SaveRecords() took %v while a record of another owner was locked", took)
		}
	}
	unlock()
	if err := <-first; err != nil {
		t.Errorf("SaveRecords() of the locked record = %v, want it saved after the lock was released", err)
	}
}

// An append without a fence waits for a transaction that raises the fence of its run.
func TestAppendSeesFenceOfTransactionThatItWaitedFor(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), emptyConfig(storetest.Wrap(t), Config{CommandTimeout: 10 * time.Minute}))
	for _, messages := range []int{1, 2} {
		session := fmt.Sprint(messages)
		_, err := appendText(s, session, "text", history.AppendParams{Run: "run"})
		must(t, err)
		c, err := pgx.Connect(bg, s.cfg.URL)
		must(t, err)
		t.Cleanup(func() { _ = c.Close(bg) })
		tx, err := c.Begin(bg)
		must(t, err)
		for _, q := range historysql.PipelineStatements() {
			if q[0] == "history: raise the fence" {
				_, err := tx.Exec(bg, s.qualify(q[1]), "o", "a", session, "run", 1)
				must(t, err)
			}
		}
		done := make(chan error, 1)
		go func() {
			p := history.AppendParams{Run: "run", Messages: slices.Repeat([]history.Message{{Role: "user", Body: []byte(`"late"`)}}, messages)}
			_, err := historysql.Of(s).Append(bg, history.Key{Owner: "o", Agent: "a", Session: session}, p)
			done <- err
		}()
		await.True(t, "the append waits for the lock", func() bool {
			waiting, err := s.exists(bg, s.pool, `SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'`)
			return err == nil && waiting
		})
		must(t, tx.Commit(bg))
		if err := <-done; !errors.Is(err, history.ErrFenced) {
			t.Errorf("Append() of %d messages = %v, want ErrFenced", messages, err)
		}
		wantMessages(t, s, session, 1)
	}
}
