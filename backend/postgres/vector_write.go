package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/vectordriver"
	"github.com/holdfast-dev/holdfast/store/vector/vectorsql"
)

// Writers of a collection lock its row in a mode that only excludes its deletion, store their
// documents in the order of ids, and count them last. So they wait for each other only for the same
// documents, and at the end.
const (
	sqlShareCollection = sqlReadCollection + ` FOR KEY SHARE`
	sqlLockCollection  = sqlReadCollection + ` FOR UPDATE`
	sqlAddCollection   = `INSERT INTO {s}.vector_collections (owner, name, id, metric, dimension, embedder, documents, indexed)
		VALUES ($1::text, $2::text, $3::bigint, $4::text, $5::bigint, $6::text, 0, '') ON CONFLICT (owner, name) DO NOTHING`
	sqlCountWritten = `UPDATE {s}.vector_collections SET documents = documents + $3::bigint WHERE` + whereCollection + ` RETURNING documents, indexed`

	newDocuments = `SELECT * FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[]) AS u(id, metadata, attributes, text, blocks, embedding, terms)`
	// sqlInsertDocuments returns the ids of the documents that did not exist.
	sqlInsertDocuments = `INSERT INTO {s}.vector_documents (owner, collection, id, metadata, attributes, text, blocks, embedding, terms)
		SELECT $1::text, $2::bigint, u.id, u.metadata, u.attributes::jsonb, u.text, u.blocks, nullif(u.embedding, '')::{v}.vector, u.terms::tsvector FROM (` + newDocuments + `) u
		ON CONFLICT (owner, collection, id) DO NOTHING RETURNING id`
	// sqlUpdateDocuments returns the ids of the documents that existed.
	sqlUpdateDocuments = `UPDATE {s}.vector_documents d SET metadata = u.metadata, attributes = u.attributes::jsonb, text = u.text, blocks = u.blocks,
			embedding = nullif(u.embedding, '')::{v}.vector, terms = u.terms::tsvector
		FROM (` + newDocuments + `) u WHERE` + whereDocuments + ` AND d.id = u.id RETURNING d.id`
	sqlRemoveDocuments = `DELETE FROM {s}.vector_documents d WHERE` + whereDocuments + ` AND d.id = ANY ($3::text[])`
	sqlHasDocument     = `SELECT 1 FROM {s}.vector_documents d WHERE` + whereDocuments + ` AND d.id = ANY ($3::text[]) LIMIT 1`
)

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
	if err := s.kit.Write(ctx, w.apply); err != nil {
		return nil, err
	}
	if w.large {
		s.indexes.notify()
	}
	return w.IDs(), nil
}

// documentWrite is a write with its embeddings.
type documentWrite struct {
	*vectordriver.Write
	indexes *vectorIndexes
	replace bool
	id      int64 // of the collection if it is new
	large   bool  // the collection needs an index
}

func (s *vectorStore) prepare(ctx context.Context, k vector.Key, p vector.WriteParams, replace bool) (*documentWrite, error) {
	w, err := vectordriver.NewWrite(k, p)
	if err != nil {
		return nil, err
	}
	c, err := s.collection(ctx, w.Key)
	if err != nil {
		return nil, err
	}
	if err := w.Embed(ctx, s.cfg.Embedder, c.collection()); err != nil {
		return nil, err
	}
	return &documentWrite{Write: w, indexes: s.indexes, replace: replace, id: newCollectionID()}, nil
}

// apply stores the documents of the write.
func (w *documentWrite) apply(tx sqlkit.Tx) error {
	c, err := w.collection(tx)
	if err != nil {
		return err
	}
	removed, err := removeDocuments(tx, w.Key, c, w.Remove)
	if err != nil {
		return err
	}
	rows := slices.Clone(w.Rows)
	slices.SortFunc(rows, func(a, b vectordriver.Row) int { return cmp.Compare(a.ID, b.ID) })
	added := -removed
	for len(rows) > 0 {
		inserted, err := w.store(tx, sqlInsertDocuments, c, &rows)
		if err != nil {
			return err
		}
		added += inserted
		if len(rows) > 0 && !w.replace {
			return vector.ErrExists
		}
		if _, err := w.store(tx, sqlUpdateDocuments, c, &rows); err != nil {
			return err
		}
		// The documents that remain in rows were removed by others meanwhile: insert them.
	}
	w.large, err = w.indexes.count(tx, w.Key, added)
	return err
}

// collection returns the collection of the write, which it creates if it does not exist.
func (w *documentWrite) collection(tx sqlkit.Tx) (*collectionRow, error) {
	for {
		c, err := readCollection(tx, sqlShareCollection, w.Key)
		if err != nil {
			return nil, err
		}
		after, err := w.Admit(c.collection())
		if err == nil {
			err = w.fits(c)
		}
		if err != nil || c != nil {
			return c, err
		}
		// A concurrent writer may create it first.
		if _, err := tx.Exec(sqlAddCollection, w.Key.Owner, after.Name, w.id, string(after.Metric), after.Dimension, after.Embedder); err != nil {
			return nil, err
		}
	}
}

// fits returns an error if an embedding is too large for the index of the collection c, which may be nil.
func (w *documentWrite) fits(c *collectionRow) error {
	for i := 0; i < len(w.Rows) && c.half(); i++ {
		if v := w.Rows[i].Embedding; !fitsHalf(v) {
			return a2a.Errorf(a2a.CodeInvalid, "vector: documents[%d].embedding: has a component beyond %d, the limit of the index of the collection, which has half precision", i, maxHalf)
		}
	}
	return nil
}

// store runs a statement for documents, removes those that it has stored from rows, and returns their
// number.
func (w *documentWrite) store(tx sqlkit.Tx, text string, c *collectionRow, rows *[]vectordriver.Row) (int64, error) {
	if len(*rows) == 0 {
		return 0, nil
	}
	var columns [7][]string
	terms := vectorsql.Terms{DB: &kit{database: w.indexes.database}, Owner: w.Key.Owner, Collection: c.id}
	for i := range *rows {
		r := &(*rows)[i]
		for j, value := range [...]string{r.ID, r.Metadata, attributesOf(r.Metadata), r.Text, r.Blocks, encodeEmbedding(r.Embedding), terms.Of(r.Text)} {
			columns[j] = append(columns[j], value)
		}
	}
	stored := make(map[string]bool, len(*rows))
	err := tx.Query(text, func(r sqlkit.Row) error {
		stored[r.Text(0)] = true
		return nil
	}, w.Key.Owner, c.id, columns[0], columns[1], columns[2], columns[3], columns[4], columns[5], columns[6])
	*rows = slices.DeleteFunc(*rows, func(r vectordriver.Row) bool { return stored[r.ID] })
	return int64(len(stored)), err
}

// count adds n to the number of documents of a collection, and reports whether it needs an index. It is
// the last statement for the collection.
func (x *vectorIndexes) count(tx sqlkit.Tx, k vector.Key, n int64) (large bool, err error) {
	if n == 0 {
		return false, nil
	}
	err = tx.Query(sqlCountWritten, func(r sqlkit.Row) error {
		large = r.Int(0) >= x.cfg.indexFrom && r.Text(1) == ""
		return nil
	}, k.Owner, k.Collection, n)
	if large {
		x.notify() // for effects, because their transaction ends later
	}
	return large, err
}

// Delete implements vector.Store.
func (s *vectorStore) Delete(ctx context.Context, k vector.Key, ids []string) (removed int, err error) {
	k, err = vectordriver.CheckIDs(k, ids)
	if err != nil {
		return 0, err
	}
	if err := s.enabled(); err != nil {
		return 0, err
	}
	err = s.kit.Write(ctx, func(tx sqlkit.Tx) error {
		c, err := readCollection(tx, sqlShareCollection, k)
		if err != nil {
			return err
		}
		if c == nil {
			return vector.ErrCollectionNotFound
		}
		n, err := removeDocuments(tx, k, c, ids)
		if removed = int(n); err != nil {
			return err
		}
		_, err = s.indexes.count(tx, k, -n)
		return err
	})
	return removed, err
}

// removeDocuments removes the documents with the given ids that exist, and returns their number.
func removeDocuments(tx sqlkit.Tx, k vector.Key, c *collectionRow, ids []string) (int64, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	return tx.Exec(sqlRemoveDocuments, k.Owner, c.id, slices.Sorted(slices.Values(ids)))
}
