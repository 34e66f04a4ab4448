package cypher

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-dev/holdfast/store/graph"
)

// Graph is what queries read. Methods return what exists.
type Graph interface {
	// Nodes returns up to limit entities after an id, by id. Labels select entities that have one
	// of them; none means all.
	Nodes(ctx context.Context, labels []string, after string, limit int) ([]*Node, error)
	// NodesByID returns entities in any order.
	NodesByID(ctx context.Context, ids []string) ([]*Node, error)
	// Rels returns all relationships of entities, in both directions, by id, and the entities that
	// they connect.
	Rels(ctx context.Context, ids []string) ([]*Rel, []*Node, error)
}

// Result has the rows of a query. Values are nil, bool, int64, float64, string, []any,
// map[string]any, *[Node], *[Rel] or *[Path].
type Result struct {
	Columns   []string
	Rows      [][]any
	Truncated bool
}

// pageSize is the number of entities that a scan reads at once.
const pageSize = 200

// execution is the state of a query that is executed.
type execution struct {
	ctx    context.Context // of the one call that the execution belongs to
	query  *Statement
	graph  Graph
	params map[string]any
	left   int64
	// group has the aggregates of the current group.
	group []any

	nodes map[string]*Node // nil for ids that do not exist
	edges map[string][]*Rel
}

// Run executes the query on a graph. p must have been checked. It returns a [graph.CypherError]
// for values that operators do not accept, [graph.ErrBudget], or the context's error.
func (q *Statement) Run(ctx context.Context, g Graph, p graph.CypherParams) (Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout, graph.ErrBudget)
	defer cancel()
	x := &execution{ctx: ctx, query: q, graph: g, left: p.MaxSteps, params: make(map[string]any), nodes: make(map[string]*Node), edges: make(map[string][]*Rel)}
	for name, v := range p.Params {
		value, ok := normal(v)
		if !ok {
			return Result{}, &graph.CypherError{Rule: "parameter $" + name + " is not a JSON value"}
		}
		x.params[name] = value
	}
	result, err := x.run(p.MaxRows)
	if err != nil && ctx.Err() != nil && errors.Is(context.Cause(ctx), graph.ErrBudget) {
		return Result{}, graph.ErrBudget
	}
	return result, err
}

func (x *execution) run(maxRows int) (Result, error) {
	out := &collector{x: x, max: maxRows}
	var last operator = out
	if len(x.query.all) > 0 && !x.query.all[0] {
		last = &distinct{x: x, next: last, seen: make(map[string]bool)}
	}
	for _, part := range x.query.parts {
		op := last
		for _, c := range slices.Backward(part.clauses) {
			op = c.operator(x, op)
		}
		if err := drive(op, make(row, x.query.width)); err != nil {
			return Result{}, err
		}
		if out.truncated {
			break
		}
	}
	return Result{Columns: x.query.Columns(), Rows: out.rows, Truncated: out.truncated}, nil
}

// step counts n steps. It returns an error if the query has used all its steps or time.
func (x *execution) step(n int) error {
	before := x.left
	x.left -= int64(n)
	if x.left < 0 {
		return graph.ErrBudget
	}
	if before>>8 != x.left>>8 {
		return x.ctx.Err()
	}
	return nil
}

// produced counts the steps of a text of n bytes.
func (x *execution) produced(n int) error { return x.step(n / 16) }

// weigh counts the steps of a new value with all that it contains.
func (x *execution) weigh(v any) error {
	switch v := v.(type) {
	case string:
		return x.produced(len(v))
	case []any:
		for _, item := range v {
			if err := x.weigh(item); err != nil {
				return err
			}
		}
		return x.step(1)
	case map[string]any:
		for _, item := range v {
			if err := x.weigh(item); err != nil {
				return err
			}
		}
		return x.step(1)
	case *Path:
		return x.step(len(v.Nodes))
	}
	return x.step(1)
}

// node returns an entity, nil if it does not exist.
func (x *execution) node(id string) (*Node, error) {
	if n, ok := x.nodes[id]; ok {
		return n, nil
	}
	err := x.loadNodes([]string{id})
	return x.nodes[id], err
}

func (x *execution) loadNodes(ids []string) error {
	nodes, err := x.graph.NodesByID(x.ctx, ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		x.nodes[id] = nil
	}
	for _, n := range nodes {
		if err := x.keep(n); err != nil {
			return err
		}
	}
	return x.step(len(ids))
}

// page returns the next entities of a scan that have all labels.
func (x *execution) page(labels []string, after string) ([]*Node, error) {
	nodes, err := x.graph.Nodes(x.ctx, labels[:min(1, len(labels))], after, pageSize)
	if err != nil {
		return nil, err
	}
	for i, n := range nodes {
		if err := x.keep(n); err != nil {
			return nil, err
		}
		nodes[i] = x.nodes[n.ID]
	}
	return nodes, x.step(len(nodes))
}

// rels returns the relationships of an entity.
func (x *execution) rels(n *Node) ([]*Rel, error) {
	if rels, ok := x.edges[n.ID]; ok {
		return rels, nil
	}
	err := x.loadRels([]*Node{n})
	return x.edges[n.ID], err
}

// loadRels reads the relationships of entities, and the entities at their other ends.
func (x *execution) loadRels(nodes []*Node) error {
	var ids []string
	for _, n := range nodes {
		if _, ok := x.edges[n.ID]; !ok {
			ids = append(ids, n.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rels, ends, err := x.graph.Rels(x.ctx, ids)
	if err != nil {
		return err
	}
	loading := make(map[string]bool, len(ids))
	for _, id := range ids {
		x.edges[id], loading[id] = nil, true
	}
	for _, n := range ends {
		if err := x.keep(n); err != nil {
			return err
		}
	}
	for _, r := range rels {
		if err := x.weigh(r.Properties); err != nil {
			return err
		}
		if loading[r.Source] {
			x.edges[r.Source] = append(x.edges[r.Source], r)
		}
		if loading[r.Target] && r.Target != r.Source {
			x.edges[r.Target] = append(x.edges[r.Target], r)
		}
	}
	return nil
}

// keep remembers an entity that was read.
func (x *execution) keep(n *Node) error {
	if x.nodes[n.ID] != nil {
		return nil
	}
	x.nodes[n.ID] = n
	return x.weigh(n.Properties)
}
