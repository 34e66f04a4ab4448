package sqlite

import (
	"context"
	"slices"
	"sync"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/vector"
)

const sqlExisting = `SELECT id FROM {s}.vector_documents WHERE` + whereDocuments + inIDs

// maxRemovals limits the removals that an index has not followed. If there are more, the index reads the
// ids of all documents.
const maxRemovals = 64

// removal are documents that a transaction removes. It may be rolled back.
type removal struct {
	collection int64
	from       int64 // the count of removed documents before
	ids        []string
}

// removals are the last removals of documents from a collection, noted before their commits, so that
// its index need not read the ids of all documents.
type removals struct {
	mu  sync.Mutex
	all []removal
}

// noteRemoval notes a removal for the index of a collection if it is in memory. An index that is read
// later does not need it.
func (s *vectorIndexes) noteRemoval(k vector.Key, r removal) {
	s.mu.Lock()
	v := s.byKey[k]
	s.mu.Unlock()
	if v == nil || v.state.Load() == nil {
		return
	}
	v.removals.mu.Lock()
	defer v.removals.mu.Unlock()
	r.ids = slices.Clone(r.ids)
	v.removals.all = append(v.removals.all, r)
	if n := len(v.removals.all); n > maxRemovals {
		v.removals.all = slices.Delete(v.removals.all, 0, n-maxRemovals)
	}
}

// since returns the ids of the removals since the collection had from removed documents. ok is false if
// ids may be missing.
func (r *removals) since(collection, from int64) (ids []string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.all {
		if x.collection == collection {
			ok = ok || x.from <= from
			ids = append(ids, x.ids...)
		}
	}
	return ids, ok
}

// forget drops the removals before a count of removed documents. Later ones may not be committed yet.
func (r *removals) forget(collection, count int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = slices.DeleteFunc(r.all, func(x removal) bool { return x.collection != collection || x.from < count })
}

// applyRemovals removes the documents from an index that do not exist any more. count is the number of
// documents removed from the collection. The caller holds v.mu.
func (v *vectorIndex) applyRemovals(ctx context.Context, d documents, state *indexState, count int64) error {
	ids, ok := v.removals.since(state.id, state.removed)
	if ok {
		kept, err := d.existing(ctx, ids)
		if err != nil {
			return err
		}
		v.changes.Add(int64(state.index.Delete(slices.DeleteFunc(ids, func(id string) bool { return kept[id] }))))
	} else if err := state.index.Retain(func(keep func(id string)) error { return d.ids(ctx, keep) }); err != nil {
		return err
	}
	state.removed = count
	v.removals.forget(state.id, count)
	return nil
}

// existing returns the ids that have a document.
func (d documents) existing(ctx context.Context, ids []string) (map[string]bool, error) {
	found := make(map[string]bool)
	err := d.db.Read(ctx, func(q sqlkit.Querier) error {
		return q.Query(sqlExisting, func(r sqlkit.Row) error {
			found[r.Text(0)] = true
			return nil
		}, d.owner, d.collection.id, encodeIDs(ids))
	})
	return found, err
}
