package cypher

// plan is the order in which the parts of patterns are matched.
type plan struct {
	patterns []*pattern
	steps    []step
	// conditions[i] are checked before steps[i], the last ones at the end.
	conditions [][]expr
	// ids are conditions on the property id, by the slot of the entity.
	ids map[int]expr
}

// step finds entities of nodes[to] of a pattern: from all entities if rel is -1, otherwise over
// rels[rel] from nodes[from].
type step struct {
	pattern       *pattern
	rel, from, to int
	// bound: the entity is known already.
	bound bool
	// id is the id that the entity of a start must have, nil if it is not known.
	id expr
	// late: the properties depend on later steps, and are checked at the end.
	late bool
}

func (s *step) node() *nodePattern { return s.pattern.nodes[s.to] }

// newPlan plans patterns. known are the slots with values before.
func newPlan(patterns []*pattern, where expr, known map[int]bool) *plan {
	p := &plan{patterns: patterns, ids: make(map[int]expr)}
	parts := conjuncts(where, nil)
	for _, c := range parts {
		p.identify(c, known)
	}
	before := make(map[int]bool, len(known))
	for slot := range known {
		before[slot] = true
	}
	rest := append([]*pattern(nil), patterns...)
	// boundAt is the step after which a slot has a value.
	boundAt := make(map[int]int)
	for len(rest) > 0 {
		best, start, score := 0, 0, -1
		for i, candidate := range rest {
			if n, s := p.start(candidate, known); s > score {
				best, start, score = i, n, s
			}
		}
		p.chain(rest[best], start, known, before, boundAt)
		rest = append(rest[:best], rest[best+1:]...)
	}
	for _, path := range patterns {
		if path.slot >= 0 {
			boundAt[path.slot] = len(p.steps)
		}
	}
	p.conditions = make([][]expr, len(p.steps)+1)
	earliest := 0
	for _, c := range parts {
		for slot := range slotsOf(c, make(map[int]bool)) {
			earliest = max(earliest, boundAt[slot])
		}
		p.conditions[earliest] = append(p.conditions[earliest], c)
	}
	return p
}

// conjuncts splits a condition at AND.
func conjuncts(e expr, into []expr) []expr {
	if e == nil {
		return into
	}
	if l, ok := e.(*logical); ok && l.op == "AND" {
		return conjuncts(l.right, conjuncts(l.left, into))
	}
	return append(into, e)
}

// identify finds conditions of the form x.id = value.
func (p *plan) identify(e expr, known map[int]bool) {
	c, ok := e.(*comparison)
	if !ok || len(c.ops) != 1 || c.ops[0] != "=" {
		return
	}
	for i := range c.operands {
		prop, ok := c.operands[i].(*property)
		if !ok || prop.key != idProperty {
			continue
		}
		v, ok := prop.of.(*variable)
		if ok && constant(c.operands[1-i], known) {
			p.ids[v.slot] = c.operands[1-i]
		}
	}
}

// constant reports whether an expression has a value before the patterns are matched.
func constant(e expr, known map[int]bool) bool {
	switch e := e.(type) {
	case *literal, *parameter:
		return true
	case *variable:
		return known[e.slot]
	case *property:
		return constant(e.of, known)
	}
	return false
}

// start returns the entity of a pattern to start at, and how selective it is.
func (p *plan) start(path *pattern, known map[int]bool) (node, score int) {
	score = -1
	for i, n := range path.nodes {
		s := 0
		switch {
		case known[n.slot]:
			s = 5
		case p.idOf(n, known) != nil:
			s = 4
		case i > 0 && path.rels[i-1].bound || i < len(path.rels) && path.rels[i].bound:
			s = 3
		case n.props != nil:
			s = 2
		case len(n.labels) > 0:
			s = 1
		}
		if s > score {
			node, score = i, s
		}
	}
	return node, score
}

// idOf returns the id that an entity must have, nil if it is not known.
func (p *plan) idOf(n *nodePattern, known map[int]bool) expr {
	if o, ok := n.props.(*object); ok {
		for i, k := range o.keys {
			if k == idProperty && constant(o.values[i], known) {
				return o.values[i]
			}
		}
	}
	return p.ids[n.slot]
}

// chain adds the steps of a pattern: from its start to the right end, then to the left end.
func (p *plan) chain(path *pattern, start int, known, before map[int]bool, boundAt map[int]int) {
	add := func(s step) {
		n := s.node()
		s.bound = known[n.slot]
		s.late = dependsOn(n.props, before)
		if s.rel < 0 && !s.bound {
			s.id = p.idOf(n, known)
		}
		if s.rel >= 0 {
			r := path.rels[s.rel]
			s.late = s.late || dependsOn(r.props, before)
			if !known[r.slot] {
				known[r.slot] = true
				boundAt[r.slot] = len(p.steps) + 1
			}
		}
		p.steps = append(p.steps, s)
		if !s.bound {
			known[n.slot] = true
			boundAt[n.slot] = len(p.steps)
		}
	}
	add(step{pattern: path, rel: -1, to: start})
	for i := start; i < len(path.rels); i++ {
		add(step{pattern: path, rel: i, from: i, to: i + 1})
	}
	for i := start - 1; i >= 0; i-- {
		add(step{pattern: path, rel: i, from: i + 1, to: i})
	}
}

// dependsOn reports whether properties use a variable that has no value before the patterns.
func dependsOn(props expr, before map[int]bool) bool {
	if props == nil {
		return false
	}
	for slot := range slotsOf(props, make(map[int]bool)) {
		if !before[slot] {
			return true
		}
	}
	return false
}

// slotsOf adds the slots of the variables of an expression.
func slotsOf(e expr, into map[int]bool) map[int]bool {
	switch e := e.(type) {
	case *variable:
		into[e.slot] = true
	case *patternTest:
		e.pattern.slots(into)
	case *patternComprehension:
		e.pattern.slots(into)
	}
	e.each(func(o *expr) { slotsOf(*o, into) })
	return into
}

func (p *pattern) slots(into map[int]bool) {
	for _, n := range p.nodes {
		if n.variable != nil {
			into[n.slot] = true
		}
	}
	for _, r := range p.rels {
		if r.variable != nil {
			into[r.slot] = true
		}
	}
}
