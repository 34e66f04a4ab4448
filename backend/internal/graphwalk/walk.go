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

// node is an entity that a walk has met.
type node struct {
	id       string
	distance int // from the start, or one of the following
}

const (
	unvisited = -1 - iota
	excluded  // by labels or properties
	found     // during the level
)

func (n *node) visited() bool { return n.distance >= 0 }

// met is a relationship that a walk has met.
type met struct {
	id, of         string // of is its type
	source, target *node
	row            *graph.RelationshipRow // nil if the walk returns ids only
}

// ids returns a relationship as walks return it that ask for ids only.
func (m *met) ids() graph.Relationship {
	return graph.Relationship{ID: m.id, Source: m.source.id, Target: m.target.id, Type: m.of}
}

// visited reports whether both ends were visited.
func (m *met) visited() bool { return m.source.visited() && m.target.visited() }

// size returns the size of the properties that are kept.
func (m *met) size() int {
	if m.row == nil {
		return 0
	}
	return len(m.row.Properties)
}

// walker is one walk.
type walker struct {
	g                             Graph
	w                             *graph.Walk
	maxEntities, maxRelationships int
	rows                          bool // relationships are kept with their properties
	ordered                       bool // each level needs its relationships by id
	nodes                         map[string]*node
	near                          *node  // of the last relationship, at the side that was asked for
	end                           string // passed whatever its label and properties
	entities, relationships       int    // that were visited and met
	size                          int    // of the properties of relationships
	truncated                     bool
	free                          []node                  // room for nodes
	freeRows                      []graph.RelationshipRow // room for rows
}

// Capacities of walker.free and walker.freeRows.
const (
	firstRows = 16
	maxRows   = 512
)

// add appends an element. Elements are allocated together, since there may be many, and do not move.
func add[T any](room *[]T, v T) *T {
	if len(*room) == cap(*room) {
		*room = make([]T, 0, min(max(firstRows, 2*cap(*room)), maxRows))
	}
	*room = append(*room, v)
	return &(*room)[len(*room)-1]
}

// byID sorts relationships.
func byID(edges []met) {
	slices.SortFunc(edges, func(a, b met) int { return strings.Compare(a.id, b.id) })
}

// newWalker returns a walk that returns relationships with their properties, or only ids.
func newWalker(g Graph, w *graph.Walk, maxEntities, maxRelationships int, rows bool) *walker {
	return &walker{g: g, w: w, maxEntities: maxEntities, maxRelationships: maxRelationships, rows: rows, nodes: make(map[string]*node)}
}

// node returns the node of an entity.
func (x *walker) node(id string) *node {
	n := x.nodes[id]
	if n == nil {
		n = add(&x.free, node{id, unvisited})
		x.nodes[id] = n
	}
	return n
}

// visit sets the distance of entities, up to the limit of the walk, and returns them.
func (x *walker) visit(nodes []*node, distance int) []*node {
	if most := x.maxEntities - x.entities; len(nodes) > most {
		for _, n := range nodes[most:] {
			n.distance = unvisited
		}
		nodes, x.truncated = nodes[:most], true
	}
	for _, n := range nodes {
		n.distance = distance
	}
	x.entities += len(nodes)
	return nodes
}

// start visits the entities that exist and returns them by id.
func (x *walker) start(ids []string) (frontier []*node, err error) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	err = x.g.Entities(slices.Compact(ids), func(r *graph.EntityRow) { frontier = append(frontier, x.node(r.ID)) })
	sortNodes(frontier)
	return x.visit(frontier, 0), err
}

func sortNodes(nodes []*node) {
	slices.SortFunc(nodes, func(a, b *node) int { return strings.Compare(a.id, b.id) })
}

func idsOf(nodes []*node) []string {
	ids := make([]string, len(nodes))
	for i, n := range nodes {
		ids[i] = n.id
	}
	return ids
}

// level follows the relationships of entities at a distance. It returns those that lead to visited
// entities, by id if the walk is ordered, and the entities that it has visited first.
func (x *walker) level(frontier []*node, distance int) (edges []met, next []*node, err error) {
	edges, err = x.edges(frontier, distance, x.w.Direction)
	if err != nil {
		return nil, nil, err
	}
	for i := range edges {
		for _, n := range [2]*node{edges[i].source, edges[i].target} {
			if n.distance == unvisited {
				n.distance = found
				next = append(next, n)
			}
		}
	}
	sortNodes(next)
	if next, err = x.passed(next); err != nil {
		return nil, nil, err
	}
	next = x.visit(next, distance+1)
	return slices.DeleteFunc(edges, func(m met) bool { return !m.visited() }), next, nil
}

// passed returns the entities that the walk may pass.
func (x *walker) passed(nodes []*node) (passed []*node, err error) {
	if len(x.w.Labels) == 0 && x.w.Entities.IsZero() {
		return nodes, nil
	}
	for _, n := range nodes {
		n.distance = excluded
	}
	err = x.g.Entities(idsOf(nodes), func(r *graph.EntityRow) {
		selected := len(x.w.Labels) == 0 || slices.Contains(x.w.Labels, r.Label)
		if r.ID == x.end || selected && (x.w.Entities.IsZero() || x.w.Entities.Match(r.Entity().Properties)) {
			x.node(r.ID).distance = found
		}
	})
	return slices.DeleteFunc(nodes, func(n *node) bool { return n.distance == excluded }), err
}

// edges returns the relationships of entities at a distance that were not met before, up to the limit of
// the walk: those with the smallest ids.
func (x *walker) edges(frontier []*node, distance int, direction graph.Direction) (edges []met, err error) {
	sides := []Side{Source, Target}
	switch direction {
	case graph.Both:
	case graph.Out:
		sides = sides[:1]
	case graph.In:
		sides = sides[1:]
	}
	ids, complete := idsOf(frontier), true
	for _, side := range sides {
		if complete && err == nil {
			edges, complete, err = x.all(edges, side, ids, distance)
		}
	}
	if err == nil && !complete {
		edges = nil
		for _, side := range sides {
			if edges, err = x.sorted(edges, side, ids, distance); err != nil {
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
	x.size += sizeOf(edges)
	return edges, err
}

func sizeOf(edges []met) (size int) {
	for i := range edges {
		size += edges[i].size()
	}
	return size
}

// all reads the relationships of a side at once. complete is false if there are more than the walk may
// meet, or if they are too large.
func (x *walker) all(edges []met, side Side, ids []string, distance int) (_ []met, complete bool, err error) {
	// Up to this number were met before, from their other ends.
	limit, rows, size := x.maxRelationships+1, 0, x.size+sizeOf(edges)
	err = x.g.Edges(x.query(EdgeQuery{Side: side, IDs: ids, Limit: limit}), func(r *graph.RelationshipRow) {
		rows++
		if size > graph.MaxResult {
			return
		}
		if m, first := x.first(r, side, distance); first {
			edges = append(edges, m)
			size += m.size()
		}
	})
	return edges, rows < limit && size <= graph.MaxResult, err
}

// sorted reads the relationships of a side with the smallest ids, one more than the walk may meet.
func (x *walker) sorted(edges []met, side Side, ids []string, distance int) (_ []met, err error) {
	q := x.query(EdgeQuery{Side: side, IDs: ids, Sorted: true, Limit: sortedBatch})
	size := x.size
	for kept, rows := 0, sortedBatch; rows == sortedBatch && kept <= x.maxRelationships-x.relationships; {
		rows = 0
		err := x.g.Edges(q, func(r *graph.RelationshipRow) {
			rows++
			q.After = r.ID
			if size > graph.MaxResult {
				return
			}
			if m, first := x.first(r, side, distance); first {
				kept++
				edges = append(edges, m)
				size += m.size()
			}
		})
		if err != nil || size > graph.MaxResult {
			return edges, cmp.Or(err, graph.ErrTooLarge)
		}
	}
	return edges, nil
}

// query adds what the walk needs of relationships.
func (x *walker) query(q EdgeQuery) EdgeQuery {
	q.Properties = x.rows || !x.w.Relationships.IsZero()
	return q
}

// first returns a relationship if it matches and was not met from its other end.
func (x *walker) first(r *graph.RelationshipRow, side Side, distance int) (m met, first bool) {
	nearID, otherID, limit := r.Source, r.Target, distance-1
	if side == Target {
		nearID, otherID, limit = r.Target, r.Source, distance // the other side has those within the level
	}
	if x.near == nil || x.near.id != nearID { // the rows of an entity follow each other
		x.near = x.node(nearID)
	}
	other := x.node(otherID)
	if x.w.Direction == graph.Both && other.visited() && other.distance <= limit {
		return m, false
	}
	if !x.w.Relationships.IsZero() && !x.w.Relationships.Match(r.Copy().Properties) {
		return m, false
	}
	m = met{r.ID, r.Type, x.near, other, nil}
	if side == Target {
		m.source, m.target = other, x.near
	}
	if x.rows {
		m.row = add(&x.freeRows, *r)
	}
	return m, true
}
