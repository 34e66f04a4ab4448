package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/agents"
	"github.com/holdfast-dev/holdfast/internal/agents/execagent"
)

func agentNames() []string {
	var names []string
	for _, a := range agents.All() {
		names = append(names, a.Name)
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

// chooseAgent finds the agent of the settings.
func (c *serveCmd) chooseAgent(a *app, log *slog.Logger) (chosen, error) {
	if c.Exec != "" {
		return c.chooseProgram(a, log)
	}
	name := c.Agent
	if name == "" {
		name = agentNames()[0]
	}
	agent, err := agents.ByName(name)
	if err != nil {
		return chosen{}, fmt.Errorf("--agent: want one of %s, but got %q", strings.Join(agentNames(), ", "), name)
	}
	handler, err := agent.New(agents.Options{PageDelay: c.PageDelay})
	if err != nil {
		return chosen{}, fmt.Errorf("--agent: %s: %w", name, err)
	}
	out := chosen{label: agent.Name + " (built in)", handler: handler, try: agent.Example}
	agent.Describe(&out.config)
	return out, nil
}

// settingsOfProgram names the settings in what the exec agent says of its Config.
func settingsOfProgram(err error) error {
	var errs []error
	for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), "exec agent: "), "\n") {
		setting := "--exec"
		for field, flag := range map[string]string{"Dir: ": "--exec-dir", "Timeout is ": "--exec-timeout"} {
			if rest, ok := strings.CutPrefix(line, field); ok {
				setting, line = flag, rest
			}
		}
		errs = append(errs, errors.New(setting+": "+line))
	}
	return errors.Join(errs...)
}

func (c *serveCmd) chooseProgram(a *app, log *slog.Logger) (chosen, error) {
	cfg := execagent.Config{
		CommandLine: c.Exec, Dir: c.ExecDir, Plain: c.ExecPlain, Timeout: c.ExecTimeout, Logger: log, Withhold: a.set.secretVariables(),
	}
	handler, err := execagent.New(cfg)
	if err != nil {
		return chosen{}, settingsOfProgram(err)
	}
	out := chosen{label: "the program " + c.Exec, handler: handler, try: "Hello"}
	cfg.Describe(&out.config)
	return out, nil
}
