// Package graphwalk searches graphs by levels: it reads the relationships of all entities at a distance at
// once, and keeps the entities that it has visited itself. So a backend only reads rows.
package graphwalk

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/store/graph"
)

// Side is the end of relationships that an EdgeQuery names.
type Side int

// The sides.
const (
	Source Side = iota
	Target
	ByID // the relationships themselves
)

// EdgeQuery selects relationships.
type EdgeQuery struct {
	Side Side
	// IDs are those of entities at the side, or of relationships. Each occurs once.
	IDs []string
	// Sorted asks for rows in the order of their ids, after an id.
	Sorted bool
	After  string
	// Limit is the maximum number of rows.
	Limit int
	// Properties asks for the properties, the interval and the version of relationships.
	Properties bool
}

// Graph is what a backend reads. It applies types and moment of the walk.
type Graph interface {
	// Edges calls each for relationships with one of the ids. r is valid only during the call.
	Edges(q EdgeQuery, each func(r *graph.RelationshipRow)) error
	// Entities calls each for the entities with one of the ids. Each id occurs once.
	Entities(ids []string, each func(r *graph.EntityRow)) error
}

// sortedBatch is the number of relationships that are read at once if there are more than a walk may
// meet.
const sortedBatch = 1000

// walker is one walk.
type walker struct {
	g                             Graph
	w                             *graph.Walk
	maxEntities, maxRelationships int
	properties                    bool           // of relationships
	ordered                       bool           // each level needs its relationships by id
	distance                      map[string]int // of visited entities
	excluded                      map[string]bool
	end                           string // passed whatever its label and properties
	relationships                 int    // that were met
	truncated                     bool
	rows                          []graph.RelationshipRow // has room for kept ones
}

// Capacities of walker.rows.
const (
	firstRows = 16
	maxRows   = 512
)

// keep returns a copy of a relationship. Copies are allocated together: there may be many.
func (x *walker) keep(r *graph.RelationshipRow) *graph.RelationshipRow {
	if len(x.rows) == cap(x.rows) {
		x.rows = make([]graph.RelationshipRow, 0, min(max(firstRows, 2*cap(x.rows)), maxRows))
	}
	x.rows = append(x.rows, *r)
	return &x.rows[len(x.rows)-1]
}

// byID sorts relationships.
func byID(edges []*graph.RelationshipRow) {
	slices.SortFunc(edges, func(a, b *graph.RelationshipRow) int { return strings.Compare(a.ID, b.ID) })
}

func newWalker(g Graph, w *graph.Walk, maxEntities, maxRelationships int, properties bool) *walker {
	return &walker{
		g: g, w: w, maxEntities: maxEntities, maxRelationships: maxRelationships,
		properties: properties || !w.Relationships.IsZero(), distance: make(map[string]int), excluded: make(map[string]bool),
	}
}

// start visits the entities that exist and returns them by id.
func (x *walker) start(ids []string) (frontier []string, err error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	err = x.g.Entities(slices.Compact(ids), func(r *graph.EntityRow) { frontier = append(frontier, r.ID) })
	slices.Sort(frontier)
	if len(frontier) > x.maxEntities {
		frontier, x.truncated = frontier[:x.maxEntities], true
	}
	for _, id := range frontier {
		x.distance[id] = 0
	}
	return frontier, err
}

// level follows the relationships of entities at a distance. It returns those that lead to visited
// entities, by id if the walk is ordered, and the entities that it has visited first.
func (x *walker) level(frontier []string, distance int) (edges []*graph.RelationshipRow, next []string, err error) {
	edges, err = x.edges(frontier, distance, x.w.Direction)
	if err != nil {
		return nil, nil, err
	}
	found := make(map[string]bool)
	for i := range edges {
		for _, id := range []string{edges[i].Source, edges[i].Target} {
			if _, visited := x.distance[id]; !visited && !x.excluded[id] && !found[id] {
				found[id] = true
				next = append(next, id)
			}
		}
	}
	slices.Sort(next)
	if next, err = x.passed(next); err != nil {
		return nil, nil, err
	}
	if most := x.maxEntities - len(x.distance); len(next) > most {
		next, x.truncated = next[:most], true
	}
	for _, id := range next {
		x.distance[id] = distance + 1
	}
	return slices.DeleteFunc(edges, func(r *graph.RelationshipRow) bool { return !x.visited(r) }), next, nil
}

// visited reports whether both ends of a relationship were visited.
func (x *walker) visited(r *graph.RelationshipRow) bool {
	_, source := x.distance[r.Source]
	_, target := x.distance[r.Target]
	return source && target
}

// passed returns the entities that the walk may pass.
func (x *walker) passed(ids []string) (passed []string, err error) {
	if len(x.w.Labels) == 0 && x.w.Entities.IsZero() {
		return ids, nil
	}
	matches := make(map[string]bool)
	err = x.g.Entities(ids, func(r *graph.EntityRow) {
		selected := len(x.w.Labels) == 0 || slices.Contains(x.w.Labels, r.Label)
		matches[r.ID] = r.ID == x.end || selected && (x.w.Entities.IsZero() || x.w.Entities.Match(r.Entity().Properties))
	})
	for _, id := range ids {
		if matches[id] {
			passed = append(passed, id)
		} else {
			x.excluded[id] = true
		}
	}
	return passed, err
}

// edges returns the relationships of entities at a distance that were not met before, up to the limit of
// the walk: those with the smallest ids.
func (x *walker) edges(frontier []string, distance int, direction graph.Direction) (edges []*graph.RelationshipRow, err error) {
	sides := []Side{Source, Target}
	switch direction {
	case graph.Both:
	case graph.Out:
		sides = sides[:1]
	case graph.In:
		sides = sides[1:]
	}
	complete := true
	for _, side := range sides {
		if complete {
			edges, complete, err = x.all(edges, side, frontier, distance)
		}
	}
	if err == nil && !complete {
		edges = nil
		for _, side := range sides {
			if edges, err = x.sorted(edges, side, frontier, distance); err != nil {
				break
			}
		}
	}
	most := x.maxRelationships - x.relationships
	if x.ordered || len(edges) > most {
		byID(edges)
	}
	if len(edges) > most {
		edges, x.truncated = edges[:most], true
	}
	x.relationships += len(edges)
	return edges, err
}

// all reads the relationships of a side at once. complete is false if there are more than the walk may
// meet, or if they are too large.
func (x *walker) all(edges []*graph.RelationshipRow, side Side, frontier []string, distance int) (_ []*graph.RelationshipRow, complete bool, err error) {
	// Up to this number were met before, from their other ends.
	limit, rows, size := x.maxRelationships+1, 0, 0
	q := EdgeQuery{Side: side, IDs: frontier, Limit: limit, Properties: x.properties}
	err = x.g.Edges(q, func(r *graph.RelationshipRow) {
		rows++
		if x.first(r, side, distance) && size <= graph.MaxResult {
			size += len(r.Properties)
			edges = append(edges, x.keep(r))
		}
	})
	return edges, rows < limit && size <= graph.MaxResult, err
}

// sorted reads the relationships of a side with the smallest ids, one more than the walk may meet.
func (x *walker) sorted(edges []*graph.RelationshipRow, side Side, frontier []string, distance int) (_ []*graph.RelationshipRow, err error) {
	q := EdgeQuery{Side: side, IDs: frontier, Sorted: true, Limit: sortedBatch, Properties: x.properties}
	size := 0
	for found, rows := 0, sortedBatch; rows == sortedBatch && found <= x.maxRelationships-x.relationships; {
		rows = 0
		err := x.g.Edges(q, func(r *graph.RelationshipRow) {
			rows++
			q.After = r.ID
			if x.first(r, side, distance) {
				found++
				size += len(r.Properties)
				edges = append(edges, x.keep(r))
			}
		})
		if err != nil || size > graph.MaxResult {
			return edges, cmp.Or(err, graph.ErrTooLarge)
		}
	}
	return edges, nil
}

// first reports whether a relationship matches, and was not met from its other end.
func (x *walker) first(r *graph.RelationshipRow, side Side, distance int) bool {
	if x.w.Direction == graph.Both {
		other, limit := r.Target, distance-1
		if side == Target {
			other, limit = r.Source, distance // the other side has those within the level
		}
		if d, visited := x.distance[other]; visited && d <= limit {
			return false
		}
	}
	return x.w.Relationships.IsZero() || x.w.Relationships.Match(r.Copy().Properties)
}
