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

// MostPlans is the number of plans that other processes may make obsolete before a change locks the rows.
const MostPlans = 10

// JoinedEffect is an effect that sees what an earlier effect of the same change has planned.
type JoinedEffect interface {
	store.Effect
	// Join returns one effect for both, nil if the effects are independent or not in the database.
	Join(earlier store.Effect, in func(db DB) bool) store.Effect
}

// JoinEffects joins the effects of a change that depend on each other.
func JoinEffects(all []store.Effect, in func(db DB) bool) []store.Effect {
	joined := make([]store.Effect, 0, len(all))
next:
	for _, e := range all {
		if next, ok := e.(JoinedEffect); ok {
			for i, earlier := range joined {
				if both := next.Join(earlier, in); both != nil {
					joined[i] = both
					continue next
				}
			}
		}
		joined = append(joined, e)
	}
	return joined
}

// effect implements store.Effect and PipelinedEffect.
type effect struct {
	db    DB
	apply func(tx Tx) error
	calls func() (order string, calls []Call) // may be nil
}

// NewEffect returns an effect that calls apply in the transaction of its change.
func NewEffect(db DB, apply func(tx Tx) error) store.Effect { return &effect{db: db, apply: apply} }

// NewPipelinedEffect is NewEffect for a PipelinedEffect that plans nothing. calls may be nil.
func NewPipelinedEffect(db DB, apply func(tx Tx) error, calls func() (order string, calls []Call)) store.Effect {
	return &effect{db, apply, calls}
}

// Apply implements store.Effect.
func (e *effect) Apply(tx any) error {
	t, err := TxOf(tx, e.db)
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

// TxOf returns the transaction in which an effect on a database is applied, or store.ErrForeignEffect.
func TxOf(tx any, db DB) (Tx, error) {
	if t, ok := tx.(EffectTx); ok && t.In(db) {
		return t, nil
	}
	return nil, store.ErrForeignEffect
}

// PlannedCalls is a Tx that collects the statements that write.
type PlannedCalls struct {
	Querier // nil if none of the statements reads
	Calls   []Call
}

// Exec implements Tx. It reports that no row was changed.
func (p *PlannedCalls) Exec(text string, args ...any) (int64, error) {
	p.Calls = append(p.Calls, Call{Text: text, Args: args})
	return 0, nil
}
