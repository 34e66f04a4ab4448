package cypher

import "slices"

func (m *match) check(c *checker, s *scope) (*scope, error) {
	known := boundSlots(s)
	c.fresh = *s.width
	for _, p := range m.patterns {
		if err := c.pattern(s, p, true); err != nil {
			return nil, err
		}
	}
	// Properties may refer to variables of any pattern of the clause.
	for _, p := range m.patterns {
		if err := c.patternProps(s, p); err != nil {
			return nil, err
		}
	}
	c.pos = m.pos
	if err := c.condition(s, m.where); err != nil {
		return nil, err
	}
	m.plan = newPlan(m.patterns, m.where, known)
	return s, nil
}

func boundSlots(s *scope) map[int]bool {
	known := make(map[int]bool)
	for ; s != nil; s = s.outer {
		for _, b := range s.names {
			known[b.slot] = true
		}
	}
	return known
}

// pattern defines the variables of a pattern. If define is false, all must exist.
func (c *checker) pattern(s *scope, p *pattern, define bool) error {
	for i, n := range p.nodes {
		if err := c.node(s, n, define); err != nil {
			return err
		}
		if i < len(p.rels) {
			if err := c.rel(s, p.rels[i], define); err != nil {
				return err
			}
		}
	}
	p.slot = -1
	if p.variable != nil {
		if s.find(p.variable.name) != nil {
			return c.fail(p.variable.pos, "variable %s is already defined", quoted(p.variable.name))
		}
		p.slot = s.define(p.variable.name, pathKind)
		p.variable.slot = p.slot
	}
	return nil
}

func (c *checker) node(s *scope, n *nodePattern, define bool) error {
	if n.variable == nil {
		n.slot = s.slot()
		return nil
	}
	b := s.find(n.variable.name)
	switch {
	case b == nil && !define:
		return c.fail(n.variable.pos, "variable %s is not defined", quoted(n.variable.name))
	case b == nil:
		n.slot = s.define(n.variable.name, nodeKind)
	case b.kind != nodeKind && b.kind != anyKind:
		return c.fail(n.variable.pos, "variable %s is %s, not an entity", quoted(b.name), kindNames[b.kind])
	default:
		n.slot = b.slot
	}
	n.variable.slot = n.slot
	return nil
}

func (c *checker) rel(s *scope, r *relPattern, define bool) error {
	if r.variable == nil {
		r.slot = s.slot()
		return nil
	}
	want := relKind
	if r.length != nil {
		want = relsKind
	}
	b := s.find(r.variable.name)
	switch {
	case b == nil && !define:
		return c.fail(r.variable.pos, "variable %s is not defined", quoted(r.variable.name))
	case b == nil:
		r.slot = s.define(r.variable.name, want)
	case b.kind != want && b.kind != anyKind && (want != relsKind || b.kind != valueKind):
		return c.fail(r.variable.pos, "variable %s is %s, not %s", quoted(b.name), kindNames[b.kind], kindNames[want])
	case b.slot >= c.fresh:
		return c.fail(r.variable.pos, "variable %s is used for two relationships", quoted(b.name))
	default:
		r.slot, r.bound = b.slot, true
	}
	r.variable.slot = r.slot
	return nil
}

func (c *checker) patternProps(s *scope, p *pattern) (err error) {
	p.each(func(e *expr) {
		if err == nil {
			err = c.without(s, *e)
		}
	})
	return err
}

func (c *checker) patternTest(s *scope, e *patternTest) error {
	if !e.allowed {
		return c.fail(e.pos, "pattern is a condition, not a value")
	}
	known := boundSlots(s)
	in := s.inner()
	saved := c.fresh
	c.fresh = *s.width
	defer func() { c.fresh = saved }()
	if err := c.pattern(in, e.pattern, false); err != nil {
		return err
	}
	if err := c.patternProps(in, e.pattern); err != nil {
		return err
	}
	e.plan = newPlan([]*pattern{e.pattern}, nil, known)
	return nil
}

func (c *checker) patternComprehension(s *scope, e *patternComprehension) error {
	known := boundSlots(s)
	in := s.inner()
	saved := c.fresh
	c.fresh = *s.width
	defer func() { c.fresh = saved }()
	if err := c.pattern(in, e.pattern, true); err != nil {
		return err
	}
	if err := c.patternProps(in, e.pattern); err != nil {
		return err
	}
	if err := c.condition(in, e.where); err != nil {
		return err
	}
	if err := c.without(in, e.out); err != nil {
		return err
	}
	e.plan = newPlan([]*pattern{e.pattern}, e.where, known)
	return nil
}

func (u *unwind) check(c *checker, s *scope) (*scope, error) {
	if err := c.without(s, u.list); err != nil {
		return nil, err
	}
	if s.find(u.as.name) != nil {
		return nil, c.fail(u.as.pos, "variable %s is already defined", quoted(u.as.name))
	}
	u.as.slot = s.define(u.as.name, anyKind)
	return s, nil
}

// check resolves the items in s. The values of the items get slots after the slots of s, so
// that ORDER BY and WHERE see both. The scope that follows has the items only.
func (p *projection) check(c *checker, s *scope) (*scope, error) {
	if err := p.expand(c, s); err != nil {
		return nil, err
	}
	c.aggregates = &p.aggregates
	defer func() { c.aggregates = nil }()
	names := make(map[string]bool)
	for _, i := range p.items {
		if names[i.name] {
			return nil, c.fail(i.pos, "column %s is defined twice", quoted(i.name))
		}
		names[i.name] = true
		if err := c.expr(s, i.expr); err != nil {
			return nil, err
		}
	}
	p.grouping = len(p.aggregates) > 0
	if err := p.grouped(c); err != nil {
		return nil, err
	}
	after := s.inner()
	if p.grouping || p.distinct {
		after.outer = nil
	}
	out := newScope()
	for _, i := range p.items {
		k := kindOf(s, i.expr)
		i.slot = after.define(i.name, k)
		out.define(i.name, k)
	}
	c.aggregates = nil
	if err := p.tail(c, after); err != nil {
		return nil, err
	}
	p.width, p.outWidth = *s.width, len(p.items)
	return out, nil
}

// expand replaces * by the variables.
func (p *projection) expand(c *checker, s *scope) error {
	if !p.all {
		return nil
	}
	var items []*item
	for _, b := range s.names {
		items = append(items, &item{expr: &variable{name: b.name, pos: p.pos}, name: b.name, pos: p.pos})
	}
	slices.SortFunc(items, func(a, b *item) int { return compareStrings(a.name, b.name) })
	if len(items) == 0 && !p.with {
		return c.fail(p.pos, "RETURN * without variables")
	}
	p.items = append(items, p.items...)
	return nil
}

// grouped checks that items with aggregates otherwise use only values of the group.
func (p *projection) grouped(c *checker) error {
	if !p.grouping {
		return nil
	}
	var keys []expr
	for _, i := range p.items {
		if !hasAggregate(i.expr) {
			keys = append(keys, i.expr)
		}
	}
	for _, i := range p.items {
		if hasAggregate(i.expr) {
			if v := ungrouped(i.expr, keys, nil); v != nil {
				return c.fail(v.pos, "%s is neither an aggregate nor a column of its own", quoted(v.name))
			}
		}
	}
	return nil
}

func hasAggregate(e expr) bool {
	if _, ok := e.(*aggregate); ok {
		return true
	}
	found := false
	e.each(func(o *expr) { found = found || hasAggregate(*o) })
	return found
}

// ungrouped returns a variable outside of aggregates that is not part of a key. Keys are
// variables and their properties.
func ungrouped(e expr, keys []expr, local []string) *variable {
	for _, k := range keys {
		switch k.(type) {
		case *variable, *property:
			if sameExpr(e, k) {
				return nil
			}
		}
	}
	switch e := e.(type) {
	case *aggregate:
		return nil
	case *variable:
		if slices.Contains(local, e.name) {
			return nil
		}
		return e
	case *comprehension:
		local = append(slices.Clone(local), e.item.name)
	case *quantifier:
		local = append(slices.Clone(local), e.item.name)
	case *patternTest, *patternComprehension:
		return nil
	}
	var found *variable
	e.each(func(o *expr) {
		if found == nil {
			found = ungrouped(*o, keys, local)
		}
	})
	return found
}

// tail resolves ORDER BY, SKIP, LIMIT and WHERE.
func (p *projection) tail(c *checker, after *scope) error {
	for i := range p.order {
		o := &p.order[i]
		if p.grouping || p.distinct {
			if p.grouping {
				if err := p.ambiguous(c, o.expr); err != nil {
					return err
				}
			}
			p.replaceItems(&o.expr)
		}
		if err := c.expr(after, o.expr); err != nil {
			return err
		}
	}
	for _, e := range []expr{p.skip, p.limit} {
		if e == nil {
			continue
		}
		if err := c.expr(newScope(), e); err != nil {
			return err
		}
		if l, ok := e.(*literal); ok {
			if n, ok := l.value.(int64); !ok || n < 0 {
				return c.fail(p.pos, "SKIP and LIMIT need an integer of at least 0")
			}
		}
		if s, ok := e.(*sign); ok {
			return c.fail(s.pos, "SKIP and LIMIT need an integer of at least 0")
		}
	}
	if p.where != nil && (p.grouping || p.distinct) {
		p.replaceItems(&p.where)
	}
	c.pos = p.pos
	return c.condition(after, p.where)
}

// ambiguous rejects an order by an aggregate and a further value that is no column. Columns
// other than variables and properties do not count within a larger expression.
func (p *projection) ambiguous(c *checker, e expr) error {
	if !hasAggregate(e) {
		return nil
	}
	var keys []expr
	for _, i := range p.items {
		if sameExpr(e, i.expr) {
			return nil
		}
		keys = append(keys, i.expr, &variable{name: i.name})
	}
	if v := ungrouped(e, keys, nil); v != nil {
		return c.fail(v.pos, "%s is neither an aggregate nor a column of its own", quoted(v.name))
	}
	return nil
}

// replaceItems replaces expressions that are items by their names.
func (p *projection) replaceItems(e *expr) {
	for _, i := range p.items {
		if _, ok := i.expr.(*variable); !ok && sameExpr(*e, i.expr) {
			*e = &variable{name: i.name, pos: i.pos}
			return
		}
	}
	for _, i := range p.items {
		// A variable under another name.
		v, ok := i.expr.(*variable)
		if w, same := (*e).(*variable); ok && same && v.name == w.name && !p.named(w.name) {
			*e = &variable{name: i.name, pos: w.pos}
			return
		}
	}
	if _, ok := (*e).(*aggregate); ok {
		return
	}
	(*e).each(p.replaceItems)
}

func (p *projection) named(name string) bool {
	return slices.ContainsFunc(p.items, func(i *item) bool { return i.name == name })
}
