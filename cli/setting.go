package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/agents/execagent"
	"github.com/holdfast-dev/holdfast/backend/postgres/age"
	"github.com/holdfast-dev/holdfast/internal/config"
)

// A flag describes a setting by its tags:
//
//	field    the field of a configuration that it sets: of holdfast.Config, or with the prefix
//	         "postgres.", "age." or "exec." of that configuration. Default and bounds come from the field.
//	         With "!" in front a bool is negated.
//	contains the field that the file contains, for messages
//	envvar   its environment variable; if the tag is empty, HOLDFAST_ and the name of the flag
//	also     further variables
//	min, max bounds of the command, if they are narrower than the bounds of the field
//	secret   its value is masked; "all" masks a URL completely

// configTypes are the types of the configurations by the prefix of their fields in the tag field. The first
// prefix that fits counts.
var configTypes = []struct {
	prefix string
	config reflect.Type
}{
	{"postgres.", reflect.TypeOf(storage{}.cfg)},
	{"age.", reflect.TypeFor[age.Config]()},
	{"exec.", reflect.TypeFor[execagent.Config]()},
	{"", reflect.TypeFor[holdfast.Config]()},
}

// fieldOf returns the field of a configuration that a flag sets, "" if none.
func fieldOf(flag *kong.Flag) string { return strings.TrimPrefix(flag.Tag.Get("field"), "!") }

// configOf returns the type of the configuration that has the field of a flag, and the field without the prefix.
func configOf(flag *kong.Flag) (of reflect.Type, field string) {
	for _, c := range configTypes {
		if rest, ok := strings.CutPrefix(fieldOf(flag), c.prefix); ok {
			return c.config, rest
		}
	}
	return nil, ""
}

// describe returns default and bounds of a flag.
func describe(flag *kong.Flag) (tag config.Tag) {
	tag = config.Lookup(configOf(flag))
	if flag.Tag.Has("min") {
		tag.Min, tag.Max = flag.Tag.Get("min"), flag.Tag.Get("max")
	}
	if flag.HasDefault {
		tag.Default = flag.Default
	}
	return tag
}

// describeFlags sets the defaults and placeholders of the flags of a command and its children.
func describeFlags(node *kong.Node) {
	for _, flag := range node.Flags {
		if text := describe(flag).Default; text != "" {
			flag.Default, flag.HasDefault = text, true
		}
		if flag.PlaceHolder == "" {
			flag.PlaceHolder = map[reflect.Type]string{
				reflect.TypeFor[time.Duration](): "DURATION", reflect.TypeFor[size](): "SIZE",
				reflect.TypeFor[int](): "N", reflect.TypeFor[*int](): "N", reflect.TypeFor[int64](): "N",
			}[flag.Target.Type()]
		}
	}
	for _, child := range node.Children {
		describeFlags(child)
	}
}

// bind sets the fields of a configuration from the flags that have the prefix in the tag field. 0 in a
// flag means none. A configuration has a negative value for none, because 0 means the default there.
func (s *settings) bind(prefix string, cfg any) {
	for _, flag := range s.flags {
		field, ok := strings.CutPrefix(fieldOf(flag), prefix)
		if !ok || field == "" {
			continue
		}
		to, from := reflect.ValueOf(cfg).Elem(), flag.Target
		for name := range strings.SplitSeq(field, ".") {
			if to = to.FieldByName(name); !to.IsValid() {
				break // of another configuration
			}
		}
		switch {
		case !to.IsValid():
		case from.Kind() == reflect.Bool:
			to.SetBool(from.Bool() != strings.HasPrefix(flag.Tag.Get("field"), "!"))
		case !from.CanInt():
			if !from.IsZero() {
				to.Set(from)
			}
		case from.Int() == 0 && flag.HasDefault:
			to.SetInt(-1)
		case flag.Default != "-1" || from.Int() != -1:
			to.SetInt(from.Int())
		}
	}
}

// problemsOf returns the problems of a configuration, each with the flag that sets the field, or other. The
// tag field of these flags has the prefix.
func (s *settings) problemsOf(prefix string, err error, other string) (errs []error) {
	var all []config.Problem
	var public *holdfast.ConfigError
	var internal *config.Error
	if errors.As(err, &public) {
		for _, p := range public.Problems {
			all = append(all, config.Problem(p))
		}
	} else if errors.As(err, &internal) {
		all = internal.Problems
	} else if err != nil {
		return []error{err}
	}
	for _, p := range all {
		text := other + p.Reason(p.Value)
		if flag := s.flagOf(prefix + p.Field); flag != nil {
			text = "--" + flag.Name + p.Reason(flag.Target.Interface())
		} else if other == "" {
			text = p.Error()
		}
		errs = append(errs, errors.New(text))
	}
	return errs
}

// flagOf returns the flag of the command that sets a field, nil if none does.
func (s *settings) flagOf(field string) *kong.Flag {
	i := slices.IndexFunc(s.flags, func(f *kong.Flag) bool { return fieldOf(f) == field || f.Tag.Get("contains") == field })
	if i < 0 {
		return nil
	}
	return s.flags[i]
}

// replaceSettings replaces the names of fields in the log, see [config.Settings], by the names of flags.
func (s *settings) replaceSettings(_ []string, at slog.Attr) slog.Attr {
	fields, ok := at.Value.Any().([]string)
	if at.Key != config.SettingsKey || !ok {
		return at
	}
	names := make([]string, len(fields))
	for i, field := range fields {
		names[i] = field
		if flag := s.flagOf(field); flag != nil {
			names[i] = "--" + flag.Name
		}
	}
	return slog.Any(at.Key, names)
}

// checkBounds returns an error for each flag of PostgreSQL, or for each other flag, that breaks the bounds
// of the command.
func (s *settings) checkBounds(ofPostgres bool) (errs []error) {
	for _, flag := range s.flags {
		if !flag.Target.CanInt() || strings.HasPrefix(fieldOf(flag), "postgres.") != ofPostgres {
			continue
		}
		least := config.Tag{Min: "0"}
		switch {
		case flag.Tag.Has("min"):
			least = describe(flag)
		case flag.Default == "-1":
			least.Min = "-1"
		case flag.Target.Int() >= 0 || describe(flag).Min != "":
			continue
		}
		if !least.Allows(flag.Target) {
			errs = append(errs, fmt.Errorf("--%s is %v, want %s", flag.Name, flag.Target.Interface(), least.Rule()))
		}
	}
	return errs
}
