package cypher

func (e *comprehension) eval(x *execution, r row) (any, error) {
	items, err := x.items(e.list, r, e.item.pos)
	if err != nil || items == nil {
		return nil, err
	}
	out := []any{}
	for _, v := range items {
		r[e.item.slot] = v
		if e.where != nil {
			if t, err := x.truth(e.where, r, e.item.pos); err != nil {
				return nil, err
			} else if t != yes {
				continue
			}
		}
		if e.out != nil {
			if v, err = e.out.eval(x, r); err != nil {
				return nil, err
			}
		}
		if err := x.weigh(v); err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

// items evaluates a list. It returns nil without an error for null.
func (x *execution) items(e expr, r row, pos int) ([]any, error) {
	v, err := e.eval(x, r)
	if err != nil || v == nil {
		return nil, err
	}
	items, ok := v.([]any)
	if !ok {
		return nil, x.invalid(pos, "value is %s, not a list", typeName(v))
	}
	return items, x.step(len(items))
}

func (e *quantifier) eval(x *execution, r row) (any, error) {
	items, err := x.items(e.list, r, e.pos)
	if err != nil || items == nil {
		return nil, err
	}
	var counts [3]int // by truth
	for _, v := range items {
		r[e.item.slot] = v
		t, err := x.truth(e.where, r, e.pos)
		if err != nil {
			return nil, err
		}
		counts[t]++
	}
	return e.result(counts).value(), nil
}

func (e *quantifier) result(counts [3]int) truth {
	some := counts[unknown] > 0
	switch {
	case e.name == "all" && counts[no] > 0, e.name == "none" && counts[yes] > 0, e.name == "single" && counts[yes] > 1:
		return no
	case e.name == "any" && counts[yes] > 0:
		return yes
	case some:
		return unknown
	case e.name == "any":
		return no
	case e.name == "single":
		return truthOf(counts[yes] == 1)
	default:
		return yes
	}
}

func (e *patternTest) eval(x *execution, r row) (any, error) {
	found := false
	err := x.matches(e.plan, r, func() (bool, error) {
		found = true
		return false, nil
	})
	return found, err
}

func (e *patternComprehension) eval(x *execution, r row) (any, error) {
	out := []any{}
	err := x.matches(e.plan, r, func() (bool, error) {
		v, err := e.out.eval(x, r)
		if err != nil {
			return false, err
		}
		out = append(out, v)
		return true, x.weigh(v)
	})
	return out, err
}
