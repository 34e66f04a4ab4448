package graphsql

import (
	"context"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
	"github.com/holdfast-dev/holdfast/store/graph/graphwalk"
)

// Neighbors implements graph.Reader.
func (g *Graphs) Neighbors(ctx context.Context, k graph.Key, p graph.NeighborParams) (graph.SubGraph, error) {
	k, p, err := graphdriver.CheckNeighbors(k, p)
	if err != nil {
		return graph.SubGraph{}, err
	}
	var result func() graph.SubGraph
	err = g.walk(ctx, k, &p.Walk, func(x *graphWalk) (err error) {
		result, err = graphwalk.Neighbors(x, p)
		return err
	})
	if err != nil {
		return graph.SubGraph{}, err
	}
	return result(), nil
}

// ShortestPath implements graph.Reader.
func (g *Graphs) ShortestPath(ctx context.Context, k graph.Key, p graph.PathParams) (path graph.Path, err error) {
	k, p, err = graphdriver.CheckPath(k, p)
	if err != nil {
		return path, err
	}
	err = g.walk(ctx, k, &p.Walk, func(x *graphWalk) (err error) {
		path, err = graphwalk.ShortestPath(x, p)
		return err
	})
	return path, err
}

// graphWalk implements graphwalk.Graph. It decodes only texts that the walk has not read before, because most
// relationships lead to entities that were read with others.
type graphWalk struct {
	q       sqlkit.Querier
	key     graph.Key
	types   []string
	moment  []any
	ids     []string // by number
	numbers map[string]graphwalk.Node
	names   map[string]string // of types
	room    strings.Builder   // for ids of relationships
}

// walk runs f with a graph.
func (g *Graphs) walk(ctx context.Context, k graph.Key, w *graph.Walk, f func(x *graphWalk) error) error {
	moment := momentArgs(w.Moment, g.now())
	return g.db.Read(ctx, func(q sqlkit.Querier) error {
		return f(&graphWalk{q: q, key: k, types: w.Types, moment: moment, numbers: make(map[string]graphwalk.Node), names: make(map[string]string)})
	})
}

// number returns the number of an entity.
func (x *graphWalk) number(id []byte) graphwalk.Node {
	number, known := x.numbers[string(id)]
	if !known {
		number = graphwalk.Node(len(x.ids))
		x.ids = graphwalk.Append(x.ids, string(id))
		x.numbers[x.ids[number]] = number
	}
	return number
}

// name returns the name of a type.
func (x *graphWalk) name(typ []byte) string {
	name, known := x.names[string(typ)]
	if !known {
		name = string(typ)
		x.names[name] = name
	}
	return name
}

// roomSize is the size of the room in which ids are allocated together. As long as one of them is in use, so is
// the room.
const roomSize = 2048

// text returns a copy of a text.
func (x *graphWalk) text(b []byte) string {
	if x.room.Cap()-x.room.Len() < len(b) {
		x.room = strings.Builder{}
		x.room.Grow(max(roomSize, len(b)))
	}
	from := x.room.Len()
	x.room.Write(b)
	return x.room.String()[from:]
}

// IDs implements graphwalk.Graph.
func (x *graphWalk) IDs() []string { return x.ids }

// Start implements graphwalk.Graph.
func (x *graphWalk) Start(ids []string, each func(n graphwalk.Node)) error {
	return entitiesOf(x.q, x.key, ids, func(r *graphdriver.EntityRow) { each(x.number([]byte(r.ID))) })
}

func (x *graphWalk) idsOf(nodes []graphwalk.Node) []string {
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = x.ids[n]
	}
	return ids
}

// Entities implements graphwalk.Graph.
func (x *graphWalk) Entities(nodes []graphwalk.Node, each func(n graphwalk.Node, r *graphdriver.EntityRow)) error {
	return entitiesOf(x.q, x.key, x.idsOf(nodes), func(r *graphdriver.EntityRow) { each(x.numbers[r.ID], r) })
}

// Edges implements graphwalk.Graph.
func (x *graphWalk) Edges(q graphwalk.EdgeQuery, each func(e *graphwalk.Edge)) error {
	args := append([]any{x.key.Owner, x.key.Graph, x.idsOf(q.Nodes)}, x.moment...)
	args = append(args, q.Limit)
	if q.Sorted {
		args = append(args, q.After)
	}
	if len(x.types) > 0 {
		args = append(args, x.types)
	}
	var e graphwalk.Edge
	var row graphdriver.RelationshipRow
	near := "" // the id of e.Near
	return x.q.Query(edgeText(q, len(x.types) > 0), func(r sqlkit.Row) error {
		if id := r.View(1); string(id) != near { // the rows of an entity follow each other
			e.Near = x.number(id)
			near = x.ids[e.Near]
		}
		e.ID, e.Other, e.Type, e.Incoming = x.text(r.View(0)), x.number(r.View(2)), x.name(r.View(3)), r.Int(4) == 1
		if q.Rows {
			row = scanFields(r, 5, graphdriver.RelationshipRow{Relationship: graph.Relationship{ID: e.ID, Source: near, Target: x.ids[e.Other], Type: e.Type}})
			if e.Incoming {
				row.Source, row.Target = row.Target, row.Source
			}
			e.Row = &row
		}
		each(&e)
		return nil
	}, args...)
}

// Relationships implements graphwalk.Graph.
func (x *graphWalk) Relationships(ids []string, each func(r *graphdriver.RelationshipRow)) error {
	if len(ids) == 0 {
		return nil
	}
	return x.q.Query(sqlEdgesAt, func(r sqlkit.Row) error {
		row := scanVersion(r)
		each(&row)
		return nil
	}, append([]any{x.key.Owner, x.key.Graph, ids}, x.moment...)...)
}
