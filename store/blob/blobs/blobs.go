// Package blobs connects stores of blobs to the server; see package contract.
package blobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/internal/fileref"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/blob"
	"github.com/holdfast-dev/holdfast/store/blob/blobsql"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// Kind is the contract of blobs.
var Kind = &contract.Kind{
	Name:    "blobs",
	Setting: "store-blob",
	Part: func(tasks any, p contract.PartParams) contract.Store {
		if b := blobsql.Of(tasks, blob.Config{Now: p.Now}); b != nil {
			return Of(b)
		}
		return nil
	},
	Lasting: []error{blob.ErrNotFound, blob.ErrSize, blob.ErrDigest, blob.ErrTooLarge, blob.ErrRange, blob.ErrHolders, blob.ErrConflict},
	Counts:  []string{countBlobs, countBytes},
	Lines: []contract.LineType{
		{Name: typeBlob, Counts: countBlobs},
		{Name: typeChunk, After: []string{typeBlob, typeChunk}},
	},
	Scan:        func(owner string) contract.Scanner { return new(scanner) },
	LeftByTasks: true,
	Later:       "a running server removes the contents of the blobs after their grace period",
}

// Names of counts.
const (
	countBlobs = "blobs"
	countBytes = "blobBytes"
)

// Of returns a store of blobs as a store of its contract, nil for nil.
func Of(s blob.Store) contract.Store {
	if s == nil {
		return nil
	}
	return &blobs{s}
}

// In returns the store of blobs among the stores of contracts, nil if there is none.
func In(stores []contract.Store) blob.Store { return contract.In[blob.Store](stores, Kind) }

// blobs implements [contract.Store], [contract.Sweeper] and [contract.Remover].
type blobs struct{ blob.Store }

func (*blobs) Kind() *contract.Kind { return Kind }

func (b *blobs) Unwrap() any { return b.Store }

const page = 100

func (b *blobs) Forget(ctx context.Context, owner string, removed func(count string, n int64)) error {
	for {
		found, err := b.List(ctx, blob.ListParams{Owner: owner, Limit: page})
		if err != nil || len(found.Blobs) == 0 {
			return err
		}
		for i := range found.Blobs {
			one := &found.Blobs[i]
			switch err := b.Delete(ctx, owner, one.Ref); {
			case err == nil:
				removed(countBlobs, 1)
				removed(countBytes, one.Size)
			case !errors.Is(err, blob.ErrNotFound):
				return fmt.Errorf("blob %s: %w", one.Ref, err)
			}
		}
	}
}

// orphanBatch is the number of objects that a batch of the sweep of orphans checks.
const orphanBatch = 1000

func (b *blobs) Sweeps() []contract.Sweep {
	s, ok := b.Store.(blob.Maintenance)
	if !ok {
		return nil
	}
	var after blob.Object // wraps around
	return []contract.Sweep{
		{Kind: Kind.Name, Batch: func(ctx context.Context, now time.Time) (int, bool, error) {
			swept, err := s.Sweep(ctx, now, contract.SweepBatch)
			return swept.Blobs, swept.More, err
		}},
		{Kind: "orphaned blob content", Batch: func(ctx context.Context, now time.Time) (int, bool, error) {
			found, err := s.RemoveOrphans(ctx, now, after, orphanBatch)
			if after = found.Next; !found.More {
				after = blob.Object{}
			}
			return found.Removed, false, err
		}},
	}
}

// RemoveTask implements [contract.Remover]: it releases the pins of a removed task. If a task with
// the same key has been created meanwhile, it pins the blobs of that task again.
func (b *blobs) RemoveTask(ctx context.Context, r *contract.Removal) error {
	if r.Moved {
		return nil
	}
	holder := fileref.Holder(r.TaskID)
	if err := b.UnpinAll(ctx, r.Owner, holder); err != nil {
		return err
	}
	t, err := r.Task(ctx) // created while the pins were released
	if err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	}
	for _, ref := range fileref.TaskRefs(t) {
		if err := b.Pin(ctx, r.Owner, ref, holder); err != nil && !errors.Is(err, blob.ErrNotFound) {
			return err
		}
	}
	return nil
}
