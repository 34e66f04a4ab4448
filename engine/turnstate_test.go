package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/board/boards"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/states"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// stateOf returns the JSON of a context's state.
func sessionState(t *testing.T, s store.Records, contextID string) string {
	t.Helper()
	m, err := memory.NewShortTerm(memory.ShortTermConfig{Records: store.NewUpdater(s)})
	if err != nil {
		t.Fatal(err)
	}
	st, err := m.Get(t.Context(), memory.Key{Owner: alice.ID, Agent: "agent", Session: contextID})
	if err != nil {
		t.Fatalf("Get() = %v", err)
	}
	raw, err := json.Marshal(st.Values)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func boardsOf(t *testing.T, s store.Records, contextID string) []board.Board {
	t.Helper()
	b, err := board.New(board.Config{Records: store.NewUpdater(s)})
	if err != nil {
		t.Fatal(err)
	}
	all, err := b.List(t.Context(), alice.ID, contextID)
	if err != nil {
		t.Fatalf("List() = %v", err)
	}
	return all
}

// sendIn sends a message that starts a task in a context and waits for it.
func sendIn(t *testing.T, e *engine.Engine, contextID string) *store.Task {
	t.Helper()
	m := message("go")
	m.Message.ContextID = contextID
	return sendWith(t, e, m, engine.SendOptions{Wait: true})
}

func sendWith(t *testing.T, e *engine.Engine, m a2a.MessageSendParams, opts engine.SendOptions) *store.Task {
	t.Helper()
	sent, err := e.Send(t.Context(), alice, m, opts)
	if err != nil {
		t.Fatalf("Send() = %v", err)
	}
	return sent.Task
}

func TestStateAndBoardsOfATurn(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, _ string, s store.Store) {
		e := start(t, engine.Config{Store: s, Handler: func(ctx context.Context, turn *engine.Turn) error {
			st, b := states.For(turn.Contracts()), boards.For(turn.Contracts())
			before, err := st.Get(ctx)
			if err != nil {
				return err
			}
			n, _ := before.Values["n"].(float64)
			patch := st.Update(ctx, map[string]any{"n": n + 1, "gone": true})
			again := st.Update(ctx, map[string]any{"gone": nil})
			after, err := st.Get(ctx)
			if err = errors.Join(patch, again, err); err != nil {
				return err
			}
			if after.Version != before.Version+1 || len(after.Values) != 1 {
				return fmt.Errorf("state after its changes = %+v, before %+v", after, before)
			}
			root, err := b.Root(ctx)
			if errors.Is(err, board.ErrNotFound) {
				root, err = b.Create(ctx, boards.Params{Label: "plan"}, "read", "write")
			}
			if err != nil {
				return err
			}
			task := root.Tasks[int(n)].ID
			if _, err := b.SetStatus(ctx, root.ID, task, board.Succeeded, ""); !errors.Is(err, board.ErrMove) {
				return fmt.Errorf("forbidden move = %w", err)
			}
			if _, err = b.SetStatus(ctx, root.ID, task, board.InProgress, ""); err != nil {
				return err
			}
			_, err = b.SetStatus(ctx, root.ID, task, board.Succeeded, fmt.Sprint("turn ", n))
			return err
		}})
		contextID := newID()
		for range 2 {
			if task := sendIn(t, e, contextID); task.Status.State != a2a.StateCompleted {
				t.Fatalf("task is %s: %s", task.Status.State, task.Status.Message.Text())
			}
		}
		if got := sessionState(t, s, contextID); got != `{"n":2}` {
			t.Errorf("state = %s, want n 2", got)
		}
		boards := boardsOf(t, s, contextID)
		if len(boards) != 1 || boards[0].Version != 5 || boards[0].Tasks[1].Status != board.Succeeded || boards[0].Tasks[1].Note != "turn 1" {
			t.Errorf("boards = %+v", boards)
		}
	})
}

func TestStateOfAnotherContextOrOwnerIsSeparate(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	e := start(t, engine.Config{Store: s, Handler: func(ctx context.Context, turn *engine.Turn) error {
		if b, err := boards.For(turn.Contracts()).Create(ctx, boards.Params{}); err != nil {
			return err
		} else if text := turn.Messages()[0].Text(); text != "go" {
			if _, err := boards.For(turn.Contracts()).Get(ctx, text); !errors.Is(err, board.ErrNotFound) {
				return fmt.Errorf("board of another context = %w", err)
			}
		} else {
			return turn.Reply(a2a.TextPart{Text: b.ID})
		}
		return states.For(turn.Contracts()).Update(ctx, map[string]any{turn.TaskID(): true})
	}})
	first := sendIn(t, e, newID())
	if first.Status.State != a2a.StateCompleted {
		t.Fatalf("task is %s: %s", first.Status.State, first.Status.Message.Text())
	}
	m := message(first.Status.Message.Text())
	second := sendWith(t, e, m, engine.SendOptions{Wait: true})
	if second.Status.State != a2a.StateCompleted {
		t.Errorf("task is %s: %s", second.Status.State, second.Status.Message.Text())
	}
	if got := sessionState(t, s, first.ContextID); got != "null" {
		t.Errorf("state of the first context = %s, want none", got)
	}
	if got := sessionState(t, s, second.ContextID); got != fmt.Sprintf(`{"%s":true}`, second.Key.ID) {
		t.Errorf("state of the second context = %s", got)
	}
}

// A turn that reads and writes its state costs no commit more than one that does not.
func TestStateJoinsTheCommitOfTheTurn(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	commits, steps := 0, 0
	s := storetest.Intercept(inmem.New(), func(ctx context.Context, c storetest.Call, do func(context.Context) error) error {
		mu.Lock()
		for i := range c.Changes {
			commits++
			steps += len(c.Changes[i].Steps)
		}
		mu.Unlock()
		return do(ctx)
	})
	e := start(t, engine.Config{Store: s, Turns: engine.Turns{FlushInterval: time.Hour}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		if _, err := states.For(turn.Contracts()).Get(ctx); err != nil {
			return err
		}
		return states.For(turn.Contracts()).Update(ctx, map[string]any{"a": 1})
	}})
	task := sendIn(t, e, newID())
	if got := sessionState(t, s, task.ContextID); got != `{"a":1}` {
		t.Errorf("state = %s", got)
	}
	mu.Lock()
	defer mu.Unlock()
	if commits != 2 || steps != 0 {
		t.Errorf("%d commits with %d steps, want 2 without steps", commits, steps)
	}
}

// Tasks of one context that run at the same time lose no change.
func TestConcurrentTasksOfAContextKeepTheirChanges(t *testing.T) {
	t.Parallel()
	onAllStores(t, func(t *testing.T, _ string, s store.Store) {
		const tasks = 8
		contextID := newID()
		started := make(chan struct{})
		var waiting sync.WaitGroup
		waiting.Add(tasks)
		e := start(t, engine.Config{Store: s, Turns: engine.Turns{FlushInterval: time.Millisecond}, Handler: func(ctx context.Context, turn *engine.Turn) error {
			waiting.Done()
			<-started
			for i := range 5 {
				if err := states.For(turn.Contracts()).Update(ctx, map[string]any{fmt.Sprint(turn.TaskID(), i): i}); err != nil {
					return err
				}
				root, err := boards.For(turn.Contracts()).OpenRoot(ctx, boards.Params{})
				if err != nil {
					return err
				}
				if added, err := boards.For(turn.Contracts()).AddTasks(ctx, root.ID, turn.TaskID()); err != nil || added[0].Title != turn.TaskID() {
					return fmt.Errorf("added %+v, %w", added, err)
				}
			}
			return nil
		}})
		var clients sync.WaitGroup
		for range tasks {
			clients.Go(func() {
				m := message("go")
				m.Message.ContextID = contextID
				sent, err := e.Send(t.Context(), alice, m, engine.SendOptions{Wait: true})
				if err != nil || sent.Task.Status.State != a2a.StateCompleted {
					t.Errorf("Send() = %+v, %v, want a completed task", sent, err)
				}
			})
		}
		waiting.Wait()
		close(started)
		clients.Wait()
		var values map[string]int
		if err := json.Unmarshal([]byte(sessionState(t, s, contextID)), &values); err != nil || len(values) != tasks*5 {
			t.Errorf("state has %d members, %v, want %d", len(values), err, tasks*5)
		}
		if all := boardsOf(t, s, contextID); len(all) != 1 || len(all[0].Tasks) != tasks*5 {
			t.Errorf("%d boards with %d tasks in the first, want 1 with %d", len(all), len(all[0].Tasks), tasks*5)
		}
	})
}

// Changes that a handler makes while a commit is in progress are part of the next one.
func TestChangesDuringACommitAreKept(t *testing.T) {
	t.Parallel()
	inCommit, changed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	inner := inmem.New()
	s := storetest.Intercept(inner, func(ctx context.Context, c storetest.Call, do func(context.Context) error) error {
		if len(c.Changes) == 1 && len(c.Changes[0].Records) > 0 {
			once.Do(func() {
				close(inCommit)
				<-changed
			})
		}
		return do(ctx)
	})
	e := start(t, engine.Config{Store: s, Turns: engine.Turns{FlushInterval: time.Millisecond}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		if err := states.For(turn.Contracts()).Update(ctx, map[string]any{"a": 1}); err != nil {
			return err
		}
		<-inCommit
		err := states.For(turn.Contracts()).Update(ctx, map[string]any{"b": 2})
		got, gerr := states.For(turn.Contracts()).Get(ctx)
		close(changed)
		if len(got.Values) != 2 {
			return fmt.Errorf("state with its changes = %v", got.Values)
		}
		return errors.Join(err, gerr)
	}})
	task := sendIn(t, e, newID())
	if got := sessionState(t, inner, task.ContextID); got != `{"a":1,"b":2}` || task.Status.State != a2a.StateCompleted {
		t.Errorf("task is %s: %s, state = %s", task.Status.State, task.Status.Message.Text(), got)
	}
}

// A cancel keeps the changes that are committed, in their order, and drops the others.
func TestCancelKeepsAPrefixOfTheChanges(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		for after := range 12 {
			contextID := newID()
			reached := make(chan struct{})
			e := start(t, engine.Config{Store: s, Turns: engine.Turns{FlushInterval: time.Millisecond}, Handler: func(ctx context.Context, turn *engine.Turn) error {
				b, err := boards.For(turn.Contracts()).Create(ctx, boards.Params{})
				for i := 0; err == nil; i++ {
					if i == after {
						close(reached)
					}
					if i == after+50 { // before the board is full
						<-ctx.Done()
						return context.Cause(ctx)
					}
					if err = states.For(turn.Contracts()).Update(ctx, map[string]any{"n": i}); err == nil {
						_, err = boards.For(turn.Contracts()).AddTasks(ctx, b.ID, fmt.Sprint(i))
					}
				}
				return err
			}})
			m := message("go")
			m.Message.ContextID = contextID
			task := send(t, e, m)
			<-reached
			if _, err := e.Cancel(t.Context(), alice, task.Key.ID, engine.SendOptions{}); err != nil {
				t.Fatalf("Cancel() = %v", err)
			}
			stop(t, e)
			tasks := boardsOf(t, s, contextID)[0].Tasks
			for i, item := range tasks {
				if item.Title != fmt.Sprint(i) {
					t.Errorf("task %d of the board is %s", i, item.Title)
				}
			}
			var state struct{ N int }
			state.N = -1
			if err := json.Unmarshal([]byte(sessionState(t, s, contextID)), &state); err != nil {
				t.Error(err)
			}
			if n := state.N + 1; n != len(tasks) && n != len(tasks)+1 || len(tasks) < after {
				t.Errorf("canceled after %d changes: %d changes of the state and %d of the board", after, n, len(tasks))
			}
		}
	})
}

// A worker that has lost its lease changes nothing more.
func TestChangesOfALostLeaseAreRejected(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	contextID := newID()
	waiting, resumed := make(chan struct{}), make(chan error, 1)
	first := start(t, engine.Config{Store: s, Turns: engine.Turns{FlushInterval: time.Hour, HandlerGrace: time.Minute}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		if err := states.For(turn.Contracts()).Update(ctx, map[string]any{"first": true}); err != nil {
			return err
		}
		if _, err := boards.For(turn.Contracts()).Create(ctx, boards.Params{}); err != nil {
			return err
		}
		if err := states.For(turn.Contracts()).Update(ctx, map[string]any{"lost": true}); err != nil {
			return err
		}
		close(waiting)
		<-ctx.Done()
		_, err := states.For(turn.Contracts()).Replace(context.WithoutCancel(ctx), map[string]any{"replaced": true}, 1)
		resumed <- err
		return err
	}})
	m := message("go")
	m.Message.ContextID = contextID
	task := send(t, first, m)
	<-waiting
	second := start(t, engine.Config{Store: newProcess(s, 0, false), Turns: engine.Turns{Poll: time.Millisecond}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		if err := states.For(turn.Contracts()).Update(ctx, map[string]any{"first": true}); err != nil {
			return err
		}
		if _, err := boards.For(turn.Contracts()).Create(ctx, boards.Params{}); err != nil {
			return err
		}
		got, err := states.For(turn.Contracts()).Get(ctx)
		if err != nil {
			return err
		}
		return states.For(turn.Contracts()).Update(ctx, map[string]any{"second": len(got.Values)})
	}})
	if done := waitFinal(t, second, task.Key.ID); done.Status.State != a2a.StateCompleted {
		t.Errorf("task is %s: %s", done.Status.State, done.Status.Message.Text())
	}
	stop(t, first)
	if err := <-resumed; !errors.Is(err, engine.ErrLeaseLost) {
		t.Errorf("Replace() after the lease was lost = %v, want ErrLeaseLost", err)
	}
	if got := sessionState(t, s, contextID); got != `{"first":true,"second":1}` {
		t.Errorf("state = %s, want the committed change of the first attempt and the change of the second", got)
	}
}

func TestAnAttemptWithOtherCallsFails(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Store: inmem.New(), Turns: engine.Turns{RetryDelay: time.Millisecond}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		if turn.Attempt() > 1 {
			_, err := boards.For(turn.Contracts()).List(ctx)
			return err
		}
		if err := states.For(turn.Contracts()).Update(ctx, map[string]any{"a": 1}); err != nil {
			return err
		}
		return engine.Retry(errors.New("again"))
	}})
	task := sendIn(t, e, newID())
	if want := "call 1 on the agent's data, such as its state, differs from the one of an earlier attempt; each attempt must make the same calls in the same order"; task.Status.State != a2a.StateFailed || task.Status.Message.Text() != want {
		t.Errorf("task is %s: %s, want failed: %s", task.Status.State, task.Status.Message.Text(), want)
	}
}

// A patch that no longer fits after a concurrent change fails the task instead of being lost.
func TestAPatchThatDoesNotFitFailsTheTask(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	half := strings.Repeat("x", memory.MaxStateBytes*2/3)
	key := memory.Key{Owner: alice.ID, Agent: "agent", Session: newID()}
	m, err := memory.NewShortTerm(memory.ShortTermConfig{Records: store.NewUpdater(s)})
	if err != nil {
		t.Fatal(err)
	}
	e := start(t, engine.Config{Store: s, Turns: engine.Turns{FlushInterval: time.Hour}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		if err := states.For(turn.Contracts()).Update(ctx, map[string]any{"a": half}); err != nil {
			return err
		}
		_, err := m.Update(ctx, key, map[string]any{"b": half}, memory.AnyVersion)
		return err
	}})
	if task := sendIn(t, e, key.Session); task.Status.State != a2a.StateFailed {
		t.Errorf("task is %s, want failed", task.Status.State)
	}
	st, err := m.Get(t.Context(), key)
	if err != nil || len(st.Values) != 1 || st.Values["b"] != half {
		t.Errorf("state has %d members, %v, want the one of the other writer", len(st.Values), err)
	}
}

func TestClearingAContextRemovesItsStateAndBoards(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		e := start(t, engine.Config{Store: s, Handler: func(ctx context.Context, turn *engine.Turn) error {
			for range 2 {
				if _, err := boards.For(turn.Contracts()).Create(ctx, boards.Params{}); err != nil {
					return err
				}
			}
			return states.For(turn.Contracts()).Update(ctx, map[string]any{"a": 1})
		}})
		cleared, kept := sendIn(t, e, newID()).ContextID, sendIn(t, e, newID()).ContextID
		if _, err := e.ClearContext(t.Context(), alice, a2a.ClearContextParams{ContextID: cleared}, engine.SendOptions{}); err != nil {
			t.Fatalf("ClearContext() = %v", err)
		}
		if state, boards := sessionState(t, s, cleared), boardsOf(t, s, cleared); state != "null" || len(boards) != 0 {
			t.Errorf("cleared context has state %s and %d boards", state, len(boards))
		}
		if state, boards := sessionState(t, s, kept), boardsOf(t, s, kept); state != `{"a":1}` || len(boards) != 2 {
			t.Errorf("other context has state %s and %d boards", state, len(boards))
		}
	})
}

func TestStateExpiresAfterItsAge(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	e := start(t, engine.Config{Store: s, Retention: engine.Retention{states.Retention: time.Hour}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		return states.For(turn.Contracts()).Update(ctx, map[string]any{"a": 1})
	}})
	sendIn(t, e, newID())
	page, err := s.Records(t.Context(), store.RecordQuery{Owner: alice.ID, Limit: 9})
	if err != nil || len(page.Records) != 1 {
		t.Fatalf("Records() = %+v, %v", page, err)
	}
	if left := time.Until(page.Records[0].Expires); left < 50*time.Minute || left > time.Hour {
		t.Errorf("state expires in %s, want an hour", left)
	}
}

// Each turn that runs under the same lease has calls of its own.
func TestTurnsUnderOneLeaseChangeTheState(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, s store.Store) {
		started, sent := make(chan struct{}), make(chan struct{})
		e := start(t, engine.Config{Store: s, Handler: func(ctx context.Context, turn *engine.Turn) error {
			if turn.Number() == 1 {
				close(started)
				<-sent
			}
			before, err := states.For(turn.Contracts()).Get(ctx)
			if err != nil {
				return err
			}
			return states.For(turn.Contracts()).Update(ctx, map[string]any{fmt.Sprint(turn.Number()): len(before.Values)})
		}})
		task := send(t, e, message("one"))
		<-started
		send(t, e, messageTo(task.Key.ID, "two"))
		close(sent)
		task = waitFinal(t, e, task.Key.ID)
		if got := sessionState(t, s, task.ContextID); got != `{"1":0,"2":1}` {
			t.Errorf("state = %s, want a change of each turn", got)
		}
	})
}

// Large reads are recorded without a change, so that the next commit with a change stays small.
func TestLargeReadsAreRecorded(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	key := memory.Key{Owner: alice.ID, Agent: "agent", Session: newID()}
	m, err := memory.NewShortTerm(memory.ShortTermConfig{Records: store.NewUpdater(s)})
	if err != nil {
		t.Fatal(err)
	}
	large := strings.Repeat("x", memory.MaxStateBytes*3/4)
	if _, err := m.Set(t.Context(), key, map[string]any{"large": large}, memory.AnyVersion); err != nil {
		t.Fatal(err)
	}
	const reads = 7 // more than 1 MiB
	e := start(t, engine.Config{Store: s, Turns: engine.Turns{RetryDelay: time.Millisecond, FlushInterval: time.Hour}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		for i := range reads + 1 {
			got, err := states.For(turn.Contracts()).Get(ctx)
			if err != nil {
				return err
			}
			if want := i < reads; (got.Values["large"] == large) != want {
				return fmt.Errorf("read %d of attempt %d has %d members, want the large one: %t", i, turn.Attempt(), len(got.Values), want)
			}
			if i == reads-1 && turn.Attempt() == 1 {
				if err := turn.Flush(); err != nil {
					return err
				}
				if _, err := m.Set(ctx, key, map[string]any{"small": 1}, memory.AnyVersion); err != nil {
					return err
				}
				return engine.Retry(errors.New("again"))
			}
		}
		return nil
	}})
	if task := sendIn(t, e, key.Session); task.Status.State != a2a.StateCompleted {
		t.Errorf("task is %s: %s", task.Status.State, task.Status.Message.Text())
	}
}

func TestExpiredRecordsAreRemovedLater(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	now := time.Now()
	for key, age := range map[string]time.Duration{"old": 2 * time.Hour, "expired": 30 * time.Minute, "later": -time.Hour} {
		if err := s.SaveRecords(t.Context(), alice.ID, store.RecordChange{Namespace: "n", Key: key, Expires: now.Add(-age)}); err != nil {
			t.Fatal(err)
		}
	}
	e := start(t, engine.Config{Store: s, Handler: replyHandler})
	await.True(t, "the old record is removed", func() bool { return e.Health(t.Context()).Expired.Records == 1 })
	page, err := s.Records(t.Context(), store.RecordQuery{Owner: alice.ID, Limit: 9})
	if err != nil || len(page.Records) != 2 || page.Records[0].Key.Key != "expired" {
		t.Errorf("Records() = %+v, %v, want those that expired less than an hour ago or later", page, err)
	}
}
