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
		edges, found, truncated, err := search(g, &p)
		if err != nil || !found {
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
func search(g Graph, p *graph.PathParams) (edges []*graph.RelationshipRow, found, truncated bool, err error) {
	x := newWalker(g, &p.Walk, graph.MaxEntities, graph.MaxRelationships, false)
	x.end, x.ordered = p.To, true
	frontier, err := x.start([]string{p.From})
	if err != nil || len(frontier) == 0 || p.From == p.To {
		return nil, len(frontier) > 0, false, err
	}
	by := make(map[string]*graph.RelationshipRow) // the relationship that led to an entity first
	for distance := 0; distance < p.MaxDepth && len(frontier) > 0 && !x.truncated; distance++ {
		met, next, err := x.level(frontier, distance)
		if err != nil {
			return nil, false, false, err
		}
		for i := range met {
			met[i].Properties = ""
			for _, id := range []string{met[i].Source, met[i].Target} {
				if _, known := by[id]; !known && x.distance[id] == distance+1 && x.distance[opposite(met[i], id)] == distance {
					by[id] = met[i]
				}
			}
		}
		if _, found := by[p.To]; found {
			return track(by, p), true, false, nil
		}
		frontier = next
	}
	return nil, false, x.truncated, nil
}

// opposite returns the other end of a relationship.
func opposite(r *graph.RelationshipRow, id string) string {
	if r.Source == id {
		return r.Target
	}
	return r.Source
}

// track returns the relationships from the start to the end.
func track(by map[string]*graph.RelationshipRow, p *graph.PathParams) (edges []*graph.RelationshipRow) {
	for id := p.To; id != p.From; {
		r := by[id]
		edges = append(edges, r)
		id = opposite(r, id)
	}
	slices.Reverse(edges)
	return edges
}

// describe reads what the path consists of. complete is false if a part was removed meanwhile.
func describe(g Graph, p *graph.PathParams, edges []*graph.RelationshipRow) (path graph.Path, complete bool, err error) {
	ids, names := []string{p.From}, make([]string, len(edges))
	for i := range edges {
		names[i] = edges[i].ID
		ids = append(ids, opposite(edges[i], ids[i]))
		if p.IDsOnly {
			path.Relationships = append(path.Relationships, idsOf(edges[i]))
		}
	}
	if p.IDsOnly {
		for _, id := range ids {
			path.Entities = append(path.Entities, graph.Entity{ID: id})
		}
		return path, true, nil
	}
	entities, _, err := read(g, ids)
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
