package engine_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
)

// Replicas agree on the generation of a task: a wait on one ends with a change by another, and of two
// messages for one generation the first is accepted.
func TestReplicasShareGenerations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := inmem.New()
		handler := func(_ context.Context, turn *engine.Turn) error {
			return turn.RequireInput(a2a.TextPart{Text: "and then?"})
		}
		cfg := engine.Config{Store: sharedStore{shared}, Handler: handler, Turns: engine.Turns{Poll: 20 * time.Millisecond}}
		e1, e2 := start(t, cfg), start(t, cfg)
		task := sendWait(t, e1, message("a"))
		if _, err := e2.Task(t.Context(), alice, task.Key.ID, nil); err != nil {
			t.Fatal(err)
		}
		waited := make(chan error)
		go func() { waited <- e2.AwaitGeneration(t.Context(), alice, task.Key.ID, task.Seq) }()
		synctest.Wait()
		answer := func(text string) a2a.MessageSendParams {
			m := messageTo(task.Key.ID, text)
			m.Configuration = &a2a.MessageSendConfiguration{IfGenerationMatch: &task.Seq}
			return m
		}
		now := sendWait(t, e1, answer("b"))
		if err := <-waited; err != nil || now.Seq <= task.Seq {
			t.Errorf("AwaitGeneration() = %v with generation %d, want none with one after %d", err, now.Seq, task.Seq)
		}
		if _, err := e2.Send(t.Context(), alice, answer("c"), engine.SendOptions{}); a2a.CodeOf(err) != a2a.CodeGenerationMismatch {
			t.Errorf("Send() for the earlier generation = %v, want task_generation_mismatch", err)
		}
		stop(t, e1)
		stop(t, e2)
	})
}
