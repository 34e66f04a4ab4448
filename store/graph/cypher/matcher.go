package cypher

import (
	"slices"

	"github.com/holdfast-dev/holdfast/store/graph"
)

// idProperty is the property with the id of entities and relationships.
const idProperty = graph.PropertyID

// maxLength is the maximum number of relationships of a path of variable length.
const maxLength = 10_000

// matcher finds the matches of a plan.
type matcher struct {
	x    *execution
	plan *plan
	r    row
	// used are the relationships of the current match. A relationship occurs once.
	used []*Rel
	// found continues with a match. It returns false to end the search.
	found func() (bool, error)
}

// matches calls found for each match, with the values of the match in r.
func (x *execution) matches(p *plan, r row, found func() (bool, error)) error {
	m := &matcher{x: x, plan: p, r: r, found: found}
	_, err := m.run(0)
	return err
}

// run matches the steps from one on. It returns false if the search has ended.
func (m *matcher) run(i int) (bool, error) {
	for _, c := range m.plan.conditions[i] {
		if i == len(m.plan.steps) {
			break
		}
		if t, err := m.x.truth(c, m.r, 0); err != nil || t != yes {
			return true, err
		}
	}
	if i == len(m.plan.steps) {
		return m.complete()
	}
	s := &m.plan.steps[i]
	switch {
	case s.rel < 0:
		return m.start(i, s)
	case s.pattern.rels[s.rel].length != nil:
		return m.long(i, s)
	default:
		return m.hop(i, s)
	}
}

// complete checks what depends on all steps.
func (m *matcher) complete() (bool, error) {
	for i := range m.plan.steps {
		if s := &m.plan.steps[i]; s.late {
			if ok, err := m.lateProps(s); err != nil || !ok {
				return true, err
			}
		}
	}
	for _, p := range m.plan.patterns {
		if p.slot >= 0 {
			path, err := m.path(p)
			if err != nil {
				return false, err
			}
			m.r[p.slot] = path
		}
	}
	for _, c := range m.plan.conditions[len(m.plan.steps)] {
		if t, err := m.x.truth(c, m.r, 0); err != nil || t != yes {
			return true, err
		}
	}
	return m.found()
}

func (m *matcher) lateProps(s *step) (bool, error) {
	if ok, err := m.props(s.node().props, m.r[s.node().slot]); err != nil || !ok {
		return false, err
	}
	if s.rel < 0 || s.pattern.rels[s.rel].props == nil {
		return true, nil
	}
	r := s.pattern.rels[s.rel]
	rels, ok := m.r[r.slot].([]any)
	if !ok {
		return m.props(r.props, m.r[r.slot])
	}
	for _, rel := range rels {
		if ok, err := m.props(r.props, rel); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// props reports whether an entity or a relationship has properties.
func (m *matcher) props(want expr, of any) (bool, error) {
	o, ok := want.(*object)
	if !ok {
		return true, nil
	}
	have, _ := propertiesOf(of)
	for i, k := range o.keys {
		v, err := o.values[i].eval(m.x, m.r)
		if err != nil {
			return false, err
		}
		if t, err := m.x.equal(have[k], v); err != nil || t != yes {
			return false, err
		}
	}
	return true, nil
}

// path returns the path of a match.
func (m *matcher) path(p *pattern) (*Path, error) {
	first, ok := m.r[p.nodes[0].slot].(*Node)
	if !ok {
		return &Path{}, nil
	}
	path := &Path{Nodes: []*Node{first}}
	for _, r := range p.rels {
		rels, ok := m.r[r.slot].([]any)
		if !ok {
			rels = []any{m.r[r.slot]}
		}
		for _, v := range rels {
			rel, ok := v.(*Rel)
			if !ok {
				return &Path{}, nil
			}
			n, err := m.x.node(rel.other(path.Nodes[len(path.Nodes)-1].ID))
			if err != nil {
				return nil, err
			}
			path.Rels = append(path.Rels, rel)
			path.Nodes = append(path.Nodes, n)
		}
	}
	return path, m.x.step(len(path.Nodes))
}

// other returns the end of a relationship that is not id.
func (r *Rel) other(id string) string {
	if r.Source == id {
		return r.Target
	}
	return r.Source
}

// start matches the first entity of a pattern.
func (m *matcher) start(i int, s *step) (bool, error) {
	n := s.node()
	if s.bound {
		node, ok := m.r[n.slot].(*Node)
		if !ok {
			return true, m.noNode(n)
		}
		return m.visit(i, s, node)
	}
	if s.id != nil {
		v, err := s.id.eval(m.x, m.r)
		if err != nil {
			return true, err
		}
		if text, ok := v.(string); ok {
			node, err := m.x.node(text)
			if err != nil || node == nil {
				return true, err
			}
			return m.visit(i, s, node)
		}
	}
	if rel := m.boundRel(s); rel != nil {
		return m.ends(i, s, rel)
	}
	return m.scan(i, s)
}

// noNode rejects a variable that is no entity. null matches nothing.
func (m *matcher) noNode(n *nodePattern) error {
	v := m.r[n.slot]
	if _, ok := v.(*Node); ok || v == nil {
		return nil
	}
	return m.x.invalid(n.pos, "variable in a pattern is %s, not an entity", typeName(v))
}

// boundRel returns the relationship of a start if it is known, otherwise nil.
func (m *matcher) boundRel(s *step) *Rel {
	for _, k := range []int{s.to, s.to - 1} {
		if k >= 0 && k < len(s.pattern.rels) && s.pattern.rels[k].bound && s.pattern.rels[k].length == nil {
			if rel, ok := m.r[s.pattern.rels[k].slot].(*Rel); ok {
				return rel
			}
		}
	}
	return nil
}

func (m *matcher) ends(i int, s *step, rel *Rel) (bool, error) {
	ids := []string{rel.Source, rel.Target}
	if rel.Source == rel.Target {
		ids = ids[:1]
	}
	for _, id := range ids {
		n, err := m.x.node(id)
		if err != nil {
			return false, err
		}
		if n == nil {
			continue
		}
		if more, err := m.visit(i, s, n); err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// scan visits all entities with the labels of the step, in pages.
func (m *matcher) scan(i int, s *step) (bool, error) {
	expands := i+1 < len(m.plan.steps) && m.plan.steps[i+1].rel >= 0
	for after := ""; ; {
		nodes, err := m.x.page(s.node().labels, after)
		if err != nil {
			return false, err
		}
		if len(nodes) == 0 {
			return true, nil
		}
		if expands {
			if err := m.x.loadRels(nodes); err != nil {
				return false, err
			}
		}
		for _, n := range nodes {
			if more, err := m.visit(i, s, n); err != nil || !more {
				return false, err
			}
		}
		after = nodes[len(nodes)-1].ID
	}
}

// visit continues with an entity of a step, if it matches.
func (m *matcher) visit(i int, s *step, n *Node) (bool, error) {
	if err := m.x.step(1); err != nil {
		return false, err
	}
	p := s.node()
	if s.bound {
		known, ok := m.r[p.slot].(*Node)
		if !ok || known.ID != n.ID {
			return true, m.noNode(p)
		}
	}
	if !n.has(p.labels) {
		return true, nil
	}
	if !s.late {
		if ok, err := m.props(p.props, n); err != nil || !ok {
			return true, err
		}
	}
	if s.bound {
		return m.run(i + 1)
	}
	m.r[p.slot] = n
	more, err := m.run(i + 1)
	m.r[p.slot] = nil
	return more, err
}

func (n *Node) has(labels []string) bool {
	for _, l := range labels {
		if !slices.Contains(n.Labels, l) {
			return false
		}
	}
	return true
}

// dir returns the direction of the relationship of a step, as it is walked.
func (s *step) dir() direction {
	d := s.pattern.rels[s.rel].dir
	if s.to < s.from {
		return d.reversed()
	}
	return d
}

// fits reports whether a relationship may be walked from an entity.
func (m *matcher) fits(p *relPattern, dir direction, from string, r *Rel, checkProps bool) (bool, error) {
	if err := m.x.step(1); err != nil {
		return false, err
	}
	switch {
	case dir == right && r.Source != from, dir == left && r.Target != from, r.Source != from && r.Target != from:
		return false, nil
	case len(p.types) > 0 && !slices.Contains(p.types, r.Type):
		return false, nil
	}
	for _, u := range m.used {
		if u.ID == r.ID {
			return false, nil
		}
	}
	if !checkProps {
		return true, nil
	}
	return m.props(p.props, r)
}

// hop matches one relationship.
func (m *matcher) hop(i int, s *step) (bool, error) {
	p := s.pattern.rels[s.rel]
	from, ok := m.r[s.pattern.nodes[s.from].slot].(*Node)
	if !ok {
		return true, nil
	}
	if p.bound {
		rel, ok := m.r[p.slot].(*Rel)
		if !ok {
			if v := m.r[p.slot]; v != nil {
				return false, m.x.invalid(p.pos, "variable in a pattern is %s, not a relationship", typeName(v))
			}
			return true, nil
		}
		return m.walk(i, s, from, rel)
	}
	rels, err := m.x.rels(from)
	if err != nil {
		return false, err
	}
	for _, r := range rels {
		m.r[p.slot] = nil
		if more, err := m.walk(i, s, from, r); err != nil || !more {
			return false, err
		}
	}
	m.r[p.slot] = nil
	return true, nil
}

// walk continues over a relationship, if it fits.
func (m *matcher) walk(i int, s *step, from *Node, r *Rel) (bool, error) {
	p := s.pattern.rels[s.rel]
	ok, err := m.fits(p, s.dir(), from.ID, r, !s.late)
	if err != nil || !ok {
		return true, err
	}
	n, err := m.x.node(r.other(from.ID))
	if err != nil || n == nil {
		return true, err
	}
	if !p.bound {
		m.r[p.slot] = r
	}
	m.used = append(m.used, r)
	more, err := m.visit(i, s, n)
	m.used = m.used[:len(m.used)-1]
	return more, err
}

// long matches several relationships.
func (m *matcher) long(i int, s *step) (bool, error) {
	p := s.pattern.rels[s.rel]
	from, ok := m.r[s.pattern.nodes[s.from].slot].(*Node)
	if !ok {
		return true, nil
	}
	l := &longWalk{m: m, i: i, s: s, p: p, start: len(m.used)}
	if p.bound {
		given, ok := m.r[p.slot].([]any)
		if !ok {
			return true, nil
		}
		if s.to < s.from {
			given = slices.Clone(given)
			slices.Reverse(given)
		}
		return l.follow(from, given)
	}
	more, err := l.from(from)
	m.r[p.slot] = nil
	return more, err
}

// longWalk is a walk over relationships of a pattern with a length.
type longWalk struct {
	m     *matcher
	i     int
	s     *step
	p     *relPattern
	start int // the relationships of the walk are m.used from here on
}

func (l *longWalk) from(n *Node) (bool, error) {
	m := l.m
	depth := len(m.used) - l.start
	if depth >= l.p.length.min {
		m.r[l.p.slot] = l.rels()
		if more, err := m.visit(l.i, l.s, n); err != nil || !more {
			return false, err
		}
	}
	if depth == l.p.length.max {
		return true, nil
	}
	if depth == maxLength {
		return false, graph.ErrBudget
	}
	rels, err := m.x.rels(n)
	if err != nil {
		return false, err
	}
	for _, r := range rels {
		ok, err := m.fits(l.p, l.s.dir(), n.ID, r, !l.s.late)
		if err != nil {
			return false, err
		}
		if !ok {
			continue
		}
		next, err := m.x.node(r.other(n.ID))
		if err != nil {
			return false, err
		}
		if next == nil {
			continue
		}
		m.used = append(m.used, r)
		more, err := l.from(next)
		m.used = m.used[:len(m.used)-1]
		if err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// rels returns the relationships of the walk in the order of the pattern.
func (l *longWalk) rels() []any {
	out := anys(l.m.used[l.start:])
	if l.s.to < l.s.from {
		slices.Reverse(out)
	}
	return out
}

// follow walks over given relationships.
func (l *longWalk) follow(n *Node, given []any) (bool, error) {
	m := l.m
	if length := len(given); length < l.p.length.min || l.p.length.max >= 0 && length > l.p.length.max {
		return true, nil
	}
	for _, v := range given {
		r, ok := v.(*Rel)
		if !ok {
			return false, m.x.invalid(l.p.pos, "variable in a pattern has %s, not a relationship", typeName(v))
		}
		ok, err := m.fits(l.p, l.s.dir(), n.ID, r, !l.s.late)
		if err == nil && ok {
			n, err = m.x.node(r.other(n.ID))
		}
		if err != nil || !ok || n == nil {
			m.used = m.used[:l.start]
			return true, err
		}
		m.used = append(m.used, r)
	}
	more, err := m.visit(l.i, l.s, n)
	m.used = m.used[:l.start]
	return more, err
}
