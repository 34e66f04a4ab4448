package engine_test

import (
	"context"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/memory"
)

// A subscription continues while the task waits for its client, and holds none of its content.
func TestSubscriptionsContinueWhileTasksWait(t *testing.T) {
	t.Parallel()
	budget := memory.New(1 << 30)
	e := start(t, engine.Config{Memory: budget, Handler: func(_ context.Context, turn *engine.Turn) error {
		if turn.Number() < 3 {
			return turn.RequireInput(a2a.TextPart{Text: "more?"})
		}
		return nil
	}})
	large := message(string(make([]byte, 1<<20)))
	task := sendWait(t, e, large)
	var streams [2]chan a2a.TaskState
	for i := range streams {
		states := make(chan a2a.TaskState, 100)
		streams[i] = states
		go func() {
			defer close(states)
			for u, err := range e.Subscribe(t.Context(), alice, task.Key.ID, nil) {
				switch {
				case err != nil:
					t.Errorf("Subscribe: %v", err)
				case u.Task != nil:
					states <- u.Task.Status.State
				case u.Event.State != "":
					states <- u.Event.State
				}
			}
		}()
	}
	next := func(want a2a.TaskState) {
		t.Helper()
		for i, states := range streams {
			if got := <-states; got != want {
				t.Fatalf("stream %d: state %q, want %q", i, got, want)
			}
		}
	}
	next(a2a.StateInputRequired)
	await.True(t, "the content is released", func() bool { return budget.Stats().Held < 1<<20 })
	for _, last := range []a2a.TaskState{a2a.StateInputRequired, a2a.StateCompleted} {
		send(t, e, messageTo(task.Key.ID, "x"))
		next(a2a.StateSubmitted)
		next(a2a.StateWorking)
		next(last)
	}
	next("")
	for _, err := range e.Subscribe(t.Context(), alice, task.Key.ID, nil) {
		wantError(t, "Subscribe to a finished task", err, a2a.CodeUnsupported, "completed")
	}
	replayed := 0
	for _, err := range e.Subscribe(t.Context(), alice, task.Key.ID, new(int64)) {
		if err != nil {
			t.Fatal(err)
		}
		replayed++
	}
	if replayed < 6 {
		t.Errorf("a subscription from the start of a finished task has %d updates, want all", replayed)
	}
}

// A message may be required to name an existing task.
func TestMessagesCanBeForExistingTasksOnly(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Handler: replyHandler})
	p := messageTo(newID(), "x")
	p.Message.ContextID = newID()
	p.ExistingTask = true
	_, err := e.Send(t.Context(), alice, p, engine.SendOptions{})
	wantError(t, "Send for an unknown task", err, a2a.CodeTaskNotFound, p.Message.TaskID)
	p.ExistingTask = false
	if _, err := e.Send(t.Context(), alice, p, engine.SendOptions{Wait: true}); err != nil {
		t.Errorf("Send with ids of the client = %v", err)
	}
}
