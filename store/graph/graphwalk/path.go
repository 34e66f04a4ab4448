package graphwalk

import (
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
)

// maxSearches limits the searches of a path that writes remove meanwhile.
const maxSearches = 5

// ShortestPath implements graph.Reader. p was checked.
func ShortestPath(g Graph, p graph.PathParams) (graph.Path, error) {
	for range maxSearches {
		s := &pathSearch{newWalker(g, &p.Walk, graph.MaxEntities, graph.MaxRelationships, false), &p, make(map[Node]met)}
		nodes, edges, err := s.run()
		if err != nil || len(nodes) == 0 {
			return graph.Path{Truncated: s.truncated && err == nil}, err
		}
		path, complete, err := s.describe(nodes, edges)
		if err != nil || complete {
			return path, err
		}
	}
	return graph.Path{}, a2a.Errorf(a2a.CodeUnavailable, "graph: path: the graph changes too fast")
}

// pathSearch is one search of a path.
type pathSearch struct {
	*walker
	p  *graph.PathParams
	by map[Node]met // the relationship that led to an entity first
}

// run returns the entities and relationships of a shortest path, nothing if there is none.
func (s *pathSearch) run() (nodes []Node, edges []met, err error) {
	s.end, s.ordered = s.p.To, true
	frontier, err := s.start([]string{s.p.From})
	if err != nil || len(frontier) == 0 || s.p.From == s.p.To {
		return frontier, nil, err
	}
	start := frontier[0]
	for distance := 0; distance < s.p.MaxDepth && len(frontier) > 0 && !s.truncated; distance++ {
		from := len(s.edges)
		if frontier, err = s.level(frontier, distance); err != nil {
			return nil, nil, err
		}
		for _, m := range s.edges[from:] {
			s.lead(m, m.source, m.target, distance)
			s.lead(m, m.target, m.source, distance)
		}
		for _, n := range frontier {
			if s.g.IDs()[n] == s.p.To {
				nodes, edges = s.track(start, n)
				return nodes, edges, nil
			}
		}
	}
	return nil, nil, nil
}

// lead remembers a relationship if it leads from an entity at a distance to the next distance first.
func (s *pathSearch) lead(m met, from, to Node, distance int) {
	if _, known := s.by[to]; !known && int(*s.distance(to)) == distance+1 && int(*s.distance(from)) == distance {
		s.by[to] = m
	}
}

// track returns the entities and relationships from the start to the end.
func (s *pathSearch) track(start, end Node) (nodes []Node, edges []met) {
	nodes = []Node{end}
	for n := end; n != start; {
		m := s.by[n]
		if n = m.source; n == nodes[len(nodes)-1] {
			n = m.target
		}
		nodes, edges = append(nodes, n), append(edges, m)
	}
	slices.Reverse(nodes)
	slices.Reverse(edges)
	return nodes, edges
}

// describe reads what the path consists of. complete is false if a part was removed meanwhile.
func (s *pathSearch) describe(nodes []Node, edges []met) (path graph.Path, complete bool, err error) {
	if s.p.IDsOnly {
		path.Entities, path.Relationships = make([]graph.Entity, len(nodes)), make([]graph.Relationship, len(edges))
		for i, n := range nodes {
			path.Entities[i].ID = s.g.IDs()[n]
		}
		for i := range edges {
			edges[i].setIDs(&path.Relationships[i], s.g.IDs())
		}
		return path, true, nil
	}
	entities, err := s.read(nodes)
	if err != nil {
		return path, false, err
	}
	names, relationships := make([]string, len(edges)), make(map[string]graph.Relationship)
	for i := range edges {
		names[i] = edges[i].id
	}
	err = s.g.Relationships(names, func(r *graphdriver.RelationshipRow) {
		var was graph.Relationship
		edges[slices.Index(names, r.ID)].setIDs(&was, s.g.IDs())
		if r.Source == was.Source && r.Target == was.Target && r.Type == was.Type { // else it was removed and added again
			relationships[r.ID] = r.Copy()
		}
	})
	if err != nil || len(entities) < len(nodes) || len(relationships) < len(names) {
		return path, false, err
	}
	for _, n := range nodes {
		path.Entities = append(path.Entities, entities[n].Entity())
	}
	for _, id := range names {
		path.Relationships = append(path.Relationships, relationships[id])
	}
	return path, true, nil
}
