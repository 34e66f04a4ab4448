// Package echo is the smallest agent: it replies to every message with the message's text. It
// does no work itself, so the benchmarks use it to measure the server.
package echo

import (
	"context"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
)

// New returns the handler. Each turn adds one text artifact, "echo: " followed by the text of
// the turn's messages, and completes the task.
func New() holdfast.Handler { return holdfast.HandlerFunc(handle) }

func handle(_ context.Context, t *holdfast.Turn) error {
	return t.AddArtifact(a2a.Artifact{Name: "echo", Parts: []a2a.Part{a2a.TextPart{Text: "echo: " + t.Text()}}})
}

// Describe sets the agent card's properties.
func Describe(cfg *holdfast.Config) {
	cfg.Name = "echo"
	cfg.Card.Description = "Answers every message with its own text."
	cfg.Card.Skills = []a2a.AgentSkill{{
		ID: "echo", Name: "Echo", Description: "Repeats the text of a message as an artifact.",
		Tags: []string{"echo", "test"}, Examples: []string{"Hello"},
	}}
	cfg.Card.DefaultInputModes = []string{"text/plain"}
	cfg.Card.DefaultOutputModes = []string{"text/plain"}
}
