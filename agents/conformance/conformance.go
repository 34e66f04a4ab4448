// Package conformance is the agent for the official A2A conformance kits. The id of a message,
// or its text, selects the behavior by the prefixes that the kits use.
//
// # Behaviors
//
// [Prefixes] lists the known prefixes. The newest message selects the behavior, by its id or else
// by its text; the longest matching prefix applies. A message without a known prefix continues with
// the behavior that the task's first message selected. If the first message selected none,
// [Config.Default] applies.
//
// [Wait], the default, works for [Config.Delay] and then asks for another message. It accepts
// follow-up messages at any time and never ends by itself. The turn also answers follow-up
// messages that arrive during the delay.
package conformance

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/runtime"
)

// TimeoutVariable is the environment variable with the streaming timeout of the v0.3 kit in
// seconds.
const TimeoutVariable = "TCK_STREAMING_TIMEOUT"

// Config sets the timing. Zero fields take the documented default.
type Config struct {
	// Default is the behavior of tasks that select none: [Wait], or a prefix. Default [Wait].
	Default string
	// Delay is how long a task with the default behavior works before it asks for another
	// message. Default 3 s.
	Delay time.Duration
	// Hold is how long a task of test-resubscribe-message-id or tck-long-running works. The kit requires twice its
	// streaming timeout and 4 s, measured by the kit. Default: one second more than twice the
	// timeout in TCK_STREAMING_TIMEOUT, and at least 5 s.
	Hold time.Duration
	// Interval is the interval of such a task's status updates. Default 500 ms.
	Interval time.Duration
}

const (
	defaultTimeout = 2 * time.Second
	minHold        = 5 * time.Second
)

// Wait is the behavior of a task that works for a while and then asks for another message.
const Wait = "wait"

func (c Config) withDefaults() Config {
	if c.Default == "" {
		c.Default = Wait
	}
	if c.Delay == 0 {
		c.Delay = 3 * time.Second
	}
	if c.Hold == 0 {
		c.Hold = max(2*kitTimeout(os.Getenv(TimeoutVariable))+time.Second, minHold)
	}
	if c.Interval == 0 {
		c.Interval = 500 * time.Millisecond
	}
	return c
}

// kitTimeout parses the kit's streaming timeout. Values that are not positive numbers mean
// the kit's default.
func kitTimeout(s string) time.Duration {
	const longest = 10 * time.Minute
	seconds, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || !(seconds > 0) {
		return defaultTimeout
	}
	return time.Duration(min(seconds, longest.Seconds()) * float64(time.Second))
}

type behavior func(ctx context.Context, t *holdfast.Turn) error

type agent struct {
	cfg       Config
	behaviors map[string]behavior
	prefixes  []string // longest first
}

// New returns the handler.
func New(cfg Config) holdfast.Handler {
	a := &agent{cfg: cfg.withDefaults()}
	a.behaviors = a.table()
	for prefix := range a.behaviors {
		a.prefixes = append(a.prefixes, prefix)
	}
	slices.SortFunc(a.prefixes, func(x, y string) int { return len(y) - len(x) })
	return a
}

// Prefixes returns the sorted prefixes of message ids that select a behavior.
func Prefixes() []string {
	prefixes := New(Config{}).(*agent).prefixes
	slices.Sort(prefixes)
	return prefixes
}

// Handle runs the behavior that the newest message selects, or else the task's first message.
func (a *agent) Handle(ctx context.Context, t *holdfast.Turn) error {
	first := slices.Concat(t.TaskHistory(), t.Messages())[0]
	for _, m := range []a2a.Message{t.Message(), first} {
		if b := a.behaviorOf(m); b != nil {
			return b(ctx, t)
		}
	}
	if b := a.behaviors[a.cfg.Default]; b != nil {
		return b(ctx, t)
	}
	return a.wait(ctx, t)
}

// behaviorOf returns the behavior that m's id or text selects, or nil.
func (a *agent) behaviorOf(m a2a.Message) behavior {
	for _, text := range []string{m.ID, m.Text()} {
		for _, prefix := range a.prefixes {
			if strings.HasPrefix(text, prefix) {
				return a.behaviors[prefix]
			}
		}
	}
	return nil
}

func (a *agent) table() map[string]behavior {
	text := func(s string) []a2a.Part { return []a2a.Part{a2a.TextPart{Text: s}} }
	file := []a2a.Part{a2a.FilePart{File: a2a.FileWithBytes{
		Name: "output.txt", MimeType: "text/plain", Bytes: []byte("Generated file content"),
	}}}
	url := []a2a.Part{a2a.FilePart{File: a2a.FileWithURI{
		Name: "output.txt", MimeType: "text/plain", URI: "https://example.com/output.txt",
	}}}
	data := []a2a.Part{a2a.DataPart{Data: map[string]any{"key": "value", "count": 42}}}
	return map[string]behavior{
		"tck-complete-task":           reply("Hello from TCK"),
		"tck-message-response":        say("Direct message response"),
		"tck-artifact-text":           artifact(text("Generated text content")),
		"tck-artifact-file":           artifact(file),
		"tck-artifact-file-url":       artifact(url),
		"tck-artifact-data":           artifact(data),
		"tck-input-required":          require("Send another message to continue."),
		"tck-auth-required":           authorize("Authorization is required to continue."),
		"tck-multi-turn":              multiTurn,
		"tck-reject-task":             reject("The task was rejected as requested."),
		"tck-task-failure":            fail("the task failed as requested"),
		"tck-cancel":                  untilCanceled,
		"tck-long-running":            a.longRunning,
		"tck-stream-001":              artifact(text("Stream hello from TCK")),
		"tck-stream-002":              reply("Hello from TCK"),
		"tck-stream-003":              artifact(text("Stream task lifecycle")),
		"tck-stream-basic":            artifact(text("Streamed text content")),
		"tck-stream-chunked":          artifact(text("chunk-1 "), text("chunk-2 "), text("chunk-3")),
		"tck-stream-ordering-001":     artifact(text("Ordered output")),
		"tck-stream-artifact-text":    artifact(text("Streamed text content")),
		"tck-stream-artifact-file":    artifact(file),
		"tck-stream-artifact-chunked": artifact(text("chunk-1 "), text("chunk-2")),
		"test-resubscribe-message-id": a.hold,
	}
}

func reply(text string) behavior {
	return func(_ context.Context, t *holdfast.Turn) error { return t.Reply(text) }
}

func say(text string) behavior {
	return func(_ context.Context, t *holdfast.Turn) error { return t.Say(text) }
}

func require(text string) behavior {
	return func(_ context.Context, t *holdfast.Turn) error { return t.RequireInput(text) }
}

func authorize(text string) behavior {
	return func(_ context.Context, t *holdfast.Turn) error { return t.RequireAuth(text) }
}

func reject(text string) behavior {
	return func(_ context.Context, t *holdfast.Turn) error { return t.Reject(text) }
}

func fail(text string) behavior {
	return func(_ context.Context, t *holdfast.Turn) error { return t.Fail(errors.New(text)) }
}

// multiTurn asks for another message until one is "done".
func multiTurn(_ context.Context, t *holdfast.Turn) error {
	if t.Message().Text() == "done" {
		return t.Reply("Done.")
	}
	return t.RequireInput("") // without a message, so that the history has only the client's messages
}

// untilCanceled works until the task is canceled.
func untilCanceled(ctx context.Context, _ *holdfast.Turn) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// artifact returns a behavior that writes one artifact and completes the task. Each chunk is
// a separate event.
func artifact(chunks ...[]a2a.Part) behavior {
	return func(_ context.Context, t *holdfast.Turn) error {
		w := t.Artifact("output")
		for _, parts := range chunks {
			if err := w.WriteParts(parts...); err != nil {
				return err
			}
		}
		return w.Close()
	}
}

// wait works for Delay, then asks for another message. Messages that arrive during the
// delay are answered by the same turn.
func (a *agent) wait(ctx context.Context, t *holdfast.Turn) error {
	if err := runtime.Sleep(ctx, a.cfg.Delay); err != nil {
		return err
	}
	if arrived := t.Inbox(); len(arrived) > 0 {
		if b := a.behaviorOf(arrived[len(arrived)-1]); b != nil {
			return b(ctx, t)
		}
	}
	return t.RequireInput("Hello! Send another message or cancel.")
}

// longRunning is like hold, but the task has an artifact.
func (a *agent) longRunning(ctx context.Context, t *holdfast.Turn) error {
	if err := t.AddArtifact(a2a.Artifact{Name: "output", Parts: []a2a.Part{a2a.TextPart{Text: "Output of a long task"}}}); err != nil {
		return err
	}
	return a.hold(ctx, t)
}

// hold reports status updates for Hold, then completes the task.
func (a *agent) hold(ctx context.Context, t *holdfast.Turn) error {
	for left := a.cfg.Hold; left > 0; left -= a.cfg.Interval {
		if err := t.Status("Still working."); err != nil {
			return err
		}
		if err := runtime.Sleep(ctx, min(left, a.cfg.Interval)); err != nil {
			return err
		}
	}
	return t.Reply("Done.")
}

// Describe sets the agent card's properties. The modes "file" and "data" make the v0.3 kit
// test these kinds of parts.
func Describe(cfg *holdfast.Config) {
	cfg.Name = "conformance"
	cfg.Card.Description = "Behaves as the A2A conformance kits require, selected by the id or text of each message."
	cfg.Card.Skills = []a2a.AgentSkill{{
		ID: "conformance", Name: "Conformance", Description: "The prefix of a message's id or text selects the behavior.",
		Tags: []string{"conformance"}, Examples: []string{"Hello"},
	}}
	modes := []string{"text/plain", "application/json", "application/octet-stream", "text", "file", "data"}
	cfg.Card.DefaultInputModes = modes
	cfg.Card.DefaultOutputModes = slices.Clone(modes)
}
