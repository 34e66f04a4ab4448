package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
)

func TestNewReportsAllProblemsInOrder(t *testing.T) {
	t.Parallel()
	_, err := engine.New(engine.Config{
		Store: inmem.New(), NewID: newID, Handler: func(context.Context, *engine.Turn) error { return nil },
		Turns:  engine.Turns{Lease: time.Millisecond, RetryDelay: time.Minute, RetryDelayMax: time.Second},
		Limits: engine.Limits{Inbox: -1, Parts: -2, PageSize: -3, StepBytes: -4},
	})
	const want = "engine config: Turns.Lease is 1ms, want 100ms or more\n" +
		"Limits.Inbox is -1, want 1 or more\n" +
		"Limits.Parts is -2, want 1 or more\n" +
		"Limits.PageSize is -3, want 1 or more\n" +
		"Limits.StepBytes is -4, want 1 or more\n" +
		"Turns.RetryDelayMax is 1s, want Turns.RetryDelay, which is 1m0s, or more"
	if err == nil || err.Error() != want {
		t.Errorf("New() = %v, want %s", err, want)
	}
}
