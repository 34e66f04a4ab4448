package engine

import (
	"context"
	"errors"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/memory"
)

// sessionRecords returns the changes that remove the state and the boards of a context as they
// are now. They do not remove those of a later context with the same id.
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

// removeRecords applies changes of sessionRecords after the context was deleted. A record that it
// cannot remove expires.
func (d *deletions) removeRecords(ctx context.Context, key store.ContextKey, changes []store.RecordChange) {
	for _, c := range changes {
		err := d.cfg.Store.SaveRecords(ctx, key.Owner, c)
		if err != nil && !errors.Is(err, store.ErrRecordConflict) {
			d.log.Warn("removing the state of a deleted context failed", "context", key.ID, "error", err)
		}
	}
}
