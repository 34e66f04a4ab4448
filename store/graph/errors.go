package graph

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Errors of stores. Test for them with errors.Is.
var (
	// ErrRelationshipNotFound: the graph has no such relationship. It is a store.ErrNotFound.
	ErrRelationshipNotFound = fmt.Errorf("graph: relationship %w", store.ErrNotFound)
	// ErrEndpointNotFound: an entity of a relationship does not exist. The error is an
	// [EndpointError].
	ErrEndpointNotFound error = a2a.Errorf(a2a.CodeInvalid, "graph: endpoint not found")
	// ErrConflict: a relationship exists with other ends or another type. The error is a
	// [ConflictError].
	ErrConflict error = a2a.Errorf(a2a.CodeConflict, "graph: relationship conflict")
	// ErrExists: an id to restore exists. The error is an [ExistsError].
	ErrExists error = a2a.Errorf(a2a.CodeConflict, "graph: id exists")
	// ErrTooLarge: a result has more than [MaxResult] bytes.
	ErrTooLarge error = a2a.Errorf(a2a.CodeTooLarge, "graph: result has more than %d bytes; select fewer", MaxResult)
	// ErrCypher: a query is malformed, ErrCypherUnsupported: it is not supported. The error is a
	// [CypherError].
	ErrCypher            error = a2a.Errorf(a2a.CodeInvalid, "graph: malformed query")
	ErrCypherUnsupported error = a2a.Errorf(a2a.CodeUnsupported, "graph: query not supported")
	// ErrBudget: a query exceeds MaxSteps or Timeout.
	ErrBudget error = a2a.Errorf(a2a.CodeExhausted, "graph: query exceeds its limit")
)

// EndpointError reports a relationship to an entity that does not exist. It is
// [ErrEndpointNotFound].
type EndpointError struct {
	// Field is the part of the write, such as "relationships[2].target".
	Field string
	// Entity is the id that does not exist.
	Entity string
}

func (e *EndpointError) Error() string {
	return fmt.Sprintf("graph: %s: entity %s not found", e.Field, a2a.Quote(e.Entity))
}

// Unwrap returns [ErrEndpointNotFound].
func (e *EndpointError) Unwrap() error { return ErrEndpointNotFound }

// ConflictError reports a relationship with the id of a stored one that has other ends or another
// type. It is [ErrConflict].
type ConflictError struct {
	// ID is the id of the relationship.
	ID string
	// Field is "source", "target" or "type".
	Field string
	// Value is the written value, Want the stored one.
	Value, Want string
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("graph: relationship %s: %s: is %s, the stored one has %s", a2a.Quote(e.ID), e.Field, a2a.Quote(e.Value), a2a.Quote(e.Want))
}

// Unwrap returns [ErrConflict].
func (e *ConflictError) Unwrap() error { return ErrConflict }

// ExistsError reports an id that cannot be restored. It is [ErrExists].
type ExistsError struct {
	// Kind is "entity" or "relationship".
	Kind string
	ID   string
}

func (e *ExistsError) Error() string {
	return fmt.Sprintf("graph: %s %s already exists", e.Kind, a2a.Quote(e.ID))
}

// Unwrap returns [ErrExists].
func (e *ExistsError) Unwrap() error { return ErrExists }

// CypherError reports a query that is malformed, which is [ErrCypher], or not supported, which is
// [ErrCypherUnsupported].
type CypherError struct {
	// Line and Column are the position of the cause in the query, from 1. They are 0 if it is not
	// known.
	Line, Column int
	// Rule is the rule that the query breaks, or names what is not supported.
	Rule string
	// Unsupported reports that the query may be valid, but not for this store.
	Unsupported bool
}

func (e *CypherError) Error() string {
	if e.Line == 0 {
		return "graph: query: " + e.Rule
	}
	return fmt.Sprintf("graph: query:%d:%d: %s", e.Line, e.Column, e.Rule)
}

// Unwrap returns [ErrCypher] or [ErrCypherUnsupported].
func (e *CypherError) Unwrap() error {
	if e.Unsupported {
		return ErrCypherUnsupported
	}
	return ErrCypher
}
