package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
)

// TestStaleRunCannotCompleteRecreatedTask runs a task on one replica while another cancels it,
// clears its context and creates it again with the same ids.
func TestStaleRunCannotCompleteRecreatedTask(t *testing.T) {
	t.Parallel()
	shared := inmem.New()
	running, finish := make(chan string, 2), map[string]chan struct{}{"old": make(chan struct{}), "new": make(chan struct{})}
	// It runs no other task.
	busy, free := make(chan struct{}), make(chan struct{})
	other := start(t, engine.Config{
		Store: sharedStore{shared}, Turns: engine.Turns{Poll: 10 * time.Millisecond, Concurrency: 1},
		Handler: func(context.Context, *engine.Turn) error { close(busy); <-free; return nil },
	})
	t.Cleanup(func() { close(free) })
	send(t, other, message("keeps the other replica busy"))
	<-busy
	runner := start(t, engine.Config{
		Store: sharedStore{shared}, Turns: engine.Turns{Poll: 10 * time.Millisecond, HandlerGrace: time.Minute},
		Handler: func(_ context.Context, turn *engine.Turn) error {
			name := turn.Messages()[0].Text()
			running <- name
			<-finish[name] // even after its context is done
			return turn.Reply(a2a.TextPart{Text: name})
		},
	})
	p := message("old")
	p.Message.TaskID, p.Message.ContextID = newID(), newID()
	id, contextID := p.Message.TaskID, p.Message.ContextID
	send(t, runner, p)
	wantRunning(t, running, "old")

	if _, err := other.Cancel(t.Context(), alice, id, engine.SendOptions{}); err != nil {
		t.Fatalf("Cancel() = %v", err)
	}
	if _, err := clearContext(t, other, contextID, false); err != nil {
		t.Fatalf("ClearContext() = %v", err)
	}
	p = message("new")
	p.Message.TaskID, p.Message.ContextID = id, contextID
	send(t, other, p)
	wantRunning(t, running, "new")

	close(finish["old"])
	await.True(t, "a task runs", func() bool { return runner.Health(t.Context()).Running == 1 })
	task, err := other.Task(t.Context(), alice, id, nil)
	if err != nil {
		t.Fatalf("Task() = %v", err)
	}
	wantState(t, task, a2a.StateWorking)
	close(finish["new"])
	task = waitFinal(t, other, id)
	wantState(t, task, a2a.StateCompleted)
	if got := task.Status.Message.Text(); got != "new" {
		t.Errorf("the task created again was answered with %q, want new", got)
	}
	checkLog(t, shared, task.Key)
}

func wantRunning(t *testing.T, running <-chan string, want string) {
	t.Helper()
	if got := receive(t, running); got != want {
		t.Fatalf("the handler runs for %q, want %q", got, want)
	}
}
