package sqlite

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/ann"
	"github.com/holdfast-dev/holdfast/store/vector/vectors"
)

const (
	sqlDocumentsAfter = `SELECT id, metadata, embedding, seq FROM {s}.vector_documents WHERE` + whereDocuments + ` AND seq > $3::bigint ORDER BY seq LIMIT $4::bigint`
	sqlDocumentIDs    = `SELECT id FROM {s}.vector_documents WHERE` + whereDocuments
	sqlEmbeddings     = `SELECT id, embedding FROM {s}.vector_documents WHERE` + whereDocuments + inIDs
	sqlMetadata       = `SELECT id, metadata FROM {s}.vector_documents WHERE` + whereDocuments
)

const (
	followPage = 1000 // documents per read
	// keepEmbeddings limits the float32 vectors of a collection in memory, in bytes. If all vectors need
	// more, the index keeps none and reads them for each search.
	keepEmbeddings = 256 << 20
)

// vectorIndexes holds the indexes of collections. The rows of the database are the truth: an index
// follows them by their sequences, before a search and after a write, so it needs no recovery.
type vectorIndexes struct {
	db          sqlkit.DB
	noSnapshots bool
	log         *slog.Logger
	cfg         ann.Config // without dimension, metric and source

	mu     sync.Mutex
	byKey  map[vector.Key]*vectorIndex
	memory vectorMemory
	closed bool
	// saves are the goroutines that save snapshots and remove rows until stop is called.
	saves sync.WaitGroup
	ctx   context.Context // the context of saves
	stop  context.CancelFunc
	// minSnapshot is the number of documents from which snapshots are saved.
	minSnapshot int
}

// newVectorIndexes returns the indexes of a database with a limit of memory. If the database is read-only, or in memory,
// they have no snapshots.
func newVectorIndexes(db sqlkit.DB, limit int64, noSnapshots bool, log *slog.Logger) *vectorIndexes {
	ctx, stop := context.WithCancel(context.Background())
	return &vectorIndexes{
		db: db, noSnapshots: noSnapshots, log: log, cfg: ann.Config{KeepBytes: keepEmbeddings}, byKey: make(map[vector.Key]*vectorIndex),
		ctx: ctx, stop: stop, minSnapshot: minSnapshot, memory: vectorMemory{limit: limit},
	}
}

// start removes, in the background, the rows of deleted collections that an earlier process has left.
func (s *vectorIndexes) start() {
	s.saves.Go(func() {
		if err := s.removeDeleted(s.ctx, ""); err != nil && s.ctx.Err() == nil {
			s.log.Warn("the documents of deleted collections were not removed", "error", err)
		}
	})
}

// vectorIndex is the index of a collection.
type vectorIndex struct {
	key     vector.Key
	mu      sync.Mutex // held while the index changes
	state   atomic.Pointer[indexState]
	changes atomic.Int64 // since the last snapshot
	saving  atomic.Bool

	removals removals
	use      vectorUse // guarded by the lock of vectorIndexes
}

// indexState is an index with the state of the collection that it has reached.
type indexState struct {
	id, seq, removed int64
	index            *ann.Index
}

func (s *indexState) reached(c *collectionRow) bool {
	return s != nil && s.id == c.id && s.seq >= c.seq && s.removed >= c.removed
}

func (s *vectorIndexes) get(k vector.Key) *vectorIndex {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.byKey[k]
	if v == nil {
		v = &vectorIndex{key: k}
		s.byKey[k] = v
	}
	return v
}

func (s *vectorIndexes) drop(k vector.Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.byKey[k]; v != nil {
		s.memory.remove(v)
		delete(s.byKey, k)
	}
}

// current returns a collection and its index, which has all documents stored before the call. The index
// is nil if the collection is lexical. The error is [vector.ErrCollectionNotFound] if there is none.
func (s *vectorIndexes) current(ctx context.Context, k vector.Key) (*collectionRow, *ann.Index, error) {
	c, err := collectionIn(ctx, s.db, k)
	if err != nil {
		return nil, nil, err
	}
	if c == nil {
		return nil, nil, vector.ErrCollectionNotFound
	}
	if c.Dimension == 0 {
		return c, nil, nil
	}
	v := s.get(k)
	if state := v.state.Load(); state.reached(c) {
		s.used(v, state.index)
		return c, state.index, nil
	}
	c, index, err := s.follow(ctx, v)
	if err == nil && index != nil {
		s.maybeSave(v, c)
	}
	return c, index, err
}

// follow is current for an index that has not reached its collection.
func (s *vectorIndexes) follow(ctx context.Context, v *vectorIndex) (*collectionRow, *ann.Index, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c, err := collectionIn(ctx, s.db, v.key)
	if err != nil {
		return nil, nil, err
	}
	if c == nil {
		return nil, nil, vector.ErrCollectionNotFound
	}
	if c.Dimension == 0 { // another collection of this name
		return c, nil, nil
	}
	if err := s.catchUp(ctx, v, c); err != nil {
		return nil, nil, err
	}
	index := v.state.Load().index
	s.used(v, index)
	return c, index, nil
}

// catchUp adds the documents that the index lacks, and removes the ones that do not exist any more. The
// caller holds v.mu.
func (s *vectorIndexes) catchUp(ctx context.Context, v *vectorIndex, c *collectionRow) error {
	old := v.state.Load()
	if old.reached(c) {
		return nil
	}
	loading := old == nil || old.id != c.id
	if loading {
		var err error
		if old, err = s.load(ctx, v, c); err != nil {
			return err
		}
	}
	state := *old
	d := documents{s.db, v.key.Owner, c}
	for more := true; more; {
		items, last, err := d.after(ctx, state.seq)
		if err != nil {
			return err
		}
		if more = len(items) == followPage; len(items) > 0 {
			change := state.index.Upsert
			if loading {
				change = state.index.Load
			}
			if err := change(items); err != nil {
				return err
			}
			state.seq = last
			v.changes.Add(int64(len(items)))
		}
	}
	if state.removed != c.removed {
		if err := v.applyRemovals(ctx, d, &state, c.removed); err != nil {
			return err
		}
	}
	state.seq = max(state.seq, c.seq)
	v.state.Store(&state)
	return nil
}

// load returns the index in the snapshot of the collection, or an empty index.
func (s *vectorIndexes) load(ctx context.Context, v *vectorIndex, c *collectionRow) (*indexState, error) {
	cfg := s.cfg
	cfg.Source = documents{s.db, v.key.Owner, c}
	cfg.KeepBytes = min(cfg.KeepBytes, s.memory.limit/4)
	if c.Documents*int64(c.Dimension)*4 > cfg.KeepBytes {
		cfg.KeepBytes = 0
	}
	v.changes.Store(0)
	if c.snapshot != 0 {
		state, err := s.readSnapshot(ctx, v, c, cfg)
		if state != nil || err != nil {
			return state, err
		}
	}
	index, err := vectors.NewIndex(&c.Collection, cfg)
	return &indexState{id: c.id, removed: c.removed, index: index}, err // it reads no removed documents
}

// documents reads the documents of a collection for its index. It implements ann.Source.
type documents struct {
	db         sqlkit.DB
	owner      string
	collection *collectionRow
}

// after returns up to followPage documents that were written after a sequence, and the sequence of
// the last one.
func (d documents) after(ctx context.Context, seq int64) (items []ann.Item, last int64, err error) {
	err = d.db.Read(ctx, func(q sqlkit.Querier) error {
		items = nil
		return q.Query(sqlDocumentsAfter, func(r sqlkit.Row) error {
			items = append(items, ann.Item{ID: r.Text(0), Attr: jsonobject.Decode(r.Text(1)), Vector: decodeEmbedding(r.Bytes(2))})
			last = r.Int(3)
			return nil
		}, d.owner, d.collection.id, seq, followPage)
	})
	return items, last, err
}

// ids calls each with the ids of all documents.
func (d documents) ids(ctx context.Context, each func(id string)) error {
	return d.db.Read(ctx, func(q sqlkit.Querier) error {
		return q.Query(sqlDocumentIDs, func(r sqlkit.Row) error {
			each(r.Text(0))
			return nil
		}, d.owner, d.collection.id)
	})
}

// Vectors implements ann.Source.
func (d documents) Vectors(ctx context.Context, ids []string, each func(i int, v []float32)) error {
	at := make(map[string]int, len(ids))
	for i, id := range ids {
		at[id] = i
	}
	return d.db.Read(ctx, func(q sqlkit.Querier) error {
		return q.Query(sqlEmbeddings, func(r sqlkit.Row) error {
			each(at[r.Text(0)], decodeEmbedding(r.Bytes(1)))
			return nil
		}, d.owner, d.collection.id, encodeIDs(ids))
	})
}

// Attrs implements ann.Source.
func (d documents) Attrs(ctx context.Context, each func(id string, attr any)) error {
	return d.db.Read(ctx, func(q sqlkit.Querier) error {
		return q.Query(sqlMetadata, func(r sqlkit.Row) error {
			each(r.Text(0), jsonobject.Decode(r.Text(1)))
			return nil
		}, d.owner, d.collection.id)
	})
}
