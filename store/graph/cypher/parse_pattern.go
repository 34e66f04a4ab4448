package cypher

import "strings"

// pattern parses a path. Only paths of MATCH and of comprehensions can have a name.
func (p *parser) pattern(named bool) (*pattern, error) {
	path := &pattern{}
	if named && p.isName() && p.ahead(1).is("=") {
		v, err := p.variable()
		if err != nil {
			return nil, err
		}
		path.variable = v
		p.at++
	}
	if t := p.peek(); t.kind == tokName && p.ahead(1).is("(") {
		return nil, p.unsupported(t.start, t.text+"() in a pattern")
	}
	for {
		n, err := p.node()
		if err != nil {
			return nil, err
		}
		path.nodes = append(path.nodes, n)
		if !p.relFollows(p.at) {
			return path, nil
		}
		r, err := p.rel()
		if err != nil {
			return nil, err
		}
		path.rels = append(path.rels, r)
	}
}

// relFollows reports whether a relationship starts at a token: --, -[, <-- or <-[.
func (p *parser) relFollows(at int) bool {
	get := func(i int) *token { return &p.tokens[min(i, len(p.tokens)-1)] }
	if get(at).is("<") {
		at++
	}
	return get(at).is("-") && (get(at+1).is("-") || get(at+1).is("["))
}

// patternFollows reports whether a path with a relationship starts at a token.
func (p *parser) patternFollows(at int) bool {
	t := &p.tokens[min(at, len(p.tokens)-1)]
	return t.is("(") && t.match >= 0 && p.relFollows(t.match+1)
}

func (p *parser) node() (*nodePattern, error) {
	n := &nodePattern{pos: p.peek().start}
	if err := p.expect("("); err != nil {
		return nil, err
	}
	var err error
	if p.isName() {
		if n.variable, err = p.variable(); err != nil {
			return nil, err
		}
	}
	if n.labels, err = p.labels(); err != nil {
		return nil, err
	}
	if n.props, err = p.properties(); err != nil {
		return nil, err
	}
	return n, p.expect(")")
}

// labels parses :Label:Label.
func (p *parser) labels() ([]string, error) {
	var labels []string
	for p.symbol(":") {
		label, err := p.name("a label")
		if err != nil {
			return nil, err
		}
		if t := p.peek(); t.is("|") && len(labels) == 0 {
			return nil, p.unsupported(t.start, "| between labels")
		}
		labels = append(labels, label)
	}
	return labels, nil
}

func (p *parser) properties() (expr, error) {
	switch t := p.peek(); {
	case t.is("{"):
		p.at++
		return p.object()
	case t.kind == tokParam:
		return nil, p.unsupported(t.start, "a parameter as the properties of a pattern")
	default:
		return nil, nil // no properties are not an error
	}
}

func (p *parser) rel() (*relPattern, error) {
	r := &relPattern{pos: p.peek().start}
	toLeft := p.symbol("<")
	if err := p.expect("-"); err != nil {
		return nil, err
	}
	if p.symbol("[") {
		if err := p.relDetail(r); err != nil {
			return nil, err
		}
		if err := p.expect("]"); err != nil {
			return nil, err
		}
	}
	if err := p.expect("-"); err != nil {
		return nil, err
	}
	toRight := p.symbol(">")
	switch {
	case toLeft && !toRight:
		r.dir = left
	case toRight && !toLeft:
		r.dir = right
	}
	return r, nil
}

func (p *parser) relDetail(r *relPattern) (err error) {
	if p.isName() {
		if r.variable, err = p.variable(); err != nil {
			return err
		}
	}
	for separator := ":"; p.symbol(separator); separator = "|" {
		if separator == "|" {
			p.symbol(":")
		}
		name, err := p.name("a type")
		if err != nil {
			return err
		}
		r.types = append(r.types, name)
	}
	if p.symbol("*") {
		if r.length, err = p.length(); err != nil {
			return err
		}
	}
	r.props, err = p.properties()
	return err
}

// length parses the bounds after *: nothing, n, n.., ..m or n..m.
func (p *parser) length() (*length, error) {
	l := &length{min: 1, max: -1}
	bound := func(into *int) (bool, error) {
		t := p.peek()
		if t.kind != tokInt {
			return false, nil
		}
		p.at++
		if t.value.(uint64) > 1_000_000 { // the lexer makes integers of this type
			return false, p.fail(t.start, "length of a path is above 1000000")
		}
		*into = int(t.value.(uint64)) // at most a million
		return true, nil
	}
	first, err := bound(&l.min)
	if err != nil {
		return nil, err
	}
	if !p.symbol("..") {
		if first {
			l.max = l.min
		}
		return l, nil
	}
	if _, err := bound(&l.max); err != nil {
		return nil, err
	}
	return l, nil
}

// comprehensionPattern parses [path = (a)-->(b) WHERE x | y] after its bracket.
func (p *parser) comprehensionPattern(pos int) (expr, error) {
	path, err := p.pattern(true)
	if err != nil {
		return nil, err
	}
	e := &patternComprehension{pattern: path, pos: pos}
	if e.where, err = p.where(); err != nil {
		return nil, err
	}
	if err := p.expect("|"); err != nil {
		return nil, err
	}
	if e.out, err = p.expr(); err != nil {
		return nil, err
	}
	return e, p.expect("]")
}

// refusedFunctions are parts of other versions of the language with the form of functions.
var refusedFunctions = map[string]bool{"shortestpath": true, "allshortestpaths": true, "reduce": true, "filter": true, "extract": true}

// refusedBlock returns the name of an expression with a block that is not supported, such as
// EXISTS { ... }.
func (p *parser) refusedBlock() string {
	t := p.peek()
	if t.kind == tokName && p.ahead(1).is("{") {
		switch w := strings.ToUpper(t.text); w {
		case "EXISTS", "COUNT", "COLLECT":
			return w + " { ... }"
		}
	}
	return ""
}
