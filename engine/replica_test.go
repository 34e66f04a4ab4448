package engine_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// sharedStore is a store that several engines share, as if each were in its own process.
type sharedStore struct{ store.Store }

func (s sharedStore) Info() store.Info {
	info := s.Store.Info()
	info.Exclusive = false
	return info
}

// renewBlocker is a replica's view of a store. Its renewals fail while blocked is set.
type renewBlocker struct {
	sharedStore
	blocked atomic.Bool
}

func (s *renewBlocker) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) ([]store.Key, error) {
	if s.blocked.Load() {
		return nil, a2a.Errorf(a2a.CodeUnavailable, "cut off")
	}
	return s.sharedStore.Renew(ctx, until, leases)
}

func TestTaskOfDeadWorkerIsClaimedAfterLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := inmem.New()
		first := &renewBlocker{sharedStore: sharedStore{shared}}
		started, release := make(chan int, 10), make(chan struct{})
		var steps atomic.Int64
		handler := func(ctx context.Context, turn *engine.Turn) error {
			if _, err := turn.Step(ctx, "pay", func(context.Context) ([]byte, error) { steps.Add(1); return []byte("paid"), nil }); err != nil {
				return err
			}
			started <- turn.Attempt()
			if turn.Attempt() == 1 {
				<-release // like a suspended process: it does not check its context
				_ = turn.Status("resumed")
				return turn.Reply(a2a.TextPart{Text: "the stale run"})
			}
			return turn.Reply(a2a.TextPart{Text: "the second run"})
		}
		const lease = 2 * time.Second
		e1 := start(t, engine.Config{Store: first, Handler: handler, Turns: engine.Turns{Lease: lease, Poll: 20 * time.Millisecond, HandlerGrace: time.Minute}})
		task := send(t, e1, message("a"))
		if attempt := <-started; attempt != 1 {
			t.Fatalf("first attempt = %d", attempt)
		}
		first.blocked.Store(true)
		e2 := start(t, engine.Config{Store: sharedStore{shared}, Handler: handler, Turns: engine.Turns{Lease: lease, Poll: 20 * time.Millisecond}})
		if attempt := <-started; attempt != 2 {
			t.Fatalf("second attempt = %d", attempt)
		}
		got := waitFinal(t, e2, task.Key.ID)
		first.blocked.Store(false)
		close(release)
		stop(t, e1)
		stop(t, e2)
		after, err := shared.Task(t.Context(), task.Key, store.TaskOptions{})
		if err != nil || after.Seq != got.Seq {
			t.Errorf("the stale run changed the task: version %d after %d, %v", after.Seq, got.Seq, err)
		}
		if got.Status.Message.Text() != "the second run" || steps.Load() != 1 {
			t.Errorf("reply = %q, the step ran %d times; want the second run's, once", got.Status.Message.Text(), steps.Load())
		}
		checkLog(t, shared, task.Key)
	})
}

func TestPoisonTaskFailsAfterMaxAttempts(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	key := store.Key{Owner: alice.ID, ID: newID()}
	message := message("poison").Message
	// Claims of processes that died with the task.
	commit(t, s, store.Change{
		Key: key, Create: &store.Create{ContextID: newID()},
		Events: []store.Event{{Time: store.Time(time.Now()), State: a2a.StateSubmitted, Received: &message}},
		Queue:  &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1},
	})
	for range 3 {
		claimed, err := s.Claim(t.Context(), store.ClaimParams{Worker: newID(), Limit: 1, Takeover: true, Now: time.Now(), Event: store.Event{State: a2a.StateWorking}})
		if err != nil || len(claimed) != 1 {
			t.Fatalf("Claim() = %v, %v", claimed, err)
		}
	}
	e := start(t, engine.Config{Store: s, Turns: engine.Turns{MaxAttempts: 3}, Handler: func(context.Context, *engine.Turn) error {
		t.Error("the poison task was run once more")
		return nil
	}})
	task := waitFinal(t, e, key.ID)
	wantState(t, task, a2a.StateFailed)
}

func commit(t *testing.T, s store.Store, c store.Change) {
	t.Helper()
	results, err := s.Commit(t.Context(), c)
	if err != nil || results[0].Err != nil {
		t.Fatalf("Commit() = %+v, %v", results, err)
	}
}

func TestTwoReplicasRunEveryTaskOnce(t *testing.T) {
	t.Parallel()
	shared := inmem.New()
	var mu sync.Mutex
	runs := make(map[string]int)
	handler := func(_ context.Context, turn *engine.Turn) error {
		mu.Lock()
		runs[turn.TaskID()]++
		mu.Unlock()
		return nil
	}
	var engines []*engine.Engine
	for range 2 {
		engines = append(engines, start(t, engine.Config{Store: sharedStore{shared}, Handler: handler, Turns: engine.Turns{Concurrency: 2, Poll: 5 * time.Millisecond}}))
	}
	var ids []string
	for i := range 500 {
		ids = append(ids, send(t, engines[i%2], message("a")).Key.ID)
	}
	for i, id := range ids {
		wantState(t, waitFinal(t, engines[(i+1)%2], id), a2a.StateCompleted)
	}
	mu.Lock()
	defer mu.Unlock()
	for id, n := range runs {
		if n != 1 {
			t.Errorf("task %s ran %d times", id, n)
		}
	}
}

func TestCancelStopsHandlerOnOtherReplica(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		poll, lease time.Duration
		cause       error
	}{
		"found by polling":            {time.Second, time.Hour, engine.ErrCanceled},
		"found by renewing its lease": {time.Hour, 3 * time.Second, engine.ErrLeaseLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				shared := inmem.New()
				started, causes := make(chan struct{}), make(chan error, 1)
				handler := func(ctx context.Context, _ *engine.Turn) error {
					close(started)
					<-ctx.Done()
					causes <- context.Cause(ctx)
					return nil
				}
				cfg := engine.Config{Store: sharedStore{shared}, Handler: handler, Turns: engine.Turns{Poll: test.poll, Lease: test.lease}}
				e1 := start(t, cfg)
				task := send(t, e1, message("a"))
				<-started
				e2 := start(t, cfg)
				if _, err := e2.Cancel(t.Context(), alice, task.Key.ID, engine.SendOptions{}); err != nil {
					t.Fatal(err)
				}
				canceled := time.Now()
				if cause := <-causes; !errors.Is(cause, test.cause) {
					t.Errorf("cause = %v, want %v", cause, test.cause)
				}
				if took, limit := time.Since(canceled), min(test.poll, test.lease/3); took > limit {
					t.Errorf("the handler stopped after %s, want at most %s", took, limit)
				}
				stop(t, e1)
				wantState(t, waitFinal(t, e2, task.Key.ID), a2a.StateCanceled)
			})
		})
	}
}

// failingStore fails commits, before or after applying them.
type failingStore struct {
	store.Store
	mu     sync.Mutex
	before int // commits to fail without applying them
	after  int // commits to apply without returning the result
}

func (s *failingStore) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	s.mu.Lock()
	before, after := s.before > 0, s.after > 0
	if before {
		s.before--
	} else if after {
		s.after--
	}
	s.mu.Unlock()
	if before {
		return nil, a2a.Errorf(a2a.CodeExhausted, "disk full")
	}
	results, err := s.Store.Commit(ctx, changes...)
	if after {
		return nil, a2a.Errorf(a2a.CodeUnavailable, "connection lost")
	}
	return results, err
}

func (s *failingStore) fail(before, after int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

func TestRunSurvivesTemporaryStoreFailure(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		before, after int
	}{{"refused", 3, 0}, {"answer lost", 0, 1}, {"both", 2, 2}} {
		for _, at := range []string{"chunk", "step", "end"} {
			t.Run(test.name+" at the "+at, func(t *testing.T) {
				t.Parallel()
				s := &failingStore{Store: inmem.New()}
				var steps atomic.Int64
				e := start(t, engine.Config{Store: s, Turns: engine.Turns{FlushInterval: time.Millisecond}, Handler: func(ctx context.Context, turn *engine.Turn) error {
					failAt := func(point string) {
						if point == at {
							s.fail(test.before, test.after)
						}
					}
					w := turn.Artifact("a")
					failAt("chunk")
					_, _ = w.WriteString("one ")
					_ = turn.Flush()
					_, _ = w.WriteString("two")
					failAt("step")
					if _, err := turn.Step(ctx, "s", func(context.Context) ([]byte, error) { steps.Add(1); return nil, nil }); err != nil {
						return err
					}
					failAt("end")
					return turn.Reply(a2a.TextPart{Text: "done"})
				}})
				task := waitFinal(t, e, send(t, e, message("a")).Key.ID)
				wantState(t, task, a2a.StateCompleted)
				if got := task.Artifacts[0].Text(); got != "one two" || steps.Load() != 1 {
					t.Errorf("artifact = %q, the step ran %d times", got, steps.Load())
				}
				terminal := 0
				for _, event := range checkLog(t, s.Store, task.Key) {
					if event.State.Terminal() {
						terminal++
					}
				}
				if terminal != 1 {
					t.Errorf("the log has %d terminal events", terminal)
				}
			})
		}
	}
}

// A poison task kills its process; other tasks run in the same process each time.
func TestOnlyPoisonTaskFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := inmem.New()
		const attempts = 3
		ids := make(map[string]string)
		for _, name := range []string{"a", "poison", "z"} {
			message := message(name).Message
			key := store.Key{Owner: alice.ID, ID: newID()}
			ids[name] = key.ID
			commit(t, s, store.Change{
				Key: key, Create: &store.Create{ContextID: newID()},
				Events: []store.Event{{Time: store.Time(time.Now()), State: a2a.StateSubmitted, Received: &message}},
				Queue:  &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1},
			})
		}
		for range attempts - 1 { // processes that the poison task killed while all three tasks ran
			claimed, err := s.Claim(t.Context(), store.ClaimParams{Worker: newID(), Limit: 10, Takeover: true, Now: time.Now(), Event: store.Event{State: a2a.StateWorking}})
			if err != nil || len(claimed) != 3 {
				t.Fatalf("Claim() = %v, %v", claimed, err)
			}
		}
		// Each process dies when the poison task runs; the next one takes over.
		for range 3 {
			process := newKillableStore(s)
			killed := make(chan struct{}, 10)
			e := start(t, engine.Config{Store: process, Turns: engine.Turns{MaxAttempts: attempts, HandlerGrace: time.Millisecond}, Handler: func(ctx context.Context, turn *engine.Turn) error {
				if turn.Messages()[0].Text() == "poison" {
					process.killed.Store(true)
					killed <- struct{}{}
					<-ctx.Done()
					return ctx.Err()
				}
				time.Sleep(50 * time.Millisecond) // not a poison task, and slower than it
				return nil
			}})
			poison := waitFinalOrKilled(t, e, ids["poison"], killed)
			if !poison.Status.State.Terminal() {
				continue
			}
			wantState(t, poison, a2a.StateFailed)
			for _, name := range []string{"a", "z"} {
				if got := waitFinal(t, e, ids[name]); got.Status.State != a2a.StateCompleted {
					t.Errorf("%s ended %s (%s), want completed", name, got.Status.State, got.Status.Message.Text())
				}
			}
			return
		}
		t.Error("the poison task was never quarantined")
	})
}

// waitFinalOrKilled returns a finished task, or its current state when its process has died.
func waitFinalOrKilled(t *testing.T, e *engine.Engine, id string, killed <-chan struct{}) *store.Task {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	go func() {
		select {
		case <-killed:
			cancel()
		case <-ctx.Done():
		}
	}()
	var after int64
	for _, err := range e.Follow(ctx, alice, id, &after) {
		if err != nil && ctx.Err() == nil {
			t.Fatalf("Follow(%s) = %v", id, err)
		}
	}
	task, err := e.Task(t.Context(), alice, id, nil)
	if err != nil {
		t.Fatal(err)
	}
	return task
}

var errKilled = a2a.Errorf(a2a.CodeInternal, "the process is dead")

// killableStore is a process's view of a store; its writes fail while killed is set.
type killableStore struct {
	store.Store
	killed atomic.Bool
}

func newKillableStore(s store.Store) *killableStore {
	k := new(killableStore)
	k.Store = storetest.Intercept(s, func(ctx context.Context, c storetest.Call, do func(context.Context) error) error {
		switch c.Method {
		case "Commit", "Claim", "Renew":
			if k.killed.Load() {
				return errKilled
			}
		}
		return do(ctx)
	})
	return k
}

// The duration of a lease may exceed any delay; that is no sign of a clock that was set back.
func TestLongLeaseIsNotVoid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := inmem.New()
		started, release := make(chan struct{}, 10), make(chan struct{})
		cfg := engine.Config{
			Store: sharedStore{shared}, Turns: engine.Turns{Lease: 10 * time.Second, Poll: 10 * time.Millisecond, RetryDelay: time.Millisecond, RetryDelayMax: 10 * time.Millisecond},
			Handler: func(context.Context, *engine.Turn) error {
				started <- struct{}{}
				<-release
				return nil
			},
		}
		e1 := start(t, cfg)
		task := send(t, e1, message("a"))
		<-started
		start(t, cfg)
		select {
		case <-started:
			t.Error("another replica claimed the task during its lease")
		case <-time.After(15 * time.Second):
		}
		close(release)
		waitFinal(t, e1, task.Key.ID)
	})
}

// Waiting quarantined tasks leave slots to other tasks.
func TestQuarantinedTasksDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := inmem.New()
		const attempts = 2
		for range 12 {
			message := message("poison").Message
			commit(t, s, store.Change{
				Key: store.Key{Owner: alice.ID, ID: newID()}, Create: &store.Create{ContextID: newID()},
				Events: []store.Event{{Time: store.Time(time.Now()), State: a2a.StateSubmitted, Received: &message}},
				Queue:  &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1},
			})
		}
		for range attempts - 1 { // a process that died while it ran all of them
			if _, err := s.Claim(t.Context(), store.ClaimParams{Worker: newID(), Limit: 100, Takeover: true, Now: time.Now(), Event: store.Event{State: a2a.StateWorking}}); err != nil {
				t.Fatal(err)
			}
		}
		e := start(t, engine.Config{Store: s, Turns: engine.Turns{Concurrency: 4, MaxAttempts: attempts, Poll: 10 * time.Millisecond}, Handler: func(ctx context.Context, turn *engine.Turn) error {
			if turn.Messages()[0].Text() == "poison" {
				<-ctx.Done()
			}
			return ctx.Err()
		}})
		started := time.Now()
		wantState(t, sendWait(t, e, message("innocent")), a2a.StateCompleted)
		if took := time.Since(started); took > 10*time.Second { // twelve poison tasks, two seconds apart, need 24 s
			t.Errorf("a normal task took %s, want less than 10 s", took)
		}
	})
}
