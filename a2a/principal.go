package a2a

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Anonymous is the id of the principal of unauthenticated callers.
const Anonymous = "anonymous"

// Principal is a caller. Every read and write names one. Objects of other principals are
// indistinguishable from objects that do not exist.
type Principal struct {
	// ID is the owner of the objects that the principal creates: 1 to MaxPrincipalID bytes of UTF-8 without
	// control characters.
	ID string
	// Name is a display name.
	Name string
	// Scopes are what the principal may do. Nil means everything, empty means nothing.
	Scopes []Scope
}

// MaxPrincipalID is the maximum length of Principal.ID in bytes.
const MaxPrincipalID = 512

// Check returns an error with CodeDenied if the ID is not valid.
func (p Principal) Check() error {
	switch {
	case p.ID == "":
		return Errorf(CodeDenied, "the principal has no id")
	case len(p.ID) > MaxPrincipalID:
		return Errorf(CodeDenied, "the id of the principal has %d bytes, want at most %d", len(p.ID), MaxPrincipalID)
	case !utf8.ValidString(p.ID), strings.ContainsFunc(p.ID, unicode.IsControl):
		return Errorf(CodeDenied, "the id of the principal %s has control characters or is not UTF-8", Quote(p.ID))
	}
	return nil
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
