package cli

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-dev/holdfast/cli/command"
)

// lenientMapper decodes the value of a flag. It adds errors to the problems of the settings. The
// parser would stop at the first error.
type lenientMapper struct {
	kong.Mapper
	set *settings
}

// lenientBoolMapper is a lenientMapper for flags without a value.
type lenientBoolMapper struct{ lenientMapper }

func (lenientBoolMapper) IsBool() bool { return true }

// collectErrors sets a lenientMapper for all flags of a command and its children.
func (s *settings) collectErrors(node *kong.Node) {
	for _, flag := range node.Flags {
		t := lenientMapper{flag.Mapper, s}
		if flag.IsBool() {
			flag.Mapper = lenientBoolMapper{t}
		} else {
			flag.Mapper = t
		}
	}
	for _, child := range node.Children {
		s.collectErrors(child)
	}
}

// Decode implements [kong.Mapper].
func (t lenientMapper) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	token := ctx.Scan.Peek()
	err := t.Mapper.Decode(ctx, target)
	switch {
	case err == nil:
		err = checkChoice(ctx.Value, target)
	case !token.IsValue():
		return err // no value
	case target.Kind() == reflect.Int:
		err = fmt.Errorf("want a whole number, but got %q", fmt.Sprint(token.Value))
	}
	if err != nil {
		t.set.problems = append(t.set.problems, fmt.Errorf("--%s: %w", ctx.Value.Name, err))
	}
	return nil
}

// checkChoice checks a value against the flag's enum. It replaces an invalid value with the default,
// because the parser checks the enum too.
func checkChoice(value *kong.Value, target reflect.Value) error {
	if value.Enum == "" || target.Kind() != reflect.String || slices.Contains(value.EnumSlice(), target.String()) {
		return nil
	}
	err := fmt.Errorf("want one of %s, but got %q", strings.Join(value.EnumSlice(), ", "), target.String())
	target.SetString(value.Default)
	return err
}

// decodeDuration decodes every duration of the command line, the environment and the
// config file.
func decodeDuration(ctx *kong.DecodeContext, target reflect.Value) error {
	token, err := ctx.Scan.PopValue("duration")
	if err != nil {
		return err
	}
	text := fmt.Sprint(token.Value)
	d, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("want a number with a unit, such as 500ms, 30s or 2m, but got %q", text)
	}
	target.SetInt(int64(d))
	return nil
}

var negativeValue = regexp.MustCompile(`^-\.?[0-9]`)

// joinNegative rewrites "--flag -5s" to "--flag=-5s". The parser would read -5s as a short flag.
func joinNegative(args []string) []string {
	var out []string
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		if last := len(out) - 1; last >= 0 && negativeValue.MatchString(arg) && strings.HasPrefix(out[last], "--") && !strings.Contains(out[last], "=") {
			out[last] += "=" + arg
			continue
		}
		out = append(out, arg)
	}
	return out
}

// validationError returns all problems of the settings and errs as one usage error with a line for
// each, nil if there are none. For a setting with a value that cannot be parsed, it reports
// nothing else.
func (s *settings) validationError(errs ...error) error {
	var lines, unread []string
	for _, err := range s.problems {
		lines = append(lines, err.Error())
		unread = append(unread, flagPattern.FindString(err.Error()))
	}
	if err := errors.Join(errs...); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if flag := flagPattern.FindString(line); flag == "" || !slices.Contains(unread, flag) {
				lines = append(lines, line)
			}
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return command.Usagef("%s", strings.Join(lines, "\n"))
}

// emptyFlags returns an error for each flag with an empty value on the command line, which often is
// an unset variable of a script. An empty environment variable means the default.
func (s *settings) emptyFlags() (errs []error) {
	for _, flag := range s.flags {
		empty := false
		switch v := flag.Target.Interface().(type) {
		case string:
			empty = v == ""
		case []string:
			empty = len(v) == 0 || slices.Contains(v, "")
		}
		if empty && s.origins[flag.Name].rank == byFlag {
			errs = append(errs, fmt.Errorf("--%s: the value is empty: set one, or omit the flag", flag.Name))
		}
	}
	return errs
}

// problem is an invalid setting in the JSON output.
type problem struct {
	Message string `json:"message"`
	Setting string `json:"setting,omitempty"`
	Source  string `json:"source,omitempty"` // flag, environment, file or default
	From    string `json:"from,omitempty"`   // the flag, the variable or the file
	Line    int    `json:"line,omitempty"`
}

// problemList splits the text of validationError into problems; nil if it concerns no setting.
func (s *settings) problemList(text string) []problem {
	var all []problem
	about := false
	for line := range strings.SplitSeq(text, "\n") {
		p := problem{Message: s.nameSources(line)}
		name := strings.TrimPrefix(flagPattern.FindString(line), "--")
		if slices.ContainsFunc(s.serveFlags, func(f *kong.Flag) bool { return f.Name == name }) {
			o := s.origins[name]
			p.Setting, p.Source, p.From, p.Line = name, o.rank.String(), o.name, o.line
			about = true
		}
		all = append(all, p)
	}
	if !about && len(all) == 1 {
		return nil
	}
	return all
}

var flagPattern = regexp.MustCompile(`--[a-z][a-z0-9-]*`)

// nameSources replaces flags in a text with the source that the user has set: the environment
// variable, or the key and line of the config file. It does not change advice after a semicolon.
func (s *settings) nameSources(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		what, advice, found := strings.Cut(line, ";")
		line = flagPattern.ReplaceAllStringFunc(what, s.sourceName)
		if found {
			line += ";" + advice
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// sourceName returns the source of a flag's value as text.
func (s *settings) sourceName(flag string) string {
	name := strings.TrimPrefix(flag, "--")
	switch o := s.origins[name]; o.rank {
	case byFile:
		return fmt.Sprintf("%s (%s)", name, o)
	case byEnvironment:
		return o.String()
	case byFlag, byDefault:
	}
	return flag
}
