package graphwalk

import (
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/graph"
)

// maxSearches limits the searches of a path that writes remove meanwhile.
const maxSearches = 5

// ShortestPath implements graph.Reader. p was checked.
func ShortestPath(g Graph, p graph.PathParams) (graph.Path, error) {
	for range maxSearches {
		edges, exists, truncated, err := search(g, &p)
		if err != nil || !exists {
			return graph.Path{Truncated: truncated}, err
		}
		path, complete, err := describe(g, &p, edges)
		if err != nil || complete {
			return path, err
		}
	}
	return graph.Path{}, a2a.Errorf(a2a.CodeUnavailable, "graph: path: the graph changes too fast")
}

// search returns the relationships of a shortest path.
func search(g Graph, p *graph.PathParams) (edges []met, exists, truncated bool, err error) {
	x := newWalker(g, &p.Walk, graph.MaxEntities, graph.MaxRelationships, false)
	x.end, x.ordered = p.To, true
	frontier, err := x.start([]string{p.From})
	if err != nil || len(frontier) == 0 || p.From == p.To {
		return nil, len(frontier) > 0, false, err
	}
	by := make(map[*node]met) // the relationship that led to an entity first
	for distance := 0; distance < p.MaxDepth && len(frontier) > 0 && !x.truncated; distance++ {
		more, next, err := x.level(frontier, distance)
		if err != nil {
			return nil, false, false, err
		}
		for _, m := range more {
			for _, n := range [2]*node{m.source, m.target} {
				if _, known := by[n]; !known && n.distance == distance+1 && m.opposite(n).distance == distance {
					by[n] = m
				}
			}
		}
		if end := x.nodes[p.To]; end != nil && end.visited() {
			return track(by, x.nodes[p.From], end), true, false, nil
		}
		frontier = next
	}
	return nil, false, x.truncated, nil
}

// opposite returns the other end of a relationship.
func (m *met) opposite(n *node) *node {
	if m.source == n {
		return m.target
	}
	return m.source
}

// track returns the relationships from the start to the end.
func track(by map[*node]met, start, end *node) (edges []met) {
	for n := end; n != start; {
		m := by[n]
		edges = append(edges, m)
		n = m.opposite(n)
	}
	slices.Reverse(edges)
	return edges
}

// describe reads what the path consists of. complete is false if a part was removed meanwhile.
func describe(g Graph, p *graph.PathParams, edges []met) (path graph.Path, complete bool, err error) {
	ids, names := []string{p.From}, make([]string, len(edges))
	for i := range edges {
		names[i] = edges[i].id
		if edges[i].source.id == ids[i] {
			ids = append(ids, edges[i].target.id)
		} else {
			ids = append(ids, edges[i].source.id)
		}
		if p.IDsOnly {
			path.Relationships = append(path.Relationships, edges[i].ids())
		}
	}
	if p.IDsOnly {
		for _, id := range ids {
			path.Entities = append(path.Entities, graph.Entity{ID: id})
		}
		return path, true, nil
	}
	entities, err := read(g, ids, 0)
	if err != nil {
		return path, false, err
	}
	relationships := make(map[string]graph.Relationship)
	err = g.Edges(EdgeQuery{Side: ByID, IDs: names, Limit: len(names), Properties: true}, func(r *graph.RelationshipRow) { relationships[r.ID] = r.Copy() })
	if err != nil || len(entities) < len(ids) || len(relationships) < len(names) {
		return path, false, err
	}
	for _, id := range ids {
		path.Entities = append(path.Entities, entities[id].Entity())
	}
	for _, id := range names {
		path.Relationships = append(path.Relationships, relationships[id])
	}
	return path, true, nil
}
