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
	"github.com/holdfast-dev/holdfast/store"
)

// replicas is a store that several engines share, each as if in a process of
// its own.
type replicas struct{ store.Store }

func (s replicas) Info() store.Info {
	info := s.Store.Info()
	info.Exclusive = false
	return info
}

// deaf is a replica's view of a store to which its signs of life do not get
// through while it is cut off.
type deaf struct {
	replicas
	cut atomic.Bool
}

func (s *deaf) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) ([]store.Key, error) {
	if s.cut.Load() {
		return nil, a2a.Errorf(a2a.CodeUnavailable, "cut off")
	}
	return s.replicas.Renew(ctx, until, leases)
}

func TestATaskOfADeadWorkerIsClaimedWithinItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := inmem.New()
		first := &deaf{replicas: replicas{shared}}
		started, release := make(chan int, 10), make(chan struct{})
		var steps atomic.Int64
		handler := func(ctx context.Context, turn *engine.Turn) error {
			if _, err := turn.Step(ctx, "pay", func(context.Context) ([]byte, error) { steps.Add(1); return []byte("paid"), nil }); err != nil {
				return err
			}
			started <- turn.Attempt()
			if turn.Attempt() == 1 {
				<-release // as a process that is suspended: it does not even notice its context
				_ = turn.Status("I am back")
				return turn.Reply(a2a.TextPart{Text: "the stale run"})
			}
			return turn.Reply(a2a.TextPart{Text: "the second run"})
		}
		const lease = 2 * time.Second
		e1 := start(t, engine.Config{Store: first, Handler: handler, Lease: lease, Poll: 20 * time.Millisecond, HandlerGrace: time.Minute})
		task := send(t, e1, text("a"))
		if attempt := <-started; attempt != 1 {
			t.Fatalf("first attempt = %d", attempt)
		}
		first.cut.Store(true)
		e2 := start(t, engine.Config{Store: replicas{shared}, Handler: handler, Lease: lease, Poll: 20 * time.Millisecond})
		if attempt := <-started; attempt != 2 {
			t.Fatalf("second attempt = %d", attempt)
		}
		got := settled(t, e2, task.Key.ID)
		first.cut.Store(false)
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

func TestAPoisonTaskFailsAfterMaxAttempts(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	key := store.Key{Owner: alice.ID, ID: newID()}
	message := text("poison").Message
	// The claims of processes that died, each with the task.
	commit(t, s, store.Change{
		Key: key, Create: &store.Create{ContextID: newID()},
		Events: []store.Event{{Time: store.Time(time.Now()), State: a2a.StateSubmitted, Received: &message}},
		Run:    &store.Run{Phase: store.PhaseQueued, Turn: 1},
	})
	for range 3 {
		claimed, err := s.Claim(t.Context(), store.ClaimParams{Worker: newID(), Limit: 1, Takeover: true, Now: time.Now(), Event: store.Event{State: a2a.StateWorking}})
		if err != nil || len(claimed) != 1 {
			t.Fatalf("Claim() = %v, %v", claimed, err)
		}
	}
	e := start(t, engine.Config{Store: s, MaxAttempts: 3, Handler: func(context.Context, *engine.Turn) error {
		t.Error("the poison task was run once more")
		return nil
	}})
	task := settled(t, e, key.ID)
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
		engines = append(engines, start(t, engine.Config{Store: replicas{shared}, Handler: handler, Concurrency: 2, Poll: 5 * time.Millisecond}))
	}
	var ids []string
	for i := range 500 {
		ids = append(ids, send(t, engines[i%2], text("a")).Key.ID)
	}
	for i, id := range ids {
		wantState(t, settled(t, engines[(i+1)%2], id), a2a.StateCompleted)
	}
	mu.Lock()
	defer mu.Unlock()
	for id, n := range runs {
		if n != 1 {
			t.Errorf("task %s ran %d times", id, n)
		}
	}
}

func TestACancelOnOneReplicaStopsTheHandlerOnAnother(t *testing.T) {
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
				cfg := engine.Config{Store: replicas{shared}, Handler: handler, Poll: test.poll, Lease: test.lease}
				e1 := start(t, cfg)
				task := send(t, e1, text("a"))
				<-started
				e2 := start(t, cfg)
				if _, err := e2.Cancel(t.Context(), alice, task.Key.ID, engine.SendOptions{}); err != nil {
					t.Fatal(err)
				}
				if cause := <-causes; !errors.Is(cause, test.cause) {
					t.Errorf("cause = %v, want %v", cause, test.cause)
				}
				stop(t, e1)
				wantState(t, settled(t, e2, task.Key.ID), a2a.StateCanceled)
			})
		})
	}
}

// flaky fails commits, before or after they have been applied.
type flaky struct {
	store.Store
	mu     sync.Mutex
	before int // commits to fail without applying them
	after  int // commits to apply and then lose the answer of
}

func (s *flaky) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
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

func (s *flaky) fail(before, after int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before, s.after = before, after
}

func TestARunOutlastsAStoreThatFailsForAWhile(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		before, after int
	}{{"refused", 3, 0}, {"answer lost", 0, 1}, {"both", 2, 2}} {
		for _, at := range []string{"chunk", "step", "end"} {
			t.Run(test.name+" at the "+at, func(t *testing.T) {
				t.Parallel()
				s := &flaky{Store: inmem.New()}
				var steps atomic.Int64
				e := start(t, engine.Config{Store: s, FlushInterval: time.Millisecond, Handler: func(ctx context.Context, turn *engine.Turn) error {
					trouble := func(here string) {
						if here == at {
							s.fail(test.before, test.after)
						}
					}
					w := turn.Artifact("a")
					trouble("chunk")
					_, _ = w.WriteString("one ")
					_ = turn.Flush()
					_, _ = w.WriteString("two")
					trouble("step")
					if _, err := turn.Step(ctx, "s", func(context.Context) ([]byte, error) { steps.Add(1); return nil, nil }); err != nil {
						return err
					}
					trouble("end")
					return turn.Reply(a2a.TextPart{Text: "done"})
				}})
				task := settled(t, e, send(t, e, text("a")).Key.ID)
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

// A poison task takes its process down; innocent tasks run beside it each time.
func TestTheInnocentAreNotFailedWithThePoison(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := inmem.New()
		const attempts = 3
		ids := make(map[string]string)
		for _, name := range []string{"a", "poison", "z"} {
			message := text(name).Message
			key := store.Key{Owner: alice.ID, ID: newID()}
			ids[name] = key.ID
			commit(t, s, store.Change{
				Key: key, Create: &store.Create{ContextID: newID()},
				Events: []store.Event{{Time: store.Time(time.Now()), State: a2a.StateSubmitted, Received: &message}},
				Run:    &store.Run{Phase: store.PhaseQueued, Turn: 1},
			})
		}
		for range attempts - 1 { // processes that the poison took down, with all three running
			claimed, err := s.Claim(t.Context(), store.ClaimParams{Worker: newID(), Limit: 10, Takeover: true, Now: time.Now(), Event: store.Event{State: a2a.StateWorking}})
			if err != nil || len(claimed) != 3 {
				t.Fatalf("Claim() = %v, %v", claimed, err)
			}
		}
		// Processes, each of which dies once the poison runs; the next takes over.
		for range 3 {
			process := &mortal{Store: s}
			dies := make(chan struct{}, 10)
			e := start(t, engine.Config{Store: process, MaxAttempts: attempts, HandlerGrace: time.Millisecond, Handler: func(ctx context.Context, turn *engine.Turn) error {
				if turn.Messages()[0].Text() == "poison" {
					process.dead.Store(true)
					dies <- struct{}{}
					<-ctx.Done()
					return ctx.Err()
				}
				time.Sleep(50 * time.Millisecond) // innocent, and slower than the poison
				return nil
			}})
			poison := settledOr(t, e, ids["poison"], dies)
			if !poison.Status.State.Terminal() {
				continue
			}
			wantState(t, poison, a2a.StateFailed)
			for _, name := range []string{"a", "z"} {
				if got := settled(t, e, ids[name]); got.Status.State != a2a.StateCompleted {
					t.Errorf("%s ended %s (%s), want it completed", name, got.Status.State, got.Status.Message.Text())
				}
			}
			return
		}
		t.Error("the poison task was never quarantined")
	})
}

// settledOr returns a task when it is over, or as it stands when the process that
// runs it has died.
func settledOr(t *testing.T, e *engine.Engine, id string, dies <-chan struct{}) *store.Task {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	go func() {
		select {
		case <-dies:
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

// mortal is a process's view of a store: once it is dead nothing gets through.
type mortal struct {
	store.Store
	dead atomic.Bool
}

var errDead = a2a.Errorf(a2a.CodeInternal, "the process is dead")

func (s *mortal) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	if s.dead.Load() {
		return nil, errDead
	}
	return s.Store.Commit(ctx, changes...)
}

func (s *mortal) Claim(ctx context.Context, p store.ClaimParams) ([]*store.Task, error) {
	if s.dead.Load() {
		return nil, errDead
	}
	return s.Store.Claim(ctx, p)
}

func (s *mortal) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) ([]store.Key, error) {
	if s.dead.Load() {
		return nil, errDead
	}
	return s.Store.Renew(ctx, until, leases)
}

// A lease may be longer than any delay: it is not one of a clock set back.
func TestALongLeaseIsNotTakenForOneOfAnotherTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := inmem.New()
		started, release := make(chan struct{}, 10), make(chan struct{})
		cfg := engine.Config{
			Store: replicas{shared}, Lease: 10 * time.Second, Poll: 10 * time.Millisecond, RetryDelay: time.Millisecond, RetryDelayMax: 10 * time.Millisecond,
			Handler: func(context.Context, *engine.Turn) error {
				started <- struct{}{}
				<-release
				return nil
			},
		}
		e1 := start(t, cfg)
		task := send(t, e1, text("a"))
		<-started
		start(t, cfg)
		select {
		case <-started:
			t.Error("the task was taken from the replica that runs it")
		case <-time.After(15 * time.Second):
		}
		close(release)
		settled(t, e1, task.Key.ID)
	})
}

// Suspects that wait for their turn leave room for everybody else.
func TestSuspectsDoNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := inmem.New()
		const attempts = 2
		for range 12 {
			message := text("poison").Message
			commit(t, s, store.Change{
				Key: store.Key{Owner: alice.ID, ID: newID()}, Create: &store.Create{ContextID: newID()},
				Events: []store.Event{{Time: store.Time(time.Now()), State: a2a.StateSubmitted, Received: &message}},
				Run:    &store.Run{Phase: store.PhaseQueued, Turn: 1},
			})
		}
		for range attempts - 1 { // a process that died with all of them
			if _, err := s.Claim(t.Context(), store.ClaimParams{Worker: newID(), Limit: 100, Takeover: true, Now: time.Now(), Event: store.Event{State: a2a.StateWorking}}); err != nil {
				t.Fatal(err)
			}
		}
		e := start(t, engine.Config{Store: s, Concurrency: 4, MaxAttempts: attempts, Poll: 10 * time.Millisecond, Handler: func(ctx context.Context, turn *engine.Turn) error {
			if turn.Messages()[0].Text() == "poison" {
				<-ctx.Done()
			}
			return ctx.Err()
		}})
		started := time.Now()
		wantState(t, sendWait(t, e, text("innocent")), a2a.StateCompleted)
		if took := time.Since(started); took > 10*time.Second { // twelve poison tasks, two seconds apart, take 24
			t.Errorf("a task that is no poison took %s", took)
		}
	})
}
