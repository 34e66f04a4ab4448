package blobsql

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob/blobdriver"
)

// blobEffect is a change of an owner's blobs. It implements store.Effect and PipelinedEffect.
type blobEffect struct {
	refs    *blobRefs
	owner   string
	changes []func(tx blobdriver.Tx) error // several if effects are joined
}

// Effect implements blobdriver.TransactionalRefs.
func (b *blobRefs) Effect(owner string, f func(tx blobdriver.Tx) error) store.Effect {
	return &blobEffect{b, owner, []func(tx blobdriver.Tx) error{f}}
}

// Apply implements store.Effect. It locks the owner until the end of the transaction.
func (e *blobEffect) Apply(tx any) error {
	t, err := sqlkit.TxOf(tx, e.refs.db)
	if err != nil {
		return err
	}
	return updateBlobs(t, e.owner, e.change)
}

func (e *blobEffect) change(tx blobdriver.Tx) error {
	for _, f := range e.changes {
		if err := f(tx); err != nil {
			return err
		}
	}
	return nil
}

// Calls implements PipelinedEffect. A change that fails when it is planned has no statements, so that the
// caller uses Apply and gets its error.
func (e *blobEffect) Calls(ctx context.Context, in func(db sqlkit.DB) bool) (order string, calls []sqlkit.Call) {
	if !in(e.refs.db) {
		return "", nil
	}
	calls, err := e.refs.plan(ctx, e.owner, true, e.change)
	if err != nil {
		return "", nil
	}
	return e.Planned(), calls
}

// Planned implements PipelinedEffect.
func (e *blobEffect) Planned() string { return plannedBlobs(e.owner) }

// Join implements JoinedEffect: a plan knows the changes that it has planned, but not the changes of another plan.
func (e *blobEffect) Join(earlier store.Effect, in func(db sqlkit.DB) bool) store.Effect {
	before, ok := earlier.(*blobEffect)
	if !ok || before.owner != e.owner || !in(before.refs.db) || !in(e.refs.db) {
		return nil
	}
	return &blobEffect{e.refs, e.owner, slices.Concat(before.changes, e.changes)}
}
