package graph

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store/filter"
)

// DefaultGraph is the graph of a [Key] that names none.
const DefaultGraph = "default"

// Key identifies a graph.
type Key struct {
	// Owner is the principal that the graph belongs to. Required.
	Owner string
	// Graph is unique per owner. "" means [DefaultGraph].
	Graph string
}

// Entity is a node of a graph.
type Entity struct {
	// ID is unique in the graph. Writes choose one if it is empty.
	ID string
	// Label is the kind of the entity, such as "Person": a letter or "_", then letters, digits
	// and "_", all of ASCII.
	Label string
	// Properties is a JSON object, nil if it is empty. Numbers of stored entities are float64 or,
	// if a float64 is not exact, json.Number. [PropertyName] is the name of the entity.
	// [PropertyID] is reserved.
	Properties map[string]any
}

// Relationship is a directed edge of a graph.
type Relationship struct {
	// ID is unique in the graph. Writes choose one if it is empty.
	ID string
	// Source and Target are ids of entities. They may be the same. Like Type, they never change.
	Source, Target string
	// Type is the kind of the relationship, such as "works_on". It has the form of a label.
	Type string
	// Properties is a JSON object, as of an entity. [PropertyID], [PropertyValidFrom],
	// [PropertyValidTo] and [PropertyRecordedAt] are reserved.
	Properties map[string]any
	// ValidFrom and ValidTo are the interval in which the relationship is true: from ValidFrom,
	// until before ValidTo. The zero time means no bound. Times have milliseconds.
	ValidFrom, ValidTo time.Time

	// The store sets the following fields, and writes ignore them.

	// Version is 1 for a new relationship. Each change increments it.
	Version int64
	// RecordedAt is when this version was written.
	RecordedAt time.Time
	// ReplacedAt is when a later version was written. The zero time means that this is the newest
	// version.
	ReplacedAt time.Time
}

// Names of properties with a meaning. All but PropertyName are reserved: they are no stored
// properties, but the fields of entities and relationships, as queries in openCypher read them.
const (
	// PropertyName is the property with the name of an entity; see [FindParams.Names].
	PropertyName       = "name"
	PropertyID         = "id"
	PropertyValidFrom  = "valid_from"
	PropertyValidTo    = "valid_to"
	PropertyRecordedAt = "recorded_at"
)

// Moment selects versions of relationships by time. The zero value selects what is true now, as it
// is known now.
type Moment struct {
	// AsOf selects relationships that are valid at this time. The zero time means now.
	AsOf time.Time
	// KnownAt selects the versions that were the newest ones at this time. The zero time means
	// now.
	KnownAt time.Time
	// AnyTime also selects relationships that are not valid at AsOf.
	AnyTime bool
}

// Direction is the direction in which relationships are followed.
type Direction string

// The directions. "" means Both.
const (
	Both Direction = "both"
	Out  Direction = "out" // from source to target
	In   Direction = "in"  // from target to source
)

// Walk selects the relationships and entities that a walk through a graph passes. The zero value
// selects all that are true now, in both directions.
type Walk struct {
	Direction Direction
	// Types are the types of relationships to follow, at every distance. None means all.
	Types []string
	// Relationships selects relationships by their properties.
	Relationships filter.Filter
	// Labels are the labels of entities to pass. None means all.
	Labels []string
	// Entities selects entities by their properties. An entity that Labels or Entities exclude is
	// neither passed nor returned. The given ids are always included.
	Entities filter.Filter
	Moment   Moment
}

// NeighborParams select the neighborhood of entities.
type NeighborParams struct {
	// IDs are 1 to [MaxIDs] ids of entities to start at. Unknown ids are ignored.
	IDs []string
	// Depth is the largest distance from the closest start, up to [MaxDepth]. 0 means 1, and [StartsOnly] that the
	// starts alone are selected.
	Depth int
	Walk
	// MaxEntities and MaxRelationships limit the result. 0 means [DefaultEntities] and
	// [DefaultRelationships]; the maximum is [MaxEntities] and [MaxRelationships].
	MaxEntities, MaxRelationships int
	// Induced also selects relationships between entities at the distance Depth: all selected
	// relationships with both ends in the result.
	Induced bool
	// IDsOnly returns entities with their id only, and relationships with id, source, target and
	// type only. It is faster.
	IDsOnly bool
}

// Neighbor is an entity with its distance from the closest start.
type Neighbor struct {
	Entity
	Distance int
}

// SubGraph is the part of a graph that a walk found.
type SubGraph struct {
	// Entities are ordered by distance, then by id.
	Entities []Neighbor
	// Relationships are those that the walk met when it left entities, ordered by id. Each has
	// both ends in Entities.
	Relationships []Relationship
	// Truncated reports that a limit omitted entities or relationships. A walk visits entities
	// by distance, then by id, and their relationships by id; it ends at the distance at which a
	// limit is reached. So the result is the same each time.
	Truncated bool
}

// PathParams select a shortest path.
type PathParams struct {
	// From and To are ids of entities.
	From, To string
	// MaxDepth is the maximum number of relationships, up to [MaxDepth]. 0 means MaxDepth.
	MaxDepth int
	Walk
	// IDsOnly returns ids only, as in NeighborParams.
	IDsOnly bool
}

// Path is a way through a graph. It has one relationship less than entities; relationship i
// connects entities i and i+1. A path without entities means that there is none.
type Path struct {
	Entities      []Entity
	Relationships []Relationship
	// Truncated reports that the search ended without a path after [MaxEntities] entities or
	// [MaxRelationships] relationships.
	Truncated bool
}

// FindParams select entities in the order of their ids. Conditions are combined by "and".
type FindParams struct {
	// Labels are the labels to find. None means all.
	Labels []string
	// Names find entities by their name, up to [MaxIDs]. Upper and lower case are equal, as are
	// spaces of any number; see [FoldName]. None means all.
	Names []string
	// Filter selects entities by their properties.
	Filter filter.Filter
	// After continues after an id. "" starts the list.
	After string
	// Limit is the maximum number of entities. 0 means [DefaultLimit]; the maximum is
	// [MaxLimit]. Fewer are returned only if no more match.
	Limit int
}

// FindRelationshipParams select relationships in the order of their ids.
type FindRelationshipParams struct {
	// Types are the types to find. None means all.
	Types []string
	// Filter selects relationships by their properties.
	Filter filter.Filter
	Moment Moment
	// After and Limit are as in FindParams.
	After string
	Limit int
}

// End ends the validity of a relationship.
type End struct {
	// ID is the id of the relationship.
	ID string
	// At is the new ValidTo: after ValidFrom and not after the current ValidTo. The zero time means
	// now.
	At time.Time
}

// Batch is a set of changes. They are applied in the order of the fields.
type Batch struct {
	// DeleteRelationships and DeleteEntities are ids to remove, as by DeleteRelationship and
	// DeleteEntity.
	DeleteRelationships, DeleteEntities []string
	// Ends end relationships. A relationship that does not exist is an error. A relationship that
	// already ends at the same time is not changed.
	Ends []End
	// Entities are added. An entity with the same id is replaced: its label and all its properties.
	Entities []Entity
	// Relationships are added. Their ends may be entities of the batch. A relationship with the
	// same id gets a new version, unless the newest one is equal.
	Relationships []Relationship
}

// Supersede returns a batch that ends a relationship and adds another one that is valid from then on.
// The zero time means now.
func Supersede(id string, at time.Time, next Relationship) Batch {
	if at.IsZero() {
		at = time.Now()
	}
	next.ValidFrom = at
	return Batch{Ends: []End{{id, at}}, Relationships: []Relationship{next}}
}

// Result reports the effect of a batch.
type Result struct {
	// Entities and Relationships are the ids of those that were added or replaced, in the order of the
	// batch.
	Entities, Relationships []string
	// DeletedEntities and DeletedRelationships are numbers, including relationships of deleted
	// entities.
	DeletedEntities, DeletedRelationships int
}

// Writer changes graphs. A call changes all that it was called with or nothing.
type Writer interface {
	// AddEntities is Write with entities only.
	AddEntities(ctx context.Context, k Key, entities []Entity) (ids []string, err error)
	// AddRelationships is Write with relationships only.
	AddRelationships(ctx context.Context, k Key, relationships []Relationship) (ids []string, err error)
	// DeleteEntity removes an entity with all its relationships and their versions, and reports
	// whether it existed.
	DeleteEntity(ctx context.Context, k Key, id string) (deleted bool, err error)
	// DeleteRelationship removes all versions of a relationship, and reports whether it existed.
	// To keep that it was true until now, end it.
	DeleteRelationship(ctx context.Context, k Key, id string) (deleted bool, err error)
	// Write applies a batch. It returns an [EndpointError] if an entity of a relationship does not
	// exist, a [ConflictError] if a relationship exists with other ends or another type, and
	// [ErrRelationshipNotFound] if a relationship to end does not exist.
	Write(ctx context.Context, k Key, b Batch) (Result, error)
}

// Reader reads graphs. A graph that was never written has no entities.
type Reader interface {
	// Neighbors returns entities up to a distance, with the relationships to them.
	Neighbors(ctx context.Context, k Key, p NeighborParams) (SubGraph, error)
	// ShortestPath returns a path with the fewest relationships. Of several, it is the one with
	// the smallest id of the last relationship, then of the one before it, and so on.
	ShortestPath(ctx context.Context, k Key, p PathParams) (Path, error)
	// Entities returns the entities with the given ids that exist, in the order of ids.
	Entities(ctx context.Context, k Key, ids []string) ([]Entity, error)
	// Relationships returns the newest versions of the relationships with the given ids that exist,
	// in the order of ids, whether they are valid now or not.
	Relationships(ctx context.Context, k Key, ids []string) ([]Relationship, error)
	// FindEntities returns entities by id.
	FindEntities(ctx context.Context, k Key, p FindParams) ([]Entity, error)
	// FindRelationships returns relationships by id.
	FindRelationships(ctx context.Context, k Key, p FindRelationshipParams) ([]Relationship, error)
}

// Store stores graphs.
type Store interface {
	Writer
	Reader
}

// FoldName returns the form in which names of entities are compared: in lower case, with a space
// between words.
func FoldName(name string) string { return strings.ToLower(strings.Join(strings.Fields(name), " ")) }

// FormatTime returns a time as a property, as in "2026-11-27T08:00:00.000Z". Texts of times sort like
// the times.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
