package cli

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"
)

// rank is the precedence of a source of settings. The highest rank wins.
type rank int

const (
	byDefault rank = iota
	byFile
	byEnvironment
	byFlag
)

func (r rank) String() string {
	return [...]string{"default", "file", "environment", "flag"}[r]
}

// origin is the source of a setting's value.
type origin struct {
	rank rank
	name string // the flag, the variable or the file
	line int    // of the file
}

func (o origin) String() string {
	switch o.rank {
	case byFile:
		return fmt.Sprintf("%s, line %d", o.name, o.line)
	case byEnvironment:
		return "the environment variable " + o.name
	case byFlag, byDefault:
	}
	return o.name
}

// settings collects the sources of flag values and their problems while the command line is parsed.
type settings struct {
	origins    map[string]origin // by the flag's name; those with their default are not in it
	file       configFile
	flags      []*kong.Flag // of the command
	serveFlags []*kong.Flag // allowed in a config file
	// problems are values that cannot be parsed, and errors in the config file.
	problems []error
}

// resolve returns the value of a flag that is not on the command line: from its environment variable,
// else from the config file. The parser's own support for variables is not used: it reads the
// process environment, and its errors repeat values, which may be secret.
func (a *app) resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range envNames(flag.Value) {
		if value := a.env.get(name); value != "" {
			a.set.origins[flag.Name] = origin{rank: byEnvironment, name: name}
			if strings.HasPrefix(name, storagePrefix) && flag.Target.Type() == reflect.TypeFor[time.Duration]() {
				value = inSeconds(value)
			}
			return value, nil
		}
	}
	if v, ok := a.set.file.values[flag.Name]; ok && a.set.inFile(flag) {
		a.set.origins[flag.Name] = origin{rank: byFile, name: a.set.file.name, line: v.line}
		return v.text, nil
	}
	return nil, nil
}

// inFile reports whether a config file may set the flag. A flag of another command with the same name,
// such as the token of a client, does not count.
func (s *settings) inFile(flag *kong.Flag) bool {
	return slices.ContainsFunc(s.serveFlags, func(k *kong.Flag) bool { return k.Name == flag.Name && envName(k.Value) == envName(flag.Value) })
}

// markCommandLineFlags records the flags that are on the command line.
func (s *settings) markCommandLineFlags(parsed *kong.Context) {
	for _, p := range parsed.Path {
		if p.Flag != nil && !p.Resolved {
			s.origins[p.Flag.Name] = origin{rank: byFlag, name: "--" + p.Flag.Name}
		}
	}
	if node := parsed.Selected(); node != nil {
		s.flags = node.Flags
	}
}

// selectFlag returns the one of two exclusive flags that was set in the source with precedence, "" if
// neither is set. It returns an error if both are set in the same source.
func (s *settings) selectFlag(one, other string) (string, error) {
	a, b := s.origins[one].rank, s.origins[other].rank
	switch {
	case a == byDefault && b == byDefault:
		return "", nil
	case a > b:
		return one, nil
	case a < b:
		return other, nil
	}
	return "", fmt.Errorf("--%s and --%s must not both be given", one, other)
}

// inSeconds adds the unit to a STORAGE__ duration without one. Other agent servers define these
// variables in seconds.
func inSeconds(text string) string {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return text + "s"
	}
	return text
}
