package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// sessionRecords returns the changes that remove the state and the boards of a context as they
// are now. They do not remove the state and the boards of a later context with the same id.
func (d *deletions) sessionRecords(ctx context.Context, key store.ContextKey) ([]store.RecordChange, error) {
	records := store.NewUpdater(d.cfg.Store)
	boards, err := board.New(board.Config{Records: records, Now: d.cfg.clock})
	if err != nil {
		return nil, err
	}
	all, err := boards.List(ctx, key.Owner, key.ID)
	if err != nil {
		return nil, err
	}
	var changes []store.RecordChange
	for i := range all {
		changes = append(changes, store.RecordChange{Namespace: board.Namespace, Key: all[i].ID, Version: all[i].Version, Delete: true})
	}
	k, err := memory.Key{Owner: key.Owner, Agent: d.cfg.agentKey(), Session: key.ID}.RecordKey()
	if err != nil {
		return nil, err
	}
	if r, err := records.ReadRecord(ctx, k); err != nil {
		return nil, err
	} else if r.Version > 0 { // an empty value that has expired, as memory.ShortTerm.Clear stores it
		changes = append(changes, store.RecordChange{Namespace: k.Namespace, Key: k.Key, Version: r.Version, Expires: d.cfg.clock()})
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

// clearSession removes the data of a context in stores of contracts.
// If another process completes the deletion at the same time and the context is created again at
// once, it may clear the new one.
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
