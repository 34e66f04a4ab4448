package memory

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Limits of the parts of a [Key], in bytes.
const (
	MaxAgent   = 128
	MaxSession = 256
)

// MaxStateBytes is the default limit on the JSON of a state, in bytes.
const MaxStateBytes = 256 << 10

// AnyVersion as expected version changes a state whatever its version is.
const AnyVersion int64 = -1

// Errors of short-term memory. They have a code; see a2a.CodeOf.
var (
	// ErrStateConflict: the version of the state differs from the expected one.
	ErrStateConflict error = a2a.Errorf(a2a.CodeConflict, "state version conflict")
	// ErrStateTooLarge: the state would exceed its limit.
	ErrStateTooLarge error = a2a.Errorf(a2a.CodeTooLarge, "state too large")
)

// Key identifies the state of a session. Owner is the principal that it belongs to, Agent
// the agent that keeps it, Session the conversation. Each part is UTF-8, not empty and without
// NUL. States of different keys are independent.
type Key struct {
	Owner, Agent, Session string
}

// Check returns an error with code invalid_params that names the part and the rule if the key
// is not valid.
func (k Key) Check() error {
	for _, part := range []struct {
		name, value string
		limit       int
	}{{"owner", k.Owner, 0}, {"agent", k.Agent, MaxAgent}, {"session", k.Session, MaxSession}} {
		switch {
		case part.value == "" || strings.ContainsRune(part.value, 0) || !utf8.ValidString(part.value):
			return a2a.Errorf(a2a.CodeInvalid, "memory: %s: must be UTF-8, not empty and without NUL", part.name)
		case part.limit > 0 && len(part.value) > part.limit:
			return a2a.Errorf(a2a.CodeInvalid, "memory: %s: has %d bytes, limit is %d", part.name, len(part.value), part.limit)
		}
	}
	return nil
}

// State is the state of a session.
type State struct {
	// Values are the members of the state, nil if it does not exist. Objects are
	// map[string]any, arrays []any, numbers float64 or, if a float64 is not exact,
	// json.Number. They belong to the caller.
	Values map[string]any
	// Version is 0 if the state does not exist. Each change increments it. After the state
	// has expired or was cleared, the version does not start again for at least an hour.
	Version int64
	// Expires is when the state ends unless it is written again. The zero time means never.
	Expires time.Time
}

// ShortTerm stores the state of sessions. Methods are safe for concurrent use. An error that is
// not documented is one of the store; the outcome of a write is then unknown. Arguments are
// copied.
//
// An invalid key, and values that JSON cannot represent exactly, are errors with code
// invalid_params. Strings must be UTF-8, and values may be nested 100 levels deep.
type ShortTerm interface {
	// Get returns a state. A state that does not exist or has expired is the zero State.
	Get(ctx context.Context, key Key) (State, error)
	// Set replaces a state and returns the new one. It returns ErrStateConflict if version
	// is neither AnyVersion nor the version of the state, 0 for one that does not exist.
	Set(ctx context.Context, key Key, values map[string]any, version int64) (State, error)
	// Update applies a JSON merge patch (RFC 7396) to a state and returns the new one: nil
	// removes a member, objects (map[string]any) merge recursively, any other value replaces.
	// It is atomic: concurrent updates lose nothing. A state that does not exist is empty.
	// version is as in Set.
	Update(ctx context.Context, key Key, patch map[string]any, version int64) (State, error)
	// Clear removes a state. Clearing one that does not exist has no effect.
	Clear(ctx context.Context, key Key) error
}
