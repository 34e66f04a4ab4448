package cypher

import (
	"fmt"
	"strconv"
	"strings"
)

// printer writes parts of queries as text.
type printer struct {
	b strings.Builder
	// age writes what Apache AGE does not accept; nil for the language itself.
	age *ageWriter
}

func sameExpr(a, b expr) bool { return printed(a) == printed(b) }

func printed(e expr) string {
	p := &printer{}
	p.expr(e)
	return p.b.String()
}

func (p *printer) text(s ...string) {
	for _, t := range s {
		p.b.WriteString(t)
	}
}

func (p *printer) list(items []expr) {
	for i, e := range items {
		if i > 0 {
			p.text(", ")
		}
		p.expr(e)
	}
}

// name writes a name in backquotes.
func (p *printer) name(s string) {
	if p.age != nil {
		p.age.checkName(s)
	}
	p.text("`", strings.ReplaceAll(s, "`", "``"), "`")
}

func (p *printer) names(before string, names []string) {
	for _, n := range names {
		p.text(before)
		p.name(n)
	}
}

// literal writes a scalar. Strings have no other characters than printable ASCII, and no "$".
func (p *printer) literal(v any) {
	switch v := v.(type) {
	case nil:
		p.text("null")
	case string:
		ageString(&p.b, v)
	case float64:
		s := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(s, ".e") {
			s += ".0"
		}
		p.text(s)
	default:
		p.text(fmt.Sprint(v))
	}
}

// operator writes an operand, op, and an operand, in brackets.
func (p *printer) operator(a expr, op string, b expr) {
	p.text("(")
	p.expr(a)
	p.text(" ", op, " ")
	p.expr(b)
	p.text(")")
}

func (p *printer) expr(e expr) {
	if p.age != nil && p.age.expr(p, e) {
		return
	}
	switch e := e.(type) {
	case *literal:
		p.literal(e.value)
	case *parameter:
		p.text("$", e.name)
	case *variable:
		p.name(e.name)
	case *property:
		p.expr(e.of)
		p.text(".")
		p.name(e.key)
	case *element:
		p.expr(e.of)
		p.text("[")
		p.expr(e.at)
		p.text("]")
	case *slice:
		p.slice(e)
	case *list:
		p.text("[")
		p.list(e.items)
		p.text("]")
	case *object:
		p.object(e)
	case *isNull, *not, *sign, *hasLabels:
		p.unary(e)
	case *logical:
		p.operator(e.left, e.op, e.right)
	case *arithmetic:
		p.operator(e.left, e.op, e.right)
	case *comparison:
		p.comparison(e)
	case *stringTest:
		p.operator(e.left, map[string]string{"STARTS": "STARTS WITH", "ENDS": "ENDS WITH", "CONTAINS": "CONTAINS"}[e.op], e.right)
	case *inList:
		p.operator(e.item, "IN", e.list)
	case *call:
		p.text(e.name, "(")
		p.list(e.args)
		p.text(")")
	case *aggregate:
		p.aggregate(e)
	case *caseOf:
		p.caseOf(e)
	default:
		p.block(e)
	}
}

func (p *printer) unary(e expr) {
	p.text("(")
	switch e := e.(type) {
	case *not:
		p.text("NOT ")
		p.expr(e.of)
	case *sign:
		p.text(map[bool]string{true: "-", false: "+"}[e.negative])
		p.expr(e.of)
	case *isNull:
		p.expr(e.of)
		p.text(map[bool]string{true: " IS NOT NULL", false: " IS NULL"}[e.negative])
	case *hasLabels:
		p.expr(e.of)
		p.names(":", e.labels)
	}
	p.text(")")
}

func (p *printer) slice(e *slice) {
	p.expr(e.of)
	p.text("[")
	if e.from != nil {
		p.expr(e.from)
	}
	p.text("..")
	if e.to != nil {
		p.expr(e.to)
	}
	p.text("]")
}

func (p *printer) object(e *object) {
	p.text("{")
	for i, k := range e.keys {
		if i > 0 {
			p.text(", ")
		}
		p.name(k)
		p.text(": ")
		p.expr(e.values[i])
	}
	p.text("}")
}

func (p *printer) comparison(e *comparison) {
	p.text("(")
	for i, op := range e.ops {
		if i > 0 {
			p.text(" AND ")
		}
		p.operator(e.operands[i], op, e.operands[i+1])
	}
	p.text(")")
}

func (p *printer) aggregate(e *aggregate) {
	if e.arg == nil {
		p.text(e.name)
		return
	}
	p.text(e.name, "(")
	if e.distinct {
		p.text("DISTINCT ")
	}
	p.expr(e.arg)
	p.text(")")
}

func (p *printer) caseOf(e *caseOf) {
	p.text("CASE")
	if e.operand != nil {
		p.text(" ")
		p.expr(e.operand)
	}
	for i, c := range e.conditions {
		p.text(" WHEN ")
		p.expr(c)
		p.text(" THEN ")
		p.expr(e.results[i])
	}
	if e.otherwise != nil {
		p.text(" ELSE ")
		p.expr(e.otherwise)
	}
	p.text(" END")
}

func (p *printer) where(e expr) {
	if e != nil {
		p.text(" WHERE ")
		p.expr(e)
	}
}

// block writes expressions with variables or patterns of their own.
func (p *printer) block(e expr) {
	switch e := e.(type) {
	case *comprehension:
		p.text("[")
		p.iteration(e.item, e.list, e.where)
		if e.out != nil {
			p.text(" | ")
			p.expr(e.out)
		}
		p.text("]")
	case *quantifier:
		p.text(e.name, "(")
		p.iteration(e.item, e.list, e.where)
		p.text(")")
	case *patternTest:
		p.pattern(e.pattern)
	case *patternComprehension:
		p.text("[")
		p.pattern(e.pattern)
		p.where(e.where)
		p.text(" | ")
		p.expr(e.out)
		p.text("]")
	}
}

func (p *printer) iteration(item *variable, list, where expr) {
	p.name(item.name)
	p.text(" IN ")
	p.expr(list)
	p.where(where)
}

func (p *printer) pattern(path *pattern) {
	if path.variable != nil {
		p.name(path.variable.name)
		p.text(" = ")
	}
	for i, n := range path.nodes {
		p.text("(")
		if n.variable != nil {
			p.name(n.variable.name)
		}
		p.names(":", n.labels)
		p.props(n.props)
		p.text(")")
		if i < len(path.rels) {
			p.rel(path.rels[i])
		}
	}
}

func (p *printer) props(e expr) {
	if e != nil {
		p.text(" ")
		p.expr(e)
	}
}

func (p *printer) rel(r *relPattern) {
	if r.dir == left {
		p.text("<")
	}
	p.text("-[")
	if r.variable != nil {
		p.name(r.variable.name)
	}
	for i, t := range r.types {
		p.text([]string{":", "|"}[min(i, 1)])
		p.name(t)
	}
	if l := r.length; l != nil {
		p.text("*", strconv.Itoa(l.min), "..")
		if l.max >= 0 {
			p.text(strconv.Itoa(l.max))
		}
	}
	p.props(r.props)
	p.text("]-")
	if r.dir == right {
		p.text(">")
	}
}
