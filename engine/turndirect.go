package engine

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
)

// directWrite is a write that is made at once, from its start until its result is recorded. Its key
// is the number of the next call in its scope. Until the result is recorded, another call would get
// the same key.
type directWrite struct {
	scope    string
	op       string
	args     string // digest of the arguments, "" if they cannot be compared
	inFlight bool
	started  bool  // the store may have made the write
	failure  error // of the write, nil if there is none or it is recorded
}

// errConcurrentWrite is returned for a call that is made during a write that is made at once.
var errConcurrentWrite = a2a.Errorf(a2a.CodeInvalid, "another write of this step or turn to blobs or to another store is in flight; "+
	"make such calls one after the other, or in steps of their own")

// argsDigest returns a digest of arguments, "" if they cannot be compared.
func argsDigest(args []any) string {
	data, err := json.Marshal(args)
	if args == nil || err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return string(sum[:])
}

// refuses returns the error for another call in the scope of d, or nil if the call may be made.
// next is the write that the call makes at once, nil for other calls. d may be nil.
func (d *directWrite) refuses(next *directWrite) error {
	switch {
	case d == nil:
		return nil
	case d.inFlight:
		return errConcurrentWrite
	case next != nil && d.args != "" && d.args == next.args && d.op == next.op:
		return nil
	}
	text := fmt.Sprintf("it is unknown whether the failed call of %s has changed its store; return its error, "+
		"or repeat the call with the same arguments before other calls (of blobs.put: only with a digest)", d.op)
	if d.failure == nil {
		return a2a.Errorf(a2a.CodeUnavailable, "%s", text)
	}
	return &storeError{text, d.failure}
}

// reserve reserves the number of the next call in a scope for the write of u, if u has a write. The
// caller holds t.mu.
func (u *turnRecords) reserve(scope string) {
	if u.write == nil {
		return
	}
	n := &u.t.calls
	if d := n.direct[scope]; d != nil {
		u.write = d // the call repeats d
	}
	u.write.scope, u.write.inFlight = scope, true
	if n.direct == nil {
		n.direct = make(map[string]*directWrite)
	}
	n.direct[scope] = u.write
}

// release ends the reservation for the write of u, unless the store may have made the write and its
// result is not recorded.
func (u *turnRecords) release() {
	u.t.mu.Lock()
	defer u.t.mu.Unlock()
	d, direct := u.write, u.t.calls.direct
	if direct[d.scope] != d {
		return
	}
	if d.inFlight = false; !d.started {
		delete(direct, d.scope)
	}
}
