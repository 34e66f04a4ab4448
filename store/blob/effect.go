package blob

import (
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Transactional is implemented by stores that can change rows as part of a change of a task; see
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

// effect returns an effect on a blob. With ifExists it does nothing if the blob does not exist.
func (b *Blobs) effect(owner, ref string, ifExists bool, f func(tx Tx, row *RefRow, now time.Time) error) (store.Effect, error) {
	refs, ok := b.refs.(TransactionalRefs)
	if !ok {
		return nil, a2a.Errorf(a2a.CodeUnsupported, "blob: rows cannot be changed with a task")
	}
	if err := checkRef(owner, ref); err != nil {
		return nil, err
	}
	apply := b.onRef(ref, f)
	return refs.Effect(owner, func(tx Tx) error {
		err := apply(tx)
		if ifExists && errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	}), nil
}

// PinEffect implements Transactional.
func (b *Blobs) PinEffect(owner, ref, holder string) (store.Effect, error) {
	if err := checkHolder(holder); err != nil {
		return nil, err
	}
	return b.effect(owner, ref, false, pin(holder))
}

// UnpinEffect implements Transactional.
func (b *Blobs) UnpinEffect(owner, ref, holder string) (store.Effect, error) {
	if err := checkHolder(holder); err != nil {
		return nil, err
	}
	return b.effect(owner, ref, true, unpin(holder))
}

// DeleteEffect implements Transactional.
func (b *Blobs) DeleteEffect(owner, ref string) (store.Effect, error) {
	return b.effect(owner, ref, true, removeRef)
}
