package cli

import (
	"log/slog"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/agents/conformance"
	"github.com/holdfast-dev/holdfast/internal/agents/echo"
	"github.com/holdfast-dev/holdfast/internal/agents/execagent"
	"github.com/holdfast-dev/holdfast/internal/agents/summarizer"
)

// builtin is an agent that serve can run by name.
type builtin struct {
	name     string
	make     func(c *serveCmd) holdfast.Handler
	describe func(*holdfast.Config)
	// try is a message that shows what the agent does.
	try string
}

const tryText = "The lighthouse was built in 1821. It stands on a cliff above the bay. " +
	"For a century its keepers lit the lamp by hand every evening. In 1923 the lamp was made electric, and the keepers left. " +
	"Today the lighthouse is a museum, and the lamp is lit by hand once a year."

func builtins() []builtin {
	return []builtin{
		{
			"summarize", func(c *serveCmd) holdfast.Handler { return summarizer.New(summarizer.Config{PageDelay: c.PageDelay}) },
			summarizer.Describe, tryText,
		},
		{
			"conformance", func(*serveCmd) holdfast.Handler { return conformance.New(conformance.Config{}) },
			conformance.Describe, "Hello",
		},
		{
			"echo", func(*serveCmd) holdfast.Handler { return echo.New() },
			echo.Describe, "Hello",
		},
	}
}

func agentNames() []string {
	var names []string
	for _, b := range builtins() {
		names = append(names, b.name)
	}
	return names
}

// chosen is the agent that serve is to run.
type chosen struct {
	label   string // for people
	handler holdfast.Handler
	config  holdfast.Config // what the card says
	try     string
}

func (c *serveCmd) choose(log *slog.Logger) (chosen, error) {
	if c.Exec != "" {
		return c.chooseProgram(log)
	}
	name := c.Agent
	if name == "" {
		name = "summarize"
	}
	for _, b := range builtins() {
		if b.name == name {
			out := chosen{label: b.name + " (built in)", handler: b.make(c), try: b.try}
			b.describe(&out.config)
			return out, nil
		}
	}
	return chosen{}, usagef("--agent is %q, want one of %s", name, strings.Join(agentNames(), ", "))
}

func (c *serveCmd) chooseProgram(log *slog.Logger) (chosen, error) {
	cfg := execagent.Config{CommandLine: c.Exec, Dir: c.ExecDir, Plain: c.ExecPlain, Timeout: c.ExecTimeout, Logger: log}
	handler, err := execagent.New(cfg)
	if err != nil {
		return chosen{}, usagef("--exec: %s", strings.TrimPrefix(err.Error(), "exec agent: "))
	}
	out := chosen{label: "the program " + c.Exec, handler: handler, try: "Hello"}
	cfg.Describe(&out.config)
	return out, nil
}
