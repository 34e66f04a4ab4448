package inmem

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
	"github.com/holdfast-dev/holdfast/store/graph/graphwalk"
)

// Neighbors implements graph.Reader.
func (s *graphStore) Neighbors(ctx context.Context, k graph.Key, p graph.NeighborParams) (graph.SubGraph, error) {
	k, p, err := graphdriver.CheckNeighbors(k, p)
	if err != nil {
		return graph.SubGraph{}, err
	}
	var result func() graph.SubGraph
	err = s.walk(ctx, k, &p.Walk, func(x *graphWalk) (err error) {
		result, err = graphwalk.Neighbors(x, p)
		return err
	})
	if err != nil {
		return graph.SubGraph{}, err
	}
	return result(), nil // decodes properties without the lock
}

// ShortestPath implements graph.Reader.
func (s *graphStore) ShortestPath(ctx context.Context, k graph.Key, p graph.PathParams) (path graph.Path, err error) {
	k, p, err = graphdriver.CheckPath(k, p)
	if err != nil {
		return path, err
	}
	err = s.walk(ctx, k, &p.Walk, func(x *graphWalk) (err error) {
		path, err = graphwalk.ShortestPath(x, p)
		return err
	})
	return path, err
}

// graphWalk implements graphwalk.Graph under the lock of the database.
type graphWalk struct {
	g       *graphData // may be nil
	w       *graph.Walk
	now     time.Time
	nodes   []*entityNode // by number
	ids     []string      // of nodes
	numbers map[*entityNode]graphwalk.Node
}

// walk runs f with a graph under the lock of the database.
func (s *graphStore) walk(ctx context.Context, k graph.Key, w *graph.Walk, f func(x *graphWalk) error) error {
	var result error
	now := s.now()
	err := s.readGraph(ctx, k, func(g *graphData) {
		result = f(&graphWalk{g: g, w: w, now: now, numbers: make(map[*entityNode]graphwalk.Node)})
	})
	if err != nil {
		return err
	}
	return result
}

// number returns the number of an entity.
func (x *graphWalk) number(n *entityNode) graphwalk.Node {
	number, known := x.numbers[n]
	if !known {
		number = graphwalk.Node(len(x.nodes))
		x.numbers[n], x.nodes, x.ids = number, graphwalk.Append(x.nodes, n), graphwalk.Append(x.ids, n.ID)
	}
	return number
}

// IDs implements graphwalk.Graph.
func (x *graphWalk) IDs() []string { return x.ids }

// Start implements graphwalk.Graph.
func (x *graphWalk) Start(ids []string, each func(n graphwalk.Node)) error {
	for _, id := range ids {
		if n := x.g.entity(id); n != nil {
			each(x.number(n))
		}
	}
	return nil
}

// Entities implements graphwalk.Graph.
func (x *graphWalk) Entities(nodes []graphwalk.Node, each func(n graphwalk.Node, r *graphdriver.EntityRow)) error {
	for _, n := range nodes {
		each(n, &x.nodes[n].EntityRow)
	}
	return nil
}

// Edges implements graphwalk.Graph.
func (x *graphWalk) Edges(q graphwalk.EdgeQuery, each func(e *graphwalk.Edge)) error {
	rows := 0
	limited := func(e *graphwalk.Edge) bool {
		each(e)
		rows++
		return rows < q.Limit
	}
	if !q.Sorted {
		x.visit(&q, limited)
		return nil
	}
	var all []graphwalk.Edge
	x.visit(&q, func(e *graphwalk.Edge) bool {
		if e.ID > q.After {
			all = append(all, *e)
		}
		return true
	})
	slices.SortFunc(all, func(a, b graphwalk.Edge) int { return strings.Compare(a.ID, b.ID) })
	for i := range all {
		if !limited(&all[i]) {
			break
		}
	}
	return nil
}

// visit calls f with the selected relationships of entities until it returns false.
func (x *graphWalk) visit(q *graphwalk.EdgeQuery, f func(e *graphwalk.Edge) bool) {
	if q.Direction != graph.In && !x.side(q.Nodes, false, f) {
		return
	}
	if q.Direction != graph.Out {
		x.side(q.Nodes, true, f)
	}
}

// side is visit for one direction. It reports whether f never returned false.
func (x *graphWalk) side(nodes []graphwalk.Node, incoming bool, f func(e *graphwalk.Edge) bool) bool {
	row := graphwalk.Edge{Incoming: incoming}
	for _, row.Near = range nodes {
		edges := x.nodes[row.Near].out
		if incoming {
			edges = x.nodes[row.Near].in
		}
		for _, e := range edges {
			if len(x.w.Types) > 0 && !slices.Contains(x.w.Types, e.typ) {
				continue
			}
			if row.Row = e.selected(x.w.Moment, x.now); row.Row == nil {
				continue
			}
			other := e.target
			if incoming {
				other = e.source
			}
			row.ID, row.Type, row.Other = e.id, e.typ, x.number(other)
			if !f(&row) {
				return false
			}
		}
	}
	return true
}

// Relationships implements graphwalk.Graph.
func (x *graphWalk) Relationships(ids []string, each func(r *graphdriver.RelationshipRow)) error {
	for _, id := range ids {
		if e := x.g.edge(id); e != nil {
			if r := e.selected(x.w.Moment, x.now); r != nil {
				each(r)
			}
		}
	}
	return nil
}

// selected returns the version that a moment selects, or nil.
func (e *edge) selected(m graph.Moment, now time.Time) *graphdriver.RelationshipRow {
	if m.KnownAt.IsZero() && e.unbounded {
		return e.head()
	}
	for i := len(e.versions) - 1; i >= 0; i-- {
		if r := &e.versions[i]; graphdriver.Selects(m, &r.Relationship, now) {
			return r
		}
	}
	return nil
}
