package a2a

// Anonymous is the id of the principal of unauthenticated callers.
const Anonymous = "anonymous"

// Principal is a caller. Every read and write names one. Objects of other principals are
// indistinguishable from objects that do not exist.
type Principal struct {
	// ID is the owner of the objects that the principal creates. It is never empty.
	ID string
	// Name is a display name.
	Name string
}
