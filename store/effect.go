package store

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
)

// Effect is a write to another contract of a store, such as an append to a transcript, as part
// of a change of a task. The store applies it in the transaction of the change: both are stored,
// or neither is. The contract that makes an effect has checked its arguments. An effect may be
// part of several changes, of which at most one should be applied.
type Effect interface {
	// Apply applies the effect. Only the store that made the effect calls it, with its own kind of
	// transaction. A store may call it several times for one change, and uses the last call. An
	// error that is not one of the database rejects the change.
	Apply(tx any) error
}

// EffectError is the error of a change that is rejected because one of its effects failed.
type EffectError struct {
	// Index is the position of the effect in Change.Effects.
	Index int
	// Err is the error of the effect.
	Err error
}

func (e *EffectError) Error() string { return fmt.Sprintf("effect %d: %v", e.Index, e.Err) }

// Unwrap returns the error of the effect.
func (e *EffectError) Unwrap() error { return e.Err }

// ErrForeignEffect is the error of an effect that another store has made.
var ErrForeignEffect error = a2a.Errorf(a2a.CodeInternal, "effect was made by another store")

// ApplyEffects applies the effects of a change in a transaction. It returns the first failure as
// an *EffectError.
func (c *Change) ApplyEffects(tx any) error {
	for i, e := range c.Effects {
		if err := e.Apply(tx); err != nil {
			return &EffectError{Index: i, Err: err}
		}
	}
	return nil
}
