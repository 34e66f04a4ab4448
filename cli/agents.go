package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/agents"
	"github.com/holdfast-dev/holdfast/agents/execagent"
	"github.com/holdfast-dev/holdfast/agents/summarizer"
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
	switch {
	case c.Exec != "" && c.Agent != "":
		return chosenAgent{}, errors.New("--exec and --agent must not both be given")
	case c.Remember && (c.Exec != "" || c.Agent != "" && c.Agent != agentNames()[0]):
		return chosenAgent{}, fmt.Errorf("--remember needs the agent %s", agentNames()[0])
	case c.Exec != "":
		return c.chooseProgram(a, log)
	case c.ExecPlain || c.ExecTimeout != 0 || c.ExecDir != "":
		return chosenAgent{}, errors.New("--exec-plain, --exec-timeout and --exec-dir need --exec")
	}
	name := c.Agent
	if name == "" {
		name = agentNames()[0]
	}
	agent, err := agents.ByName(name)
	if err != nil {
		return chosenAgent{}, fmt.Errorf("--agent: want one of %s, but got %q", strings.Join(agentNames(), ", "), name)
	}
	options := agents.Options{Summarizer: summarizer.Config{PageDelay: c.PageDelay, Remember: c.Remember, Reader: a.parts.Reader}}
	handler, err := agent.New(options)
	if err != nil {
		return chosenAgent{}, fmt.Errorf("--agent: %s: %w", name, err)
	}
	out := chosenAgent{label: agent.Name + " (built in)", handler: handler, try: agent.Example}
	agent.Describe(options, &out.config)
	return out, nil
}

func (c *serveCmd) chooseProgram(a *app, log *slog.Logger) (chosenAgent, error) {
	cfg := execagent.Config{Logger: log, Withhold: a.set.secretVariables()}
	a.set.bind("exec.", &cfg)
	handler, err := execagent.New(cfg)
	if err != nil {
		return chosenAgent{}, errors.Join(a.set.problemsOf("exec.", err, "--exec")...)
	}
	out := chosenAgent{label: "the program " + c.Exec, handler: handler, try: "Hello"}
	cfg.Describe(&out.config)
	return out, nil
}
