package cypher

// aggregates are the names of aggregates.
var aggregates = map[string]bool{"count": true, "sum": true, "avg": true, "min": true, "max": true, "collect": true}

// accumulator computes an aggregate of a group.
type accumulator struct {
	of *aggregate
	// seen has the values of DISTINCT.
	seen  map[string]bool
	count int64
	value any
	list  []any
	// sum is the sum of the numbers of an average.
	sum float64
}

func newAccumulator(of *aggregate) *accumulator {
	a := &accumulator{of: of, list: []any{}}
	if of.distinct {
		a.seen = make(map[string]bool)
	}
	if of.name == "sum" {
		a.value = int64(0)
	}
	return a
}

func (a *accumulator) add(x *execution, r row) error {
	if a.of.arg == nil {
		a.count++
		return nil
	}
	v, err := a.of.arg.eval(x, r)
	if err != nil || v == nil {
		return err
	}
	if a.seen != nil {
		key, err := x.appendKey(nil, v)
		if err != nil || a.seen[string(key)] {
			return err
		}
		a.seen[string(key)] = true
	}
	a.count++
	switch a.of.name {
	case "sum":
		a.value, err = (&arithmetic{op: "+", left: &literal{value: a.value}, right: &literal{value: v}, pos: a.of.pos}).number(x, v)
	case "avg":
		err = a.average(x, v)
	case "min", "max":
		err = a.extreme(x, v)
	case "collect":
		a.list = append(a.list, v)
		err = x.weigh(v)
	}
	return err
}

// number is eval, but rejects values that are no numbers.
func (e *arithmetic) number(x *execution, v any) (any, error) {
	if !isNumber(v) {
		return nil, x.invalid(e.pos, "aggregate of %s, not of a number", typeName(v))
	}
	return e.eval(x, nil)
}

func (a *accumulator) average(x *execution, v any) error {
	f, ok := toFloat(v)
	if !ok {
		return x.invalid(a.of.pos, "aggregate of %s, not of a number", typeName(v))
	}
	a.sum += f
	return nil
}

func (a *accumulator) extreme(x *execution, v any) error {
	if a.count == 1 {
		a.value = v
		return nil
	}
	c, err := x.order(v, a.value)
	if a.of.name == "min" && c < 0 || a.of.name == "max" && c > 0 {
		a.value = v
	}
	return err
}

func (a *accumulator) result() any {
	switch a.of.name {
	case "count", "count(*)":
		return a.count
	case "avg":
		if a.count == 0 {
			return nil
		}
		return a.sum / float64(a.count)
	case "collect":
		return a.list
	default:
		return a.value
	}
}
