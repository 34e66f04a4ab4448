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
	ids, edges := frontier, []*graph.RelationshipRow(nil)
	distance := 0
	for ; distance < p.Depth && len(frontier) > 0 && !x.truncated; distance++ {
		met, next, err := x.level(frontier, distance)
		if err != nil {
			return graph.SubGraph{}, err
		}
		edges, frontier, ids = append(edges, met...), next, append(ids, next...)
	}
	if p.Induced && len(frontier) > 0 {
		met, err := x.within(frontier, distance)
		if err != nil {
			return graph.SubGraph{}, err
		}
		edges = append(edges, met...)
	}
	return x.result(ids, edges, p.IDsOnly)
}

// within returns the relationships between visited entities that were not met before. frontier are
// those whose relationships were not followed.
func (x *walker) within(frontier []string, distance int) ([]*graph.RelationshipRow, error) {
	direction := graph.Out
	if x.w.Direction == graph.In {
		direction = graph.In
	}
	edges, err := x.edges(frontier, distance, direction)
	return slices.DeleteFunc(edges, func(r *graph.RelationshipRow) bool { return !x.visited(r) }), err
}

// result returns the entities and relationships of a walk. Entities that were removed meanwhile are
// omitted with their relationships.
func (x *walker) result(ids []string, edges []*graph.RelationshipRow, idsOnly bool) (s graph.SubGraph, err error) {
	s.Truncated = x.truncated
	byID(edges)
	s.Entities, s.Relationships = slices.Grow(s.Entities, len(ids)), slices.Grow(s.Relationships, len(edges))
	if idsOnly {
		for _, id := range ids {
			s.Entities = append(s.Entities, graph.Neighbor{Entity: graph.Entity{ID: id}, Distance: x.distance[id]})
		}
		for i := range edges {
			s.Relationships = append(s.Relationships, idsOf(edges[i]))
		}
		return s, nil
	}
	entities, size, err := read(x.g, ids)
	if err != nil {
		return s, err
	}
	for _, id := range ids {
		if e, exists := entities[id]; exists {
			s.Entities = append(s.Entities, graph.Neighbor{Entity: e.Entity(), Distance: x.distance[id]})
		}
	}
	for i := range edges {
		r := edges[i]
		size += len(r.Properties)
		if entities[r.Source] != nil && entities[r.Target] != nil {
			s.Relationships = append(s.Relationships, r.Copy())
		}
	}
	if size > graph.MaxResult {
		return graph.SubGraph{}, graph.ErrTooLarge
	}
	return s, nil
}

// idsOf returns a relationship as walks return it that ask for ids only.
func idsOf(r *graph.RelationshipRow) graph.Relationship {
	return graph.Relationship{ID: r.ID, Source: r.Source, Target: r.Target, Type: r.Type}
}

// read returns entities by id, and the size of their properties.
func read(g Graph, ids []string) (entities map[string]*graph.EntityRow, size int, err error) {
	entities = make(map[string]*graph.EntityRow, len(ids))
	for batch := range slices.Chunk(ids, graph.MaxIDs) {
		err := g.Entities(batch, func(r *graph.EntityRow) {
			e := *r
			entities[e.ID] = &e
			size += len(e.Properties)
		})
		if err != nil || size > graph.MaxResult {
			return nil, 0, cmp.Or(err, graph.ErrTooLarge)
		}
	}
	return entities, size, nil
}
