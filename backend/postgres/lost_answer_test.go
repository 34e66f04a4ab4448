//go:build services

package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// openBehindProxy opens two stores on one schema: one through a proxy, one without.
func openBehindProxy(t *testing.T, cfg Config) (*pgtest.Proxy, *Store, *Store) {
	t.Helper()
	direct := emptyConfig(storetest.Wrap(t), cfg)
	s := open(storetest.Wrap(t), direct)
	p, proxied := pgtest.NewProxy(t, direct.URL)
	through := direct
	through.URL, through.CommandTimeout, through.Logger = proxied, 10*time.Second, testLogger(t)
	return p, open(storetest.Wrap(t), through), s
}

// The test cuts the connection at every byte of the answer to each kind of change.
func TestChangesAreAppliedOnceWhenTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	p, s, direct := openBehindProxy(t, Config{})
	worker := func(k store.Key) *store.HeldLease { return &store.HeldLease{Key: k, Worker: testWorker, Fence: 1} }
	at := testStart.Add(time.Hour)
	said := func(text string) store.Event {
		return store.Event{Time: at, State: a2a.StateWorking, Message: message("m", "agent", text)}
	}
	transcript := func(k store.Key) history.Key {
		return history.Key{Owner: k.Owner, Agent: "a", Session: k.ID}
	}
	n := 0
	for _, kind := range []struct {
		name   string
		events int
		bytes  int // of the answers
		change func(k store.Key) store.Change
	}{
		{"lease", 1, 400, func(k store.Key) store.Change {
			return store.Change{Lease: worker(k), Events: []store.Event{said("a")}}
		}},
		{"version", 1, 400, func(store.Key) store.Change { return store.Change{Version: 2, Events: []store.Event{said("a")}} }},
		{"quiet", 0, 400, func(k store.Key) store.Change {
			return store.Change{Lease: worker(k), Steps: []store.Step{{Turn: 1, Name: "s", Result: []byte("r")}}}
		}},
		{"message", 1, 400, func(k store.Key) store.Change {
			c := store.Change{Version: 2, Events: []store.Event{{Time: at, State: a2a.StateWorking, Received: message("m9", "user", "more")}}}
			c.Idempotency = &store.IdempotencyRecord{Owner: k.Owner, Key: "message " + k.ID, TaskID: k.ID, CreatedAt: at}
			return c
		}},
		{"effect", 1, 900, func(k store.Key) store.Change {
			e, err := historysql.Of(s).(history.Transactional).AppendEffect(transcript(k), history.AppendParams{Messages: []history.Message{{Body: []byte(`"a"`)}}})
			must(t, err)
			return store.Change{Lease: worker(k), Events: []store.Event{said("a")}, Effects: []store.Effect{e}}
		}},
	} {
		cuts := 0
		for bytes := 0; bytes < kind.bytes; bytes += 9 {
			n++
			must(t, commitOne(s, submitted(n)))
			k := taskKey(n)
			c := kind.change(k)
			c.Key = k
			before := p.Cuts()
			p.CutAfter(bytes)
			results, err := s.Commit(bg, c)
			p.Disarm()
			cuts += p.Cuts() - before
			if err != nil || results[0].Err != nil || results[0].Seq != int64(2+kind.events) {
				t.Fatalf("%s cut after %d bytes: Commit() = %+v, %v, want it applied at version %d", kind.name, bytes, results, err, 2+kind.events)
			}
			log, err := direct.Events(bg, k, 0, 100)
			if err != nil || len(log) != 2+kind.events {
				t.Fatalf("%s cut after %d bytes: %d events, %v, want %d", kind.name, bytes, len(log), err, 2+kind.events)
			}
			if messages, err := historysql.Of(direct).Count(bg, transcript(k)); err != nil || int(messages) != len(c.Effects) {
				t.Fatalf("%s cut after %d bytes: %d messages, %v, want %d", kind.name, bytes, messages, err, len(c.Effects))
			}
		}
		if cuts < 5 {
			t.Errorf("%s: %d cuts, want at least 5", kind.name, cuts)
		}
	}
}

// The server may read a transaction after the store has resolved its outcome and retried the
// change. The change must be applied once.
func TestChangeThatReachesTheServerLateIsAppliedOnce(t *testing.T) {
	t.Parallel()
	p, s, direct := openBehindProxy(t, Config{})
	once := store.Change{Key: taskKey(1), Lease: &store.HeldLease{Key: taskKey(1), Worker: testWorker, Fence: 1}, Events: []store.Event{
		{Time: testStart, State: a2a.StateWorking, Message: message("m", "agent", "once")},
	}}
	must(t, commitOne(s, submitted(1)))
	must(t, commitOne(s, once)) // prepares its statement
	late := p.HoldText("once")
	done := commitAsync(s, once)
	await.True(t, "the commit is sent", func() bool { return p.Holds("once") })
	old := p.Connections()
	p.CutAll()
	within(t, "the change on another connection", func() { must(t, <-done) })
	late() // now the server reads the first transaction
	within(t, "the end of the old connections", func() {
		for _, done := range old {
			<-done
		}
	})
	wantEvents(t, direct, 1, 4)
}

// Many callers add events to tasks while connections are cut repeatedly.
func TestChangesAreAppliedOnceWhileConnectionsAreCut(t *testing.T) {
	t.Parallel()
	p, s, direct := openBehindProxy(t, Config{MaxRetries: 10})
	const callers, cuts = 16, 50
	counts := make([]int, callers)
	var counted atomic.Int64
	ctx, cancel := context.WithCancel(bg)
	var wg sync.WaitGroup
	stop := sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	for g := range callers {
		wg.Go(func() {
			if err := commitOne(s, submitted(g)); err != nil {
				t.Errorf("create = %v", err)
				return
			}
			for ; ctx.Err() == nil; counted.Add(1) {
				err := commitOne(s, store.Change{Key: taskKey(g), Version: int64(2 + counts[g]), Events: []store.Event{
					{Time: testStart, State: a2a.StateWorking, Message: message(fmt.Sprint("m", counts[g]), "agent", "x")},
				}})
				if errors.Is(err, errIndeterminate) { // the caller must read the task
					task, e := direct.Task(bg, taskKey(g), store.TaskOptions{})
					must(t, e)
					counts[g] = int(task.Seq) - 2
					continue
				}
				if err != nil {
					t.Errorf("count of %d = %v", counts[g], err)
					return
				}
				counts[g]++
			}
		})
	}
	for i := range cuts {
		enough := counted.Load() + callers
		await.True(t, "changes between two cuts", func() bool { return counted.Load() >= enough || t.Failed() })
		p.CutAfter(i * 37 % 900)
		await.True(t, "a cut", func() bool { return !p.IsArmed() || t.Failed() })
	}
	stop()
	for g := range callers {
		task, err := direct.Task(bg, taskKey(g), store.TaskOptions{})
		must(t, err)
		if len(task.History) != counts[g]+1 || task.Seq != int64(counts[g]+2) {
			t.Errorf("task %d has %d messages at version %d, want %d acknowledged messages", g, len(task.History)-1, task.Seq, counts[g])
		}
	}
	t.Logf("%d changes, %d cuts", counted.Load(), cuts)
}

// Feedback has no version that prevents duplicates.
func TestFeedbackIsAddedOnceWhenItsAnswerIsCutOff(t *testing.T) {
	t.Parallel()
	p, s, direct := openBehindProxy(t, Config{})
	must(t, commitOne(s, submitted(1)))
	for bytes := range 120 {
		p.CutAfter(bytes * 2)
		err := s.AddFeedback(bg, store.Feedback{Key: taskKey(1), ID: fmt.Sprint("f", bytes), Rating: 4, CreatedAt: testStart})
		p.Disarm()
		if err != nil {
			t.Fatalf("AddFeedback() cut after %d bytes = %v", bytes*2, err)
		}
	}
	sum, err := direct.FeedbackSummary(bg, taskKey(1).Owner)
	must(t, err)
	if want := (store.FeedbackSummary{Ratings: [6]int{4: 120}}); sum != want {
		t.Errorf("FeedbackSummary() = %v, want %v", sum, want)
	}
}

// The sequences of an append are those in the answer, or are read if it was cut off.
func TestAppendReturnsItsSequencesWhenTheAnswerIsLost(t *testing.T) {
	t.Parallel()
	p, s, direct := openBehindProxy(t, Config{})
	k := history.Key{Owner: "o", Agent: "a", Session: "s"}
	cuts, n := 0, int64(0)
	for bytes := 0; bytes < 400; bytes += 9 {
		for _, key := range []string{"", fmt.Sprint("key", bytes)} {
			before := p.Cuts()
			p.CutAfter(bytes)
			got, err := historysql.Of(s).Append(bg, k, history.AppendParams{
				IdempotencyKey: key, Messages: []history.Message{{Body: []byte(`"a"`)}, {Body: []byte(`"b"`)}, {Body: []byte(`"c"`)}},
			})
			p.Disarm()
			cuts += p.Cuts() - before
			if want := (history.AppendResult{First: n + 1, Last: n + 3}); err != nil || got != want {
				t.Fatalf("Append() with key %q cut after %d bytes = %+v, %v, want %+v", key, bytes, got, err, want)
			}
			n += 3
			if stored, err := historysql.Of(direct).Count(bg, k); err != nil || stored != n {
				t.Fatalf("%d messages, %v, want %d", stored, err, n)
			}
		}
	}
	if cuts < 10 {
		t.Errorf("%d cuts, want at least 10", cuts)
	}
}

// A server that does not answer the rollback delays the result by rollbackTimeout.
func TestRollbackEndsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	p, s, _ := openBehindProxy(t, Config{})
	rejected := errors.New("rejected by the test")
	within(t, "Write()", func() {
		err := (&kit{database: s.database}).Write(bg, func(tx sqlkit.Tx) error {
			must(t, tx.Query(`SELECT 1`, func(sqlkit.Row) error { return nil }))
			p.Hold()
			return rejected
		})
		if !errors.Is(err, rejected) {
			t.Errorf("Write() = %v, want the error of its function", err)
		}
	})
	p.Release()
	must(t, s.Ping(bg))
}

func TestImmediateShutdownLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start(pgtest.Config{Fsync: true})
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	s, err := Open(bg, Config{URL: server.URL(), Migrate: true, RetryDelay: 50 * time.Millisecond, MaxRetries: 12})
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	var mu sync.Mutex
	acked := make(map[int]bool)
	ctx, cancel := context.WithCancel(bg)
	var wg sync.WaitGroup
	stop := sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(stop)
	for g := range 8 {
		wg.Go(func() {
			for n := g; ctx.Err() == nil; n += 8 {
				if err := runTask(s, n); err != nil {
					t.Errorf("task %d: %v", n, err)
					return
				}
				mu.Lock()
				acked[n] = true
				mu.Unlock()
			}
		})
	}
	const each = 25 // tasks before each stop, and after the last
	for stops := range 3 {
		await.True(t, "tasks are acknowledged", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(acked) >= (stops+1)*each || t.Failed()
		})
		if stops < 2 {
			must(t, server.Stop())
			must(t, server.Start())
		}
	}
	stop()
	for n := range acked {
		got, err := s.Task(bg, taskKey(n), store.TaskOptions{})
		if err != nil || got.Status.State != a2a.StateCompleted || got.Seq != 4 {
			t.Fatalf("Task(%d) = %+v, %v, want it completed as acknowledged", n, got, err)
		}
	}
	t.Logf("%d tasks over two stops", len(acked))
}

// Calls to a server that hangs fail within their timeout and succeed later.
func TestCallsToAHangingServerFailInTime(t *testing.T) {
	t.Parallel()
	server, err := pgtest.Start(pgtest.Config{Fsync: true})
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	must(t, runTask(open(storetest.Wrap(t), Config{URL: server.URL(), Migrate: true}), 1))
	s := openInTime(t, Config{
		URL: server.URL(), CommandTimeout: 300 * time.Millisecond, Timeout: 300 * time.Millisecond, MaxRetries: -1,
	})
	must(t, server.Pause())
	for name, call := range map[string]func() error{
		"Commit": func() error { return commitOne(s, submitted(2)) },
		"Task":   func() error { _, err := s.Task(bg, taskKey(1), store.TaskOptions{}); return err },
		"Ping":   func() error { return s.Ping(bg) },
	} {
		var err error
		within(t, name, func() { err = call() })
		var coded *a2a.Error
		if !errors.As(err, &coded) || coded.Code != a2a.CodeUnavailable {
			t.Errorf("%s() = %v, want code unavailable", name, err)
		}
	}
	must(t, server.Resume())
	n := 2
	await.True(t, "a task is completed", func() bool { n++; return runTask(s, n) == nil })
	if d := cmp.Diff(store.Info{Name: "postgres", Location: s.location, Durable: true}, s.Info()); d != "" {
		t.Error(d)
	}
}
