package sqlite

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/vectordriver"
	"github.com/holdfast-dev/holdfast/store/vector/vectors"
	"github.com/holdfast-dev/holdfast/store/vector/vectorsql"
)

const (
	collectionColumns = ` name, metric, dimension, embedder, documents, id, seq, removed, snapshot `
	whereCollection   = ` owner = $1::text AND name = $2::text`
	whereDocuments    = ` owner = $1::text AND collection = $2::bigint`
	inIDs             = ` AND id IN (SELECT value FROM json_each($3::text))`

	sqlCollection       = `SELECT` + collectionColumns + `FROM {s}.vector_collections WHERE` + whereCollection
	sqlAddCollection    = `INSERT INTO {s}.vector_collections (owner, name, metric, dimension, embedder, documents, id, seq, removed, snapshot) VALUES ($1::text, $2::text, $3::text, $4::bigint, $5::text, 0, $6::bigint, 0, 0, 0)`
	sqlChangeCollection = `UPDATE {s}.vector_collections SET seq = $3::bigint, removed = $4::bigint, documents = $5::bigint WHERE` + whereCollection
	sqlDropCollection   = `DELETE FROM {s}.vector_collections WHERE` + whereCollection

	sqlCountDocuments = `SELECT count(*) FROM {s}.vector_documents WHERE` + whereDocuments + inIDs
	sqlSaveDocument   = `INSERT INTO {s}.vector_documents (owner, collection, id, seq, metadata, text, blocks, embedding)
		VALUES ($1::text, $2::bigint, $3::text, $4::bigint, $5::text, $6::text, $7::text, $8::bytea)
		ON CONFLICT (owner, collection, id) DO UPDATE SET seq = excluded.seq, metadata = excluded.metadata, text = excluded.text, blocks = excluded.blocks, embedding = excluded.embedding`
	sqlDeleteDocuments = `DELETE FROM {s}.vector_documents WHERE` + whereDocuments + inIDs
)

// Vectors returns the documents of the store. The stores that it returns share their documents.
func (s *Store) Vectors(cfg vector.Config) vector.Store { return newVectorStore(s.vectors, cfg) }

func newVectorStore(x *vectorIndexes, cfg vector.Config) *vectorStore {
	documents := vectorsql.NewDocuments(x.db, "d.embedding", decodeEmbedding, func() error { return nil })
	return &vectorStore{Documents: documents, db: x.db, indexes: x, cfg: cfg}
}

type vectorStore struct {
	*vectorsql.Documents
	db      sqlkit.DB
	indexes *vectorIndexes
	cfg     vector.Config
}

var (
	_ vector.Store         = (*vectorStore)(nil)
	_ vector.Lister        = (*vectorStore)(nil)
	_ vector.Forgetter     = (*vectorStore)(nil)
	_ vector.Transactional = (*vectorStore)(nil)
)

// collectionRow is a row of vector_collections.
type collectionRow struct {
	vector.Collection
	id, seq, removed, snapshot int64
}

func scanCollection(r sqlkit.Row) *collectionRow {
	return &collectionRow{vectorsql.ScanCollection(r), r.Int(5), r.Int(6), r.Int(7), r.Int(8)}
}

// readCollection returns a collection, nil if it does not exist.
func readCollection(q sqlkit.Querier, k vector.Key) (c *collectionRow, err error) {
	err = q.Query(sqlCollection, func(r sqlkit.Row) error {
		c = scanCollection(r)
		return nil
	}, k.Owner, k.Collection)
	return c, err
}

// collectionIn returns a collection of a database, nil if it does not exist.
func collectionIn(ctx context.Context, db sqlkit.DB, key vector.Key) (c *collectionRow, err error) {
	err = db.Read(ctx, func(q sqlkit.Querier) (err error) {
		c, err = readCollection(q, key)
		return err
	})
	return c, err
}

func encodeIDs(ids []string) string {
	text, _ := json.Marshal(ids) // strings
	return string(text)
}

func encodeEmbedding(v []float32) []byte {
	b := make([]byte, 4*len(v))
	for i, c := range v {
		binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(c))
	}
	return b
}

func decodeEmbedding(b []byte) []float32 {
	if len(b) == 0 {
		return nil
	}
	v := make([]float32, len(b)/4)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return v
}

// Add implements vector.Store.
func (s *vectorStore) Add(ctx context.Context, k vector.Key, p vector.WriteParams) ([]string, error) {
	return s.write(ctx, k, p, false)
}

// Upsert implements vector.Store.
func (s *vectorStore) Upsert(ctx context.Context, k vector.Key, p vector.WriteParams) ([]string, error) {
	return s.write(ctx, k, p, true)
}

func (s *vectorStore) write(ctx context.Context, k vector.Key, p vector.WriteParams, replace bool) ([]string, error) {
	w, err := s.prepare(ctx, k, p, replace)
	if err != nil {
		return nil, err
	}
	if err = s.db.Write(ctx, w.apply); err != nil {
		return nil, err
	}
	// The documents are stored. If the index cannot follow now, the next search repeats this.
	_, _, _ = s.indexes.current(context.WithoutCancel(ctx), w.Key)
	return w.IDs(), nil
}

// documentWrite is a write with its embeddings.
type documentWrite struct {
	*vectordriver.Write
	indexes *vectorIndexes
	replace bool
	id      int64 // of the collection if it is new
}

func (s *vectorStore) prepare(ctx context.Context, k vector.Key, p vector.WriteParams, replace bool) (*documentWrite, error) {
	w, err := vectordriver.NewWrite(k, p)
	if err != nil {
		return nil, err
	}
	c, err := collectionIn(ctx, s.db, w.Key)
	if err != nil {
		return nil, err
	}
	id := rand.Int64() //nolint:gosec // need not be secret
	return &documentWrite{w, s.indexes, replace, id}, w.Embed(ctx, s.cfg.Embedder, c.collection())
}

// collection returns the description of a collection, nil if c is nil.
func (c *collectionRow) collection() *vector.Collection {
	if c == nil {
		return nil
	}
	return &c.Collection
}

// admit returns the collection of a write, nil if it does not exist, and the number of documents that the
// write replaces, or the reason to reject the write. after describes the collection after the write.
func (w *documentWrite) admit(q sqlkit.Querier) (c *collectionRow, after vector.Collection, existing int64, err error) {
	if c, err = readCollection(q, w.Key); err != nil {
		return nil, after, 0, err
	}
	if after, err = w.Admit(c.collection()); err != nil || c == nil {
		return nil, after, 0, err
	}
	err = q.Query(sqlCountDocuments, func(r sqlkit.Row) error {
		existing = r.Int(0)
		return nil
	}, w.Key.Owner, c.id, encodeIDs(w.IDs()))
	if err == nil && existing > 0 && !w.replace {
		err = vector.ErrExists
	}
	return c, after, existing, err
}

// apply stores the documents of the write.
func (w *documentWrite) apply(tx sqlkit.Tx) error {
	c, after, existing, err := w.admit(tx)
	if err != nil {
		return err
	}
	if c == nil {
		c = &collectionRow{Collection: after, id: w.id}
		if _, err = tx.Exec(sqlAddCollection, w.Key.Owner, c.Name, string(c.Metric), c.Dimension, c.Embedder, c.id); err != nil {
			return err
		}
	}
	if err := w.indexes.removeDocuments(tx, w.Key, c, w.Remove); err != nil {
		return err
	}
	terms := w.indexes.terms(w.Key.Owner, c.id)
	if existing > 0 {
		if err := terms.Remove(tx, w.IDs()); err != nil {
			return err
		}
	}
	for i := range w.Rows {
		c.seq++
		r := &w.Rows[i]
		_, err := tx.Exec(sqlSaveDocument, w.Key.Owner, c.id, r.ID, c.seq, r.Metadata, r.Text, r.Blocks, encodeEmbedding(r.Embedding))
		if err == nil && r.Text != "" {
			err = terms.Add(tx, r.ID, r.Text)
		}
		if err != nil {
			return err
		}
	}
	c.Documents += int64(len(w.Rows)) - existing
	return changeCollection(tx, w.Key, c)
}

func changeCollection(tx sqlkit.Tx, k vector.Key, c *collectionRow) error {
	_, err := tx.Exec(sqlChangeCollection, k.Owner, k.Collection, c.seq, c.removed, c.Documents)
	return err
}

// removeDocuments removes the documents with the given ids that exist, and changes the counts of c.
func (s *vectorIndexes) removeDocuments(tx sqlkit.Tx, k vector.Key, c *collectionRow, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	if err := s.terms(k.Owner, c.id).Remove(tx, ids); err != nil {
		return err
	}
	n, err := tx.Exec(sqlDeleteDocuments, k.Owner, c.id, encodeIDs(ids))
	if err == nil && n > 0 {
		s.noteRemoval(k, removal{c.id, c.removed, ids})
		c.removed += n
		c.Documents -= n
	}
	return err
}

// terms returns the full-text index of a collection.
func (s *vectorIndexes) terms(owner string, collection int64) *vectorsql.Terms {
	return &vectorsql.Terms{DB: s.db, Owner: owner, Collection: collection}
}

// Delete implements vector.Store.
func (s *vectorStore) Delete(ctx context.Context, k vector.Key, ids []string) (removed int, err error) {
	k, err = vectordriver.CheckIDs(k, ids)
	if err != nil {
		return 0, err
	}
	err = s.db.Write(ctx, func(tx sqlkit.Tx) error {
		c, err := readCollection(tx, k)
		if err != nil {
			return err
		}
		if c == nil {
			return vector.ErrCollectionNotFound
		}
		before := c.removed
		if err := s.indexes.removeDocuments(tx, k, c, ids); err != nil {
			return err
		}
		removed = int(c.removed - before)
		return changeCollection(tx, k, c)
	})
	if err != nil {
		return 0, err
	}
	_, _, _ = s.indexes.current(context.WithoutCancel(ctx), k)
	return removed, nil
}

// Search implements vector.Store.
func (s *vectorStore) Search(ctx context.Context, k vector.Key, p vector.SearchParams) ([]vector.Results, error) {
	k, p, err := vectordriver.CheckSearch(k, p)
	if err != nil {
		return nil, err
	}
	c, index, err := s.indexes.current(ctx, k)
	if err != nil {
		return nil, err
	}
	search := vectors.Collection{Collection: c.Collection, Index: index, Documents: s.In(k.Owner, c.id, c.Documents)}
	return search.Search(ctx, s.cfg.Embedder, &p)
}
