package cypher

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// function is a function of the language.
type function struct {
	// min and max are the numbers of arguments. max is -1 without a bound.
	min, max int
	// nulls: the function is called with null. Without it, the result is null if an argument is.
	nulls bool
	// args are the kinds that arguments may have, of those that are known before the execution.
	// None means all.
	args []kind
	// result is the kind of the result, if it is always the same.
	result kind
	// notAGE: Apache AGE lacks the function, or has another one of this name.
	notAGE bool
	eval   func(x *execution, e *call, args []any) (any, error)
}

// wrong reports an argument of a wrong type.
func (e *call) wrong(x *execution, v any) error {
	return x.invalid(e.pos, "argument of function %s is %s", e.name, typeName(v))
}

// functions by their name in lower case.
var functions = map[string]*function{
	"coalesce": {min: 1, max: -1, nulls: true, eval: func(_ *execution, _ *call, args []any) (any, error) {
		for _, a := range args {
			if a != nil {
				return a, nil
			}
		}
		return nil, nil
	}},
	"exists":    {min: 1, max: 1, nulls: true, result: valueKind, eval: func(_ *execution, _ *call, args []any) (any, error) { return args[0] != nil, nil }},
	"startnode": {min: 1, max: 1, args: []kind{relKind}, result: nodeKind, eval: endOf(func(r *Rel) string { return r.Source })},
	"endnode":   {min: 1, max: 1, args: []kind{relKind}, result: nodeKind, eval: endOf(func(r *Rel) string { return r.Target })},
	"type": {min: 1, max: 1, args: []kind{relKind}, result: valueKind, eval: func(x *execution, e *call, args []any) (any, error) {
		if r, ok := args[0].(*Rel); ok {
			return r.Type, nil
		}
		return nil, e.wrong(x, args[0])
	}},
	"labels": {min: 1, max: 1, args: []kind{nodeKind}, result: valueKind, eval: func(x *execution, e *call, args []any) (any, error) {
		if n, ok := args[0].(*Node); ok {
			return stringsOf(n.Labels), nil
		}
		return nil, e.wrong(x, args[0])
	}},
	"properties": {min: 1, max: 1, args: []kind{nodeKind, relKind, valueKind}, result: valueKind, eval: func(x *execution, e *call, args []any) (any, error) {
		m, ok := propertiesOf(args[0])
		if !ok {
			return nil, e.wrong(x, args[0])
		}
		return m, nil
	}},
	"keys": {min: 1, max: 1, result: valueKind, eval: func(x *execution, e *call, args []any) (any, error) {
		m, ok := propertiesOf(args[0])
		if !ok {
			return nil, e.wrong(x, args[0])
		}
		return stringsOf(slices.Sorted(maps.Keys(m))), x.step(len(m))
	}},
	"nodes": {min: 1, max: 1, args: []kind{pathKind}, result: valueKind, eval: func(x *execution, e *call, args []any) (any, error) {
		p, ok := args[0].(*Path)
		if !ok {
			return nil, e.wrong(x, args[0])
		}
		return anys(p.Nodes), x.step(len(p.Nodes))
	}},
	"relationships": {min: 1, max: 1, args: []kind{pathKind}, result: relsKind, eval: func(x *execution, e *call, args []any) (any, error) {
		p, ok := args[0].(*Path)
		if !ok {
			return nil, e.wrong(x, args[0])
		}
		return anys(p.Rels), x.step(len(p.Rels))
	}},
	"length": {min: 1, max: 1, args: []kind{pathKind}, result: valueKind, eval: func(x *execution, e *call, args []any) (any, error) {
		p, ok := args[0].(*Path)
		if !ok {
			return nil, e.wrong(x, args[0])
		}
		return int64(len(p.Rels)), nil
	}},
	"size": {min: 1, max: 1, args: []kind{valueKind, relsKind}, result: valueKind, eval: func(x *execution, e *call, args []any) (any, error) {
		switch v := args[0].(type) {
		case []any:
			return int64(len(v)), nil
		case string:
			return int64(len([]rune(v))), x.produced(len(v))
		}
		return nil, e.wrong(x, args[0])
	}},
	"head":    {min: 1, max: 1, eval: ofList(func(l []any) any { return at(l, 0) })},
	"last":    {min: 1, max: 1, eval: ofList(func(l []any) any { return at(l, len(l)-1) })},
	"tail":    {min: 1, max: 1, result: valueKind, eval: ofList(func(l []any) any { return l[min(1, len(l)):] })},
	"reverse": {min: 1, max: 1, eval: reverse},
	"range":   {min: 2, max: 3, result: valueKind, eval: rangeOf},

	"tostring":  {min: 1, max: 1, args: []kind{valueKind}, result: valueKind, eval: toString},
	"tointeger": {min: 1, max: 1, args: []kind{valueKind}, result: valueKind, eval: toInteger},
	"tofloat": {min: 1, max: 1, args: []kind{valueKind}, result: valueKind, eval: func(x *execution, e *call, args []any) (any, error) {
		if f, ok := toFloat(args[0]); ok {
			return f, nil
		}
		s, ok := args[0].(string)
		if !ok {
			return nil, e.wrong(x, args[0])
		}
		if f, ok := parseFloat(s); ok {
			return f, nil
		}
		return nil, nil
	}},
	"toboolean": {min: 1, max: 1, args: []kind{valueKind}, result: valueKind, eval: func(x *execution, e *call, args []any) (any, error) {
		switch v := args[0].(type) {
		case bool:
			return v, nil
		case string:
			switch strings.ToLower(strings.TrimSpace(v)) {
			case "true":
				return true, nil
			case "false":
				return false, nil
			}
			return nil, nil
		}
		return nil, e.wrong(x, args[0])
	}},

	"tolower": {min: 1, max: 1, result: valueKind, eval: ofString(strings.ToLower)},
	"toupper": {min: 1, max: 1, result: valueKind, eval: ofString(strings.ToUpper)},
	"trim":    {min: 1, max: 1, result: valueKind, eval: ofString(strings.TrimSpace)},
	"ltrim":   {min: 1, max: 1, result: valueKind, eval: ofString(func(s string) string { return strings.TrimLeftFunc(s, unicode.IsSpace) })},
	"rtrim":   {min: 1, max: 1, result: valueKind, eval: ofString(func(s string) string { return strings.TrimRightFunc(s, unicode.IsSpace) })},
	"left":    {min: 2, max: 2, result: valueKind, eval: part(func(r []rune, n []int) []rune { return r[:min(n[0], len(r))] })},
	"right":   {min: 2, max: 2, result: valueKind, eval: part(func(r []rune, n []int) []rune { return r[max(0, len(r)-n[0]):] })},
	"substring": {min: 2, max: 3, result: valueKind, eval: part(func(r []rune, n []int) []rune {
		r = r[min(n[0], len(r)):]
		if len(n) > 1 {
			r = r[:min(n[1], len(r))]
		}
		return r
	})},
	"replace": {min: 3, max: 3, result: valueKind, eval: replace},
	"split":   {min: 2, max: 2, result: valueKind, eval: split},

	"abs": {min: 1, max: 1, result: valueKind, eval: func(x *execution, e *call, args []any) (any, error) {
		if i, ok := args[0].(int64); ok && i != math.MinInt64 {
			return max(i, -i), nil
		}
		return ofNumber(math.Abs)(x, e, args)
	}},
	"sign": {min: 1, max: 1, result: valueKind, eval: func(x *execution, e *call, args []any) (any, error) {
		f, ok := toFloat(args[0])
		if !ok {
			return nil, e.wrong(x, args[0])
		}
		c, _ := compareNumbers(f, int64(0))
		return int64(c), nil
	}},
	"ceil":  {min: 1, max: 1, result: valueKind, eval: ofNumber(math.Ceil)},
	"floor": {min: 1, max: 1, result: valueKind, eval: ofNumber(math.Floor)},
	"round": {min: 1, max: 1, result: valueKind, eval: ofNumber(math.Round)},
	"sqrt":  {min: 1, max: 1, result: valueKind, eval: ofNumber(math.Sqrt)},
	"exp":   {min: 1, max: 1, result: valueKind, eval: ofNumber(math.Exp)},
	"log":   {min: 1, max: 1, result: valueKind, eval: ofNumber(math.Log)},
	"log10": {min: 1, max: 1, result: valueKind, eval: ofNumber(math.Log10)},
	"rand":  {max: 0, result: valueKind, eval: func(*execution, *call, []any) (any, error) { return rand.Float64(), nil }}, //nolint:gosec // a random number of the language, not a secret
}

// endOf returns a function for an end of a relationship.
func endOf(id func(*Rel) string) func(*execution, *call, []any) (any, error) {
	return func(x *execution, e *call, args []any) (any, error) {
		r, ok := args[0].(*Rel)
		if !ok {
			return nil, e.wrong(x, args[0])
		}
		n, err := x.node(id(r))
		if n == nil {
			return nil, err
		}
		return n, nil
	}
}

func ofList(f func([]any) any) func(*execution, *call, []any) (any, error) {
	return func(x *execution, e *call, args []any) (any, error) {
		l, ok := args[0].([]any)
		if !ok {
			return nil, e.wrong(x, args[0])
		}
		return f(l), nil
	}
}

func ofString(f func(string) string) func(*execution, *call, []any) (any, error) {
	return func(x *execution, e *call, args []any) (any, error) {
		s, ok := args[0].(string)
		if !ok {
			return nil, e.wrong(x, args[0])
		}
		return f(s), x.produced(len(s))
	}
}

func ofNumber(f func(float64) float64) func(*execution, *call, []any) (any, error) {
	return func(x *execution, e *call, args []any) (any, error) {
		n, ok := toFloat(args[0])
		if !ok {
			return nil, e.wrong(x, args[0])
		}
		return f(n), nil
	}
}

// part returns a function that selects characters of a string by numbers of at least 0.
func part(f func([]rune, []int) []rune) func(*execution, *call, []any) (any, error) {
	return func(x *execution, e *call, args []any) (any, error) {
		s, ok := args[0].(string)
		if !ok {
			return nil, e.wrong(x, args[0])
		}
		var numbers []int
		for _, a := range args[1:] {
			n, ok := a.(int64)
			if !ok {
				return nil, e.wrong(x, a)
			}
			if n < 0 {
				return nil, x.invalid(e.pos, "argument of function %s is negative", e.name)
			}
			numbers = append(numbers, int(min(n, math.MaxInt32)))
		}
		return string(f([]rune(s), numbers)), x.produced(len(s))
	}
}

func at(l []any, i int) any {
	if i < 0 || i >= len(l) {
		return nil
	}
	return l[i]
}

func anys[T any](l []T) []any {
	out := make([]any, len(l))
	for i := range l {
		out[i] = l[i]
	}
	return out
}

func stringsOf(l []string) []any { return anys(l) }

func propertiesOf(v any) (map[string]any, bool) {
	switch v := v.(type) {
	case *Node:
		return v.Properties, true
	case *Rel:
		return v.Properties, true
	case map[string]any:
		return v, true
	}
	return nil, false
}

func reverse(x *execution, e *call, args []any) (any, error) {
	switch v := args[0].(type) {
	case []any:
		out := slices.Clone(v)
		slices.Reverse(out)
		return out, x.step(len(v))
	case string:
		out := []rune(v)
		slices.Reverse(out)
		return string(out), x.produced(len(v))
	}
	return nil, e.wrong(x, args[0])
}

func rangeOf(x *execution, e *call, args []any) (any, error) {
	bounds := []int64{0, 0, 1}
	for i, a := range args {
		n, ok := a.(int64)
		if !ok {
			return nil, e.wrong(x, a)
		}
		bounds[i] = n
	}
	from, to, step := bounds[0], bounds[1], bounds[2]
	if step == 0 {
		return nil, x.invalid(e.pos, "step of function range is 0")
	}
	out := []any{}
	for n := from; step > 0 && n <= to || step < 0 && n >= to; n += step {
		if err := x.step(1); err != nil {
			return nil, err
		}
		out = append(out, n)
		if step > 0 && n > math.MaxInt64-step || step < 0 && n < math.MinInt64-step {
			break
		}
	}
	return out, nil
}

// text returns a scalar as a string.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case int64:
		return strconv.FormatInt(v, 10), true
	case float64:
		return formatFloat(v), true
	}
	return "", false
}

func formatFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a >= 1e16 || a < 1e-5) {
		format = 'e'
	}
	s := strconv.FormatFloat(f, format, -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

func toString(x *execution, e *call, args []any) (any, error) {
	s, ok := text(args[0])
	if !ok {
		return nil, e.wrong(x, args[0])
	}
	return s, x.produced(len(s))
}

func toInteger(x *execution, e *call, args []any) (any, error) {
	switch v := args[0].(type) {
	case int64:
		return v, nil
	case float64:
		return floatToInteger(v), nil
	case string:
		s := strings.TrimSpace(v)
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return i, nil
		}
		if f, ok := parseFloat(s); ok {
			return floatToInteger(f), nil
		}
		return nil, nil
	}
	return nil, e.wrong(x, args[0])
}

func floatToInteger(f float64) any {
	if math.IsNaN(f) || f >= 1<<63 || f < -1<<63 {
		return nil
	}
	return int64(f)
}

func parseFloat(s string) (float64, bool) {
	s = strings.TrimSpace(s)
	if strings.ContainsAny(s, "xXpP_nN") {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

func replace(x *execution, e *call, args []any) (any, error) {
	var s [3]string
	for i, a := range args {
		t, ok := a.(string)
		if !ok {
			return nil, e.wrong(x, a)
		}
		s[i] = t
	}
	if s[1] == "" {
		return s[0], nil
	}
	size := len(s[0]) + strings.Count(s[0], s[1])*max(0, len(s[2])-len(s[1]))
	if err := x.produced(size); err != nil {
		return nil, err
	}
	return strings.ReplaceAll(s[0], s[1], s[2]), nil
}

func split(x *execution, e *call, args []any) (any, error) {
	s, ok := args[0].(string)
	if !ok {
		return nil, e.wrong(x, args[0])
	}
	separator, ok := args[1].(string)
	if !ok {
		return nil, e.wrong(x, args[1])
	}
	if err := x.step(len(s)); err != nil {
		return nil, err
	}
	return stringsOf(strings.Split(s, separator)), nil
}
