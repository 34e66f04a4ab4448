package engine_test

import (
	"context"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
)

// The answer to a repeated request is read from the log, whatever the task does now.
func TestRepeatedBlockingSendIgnoresLaterTurns(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"a key", "ids made by the client"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			busy := make(chan struct{})
			e := start(t, engine.Config{Handler: func(ctx context.Context, turn *engine.Turn) error {
				if turn.Messages()[0].Text() == "ask" {
					return turn.RequireInput(a2a.TextPart{Text: "more?"})
				}
				close(busy)
				<-ctx.Done()
				return ctx.Err()
			}})
			params, opts := message("ask"), engine.SendOptions{Wait: true}
			if by == "a key" {
				opts.IdempotencyKey, opts.RequestHash = "k", [32]byte{1}
			} else {
				params.Message.TaskID, params.Message.ContextID = newID(), newID()
			}
			first, err := e.Send(t.Context(), alice, params, opts)
			if err != nil {
				t.Fatal(err)
			}
			send(t, e, messageTo(first.Task.Key.ID, "work"))
			<-busy
			ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
			defer cancel()
			again, err := e.Send(ctx, alice, params, opts)
			if err != nil || again.Task.Seq != first.Task.Seq || again.Task.Status.State != a2a.StateInputRequired {
				t.Errorf("repeated Send = %+v, %v, want the first answer %+v", again, err, first.Task)
			}
			if ctx.Err() != nil {
				t.Error("repeated Send waited for the turn that runs now")
			}
			if _, err := e.Cancel(t.Context(), alice, first.Task.Key.ID, engine.SendOptions{}); err != nil {
				t.Error(err)
			}
		})
	}
}
