// Package graphwalk searches graphs by levels: it reads the relationships of all entities at a distance at
// once, and keeps the entities that it has visited itself. So a backend only reads rows.
package graphwalk

import (
	"slices"

	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphdriver"
)

// Node is the number of an entity in a walk.
type Node int32

// Graph is what a backend reads during a walk. It numbers the entities from 0, in the order in which it first
// names them, and applies the types and the moment of the walk. Rows and edges are valid only during the call
// that receives them; their texts remain valid.
type Graph interface {
	// IDs returns the ids of the entities by number.
	IDs() []string
	// Start calls each for the entities with one of the ids. Each id occurs once.
	Start(ids []string, each func(n Node)) error
	// Entities calls each for those entities that exist. Each occurs once.
	Entities(nodes []Node, each func(n Node, r *graphdriver.EntityRow)) error
	// Edges calls each for the relationships of entities.
	Edges(q EdgeQuery, each func(e *Edge)) error
	// Relationships calls each for the relationships with one of the ids.
	Relationships(ids []string, each func(r *graphdriver.RelationshipRow)) error
}

// EdgeQuery selects relationships.
type EdgeQuery struct {
	// Nodes are the entities. Each occurs once.
	Nodes []Node
	// Direction is the direction in which relationships leave the entities. Both returns a relationship
	// between two of them twice.
	Direction graph.Direction
	// Sorted asks for rows in the order of their ids, after an id. The direction is not Both then.
	Sorted bool
	After  string
	// Limit is the maximum number of rows.
	Limit int
	// Rows asks for Edge.Row.
	Rows bool
}

// Edge is a relationship of an entity.
type Edge struct {
	ID, Type string
	// Near is the entity of the query, Other the other end.
	Near, Other Node
	// Incoming reports that Near is the target.
	Incoming bool
	Row      *graphdriver.RelationshipRow
}

// Append is append for slices that become large. It doubles the capacity, so that fewer elements are moved.
func Append[T any](all []T, v T) []T {
	const least = 64
	if len(all) == cap(all) {
		all = slices.Grow(all, max(least, len(all)))
	}
	return append(all, v)
}
