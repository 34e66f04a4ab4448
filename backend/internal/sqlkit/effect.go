package sqlkit

import (
	"context"

	"github.com/holdfast-dev/holdfast/store"
)

// EffectTx is the transaction of a change of a task, in which the effects of contracts are applied.
type EffectTx interface {
	Tx
	// In reports whether the transaction is one of a database.
	In(db DB) bool
}

// PipelinedEffect is an effect that may be statements of a Pipeliner instead.
type PipelinedEffect interface {
	// Calls returns the statements and their order, see Pipeliner. in reports whether they will run in a
	// database. If Calls returns none, or if a guard of one fails, the caller uses Apply.
	Calls(ctx context.Context, in func(db DB) bool) (order string, calls []Call)
	// Planned returns a name of the rows that Calls reads, "" if it reads none. Changes of these rows make the
	// statements obsolete. So callers of one process wait for each other, and call Calls again if a guard fails.
	Planned() string
}

// effect implements store.Effect and PipelinedEffect.
type effect struct {
	db    DB
	apply func(tx Tx) error
	calls func() (order string, calls []Call) // may be nil
}

// NewEffect returns an effect that calls apply in the transaction of its change.
func NewEffect(db DB, apply func(tx Tx) error) store.Effect { return &effect{db: db, apply: apply} }

// Apply implements store.Effect.
func (e *effect) Apply(tx any) error {
	t, err := effectTx(tx, e.db)
	if err != nil {
		return err
	}
	return e.apply(t)
}

// Calls implements PipelinedEffect.
func (e *effect) Calls(_ context.Context, in func(db DB) bool) (order string, calls []Call) {
	if e.calls == nil || !in(e.db) {
		return "", nil
	}
	return e.calls()
}

// Planned implements PipelinedEffect.
func (*effect) Planned() string { return "" }

// effectTx returns the transaction in which an effect is applied, or store.ErrForeignEffect.
func effectTx(tx any, db DB) (Tx, error) {
	if t, ok := tx.(EffectTx); ok && t.In(db) {
		return t, nil
	}
	return nil, store.ErrForeignEffect
}
