package cypher

import "math"

func (e *arithmetic) eval(x *execution, r row) (any, error) {
	a, err := e.left.eval(x, r)
	if err != nil {
		return nil, err
	}
	b, err := e.right.eval(x, r)
	if err != nil {
		return nil, err
	}
	if e.op == "+" {
		if v, ok, err := e.concat(x, a, b); ok || err != nil {
			return v, err
		}
	}
	if a == nil || b == nil {
		return nil, nil
	}
	i, ok := a.(int64)
	j, ok2 := b.(int64)
	if ok && ok2 && e.op != "^" {
		return e.integers(x, i, j)
	}
	f, ok := toFloat(a)
	g, ok2 := toFloat(b)
	if !ok || !ok2 {
		return nil, x.invalid(e.pos, "operands of %s are %s and %s", e.op, typeName(a), typeName(b))
	}
	switch e.op {
	case "+":
		return f + g, nil
	case "-":
		return f - g, nil
	case "*":
		return f * g, nil
	case "/":
		return f / g, nil
	case "%":
		return math.Mod(f, g), nil
	default:
		return math.Pow(f, g), nil
	}
}

// concat joins lists and strings. ok is false if the operands are neither.
func (e *arithmetic) concat(x *execution, a, b any) (_ any, ok bool, err error) {
	l, isList := a.([]any)
	m, isList2 := b.([]any)
	switch {
	case (isList || isList2) && (a == nil || b == nil):
		return nil, true, nil
	case isList && isList2:
	case isList:
		m = []any{b}
	case isList2:
		l = []any{a}
	default:
		return e.join(x, a, b)
	}
	if err := x.step(len(l) + len(m)); err != nil {
		return nil, true, err
	}
	return append(append(make([]any, 0, len(l)+len(m)), l...), m...), true, nil
}

func (e *arithmetic) join(x *execution, a, b any) (_ any, ok bool, err error) {
	_, isString := a.(string)
	_, isString2 := b.(string)
	if !isString && !isString2 || a == nil || b == nil {
		return nil, false, nil
	}
	s, ok := text(a)
	t, ok2 := text(b)
	if !ok || !ok2 {
		return nil, false, nil
	}
	return s + t, true, x.produced(len(s) + len(t))
}

func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func (e *arithmetic) integers(x *execution, i, j int64) (any, error) {
	overflow := false
	var n int64
	switch e.op {
	case "+":
		n = i + j
		overflow = (n > i) != (j > 0)
	case "-":
		n = i - j
		overflow = (n < i) != (j > 0)
	case "*":
		n = i * j
		overflow = i != 0 && (n/i != j || i == -1 && j == math.MinInt64)
	default:
		if j == 0 {
			return nil, x.invalid(e.pos, "division by zero")
		}
		overflow = i == math.MinInt64 && j == -1
		if e.op == "%" {
			return i % j, nil
		}
		if !overflow {
			n = i / j
		}
	}
	if overflow {
		return nil, x.invalid(e.pos, "integer overflow")
	}
	return n, nil
}
