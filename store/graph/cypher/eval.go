package cypher

import (
	"fmt"
	"math"
	"strings"

	"github.com/holdfast-dev/holdfast/store/graph"
)

// row has the values of variables by slot.
type row []any

func (x *execution) invalid(pos int, format string, args ...any) error {
	return failAt(x.query.text, pos, graph.CypherError{Rule: fmt.Sprintf(format, args...)})
}

// typeName names the type of a value for errors.
func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case int64:
		return "an integer"
	case float64:
		return "a float"
	case string:
		return "a string"
	case []any:
		return "a list"
	case map[string]any:
		return "a map"
	case *Node:
		return "an entity"
	case *Rel:
		return "a relationship"
	default:
		return "a path"
	}
}

func (e *literal) eval(*execution, row) (any, error) { return e.value, nil }

func (e *parameter) eval(x *execution, _ row) (any, error) {
	v, ok := x.params[e.name]
	if !ok {
		return nil, x.invalid(e.pos, "parameter $%s is missing", e.name)
	}
	return v, nil
}

func (e *variable) eval(_ *execution, r row) (any, error) { return r[e.slot], nil }

func (e *property) eval(x *execution, r row) (any, error) {
	of, err := e.of.eval(x, r)
	if err != nil {
		return nil, err
	}
	return x.member(of, e.key, e.pos)
}

func (x *execution) member(of any, key string, pos int) (any, error) {
	switch of := of.(type) {
	case nil:
		return nil, nil
	case *Node:
		return of.Properties[key], nil
	case *Rel:
		return of.Properties[key], nil
	case map[string]any:
		return of[key], nil
	default:
		return nil, x.invalid(pos, "property of %s", typeName(of))
	}
}

func (e *element) eval(x *execution, r row) (any, error) {
	of, err := e.of.eval(x, r)
	if err != nil {
		return nil, err
	}
	at, err := e.at.eval(x, r)
	if err != nil {
		return nil, err
	}
	if of == nil || at == nil {
		return nil, nil
	}
	if l, ok := of.([]any); ok {
		i, ok := at.(int64)
		if !ok {
			return nil, x.invalid(e.pos, "index of a list is %s", typeName(at))
		}
		if i < 0 {
			i += int64(len(l))
		}
		if i < 0 || i >= int64(len(l)) {
			return nil, nil
		}
		return l[i], nil
	}
	key, ok := at.(string)
	if !ok {
		return nil, x.invalid(e.pos, "element of %s is selected by %s", typeName(of), typeName(at))
	}
	return x.member(of, key, e.pos)
}

func (e *slice) eval(x *execution, r row) (any, error) {
	of, err := e.of.eval(x, r)
	if err != nil {
		return nil, err
	}
	l, ok := of.([]any)
	if !ok && of != nil {
		return nil, x.invalid(e.pos, "range of %s", typeName(of))
	}
	bounds := [2]int64{0, int64(len(l))}
	for i, b := range []expr{e.from, e.to} {
		if b == nil {
			continue
		}
		v, err := b.eval(x, r)
		if err != nil || v == nil {
			return nil, err
		}
		n, ok := v.(int64)
		if !ok {
			return nil, x.invalid(e.pos, "bound of a range is %s", typeName(v))
		}
		if n < 0 {
			n += int64(len(l))
		}
		bounds[i] = min(max(n, 0), int64(len(l)))
	}
	if of == nil {
		return nil, nil
	}
	if bounds[0] >= bounds[1] {
		return []any{}, nil
	}
	return l[bounds[0]:bounds[1]:bounds[1]], nil
}

func (e *list) eval(x *execution, r row) (any, error) {
	out := make([]any, len(e.items))
	for i, item := range e.items {
		v, err := item.eval(x, r)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, x.weigh(out)
}

func (e *object) eval(x *execution, r row) (any, error) {
	out := make(map[string]any, len(e.keys))
	for i, k := range e.keys {
		v, err := e.values[i].eval(x, r)
		if err != nil {
			return nil, err
		}
		out[k] = v
	}
	return out, x.weigh(out)
}

// truth evaluates a predicate.
func (x *execution) truth(e expr, r row, pos int) (truth, error) {
	v, err := e.eval(x, r)
	if err != nil {
		return no, err
	}
	switch v := v.(type) {
	case nil:
		return unknown, nil
	case bool:
		return truthOf(v), nil
	default:
		return no, x.invalid(pos, "condition is %s, not a boolean", typeName(v))
	}
}

func (e *not) eval(x *execution, r row) (any, error) {
	t, err := x.truth(e.of, r, e.pos)
	return t.not().value(), err
}

func (e *logical) eval(x *execution, r row) (any, error) {
	a, err := x.truth(e.left, r, e.pos)
	if err != nil {
		return nil, err
	}
	if e.op == "AND" && a == no || e.op == "OR" && a == yes {
		return a == yes, nil
	}
	b, err := x.truth(e.right, r, e.pos)
	if err != nil {
		return nil, err
	}
	switch {
	case e.op == "AND":
		return min(a, b).value(), nil
	case e.op == "OR":
		return max(a, b).value(), nil
	case a == unknown || b == unknown:
		return nil, nil
	default:
		return a != b, nil
	}
}

func (e *sign) eval(x *execution, r row) (any, error) {
	v, err := e.of.eval(x, r)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case int64:
		if e.negative && v == math.MinInt64 {
			return nil, x.invalid(e.pos, "integer overflow")
		}
		if e.negative {
			return -v, nil
		}
		return v, nil
	case float64:
		if e.negative {
			return -v, nil
		}
		return v, nil
	default:
		return nil, x.invalid(e.pos, "sign of %s", typeName(v))
	}
}

func (e *comparison) eval(x *execution, r row) (any, error) {
	result := yes
	a, err := e.operands[0].eval(x, r)
	if err != nil {
		return nil, err
	}
	for i, op := range e.ops {
		b, err := e.operands[i+1].eval(x, r)
		if err != nil {
			return nil, err
		}
		t, err := x.compareBy(op, a, b)
		if err != nil {
			return nil, err
		}
		if t == no {
			return false, nil
		}
		result = min(result, t)
		a = b
	}
	return result.value(), nil
}

func (x *execution) compareBy(op string, a, b any) (truth, error) {
	switch op {
	case "=":
		return x.equal(a, b)
	case "<>":
		t, err := x.equal(a, b)
		return t.not(), err
	}
	if isNaN(a) && isNumber(b) || isNaN(b) && isNumber(a) {
		return no, nil
	}
	c, known, err := x.compare(a, b)
	if err != nil || !known {
		return unknown, err
	}
	switch op {
	case "<":
		return truthOf(c < 0), nil
	case "<=":
		return truthOf(c <= 0), nil
	case ">":
		return truthOf(c > 0), nil
	default:
		return truthOf(c >= 0), nil
	}
}

func isNaN(v any) bool {
	f, ok := v.(float64)
	return ok && math.IsNaN(f)
}

func isNumber(v any) bool {
	switch v.(type) {
	case int64, float64:
		return true
	}
	return false
}

func (e *stringTest) eval(x *execution, r row) (any, error) {
	a, err := e.left.eval(x, r)
	if err != nil {
		return nil, err
	}
	b, err := e.right.eval(x, r)
	if err != nil {
		return nil, err
	}
	s, ok := a.(string)
	t, ok2 := b.(string)
	if !ok || !ok2 {
		return nil, nil
	}
	if err := x.produced(len(s)); err != nil {
		return nil, err
	}
	switch e.op {
	case "STARTS":
		return strings.HasPrefix(s, t), nil
	case "ENDS":
		return strings.HasSuffix(s, t), nil
	default:
		return strings.Contains(s, t), nil
	}
}

func (e *inList) eval(x *execution, r row) (any, error) {
	item, err := e.item.eval(x, r)
	if err != nil {
		return nil, err
	}
	l, err := e.list.eval(x, r)
	if err != nil || l == nil {
		return nil, err
	}
	items, ok := l.([]any)
	if !ok {
		return nil, x.invalid(e.pos, "right side of IN is %s, not a list", typeName(l))
	}
	result := no
	for _, v := range items {
		t, err := x.equal(item, v)
		if err != nil || t == yes {
			return true, err
		}
		result = max(result, t)
	}
	return result.value(), nil
}

func (e *isNull) eval(x *execution, r row) (any, error) {
	v, err := e.of.eval(x, r)
	return (v == nil) != e.negative, err
}

func (e *hasLabels) eval(x *execution, r row) (any, error) {
	v, err := e.of.eval(x, r)
	if err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case nil:
		return nil, nil
	case *Node:
		return v.has(e.labels), nil
	case *Rel:
		for _, l := range e.labels {
			if l != v.Type {
				return false, nil
			}
		}
		return true, nil
	default:
		return nil, x.invalid(e.pos, "labels of %s", typeName(v))
	}
}

func (e *call) eval(x *execution, r row) (any, error) {
	args := make([]any, len(e.args))
	for i, a := range e.args {
		v, err := a.eval(x, r)
		if err != nil {
			return nil, err
		}
		if v == nil && !e.fn.nulls {
			return nil, nil
		}
		args[i] = v
	}
	if err := x.step(1); err != nil {
		return nil, err
	}
	return e.fn.eval(x, e, args)
}

func (e *aggregate) eval(x *execution, _ row) (any, error) { return x.group[e.index], nil }

func (e *caseOf) eval(x *execution, r row) (any, error) {
	var operand any
	var err error
	if e.operand != nil {
		if operand, err = e.operand.eval(x, r); err != nil {
			return nil, err
		}
	}
	for i, c := range e.conditions {
		v, err := c.eval(x, r)
		if err != nil {
			return nil, err
		}
		matches := v == true
		if e.operand != nil {
			t, err := x.equal(operand, v)
			if err != nil {
				return nil, err
			}
			matches = t == yes
		}
		if matches {
			return e.results[i].eval(x, r)
		}
	}
	if e.otherwise == nil {
		return nil, nil
	}
	return e.otherwise.eval(x, r)
}
