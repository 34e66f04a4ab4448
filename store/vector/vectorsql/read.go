// Package vectorsql has what SQLite and PostgreSQL share for documents: reads, the full-text index, and the removal of
// deleted collections. Indexes of embeddings differ, so each backend has its own.
package vectorsql

import (
	"context"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/memory/recall"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/vectordriver"
)

const (
	sqlCollections  = `SELECT name, metric, dimension, embedder, documents FROM {s}.vector_collections WHERE owner = $1::text ORDER BY name`
	sqlCollectionID = `SELECT id FROM {s}.vector_collections WHERE owner = $1::text AND name = $2::text`
	fromDocuments   = ` FROM {s}.vector_documents d WHERE` + whereDocuments
	inDocuments     = ` AND d.id = ANY($3::text[])`
	afterDocument   = ` AND d.id > $3::text ORDER BY d.id LIMIT $4::bigint`
)

// Documents reads documents by their ids, and collections: the part of vector.Store that is the same for all
// databases.
type Documents struct {
	db         sqlkit.DB
	decode     func(b []byte) []float32
	ready      func() error
	read, list string
}

// NewDocuments returns the documents of a database. embedding is the expression of the embedding of
// vector_documents d in bytes, which decode decodes. ready returns why the database has no documents.
func NewDocuments(db sqlkit.DB, embedding string, decode func(b []byte) []float32, ready func() error) *Documents {
	columns := Columns(embedding)
	return &Documents{
		db: db, decode: decode, ready: ready,
		read: `SELECT` + columns + fromDocuments + inDocuments,
		list: `SELECT` + columns + fromDocuments + afterDocument,
	}
}

// Columns returns the columns of a statement that Scan reads. embedding is as in NewDocuments.
func Columns(embedding string) string {
	return ` d.id, d.metadata, d.text, d.blocks, ` + embedding
}

// Scan returns the document of a row with the columns of Columns.
func (d *Documents) Scan(r sqlkit.Row) *vectordriver.Row {
	return &vectordriver.Row{ID: r.Text(0), Metadata: r.Text(1), Text: r.Text(2), Blocks: r.Text(3), Embedding: d.decode(r.Bytes(4))}
}

// ScanCollection returns the collection of a row that starts with name, metric, dimension, embedder and documents.
func ScanCollection(r sqlkit.Row) vector.Collection {
	return vector.Collection{Name: r.Text(0), Metric: vector.Metric(r.Text(1)), Dimension: int(r.Int(2)), Embedder: r.Text(3), Documents: r.Int(4)}
}

// Collections implements vector.Store.
func (d *Documents) Collections(ctx context.Context, owner string) (all []vector.Collection, err error) {
	if err := vectordriver.CheckOwner(owner); err != nil {
		return nil, err
	}
	if err := d.ready(); err != nil {
		return nil, err
	}
	err = d.db.Read(ctx, func(q sqlkit.Querier) error {
		all = nil
		return q.Query(sqlCollections, func(r sqlkit.Row) error {
			all = append(all, ScanCollection(r))
			return nil
		}, owner)
	})
	return all, err
}

// Get implements vector.Store.
func (d *Documents) Get(ctx context.Context, k vector.Key, ids []string) (all []vector.Document, err error) {
	k, err = vectordriver.CheckIDs(k, ids)
	if err != nil {
		return nil, err
	}
	id, err := d.id(ctx, k)
	if err != nil {
		return nil, err
	}
	rows := make(map[string]*vectordriver.Row, len(ids))
	if err := d.In(k.Owner, id, 0).Rows(ctx, ids, func(r *vectordriver.Row) { rows[r.ID] = r }); err != nil {
		return nil, err
	}
	for _, id := range ids {
		if r := rows[id]; r != nil {
			all = append(all, r.Document(true))
		}
	}
	return all, nil
}

// List implements vector.Lister.
func (d *Documents) List(ctx context.Context, k vector.Key, p vector.ListParams) (all []vector.Document, err error) {
	k, p, err = vectordriver.CheckList(k, p)
	if err != nil {
		return nil, err
	}
	id, err := d.id(ctx, k)
	if err != nil {
		return nil, err
	}
	err = d.db.Read(ctx, func(q sqlkit.Querier) error {
		all = nil
		return q.Query(d.list, func(r sqlkit.Row) error {
			all = append(all, d.Scan(r).Document(true))
			return nil
		}, k.Owner, id, p.After, p.Limit)
	})
	return all, err
}

// id returns the id of a collection, or vector.ErrCollectionNotFound.
func (d *Documents) id(ctx context.Context, k vector.Key) (id int64, err error) {
	if err := d.ready(); err != nil {
		return 0, err
	}
	found := false
	err = d.db.Read(ctx, func(q sqlkit.Querier) (err error) {
		found, err = sqlkit.QueryOne(q, sqlCollectionID, func(r sqlkit.Row) { id = r.Int(0) }, k.Owner, k.Collection)
		return err
	})
	if err == nil && !found {
		err = vector.ErrCollectionNotFound
	}
	return id, err
}

// In returns the documents of the collection with an id. n is their number.
func (d *Documents) In(owner string, id, n int64) *CollectionDocuments {
	return &CollectionDocuments{d, Terms{d.db, owner, id}, n}
}

// CollectionDocuments are the documents of one collection. They implement vectors.Documents.
type CollectionDocuments struct {
	*Documents
	terms Terms
	n     int64
}

// Rows implements vectors.Documents.
func (c *CollectionDocuments) Rows(ctx context.Context, ids []string, each func(r *vectordriver.Row)) error {
	return c.db.Read(ctx, func(q sqlkit.Querier) error {
		return q.Query(c.read, func(r sqlkit.Row) error {
			each(c.Scan(r))
			return nil
		}, c.terms.args(ids)...)
	})
}

// Words implements vectors.Documents.
func (c *CollectionDocuments) Words(ctx context.Context, f filter.Filter) recall.Index {
	return c.terms.Search(ctx, c.n, f)
}

// Statements returns the statements of Documents.
func (d *Documents) Statements() []sqlkit.Statement {
	return []sqlkit.Statement{
		{"documents: collections", sqlCollections},
		{"documents: id of a collection", sqlCollectionID},
		{"documents: by id", d.read},
		{"documents: list", d.list},
	}
}
