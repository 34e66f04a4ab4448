package graphwalk

import (
	"cmp"
	"slices"

	"github.com/holdfast-dev/holdfast/store/graph"
)

// Neighbors implements graph.Reader. p was checked.
func Neighbors(g Graph, p graph.NeighborParams) (graph.SubGraph, error) {
	x := newWalker(g, &p.Walk, p.MaxEntities, p.MaxRelationships, !p.IDsOnly)
	frontier, err := x.start(p.IDs)
	if err != nil {
		return graph.SubGraph{}, err
	}
	nodes, edges := frontier, []met(nil)
	distance := 0
	for ; distance < p.Depth && len(frontier) > 0 && !x.truncated; distance++ {
		more, next, err := x.level(frontier, distance)
		if err != nil {
			return graph.SubGraph{}, err
		}
		edges, frontier, nodes = append(edges, more...), next, append(nodes, next...)
	}
	if p.Induced && len(frontier) > 0 {
		more, err := x.within(frontier, distance)
		if err != nil {
			return graph.SubGraph{}, err
		}
		edges = append(edges, more...)
	}
	byID(edges)
	if p.IDsOnly {
		return x.ids(nodes, edges), nil
	}
	return x.result(nodes, edges)
}

// within returns the relationships between visited entities that were not met before. frontier are
// those whose relationships were not followed.
func (x *walker) within(frontier []*node, distance int) ([]met, error) {
	direction := graph.Out
	if x.w.Direction == graph.In {
		direction = graph.In
	}
	edges, err := x.edges(frontier, distance, direction)
	return slices.DeleteFunc(edges, func(m met) bool { return !m.visited() }), err
}

// ids returns the ids of a walk.
func (x *walker) ids(nodes []*node, edges []met) graph.SubGraph {
	s := graph.SubGraph{Truncated: x.truncated}
	s.Entities, s.Relationships = slices.Grow(s.Entities, len(nodes)), slices.Grow(s.Relationships, len(edges))
	for _, n := range nodes {
		s.Entities = append(s.Entities, graph.Neighbor{Entity: graph.Entity{ID: n.id}, Distance: n.distance})
	}
	for i := range edges {
		s.Relationships = append(s.Relationships, edges[i].ids())
	}
	return s
}

// result returns the entities and relationships of a walk. Entities that were removed meanwhile are
// omitted with their relationships.
func (x *walker) result(nodes []*node, edges []met) (graph.SubGraph, error) {
	s := graph.SubGraph{Truncated: x.truncated}
	entities, err := read(x.g, idsOf(nodes), x.size)
	if err != nil {
		return graph.SubGraph{}, err
	}
	s.Entities, s.Relationships = slices.Grow(s.Entities, len(nodes)), slices.Grow(s.Relationships, len(edges))
	for _, n := range nodes {
		if e, exists := entities[n.id]; exists {
			s.Entities = append(s.Entities, graph.Neighbor{Entity: e.Entity(), Distance: n.distance})
		}
	}
	for i := range edges {
		if m := &edges[i]; entities[m.source.id] != nil && entities[m.target.id] != nil {
			s.Relationships = append(s.Relationships, m.row.Copy())
		}
	}
	return s, nil
}

// read returns entities by id. size is that of the properties which the result has already.
func read(g Graph, ids []string, size int) (map[string]*graph.EntityRow, error) {
	entities := make(map[string]*graph.EntityRow, len(ids))
	for batch := range slices.Chunk(ids, graph.MaxIDs) {
		err := g.Entities(batch, func(r *graph.EntityRow) {
			if size += len(r.Properties); size <= graph.MaxResult {
				e := *r
				entities[e.ID] = &e
			}
		})
		if err != nil || size > graph.MaxResult {
			return nil, cmp.Or(err, graph.ErrTooLarge)
		}
	}
	return entities, nil
}
