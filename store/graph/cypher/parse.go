package cypher

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/store/graph"
)

// Limits of the text of a query.
const (
	// MaxText is the maximum size of a query in bytes.
	MaxText = graph.MaxQuery
	// MaxDepth is the maximum number of levels of nested expressions.
	MaxDepth = 200
)

// Statement is a query that was parsed and checked. It is safe for concurrent use.
type Statement struct {
	text  string
	parts []*single
	// all has a value for each UNION: whether it keeps duplicates.
	all []bool
	// width is the number of values of the widest row.
	width  int
	params []string
}

// Parse parses and checks a query. It returns a [graph.CypherError].
func Parse(text string) (*Statement, error) {
	if len(text) > MaxText {
		return nil, &graph.CypherError{Rule: fmt.Sprintf("text has %d bytes, maximum is %d", len(text), MaxText)}
	}
	tokens, err := tokenize(text)
	if err != nil {
		return nil, err
	}
	p := &parser{text: text, tokens: tokens}
	q := &Statement{text: text}
	if err := p.query(q); err != nil {
		return nil, err
	}
	q.params = p.params
	if err := check(q); err != nil {
		return nil, err
	}
	return q, nil
}

// Columns returns the names of the columns of the result.
func (q *Statement) Columns() []string { return slices.Clone(q.parts[0].columns) }

// Parameters returns the names of the parameters in the order of their first use.
func (q *Statement) Parameters() []string { return slices.Clone(q.params) }

// parser parses a query by recursive descent. It has a method for each rule of the grammar, in three
// files, because the rules share the position in the tokens and call each other.
type parser struct {
	text   string
	tokens []token
	at     int
	depth  int
	params []string
}

func (p *parser) peek() *token { return &p.tokens[p.at] }

func (p *parser) ahead(n int) *token { return &p.tokens[min(p.at+n, len(p.tokens)-1)] }

func (p *parser) next() *token {
	t := &p.tokens[p.at]
	if t.kind != tokEnd {
		p.at++
	}
	return t
}

func (p *parser) fail(pos int, format string, args ...any) error {
	return failAt(p.text, pos, graph.CypherError{Rule: fmt.Sprintf(format, args...)})
}

func (p *parser) unsupported(pos int, feature string) error {
	return failAt(p.text, pos, graph.CypherError{Rule: feature + " is not supported", Unsupported: true})
}

func (t *token) is(symbol string) bool { return t.kind == tokSymbol && t.text == symbol }

func (t *token) word(w string) bool { return t.kind == tokName && strings.EqualFold(t.text, w) }

// symbol accepts a symbol if it is next.
func (p *parser) symbol(s string) bool {
	if p.peek().is(s) {
		p.at++
		return true
	}
	return false
}

// words accepts keywords if they are next.
func (p *parser) words(words ...string) bool {
	for i, w := range words {
		if !p.ahead(i).word(w) {
			return false
		}
	}
	p.at += len(words)
	return true
}

func (p *parser) expect(symbol string) error {
	if !p.symbol(symbol) {
		return p.unexpected("expected " + quoted(symbol))
	}
	return nil
}

func (p *parser) unexpected(want string) error {
	t := p.peek()
	if t.kind == tokEnd {
		return p.fail(t.start, "%s, found the end of the query", want)
	}
	return p.fail(t.start, "%s, found %s", want, quoted(p.text[t.start:t.end]))
}

// name accepts a name of a variable, label, type or key.
func (p *parser) name(what string) (string, error) {
	t := p.peek()
	if t.kind != tokName && t.kind != tokQuotedName {
		return "", p.unexpected("expected " + what)
	}
	p.at++
	return t.text, nil
}

func (p *parser) isName() bool {
	k := p.peek().kind
	return k == tokName || k == tokQuotedName
}

// query parses queries with UNION between them.
func (p *parser) query(q *Statement) error {
	for {
		s, err := p.single()
		if err != nil {
			return err
		}
		q.parts = append(q.parts, s)
		pos := p.peek().start
		if !p.words("UNION") {
			break
		}
		all := p.words("ALL")
		q.all = append(q.all, all)
		if all != q.all[0] {
			return p.fail(pos, "UNION and UNION ALL cannot be combined")
		}
	}
	p.symbol(";")
	if p.peek().kind != tokEnd {
		return p.unexpected("expected a clause")
	}
	return nil
}

// refused are clauses that are not supported, by their first keyword.
var refused = []string{"CREATE", "MERGE", "SET", "DELETE", "DETACH", "REMOVE", "CALL", "LOAD", "FOREACH", "USE", "PROFILE", "EXPLAIN", "START", "DROP", "ALTER", "SHOW", "FINISH", "FILTER", "LET", "INSERT"}

func (p *parser) single() (*single, error) {
	s := &single{}
	for {
		t := p.peek()
		c, err := p.clause()
		if err != nil {
			return nil, err
		}
		if c == nil {
			if len(s.clauses) == 0 {
				return nil, p.unexpected("expected a clause")
			}
			return nil, p.fail(t.start, "query does not end with RETURN")
		}
		s.clauses = append(s.clauses, c)
		if proj, ok := c.(*projection); ok && !proj.with {
			return s, nil
		}
	}
}

// clause parses one clause. It returns nil if no clause follows.
func (p *parser) clause() (clause, error) {
	t := p.peek()
	switch {
	case p.words("OPTIONAL", "MATCH"):
		return p.match(t.start, true)
	case p.words("MATCH"):
		return p.match(t.start, false)
	case p.words("UNWIND"):
		return p.unwind()
	case p.words("WITH"):
		return p.projection(t.start, true)
	case p.words("RETURN"):
		return p.projection(t.start, false)
	}
	for _, word := range refused {
		if t.word(word) {
			if next := p.ahead(1); word == "DETACH" || word == "LOAD" {
				return nil, p.unsupported(t.start, word+" "+strings.ToUpper(next.text))
			}
			return nil, p.unsupported(t.start, word)
		}
	}
	if t.kind != tokEnd && !t.word("UNION") && !t.is(";") {
		return nil, p.unexpected("expected a clause")
	}
	return nil, nil // no clause is not an error
}

func (p *parser) match(pos int, optional bool) (clause, error) {
	m := &match{optional: optional, pos: pos}
	for {
		pattern, err := p.pattern(true)
		if err != nil {
			return nil, err
		}
		m.patterns = append(m.patterns, pattern)
		if !p.symbol(",") {
			break
		}
	}
	var err error
	m.where, err = p.where()
	return m, err
}

func (p *parser) where() (expr, error) {
	if !p.words("WHERE") {
		return nil, nil // no condition is not an error
	}
	return p.expr()
}

func (p *parser) unwind() (clause, error) {
	list, err := p.expr()
	if err != nil {
		return nil, err
	}
	if !p.words("AS") {
		return nil, p.unexpected("expected AS")
	}
	as, err := p.variable()
	return &unwind{list: list, as: as}, err
}

func (p *parser) variable() (*variable, error) {
	pos := p.peek().start
	name, err := p.name("a variable")
	return &variable{name: name, pos: pos}, err
}

func (p *parser) projection(pos int, with bool) (clause, error) {
	c := &projection{with: with, pos: pos}
	c.distinct = p.words("DISTINCT")
	if p.symbol("*") {
		c.all = true
	}
	for more := !c.all || p.symbol(","); more; more = p.symbol(",") {
		i, err := p.item(with)
		if err != nil {
			return nil, err
		}
		c.items = append(c.items, i)
	}
	if err := p.order(c); err != nil {
		return nil, err
	}
	var err error
	if p.words("SKIP") {
		if c.skip, err = p.expr(); err != nil {
			return nil, err
		}
	}
	if p.words("LIMIT") {
		if c.limit, err = p.expr(); err != nil {
			return nil, err
		}
	}
	if with {
		c.where, err = p.where()
	}
	return c, err
}

func (p *parser) item(with bool) (*item, error) {
	start := p.peek().start
	e, err := p.expr()
	if err != nil {
		return nil, err
	}
	i := &item{expr: e, pos: start, source: p.text[start:p.tokens[p.at-1].end]}
	if p.words("AS") {
		i.name, err = p.name("an alias")
		i.named = true
		return i, err
	}
	if v, ok := e.(*variable); ok {
		i.name = v.name
		return i, nil
	}
	if with {
		return nil, p.fail(start, "expression in WITH has no alias: add AS")
	}
	i.name = i.source
	return i, nil
}

func (p *parser) order(c *projection) error {
	if !p.words("ORDER") {
		return nil
	}
	if !p.words("BY") {
		return p.unexpected("expected BY")
	}
	for {
		e, err := p.expr()
		if err != nil {
			return err
		}
		s := sortItem{expr: e}
		switch {
		case p.words("DESC"), p.words("DESCENDING"):
			s.descending = true
		case p.words("ASC"), p.words("ASCENDING"):
		}
		c.order = append(c.order, s)
		if !p.symbol(",") {
			return nil
		}
	}
}
