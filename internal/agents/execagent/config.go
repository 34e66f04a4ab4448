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
)

// Config says which program to run, and how. Zero fields take the documented
// default; one of Command and CommandLine is required.
type Config struct {
	// Command is the program and its arguments. A program named without a slash is
	// looked for in PATH, one with a relative path in Dir.
	Command []string
	// CommandLine is the same as one string, split as a shell would: quotes and
	// backslashes count, but nothing is expanded and no shell is run.
	CommandLine string
	// Dir is where the program runs. Default: the server's directory.
	Dir string
	// Env are the program's environment variables, "KEY=value". Default: those of
	// the server without its own settings, which begin with HOLDFAST_ and may hold
	// secrets, and without those of Withhold. HOLDFAST_TASK_ID, HOLDFAST_CONTEXT_ID,
	// HOLDFAST_TURN and HOLDFAST_ATTEMPT are added.
	Env []string
	// Withhold names variables of the server that a program does not inherit.
	Withhold []string
	// Plain is for programs that know nothing of the protocol: they get the
	// message's text on standard input and what they print is the answer.
	Plain bool
	// Timeout is the longest a turn may take. Default: no limit but the agent's own.
	Timeout time.Duration
	// Grace is how long a program may take to exit after its result, and again
	// after it was asked to by SIGTERM, before it is killed. Default 2 s. It should
	// be less than the agent's HandlerGrace.
	Grace time.Duration
	// MaxLine is the longest line taken from the program, in bytes. Default 10 MiB.
	MaxLine int
	// Logger gets what the program writes to standard error, line by line. Default:
	// discards.
	Logger *slog.Logger
}

// reserved begins the names of the server's own settings.
const reserved = "HOLDFAST_"

type agent struct {
	cfg  Config
	path string // of the program
	name string // of the program, for messages
	args []string
}

// New returns the handler, or all that is wrong with cfg. It looks the program
// up, so that a missing one is told at once and not by failing tasks.
func New(cfg Config) (holdfast.Handler, error) {
	a := &agent{cfg: cfg}
	errs := a.check()
	if len(errs) > 0 {
		return nil, fmt.Errorf("exec agent: %w", errors.Join(errs...))
	}
	if a.cfg.Grace == 0 {
		a.cfg.Grace = 2 * time.Second
	}
	if a.cfg.MaxLine == 0 {
		a.cfg.MaxLine = 10 << 20
	}
	if a.cfg.Logger == nil {
		a.cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Env == nil {
		a.cfg.Env = inherited(os.Environ(), cfg.Withhold)
	}
	return a, nil
}

func (a *agent) check() []error {
	var errs []error
	if a.cfg.Timeout < 0 {
		errs = append(errs, fmt.Errorf("Timeout is %s, want 0 or more", a.cfg.Timeout))
	}
	if a.cfg.Grace < 0 {
		errs = append(errs, fmt.Errorf("Grace is %s, want 0 or more", a.cfg.Grace))
	}
	if a.cfg.MaxLine < 0 {
		errs = append(errs, fmt.Errorf("MaxLine is %d, want 0 or more", a.cfg.MaxLine))
	}
	for _, v := range a.cfg.Env {
		if key, _, ok := strings.Cut(v, "="); !ok || key == "" {
			errs = append(errs, errors.New(`Env has an entry that is not "KEY=value"`))
		}
	}
	if a.cfg.Dir != "" {
		if info, err := os.Stat(a.cfg.Dir); err != nil {
			errs = append(errs, fmt.Errorf("Dir: %w", err))
		} else if !info.IsDir() {
			errs = append(errs, fmt.Errorf("Dir: %s is not a directory", a.cfg.Dir))
		}
	}
	words, err := a.words()
	if err == nil {
		a.args = words[1:]
		a.name = filepath.Base(words[0])
		a.path, err = lookUp(words[0], a.cfg.Dir)
	}
	if err != nil {
		errs = append(errs, err)
	}
	return errs
}

// words returns the program and its arguments.
func (a *agent) words() ([]string, error) {
	words := a.cfg.Command
	switch {
	case len(words) > 0 && a.cfg.CommandLine != "":
		return nil, errors.New("Command and CommandLine must not both be set")
	case len(words) == 0:
		p := shellwords.NewParser()
		p.ParseEnv, p.ParseBacktick, p.ParseComment = false, false, false
		var err error
		if words, err = p.Parse(a.cfg.CommandLine); err != nil {
			return nil, fmt.Errorf("command %q: unbalanced quotes or brackets; no shell reads it, so quote what is meant literally", a.cfg.CommandLine)
		}
		if p.Position >= 0 {
			return nil, fmt.Errorf("command %q: has a shell operator, but no shell reads it; quote it, or run sh -c '...'", a.cfg.CommandLine)
		}
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errors.New("no command was given")
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

// inherited are the variables of the server that a program gets.
func inherited(environ, withhold []string) []string {
	kept := make([]string, 0, len(environ))
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasPrefix(name, reserved) && !slices.Contains(withhold, name) {
			kept = append(kept, v)
		}
	}
	return kept
}

// Handle runs the program for one turn.
func (a *agent) Handle(ctx context.Context, t *holdfast.Turn) error {
	if a.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, a.cfg.Timeout, fmt.Errorf("the program %s ran longer than the limit of %s", a.name, a.cfg.Timeout))
		defer cancel()
	}
	s, err := a.begin(ctx, t)
	if err != nil {
		return err
	}
	return s.run()
}

// Describe fills in what the agent card says. The agent is named after the
// program or, in a command such as "python3 wordcount.py", after the script.
func (c Config) Describe(cfg *holdfast.Config) {
	a := &agent{cfg: c}
	name := "program"
	if words, err := a.words(); err == nil {
		file := words[0]
		if len(words) > 1 && isFile(words[1], c.Dir) {
			file = words[1]
		}
		name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	}
	cfg.Name = name
	cfg.Description = "Runs a program for each message."
	cfg.Skills = []a2a.AgentSkill{{
		ID: name, Name: name, Description: "Hands the message to a program and answers with what it makes of it.", Tags: []string{"exec"},
	}}
	cfg.InputModes = []string{"text/plain", "application/json", "application/octet-stream"}
	cfg.OutputModes = []string{"text/plain", "application/json", "application/octet-stream"}
}

func isFile(name, dir string) bool {
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}
