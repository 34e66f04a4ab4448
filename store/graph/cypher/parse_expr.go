package cypher

import (
	"slices"
	"strings"
)

// expr parses an expression.
func (p *parser) expr() (expr, error) {
	if p.depth++; p.depth > MaxDepth {
		return nil, p.fail(p.peek().start, "expression is nested more than %d levels", MaxDepth)
	}
	defer func() { p.depth-- }()
	return p.logical(0)
}

var logicalOps = []string{"OR", "XOR", "AND"}

// logical parses operators from a level on, those that bind least first.
func (p *parser) logical(level int) (expr, error) {
	if level == len(logicalOps) {
		return p.negation()
	}
	e, err := p.logical(level + 1)
	for err == nil {
		t := p.peek()
		if !p.words(logicalOps[level]) {
			return e, nil
		}
		var r expr
		r, err = p.logical(level + 1)
		e = &logical{op: logicalOps[level], left: e, right: r, pos: t.start}
	}
	return nil, err
}

func (p *parser) negation() (expr, error) {
	var nots []int
	for p.peek().word("NOT") {
		nots = append(nots, p.next().start)
		if len(nots) > MaxDepth {
			return nil, p.fail(p.peek().start, "expression is nested more than %d levels", MaxDepth)
		}
	}
	e, err := p.comparison()
	for _, pos := range slices.Backward(nots) {
		e = &not{of: e, pos: pos}
	}
	return e, err
}

func (p *parser) comparison() (expr, error) {
	e, err := p.predicates()
	if err != nil {
		return nil, err
	}
	c := &comparison{operands: []expr{e}}
	for {
		t := p.peek()
		if t.is("=~") {
			return nil, p.unsupported(t.start, "operator =~")
		}
		if t.kind != tokSymbol || !slices.Contains([]string{"=", "<>", "<", "<=", ">", ">="}, t.text) {
			break
		}
		p.at++
		operand, err := p.predicates()
		if err != nil {
			return nil, err
		}
		c.ops = append(c.ops, t.text)
		c.operands = append(c.operands, operand)
	}
	if len(c.ops) == 0 {
		return e, nil
	}
	return c, nil
}

// predicates parses the operators on strings, lists and null.
func (p *parser) predicates() (expr, error) {
	e, err := p.sum()
	for err == nil {
		t := p.peek()
		var operand expr
		switch {
		case p.words("STARTS", "WITH"), p.words("ENDS", "WITH"), p.words("CONTAINS"):
			operand, err = p.sum()
			e = &stringTest{op: strings.ToUpper(t.text), left: e, right: operand}
		case p.words("IN"):
			operand, err = p.sum()
			e = &inList{item: e, list: operand, pos: t.start}
		case p.words("IS", "NULL"):
			e = &isNull{of: e}
		case p.words("IS", "NOT", "NULL"):
			e = &isNull{of: e, negative: true}
		default:
			return e, nil
		}
	}
	return nil, err
}

func (p *parser) sum() (expr, error)     { return p.arithmetic(p.product, "+", "-") }
func (p *parser) product() (expr, error) { return p.arithmetic(p.power, "*", "/", "%") }
func (p *parser) power() (expr, error)   { return p.arithmetic(p.signed, "^") }

func (p *parser) arithmetic(operand func() (expr, error), ops ...string) (expr, error) {
	e, err := operand()
	for err == nil {
		t := p.peek()
		if t.kind != tokSymbol || !slices.Contains(ops, t.text) {
			return e, nil
		}
		p.at++
		var r expr
		r, err = operand()
		e = &arithmetic{op: t.text, left: e, right: r, pos: t.start}
	}
	return nil, err
}

func (p *parser) signed() (expr, error) {
	t := p.peek()
	if !t.is("-") && !t.is("+") {
		return p.postfix()
	}
	p.at++
	if n := p.peek(); t.is("-") && n.kind == tokInt && n.value == uint64(1<<63) {
		p.at++
		return p.suffixes(&literal{value: int64(-1 << 63)})
	}
	if p.depth++; p.depth > MaxDepth {
		return nil, p.fail(t.start, "expression is nested more than %d levels", MaxDepth)
	}
	defer func() { p.depth-- }()
	e, err := p.signed()
	if err != nil {
		return nil, err
	}
	return &sign{of: e, negative: t.is("-"), pos: t.start}, nil
}

// postfix parses an atom with its suffixes: properties, elements, labels.
func (p *parser) postfix() (expr, error) {
	e, err := p.atom()
	if err != nil {
		return nil, err
	}
	return p.suffixes(e)
}

func (p *parser) suffixes(e expr) (expr, error) {
	for {
		t := p.peek()
		switch {
		case p.symbol("."):
			key, err := p.name("a property")
			if err != nil {
				return nil, err
			}
			e = &property{of: e, key: key, pos: t.start}
		case p.symbol("["):
			var err error
			if e, err = p.subscript(e, t.start); err != nil {
				return nil, err
			}
		case t.is(":") && (p.ahead(1).kind == tokName || p.ahead(1).kind == tokQuotedName):
			labels, err := p.labels()
			if err != nil {
				return nil, err
			}
			return &hasLabels{of: e, labels: labels, pos: t.start}, nil
		case t.is("{") && isVariable(e):
			return nil, p.unsupported(t.start, "a map projection")
		default:
			return e, nil
		}
	}
}

func isVariable(e expr) bool {
	_, ok := e.(*variable)
	return ok
}

// subscript parses an index or a range after its bracket.
func (p *parser) subscript(of expr, pos int) (expr, error) {
	var from, to expr
	var err error
	if !p.peek().is("..") {
		if from, err = p.expr(); err != nil {
			return nil, err
		}
		if p.symbol("]") {
			return &element{of: of, at: from, pos: pos}, nil
		}
	}
	if err := p.expect(".."); err != nil {
		return nil, err
	}
	if !p.peek().is("]") {
		if to, err = p.expr(); err != nil {
			return nil, err
		}
	}
	return &slice{of: of, from: from, to: to, pos: pos}, p.expect("]")
}

// atom parses a literal, parameter, variable, call, or an expression in brackets.
func (p *parser) atom() (expr, error) {
	t := p.peek()
	if p.patternFollows(p.at) {
		path, err := p.pattern(false)
		return &patternTest{pattern: path, pos: t.start}, err
	}
	switch t.kind {
	case tokInt:
		p.at++
		u := t.value.(uint64) // the lexer makes integers of this type
		if u > 1<<63-1 {
			return nil, p.fail(t.start, "integer is out of range: %s", quoted(p.text[t.start:t.end]))
		}
		return &literal{value: int64(u)}, nil
	case tokFloat:
		p.at++
		return &literal{value: t.value}, nil
	case tokString:
		p.at++
		return &literal{value: t.text}, nil
	case tokParam:
		p.at++
		if !slices.Contains(p.params, t.text) {
			p.params = append(p.params, t.text)
		}
		return &parameter{name: t.text, pos: t.start}, nil
	case tokQuotedName:
		return p.variable()
	case tokName:
		return p.word()
	case tokSymbol:
		return p.bracket()
	default:
		return nil, p.unexpected("expected an expression")
	}
}

func (p *parser) bracket() (expr, error) {
	t := p.peek()
	switch {
	case p.symbol("("):
		e, err := p.expr()
		if err != nil {
			return nil, err
		}
		return e, p.expect(")")
	case p.symbol("["):
		return p.list(t.start)
	case p.symbol("{"):
		return p.object()
	default:
		return nil, p.unexpected("expected an expression")
	}
}

// object parses a map after its bracket.
func (p *parser) object() (expr, error) {
	o := &object{}
	for more := !p.peek().is("}"); more; more = p.symbol(",") {
		key, err := p.name("a key")
		if err != nil {
			return nil, err
		}
		if err := p.expect(":"); err != nil {
			return nil, err
		}
		value, err := p.expr()
		if err != nil {
			return nil, err
		}
		o.keys, o.values = append(o.keys, key), append(o.values, value)
	}
	return o, p.expect("}")
}

// list parses a list or a comprehension after its bracket.
func (p *parser) list(pos int) (expr, error) {
	if p.patternFollows(p.at) {
		// [(a)-->(b) | x] is a comprehension, [(a)-->(b)] a list of a predicate.
		if end := p.tokens[p.at-1].match; end > 0 && p.barBefore(end) {
			return p.comprehensionPattern(pos)
		}
	}
	if p.isName() && p.ahead(1).is("=") && p.patternFollows(p.at+2) {
		return p.comprehensionPattern(pos)
	}
	if p.isName() && p.ahead(1).word("IN") {
		return p.comprehension()
	}
	l := &list{}
	for more := !p.peek().is("]"); more; more = p.symbol(",") {
		e, err := p.expr()
		if err != nil {
			return nil, err
		}
		l.items = append(l.items, e)
	}
	return l, p.expect("]")
}

// barBefore reports whether a bar follows on this level before the token end.
func (p *parser) barBefore(end int) bool {
	for i := p.at; i < end; i++ {
		t := &p.tokens[i]
		if t.is("|") {
			return true
		}
		if t.match > i {
			i = t.match
		}
	}
	return false
}

// comprehension parses x IN list WHERE y | z, after the bracket. "x IN list" alone in brackets
// is a comprehension too.
func (p *parser) comprehension() (expr, error) {
	e := &comprehension{}
	var err error
	if e.item, e.list, e.where, err = p.iteration(); err != nil {
		return nil, err
	}
	if p.symbol("|") {
		if e.out, err = p.expr(); err != nil {
			return nil, err
		}
	}
	return e, p.expect("]")
}

// iteration parses x IN list WHERE y.
func (p *parser) iteration() (v *variable, list, where expr, err error) {
	if v, err = p.variable(); err != nil {
		return nil, nil, nil, err
	}
	if !p.words("IN") {
		return nil, nil, nil, p.unexpected("expected IN")
	}
	if list, err = p.expr(); err != nil {
		return nil, nil, nil, err
	}
	where, err = p.where()
	return v, list, where, err
}

// word parses an atom that starts with a name.
func (p *parser) word() (expr, error) {
	t := p.peek()
	if block := p.refusedBlock(); block != "" {
		return nil, p.unsupported(t.start, block)
	}
	if p.ahead(1).is("(") {
		return p.call()
	}
	switch strings.ToUpper(t.text) {
	case "TRUE", "FALSE":
		p.at++
		return &literal{value: t.word("true")}, nil
	case "NULL":
		p.at++
		return &literal{}, nil
	case "CASE":
		p.at++
		return p.caseOf()
	}
	if n := p.ahead(1); n.is(".") && p.ahead(3).is("(") {
		return nil, p.unsupported(t.start, "function "+t.text+"."+p.ahead(2).text)
	}
	return p.variable()
}

func (p *parser) caseOf() (expr, error) {
	e := &caseOf{}
	var err error
	if !p.peek().word("WHEN") {
		if e.operand, err = p.expr(); err != nil {
			return nil, err
		}
	}
	for p.words("WHEN") {
		condition, err := p.expr()
		if err != nil {
			return nil, err
		}
		if !p.words("THEN") {
			return nil, p.unexpected("expected THEN")
		}
		result, err := p.expr()
		if err != nil {
			return nil, err
		}
		e.conditions, e.results = append(e.conditions, condition), append(e.results, result)
	}
	if len(e.conditions) == 0 {
		return nil, p.unexpected("expected WHEN")
	}
	if p.words("ELSE") {
		if e.otherwise, err = p.expr(); err != nil {
			return nil, err
		}
	}
	if !p.words("END") {
		return nil, p.unexpected("expected END")
	}
	return e, nil
}

// call parses a function, an aggregate or a quantifier.
func (p *parser) call() (expr, error) {
	t := p.next()
	p.at++ // the bracket
	name := strings.ToLower(t.text)
	if refusedFunctions[name] {
		return nil, p.unsupported(t.start, "function "+t.text)
	}
	switch name {
	case "all", "any", "none", "single":
		return p.quantifier(name, t.start)
	}
	if aggregates[name] {
		return p.aggregate(name, t.start)
	}
	fn := functions[name]
	if fn == nil {
		return nil, p.unsupported(t.start, "function "+t.text)
	}
	e := &call{fn: fn, name: name, pos: t.start}
	for more := !p.peek().is(")"); more; more = p.symbol(",") {
		arg, err := p.expr()
		if err != nil {
			return nil, err
		}
		e.args = append(e.args, arg)
	}
	if len(e.args) < fn.min || len(e.args) > fn.max && fn.max >= 0 {
		return nil, p.fail(t.start, "function %s has %d arguments", t.text, len(e.args))
	}
	if name == "exists" {
		if test, ok := e.args[0].(*patternTest); ok {
			test.allowed = true
			return test, p.expect(")")
		}
	}
	return e, p.expect(")")
}

func (p *parser) quantifier(name string, pos int) (expr, error) {
	e := &quantifier{name: name, pos: pos}
	var err error
	if e.item, e.list, e.where, err = p.iteration(); err != nil {
		return nil, err
	}
	if e.where == nil {
		return nil, p.unexpected("expected WHERE")
	}
	return e, p.expect(")")
}

func (p *parser) aggregate(name string, pos int) (expr, error) {
	e := &aggregate{name: name, pos: pos}
	if name == "count" && p.symbol("*") {
		e.name = "count(*)"
		return e, p.expect(")")
	}
	e.distinct = p.words("DISTINCT")
	var err error
	if e.arg, err = p.expr(); err != nil {
		return nil, err
	}
	if p.peek().is(",") {
		return nil, p.fail(pos, "function %s has more than one argument", name)
	}
	return e, p.expect(")")
}
