package graphwalk

import (
	"cmp"
	"slices"

	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
)

// Neighbors implements graph.Reader. p was checked. It returns a function that makes the result without
// the graph.
func Neighbors(g Graph, p graph.NeighborParams) (result func() graph.SubGraph, err error) {
	x := newWalker(g, &p.Walk, p.MaxEntities, p.MaxRelationships, !p.IDsOnly)
	frontier, err := x.start(p.IDs)
	if err != nil {
		return nil, err
	}
	nodes, distance := frontier, 0
	for ; distance < p.Depth && len(frontier) > 0 && !x.truncated; distance++ {
		if frontier, err = x.level(frontier, distance); err != nil {
			return nil, err
		}
		nodes = append(nodes, frontier...)
	}
	if p.Induced && len(frontier) > 0 {
		if err := x.within(frontier, distance); err != nil {
			return nil, err
		}
	}
	if p.IDsOnly {
		s := x.onlyIDs(nodes)
		return func() graph.SubGraph { return s }, nil
	}
	entities, err := x.read(nodes)
	return func() graph.SubGraph { return x.subGraph(nodes, entities) }, err
}

// within adds the relationships between visited entities that were not met before. frontier has the
// entities with relationships that were not followed.
func (x *walker) within(frontier []Node, distance int) error {
	direction := graph.Out
	if x.w.Direction == graph.In {
		direction = graph.In
	}
	from := len(x.edges)
	err := x.follow(frontier, distance, direction)
	x.dropUnreached(from)
	return err
}

// onlyIDs returns the result of a walk that returns ids only.
func (x *walker) onlyIDs(nodes []Node) graph.SubGraph {
	s := graph.SubGraph{Truncated: x.truncated}
	s.Entities, s.Relationships = slices.Grow(s.Entities, len(nodes))[:len(nodes)], slices.Grow(s.Relationships, len(x.edges))[:len(x.edges)]
	ids := x.g.IDs()
	for i, n := range nodes {
		s.Entities[i].ID, s.Entities[i].Distance = ids[n], int(*x.distance(n))
	}
	for i, k := range order(x.edges, idOf) {
		x.edges[k.at].setIDs(&s.Relationships[i], ids) // in place, since most fields remain empty
	}
	return s
}

// subGraph returns the result of a walk. Entities that were removed meanwhile are omitted with their
// relationships.
func (x *walker) subGraph(nodes []Node, entities map[Node]*graphdriver.EntityRow) graph.SubGraph {
	s := graph.SubGraph{Truncated: x.truncated}
	s.Entities, s.Relationships = slices.Grow(s.Entities, len(nodes)), slices.Grow(s.Relationships, len(x.edges))
	for _, n := range nodes {
		if e, exists := entities[n]; exists {
			s.Entities = append(s.Entities, graph.Neighbor{Entity: e.Entity(), Distance: int(*x.distance(n))})
		}
	}
	for _, k := range order(x.edges, idOf) {
		if m := &x.edges[k.at]; entities[m.source] != nil && entities[m.target] != nil {
			s.Relationships = append(s.Relationships, m.row.Copy())
		}
	}
	return s
}

// read returns the rows of entities.
func (x *walker) read(nodes []Node) (map[Node]*graphdriver.EntityRow, error) {
	entities, size := make(map[Node]*graphdriver.EntityRow, len(nodes)), x.size
	for batch := range slices.Chunk(nodes, graph.MaxIDs) {
		err := x.g.Entities(batch, func(n Node, r *graphdriver.EntityRow) {
			if size += len(r.Properties); size <= graph.MaxResult {
				e := *r
				entities[n] = &e
			}
		})
		if err != nil || size > graph.MaxResult {
			return nil, cmp.Or(err, graph.ErrTooLarge)
		}
	}
	return entities, nil
}
