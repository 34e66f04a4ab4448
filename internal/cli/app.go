package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/holdfast-dev/holdfast/a2a"
)

// app is one run of the command.
type app struct {
	name  string // how people call the program
	args  []string
	stdin io.Reader
	out   *output // results
	err   *output // what is said about them
	env   environment
	set   settings
	json  bool

	interrupts interrupts
}

func newApp(p Program) *app {
	a := &app{name: "holdfast", stdin: p.Stdin, env: newEnvironment(p.Environ), set: settings{origins: map[string]origin{}}}
	if len(p.Args) > 0 {
		a.name, a.args = callName(p.Args[0]), p.Args[1:]
	}
	a.out, a.err = newOutput(p.Stdout, a.env), newOutput(p.Stderr, a.env)
	return a
}

// callName is what to type to get the program again.
func callName(arg0 string) string {
	if strings.Contains(filepath.ToSlash(arg0), "/go-build") {
		return "go run ./cmd/holdfast"
	}
	if filepath.Base(arg0) == arg0 || filepath.IsAbs(arg0) {
		return strings.TrimSuffix(filepath.Base(arg0), ".exe")
	}
	return arg0
}

func (a *app) main(ctx context.Context) int {
	// Known before the command line has been read, so that errors of the command
	// line itself come as asked for.
	a.json = slices.Contains(a.args, "--json")
	err := a.run(ctx)
	if err == nil {
		err = a.out.lost()
	}
	a.report(err)
	return exitOf(err)
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
	parsed, err := parser.Parse(a.args)
	if exited {
		return nil // help has been printed
	}
	if err != nil {
		return a.parseError(err)
	}
	a.json = g.JSON
	a.set.remember(parsed)
	parsed.BindTo(ctx, (*context.Context)(nil))
	return parsed.Run(a)
}

// parseError makes a mistake in the command line out of what the parser says.
func (a *app) parseError(err error) error {
	help := a.name + " help"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		if cmd := commandPath(parse.Context.Selected()); cmd != "" {
			help += " " + cmd
		}
	}
	return &hinted{usagef("%s", err), "see: " + help}
}

// report tells an error, if it is one to be told.
func (a *app) report(err error) {
	var status exitStatus
	if err == nil || errors.As(err, &status) {
		return
	}
	text, hint := withoutPasswords(clean(err.Error())), a.hint(err)
	var coded *a2a.Error
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		text = a.set.sourced(text)
	case errors.Is(err, errInterrupted):
		text = "interrupted"
	case onlyRefused(err) && errors.As(err, &coded):
		text = coded.Message // the cause says the same in worse words
	case errors.As(err, &coded) && coded.Code == a2a.CodeInternal && coded.Data["requestId"] != nil:
		text += fmt.Sprintf(" (request %v in the server's log)", coded.Data["requestId"])
	}
	if a.json {
		a.reportJSON(err, text, hint)
		return
	}
	a.err.line("%s %s", a.err.red("holdfast:"), text)
	if hint != "" {
		a.err.line("  %s", hint)
	}
}

// onlyRefused reports that err says of each address that nobody listens there, and
// nothing else.
func onlyRefused(err error) bool {
	switch e := err.(type) { //nolint:errorlint // the tree is walked
	case interface{ Unwrap() error }:
		return onlyRefused(e.Unwrap())
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(err error) bool { return !onlyRefused(err) })
	}
	return err == syscall.ECONNREFUSED //nolint:errorlint // a leaf
}

func (a *app) reportJSON(err error, text, hint string) {
	type report struct {
		Code     string         `json:"code"`
		Message  string         `json:"message"`
		Hint     string         `json:"hint,omitempty"`
		ExitCode int            `json:"exitCode"`
		Data     map[string]any `json:"data,omitempty"`
	}
	r := report{Code: codeName(err), Message: text, Hint: hint, ExitCode: exitOf(err)}
	var coded *a2a.Error
	if errors.As(err, &coded) {
		r.Data = coded.Data
	}
	raw, merr := json.Marshal(map[string]report{"error": r})
	if merr != nil {
		raw = fmt.Appendf(nil, `{"error":{"code":"internal","message":%q,"exitCode":%d}}`, "error cannot be encoded", r.ExitCode)
	}
	a.err.raw(append(raw, '\n'))
}

// hint says what to do about an error.
func (a *app) hint(err error) string {
	var own *hinted
	if errors.As(err, &own) {
		return own.hint
	}
	return ""
}

// say tells people, and scripts not, what happens beside the result.
func (a *app) say(format string, args ...any) {
	if !a.json {
		a.err.line(format, args...)
	}
}
