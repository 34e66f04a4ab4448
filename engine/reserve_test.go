package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/internal/await"
	"github.com/holdfast-dev/holdfast/internal/memory"
)

func TestMemoryOfReadsIsHeldUntilTurnEnds(t *testing.T) {
	t.Parallel()
	const size = 300_000
	budget := memory.New(64 << 20)
	held := make(map[string]int64)
	handler := func(ctx context.Context, turn *engine.Turn) error {
		if len(turn.Messages()[0].ReferenceTaskIDs) == 0 {
			return turn.Reply()
		}
		before := budget.Stats().Held
		for _, limit := range []int{2, 3, 1} {
			if _, err := turn.History(ctx, limit); err != nil {
				t.Error(err)
			}
		}
		held["history"] = budget.Stats().Held - before
		for range 2 {
			if refs, err := turn.References(ctx); err != nil || len(refs) != 1 {
				t.Errorf("References() = %d tasks, %v, want 1", len(refs), err)
			}
		}
		held["references"] = budget.Stats().Held - before - held["history"]
		return turn.Reply()
	}
	e := start(t, engine.Config{Memory: budget, Handler: handler})
	p := message(strings.Repeat("x", size))
	var id string
	for range 4 {
		sent, err := e.Send(t.Context(), alice, p, engine.SendOptions{Wait: true})
		if err != nil {
			t.Fatal(err)
		}
		id, p.Message.ContextID = sent.Task.Key.ID, sent.Task.ContextID
		p.Message.ID += "x"
	}
	p = message("now")
	p.Message.ContextID = waitFinal(t, e, id).ContextID
	p.Message.ReferenceTaskIDs = []string{id}
	if sent, err := e.Send(t.Context(), alice, p, engine.SendOptions{Wait: true}); err != nil || sent.Task.Status.State != a2a.StateCompleted {
		t.Fatalf("Send() = %+v, %v", sent, err)
	}
	if got := held["history"]; got < 3*size || got > 3*size+10_000 {
		t.Errorf("histories of 2, 3 and 1 messages of %d bytes hold %d, want what 3 take", size, got)
	}
	if got := held["references"]; got < size || got > size+10_000 {
		t.Errorf("a reference of %d bytes, read twice, holds %d", size, got)
	}
	await.True(t, "all memory is released", func() bool { return budget.Stats().Held == 0 })
}

func TestHistoryFailsWithoutMemory(t *testing.T) {
	t.Parallel()
	budget := memory.New(64 << 20)
	handler := func(ctx context.Context, turn *engine.Turn) error {
		other := budget.Hold(turn.Owner())
		if !other.TryGrow(budget.Share() - 1<<20) {
			t.Error("TryGrow() = false, want true")
		}
		defer other.Release()
		ctx, cancel := context.WithCancelCause(ctx)
		cancel(a2a.Errorf(a2a.CodeUnavailable, "no time to wait"))
		if _, err := turn.History(ctx, 0); a2a.CodeOf(err) != a2a.CodeUnavailable {
			t.Errorf("History() without memory = %v, want the cause of its context", err)
		}
		return turn.Reply()
	}
	e := start(t, engine.Config{Memory: budget, Handler: handler})
	if sent, err := e.Send(t.Context(), alice, message("hi"), engine.SendOptions{Wait: true}); err != nil || sent.Task.Status.State != a2a.StateCompleted {
		t.Fatalf("Send() = %+v, %v", sent, err)
	}
	if n := budget.Stats().Refused; n != 1 {
		t.Errorf("%d requests for memory were refused, want 1", n)
	}
}
