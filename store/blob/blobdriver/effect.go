package blobdriver

import (
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
)

var _ blob.Transactional = (*Blobs)(nil)

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
		if ifExists && errors.Is(err, blob.ErrNotFound) {
			return nil
		}
		return err
	}), nil
}

// PinEffect implements [blob.Transactional].
func (b *Blobs) PinEffect(owner, ref, holder string) (store.Effect, error) {
	if err := checkHolder(holder); err != nil {
		return nil, err
	}
	return b.effect(owner, ref, false, pin(holder))
}

// UnpinEffect implements [blob.Transactional].
func (b *Blobs) UnpinEffect(owner, ref, holder string) (store.Effect, error) {
	if err := checkHolder(holder); err != nil {
		return nil, err
	}
	return b.effect(owner, ref, true, unpin(holder))
}

// DeleteEffect implements [blob.Transactional].
func (b *Blobs) DeleteEffect(owner, ref string) (store.Effect, error) {
	return b.effect(owner, ref, true, removeRef)
}
