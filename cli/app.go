package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/contract/all"
)

// app executes one command.
type app struct {
	command.Console

	name  string // of the program, for hints
	args  []string
	env   environment
	set   settings
	parts Parts

	backends []backend // for URLs of contracts
	kinds    []*contract.Kind
	commands []command.Command // of contracts

	// errorLog receives the error of the command if the command writes a JSON log, else nil.
	errorLog *slog.Logger

	interrupts interrupts
	// hangups delivers SIGHUP to a command that has set reloads.
	hangups chan struct{}
	reloads atomic.Bool
}

func newApp(p Program) *app {
	a := &app{name: "holdfast", parts: p.Parts, env: newEnvironment(p.Environ), backends: p.Parts.backends(), kinds: append(all.Kinds(), p.Parts.Kinds...), commands: append(contractCommands(), p.Parts.Commands...), set: settings{origins: map[string]origin{}}, hangups: make(chan struct{}, 1)}
	if len(p.Args) > 0 {
		a.name, a.args = callName(p.Args[0]), p.Args[1:]
	}
	a.Console = command.Console{
		Stdin: p.Stdin, Out: command.NewOutput(p.Stdout, a.env.get), Err: command.NewOutput(p.Stderr, a.env.get),
		Report: a.reportError, ReadText: a.documentText,
	}
	return a
}

// callName returns the command that starts the program, for hints.
func callName(arg0 string) string {
	base := strings.TrimSuffix(filepath.Base(arg0), ".exe")
	switch {
	case strings.Contains(filepath.ToSlash(arg0), "/go-build"):
		return "go run ./cmd/" + base
	case filepath.Base(arg0) == arg0, filepath.IsAbs(arg0):
		return base
	}
	return arg0
}

func (a *app) main(ctx context.Context) int {
	// Set before the command line is parsed, so that parse errors are JSON too.
	a.JSON = slices.Contains(a.args, "--json")
	if a.logsJSON() {
		a.errorLog = slog.New(slog.NewJSONHandler(a.Err.W, nil))
	}
	err := a.run(ctx)
	if err == nil {
		err = a.Out.WriteError()
	}
	a.reportError(err)
	return exitOf(err)
}

// logsJSON reports whether the command is a server that writes its log as JSON.
func (a *app) logsJSON() bool {
	format := a.env.get("HOLDFAST_LOG_FORMAT")
	for i, arg := range a.args {
		if value, ok := strings.CutPrefix(arg, "--log-format="); ok {
			format = value
		} else if arg == "--log-format" && i+1 < len(a.args) {
			format = a.args[i+1]
		}
	}
	return format == "json" && slices.Contains(a.args, "serve")
}

func (a *app) run(ctx context.Context) error {
	var g grammar
	parser, err := a.parser(&g)
	if err != nil {
		return err
	}
	if len(a.args) == 0 {
		return a.printTour()
	}
	exited := false
	parser.Exit = func(int) { exited = true }
	parsed, err := parser.Parse(joinNegative(a.args))
	if exited {
		return nil // help or the version has been printed
	}
	if err != nil {
		return a.parseError(err)
	}
	a.JSON = g.JSON
	a.set.markCommandLineFlags(parsed)
	if node := parsed.Selected(); node.Name != "serve" && node.Name != "config" { // these report further problems
		if err := a.set.validationError(); err != nil {
			return err
		}
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	return parsed.Run(a)
}

// parseError converts an error of the parser to a usage error with a hint.
func (a *app) parseError(err error) error {
	help := a.name + " help"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		if cmd := commandPath(parse.Context.Selected()); cmd != "" {
			help += " " + cmd
		}
	}
	return command.WithHint(a.set.validationError(err), "see: "+help)
}

// reportError prints the error of the command, unless it is nil or already reported.
func (a *app) reportError(err error) {
	var status exitStatus
	if err == nil || errors.As(err, &status) {
		return
	}
	text, hint := redactPasswords(command.Clean(err.Error())), a.hint(err)
	var coded *a2a.Error
	var usage *command.UsageError
	var problems []problem
	switch {
	case errors.As(err, &usage):
		problems = a.set.problemList(text)
		text = a.set.nameSources(text)
	case errors.Is(err, errInterrupted):
		text = "interrupted"
	case onlyConnectionRefused(err) && errors.As(err, &coded):
		text = coded.Message // the cause adds nothing
	case errors.As(err, &coded) && coded.Code == a2a.CodeInternal && coded.Data["requestId"] != nil:
		text += fmt.Sprintf(" (request %v in the server's log)", coded.Data["requestId"])
	}
	if a.errorLog != nil {
		a.logError(err, text, hint, problems)
		return
	}
	if a.JSON {
		a.reportJSON(err, strings.ReplaceAll(text, "\n", "; "), hint, problems)
		return
	}
	if len(problems) > 1 {
		text = fmt.Sprintf("%d problems:\n  %s", len(problems), strings.ReplaceAll(text, "\n", "\n  "))
	}
	a.Err.Line("%s %s", a.Err.Red("holdfast:"), text)
	if hint != "" {
		a.Err.Line("  %s", hint)
	}
}

func (a *app) logError(err error, text, hint string, problems []problem) {
	args := []any{"code", codeName(err), "exit_code", exitOf(err)}
	if hint != "" {
		args = append(args, "hint", hint)
	}
	if len(problems) > 0 {
		args = append(args, "problems", problems)
	}
	a.errorLog.Error(strings.ReplaceAll(text, "\n", "; "), args...) //nolint:sloglint // the text of the error is the message
}

// onlyConnectionRefused reports whether every cause of err is ECONNREFUSED.
func onlyConnectionRefused(err error) bool {
	switch e := err.(type) { //nolint:errorlint // walks the tree
	case interface{ Unwrap() error }:
		return onlyConnectionRefused(e.Unwrap())
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !onlyConnectionRefused(err) })
	}
	return err == syscall.ECONNREFUSED //nolint:errorlint // a leaf
}

func (a *app) reportJSON(err error, text, hint string, problems []problem) {
	type report struct {
		Code     string         `json:"code"`
		Message  string         `json:"message"`
		Hint     string         `json:"hint,omitempty"`
		ExitCode int            `json:"exitCode"`
		Problems []problem      `json:"problems,omitempty"`
		Data     map[string]any `json:"data,omitempty"`
	}
	r := report{Code: codeName(err), Message: text, Hint: hint, ExitCode: exitOf(err), Problems: problems}
	var coded *a2a.Error
	if errors.As(err, &coded) {
		r.Data = coded.Data
	}
	raw, merr := json.Marshal(map[string]report{"error": r})
	if merr != nil {
		raw = fmt.Appendf(nil, `{"error":{"code":"internal","message":%q,"exitCode":%d}}`, "error cannot be encoded", r.ExitCode)
	}
	a.Err.Raw(append(raw, '\n'))
}

// hint returns the hint of an error, "" if it has none.
func (a *app) hint(err error) string {
	var own *command.HintError
	if errors.As(err, &own) {
		return own.Hint
	}
	return ""
}
