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
)

// tolerant decodes the value of a flag. A value that is not valid becomes a problem
// of the settings instead of an error, which would end the parser at the first.
type tolerant struct {
	kong.Mapper
	set *settings
}

// boolTolerant is tolerant for flags that need no value.
type boolTolerant struct{ tolerant }

func (boolTolerant) IsBool() bool { return true }

// tolerate makes the flags of a command and its children tolerant.
func (s *settings) tolerate(node *kong.Node) {
	for _, flag := range node.Flags {
		t := tolerant{flag.Mapper, s}
		if flag.IsBool() {
			flag.Mapper = boolTolerant{t}
		} else {
			flag.Mapper = t
		}
	}
	for _, child := range node.Children {
		s.tolerate(child)
	}
}

// Decode implements [kong.Mapper].
func (t tolerant) Decode(ctx *kong.DecodeContext, target reflect.Value) error {
	token := ctx.Scan.Peek()
	err := t.Mapper.Decode(ctx, target)
	switch {
	case err == nil:
		err = checkChoice(ctx.Value, target)
	case !token.IsValue():
		return err // no value at all
	case target.Kind() == reflect.Int:
		err = fmt.Errorf("want a whole number, but got %q", fmt.Sprint(token.Value))
	}
	if err != nil {
		t.set.problems = append(t.set.problems, fmt.Errorf("--%s: %w", ctx.Value.Name, err))
	}
	return nil
}

// checkChoice checks a value that must be one of a few. It replaces one that is not
// by the default, which the parser accepts.
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

// joinNegative writes "--flag -5s" as "--flag=-5s", which the parser would take for
// a short flag.
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

// invalid returns everything that is wrong with the settings as one error with a line
// for each, nil if nothing is. Of a setting whose value cannot be read nothing else is
// reported.
func (s *settings) invalid(errs ...error) error {
	var lines, unread []string
	for _, err := range s.problems {
		lines = append(lines, err.Error())
		unread = append(unread, flagInText.FindString(err.Error()))
	}
	if err := errors.Join(errs...); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			if flag := flagInText.FindString(line); flag == "" || !slices.Contains(unread, flag) {
				lines = append(lines, line)
			}
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return usagef("%s", strings.Join(lines, "\n"))
}

// emptyFlags are the settings that were given an empty value on the command line, often
// by an unset variable of a script. In the environment that means the default.
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
			errs = append(errs, fmt.Errorf("--%s: the value is empty: give one, or leave out the flag", flag.Name))
		}
	}
	return errs
}

// problem is something that is wrong with the settings, for scripts.
type problem struct {
	Message string `json:"message"`
	Setting string `json:"setting,omitempty"`
	Source  string `json:"source,omitempty"` // flag, environment, file or default
	From    string `json:"from,omitempty"`   // the flag, the variable or the file
	Line    int    `json:"line,omitempty"`
}

// list is what invalid reports, for scripts; nil if it is about no setting.
func (s *settings) list(text string) []problem {
	var all []problem
	about := false
	for line := range strings.SplitSeq(text, "\n") {
		p := problem{Message: s.sourced(line)}
		name := strings.TrimPrefix(flagInText.FindString(line), "--")
		if slices.ContainsFunc(s.known, func(f *kong.Flag) bool { return f.Name == name }) {
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

var flagInText = regexp.MustCompile(`--[a-z][a-z0-9-]*`)

// sourced names the settings in a text as the user wrote them: those that are not on
// the command line by their variable, or by their key and line in the file. What
// follows a semicolon is advice and stays as it is.
func (s *settings) sourced(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		what, advice, found := strings.Cut(line, ";")
		line = flagInText.ReplaceAllStringFunc(what, s.written)
		if found {
			line += ";" + advice
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// written is a flag as the user wrote it.
func (s *settings) written(flag string) string {
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
