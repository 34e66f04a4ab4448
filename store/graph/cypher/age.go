package cypher

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/holdfast-dev/holdfast/store/graph"
)

// maxAGEName is the maximum size of a name in Apache AGE.
const maxAGEName = 63

// AGE returns the text of the query for Apache AGE 1.5, which accepts another part of the language. It
// returns a [graph.CypherError] if the query has no such form. The text contains no value of a parameter,
// and "$" only before the names of parameters.
func (q *Statement) AGE() (string, error) {
	w := &ageWriter{q: q, prefix: "hf"}
	for strings.Contains(q.text, w.prefix) {
		w.prefix += "_"
	}
	w.p.age = w
	for i, part := range q.parts {
		if i > 0 {
			w.p.text(" UNION ")
			if q.all[i-1] {
				w.p.text("ALL ")
			}
		}
		for _, c := range part.clauses {
			w.clause(c)
		}
	}
	return w.p.b.String(), w.err
}

// ageWriter writes a query for Apache AGE.
type ageWriter struct {
	q      *Statement
	p      printer
	prefix string // of names that the query does not have
	names  int
	// conditions are the conditions of the current pattern that AGE does not accept within it.
	conditions []expr
	// columns are the columns of a projection while its order is written, because AGE does not find
	// them by name.
	columns  []*item
	inColumn bool
	err      error
}

func (w *ageWriter) refuse(pos int, feature string) {
	if w.err == nil {
		w.err = failAt(w.q.text, pos, graph.CypherError{Rule: feature + " is not supported on Apache AGE", Unsupported: true})
	}
}

func (w *ageWriter) name() string {
	w.names++
	return w.prefix + strconv.Itoa(w.names)
}

func (w *ageWriter) clause(c clause) {
	switch c := c.(type) {
	case *match:
		w.match(c)
	case *unwind:
		w.p.text("UNWIND ")
		w.p.expr(c.list)
		w.p.text(" AS ")
		w.p.name(c.as.name)
		w.p.text(" ")
	case *projection:
		w.projection(c)
	}
}

func (w *ageWriter) match(m *match) {
	if m.optional {
		w.p.text("OPTIONAL ")
	}
	w.p.text("MATCH ")
	w.conditions = nil
	var paths []*pattern
	for i, path := range m.patterns {
		if i > 0 {
			w.p.text(", ")
		}
		paths = append(paths, w.plain(path, w.beside(m, path)))
		w.p.pattern(paths[i])
	}
	w.different(paths)
	for i, c := range append(w.conditions, conjuncts(m.where, nil)...) {
		w.p.text([]string{" WHERE ", " AND "}[min(i, 1)])
		w.p.expr(c)
	}
	w.p.text(" ")
}

// beside reports whether other patterns of the clause have relationships too.
func (w *ageWriter) beside(m *match, path *pattern) bool {
	return slices.ContainsFunc(m.patterns, func(p *pattern) bool { return p != path && len(p.rels) > 0 })
}

// different adds the conditions that relationships of different patterns differ, which AGE does not ensure.
func (w *ageWriter) different(paths []*pattern) {
	id := func(r *relPattern) expr { return &call{name: "id", args: []expr{r.variable}} }
	for i, p := range paths {
		for _, q := range paths[:i] {
			for _, r := range p.rels {
				for _, s := range q.rels {
					if r.length != nil || s.length != nil {
						continue // refused
					}
					w.conditions = append(w.conditions, &comparison{operands: []expr{id(r), id(s)}, ops: []string{"<>"}})
				}
			}
		}
	}
}

// plain returns a pattern without properties, and without labels and types after the first: it adds them
// to the conditions. If beside is set, relationships get names, because they must differ from the
// relationships of other patterns.
func (w *ageWriter) plain(path *pattern, beside bool) *pattern {
	out := &pattern{variable: path.variable}
	for _, n := range path.nodes {
		plain := *n
		if len(n.labels) > 1 || n.props != nil {
			plain.variable = w.named(n.variable)
			w.equal(plain.variable, n.props)
			plain.props = nil
		}
		if len(n.labels) > 1 {
			w.conditions = append(w.conditions, &hasLabels{of: plain.variable, labels: n.labels[1:]})
			plain.labels = n.labels[:1]
		}
		out.nodes = append(out.nodes, &plain)
	}
	for _, r := range path.rels {
		plain := *r
		if beside && r.length == nil {
			plain.variable = w.named(r.variable)
		}
		switch {
		case r.length != nil && beside:
			w.refuse(r.pos, "a path of variable length beside another pattern with relationships")
		case r.length != nil && len(r.types) > 1:
			w.refuse(r.pos, "a path of several types")
		case r.length == nil && (len(r.types) > 1 || r.props != nil):
			plain.variable = w.named(plain.variable)
			w.equal(plain.variable, r.props)
			plain.props = nil
			if len(r.types) > 1 {
				w.conditions = append(w.conditions, typeIn(plain.variable, r.types))
				plain.types = nil
			}
		}
		out.rels = append(out.rels, &plain)
	}
	return out
}

func (w *ageWriter) named(v *variable) *variable {
	if v == nil {
		v = &variable{name: w.name()}
	}
	return v
}

func (w *ageWriter) equal(v *variable, props expr) {
	o, ok := props.(*object)
	if !ok {
		return
	}
	for i, k := range o.keys {
		w.conditions = append(w.conditions, &comparison{operands: []expr{&property{of: v, key: k}, o.values[i]}, ops: []string{"="}})
	}
}

func typeIn(v *variable, types []string) expr {
	l := &list{}
	for _, t := range types {
		l.items = append(l.items, &literal{value: t})
	}
	return &inList{item: &call{name: "type", args: []expr{v}}, list: l}
}

func (w *ageWriter) projection(c *projection) {
	w.p.text(map[bool]string{true: "WITH ", false: "RETURN "}[c.with])
	if c.distinct {
		w.p.text("DISTINCT ")
	}
	w.inColumn = true
	for i, it := range c.items {
		if i > 0 {
			w.p.text(", ")
		}
		w.p.expr(it.expr)
		alias := it.name
		if _, ok := it.expr.(*variable); !ok && !it.named {
			alias = w.name()
		}
		w.p.text(" AS ")
		w.p.name(alias)
	}
	w.columns = c.items
	for i, o := range c.order {
		w.p.text([]string{" ORDER BY ", ", "}[min(i, 1)])
		w.p.expr(o.expr)
		if o.descending {
			w.p.text(" DESC")
		}
	}
	w.columns, w.inColumn = nil, false
	for _, bound := range []struct {
		word string
		e    expr
	}{{" SKIP ", c.skip}, {" LIMIT ", c.limit}} {
		if bound.e != nil {
			w.p.text(bound.word)
			w.p.expr(bound.e)
		}
	}
	w.p.where(c.where)
	w.p.text(" ")
}

// expr writes expressions that AGE accepts in another form only. It reports whether it did.
func (w *ageWriter) expr(p *printer, e expr) bool {
	switch e := e.(type) {
	case *variable:
		for _, it := range w.columns {
			if it.name == e.name {
				columns := w.columns
				w.columns = nil
				p.expr(it.expr)
				w.columns = columns
				return true
			}
		}
	case *aggregate:
		if e.name == "sum" { // AGE returns null without numbers
			p.text("coalesce(")
			p.aggregate(e)
			p.text(", 0)")
			return true
		}
	case *hasLabels:
		for i, l := range e.labels {
			p.text([]string{"(", " AND "}[min(i, 1)], "label(")
			p.expr(e.of)
			p.text(") = ")
			p.literal(l)
		}
		p.text(")")
		return true
	case *patternTest:
		w.test(p, e)
		return true
	case *call:
		if e.fn != nil && e.fn.notAGE {
			w.refuse(e.pos, "function "+e.name)
		}
	case *comprehension:
		w.refuse(e.item.pos, "a list comprehension")
	case *quantifier:
		w.refuse(e.pos, "function "+e.name)
	case *patternComprehension:
		w.refuse(e.pos, "a pattern comprehension")
	}
	return false
}

func (w *ageWriter) test(p *printer, e *patternTest) {
	if w.inColumn {
		w.refuse(e.pos, "a pattern in a column")
	}
	for _, n := range e.pattern.nodes {
		if len(n.labels) > 1 {
			w.refuse(n.pos, "a condition with several labels of an entity")
		}
	}
	for _, r := range e.pattern.rels {
		if len(r.types) > 1 {
			w.refuse(r.pos, "a condition with several types of a relationship")
		}
	}
	p.text("exists(")
	p.pattern(e.pattern)
	p.text(")")
}

// checkName rejects names that AGE shortens or that end its text.
func (w *ageWriter) checkName(s string) {
	if len(s) > maxAGEName || strings.ContainsAny(s, "$`\x00") {
		w.refuse(0, "name "+quoted(s))
	}
}

// ageString writes a string of printable ASCII without "$".
func ageString(b *strings.Builder, s string) {
	b.WriteByte('\'')
	for _, r := range s {
		switch {
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r >= ' ' && r < 0x7f && r != '$':
			b.WriteRune(r)
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(b, `\u%04x`, unit)
			}
		}
	}
	b.WriteByte('\'')
}

// Value returns a value of a property or parameter as a literal of agtype, the type of Apache AGE. It is
// a JSON value in which whole numbers are integers. It replaces NUL, which PostgreSQL cannot store.
func Value(v any) string {
	v, _ = normal(v)
	var b strings.Builder
	ageValue(&b, v)
	return b.String()
}

func ageValue(b *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case string:
		ageText(b, v)
	case float64:
		s := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(s, ".eIN") {
			s += ".0"
		}
		b.WriteString(strings.Replace(strings.TrimPrefix(s, "+"), "Inf", "Infinity", 1))
	case []any:
		for i, item := range v {
			b.WriteString([]string{"[", ", "}[min(i, 1)])
			ageValue(b, item)
		}
		if len(v) == 0 {
			b.WriteByte('[')
		}
		b.WriteByte(']')
	case map[string]any:
		b.WriteByte('{')
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for i, k := range keys {
			if i > 0 {
				b.WriteString(", ")
			}
			ageText(b, k)
			b.WriteString(": ")
			ageValue(b, v[k])
		}
		b.WriteByte('}')
	default:
		fmt.Fprint(b, v)
	}
}

func ageText(b *strings.Builder, s string) {
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == 0:
			b.WriteRune('\uFFFD')
		case r < ' ':
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}
