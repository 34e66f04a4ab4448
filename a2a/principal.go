package a2a

// Anonymous is the id of the principal of callers who need not authenticate.
const Anonymous = "anonymous"

// Principal is who asks: every read and write names one, and what belongs to
// another looks exactly like what is not there.
type Principal struct {
	// ID owns what the principal creates. It is never empty.
	ID string
	// Name is for people.
	Name string
}
