package a2a

import "slices"

// Anonymous is the id of the principal of unauthenticated callers.
const Anonymous = "anonymous"

// Principal is a caller. Every read and write names one. Objects of other principals are
// indistinguishable from objects that do not exist.
type Principal struct {
	// ID is the owner of the objects that the principal creates. It is never empty.
	ID string
	// Name is a display name.
	Name string
	// Scopes are what the principal may do. Nil means everything, empty means nothing.
	Scopes []Scope
}

// May reports whether the principal may call methods with a scope.
func (p Principal) May(s Scope) bool { return p.Scopes == nil || slices.Contains(p.Scopes, s) }

// Scope is a right that methods require of principals, see [Method].
type Scope string

// The scopes.
const (
	ScopeRead  Scope = "read"
	ScopeWrite Scope = "write"
)
