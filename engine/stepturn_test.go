package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
)

// A turn that follows another under the same lease has no claim of its own. A later attempt
// must still find its steps, even if they are all that the first attempt stored.
func TestStepsOfTurnWithoutClaimAreReused(t *testing.T) {
	t.Parallel()
	first := newProcess(inmem.New(), 0, false)
	working, joined := make(chan struct{}), make(chan struct{})
	ran := 0
	config := func(p *process) engine.Config {
		return engine.Config{
			Store: p, Turns: engine.Turns{HandlerGrace: time.Minute, Poll: 5 * time.Millisecond},
			Handler: func(ctx context.Context, turn *engine.Turn) error {
				if turn.Number() == 1 {
					close(working)
					<-joined
					return nil
				}
				_, err := turn.Step(ctx, "once", func(context.Context) ([]byte, error) {
					ran++
					return nil, nil
				})
				if err == nil && p == first {
					p.kill()
				}
				return err
			},
		}
	}
	e := start(t, config(first))
	task := send(t, e, message("first turn"))
	<-working
	send(t, e, messageTo(task.Key.ID, "second turn"))
	close(joined)
	<-first.killed
	got := waitFinal(t, start(t, config(newProcess(first.Store, 0, false))), task.Key.ID)
	wantState(t, got, a2a.StateCompleted)
	if got.Queue.Turn != 2 || ran != 1 {
		t.Errorf("turn %d: the step ran %d times, want turn 2 and once", got.Queue.Turn, ran)
	}
}
