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

// rank says which of two places of a setting wins: the higher one.
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

// origin is where the value of a setting comes from.
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

// settings are what the flags of a command that was parsed were given beside the
// command line, and where each comes from.
type settings struct {
	origins map[string]origin // by the flag's name; those with their default are not in it
	file    configFile
	flags   []*kong.Flag // of the command
	known   []*kong.Flag // what may be set: the flags of serve
	// problems are values that cannot be read, and mistakes in the config file.
	problems []error
}

// resolve gives a flag that is not on the command line the value of its variable, or
// else that of the config file. The parser's own support of the environment reads
// that of the process and repeats values, which may be secret, in errors.
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

// inFile reports whether a flag is the one that a config file means by its name, and not
// another of that name, such as the token of a client.
func (s *settings) inFile(flag *kong.Flag) bool {
	return slices.ContainsFunc(s.known, func(k *kong.Flag) bool { return k.Name == flag.Name && envName(k.Value) == envName(flag.Value) })
}

// remember notes which flags of the command were on the command line.
func (s *settings) remember(parsed *kong.Context) {
	for _, p := range parsed.Path {
		if p.Flag != nil && !p.Resolved {
			s.origins[p.Flag.Name] = origin{rank: byFlag, name: "--" + p.Flag.Name}
		}
	}
	if node := parsed.Selected(); node != nil {
		s.flags = node.Flags
	}
}

// stronger returns which of two flags that exclude each other counts: the one that
// was given in the place that wins; "" when neither was given.
func (s *settings) stronger(one, other string) (string, error) {
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

// inSeconds adds the unit to a duration of one of the STORAGE__ variables. Other agent
// servers define these as numbers of seconds.
func inSeconds(text string) string {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return text + "s"
	}
	return text
}
