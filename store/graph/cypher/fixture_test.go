package cypher

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/graph"
)

// memory is a graph for tests. Its entities may have any number of labels.
type memory struct {
	nodes []*Node
	rels  []*Rel
}

func (g *memory) Nodes(_ context.Context, labels []string, after string, limit int) ([]*Node, error) {
	var out []*Node
	for _, n := range g.nodes {
		wanted := len(labels) == 0 || slices.ContainsFunc(labels, func(l string) bool { return slices.Contains(n.Labels, l) })
		if n.ID > after && wanted && len(out) < limit {
			out = append(out, n)
		}
	}
	return out, nil
}

func (g *memory) NodesByID(_ context.Context, ids []string) ([]*Node, error) {
	var out []*Node
	for _, id := range ids {
		i, ok := slices.BinarySearchFunc(g.nodes, id, func(n *Node, id string) int { return cmp.Compare(n.ID, id) })
		if ok {
			out = append(out, g.nodes[i])
		}
	}
	return out, nil
}

func (g *memory) Rels(_ context.Context, ids []string) (rels []*Rel, ends []*Node, _ error) {
	for _, r := range g.rels {
		if slices.Contains(ids, r.Source) || slices.Contains(ids, r.Target) {
			rels = append(rels, r)
		}
	}
	return rels, nil, nil
}

// create is the clause CREATE, with which tests write their graphs.
type create struct{ patterns []*pattern }

func parseCreate(p *parser) (clause, error) {
	p.next()
	c := &create{}
	for {
		path, err := p.pattern(true)
		if err != nil {
			return nil, err
		}
		c.patterns = append(c.patterns, path)
		if !p.symbol(",") {
			return c, nil
		}
	}
}

func (c *create) check(k *checker, s *scope) (*scope, error) {
	k.fresh = *s.width
	for _, p := range c.patterns {
		if err := k.pattern(s, p, true); err != nil {
			return nil, err
		}
		if err := k.patternProps(s, p); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (c *create) operator(x *execution, next operator) operator {
	return &creating{x: x, create: c, next: next}
}

type creating struct {
	x      *execution
	create *create
	next   operator
}

func (o *creating) finish() error { return o.next.finish() }

func (o *creating) push(r row) error {
	g := o.x.graph.(*memory)
	fresh := make(map[int]bool)
	for _, p := range o.create.patterns {
		for _, n := range p.nodes {
			if _, ok := r[n.slot].(*Node); ok && n.variable != nil && len(n.labels) == 0 && n.props == nil || fresh[n.slot] {
				continue
			}
			props, err := o.props(n.props, r)
			if err != nil {
				return err
			}
			node := &Node{ID: fmt.Sprintf("n%06d", len(g.nodes)), Labels: n.labels, Properties: props}
			if id, ok := props["id"].(string); ok {
				node.ID = id
			}
			g.nodes = append(g.nodes, node)
			slices.SortFunc(g.nodes, func(a, b *Node) int { return cmp.Compare(a.ID, b.ID) })
			r[n.slot], fresh[n.slot] = node, true
		}
		for i, rel := range p.rels {
			props, err := o.props(rel.props, r)
			if err != nil {
				return err
			}
			from, to := r[p.nodes[i].slot].(*Node), r[p.nodes[i+1].slot].(*Node)
			if rel.dir == left {
				from, to = to, from
			}
			made := &Rel{ID: fmt.Sprintf("r%06d", len(g.rels)), Type: rel.types[0], Source: from.ID, Target: to.ID, Properties: props}
			g.rels = append(g.rels, made)
			r[rel.slot] = made
		}
	}
	err := o.next.push(r)
	for slot := range fresh {
		r[slot] = nil
	}
	return err
}

func (o *creating) props(e expr, r row) (map[string]any, error) {
	if e == nil {
		return map[string]any{}, nil
	}
	v, err := e.eval(o.x, r)
	if err != nil {
		return nil, err
	}
	m := v.(map[string]any)
	for k, v := range m {
		if v == nil {
			delete(m, k)
		}
	}
	return m, nil
}

// parseWriting parses a statement of clauses and of CREATE.
func parseWriting(text string) (*Statement, error) {
	tokens, err := tokenize(text)
	if err != nil {
		return nil, err
	}
	p, s := &parser{text: text, tokens: tokens}, &single{}
	for {
		parse := p.clause
		if p.peek().word("CREATE") {
			parse = func() (clause, error) { return parseCreate(p) }
		}
		c, err := parse()
		if err != nil {
			return nil, err
		}
		if c == nil {
			break
		}
		s.clauses = append(s.clauses, c)
	}
	if p.symbol(";"); p.peek().kind != tokEnd {
		return nil, p.unexpected("expected a clause")
	}
	q := &Statement{text: text, parts: []*single{s}, params: p.params}
	return q, check(q)
}

// execute creates parts of the graph.
func (g *memory) execute(text string) error {
	q, err := parseWriting(text)
	if err != nil {
		return err
	}
	_, err = q.Run(context.Background(), g, limits(nil))
	return err
}

func limits(params map[string]any) graph.CypherParams {
	return graph.CypherParams{Params: params, MaxRows: graph.MaxRows, MaxSteps: 10_000_000, Timeout: time.Minute}
}

// newGraph returns a graph that statements create.
func newGraph(t *testing.T, statements ...string) *memory {
	t.Helper()
	g := &memory{}
	for _, s := range statements {
		if err := g.execute(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	return g
}

// query executes a query.
func (g *memory) query(text string, params map[string]any) (Result, error) {
	q, err := Parse(text)
	if err != nil {
		return Result{}, err
	}
	return q.Run(context.Background(), g, limits(params))
}

// show writes a value as scenarios do.
func (g *memory) show(v any, anyOrder bool) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\t", `\t`).Replace(v) + "'"
	case bool, int64, float64:
		s, _ := text(v)
		return s
	case []any:
		items := make([]string, len(v))
		for i := range v {
			items[i] = g.show(v[i], anyOrder)
		}
		if anyOrder {
			slices.Sort(items)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		var items []string
		for k := range v {
			items = append(items, k+": "+g.show(v[k], anyOrder))
		}
		slices.Sort(items)
		return "{" + strings.Join(items, ", ") + "}"
	case *Node:
		labels := slices.Sorted(slices.Values(v.Labels))
		s := ""
		for _, l := range labels {
			s += ":" + l
		}
		return "(" + join(s, g.props(v.Properties, anyOrder)) + ")"
	case *Rel:
		return "[" + join(":"+v.Type, g.props(v.Properties, anyOrder)) + "]"
	case *Path:
		s := "<"
		for i, n := range v.Nodes {
			s += g.show(n, anyOrder)
			if i < len(v.Rels) {
				if r := v.Rels[i]; r.Source == n.ID {
					s += "-" + g.show(r, anyOrder) + "->"
				} else {
					s += "<-" + g.show(r, anyOrder) + "-"
				}
			}
		}
		return s + ">"
	}
	return fmt.Sprintf("unknown %T", v)
}

func (g *memory) props(m map[string]any, anyOrder bool) string {
	if len(m) == 0 {
		return ""
	}
	return g.show(m, anyOrder)
}

func join(a, b string) string {
	if a != "" && b != "" {
		return a + " " + b
	}
	return a + b
}
