// Package boards connects task boards to the server; see package contract.
package boards

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// Kind is the contract of boards. They are records of the store of tasks.
var Kind = &contract.Kind{Name: "boards", Retention: Retention, SessionRecords: sessionRecords}

// Retention is the kind of the server's retention that boards have. It is also the kind of session
// states.
const Retention = "state"

func sessionRecords(ctx context.Context, r store.RecordUpdater, s contract.Session, now func() time.Time) (changes []store.RecordChange, err error) {
	boards, err := board.New(board.Config{Records: r, Now: now})
	if err != nil {
		return nil, err
	}
	all, err := boards.List(ctx, s.Owner, s.ID)
	for i := range all {
		changes = append(changes, store.RecordChange{Namespace: board.Namespace, Key: all[i].ID, Version: all[i].Version, Delete: true})
	}
	return changes, err
}
