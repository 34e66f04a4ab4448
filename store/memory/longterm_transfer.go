package memory

import (
	"context"
	"time"
)

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

// Check returns the query with its defaults, or an error.
func (q FactQuery) Check() (FactQuery, error) {
	q.Limit = ClampLimit(q.Limit)
	if q.Namespace != "" && q.Agent == "" {
		return q, invalid("namespace", "needs an agent")
	}
	scope := Scope{Owner: q.Owner, Namespace: q.Namespace, Agent: q.Agent}
	if scope.Agent == "" {
		scope.Agent = "a"
	}
	_, err := scope.Check()
	return q, err
}

// Start returns the scope and the id after which the page starts.
func (q FactQuery) Start() (agent, namespace, id string) {
	if after := q.After; after.ID != "" {
		return after.Scope.Agent, after.Scope.Namespace, after.ID
	}
	return q.Agent, q.Namespace, ""
}

// Matches reports whether a fact of a scope is one that q selects.
func (q FactQuery) Matches(s Scope) bool {
	return s.Owner == q.Owner && (q.Agent == "" || s.Agent == q.Agent) && (q.Namespace == "" || s.Namespace == q.Namespace)
}

// Restorer imports facts. It is optional.
type Restorer interface {
	// Restore stores a fact with all its versions, as [Historian.History] returned them from
	// another store. It returns ErrFactConflict if the scope has a fact with the id or the key.
	Restore(ctx context.Context, versions []Memory) error
	// CanRestore returns the error that Restore would return, and stores nothing.
	CanRestore(ctx context.Context, versions []Memory) error
}

// CheckVersions returns an error if versions are not the versions of one fact, oldest first.
// metadata is the JSON of the metadata of each version.
func CheckVersions(versions []Memory) (metadata []string, err error) {
	if len(versions) == 0 {
		return nil, invalid("versions", "must not be empty")
	}
	first := &versions[0]
	for i := range versions {
		v := &versions[i]
		scope, err := CheckGet(v.Scope, v.ID, time.Time{})
		switch {
		case err != nil:
			return nil, err
		case scope != v.Scope || scope != first.Scope || v.ID != first.ID || v.Key != first.Key || !v.ExpiresAt.Equal(first.ExpiresAt):
			return nil, invalid("versions", "must have the same scope, id, key and expiry")
		case v.Version != int64(i+1):
			return nil, invalid("versions", "version is %d, want %d", v.Version, i+1)
		case i < len(versions)-1 && v.ReplacedAt.IsZero() && v.ValidTo.IsZero():
			return nil, invalid("versions", "version %d was neither replaced nor has it ended", v.Version)
		case i == len(versions)-1 && !v.ReplacedAt.IsZero():
			return nil, invalid("versions", "the newest version must not be replaced")
		}
		if err := CheckContent(v.Content); err != nil {
			return nil, err
		}
		if err := (SaveParams{Key: v.Key, Entities: v.Entities, ValidFrom: v.ValidFrom, ValidTo: v.ValidTo}).Check(); err != nil {
			return nil, err
		}
		text, err := EncodeMetadata(v.Metadata)
		if err != nil {
			return nil, err
		}
		metadata = append(metadata, text)
	}
	return metadata, nil
}
