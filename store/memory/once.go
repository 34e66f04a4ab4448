package memory

import "context"

// MaxOnce limits idempotency keys of changes, in bytes.
const MaxOnce = 512

// OnceUpdater is implemented by a [ShortTerm] outside the database of an agent, so that a repeated
// attempt of a turn changes nothing again. It has the methods of [ShortTerm] that change a state,
// with an idempotency key, which belongs to the state. If an earlier change of the state used the
// key, the change has no effect, and the result is the current state. Keys are stored for 24 hours,
// and at least as long as the TTL of states. A change that failed does not use its key.
type OnceUpdater interface {
	// SetOnce is Set with an idempotency key.
	SetOnce(ctx context.Context, key Key, values map[string]any, version int64, once string) (State, error)
	// UpdateOnce is Update with an idempotency key.
	UpdateOnce(ctx context.Context, key Key, patch map[string]any, version int64, once string) (State, error)
	// ClearOnce is Clear with an idempotency key, which it uses also if the state does not exist.
	ClearOnce(ctx context.Context, key Key, once string) error
}
