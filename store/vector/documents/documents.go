// Package documents connects stores of documents to the server; see package contract.
package documents

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/vectordriver"
)

// Kind is the contract of documents.
var Kind = &contract.Kind{
	Name:    "documents",
	Setting: "store-vector",
	Part: func(tasks any, p contract.PartParams) contract.Store {
		s, ok := tasks.(interface {
			Vectors(cfg vector.Config) vector.Store
		})
		if !ok {
			return nil
		}
		return Of(s.Vectors(vector.Config{Embedder: p.Embedder}))
	},
	Lasting: []error{vector.ErrCollectionNotFound, vector.ErrExists, vector.ErrMismatch},
	Counts:  []string{countDocuments},
	Lines:   []contract.LineType{{Name: typeDocument, Counts: countDocuments}},
	Scan:    func(owner string) contract.Scanner { return &scanner{owner} },
}

const (
	typeDocument   = "document"
	countDocuments = "documents"
	// page is the number of documents that are exported or imported at once.
	page = 100
)

// Of returns a store of documents as a store of its contract, nil for nil.
func Of(s vector.Store) contract.Store {
	if s == nil {
		return nil
	}
	return &documents{s}
}

// In returns the store of documents among the stores of contracts, nil if there is none.
func In(stores []contract.Store) vector.Store { return contract.In[vector.Store](stores, Kind) }

// documents implements [contract.Store].
type documents struct{ vector.Store }

func (*documents) Kind() *contract.Kind { return Kind }

func (d *documents) Unwrap() any { return d.Store }

func (d *documents) Forget(ctx context.Context, owner string, removed func(count string, n int64)) error {
	forgetter, ok := d.Store.(vector.Forgetter)
	if !ok {
		return contract.Unlisted("their store cannot remove all of a principal")
	}
	n, err := forgetter.ForgetOwner(ctx, owner)
	removed(countDocuments, int64(n))
	return ignoreNone(err)
}

// ignoreNone returns nil for the error of a database that has no documents.
func ignoreNone(err error) error {
	if a2a.CodeOf(err) == a2a.CodeUnsupported {
		return nil
	}
	return err
}

type documentLine struct {
	_          struct{}       `wire:"const=type:document,required"`
	Collection string         `json:"collection" wire:"required"`
	Metric     string         `json:"metric" wire:"required"`
	Embedder   string         `json:"embedder,omitempty"`
	ID         string         `json:"id" wire:"required"`
	Text       string         `json:"text,omitempty"`
	Metadata   map[string]any `json:"metadata,omitempty"`
	// Blocks are the blocks as JSON. Embedding has a float32 per component, little-endian.
	Blocks    []byte `json:"blocks,omitempty"`
	Embedding []byte `json:"embedding,omitempty"`
}

func lineOf(c *vector.Collection, d *vector.Document) *documentLine {
	l := &documentLine{Collection: c.Name, Metric: string(c.Metric), Embedder: c.Embedder, ID: d.ID, Text: d.Text, Metadata: d.Metadata, Blocks: d.Blocks}
	for _, x := range d.Embedding {
		l.Embedding = binary.LittleEndian.AppendUint32(l.Embedding, math.Float32bits(x))
	}
	return l
}

// item is a document with the settings of its collection.
type item struct {
	collection vector.Collection
	vector.Document
}

func (l *documentLine) item() (*item, error) {
	if len(l.Embedding)%4 != 0 {
		return nil, &wire.Error{Path: "embedding", Rule: "must have four bytes per component"}
	}
	d := vector.Document{ID: l.ID, Text: l.Text, Blocks: l.Blocks, Metadata: l.Metadata}
	for b := l.Embedding; len(b) > 0; b = b[4:] {
		d.Embedding = append(d.Embedding, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return &item{vector.Collection{Name: l.Collection, Metric: vector.Metric(l.Metric), Dimension: len(d.Embedding), Embedder: l.Embedder}, d}, nil
}

// write returns the write of documents of the same collection.
func (d *item) write(documents ...vector.Document) vector.WriteParams {
	return vector.WriteParams{Documents: documents, Metric: d.collection.Metric, Embedder: d.collection.Embedder}
}

func (d *documents) Export(ctx context.Context, owner string, line func(typ string, v any) error) error {
	collections, err := d.Collections(ctx, owner)
	if err != nil || len(collections) == 0 {
		return ignoreNone(err)
	}
	lister, ok := d.Store.(vector.Lister)
	if !ok {
		return contract.Unlisted("their store does not list them")
	}
	for i := range collections {
		c := &collections[i]
		err := exportCollection(ctx, lister, vector.Key{Owner: owner, Collection: c.Name}, func(d *vector.Document) error {
			return line(typeDocument, lineOf(c, d))
		})
		if err != nil && !errors.Is(err, vector.ErrCollectionNotFound) { // deleted meanwhile
			return fmt.Errorf("collection %s: %w", c.Name, err)
		}
	}
	return nil
}

func exportCollection(ctx context.Context, lister vector.Lister, k vector.Key, write func(d *vector.Document) error) error {
	for p := (vector.ListParams{Limit: page}); ; {
		found, err := lister.List(ctx, k, p)
		if err != nil || len(found) == 0 {
			return err
		}
		for i := range found {
			p.After = found[i].ID
			if err := write(&found[i]); err != nil {
				return err
			}
		}
	}
}

// scanner implements [contract.Scanner].
type scanner struct{ owner string }

func (s *scanner) Scan(_ string, raw []byte) (any, error) {
	var l documentLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	d, err := l.item()
	if err != nil {
		return nil, err
	}
	w, err := vectordriver.NewWrite(vector.Key{Owner: s.owner, Collection: l.Collection}, d.write(d.Document))
	if err == nil {
		_, err = w.Admit(nil)
	}
	return d, err
}

func (*scanner) End() error { return nil }

func (d *documents) Import(p *contract.ImportParams) (contract.Importer, error) {
	return &importer{ImportParams: p, documents: d}, nil
}

// importer collects documents of one collection.
type importer struct {
	contract.Immediate
	*contract.ImportParams
	documents *documents
	batch     []*item
}

func (m *importer) Add(ctx context.Context, x any) error {
	d := x.(*item)
	if len(m.batch) == page || len(m.batch) > 0 && m.batch[0].collection.Name != d.collection.Name {
		if err := m.Flush(ctx); err != nil {
			return err
		}
	}
	m.batch = append(m.batch, d)
	return nil
}

// Flush adds the documents that do not exist.
func (m *importer) Flush(ctx context.Context) error {
	all := m.batch
	if m.batch = nil; len(all) == 0 {
		return nil
	}
	k := vector.Key{Owner: m.Owner, Collection: all[0].collection.Name}
	ids := make([]string, len(all))
	for i, d := range all {
		ids[i] = d.ID
	}
	known, err := m.documents.Get(ctx, k, ids)
	if err != nil && !errors.Is(err, vector.ErrCollectionNotFound) {
		return err
	}
	existing := make(map[string]*vector.Document, len(known))
	for i := range known {
		existing[known[i].ID] = &known[i]
	}
	var missing []vector.Document
	for _, d := range all {
		e := existing[d.ID]
		if e == nil {
			missing = append(missing, d.Document)
		} else if !contract.Equal(lineOf(&d.collection, e), lineOf(&d.collection, &d.Document)) {
			return m.Conflict("document %s of collection %s exists and differs from the document", a2a.Quote(d.ID), a2a.Quote(k.Collection))
		}
	}
	if len(missing) == 0 || !m.Write {
		return m.fits(ctx, k, all[0])
	}
	if _, err := m.documents.Add(ctx, k, all[0].write(missing...)); err != nil {
		return fmt.Errorf("collection %s: %w", a2a.Quote(k.Collection), err)
	}
	m.Added(countDocuments, int64(len(missing)))
	return nil
}

// fits reports a conflict if the collection of a document exists with other settings.
func (m *importer) fits(ctx context.Context, k vector.Key, d *item) error {
	all, err := m.documents.Collections(ctx, k.Owner)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.Name == k.Collection && (c.Metric != d.collection.Metric || c.Dimension != d.collection.Dimension || c.Embedder != d.collection.Embedder) {
			return m.Conflict("collection %s exists with another metric, dimension or embedder", a2a.Quote(k.Collection))
		}
	}
	return nil
}
