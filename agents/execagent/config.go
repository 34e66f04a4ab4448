package execagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-shellwords"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/config"
)

// Config specifies a program and how to run it. Command or CommandLine is required. Other
// zero fields take the documented default.
type Config struct {
	// Command is the program and its arguments. A program name without a slash is searched in
	// PATH, a relative path is relative to Dir.
	Command []string
	// CommandLine is Command as one string. Quotes and backslashes work as in a shell, but
	// nothing is expanded and no shell is run.
	CommandLine string
	// Dir is the program's working directory. Default: the server's working directory.
	Dir string
	// Env are the program's environment variables, as "KEY=value". HOLDFAST_TASK_ID,
	// HOLDFAST_CONTEXT_ID, HOLDFAST_TURN and HOLDFAST_ATTEMPT are added. Default: the server's
	// variables except for the variables in Withhold and for the server's own settings. The
	// names of these settings start with HOLDFAST_, and their values may be secret.
	Env []string
	// Withhold are names of further variables that the program does not inherit.
	Withhold []string
	// Plain is for programs that do not implement the protocol. The program reads the
	// message's text from standard input, and its output is the result.
	Plain bool
	// Timeout is the maximum duration of a turn. Default: no limit except the agent's own.
	Timeout time.Duration `min:"0s"`
	// Grace is how long a program may take to exit after its result, and again after
	// SIGTERM, before it is killed. It should be less than the agent's HandlerGrace. Default
	// 2 s.
	Grace time.Duration `default:"2s" min:"0s"`
	// MaxLine is the maximum length in bytes of a line of the program. Default 10 MiB.
	MaxLine int `default:"10MiB" min:"0"`
	// Logger receives the lines that the program writes to standard error. Default: discards
	// them.
	Logger *slog.Logger
}

// settingsPrefix is the prefix of the server's own settings in the environment.
const settingsPrefix = "HOLDFAST_"

type agent struct {
	cfg  Config
	path string // of the program
	name string // of the program, for messages
	args []string
}

// New returns the handler, or an error that lists all problems of cfg. It looks up the
// program, so that a missing program is an error at startup.
func New(cfg Config) (holdfast.Handler, error) {
	a := &agent{cfg: cfg}
	if err := a.check(); err != nil {
		return nil, err
	}
	if a.cfg.Logger == nil {
		a.cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Env == nil {
		a.cfg.Env = inheritedEnv(os.Environ(), cfg.Withhold)
	}
	return a, nil
}

// check sets the defaults and reports all problems.
func (a *agent) check() error {
	e := config.Apply("exec agent", &a.cfg)
	for _, v := range a.cfg.Env {
		key, _, ok := strings.Cut(v, "=")
		e.Reject(!ok || key == "", "Env", nil, `has an entry that is not "KEY=value"`)
	}
	if a.cfg.Dir != "" {
		info, err := os.Stat(a.cfg.Dir)
		e.Add("Dir", err)
		e.Reject(err == nil && !info.IsDir(), "Dir", a.cfg.Dir, "a directory")
	}
	words, err := a.commandWords()
	if err == nil {
		a.args = words[1:]
		a.name = filepath.Base(words[0])
		a.path, err = lookUp(words[0], a.cfg.Dir)
	}
	e.Add("CommandLine", err)
	return e.OrNil()
}

// commandWords returns the program and its arguments.
func (a *agent) commandWords() ([]string, error) {
	words := a.cfg.Command
	switch {
	case len(words) > 0 && a.cfg.CommandLine != "":
		return nil, errors.New("Command and CommandLine must not both be set")
	case len(words) == 0:
		p := shellwords.NewParser()
		p.ParseEnv, p.ParseBacktick, p.ParseComment = false, false, false
		var err error
		if words, err = p.Parse(a.cfg.CommandLine); err != nil {
			return nil, fmt.Errorf("command %q: unbalanced quotes or brackets; quote them, because no shell is run", a.cfg.CommandLine)
		}
		if p.Position >= 0 {
			return nil, fmt.Errorf("command %q: shell operators are not supported; quote them, or use sh -c '...'", a.cfg.CommandLine)
		}
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("command is required")
	}
	return words, nil
}

func lookUp(program, dir string) (string, error) {
	if dir != "" && !filepath.IsAbs(program) && filepath.Base(program) != program {
		program = filepath.Join(dir, program)
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("program: %w", err)
	}
	return filepath.Abs(path)
}

// inheritedEnv returns the server's variables that a program inherits.
func inheritedEnv(environ, withhold []string) []string {
	env := make([]string, 0, len(environ))
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, settingsPrefix) && !slices.Contains(withhold, name) {
			env = append(env, v)
		}
	}
	return env
}

// Handle runs the program for one turn.
func (a *agent) Handle(ctx context.Context, t *holdfast.Turn) error {
	if a.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, a.cfg.Timeout, fmt.Errorf("the program %s exceeded the time limit of %s", a.name, a.cfg.Timeout))
		defer cancel()
	}
	s, err := a.startSession(ctx, t)
	if err != nil {
		return err
	}
	return s.run()
}

// Describe sets the agent card's properties. The agent is named after the program or, for a
// command such as "python3 wordcount.py", after the script.
func (c Config) Describe(cfg *holdfast.Config) {
	a := &agent{cfg: c}
	name := "program"
	if words, err := a.commandWords(); err == nil {
		file := words[0]
		if len(words) > 1 && isFile(words[1], c.Dir) {
			file = words[1]
		}
		name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	}
	cfg.Name = name
	cfg.Card.Description = "Runs a program for each message."
	cfg.Card.Skills = []a2a.AgentSkill{{
		ID: name, Name: name, Description: "Passes the message to a program and returns its output.", Tags: []string{"exec"},
	}}
	cfg.Card.DefaultInputModes = []string{"text/plain", "application/json", "*/*"}
	cfg.Card.DefaultOutputModes = []string{"text/plain", "application/json", "application/octet-stream"}
}

func isFile(name, dir string) bool {
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}
