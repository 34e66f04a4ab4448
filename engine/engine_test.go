package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/store"
)

var alice = a2a.Principal{ID: "alice"}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// start starts an engine that is stopped at the end of the test.
func start(t *testing.T, cfg engine.Config) *engine.Engine {
	t.Helper()
	if cfg.Store == nil {
		cfg.Store = inmem.New()
	}
	cfg.NewID = newID
	e, err := engine.New(cfg)
	if err != nil {
		t.Fatalf("New() = %v", err)
	}
	if err := e.Start(t.Context()); err != nil {
		t.Fatalf("Start() = %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if err := e.Stop(ctx); err != nil {
			t.Errorf("Stop() = %v", err)
		}
	})
	return e
}

func message(s string) a2a.MessageSendParams {
	return a2a.MessageSendParams{Message: a2a.Message{
		ID: newID(), Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: s}},
	}}
}

func messageTo(taskID, s string) a2a.MessageSendParams {
	p := message(s)
	p.Message.TaskID = taskID
	return p
}

func send(t *testing.T, e *engine.Engine, params a2a.MessageSendParams) *store.Task {
	t.Helper()
	sent, err := e.Send(t.Context(), alice, params, engine.SendOptions{})
	if err != nil {
		t.Fatalf("Send() = %v", err)
	}
	return sent.Task
}

func sendWait(t *testing.T, e *engine.Engine, params a2a.MessageSendParams) *store.Task {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	sent, err := e.Send(ctx, alice, params, engine.SendOptions{Wait: true})
	if err != nil {
		t.Fatalf("Send(wait) = %v", err)
	}
	return sent.Task
}

// waitFinal follows a task to the end of its stream and returns it.
func waitFinal(t *testing.T, e *engine.Engine, id string) *store.Task {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	var after int64
	for _, err := range e.Follow(ctx, alice, id, &after) {
		if err != nil {
			t.Fatalf("Follow(%s) = %v", id, err)
		}
	}
	task, err := e.Task(t.Context(), alice, id, nil)
	if err != nil {
		t.Fatalf("Task(%s) = %v", id, err)
	}
	if !task.Status.State.Final() {
		t.Fatalf("task %s is %s after its stream, want a final state", id, task.Status.State)
	}
	return task
}

func wantState(t *testing.T, task *store.Task, want a2a.TaskState) {
	t.Helper()
	if task.Status.State != want {
		said := ""
		if task.Status.Message != nil {
			said = task.Status.Message.Text()
		}
		t.Fatalf("task state = %s (%s), want %s", task.Status.State, said, want)
	}
}

// checkLog checks the invariants of a finished log and returns its events.
func checkLog(t *testing.T, s store.Store, key store.Key) []store.Event {
	t.Helper()
	events, err := s.Events(t.Context(), key, 0, 100_000)
	if err != nil {
		t.Fatalf("Events() = %v", err)
	}
	state := a2a.TaskState("")
	for i, e := range events {
		if e.Seq != int64(i+1) {
			t.Fatalf("event %d has seq %d", i, e.Seq)
		}
		if state != "" && !state.CanMove(e.State) {
			t.Fatalf("event %d moves %s to %s", e.Seq, state, e.State)
		}
		state = e.State
	}
	return events
}

func replyHandler(ctx context.Context, t *engine.Turn) error {
	w := t.Artifact("answer")
	if _, err := w.WriteString("you said: " + t.Messages()[0].Text()); err != nil {
		return err
	}
	return t.Reply(a2a.TextPart{Text: "done"})
}

func TestBlockingSendReturnsFinishedTask(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	e := start(t, engine.Config{Handler: replyHandler, Store: s, Turns: engine.Turns{FlushInterval: time.Minute}})
	task := sendWait(t, e, message("hi"))
	wantState(t, task, a2a.StateCompleted)
	if got := task.Artifacts[0].Text(); got != "you said: hi" {
		t.Errorf("artifact = %q", got)
	}
	if got := task.Status.Message.Text(); got != "done" {
		t.Errorf("message = %q", got)
	}
	events := checkLog(t, s, task.Key)
	if len(events) != 4 || !events[2].LastChunk {
		t.Errorf("log has %d events, want submitted, working, one last chunk, completed", len(events))
	}
}

func TestShortTaskNeedsTwoCommits(t *testing.T) {
	t.Parallel()
	s := &commitCounter{Store: inmem.New()}
	e := start(t, engine.Config{Handler: replyHandler, Store: s, Turns: engine.Turns{FlushInterval: time.Minute}})
	sendWait(t, e, message("hi"))
	if got := s.commits.Load(); got != 2 {
		t.Errorf("a short task took %d commits, want 2", got)
	}
}

type commitCounter struct {
	store.Store
	commits atomic.Int64
}

func (c *commitCounter) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	c.commits.Add(1)
	return c.Store.Commit(ctx, changes...)
}

func TestMessageToPausedTaskStartsNextTurn(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: func(_ context.Context, turn *engine.Turn) error {
		if turn.Number() == 1 {
			return turn.RequireInput(a2a.TextPart{Text: "which?"})
		}
		return turn.Reply(a2a.TextPart{Text: fmt.Sprintf("%d earlier, now %s", len(turn.TaskHistory()), turn.Messages()[0].Text())})
	}})
	task := sendWait(t, e, message("one"))
	wantState(t, task, a2a.StateInputRequired)
	task = sendWait(t, e, messageTo(task.Key.ID, "two"))
	wantState(t, task, a2a.StateCompleted)
	if got, want := task.Status.Message.Text(), "2 earlier, now two"; got != want {
		t.Errorf("reply = %q, want %q", got, want)
	}
	if _, err := e.Send(t.Context(), alice, messageTo(task.Key.ID, "three"), engine.SendOptions{}); a2a.CodeOf(err) != a2a.CodeUnsupported {
		t.Errorf("Send to a completed task = %v, want unsupported_operation", err)
	}
}

func TestMessageToRunningTaskIsNotLost(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}, 10), make(chan struct{})
	var runs atomic.Int64
	s := inmem.New()
	e := start(t, engine.Config{Store: s, Handler: func(_ context.Context, turn *engine.Turn) error {
		runs.Add(1)
		started <- struct{}{}
		<-release
		var texts []string
		for _, m := range turn.Messages() {
			texts = append(texts, m.Text())
		}
		return turn.Reply(a2a.TextPart{Text: strings.Join(texts, "+")})
	}})
	task := send(t, e, message("a"))
	<-started
	send(t, e, messageTo(task.Key.ID, "b"))
	send(t, e, messageTo(task.Key.ID, "c"))
	close(release)
	task = waitFinal(t, e, task.Key.ID)
	wantState(t, task, a2a.StateCompleted)
	if got := task.Status.Message.Text(); got != "b+c" {
		t.Errorf("last reply = %q, want b+c", got)
	}
	if runs.Load() != 2 {
		t.Errorf("handler ran %d times, want 2", runs.Load())
	}
	if n := len(task.History); n != 5 {
		t.Errorf("history has %d messages, want 5: a, b, c and two replies", n)
	}
	checkLog(t, s, task.Key)
}

func TestReceiveReturnsInboxMessages(t *testing.T) {
	t.Parallel()
	started := make(chan struct{}, 1)
	e := start(t, engine.Config{Handler: func(ctx context.Context, turn *engine.Turn) error {
		started <- struct{}{}
		more, err := turn.Receive(ctx)
		if err != nil {
			return err
		}
		return turn.Reply(more[0].Parts...)
	}})
	task := send(t, e, message("a"))
	<-started
	send(t, e, messageTo(task.Key.ID, "b"))
	task = waitFinal(t, e, task.Key.ID)
	if got := task.Status.Message.Text(); got != "b" || task.Queue.Turn != 1 {
		t.Errorf("reply = %q in turn %d, want b in turn 1", got, task.Queue.Turn)
	}
}

func TestNothingIsCommittedAfterCancel(t *testing.T) {
	t.Parallel()
	started, causes := make(chan struct{}), make(chan error, 1)
	s := inmem.New()
	e := start(t, engine.Config{Store: s, Handler: func(ctx context.Context, turn *engine.Turn) error {
		close(started)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		_ = turn.Status("still here")
		_, _ = turn.Artifact("late").WriteString("too late")
		return turn.Reply(a2a.TextPart{Text: "done anyway"})
	}})
	task := send(t, e, message("a"))
	<-started
	canceled, err := e.Cancel(t.Context(), alice, task.Key.ID, engine.SendOptions{})
	if err != nil {
		t.Fatalf("Cancel() = %v", err)
	}
	wantState(t, canceled, a2a.StateCanceled)
	if cause := <-causes; !errors.Is(cause, engine.ErrCanceled) {
		t.Errorf("the handler's cause = %v, want ErrCanceled", cause)
	}
	if _, err := e.Cancel(t.Context(), alice, task.Key.ID, engine.SendOptions{}); a2a.CodeOf(err) != a2a.CodeTaskNotCancelable {
		t.Errorf("second Cancel() = %v, want task_not_cancelable", err)
	}
	stop(t, e)
	events := checkLog(t, s, task.Key)
	if last := events[len(events)-1]; last.State != a2a.StateCanceled || len(events) != 3 {
		t.Errorf("log ends with event %d %s, want 3 canceled", last.Seq, last.State)
	}
}

func stop(t *testing.T, e *engine.Engine) {
	t.Helper()
	if err := e.Stop(t.Context()); err != nil {
		t.Fatalf("Stop() = %v", err)
	}
}

func TestConcurrentCancelAndCompletionHaveOneWinner(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	e := start(t, engine.Config{Store: s, Handler: func(_ context.Context, turn *engine.Turn) error {
		return turn.Reply(a2a.TextPart{Text: "done"})
	}})
	for range 50 {
		task := send(t, e, message("a"))
		var wg sync.WaitGroup
		var won atomic.Int64
		for range 20 {
			wg.Go(func() {
				if _, err := e.Cancel(t.Context(), alice, task.Key.ID, engine.SendOptions{}); err == nil {
					won.Add(1)
				} else if a2a.CodeOf(err) != a2a.CodeTaskNotCancelable {
					t.Errorf("Cancel() = %v", err)
				}
			})
		}
		wg.Wait()
		final := waitFinal(t, e, task.Key.ID)
		if canceled := final.Status.State == a2a.StateCanceled; (won.Load() == 1) != canceled || won.Load() > 1 {
			t.Fatalf("%d cancels won and the task is %s", won.Load(), final.Status.State)
		}
		terminal := 0
		for _, event := range checkLog(t, s, task.Key) {
			if event.State.Terminal() {
				terminal++
			}
		}
		if terminal != 1 {
			t.Fatalf("the log has %d terminal events, want 1", terminal)
		}
	}
}

func TestPanicFailsTaskOnly(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: func(_ context.Context, turn *engine.Turn) error {
		if turn.Messages()[0].Text() == "boom" {
			panic("secret detail")
		}
		return nil
	}})
	task := sendWait(t, e, message("boom"))
	wantState(t, task, a2a.StateFailed)
	if strings.Contains(task.Status.Message.Text(), "secret") {
		t.Errorf("status message = %q, want no panic value", task.Status.Message.Text())
	}
	wantState(t, sendWait(t, e, message("fine")), a2a.StateCompleted)
}

func TestTurnFailsAtTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		e := start(t, engine.Config{Turns: engine.Turns{Timeout: 20 * time.Millisecond, HandlerGrace: 20 * time.Millisecond}, Handler: func(ctx context.Context, turn *engine.Turn) error {
			if turn.Messages()[0].Text() == "ignores its context" {
				<-release
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}})
		for _, s := range []string{"returns", "ignores its context"} {
			task := sendWait(t, e, message(s))
			wantState(t, task, a2a.StateFailed)
			if got := task.Status.Message.Text(); !strings.Contains(got, "20ms") {
				t.Errorf("%s: message = %q, want the limit named", s, got)
			}
		}
	})
}

func TestRetryRunsTurnUntilMaxAttempts(t *testing.T) {
	t.Parallel()
	var steps, runs atomic.Int64
	e := start(t, engine.Config{Turns: engine.Turns{MaxAttempts: 3, RetryDelay: time.Millisecond}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		runs.Add(1)
		if _, err := turn.Step(ctx, "once", func(context.Context) ([]byte, error) { steps.Add(1); return []byte("1"), nil }); err != nil {
			return err
		}
		if turn.Messages()[0].Text() == "third time lucky" && turn.Attempt() == 3 {
			return nil
		}
		return engine.Retry(errors.New("backend is down"))
	}})
	wantState(t, waitFinal(t, e, send(t, e, message("third time lucky")).Key.ID), a2a.StateCompleted)
	if steps.Load() != 1 || runs.Load() != 3 {
		t.Errorf("%d runs, step ran %d times, want 3 and 1", runs.Load(), steps.Load())
	}
	task := waitFinal(t, e, send(t, e, message("never")).Key.ID)
	wantState(t, task, a2a.StateFailed)
	if got := task.Status.Message.Text(); !strings.Contains(got, "after 3 attempts") || !strings.Contains(got, "backend is down") {
		t.Errorf("message = %q", got)
	}
}

func TestStopRequeuesTasks(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	started := make(chan struct{}, 1)
	var steps atomic.Int64
	handler := func(ctx context.Context, turn *engine.Turn) error {
		if _, err := turn.Step(ctx, "once", func(context.Context) ([]byte, error) { steps.Add(1); return nil, nil }); err != nil {
			return err
		}
		select {
		case started <- struct{}{}:
			<-ctx.Done()
			return ctx.Err()
		default:
			return nil
		}
	}
	first := start(t, engine.Config{Store: s, Handler: handler})
	task := send(t, first, message("a"))
	await.True(t, "the handler starts", func() bool { return len(started) > 0 })
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := first.Stop(done); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Send(t.Context(), alice, message("late"), engine.SendOptions{}); a2a.CodeOf(err) != a2a.CodeUnavailable {
		t.Errorf("Send after Stop = %v, want unavailable", err)
	}
	second := start(t, engine.Config{Store: s, Handler: handler})
	got := waitFinal(t, second, task.Key.ID)
	wantState(t, got, a2a.StateCompleted)
	if steps.Load() != 1 {
		t.Errorf("the step ran %d times, want 1", steps.Load())
	}
	checkLog(t, s, task.Key)
}

func TestTenThousandTasksAreQueued(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := inmem.New()
	e := start(t, engine.Config{Store: s, Turns: engine.Turns{Concurrency: 4}, Limits: engine.Limits{Queued: 10_000}, Handler: func(ctx context.Context, _ *engine.Turn) error {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	}})
	var ids []string
	for range 9_900 {
		ids = append(ids, send(t, e, message("a")).Key.ID)
	}
	// A task may be counted twice during a count, and running tasks are not counted.
	for {
		sent, err := e.Send(t.Context(), alice, message("a"), engine.SendOptions{})
		if errors.Is(err, a2a.ErrExhausted) {
			break
		}
		if err != nil || len(ids) > 10_100 {
			t.Fatalf("Send() over the limit, with %d tasks = %v, want resource_exhausted", len(ids), err)
		}
		ids = append(ids, sent.Task.Key.ID)
	}
	close(release)
	for _, id := range ids {
		wantState(t, waitFinal(t, e, id), a2a.StateCompleted)
	}
}

func TestInboxIsLimited(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	e := start(t, engine.Config{Limits: engine.Limits{Inbox: 2}, Handler: func(context.Context, *engine.Turn) error {
		<-release
		return nil
	}})
	id := send(t, e, message("a")).Key.ID
	send(t, e, messageTo(id, "b"))
	if _, err := e.Send(t.Context(), alice, messageTo(id, "c"), engine.SendOptions{}); !errors.Is(err, a2a.ErrExhausted) {
		t.Errorf("a message over the limit = %v, want resource_exhausted", err)
	}
	close(release)
	wantState(t, waitFinal(t, e, id), a2a.StateCompleted)
}

func TestFollowReplaysMissedEvents(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: func(_ context.Context, turn *engine.Turn) error {
		w := turn.Artifact("numbers")
		for i := range 600 {
			fmt.Fprintf(w, "%d ", i)
			if i%100 == 0 {
				if err := turn.Flush(); err != nil {
					return err
				}
			}
		}
		return nil
	}})
	task := sendWait(t, e, message("a"))
	id, last := task.Key.ID, task.Seq
	for _, after := range []int64{0, 1, 2, 300, last - 1, last} {
		next := after + 1
		for u, err := range e.Follow(t.Context(), alice, id, &after) {
			if err != nil {
				t.Fatal(err)
			}
			if u.Seq != next || (u.Seq == 1) != (u.Task != nil) || u.Last != (u.Seq == last) {
				t.Fatalf("after %d: update %+v, want seq %d", after, u, next)
			}
			next++
		}
		if next != last+1 {
			t.Errorf("after %d: stream ended before %d, want %d", after, next, last+1)
		}
	}
	ahead := last + 1
	for _, err := range e.Follow(t.Context(), alice, id, &ahead) {
		if a2a.CodeOf(err) != a2a.CodeInvalid {
			t.Errorf("Follow ahead of the log = %v, want invalid_params", err)
		}
	}
}

func TestClientChosenIDsRunOnce(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	e := start(t, engine.Config{Handler: func(_ context.Context, turn *engine.Turn) error {
		runs.Add(1)
		return turn.RequireInput(a2a.TextPart{Text: "more?"})
	}})
	p := message("a")
	p.Message.TaskID, p.Message.ContextID = newID(), newID()
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			sent, err := e.Send(t.Context(), alice, p, engine.SendOptions{Wait: true})
			if err != nil {
				t.Errorf("Send() = %v", err)
				return
			}
			if sent.Task.Key.ID != p.Message.TaskID || sent.Task.Status.State != a2a.StateInputRequired {
				t.Errorf("Send() = task %s %s", sent.Task.Key.ID, sent.Task.Status.State)
			}
		})
	}
	wg.Wait()
	if runs.Load() != 1 {
		t.Errorf("the handler ran %d times, want once", runs.Load())
	}
	p.Message.Parts = []a2a.Part{a2a.TextPart{Text: "another"}}
	_, err := e.Send(t.Context(), alice, p, engine.SendOptions{})
	wantError(t, "Send(other content, same message id)", err, a2a.CodeInvalid, "message.messageId")
	p.Message.ID = newID()
	sendWait(t, e, p)
	if runs.Load() != 2 {
		t.Errorf("a different message did not start a turn")
	}
	bob := a2a.Principal{ID: "bob"}
	sent, err := e.Send(t.Context(), bob, p, engine.SendOptions{Wait: true})
	if err != nil || sent.Task.Key.Owner != "bob" || len(sent.Task.History) != 2 {
		t.Errorf("another owner's task of the same ids = %+v, %v, want one of their own", sent, err)
	}
	p.Message.ContextID = newID()
	if _, err := e.Send(t.Context(), alice, p, engine.SendOptions{}); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("Send with another context = %v, want invalid_params", err)
	}
	if _, err := e.Send(t.Context(), bob, messageTo(newID(), "x"), engine.SendOptions{}); !errors.Is(err, a2a.ErrTaskNotFound) {
		t.Errorf("Send to an unknown task = %v, want task_not_found", err)
	}
}

func TestIdempotencyKeyReturnsFirstAnswer(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: replyHandler})
	opts := engine.SendOptions{IdempotencyKey: "k", RequestHash: [32]byte{1}}
	first, err := e.Send(t.Context(), alice, message("a"), opts)
	if err != nil {
		t.Fatal(err)
	}
	waitFinal(t, e, first.Task.Key.ID)
	again, err := e.Send(t.Context(), alice, message("a"), opts)
	if err != nil || again.Task.Key != first.Task.Key || again.Task.Seq != first.Task.Seq || again.Task.Status.State != first.Task.Status.State {
		t.Errorf("repeated Send = %+v, %v, want the first answer %+v", again, err, first.Task)
	}
	if again.First.Seq != first.First.Seq {
		t.Errorf("repeated Send starts at %d, want %d", again.First.Seq, first.First.Seq)
	}
	opts.RequestHash = [32]byte{2}
	if _, err := e.Send(t.Context(), alice, message("b"), opts); !errors.Is(err, a2a.ErrConflict) {
		t.Errorf("Send of another body = %v, want conflict", err)
	}
	bob := a2a.Principal{ID: "bob"}
	if sent, err := e.Send(t.Context(), bob, message("b"), opts); err != nil || sent.Task.Key == first.Task.Key {
		t.Errorf("another owner's key = %v, %v, want a task of their own", sent, err)
	}
}

func TestSetMetadataKeepsStatus(t *testing.T) {
	t.Parallel()
	s := inmem.New()
	e := start(t, engine.Config{Store: s, Handler: func(_ context.Context, turn *engine.Turn) error {
		if err := turn.Status("page 3"); err != nil {
			return err
		}
		return turn.SetMetadata(map[string]any{"pages": 200})
	}})
	task := sendWait(t, e, message("a"))
	events := checkLog(t, s, task.Key)
	if event := events[3]; event.Metadata == nil || event.Message == nil || event.Message.Text() != "page 3" {
		t.Errorf("event with metadata = %+v, want the previous status message", event)
	}
}
