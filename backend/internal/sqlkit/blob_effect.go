package sqlkit

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
)

// blobEffect is a change of an owner's blobs. It implements store.Effect and PipelinedEffect.
type blobEffect struct {
	refs    *blobRefs
	owner   string
	changes []func(tx blob.Tx) error // several if effects are joined
}

// Effect implements blob.TransactionalRefs.
func (b *blobRefs) Effect(owner string, f func(tx blob.Tx) error) store.Effect {
	return &blobEffect{b, owner, []func(tx blob.Tx) error{f}}
}

// Apply implements store.Effect. It locks the owner until the end of the transaction.
func (e *blobEffect) Apply(tx any) error {
	t, err := effectTx(tx, e.refs.db)
	if err != nil {
		return err
	}
	return updateBlobs(t, e.owner, e.change)
}

func (e *blobEffect) change(tx blob.Tx) error {
	for _, f := range e.changes {
		if err := f(tx); err != nil {
			return err
		}
	}
	return nil
}

// Calls implements PipelinedEffect. A change that fails when it is planned has no statements, so that the
// caller uses Apply and gets its error.
func (e *blobEffect) Calls(ctx context.Context, in func(db DB) bool) (order string, calls []Call) {
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

// JoinEffects joins a change's effects on the blobs of one owner, if they are in the database: a plan knows the
// changes that it has planned, but not the changes of another plan.
func JoinEffects(all []store.Effect, in func(db DB) bool) []store.Effect {
	joined := make([]store.Effect, 0, len(all))
	for _, e := range all {
		next, ok := e.(*blobEffect)
		i := slices.IndexFunc(joined, func(e store.Effect) bool {
			earlier, blobs := e.(*blobEffect)
			return ok && blobs && in(earlier.refs.db) && in(next.refs.db) && earlier.owner == next.owner
		})
		if i < 0 {
			joined = append(joined, e)
			continue
		}
		earlier := joined[i].(*blobEffect)
		joined[i] = &blobEffect{next.refs, next.owner, slices.Concat(earlier.changes, next.changes)}
	}
	return joined
}
