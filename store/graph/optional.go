package graph

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// Historian reads earlier versions of relationships.
type Historian interface {
	// History returns all versions of a relationship, oldest first, or [ErrRelationshipNotFound].
	History(ctx context.Context, k Key, id string) ([]Relationship, error)
}

// Info describes a graph.
type Info struct {
	Name string
	// Entities and Relationships are numbers. Versions of a relationship count once.
	Entities, Relationships int64
}

// ListParams select graphs of an owner in the order of their names.
type ListParams struct {
	Owner string
	// After continues after a name. "" starts the list.
	After string
	// Limit is the maximum number of graphs, as in FindParams.
	Limit int
}

// Lister lists graphs.
type Lister interface {
	// Graphs returns the graphs that have entities. It counts what they have, which takes a time
	// in proportion to their size.
	Graphs(ctx context.Context, p ListParams) ([]Info, error)
}

// ForgetReport counts removed data. Versions of a relationship count once.
type ForgetReport struct {
	Entities, Relationships int
}

// Forgetter removes graphs. After an error, the report counts what was removed.
type Forgetter interface {
	// DeleteGraph removes a graph. Entities that are added meanwhile may remain.
	DeleteGraph(ctx context.Context, k Key) (ForgetReport, error)
	// ForgetOwner removes all graphs of an owner.
	ForgetOwner(ctx context.Context, owner string) (ForgetReport, error)
}

// Restorer adds what an export contains.
type Restorer interface {
	// Restore adds entities, and relationships with all their versions: the versions of a
	// relationship follow each other, oldest first, and keep their fields. It adds all or nothing.
	// It has the limits of a [Batch], with versions in place of relationships; a single relationship
	// without entities may have more versions. It returns an [ExistsError] if one of the ids exists,
	// or an [EndpointError].
	Restore(ctx context.Context, k Key, entities []Entity, versions []Relationship) error
	// CanRestore returns the error of Restore and changes nothing. Ends of relationships may be
	// missing.
	CanRestore(ctx context.Context, k Key, entities []Entity, versions []Relationship) error
}

// Transactional is implemented by stores that can write as part of a change of a task; see
// [store.Effect].
type Transactional interface {
	// WriteEffect applies a batch like Write. Applying it fails with the errors of Write.
	WriteEffect(k Key, b Batch) (store.Effect, error)
}

// Complete is a store with all optional parts but [CypherCapable]. The stores of Holdfast implement it.
type Complete interface {
	Store
	Historian
	Lister
	Forgetter
	Restorer
	Transactional
}

// CypherCapable is implemented by stores that execute queries in openCypher themselves. Check for it with a type
// assertion, or call cypher.Execute of package cypher, which executes queries on all stores.
//
// A query sees the newest version of each relationship, whether it is valid now or not:
// conditions on valid_from and valid_to select. Fields are properties: id of entities and
// relationships; valid_from, valid_to and recorded_at of relationships, as texts in the form of
// [FormatTime], and null without a bound.
type CypherCapable interface {
	// QueryCypher executes a query that reads. It returns a [CypherError] if the query is malformed or not
	// supported, such as one that writes, and [ErrBudget] if it exceeds a limit.
	QueryCypher(ctx context.Context, k Key, p CypherParams) (CypherResult, error)
}

// CypherParams are a query with its limits.
type CypherParams struct {
	// Query is the text. Values belong into Params, never into the text.
	Query string
	// Params are the values of $name in the query: JSON values, and integers.
	Params map[string]any
	// MaxRows is the maximum number of rows; more set Truncated. 0 means [DefaultRows]; the
	// maximum is [MaxRows].
	MaxRows int
	// MaxSteps limits the work of the query, in entities, relationships and rows. 0 means
	// [DefaultSteps]; the maximum is [MaxSteps]. A store may have another measure.
	MaxSteps int64
	// Timeout limits the time of the query. 0 means [DefaultTimeout]; the maximum is [MaxTimeout].
	Timeout time.Duration
}

// CypherResult is the result of a query.
type CypherResult struct {
	// Columns are the names after RETURN.
	Columns []string
	// Rows have a value per column: nil, bool, int64, float64, string, []any, map[string]any,
	// [Entity], [Relationship] or [Path].
	Rows [][]any
	// Truncated reports that there are more rows than MaxRows.
	Truncated bool
}
