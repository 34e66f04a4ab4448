package conversation

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
)

// Clock is a store. Its time changes only between the calls of the script, so that all
// conversations have the same times.
type Clock struct {
	store.Store
	ticks atomic.Int64
}

// tick is the time between two calls.
const tick = time.Second

// Now returns the time of the current call.
func (c *Clock) Now() time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC).Add(time.Duration(c.ticks.Load()) * tick)
}

func (c *Clock) advance() { c.ticks.Add(1) }

// Handle is the handler of the agent. It does what the first part of the newest message names.
func Handle(ctx context.Context, t *engine.Turn) error {
	messages := t.Messages()
	m := messages[len(messages)-1]
	word, _ := m.Parts[0].(a2a.TextPart)
	switch word.Text {
	case "ask":
		return t.RequireInput(a2a.TextPart{Text: "Which one?"}, a2a.DataPart{Data: map[string]any{"choices": []any{"a", "b"}}})
	case "auth":
		return t.RequireAuth(a2a.TextPart{Text: "Please sign in."})
	case "reject":
		return t.Reject(a2a.TextPart{Text: "No."})
	case "fail":
		return t.Fail(a2a.TextPart{Text: "Broken."})
	case "say":
		return t.Say(a2a.TextPart{Text: "Hello."}, a2a.DataPart{Data: map[string]any{"direct": true}})
	case "hold":
		err := errors.Join(t.Status("holding"), t.Flush())
		<-ctx.Done()
		return errors.Join(err, ctx.Err())
	default:
		return complete(t, m)
	}
}

// complete reports a status, writes artifacts with the parts of m, and completes the task. It
// stores each event by itself, so that streams do not depend on the time of the commits.
func complete(t *engine.Turn, m a2a.Message) error {
	if err := errors.Join(t.Status("working"), t.Flush(), t.SetMetadata(map[string]any{"parts": len(m.Parts)}), t.Flush()); err != nil {
		return err
	}
	w := t.Artifact("chunks")
	for _, chunk := range []string{"one ", "two ", "three"} {
		if err := errors.Join(w.WriteParts(a2a.TextPart{Text: chunk}), t.Flush()); err != nil {
			return err
		}
	}
	if err := errors.Join(w.Close(), t.Flush()); err != nil {
		return err
	}
	whole := a2a.Artifact{
		Name: "parts", Description: "the parts of the message", Extensions: []string{"https://example.com/ext"},
		Metadata: map[string]any{"of": m.ID}, Parts: append(m.Parts[1:len(m.Parts):len(m.Parts)], unusual...),
	}
	if err := errors.Join(t.AddArtifact(whole), t.Flush()); err != nil {
		return err
	}
	return t.Reply(a2a.TextPart{Text: "Done."})
}

// unusual is data that only handlers send over A2A 0.3.
var unusual = []a2a.Part{
	a2a.DataPart{Data: "text"},
	a2a.DataPart{Data: 1.5},
	a2a.DataPart{Data: true},
	a2a.DataPart{},
	a2a.DataPart{Data: []any{nil}},
	a2a.DataPart{Data: map[string]any{"value": map[string]any{"value": nil}}},
}
