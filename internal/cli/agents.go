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

// chosenAgent is the agent that serve runs.
type chosenAgent struct {
	label   string // for the banner
	handler holdfast.Handler
	config  holdfast.Config // content of the agent card
	try     string          // text of an example message
}

// chooseAgent returns the agent that the settings select.
func (c *serveCmd) chooseAgent(a *app, log *slog.Logger) (chosenAgent, error) {
	if c.Exec != "" {
		return c.chooseProgram(a, log)
	}
	name := c.Agent
	if name == "" {
		name = agentNames()[0]
	}
	agent, err := agents.ByName(name)
	if err != nil {
		return chosenAgent{}, fmt.Errorf("--agent: want one of %s, but got %q", strings.Join(agentNames(), ", "), name)
	}
	handler, err := agent.New(agents.Options{PageDelay: c.PageDelay})
	if err != nil {
		return chosenAgent{}, fmt.Errorf("--agent: %s: %w", name, err)
	}
	out := chosenAgent{label: agent.Name + " (built in)", handler: handler, try: agent.Example}
	agent.Describe(&out.config)
	return out, nil
}

// execSettingErrors replaces field names of [execagent.Config] in err with flag names.
func execSettingErrors(err error) error {
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

func (c *serveCmd) chooseProgram(a *app, log *slog.Logger) (chosenAgent, error) {
	cfg := execagent.Config{
		CommandLine: c.Exec, Dir: c.ExecDir, Plain: c.ExecPlain, Timeout: c.ExecTimeout, Logger: log, Withhold: a.set.secretVariables(),
	}
	handler, err := execagent.New(cfg)
	if err != nil {
		return chosenAgent{}, execSettingErrors(err)
	}
	out := chosenAgent{label: "the program " + c.Exec, handler: handler, try: "Hello"}
	cfg.Describe(&out.config)
	return out, nil
}
