package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/history/historysql"
	"github.com/holdfast-dev/holdfast/store/history/transcripts"
	"github.com/holdfast-dev/holdfast/store/memory/states"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// newIdle returns an engine that was not started.
func newIdle(t *testing.T) *Engine {
	t.Helper()
	e, err := New(Config{Store: inmem.New(), NewID: t.Name, Handler: func(context.Context, *Turn) error { return nil }})
	if err != nil {
		t.Fatalf("New() = %v", err)
	}
	return e
}

func TestReservedSlotsAreNotUsedDuringAClaim(t *testing.T) {
	t.Parallel()
	s := newSlots(4, 2)
	if n, _ := s.acquireAny(2, true); n != 2 {
		t.Fatalf("acquireAny(2) = %d, want 2", n)
	}
	if s.acquireFor("alice", false) {
		t.Error("acquireFor() during a claim = true, want false: the claim may assign its slots to the same owner")
	}
	s.returnUnused(1)
	s.assign("bob")
	if !s.acquireFor("alice", false) {
		t.Error("acquireFor() after the claim = false, want true")
	}
}

func TestOwnerAtItsLimitGetsNoReservedSlot(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		busy    int // slots of alice before
		free    int
		waiting bool
		want    bool
	}{
		{busy: 0, free: 17, want: true},
		{busy: 2, free: 17, want: true}, // one slot is not reserved
		{busy: 2, free: 17, waiting: true, want: false},
		{busy: 1, free: 17, waiting: true, want: true},
		{busy: 1, free: 16, want: true},
		{busy: 2, free: 16, want: false},
		{busy: 1, free: 0, want: false},
	} {
		s := newSlots(test.free, 16) // an owner with two slots gets no reserved one
		s.busy["alice"] = test.busy
		if got := s.acquireFor("alice", test.waiting); got != test.want {
			t.Errorf("acquireFor() with %+v = %t, want %t", test, got, test.want)
		}
	}
}

// The key of a write to another store is the same in each attempt, and differs for each other call.
func TestOnceKeyIdentifiesTheCall(t *testing.T) {
	t.Parallel()
	created := time.Unix(1, 0)
	newTurn := func(id string, at time.Time, number, calls int) *turnRecords {
		return &turnRecords{t: &Turn{
			task:  &store.Task{Key: store.Key{Owner: "alice", ID: id}, CreatedAt: at},
			entry: store.QueueEntry{Turn: number}, calls: callNumbers{next: map[string]int{"": calls}},
		}}
	}
	first := newTurn("a", created, 1, 0)
	inStep := context.WithValue(t.Context(), stepScopeKey{}, &stepScope{t: first.t, name: "s"})
	keys := map[string]string{first.onceKey(t.Context()): "the first call"}
	if got := newTurn("a", created, 1, 0).onceKey(t.Context()); keys[got] == "" {
		t.Errorf("onceKey() in another attempt = %q, want the key of the first call", got)
	}
	for name, got := range map[string]string{
		"another task":     newTurn("b", created, 1, 0).onceKey(t.Context()),
		"a recreated task": newTurn("a", created.Add(time.Second), 1, 0).onceKey(t.Context()),
		"another turn":     newTurn("a", created, 2, 0).onceKey(t.Context()),
		"another call":     newTurn("a", created, 1, 1).onceKey(t.Context()),
		"a call in a step": first.onceKey(inStep),
	} {
		if keys[got] != "" {
			t.Errorf("onceKey() of %s = the key of %s", name, keys[got])
		}
		keys[got] = name
	}
}

func TestStepOfAnotherTurnIsNoScope(t *testing.T) {
	t.Parallel()
	first, second := new(Turn), new(Turn)
	scope, ctx := first.enterStep(t.Context(), "s")
	if got := first.scopeOf(ctx); got != scope {
		t.Errorf("scopeOf() of the turn = %p, want its step", got)
	}
	if got := second.scopeOf(ctx); got != nil {
		t.Errorf("scopeOf() of another turn = %+v, want none", got)
	}
}

func TestWriteWithAnUnknownOutcomeIsOnlyRepeated(t *testing.T) {
	t.Parallel()
	failed := &directWrite{op: "facts.save", args: "x", started: true}
	for _, test := range []struct {
		name    string
		pending *directWrite
		next    *directWrite
		refused bool
	}{
		{"no pending write", nil, nil, false},
		{"the same call", failed, &directWrite{op: "facts.save", args: "x"}, false},
		{"other arguments", failed, &directWrite{op: "facts.save", args: "y"}, true},
		{"another operation", failed, &directWrite{op: "facts.delete", args: "x"}, true},
		{"a read", failed, nil, true},
		{"arguments that cannot be compared", &directWrite{op: "blobs.put"}, &directWrite{op: "blobs.put"}, true},
		{"the same call at the same time", &directWrite{op: "facts.save", args: "x", inFlight: true}, &directWrite{op: "facts.save", args: "x"}, true},
	} {
		if err := test.pending.refuses(test.next); (err != nil) != test.refused {
			t.Errorf("refuses(%s) = %v, want an error: %t", test.name, err, test.refused)
		}
	}
}

// waitCase changes a task while a caller waits for its final state after event 3.
type waitCase struct {
	name  string
	tasks []*store.Task // versions that are published one after another
	want  int64         // the version that the caller gets; 0 for task_not_found
}

func TestWaitReturnsTheFirstFinalStateAfterTheMessage(t *testing.T) {
	t.Parallel()
	key := store.Key{Owner: "alice", ID: "a"}
	task := func(seq int64, state a2a.TaskState, created int64) *store.Task {
		return &store.Task{Key: key, Seq: seq, CreatedAt: time.Unix(created, 0), Status: a2a.TaskStatus{State: state}}
	}
	for _, test := range []waitCase{
		{"the message continues a paused task", []*store.Task{task(3, a2a.StateSubmitted, 1), task(4, a2a.StateWorking, 1), task(5, a2a.StateInputRequired, 1)}, 5},
		{"the task has ended", []*store.Task{task(3, a2a.StateCompleted, 1)}, 3},
		{"the task was created again", []*store.Task{task(3, a2a.StateWorking, 1), task(4, a2a.StateCompleted, 2)}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := newIdle(t)
				l := e.hub.acquire(key)
				defer e.hub.release(l)
				l.setTask(test.tasks[0])
				got, err := make(chan *store.Task, 1), error(nil)
				go func() {
					var task *store.Task
					task, err = e.hub.wait(t.Context(), l, 3)
					got <- task
				}()
				for _, task := range test.tasks[1:] {
					synctest.Wait()
					l.setTask(task)
				}
				switch task := <-got; {
				case test.want == 0 && a2a.CodeOf(err) != a2a.CodeTaskNotFound:
					t.Errorf("wait(3) = %v, %v, want task_not_found", task, err)
				case test.want != 0 && (err != nil || task.Seq != test.want):
					t.Errorf("wait(3) = %v, %v, want version %d", task, err, test.want)
				}
			})
		})
	}
}

// Completing a deletion that is no longer pending changes nothing: the context may have been created again.
func TestFinishKeepsAContextWhoseDeletionIsNotPending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ids := 0
		s := inmem.New()
		e, err := New(Config{Store: s, NewID: func() string { ids++; return fmt.Sprint("id", ids) }, Handler: func(ctx context.Context, turn *Turn) error {
			return states.For(turn.Contracts()).Update(ctx, map[string]any{"a": 1})
		}})
		if err = errors.Join(err, e.Start(t.Context())); err != nil {
			t.Fatalf("Start() = %v", err)
		}
		defer func() { _ = e.Stop(t.Context()) }()
		message := a2a.Message{ID: "m", ContextID: "c", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: "x"}}}
		if _, err := e.Send(t.Context(), owner, a2a.MessageSendParams{Message: message}, SendOptions{Wait: true}); err != nil {
			t.Fatalf("Send() = %v", err)
		}
		records := func() int {
			page, err := s.Records(t.Context(), store.RecordQuery{Owner: owner.ID, Limit: 10})
			if err != nil {
				t.Fatalf("Records() = %v", err)
			}
			return len(page.Records)
		}
		before := records()
		removed, err := e.deletions.finish(t.Context(), store.ContextKey{Owner: owner.ID, ID: "c"})
		if after := records(); removed || err != nil || before == 0 || after != before {
			t.Errorf("finish() = %t, %v with %d records after %d, want false and no change", removed, err, after, before)
		}
	})
}

func TestNewTasksWaitBehindDueTasks(t *testing.T) {
	t.Parallel()
	d := newIdle(t).dispatcher
	for _, due := range []bool{true, false} {
		d.mayHaveDue.Store(due)
		queue, events := store.QueueEntry{Phase: store.PhaseQueued}, []store.Event(nil)
		if got := d.reserveSlot("alice", &queue, &events); got == due {
			t.Errorf("reserveSlot() while tasks are due: %t = %t, want %t", due, got, !due)
		}
	}
}

func TestQueueCountKeepsTasksThatWereQueuedDuringTheCount(t *testing.T) {
	t.Parallel()
	var q queueCount
	q.add()
	included := q.since
	q.add() // while the store counts
	q.set(10, included, time.Unix(1, 0))
	if got := q.load(); got != 11 {
		t.Errorf("load() = %d, want 11: the count and the task that was queued during it", got)
	}
}

func TestOuterStepsRecordNestedSteps(t *testing.T) {
	t.Parallel()
	turn := new(Turn)
	outer, ctx := turn.enterStep(t.Context(), "outer")
	inner, _ := turn.enterStep(ctx, "inner")
	turn.steps.count(inner, "s")
	for _, scope := range []*stepScope{outer, inner} {
		if len(scope.steps) != 1 || scope.steps[0] != "s" {
			t.Errorf("steps within %s = %q, want s", scope.name, scope.steps)
		}
	}
}

func TestMessageKeyIdentifiesIDAndContent(t *testing.T) {
	t.Parallel()
	const a, b = "0198c5a0-0000-7000-8000-000000000001", "0298c5a0-0000-7000-8000-000000000001"
	first := messageKey(a, [32]byte{1})
	if again := messageKey(a, [32]byte{1}); again != first {
		t.Errorf("messageKey(a, 1) = %q again, want %q", again, first)
	}
	if messageKey(a, [32]byte{2}) == first || messageKey(b, [32]byte{1}) == first {
		t.Errorf("messageKey() of another message = %q, want another key", first)
	}
}

// A quarantined task is charged no attempt until it starts.
func TestQuarantineSubtractsTheAttemptOfTheClaim(t *testing.T) {
	t.Parallel()
	e := newIdle(t)
	key := store.Key{Owner: "alice", ID: "a"}
	message := a2a.Message{ID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: "x"}}}
	now := store.Time(time.Now())
	results, err := e.cfg.Store.Commit(t.Context(), store.Change{
		Key: key, Create: &store.Create{ContextID: "c"}, Queue: &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1},
		Events: []store.Event{{Time: now, State: a2a.StateSubmitted, Received: &message}},
	})
	if err != nil || results[0].Err != nil {
		t.Fatalf("Commit() = %+v, %v", results, err)
	}
	var claimed []*store.Task
	for i := range e.cfg.Turns.MaxAttempts { // each claim interrupts the one before
		p := store.ClaimParams{Worker: fmt.Sprint(i), Now: now, Until: now.Add(time.Hour), Limit: 1, Takeover: true, Event: store.Event{Time: now, State: a2a.StateWorking}}
		if claimed, err = e.cfg.Store.Claim(t.Context(), p); err != nil || len(claimed) != 1 {
			t.Fatalf("Claim() = %v, %v", claimed, err)
		}
	}
	quarantined := e.dispatcher.quarantine(t.Context(), claimed)
	stored, err := e.cfg.Store.Task(t.Context(), key, store.TaskOptions{})
	if err != nil {
		t.Fatalf("Task() = %v", err)
	}
	if got, want := stored.Queue.Attempt, e.cfg.Turns.MaxAttempts-1; !quarantined[key] || got != want || claimed[0].Queue.Attempt != want {
		t.Errorf("quarantine() = %v with attempt %d, %d in the store, want the task with attempt %d", quarantined, claimed[0].Queue.Attempt, got, want)
	}
}

// After a pause of the process, nothing starts before the run knows that it still has its lease.
func TestPausedRunStartsNothingAfterItsLeaseIsLost(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(ctx context.Context, turn *Turn) error{
		"step": func(ctx context.Context, turn *Turn) error {
			_, err := turn.Step(ctx, "s", func(context.Context) ([]byte, error) {
				t.Error("the step runs")
				return nil, nil
			})
			return err
		},
		"write to another store": func(ctx context.Context, turn *Turn) error {
			return transcripts.For(turn.Contracts()).Append(ctx, history.Message{Role: "user", Body: []byte("1")})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, other := inmem.New(), inmem.New()
				ids, result := 0, make(chan error, 9)
				e, err := New(Config{
					Store: s, Contracts: Contracts{Stores: []contract.Store{transcripts.Of(historysql.Of(other))}}, NewID: func() string { ids++; return fmt.Sprint("id", ids) }, Turns: Turns{Poll: time.Hour, Lease: 4 * time.Hour},
					Handler: func(ctx context.Context, turn *Turn) error {
						queue := turn.r.out.entry()
						queue.Phase, queue.Lease.Worker = store.PhaseQueued, ""
						queue.Lease.Fence++
						results, err := s.Commit(ctx, store.Change{Key: turn.task.Key, Version: turn.task.Seq, Queue: &queue})
						if err != nil || results[0].Err != nil {
							t.Errorf("Commit() = %+v, %v", results, err)
						}
						turn.r.lease.until.Store(0) // as after a pause that was longer than the lease
						err = do(ctx, turn)
						result <- err
						return err
					},
				})
				if err = errors.Join(err, e.Start(t.Context())); err != nil {
					t.Fatalf("Start() = %v", err)
				}
				synctest.Wait()
				message := a2a.Message{ID: "m", ContextID: "c", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: "x"}}}
				if _, err := e.Send(t.Context(), owner, a2a.MessageSendParams{Message: message}, SendOptions{}); err != nil {
					t.Fatalf("Send() = %v", err)
				}
				if err := <-result; !errors.Is(err, ErrLeaseLost) {
					t.Errorf("%s after its lease is lost = %v, want %v", name, err, ErrLeaseLost)
				}
				if n, err := historysql.Of(other).Count(t.Context(), history.Key{Owner: owner.ID, Agent: e.cfg.agentKey(), Session: "c"}); n != 0 || err != nil {
					t.Errorf("Count() of the other store = %d, %v, want 0", n, err)
				}
				_ = e.Stop(t.Context())
			})
		})
	}
}

func TestDescribedContextsAreKeptByDefault(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]time.Duration{RetainDescribedContexts: 0, RetainContexts: defaultAge, RetainIdempotency: defaultAge, RetainAttempts: defaultAge} {
		if got := (Retention{}).Age(kind); got != want {
			t.Errorf("Age(%s) = %s, want %s", kind, got, want)
		}
	}
}

func TestRecentEventsHaveNoGap(t *testing.T) {
	t.Parallel()
	task := func(seq int64) *store.Task { return &store.Task{Seq: seq, CreatedAt: time.Unix(1, 0)} }
	l := &live{changed: make(chan struct{})}
	l.publish(task(2), []store.Event{{Seq: 1}, {Seq: 2}})
	if events, _, ok := l.eventsAfter(1); !ok || len(events) != 1 || events[0].Seq != 2 {
		t.Errorf("eventsAfter(1) = %v, %t, want event 2", events, ok)
	}
	l.setTask(task(5)) // events 3 to 5 are not known
	for _, seq := range []int64{1, 2, 3, 4} {
		if events, _, ok := l.eventsAfter(seq); ok {
			t.Errorf("eventsAfter(%d) = %v, want the store to be read", seq, events)
		}
	}
}

// A failed deletion of a context does not keep others from being deleted.
func TestFinishAllContinuesAfterAFailure(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	for _, id := range []string{"a", "b"} {
		now := store.Time(time.Now())
		c := store.Context{Key: store.ContextKey{Owner: "alice", ID: id}, Status: a2a.ContextActive, Role: store.DefaultContextRole, CreatedAt: now, UpdatedAt: now}
		if _, err := s.SaveContext(t.Context(), store.ContextChange{Context: c, Create: true}); err != nil {
			t.Fatalf("SaveContext() = %v", err)
		}
		if _, err := s.DeleteContext(t.Context(), "alice", id, 0); err != nil {
			t.Fatalf("DeleteContext() = %v", err)
		}
	}
	e, err := New(Config{
		Store: storetest.Faulty(s, storetest.FailCall("FinishDelete", 1, storetest.FailBefore)), NewID: t.Name,
		Handler: func(context.Context, *Turn) error { return nil },
	})
	if err != nil {
		t.Fatalf("New() = %v", err)
	}
	e.deletions.finishAll(t.Context(), func() {})
	if pending, err := s.PendingDeletions(t.Context(), 10); err != nil || len(pending) != 1 {
		t.Errorf("PendingDeletions() after a pass in which one deletion failed = %v, %v, want one", pending, err)
	}
}
