package contract

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Turn is the turn of a handler, for the methods that a contract gives to handlers. All attempts of
// a turn make the same calls in the same order, within each step and outside of steps, where a call
// belongs to the step that its context comes from. Methods are safe for concurrent use.
type Turn interface {
	// Session returns the context of the turn.
	Session() Session
	TaskID() string
	// Fence returns the fence of the lease, for stores that reject writes of earlier attempts.
	Fence() int64
	// Now returns the time of the server's clock.
	Now() time.Time
	// Age returns for how long the server stores data of a kind of its retention, 0 without limit.
	Age(kind string) time.Duration
	Log() *slog.Logger
	// Store returns the agent's store of a contract, nil if it has none. own reports whether it is a
	// part of the store of tasks, so that writes are effects of the turn's commits.
	Store(k *Kind) (s Store, own bool)
	// Call makes a call on a contract, or returns the result of an earlier attempt.
	Call(ctx context.Context, c Call) error
	// Records returns the records of the store of tasks for one operation, with the clock of the
	// operation. Its reads and changes are recorded as calls. Silent changes are committed with the next
	// commit of the turn, others before they return.
	Records(silent bool) (r store.RecordUpdater, now func() time.Time)
	// NewID returns an id of 16 hexadecimal digits. Each attempt gets the same ids of a kind in the
	// same order.
	NewID(ctx context.Context, kind string) string
	// OpenContent commits what the turn has written, and opens content that the turn does not record.
	// Readers wait while the store does not answer, and call open again. op names the call for logs.
	OpenContent(ctx context.Context, op string, open func() (io.ReadCloser, error)) (io.ReadCloser, error)
}

// Call is a call of a handler on a contract. One of Read, Effect and Direct is set; without one, the call
// returns an error with code invalid_params. While the store does not respond, the call waits and is
// repeated.
type Call struct {
	// Op names the operation, such as facts.search. It is stored with the result.
	Op string
	// Result points to the result, which has a form that JSON keeps. nil means none.
	Result any

	// Read reads. Its result is recorded: a later attempt gets the same one. Earlier writes of the turn are
	// committed first.
	Read func(ctx context.Context) error
	// Effect returns a write that is committed with the next commit of the turn, exactly once, and
	// its size in bytes. once is a key that each attempt gets for this call.
	Effect func(ctx context.Context, once string) (e store.Effect, size int, err error)
	// Direct writes at once, to a store that is not a part of the store of tasks. Each attempt makes
	// the call with the same key once, until its result is recorded. The results of earlier reads are
	// committed before, so that each attempt makes the same call. It returns ErrFenced if the store
	// has rejected the fence.
	Direct func(ctx context.Context, once string) error

	// After commits what the turn has written before Effect, because that depends on it.
	After bool
	// Args are the arguments of Direct. After a failure, only a call with equal ones may follow. nil
	// means that they cannot be compared.
	Args []any
	// Again prepares a repetition, and reports false if the call cannot be repeated. nil means that it
	// always can.
	Again func() bool
}

// ErrFenced is returned by [Call].Direct if a newer attempt of the turn has written.
var ErrFenced = errors.New("a newer attempt has written to the store")

// Unchanged is the type of errors that a store returns before it changes anything, for a reason that
// a handler may know how to handle, such as a quota. A call is not repeated after them.
type Unchanged interface {
	error
	Unchanged()
}

// Unsupported returns the error of an agent that has no store of the contract.
func (k *Kind) Unsupported() error {
	return a2a.Errorf(a2a.CodeUnsupported, "the agent has no store of %s", k.Name)
}

// Find returns the store of a contract among stores of different contracts, nil if there is none.
func Find(stores []Store, k *Kind) Store {
	for _, s := range stores {
		if s.Kind() == k {
			return s
		}
	}
	return nil
}

// In returns what the store of a contract among stores wraps, nil if there is none. S is an interface.
func In[S any](stores []Store, k *Kind) S { return unwrap[S](Find(stores, k)) }

// ForTurn returns what the agent's store of a contract wraps. own is the same store with its effects
// if it is a part of the store of tasks, else nil. S and Own are interfaces.
func ForTurn[S, Own any](t Turn, k *Kind) (s S, own Own, err error) {
	kept, isOwn := t.Store(k)
	if kept == nil {
		return s, own, k.Unsupported()
	}
	if isOwn {
		own = unwrap[Own](kept)
	}
	return unwrap[S](kept), own, nil
}

func unwrap[S any](s Store) (wrapped S) {
	if w, ok := s.(interface{ Unwrap() any }); ok {
		wrapped, _ = w.Unwrap().(S)
	}
	return wrapped
}
