package filter

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unicode/utf8"
)

// Limits of a filter.
const (
	MaxDepth    = 16   // nested operators
	MaxFilters  = 256  // operators in total
	MaxValues   = 1000 // operands of all in and nin together
	MaxPath     = 512  // bytes of a path
	MaxSegments = 16   // names in a path
	MaxString   = 4096 // bytes of a string
)

// Error reports a filter that is not valid.
type Error struct {
	// Field is the part of the filter, such as "filters[0].path".
	Field string
	// Rule is the rule that it violates, with the value.
	Rule string
}

func (e *Error) Error() string {
	if e.Field == "" {
		return "filter: " + e.Rule
	}
	return "filter: " + e.Field + ": " + e.Rule
}

// Check returns an *Error if f is not valid or exceeds a limit.
func (f Filter) Check() error {
	if f.IsZero() {
		return nil
	}
	c := checker{}
	if err := c.check(f, "", 1); err != nil {
		return err
	}
	return nil
}

// checker counts the parts of a filter.
type checker struct{ filters, values int }

func (c *checker) check(f Filter, at string, depth int) *Error {
	c.filters++
	switch {
	case depth > MaxDepth:
		return &Error{"", fmt.Sprintf("nested deeper than %d operators", MaxDepth)}
	case c.filters > MaxFilters:
		return &Error{"", fmt.Sprintf("has more than %d operators", MaxFilters)}
	}
	switch f.Op {
	case OpAnd, OpOr, OpNot:
		return c.checkOperands(f, at, depth)
	case OpEq, OpNe, OpGt, OpGte, OpLt, OpLte, OpIn, OpNotIn, OpExists, OpContains, OpStartsWith:
		return c.checkComparison(f, at)
	}
	return &Error{at + "op", fmt.Sprintf("unknown operator %.64q", string(f.Op))}
}

func (c *checker) checkOperands(f Filter, at string, depth int) *Error {
	switch {
	case f.Path != "" || f.Value != nil || len(f.Values) > 0:
		return &Error{at + "op", fmt.Sprintf("%s has filters only", f.Op)}
	case f.Op == OpNot && len(f.Filters) != 1:
		return &Error{at + "filters", fmt.Sprintf("not has %d filters, want 1", len(f.Filters))}
	}
	for i, operand := range f.Filters {
		if err := c.check(operand, fmt.Sprintf("%sfilters[%d].", at, i), depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) checkComparison(f Filter, at string) *Error {
	if rule := checkPath(f.Path); rule != "" {
		return &Error{at + "path", rule}
	}
	many := f.Op == OpIn || f.Op == OpNotIn
	switch {
	case len(f.Filters) > 0:
		return &Error{at + "filters", fmt.Sprintf("must not be set for %s", f.Op)}
	case !many && len(f.Values) > 0:
		return &Error{at + "values", fmt.Sprintf("must not be set for %s", f.Op)}
	case (many || f.Op == OpExists) && f.Value != nil:
		return &Error{at + "value", fmt.Sprintf("must not be set for %s", f.Op)}
	}
	if c.values += len(f.Values); c.values > MaxValues {
		return &Error{at + "values", fmt.Sprintf("has more than %d operands", MaxValues)}
	}
	for i, v := range f.Values {
		if rule := checkValue(f.Op, v); rule != "" {
			return &Error{fmt.Sprintf("%svalues[%d]", at, i), rule}
		}
	}
	if rule := checkValue(f.Op, f.Value); rule != "" && !many && f.Op != OpExists {
		return &Error{at + "value", rule}
	}
	return nil
}

func checkPath(path string) string {
	switch {
	case len(path) > MaxPath:
		return fmt.Sprintf("has %d bytes, limit is %d", len(path), MaxPath)
	case !utf8.ValidString(path):
		return "must be UTF-8"
	}
	names, err := splitPath(path)
	switch {
	case err != "":
		return err
	case len(names) > MaxSegments:
		return fmt.Sprintf("has %d names, limit is %d", len(names), MaxSegments)
	}
	return ""
}

// splitPath returns the names of a path, or the rule that it violates.
func splitPath(path string) (names []string, rule string) {
	var name strings.Builder
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case '\\':
			if i++; i == len(path) || path[i] != '.' && path[i] != '\\' {
				return nil, "a backslash must precede a dot or a backslash"
			}
			name.WriteByte(path[i])
		case '.':
			names = append(names, name.String())
			name.Reset()
		default:
			name.WriteByte(path[i])
		}
	}
	names = append(names, name.String())
	for _, n := range names {
		if n == "" {
			return nil, fmt.Sprintf("%.64q has an empty name", path)
		}
	}
	return names, ""
}

// checkValue returns the rule that an operand of op violates.
func checkValue(op Op, v any) string {
	switch op {
	case OpStartsWith:
		if _, ok := v.(string); !ok {
			return fmt.Sprintf("is %T, want a string", v)
		}
	case OpGt, OpGte, OpLt, OpLte:
		if _, text := v.(string); !text && !isNumber(v) {
			return fmt.Sprintf("is %T, want a number or a string", v)
		}
	default:
	}
	switch v := v.(type) {
	case nil, bool:
		return ""
	case string:
		switch {
		case len(v) > MaxString:
			return fmt.Sprintf("has %d bytes, limit is %d", len(v), MaxString)
		case !utf8.ValidString(v):
			return "must be UTF-8"
		}
		return ""
	}
	if !isNumber(v) {
		return fmt.Sprintf("is %T, want a string, a bool, a finite number or nil", v)
	}
	return ""
}

// isNumber reports whether v is a finite number, and encoding/json writes it as one.
func isNumber(v any) bool {
	switch v := v.(type) {
	case json.Number:
		_, err := v.Float64()
		return err == nil && json.Valid([]byte(v))
	case json.Marshaler, encoding.TextMarshaler: // such as slog.Level
		return false
	}
	r := reflect.ValueOf(v)
	if !r.IsValid() {
		return false
	}
	return r.CanInt() || r.CanUint() || r.CanFloat() && !math.IsNaN(r.Float()) && !math.IsInf(r.Float(), 0)
}
