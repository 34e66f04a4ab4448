package engine_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

// One conversation sends many tasks before others send one each.
func TestContextWithManyTasksDelaysNoOther(t *testing.T) {
	t.Parallel()
	const flood, others = 40, 5
	proceed := make(chan struct{})
	order := make(chan string, flood+others)
	e := start(t, engine.Config{Turns: engine.Turns{Concurrency: 1}, Handler: func(ctx context.Context, turn *engine.Turn) error {
		select {
		case <-proceed:
		case <-ctx.Done():
			return ctx.Err()
		}
		order <- turn.ContextID()
		return replyHandler(ctx, turn)
	}})
	var tasks []*store.Task
	for i := range flood + others {
		p := message("hello")
		if p.Message.ContextID = "flood"; i >= flood {
			p.Message.ContextID = fmt.Sprint("other ", i)
		}
		tasks = append(tasks, send(t, e, p))
	}
	close(proceed)
	for _, task := range tasks {
		waitFinal(t, e, task.Key.ID)
	}
	close(order)
	var contexts []string
	for c := range order {
		contexts = append(contexts, c)
	}
	for i := range others {
		if at := slices.Index(contexts, fmt.Sprint("other ", flood+i)); at < 0 || at > 4*others {
			t.Errorf("the task of context %d ran as number %d of %d, want it among the first %d", i, at+1, len(contexts), 4*others)
		}
	}
}
