// Package agents lists the built-in agents. Package execagent implements agents that run a
// program of the operator.
package agents

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/agents/conformance"
	"github.com/holdfast-dev/holdfast/agents/echo"
	"github.com/holdfast-dev/holdfast/agents/summarizer"
)

// Options configures the built-in agents. The zero value is the default. An agent ignores
// options that it does not support.
type Options struct {
	Summarizer summarizer.Config
}

// Agent is a built-in agent.
type Agent struct {
	// Name identifies the agent on the command line.
	Name string
	// Summary is a one-line description.
	Summary string
	// Example is the text of a message that demonstrates the agent.
	Example string
	// New returns the agent's handler.
	New func(Options) (holdfast.Handler, error)
	// Describe sets the agent card's properties: name, description, skills and modes.
	Describe func(Options, *holdfast.Config)
}

const lighthouse = "The lighthouse was built in 1821. It stands on a cliff above the bay. " +
	"For a century its keepers lit the lamp by hand every evening. In 1923 the lamp was made electric, and the keepers left. " +
	"Today the lighthouse is a museum, and the lamp is lit by hand once a year."

// All returns the built-in agents, the default first.
func All() []Agent {
	return []Agent{
		{
			Name: "summarize", Summary: "picks the main sentences of documents",
			New: func(o Options) (holdfast.Handler, error) {
				if delay := o.Summarizer.PageDelay; delay < 0 {
					return nil, fmt.Errorf("page delay is %s, want 0 or more", delay)
				}
				return summarizer.New(o.Summarizer), nil
			},
			Describe: func(o Options, cfg *holdfast.Config) { o.Summarizer.Describe(cfg) },
			Example:  lighthouse,
		},
		{
			Name: "conformance", Summary: "behaves as the official A2A conformance kits require",
			New:      func(Options) (holdfast.Handler, error) { return conformance.New(conformance.Config{}), nil },
			Describe: func(_ Options, cfg *holdfast.Config) { conformance.Describe(cfg) },
			Example:  "Hello",
		},
		{
			Name: "echo", Summary: "replies with the text of the message; for benchmarks",
			New:      func(Options) (holdfast.Handler, error) { return echo.New(), nil },
			Describe: func(_ Options, cfg *holdfast.Config) { echo.Describe(cfg) },
			Example:  "Hello",
		},
	}
}

// ByName returns the agent with the given name, or an error that lists the valid names.
func ByName(name string) (Agent, error) {
	var names []string
	for _, a := range All() {
		if a.Name == name {
			return a, nil
		}
		names = append(names, a.Name)
	}
	return Agent{}, fmt.Errorf("unknown agent %q, want one of %s", name, strings.Join(names, ", "))
}
