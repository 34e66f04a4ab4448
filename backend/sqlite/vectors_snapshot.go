package sqlite

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/vector/ann"
	"github.com/holdfast-dev/holdfast/store/vector/vectors"
	"github.com/holdfast-dev/holdfast/store/vector/vectorsql"
)

const (
	sqlAddPart          = `INSERT INTO {s}.vector_snapshots (owner, collection, snapshot, part, data) VALUES ($1::text, $2::bigint, $3::bigint, $4::bigint, $5::bytea)`
	sqlReadPart         = `SELECT data FROM {s}.vector_snapshots WHERE` + whereDocuments + ` AND snapshot = $3::bigint AND part = $4::bigint`
	sqlSetSnapshot      = `UPDATE {s}.vector_collections SET snapshot = $3::bigint WHERE` + whereCollection + ` AND id = $4::bigint`
	sqlDropOldSnapshots = `DELETE FROM {s}.vector_snapshots WHERE` + whereDocuments + ` AND snapshot <> $3::bigint`
)

const (
	minSnapshot  = 10_000  // documents; fewer are read in less than a second
	snapshotPart = 1 << 20 // bytes
)

// snapshotMeta is the state of the collection that a snapshot has reached.
type snapshotMeta struct{ ID, Seq, Removed int64 }

// readSnapshot returns the index of the snapshot of a collection, nil if it is not valid.
func (s *vectorIndexes) readSnapshot(ctx context.Context, v *vectorIndex, c *collectionRow, cfg ann.Config) (*indexState, error) {
	r := &snapshotReader{ctx: ctx, db: s.db, owner: v.key.Owner, collection: c.id, snapshot: c.snapshot}
	index, text, err := vectors.ReadIndex(r, &c.Collection, cfg)
	var meta snapshotMeta
	if err == nil {
		err = json.Unmarshal(text, &meta)
	}
	switch {
	case r.err != nil:
		return nil, r.err
	case err == nil && meta.ID == c.id && meta.Seq <= c.seq && meta.Removed <= c.removed:
		return &indexState{c.id, meta.Seq, meta.Removed, index}, nil
	}
	s.log.Warn("the snapshot of a vector index is not valid; the index is built anew", "collection", c.Name, "error", err)
	return nil, nil
}

// maybeSave saves a snapshot in the background if a quarter of the documents has changed since the
// last one.
func (s *vectorIndexes) maybeSave(v *vectorIndex, c *collectionRow) {
	if s.noSnapshots || v.changes.Load() < max(int64(s.minSnapshot), c.Documents/4) || v.saving.Swap(true) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.saves.Go(func() {
		defer v.saving.Store(false)
		if err := v.state.Load().index.Settle(s.ctx); err != nil {
			return
		}
		if err := s.save(s.ctx, v); err != nil && s.ctx.Err() == nil {
			s.log.Warn("the snapshot of a vector index was not saved", "error", err)
		}
	})
}

// close ends the goroutines and saves snapshots of indexes that have changed.
func (s *vectorIndexes) close() {
	s.mu.Lock()
	closed, all := s.closed, slices.Collect(maps.Values(s.byKey))
	s.closed = true
	s.mu.Unlock()
	s.stop()
	s.saves.Wait()
	if closed || s.noSnapshots {
		return
	}
	for _, v := range all {
		if state := v.state.Load(); state == nil || v.changes.Load() == 0 || state.index.Len() < s.minSnapshot {
			continue
		}
		if err := s.save(context.Background(), v); err != nil {
			s.log.Warn("the snapshot of a vector index was not saved", "error", err)
		}
	}
}

// save saves the index of a collection. Until its last transaction, the previous snapshot remains valid.
// It does not save an index that has not changed, or that was dropped and may therefore miss removals.
func (s *vectorIndexes) save(ctx context.Context, v *vectorIndex) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.changes.Load() == 0 || s.dropped(v) {
		return nil
	}
	state := v.state.Load()
	meta, err := json.Marshal(snapshotMeta{state.id, state.seq, state.removed})
	if err != nil {
		return err
	}
	number := 1 + rand.Int64N(1<<62) //nolint:gosec // need not be secret
	w := &snapshotWriter{ctx: ctx, db: s.db, owner: v.key.Owner, collection: state.id, snapshot: number}
	if err := state.index.WriteSnapshot(w, meta); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	err = s.db.Write(ctx, func(tx sqlkit.Tx) error {
		n, err := tx.Exec(sqlSetSnapshot, v.key.Owner, v.key.Collection, w.snapshot, state.id)
		if err == nil && n == 0 { // the collection was deleted
			err = vectorsql.MarkDeleted(tx, v.key.Owner, state.id)
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(sqlDropOldSnapshots, v.key.Owner, state.id, w.snapshot)
		return err
	})
	if err == nil {
		v.changes.Store(0)
	}
	return err
}

// snapshotWriter stores what is written to it in parts.
type snapshotWriter struct {
	ctx                  context.Context // the context of the call
	db                   sqlkit.DB
	owner                string
	collection, snapshot int64
	part                 int
	buf                  []byte
}

func (w *snapshotWriter) Write(p []byte) (int, error) {
	w.buf = append(w.buf, p...)
	for len(w.buf) >= snapshotPart {
		if err := w.store(w.buf[:snapshotPart]); err != nil {
			return 0, err
		}
		w.buf = append(w.buf[:0], w.buf[snapshotPart:]...)
	}
	return len(p), nil
}

func (w *snapshotWriter) flush() error { return w.store(w.buf) }

func (w *snapshotWriter) store(data []byte) error {
	err := w.db.Write(w.ctx, func(tx sqlkit.Tx) error {
		_, err := tx.Exec(sqlAddPart, w.owner, w.collection, w.snapshot, w.part, data)
		return err
	})
	w.part++
	return err
}

// snapshotReader reads what a snapshotWriter stored.
type snapshotReader struct {
	ctx                  context.Context // the context of the call
	db                   sqlkit.DB
	owner                string
	collection, snapshot int64
	part                 int
	buf                  []byte
	err                  error // of the database
}

func (r *snapshotReader) Read(p []byte) (int, error) {
	for len(r.buf) == 0 {
		found := false
		err := r.db.Read(r.ctx, func(q sqlkit.Querier) error {
			return q.Query(sqlReadPart, func(row sqlkit.Row) error {
				r.buf, found = row.Bytes(0), true
				return nil
			}, r.owner, r.collection, r.snapshot, r.part)
		})
		if err != nil {
			r.err = err
			return 0, err
		}
		if r.part++; !found {
			return 0, io.EOF
		}
	}
	n := copy(p, r.buf)
	r.buf = r.buf[n:]
	return n, nil
}
