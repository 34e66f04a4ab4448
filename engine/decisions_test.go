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
	newTurn := func(id string, at time.Time, number, calls int) *Turn {
		return &Turn{
			task:  &store.Task{Key: store.Key{Owner: "alice", ID: id}, CreatedAt: at},
			entry: store.QueueEntry{Turn: number}, calls: map[string]int{"": calls},
		}
	}
	first := newTurn("a", created, 1, 0)
	inStep := context.WithValue(t.Context(), stepScopeKey{}, &stepScope{t: first, name: "s"})
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
			return turn.State().Update(ctx, map[string]any{"a": 1})
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
