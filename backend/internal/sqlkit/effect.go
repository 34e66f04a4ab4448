package sqlkit

import "github.com/holdfast-dev/holdfast/store"

// EffectTx is the transaction of a change of a task, in which the effects of contracts are applied.
type EffectTx interface {
	Tx
	// In reports whether the transaction is one of a database.
	In(db DB) bool
}

// effect implements store.Effect.
type effect struct {
	db    DB
	apply func(tx Tx) error
}

// NewEffect returns an effect that calls apply in the transaction of its change.
func NewEffect(db DB, apply func(tx Tx) error) store.Effect { return &effect{db, apply} }

// Apply implements store.Effect.
func (e *effect) Apply(tx any) error {
	t, err := effectTx(tx, e.db)
	if err != nil {
		return err
	}
	return e.apply(t)
}

// effectTx returns the transaction in which an effect is applied, or store.ErrForeignEffect.
func effectTx(tx any, db DB) (Tx, error) {
	if t, ok := tx.(EffectTx); ok && t.In(db) {
		return t, nil
	}
	return nil, store.ErrForeignEffect
}
