// Package config sets the defaults of configuration structs and checks their fields, as tags
// describe them:
//
//	Lease   time.Duration `default:"15s" min:"100ms"`
//	MaxBody int64         `default:"10MiB" min:"1"`
//
// default replaces the zero value. min and max are the bounds of the field after that. Fields are
// integers or durations; integers may have the unit KiB, MiB or GiB.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Problem is an invalid field of a configuration.
type Problem struct {
	// Field is the name of the field, such as "Lease" or "Limits.Queued".
	Field string
	// Value is the invalid value; nil if it is missing or may be secret.
	Value any
	// Rule is the rule that the value breaks, such as "100ms or more"; "" if Err is set.
	Rule string
	// Err is why the value is invalid, if a rule alone does not say it.
	Err error
}

func (p Problem) Error() string { return p.Field + p.Reason(p.Value) }

// Unwrap returns Err.
func (p Problem) Unwrap() error { return p.Err }

// Reason returns the error without the field, with value as the invalid value.
func (p Problem) Reason(value any) string {
	switch {
	case p.Err != nil:
		return ": " + p.Err.Error()
	case p.Value == nil:
		return " " + p.Rule
	case reflect.ValueOf(value).Kind() == reflect.String:
		return fmt.Sprintf(" is %q, want %s", value, p.Rule)
	}
	return fmt.Sprintf(" is %v, want %s", value, p.Rule)
}

// SettingsKey is the key of [Settings].
const SettingsKey = "settings"

// Settings returns the attribute of a log message that names the fields of a configuration with which the user can change
// what the message says. The command replaces them by the names of its flags.
func Settings(fields ...string) slog.Attr { return slog.Any(SettingsKey, fields) }

// Error lists the problems of a configuration.
type Error struct {
	Of       string // what is configured
	Problems []Problem
}

func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.Error()
	}
	return e.Of + " config: " + strings.Join(lines, "\n")
}

// Unwrap returns the problems.
func (e *Error) Unwrap() []error {
	all := make([]error, len(e.Problems))
	for i, p := range e.Problems {
		all[i] = p
	}
	return all
}

// OrNil returns e, or nil if it has no problems.
func (e *Error) OrNil() error {
	if len(e.Problems) == 0 {
		return nil
	}
	return e
}

// Reject adds a problem if invalid is true.
func (e *Error) Reject(invalid bool, field string, value any, rule string, args ...any) {
	if invalid {
		e.Problems = append(e.Problems, Problem{Field: field, Value: value, Rule: fmt.Sprintf(rule, args...)})
	}
}

// Require adds a problem if a field is missing.
func (e *Error) Require(missing bool, field string) { e.Reject(missing, field, nil, "is required") }

// Add adds an error about a field, unless it is nil. Each error of a joined error is a problem.
func (e *Error) Add(field string, err error) {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // only the outermost error
		for _, err := range joined.Unwrap() {
			e.Add(field, err)
		}
	} else if err != nil {
		e.Problems = append(e.Problems, Problem{Field: field, Err: err})
	}
}

// Join adds the problems of an [Error] about another configuration, except problems of fields that
// have one already. rename returns the name that a field has here.
func (e *Error) Join(err error, rename func(field string) string) {
	var other *Error
	if !errors.As(err, &other) {
		return
	}
	known := e.Problems
	for _, p := range other.Problems {
		p.Field = rename(p.Field)
		if !slices.ContainsFunc(known, func(k Problem) bool { return k.Field == p.Field }) {
			e.Problems = append(e.Problems, p)
		}
	}
}

// Apply sets the defaults of the struct that c points to, and of structs in it, and returns an Error
// with the fields that break their bounds.
func Apply(of string, c any) *Error {
	e := &Error{Of: of}
	e.apply("", reflect.ValueOf(c).Elem())
	return e
}

func (e *Error) apply(prefix string, v reflect.Value) {
	for i := range v.NumField() {
		about, value := v.Type().Field(i), v.Field(i)
		switch tag := tagOf(about); {
		case about.Type.Kind() == reflect.Struct && about.IsExported():
			e.apply(prefix+about.Name+".", value)
		case tag == (Tag{}):
		default:
			if value.IsZero() && tag.Default != "" {
				value.SetInt(parse(about.Type, tag.Default))
			}
			e.Reject(!tag.Allows(value), prefix+about.Name, value.Interface(), "%s", tag.Rule())
		}
	}
}

// Tag describes a field.
type Tag struct{ Default, Min, Max string }

// Allows reports whether an integer or duration is within the bounds.
func (t Tag) Allows(v reflect.Value) bool {
	return (t.Min == "" || v.Int() >= parse(v.Type(), t.Min)) && (t.Max == "" || v.Int() <= parse(v.Type(), t.Max))
}

// Rule returns the bounds as text.
func (t Tag) Rule() string {
	switch {
	case t.Min == "1ns":
		return "more than 0"
	case t.Min == "" && t.Max != "":
		return "up to " + t.Max
	case t.Max != "":
		return t.Min + " to " + t.Max
	case t.Min != "":
		return t.Min + " or more"
	}
	return ""
}

// Lookup returns the tag of a field of a struct type, such as "Limits.Queued".
func Lookup(t reflect.Type, field string) Tag {
	name, rest, nested := strings.Cut(field, ".")
	about, ok := t.FieldByName(name)
	if ok && nested {
		return Lookup(about.Type, rest)
	}
	return tagOf(about)
}

func tagOf(f reflect.StructField) Tag {
	return Tag{f.Tag.Get("default"), f.Tag.Get("min"), f.Tag.Get("max")}
}

var units = map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

// parse returns the value of a tag. It panics if the tag is not valid.
func parse(t reflect.Type, text string) int64 {
	if t == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(text)
		if err != nil {
			panic(err)
		}
		return int64(d)
	}
	factor := int64(1)
	for unit, size := range units {
		if number, ok := strings.CutSuffix(text, unit); ok {
			text, factor = number, size
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err)
	}
	return n * factor
}
