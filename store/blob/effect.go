package blob

import (
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Transactional is implemented by stores whose changes of rows can be part of a change of a task; see
// [store.Effect]. The methods return an error if their arguments are invalid, or if the rows do not
// belong to such a store.
type Transactional interface {
	// PinEffect pins a blob like Pin. Applying it fails with [ErrNotFound] or [ErrHolders].
	PinEffect(owner, ref, holder string) (store.Effect, error)
	// UnpinEffect unpins a blob like Unpin, and DeleteEffect removes one like Delete. A blob that does
	// not exist is no error.
	UnpinEffect(owner, ref, holder string) (store.Effect, error)
	DeleteEffect(owner, ref string) (store.Effect, error)
}

var _ Transactional = (*Blobs)(nil)

// effect is a change of the rows of an owner. It implements store.Effect.
type effect struct {
	refs  TransactionalRefs
	owner string
	apply func(tx Tx) error
}

// Apply implements store.Effect.
func (e *effect) Apply(tx any) error { return e.refs.UpdateIn(tx, e.owner, e.apply) }

func (b *Blobs) effect(owner, ref string, f func(tx Tx, row *RefRow, now time.Time) error) (*effect, error) {
	refs, ok := b.refs.(TransactionalRefs)
	if !ok {
		return nil, a2a.Errorf(a2a.CodeUnsupported, "blob: rows cannot be changed with a task")
	}
	if err := checkRef(owner, ref); err != nil {
		return nil, err
	}
	return &effect{refs, owner, b.onRef(ref, f)}, nil
}

// PinEffect implements Transactional.
func (b *Blobs) PinEffect(owner, ref, holder string) (store.Effect, error) {
	if err := checkHolder(holder); err != nil {
		return nil, err
	}
	return b.effect(owner, ref, pin(holder))
}

// UnpinEffect implements Transactional.
func (b *Blobs) UnpinEffect(owner, ref, holder string) (store.Effect, error) {
	if err := checkHolder(holder); err != nil {
		return nil, err
	}
	e, err := b.effect(owner, ref, unpin(holder))
	return e.ignoreNotFound(), err
}

// DeleteEffect implements Transactional.
func (b *Blobs) DeleteEffect(owner, ref string) (store.Effect, error) {
	e, err := b.effect(owner, ref, removeRef)
	return e.ignoreNotFound(), err
}

// ignoreNotFound returns an effect that does nothing if the blob does not exist.
func (e *effect) ignoreNotFound() store.Effect {
	if e == nil {
		return nil
	}
	apply := e.apply
	e.apply = func(tx Tx) error {
		err := apply(tx)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	}
	return e
}
