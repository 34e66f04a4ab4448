package graphwalk

import (
	"cmp"
	"slices"

	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
)

// sortedBatch is the number of relationships that are read at once if there are more than a walk may
// meet.
const sortedBatch = 1000

// Distances of entities that a walk has not visited.
const (
	unvisited = -1 - iota
	excluded  // by labels or properties
	found     // during the level
)

// met is a relationship that a walk has met.
type met struct {
	id, of         string // of is its type
	source, target Node
	row            *graphdriver.RelationshipRow // nil if the walk returns ids only
}

// walker is one walk.
type walker struct {
	g                             Graph
	w                             *graph.Walk
	maxEntities, maxRelationships int
	rows                          bool    // relationships are kept with their properties
	ordered                       bool    // each level needs its relationships by id
	distances                     []int32 // by node: from the start, or one of the constants
	end                           string  // passed whatever its label and properties
	edges                         []met   // that lead to visited entities, and the relationships of the level
	entities, relationships       int     // that were visited and met
	size                          int     // of the properties of relationships
	truncated                     bool
	free                          []graphdriver.RelationshipRow // room for rows
}

// Capacities of walker.free.
const (
	firstRows = 16
	maxRows   = 512
)

// keep returns a copy of a row. Copies are allocated together, since there may be many, and do not move.
func (x *walker) keep(r *graphdriver.RelationshipRow) *graphdriver.RelationshipRow {
	if len(x.free) == cap(x.free) {
		x.free = make([]graphdriver.RelationshipRow, 0, min(max(firstRows, 2*cap(x.free)), maxRows))
	}
	x.free = append(x.free, *r)
	return &x.free[len(x.free)-1]
}

// newWalker returns a walk that returns relationships with their properties, or only ids.
func newWalker(g Graph, w *graph.Walk, maxEntities, maxRelationships int, rows bool) *walker {
	return &walker{g: g, w: w, maxEntities: maxEntities, maxRelationships: maxRelationships, rows: rows}
}

// distance returns a pointer to the distance of an entity. The pointer is valid until the
// distance of another entity is read.
func (x *walker) distance(n Node) *int32 {
	if int(n) >= len(x.distances) {
		x.grow(int(n) + 1)
	}
	return &x.distances[n]
}

func (x *walker) grow(nodes int) {
	for len(x.distances) < nodes {
		x.distances = Append(x.distances, unvisited)
	}
}

func (x *walker) visited(n Node) bool { return *x.distance(n) >= 0 }

// setIDs sets the fields that a walk returns if it asks for ids only.
func (m *met) setIDs(r *graph.Relationship, ids []string) {
	r.ID, r.Source, r.Target, r.Type = m.id, ids[m.source], ids[m.target], m.of
}

// visit sets the distance of entities, up to the limit of the walk, and returns them.
func (x *walker) visit(nodes []Node, distance int) []Node {
	if most := x.maxEntities - x.entities; len(nodes) > most {
		for _, n := range nodes[most:] {
			*x.distance(n) = unvisited
		}
		nodes, x.truncated = nodes[:most], true
	}
	for _, n := range nodes {
		*x.distance(n) = int32(distance)
	}
	x.entities += len(nodes)
	return nodes
}

// start visits the entities that exist and returns them by id.
func (x *walker) start(ids []string) (frontier []Node, err error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	err = x.g.Start(slices.Compact(ids), func(n Node) { frontier = append(frontier, n) })
	x.sort(frontier)
	return x.visit(frontier, 0), err
}

// sort sorts entities by id.
func (x *walker) sort(nodes []Node) {
	ids := x.g.IDs()
	sortBy(nodes, func(n *Node) string { return ids[*n] })
}

func idOf(m *met) string { return m.id }

// level follows the relationships of entities at a distance. It adds those that lead to visited entities,
// by id if the walk is ordered, and returns the entities that it has visited first.
func (x *walker) level(frontier []Node, distance int) (next []Node, err error) {
	from := len(x.edges)
	if err := x.follow(frontier, distance, x.w.Direction); err != nil {
		return nil, err
	}
	for i := from; i < len(x.edges); i++ {
		for _, n := range [2]Node{x.edges[i].source, x.edges[i].target} {
			if d := x.distance(n); *d == unvisited {
				*d = found
				next = Append(next, n)
			}
		}
	}
	x.sort(next)
	if next, err = x.passed(next); err != nil {
		return nil, err
	}
	next = x.visit(next, distance+1)
	x.dropUnreached(from)
	return next, nil
}

// dropUnreached removes relationships of a level that lead to entities which were not visited.
func (x *walker) dropUnreached(from int) {
	reached := slices.DeleteFunc(x.edges[from:], func(m met) bool { return !x.visited(m.source) || !x.visited(m.target) })
	x.edges = x.edges[:from+len(reached)]
}

// passed returns the entities that the walk may pass.
func (x *walker) passed(nodes []Node) (passed []Node, err error) {
	if len(x.w.Labels) == 0 && x.w.Entities.IsZero() {
		return nodes, nil
	}
	for _, n := range nodes {
		*x.distance(n) = excluded
	}
	err = x.g.Entities(nodes, func(n Node, r *graphdriver.EntityRow) {
		selected := len(x.w.Labels) == 0 || slices.Contains(x.w.Labels, r.Label)
		if r.ID == x.end || selected && (x.w.Entities.IsZero() || x.w.Entities.Match(r.Entity().Properties)) {
			*x.distance(n) = found
		}
	})
	return slices.DeleteFunc(nodes, func(n Node) bool { return *x.distance(n) == excluded }), err
}

// follow adds the relationships of entities at a distance that were not met before, up to the limit of the
// walk: those with the smallest ids.
func (x *walker) follow(frontier []Node, distance int, direction graph.Direction) error {
	from, size := len(x.edges), x.size
	q := EdgeQuery{Nodes: frontier, Direction: direction, Rows: x.rows || !x.w.Relationships.IsZero()}
	complete, err := x.all(q, distance)
	if err == nil && !complete {
		x.edges, x.size = x.edges[:from], size
		err = x.smallest(q, distance)
	}
	most := x.maxRelationships - x.relationships
	if x.ordered || len(x.edges)-from > most {
		sortBy(x.edges[from:], idOf)
	}
	if len(x.edges)-from > most {
		x.edges, x.truncated = x.edges[:from+most], true
	}
	x.relationships += len(x.edges) - from
	if x.size = size; x.rows {
		for i := from; i < len(x.edges); i++ {
			x.size += len(x.edges[i].row.Properties)
		}
	}
	return err
}

// all reads relationships at once. complete is false if there are more than the walk may meet, or if they
// are too large.
func (x *walker) all(q EdgeQuery, distance int) (complete bool, err error) {
	q.Limit = x.maxRelationships + 1
	if q.Direction == graph.Both {
		q.Limit *= 2 // each may be met from both ends
	}
	rows := 0
	err = x.g.Edges(q, func(e *Edge) {
		rows++
		x.meet(e, distance)
	})
	return rows < q.Limit && x.size <= graph.MaxResult, err
}

// smallest reads the relationships with the smallest ids, in each direction one more than the walk may meet.
func (x *walker) smallest(q EdgeQuery, distance int) error {
	directions := []graph.Direction{q.Direction}
	if q.Direction == graph.Both {
		directions = []graph.Direction{graph.Out, graph.In}
	}
	q.Sorted, q.Limit = true, sortedBatch
	before := x.size
	for _, q.Direction = range directions {
		from := len(x.edges)
		q.After, x.size = "", before
		for rows := sortedBatch; rows == sortedBatch && len(x.edges)-from <= x.maxRelationships-x.relationships; {
			rows = 0
			err := x.g.Edges(q, func(e *Edge) {
				rows++
				q.After = e.ID
				x.meet(e, distance)
			})
			if err != nil || x.size > graph.MaxResult {
				return cmp.Or(err, graph.ErrTooLarge)
			}
		}
	}
	return nil
}

// meet adds a relationship if it matches and was not met from its other end.
func (x *walker) meet(e *Edge, distance int) {
	if x.size > graph.MaxResult || !x.first(e, distance) {
		return
	}
	m := met{e.ID, e.Type, e.Near, e.Other, nil}
	if e.Incoming {
		m.source, m.target = e.Other, e.Near
	}
	if x.rows {
		m.row = x.keep(e.Row)
		x.size += len(m.row.Properties)
	}
	x.edges = Append(x.edges, m)
}

// first reports whether a relationship matches and was not met from its other end.
func (x *walker) first(e *Edge, distance int) bool {
	if x.w.Direction == graph.Both {
		other, met := int(*x.distance(e.Other)), distance-1
		if e.Incoming {
			met = distance // the other direction has those within the level
		}
		if other >= 0 && other <= met {
			return false
		}
	}
	return x.w.Relationships.IsZero() || x.w.Relationships.Match(e.Row.Copy().Properties)
}
