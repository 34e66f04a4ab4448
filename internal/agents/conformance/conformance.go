// Package conformance is the agent that the official A2A conformance kits drive:
// a message's id tells it how to behave, by the prefixes the kits use.
//
// # Behaviours
//
// A message whose id has no known prefix keeps its task working for
// [Config.Delay], then the task asks for another message: it takes follow-ups at
// any time and never ends by itself. Follow-ups that arrive during the delay are
// answered by it. The prefixes are those of [Prefixes]; the longest one that fits
// counts, and of several messages the newest.
package conformance

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
)

// TimeoutVariable is the environment variable by which the v0.3 kit is told how
// long it waits for streams, in seconds.
const TimeoutVariable = "TCK_STREAMING_TIMEOUT"

// Config sets the pace. Zero fields take the documented default.
type Config struct {
	// Delay is how long a task of the default behaviour works before it asks for
	// another message. Default 3 s.
	Delay time.Duration
	// Hold is how long a task of test-resubscribe-message-id works. Default: a
	// second more than twice the kit's streaming timeout, as TCK_STREAMING_TIMEOUT
	// tells it, and at least 5 s. The kit wants twice the timeout and 4 s, measured
	// from its side.
	Hold time.Duration
	// Beat is how often such a task tells that it works. Default 500 ms.
	Beat time.Duration
}

const (
	defaultTimeout = 2 * time.Second
	leastHold      = 5 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Delay == 0 {
		c.Delay = 3 * time.Second
	}
	if c.Hold == 0 {
		c.Hold = max(2*kitTimeout(os.Getenv(TimeoutVariable))+time.Second, leastHold)
	}
	if c.Beat == 0 {
		c.Beat = 500 * time.Millisecond
	}
	return c
}

// kitTimeout reads the kit's streaming timeout; what is no positive number is
// the kit's default.
func kitTimeout(s string) time.Duration {
	const longest = 10 * time.Minute
	seconds, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || !(seconds > 0) {
		return defaultTimeout
	}
	return time.Duration(min(seconds, longest.Seconds()) * float64(time.Second))
}

type behaviour func(ctx context.Context, t *holdfast.Turn) error

type agent struct {
	cfg        Config
	behaviours map[string]behaviour
	prefixes   []string // longest first
}

// New returns the handler.
func New(cfg Config) holdfast.Handler {
	a := &agent{cfg: cfg.withDefaults()}
	a.behaviours = a.table()
	for prefix := range a.behaviours {
		a.prefixes = append(a.prefixes, prefix)
	}
	slices.SortFunc(a.prefixes, func(x, y string) int { return len(y) - len(x) })
	return a
}

// Prefixes lists the prefixes of message ids that choose a behaviour, sorted.
func Prefixes() []string {
	prefixes := New(Config{}).(*agent).prefixes
	slices.Sort(prefixes)
	return prefixes
}

// Handle behaves as the newest message's id asks.
func (a *agent) Handle(ctx context.Context, t *holdfast.Turn) error {
	if b := a.behaviour(t.Message()); b != nil {
		return b(ctx, t)
	}
	return a.askAgain(ctx, t)
}

// behaviour returns what m's id asks for, nil when it asks for nothing special.
func (a *agent) behaviour(m a2a.Message) behaviour {
	for _, prefix := range a.prefixes {
		if strings.HasPrefix(m.ID, prefix) {
			return a.behaviours[prefix]
		}
	}
	return nil
}

func (a *agent) table() map[string]behaviour {
	text := func(s string) []a2a.Part { return []a2a.Part{a2a.TextPart{Text: s}} }
	file := []a2a.Part{a2a.FilePart{File: a2a.FileWithBytes{
		Name: "output.txt", MimeType: "text/plain", Bytes: []byte("Generated file content"),
	}}}
	url := []a2a.Part{a2a.FilePart{File: a2a.FileWithURI{
		Name: "output.txt", MimeType: "text/plain", URI: "https://example.com/output.txt",
	}}}
	data := []a2a.Part{a2a.DataPart{Data: map[string]any{"key": "value", "count": 42}}}
	return map[string]behaviour{
		"tck-complete-task":           reply("Hello from TCK"),
		"tck-message-response":        reply("Direct message response"),
		"tck-artifact-text":           artifact(text("Generated text content")),
		"tck-artifact-file":           artifact(file),
		"tck-artifact-file-url":       artifact(url),
		"tck-artifact-data":           artifact(data),
		"tck-input-required":          require("Send another message to go on."),
		"tck-reject-task":             reject("The task was rejected, as its message asked for."),
		"tck-stream-001":              artifact(text("Stream hello from TCK")),
		"tck-stream-002":              reply("Hello from TCK"),
		"tck-stream-003":              artifact(text("Stream task lifecycle")),
		"tck-stream-ordering-001":     artifact(text("Ordered output")),
		"tck-stream-artifact-text":    artifact(text("Streamed text content")),
		"tck-stream-artifact-file":    artifact(file),
		"tck-stream-artifact-chunked": artifact(text("chunk-1 "), text("chunk-2")),
		"test-resubscribe-message-id": a.hold,
	}
}

func reply(text string) behaviour {
	return func(_ context.Context, t *holdfast.Turn) error { return t.Reply(text) }
}

func require(text string) behaviour {
	return func(_ context.Context, t *holdfast.Turn) error { return t.RequireInput(text) }
}

func reject(text string) behaviour {
	return func(_ context.Context, t *holdfast.Turn) error { return t.Reject(text) }
}

// artifact makes one artifact of the chunks and completes the task. Each chunk
// is an event of its own.
func artifact(chunks ...[]a2a.Part) behaviour {
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

// askAgain works for a while, then waits for another message. What arrives
// meanwhile is answered too.
func (a *agent) askAgain(ctx context.Context, t *holdfast.Turn) error {
	if err := sleep(ctx, a.cfg.Delay); err != nil {
		return err
	}
	if arrived := t.Inbox(); len(arrived) > 0 {
		if b := a.behaviour(arrived[len(arrived)-1]); b != nil {
			return b(ctx, t)
		}
	}
	return t.RequireInput("Hello! Send another message or cancel.")
}

// hold keeps the task working and telling so, then completes it.
func (a *agent) hold(ctx context.Context, t *holdfast.Turn) error {
	for left := a.cfg.Hold; left > 0; left -= a.cfg.Beat {
		if err := t.Status("Still working."); err != nil {
			return err
		}
		if err := sleep(ctx, min(left, a.cfg.Beat)); err != nil {
			return err
		}
	}
	return t.Reply("Done.")
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Describe fills in what the agent card says. The words file and data among the
// modes have the v0.3 kit test those kinds of parts.
func Describe(cfg *holdfast.Config) {
	cfg.Name = "conformance"
	cfg.Description = "Behaves as the A2A conformance kits ask, by the id of each message."
	cfg.Skills = []a2a.AgentSkill{{
		ID: "conformance", Name: "Conformance", Description: "Behaves as the prefix of a message's id asks; else waits for another message.",
		Tags: []string{"conformance", "test"}, Examples: []string{"Hello"},
	}}
	modes := []string{"text/plain", "application/json", "application/octet-stream", "text", "file", "data"}
	cfg.InputModes = modes
	cfg.OutputModes = slices.Clone(modes)
}
