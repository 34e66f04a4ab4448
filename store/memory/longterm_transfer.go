package memory

import "context"

// Lister lists the facts of an owner in all scopes. It is optional: exports and operators use it.
type Lister interface {
	// Facts returns the newest versions of facts by agent, namespace and id, in the order of their
	// bytes.
	Facts(ctx context.Context, q FactQuery) (FactPage, error)
}

// FactQuery selects facts of an owner.
type FactQuery struct {
	Owner string
	// Agent and Namespace select the facts of an agent, and of one of its namespaces. "" selects
	// all. A Namespace needs an Agent.
	Agent, Namespace string
	// After continues after a fact of an earlier page. Only its Scope and ID count. The zero value
	// starts the list.
	After Memory
	// Limit is the maximum number of results, as in SearchParams.
	Limit int
}

// FactPage is a page of facts.
type FactPage struct {
	Facts []Memory
	// More reports that more facts follow.
	More bool
}

// Restorer imports facts. It is optional.
type Restorer interface {
	// Restore stores a fact with all its versions, as [Historian.History] returned them from
	// another store. It returns ErrFactConflict if the scope has a fact with the id or the key.
	Restore(ctx context.Context, versions []Memory) error
	// CanRestore returns the error that Restore would return, and stores nothing.
	CanRestore(ctx context.Context, versions []Memory) error
}
