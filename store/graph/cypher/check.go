package cypher

import (
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/store/graph"
)

// kind is what a variable is known to contain.
type kind int

const (
	anyKind kind = iota // possibly an entity, relationship or path
	nodeKind
	relKind
	relsKind // of a pattern with a length
	pathKind
	valueKind // a scalar, list or map
)

var kindNames = []string{"a value", "an entity", "a relationship", "relationships", "a path", "a value"}

type binding struct {
	name string
	slot int
	kind kind
}

// scope has the variables that a clause sees.
type scope struct {
	names []binding
	// width is the number of slots of rows in this part of the query.
	width *int
	outer *scope
}

func newScope() *scope { return &scope{width: new(int)} }

func (s *scope) find(name string) *binding {
	for ; s != nil; s = s.outer {
		for i := range slices.Backward(s.names) {
			if s.names[i].name == name {
				return &s.names[i]
			}
		}
	}
	return nil
}

func (s *scope) slot() int {
	*s.width++
	return *s.width - 1
}

func (s *scope) define(name string, k kind) int {
	slot := s.slot()
	s.names = append(s.names, binding{name: name, slot: slot, kind: k})
	return slot
}

// inner is a scope for variables of an expression.
func (s *scope) inner() *scope { return &scope{width: s.width, outer: s} }

// checker resolves names.
type checker struct {
	text  string
	width int
	// aggregates allows aggregates, and collects them.
	aggregates *[]*aggregate
	// pos is the position of the current clause.
	pos int
	// fresh is the first slot of variables that the current clause defines.
	fresh int
}

func (c *checker) fail(pos int, format string, args ...any) error {
	return failAt(c.text, pos, graph.CypherError{Rule: fmt.Sprintf(format, args...)})
}

// check resolves the names of a query.
func check(q *Statement) error {
	c := &checker{text: q.text}
	for i, part := range q.parts {
		s := newScope()
		for _, clause := range part.clauses {
			old := s.width
			next, err := clause.check(c, s)
			c.width = max(c.width, *old, *s.width)
			if err != nil {
				return err
			}
			s = next
			c.width = max(c.width, *s.width)
		}
		if last, ok := part.clauses[len(part.clauses)-1].(*projection); ok {
			for _, i := range last.items {
				part.columns = append(part.columns, i.name)
			}
		}
		if i > 0 && !slices.Equal(part.columns, q.parts[0].columns) {
			return c.fail(0, "columns of the queries of UNION differ")
		}
	}
	q.width = c.width
	return nil
}

// expr resolves the names of an expression.
func (c *checker) expr(s *scope, e expr) error {
	switch e := e.(type) {
	case *variable:
		b := s.find(e.name)
		if b == nil {
			return c.fail(e.pos, "variable %s is not defined", quoted(e.name))
		}
		e.slot = b.slot
		return nil
	case *aggregate:
		return c.aggregate(s, e)
	case *comprehension:
		if err := c.expr(s, e.list); err != nil {
			return err
		}
		return c.iteration(s, e.item, e.where, e.out)
	case *quantifier:
		if err := c.expr(s, e.list); err != nil {
			return err
		}
		return c.iteration(s, e.item, e.where, nil)
	case *patternTest:
		return c.patternTest(s, e)
	case *patternComprehension:
		return c.patternComprehension(s, e)
	}
	if err := c.operands(s, e); err != nil {
		return err
	}
	return c.types(s, e)
}

func (c *checker) operands(s *scope, e expr) (err error) {
	e.each(func(o *expr) {
		if err == nil {
			err = c.expr(s, *o)
		}
	})
	return err
}

// optional resolves the names of an expression that may be nil.
func (c *checker) optional(s *scope, e expr) error {
	if e == nil {
		return nil
	}
	return c.expr(s, e)
}

// without checks an expression in which aggregates are not allowed.
func (c *checker) without(s *scope, e expr) error {
	saved := c.aggregates
	c.aggregates = nil
	defer func() { c.aggregates = saved }()
	return c.optional(s, e)
}

// condition checks an expression after WHERE, which may be nil.
func (c *checker) condition(s *scope, e expr) error {
	if e == nil {
		return nil
	}
	allowPatterns(e)
	if err := c.without(s, e); err != nil {
		return err
	}
	if notBoolean(s, e) {
		return c.fail(c.pos, "condition of WHERE is not a boolean")
	}
	return nil
}

// allowPatterns marks patterns that are conditions.
func allowPatterns(e expr) {
	switch e := e.(type) {
	case *patternTest:
		e.allowed = true
	case *not:
		allowPatterns(e.of)
	case *logical:
		allowPatterns(e.left)
		allowPatterns(e.right)
	}
}

func (c *checker) aggregate(s *scope, e *aggregate) error {
	if c.aggregates == nil {
		return c.fail(e.pos, "aggregate %s is not allowed here", e.name)
	}
	if err := c.without(s, e.arg); err != nil {
		return err
	}
	if k, ok := e.arg.(*call); ok && k.name == "rand" {
		return c.fail(e.pos, "aggregate %s of a random value", e.name)
	}
	e.index = len(*c.aggregates)
	*c.aggregates = append(*c.aggregates, e)
	return nil
}

func (c *checker) iteration(s *scope, item *variable, where, out expr) error {
	in := s.inner()
	item.slot = in.define(item.name, anyKind)
	if err := c.condition(in, where); err != nil {
		return err
	}
	return c.without(in, out)
}

// kindOf returns what an expression is known to evaluate to.
func kindOf(s *scope, e expr) kind {
	switch e := e.(type) {
	case *variable:
		if b := s.find(e.name); b != nil {
			return b.kind
		}
		return anyKind
	case *literal:
		if e.value == nil {
			return anyKind
		}
		return valueKind
	case *list, *object, *not, *sign, *logical, *arithmetic, *comparison, *stringTest, *inList, *isNull, *hasLabels, *quantifier, *patternTest:
		return valueKind
	case *aggregate:
		if e.arg != nil && (e.name == "min" || e.name == "max") {
			return anyKind
		}
		return valueKind
	case *call:
		if e.fn.result != anyKind {
			return e.fn.result
		}
	}
	return anyKind
}

// types rejects operands that can never have the type that the operator needs.
func (c *checker) types(s *scope, e expr) error {
	switch e := e.(type) {
	case *logical:
		for _, o := range []expr{e.left, e.right} {
			if notBoolean(s, o) {
				return c.fail(e.pos, "operand of %s is not a boolean", e.op)
			}
		}
	case *not:
		if notBoolean(s, e.of) {
			return c.fail(e.pos, "operand of NOT is not a boolean")
		}
	case *inList:
		if l, ok := e.list.(*literal); ok && l.value != nil {
			return c.fail(e.pos, "right side of IN is not a list")
		}
	case *property:
		switch of := e.of.(type) {
		case *literal:
			if of.value != nil {
				return c.fail(e.pos, "property of a value that is not a map")
			}
		default:
			if k := kindOf(s, of); k == pathKind || k == relsKind {
				return c.fail(e.pos, "property of %s", kindNames[k])
			}
		}
	case *hasLabels:
		if k := kindOf(s, e.of); k == valueKind || k == pathKind || k == relsKind {
			return c.fail(e.pos, "labels of %s", kindNames[k])
		}
	case *call:
		for i, arg := range e.args {
			if k := kindOf(s, arg); len(e.fn.args) > 0 && k != anyKind && !slices.Contains(e.fn.args, k) {
				return c.fail(e.pos, "argument %d of function %s is %s", i+1, e.name, kindNames[k])
			}
		}
	}
	return nil
}

func notBoolean(s *scope, e expr) bool {
	switch e := e.(type) {
	case *literal:
		_, ok := e.value.(bool)
		return e.value != nil && !ok
	case *list, *object, *arithmetic, *sign:
		return true
	default:
		k := kindOf(s, e)
		return k == nodeKind || k == relKind || k == relsKind || k == pathKind
	}
}
