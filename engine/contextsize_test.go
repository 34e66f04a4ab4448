package engine_test

import (
	"context"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

// The limit counts messages and artifacts. It applies to new tasks and to messages for waiting
// tasks, in this process and in others.
func TestContextContentIsLimited(t *testing.T) {
	t.Parallel()
	const limit = 1_000_000
	s := inmem.New()
	cfg := engine.Config{Store: sharedStore{s}, Limits: engine.Limits{ContextBytes: limit}, Handler: func(_ context.Context, turn *engine.Turn) error {
		if turn.Messages()[0].Text() == "write" {
			if _, err := turn.Artifact("a").WriteString(strings.Repeat("x", 10_000)); err != nil {
				return err
			}
		}
		return turn.RequireInput(a2a.TextPart{Text: "more"})
	}}
	e := start(t, cfg)
	var first string
	fill := func(e *engine.Engine, contextID, content string) (err error) {
		for range 200 {
			sent, err := e.Send(t.Context(), alice, messageIn(contextID, content), engine.SendOptions{Wait: true})
			if err != nil {
				return err
			}
			if first == "" {
				first = sent.Task.Key.ID
			}
		}
		return nil
	}
	content := func(contextID string) (bytes int64) {
		c, err := s.Context(t.Context(), alice.ID, contextID, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range c.TaskIDs {
			bytes += storedTask(t, s, store.Key{Owner: alice.ID, ID: id}).Bytes
		}
		return bytes
	}
	for _, message := range []string{strings.Repeat("x", 10_000), "write"} {
		contextID := newID()
		first = ""
		err := fill(e, contextID, message)
		if a2a.CodeOf(err) != a2a.CodeTooLarge || !strings.Contains(err.Error(), "--max-context") {
			t.Fatalf("Send() beyond the limit = %v, want too_large and the name of the limit", err)
		}
		if got := content(contextID); got < limit || got > limit+limit/64+20_000 {
			t.Errorf("the context has %d bytes, want at most a 64th and a task more than %d", got, limit)
		}
		before := content(contextID)
		if _, err := e.Send(t.Context(), alice, messageTo(first, message), engine.SendOptions{}); a2a.CodeOf(err) != a2a.CodeTooLarge {
			t.Errorf("Send() to a task of the context = %v, want too_large", err)
		}
		send(t, e, messageIn(newID(), message))
		other := start(t, cfg)
		if err := fill(other, contextID, message); a2a.CodeOf(err) != a2a.CodeTooLarge {
			t.Errorf("Send() to another process = %v, want too_large", err)
		}
		stop(t, other) // otherwise it could run tasks of the next context
		if got := content(contextID); got > before+limit/64+20_000 {
			t.Errorf("another process let the context grow from %d to %d bytes, want a 64th of the limit more", before, got)
		}
	}
	if h := e.Health(t.Context()); h.ContextFull != 4 {
		t.Errorf("Health().ContextFull = %d, want 4", h.ContextFull)
	}
}
