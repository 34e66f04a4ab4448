// Package filter selects JSON objects, such as the metadata of stored values, by a tree of
// conditions. [Filter.Match] is the reference: a backend that evaluates a filter in its own
// language must select the same objects.
package filter

import (
	"maps"
	"slices"
)

// Op is the operator of a [Filter].
type Op string

// The operators. A comparison is typed: a number equals a number and a string a string, and
// values of different types are never equal.
const (
	OpEq         Op = "eq"         // the member equals Value
	OpNe         Op = "ne"         // negation of eq: also if the member does not exist
	OpGt         Op = "gt"         // both are numbers, or both strings in the order of their bytes
	OpGte        Op = "gte"        // see gt
	OpLt         Op = "lt"         // see gt
	OpLte        Op = "lte"        // see gt
	OpIn         Op = "in"         // the member equals one of Values
	OpNotIn      Op = "nin"        // negation of in: also if the member does not exist
	OpExists     Op = "exists"     // the member exists; it may be null
	OpContains   Op = "contains"   // an array has an element that equals Value, or a string contains it
	OpStartsWith Op = "startsWith" // the member is a string that starts with Value
	OpAnd        Op = "and"        // all of Filters match; no filters match everything
	OpOr         Op = "or"         // one of Filters matches; no filters match nothing
	OpNot        Op = "not"        // the only filter of Filters does not match
)

// Filter is a condition on a JSON object. The zero Filter matches every object. Filters are
// values: the functions of this package neither change nor keep their arguments.
type Filter struct {
	Op Op `json:"op,omitempty"`
	// Path is the member that a comparison reads: names of members of nested objects,
	// separated by dots. In a name, a backslash precedes a dot or a backslash.
	Path string `json:"path,omitempty"`
	// Value is a string, a bool, a number or nil (null).
	Value any `json:"value,omitempty"`
	// Values are the operands of in and nin.
	Values []any `json:"values,omitempty"`
	// Filters are the operands of and, or and not.
	Filters []Filter `json:"filters,omitempty"`
}

// Eq matches if the member at path equals value.
func Eq(path string, value any) Filter { return Filter{Op: OpEq, Path: path, Value: value} }

// Ne matches if Eq does not.
func Ne(path string, value any) Filter { return Filter{Op: OpNe, Path: path, Value: value} }

// Gt matches if the member is greater than value.
func Gt(path string, value any) Filter { return Filter{Op: OpGt, Path: path, Value: value} }

// Gte matches if the member is at least value.
func Gte(path string, value any) Filter { return Filter{Op: OpGte, Path: path, Value: value} }

// Lt matches if the member is less than value.
func Lt(path string, value any) Filter { return Filter{Op: OpLt, Path: path, Value: value} }

// Lte matches if the member is at most value.
func Lte(path string, value any) Filter { return Filter{Op: OpLte, Path: path, Value: value} }

// In matches if the member equals one of values.
func In(path string, values ...any) Filter { return Filter{Op: OpIn, Path: path, Values: values} }

// NotIn matches if In does not.
func NotIn(path string, values ...any) Filter {
	return Filter{Op: OpNotIn, Path: path, Values: values}
}

// Exists matches if the member exists.
func Exists(path string) Filter { return Filter{Op: OpExists, Path: path} }

// Contains matches an array with an element that equals value, and a string that contains it.
func Contains(path string, value any) Filter {
	return Filter{Op: OpContains, Path: path, Value: value}
}

// StartsWith matches a string that starts with prefix.
func StartsWith(path, prefix string) Filter {
	return Filter{Op: OpStartsWith, Path: path, Value: prefix}
}

// And matches if all filters match.
func And(filters ...Filter) Filter { return Filter{Op: OpAnd, Filters: filters} }

// Or matches if one of the filters matches.
func Or(filters ...Filter) Filter { return Filter{Op: OpOr, Filters: filters} }

// Not matches if f does not.
func Not(f Filter) Filter { return Filter{Op: OpNot, Filters: []Filter{f}} }

// Map matches if every path of m has its value: And of Eq.
func Map(m map[string]any) Filter {
	f := And()
	for _, path := range slices.Sorted(maps.Keys(m)) {
		f.Filters = append(f.Filters, Eq(path, m[path]))
	}
	return f
}

// IsZero reports whether f is the zero Filter.
func (f Filter) IsZero() bool {
	return f.Op == "" && f.Path == "" && f.Value == nil && f.Values == nil && f.Filters == nil
}
