package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// sessionRecords returns the changes that remove the current records of a context, such as its boards. The changes do
// not remove the records of a later context with the same id.
func (d *deletions) sessionRecords(ctx context.Context, key store.ContextKey) ([]store.RecordChange, error) {
	var changes []store.RecordChange
	for _, kind := range d.cfg.Contracts.kinds() {
		if kind.SessionRecords == nil {
			continue
		}
		more, err := kind.SessionRecords(ctx, store.NewUpdater(d.cfg.Store), d.cfg.session(key), d.cfg.clock)
		if err != nil {
			return nil, err
		}
		changes = append(changes, more...)
	}
	return changes, nil
}

// removeRecords applies changes of sessionRecords. A record that was changed since then remains
// until it expires.
func (d *deletions) removeRecords(ctx context.Context, key store.ContextKey, changes []store.RecordChange) error {
	for _, c := range changes {
		if err := d.cfg.Store.SaveRecords(ctx, key.Owner, c); err != nil && !errors.Is(err, store.ErrRecordConflict) {
			return err
		}
	}
	return nil
}

// errContractStore is the error of a store of [Contracts].
var errContractStore error = a2a.Errorf(a2a.CodeUnavailable, "a store of the agent's data is not available; the context is removed later")

// clearSession removes the data of a context in stores of contracts. If another process completes
// the deletion at the same time and the context is created again at once, clearSession may remove
// the data of the new context.
func (d *deletions) clearSession(ctx context.Context, key store.ContextKey) error {
	ctx, cancel := context.WithTimeout(ctx, contractTimeout)
	defer cancel()
	err := d.cfg.Contracts.each(func(s contract.Store) error {
		if clearer, ok := s.(contract.Clearer); ok {
			return clearer.ClearSession(ctx, d.cfg.session(key))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%w: %w", errContractStore, err)
	}
	return nil
}
