package filter

import (
	"encoding/json"
	"math/big"
	"reflect"
	"strconv"
	"strings"
)

// Match reports whether f selects an object. The values of the object have the types of
// encoding/json. f must be valid; see [Filter.Check].
//
// Integers of up to 64 bits are compared exactly. Numbers beyond are compared as float64.
func (f Filter) Match(object map[string]any) bool {
	switch f.Op {
	case OpAnd:
		for _, operand := range f.Filters {
			if !operand.Match(object) {
				return false
			}
		}
		return true
	case OpOr:
		for _, operand := range f.Filters {
			if operand.Match(object) {
				return true
			}
		}
		return false
	case OpNot:
		return !f.Filters[0].Match(object)
	case "":
		return true
	default:
		member, exists := Lookup(object, f.Path)
		return f.compare(member, exists)
	}
}

// Lookup returns the member at a path, and whether it exists.
func Lookup(object map[string]any, path string) (member any, exists bool) {
	names, _ := splitPath(path)
	member = object
	for _, name := range names {
		object, ok := member.(map[string]any)
		if !ok {
			return nil, false
		}
		if member, ok = object[name]; !ok {
			return nil, false
		}
	}
	return member, len(names) > 0
}

func (f Filter) compare(member any, exists bool) bool {
	switch f.Op {
	case OpEq:
		return exists && equal(member, f.Value)
	case OpNe:
		return !exists || !equal(member, f.Value)
	case OpIn:
		return exists && f.in(member)
	case OpNotIn:
		return !exists || !f.in(member)
	case OpExists:
		return exists
	case OpContains:
		return contains(member, f.Value)
	case OpStartsWith:
		text, ok := member.(string)
		prefix, _ := f.Value.(string)
		return ok && strings.HasPrefix(text, prefix)
	default:
		return exists && f.ordered(member)
	}
}

// ordered evaluates gt, gte, lt and lte.
func (f Filter) ordered(member any) bool {
	c, ok := order(member, f.Value)
	switch f.Op {
	case OpGt:
		return ok && c > 0
	case OpGte:
		return ok && c >= 0
	case OpLt:
		return ok && c < 0
	default:
		return ok && c <= 0
	}
}

func (f Filter) in(member any) bool {
	for _, v := range f.Values {
		if equal(member, v) {
			return true
		}
	}
	return false
}

func contains(member, value any) bool {
	switch member := member.(type) {
	case string:
		part, ok := value.(string)
		return ok && strings.Contains(member, part)
	case []any:
		for _, element := range member {
			if equal(element, value) {
				return true
			}
		}
	}
	return false
}

// equal compares scalars of the same type. Arrays and objects equal nothing.
func equal(a, b any) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	}
	c, ok := order(a, b)
	return ok && c == 0
}

// order compares two strings or two numbers. ok is false for other types.
func order(a, b any) (c int, ok bool) {
	if a, isText := a.(string); isText {
		b, isText := b.(string)
		return strings.Compare(a, b), isText
	}
	if _, isText := b.(string); isText {
		return 0, false
	}
	x, y := number(a), number(b)
	if x == nil || y == nil {
		return 0, false
	}
	return x.Cmp(y), true
}

// number returns a finite number without rounding integers of 64 bits, or nil.
func number(v any) *big.Float {
	if !isNumber(v) {
		return nil
	}
	if n, ok := v.(json.Number); ok {
		if i, err := n.Int64(); err == nil {
			return new(big.Float).SetInt64(i)
		}
		if u, err := strconv.ParseUint(n.String(), 10, 64); err == nil {
			return new(big.Float).SetUint64(u)
		}
		f, _ := n.Float64()
		return big.NewFloat(f)
	}
	r := reflect.ValueOf(v)
	switch {
	case r.CanInt():
		return new(big.Float).SetInt64(r.Int())
	case r.CanUint():
		return new(big.Float).SetUint64(r.Uint())
	case r.Kind() == reflect.Float32: // its decimal, which encoding/json writes
		f, _ := strconv.ParseFloat(strconv.FormatFloat(r.Float(), 'g', -1, 32), 64)
		return big.NewFloat(f)
	}
	return big.NewFloat(r.Float())
}
