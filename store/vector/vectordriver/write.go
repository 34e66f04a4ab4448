package vectordriver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/store/rules"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// Row is a document as backends store it.
type Row struct {
	ID, Text  string
	Blocks    string // JSON, "" if there are none
	Metadata  string // JSON of an object
	Embedding []float32
}

// Document returns a copy of the row for a caller.
func (r *Row) Document(includeEmbedding bool) vector.Document {
	d := vector.Document{ID: r.ID, Text: r.Text, Metadata: jsonobject.Decode(r.Metadata)}
	if r.Blocks != "" {
		d.Blocks = json.RawMessage(r.Blocks)
	}
	if includeEmbedding {
		d.Embedding = slices.Clone(r.Embedding)
	}
	return d
}

// Write is a write that is valid apart from what depends on the collection.
type Write struct {
	Key  vector.Key
	Rows []Row
	// Remove are the ids of the documents to remove before.
	Remove []string
	// metric and embedder come from the params.
	metric   vector.Metric
	embedder string
	missing  []int // rows without an embedding, which the store computes unless the collection is lexical
}

// IDs returns the ids of the documents.
func (w *Write) IDs() []string {
	ids := make([]string, len(w.Rows))
	for i := range w.Rows {
		ids[i] = w.Rows[i].ID
	}
	return ids
}

// NewWrite checks the params of a write, copies its documents and chooses ids for those without.
func NewWrite(k vector.Key, p vector.WriteParams) (*Write, error) {
	k, err := CheckKey(k)
	if err != nil {
		return nil, err
	}
	switch {
	case len(p.Documents) == 0 || len(p.Documents) > vector.MaxWrite:
		return nil, invalid("documents: are %d, want 1 to %d", len(p.Documents), vector.MaxWrite)
	case !slices.Contains([]vector.Metric{"", vector.Cosine, vector.Dot, vector.L2}, p.Metric):
		return nil, invalid("metric: %s is unknown", a2a.Quote(string(p.Metric)))
	}
	if rule := rules.Text(p.Embedder, vector.MaxName); rule != "" {
		return nil, invalid("embedder: %s", rule)
	}
	w := &Write{Key: k, metric: p.Metric, embedder: p.Embedder}
	if _, err := CheckIDs(k, p.Remove); err != nil {
		return nil, invalid("remove: %s", strings.TrimPrefix(err.Error(), "vector: "))
	}
	w.Remove = slices.Clone(p.Remove)
	seen, total := make(map[string]bool), 0
	for i := range p.Documents {
		r, err := checkDocument(&p.Documents[i])
		if err != nil {
			return nil, invalid("documents[%d].%s", i, strings.TrimPrefix(err.Error(), "vector: "))
		}
		if total += len(r.Text) + len(r.Blocks) + len(r.Metadata); total > vector.MaxWriteBytes {
			return nil, invalid("documents: have more than %d bytes in total", vector.MaxWriteBytes)
		}
		if r.ID == "" {
			r.ID = rand.Text()
		}
		if seen[r.ID] {
			return nil, invalid("documents[%d].id: %s is repeated", i, a2a.Quote(r.ID))
		}
		seen[r.ID] = true
		if r.Embedding = slices.Clone(r.Embedding); r.Embedding == nil {
			w.missing = append(w.missing, i)
		}
		w.Rows = append(w.Rows, r)
	}
	for i, id := range w.Remove {
		if seen[id] {
			return nil, invalid("remove: ids[%d]: %s is that of a document of the write", i, a2a.Quote(id))
		}
	}
	return w, nil
}

// Embed computes the embeddings that documents of the write lack. c is the collection, nil if it does
// not exist. It does nothing without an embedder, and for a lexical collection.
func (w *Write) Embed(ctx context.Context, e vector.Embedder, c *vector.Collection) error {
	if e == nil || len(w.missing) == 0 || c != nil && c.Dimension == 0 {
		return nil
	}
	if w.embedder != "" && w.embedder != e.Name() {
		return mismatch(w.Key.Collection, "embedder", e.Name(), w.embedder)
	}
	texts := make([]string, len(w.missing))
	for i, n := range w.missing {
		if texts[i] = w.Rows[n].Text; strings.TrimSpace(texts[i]) == "" {
			return invalid("documents[%d].text: must not be empty without an embedding", n)
		}
	}
	embeddings, err := embed(ctx, e, texts)
	if err != nil {
		return err
	}
	for i, n := range w.missing {
		w.Rows[n].Embedding = embeddings[i]
	}
	w.embedder, w.missing = e.Name(), nil
	return nil
}

// embed calls an embedder and checks its result.
func embed(ctx context.Context, e vector.Embedder, texts []string) ([][]float32, error) {
	embeddings, err := e.Embed(ctx, texts)
	var coded *a2a.Error
	switch {
	case err != nil && !errors.As(err, &coded) && ctx.Err() == nil:
		err = a2a.Wrap(a2a.CodeUnavailable, err, "%v", err)
	case err == nil && len(embeddings) != len(texts):
		err = a2a.Errorf(a2a.CodeUnavailable, "returned %d embeddings for %d texts", len(embeddings), len(texts))
	}
	if err != nil {
		return nil, &vector.EmbedderError{Embedder: e.Name(), Err: err}
	}
	for i, v := range embeddings {
		if err := checkEmbedding("embedding", v); err != nil {
			return nil, &vector.EmbedderError{Embedder: e.Name(), Err: a2a.Errorf(a2a.CodeUnavailable, "text %d: %s", i, strings.TrimPrefix(err.Error(), "vector: "))}
		}
		embeddings[i] = slices.Clone(v)
	}
	return embeddings, nil
}

// Admit returns the collection after the write, apart from the number of documents. c is the
// collection before it, nil if it does not exist. It returns an error, such as a [vector.MismatchError],
// if the write does not fit the collection.
func (w *Write) Admit(c *vector.Collection) (vector.Collection, error) {
	result := vector.Collection{Name: w.Key.Collection, Metric: w.metric, Embedder: w.embedder, Dimension: len(w.Rows[0].Embedding)}
	if c != nil {
		result = *c
		if w.metric != "" && w.metric != c.Metric {
			return result, mismatch(c.Name, "metric", string(w.metric), string(c.Metric))
		}
		if w.embedder != "" && w.embedder != c.Embedder && c.Dimension > 0 {
			return result, mismatch(c.Name, "embedder", w.embedder, c.Embedder)
		}
	}
	if result.Metric == "" {
		result.Metric = vector.Cosine
	}
	if result.Dimension == 0 {
		result.Embedder = ""
	}
	for i := range w.Rows {
		v := w.Rows[i].Embedding
		if len(v) != result.Dimension {
			return result, dimensionError(&result, len(v))
		}
		if err := checkMetric(fmt.Sprintf("documents[%d].embedding", i), v, result.Metric); err != nil && len(v) > 0 {
			return result, err
		}
	}
	return result, nil
}

func mismatch(collection, field, value, want string) error {
	return &vector.MismatchError{Collection: collection, Field: field, Value: value, Want: want}
}

func dimensionError(c *vector.Collection, n int) error {
	return mismatch(c.Name, "dimension", strconv.Itoa(n), strconv.Itoa(c.Dimension))
}

// Plan is how a query is run.
type Plan struct {
	Mode vector.Mode
	// Embedding is the embedding of the query, nil if Mode is [vector.ModeLexical].
	Embedding []float32
	// Fallback is as in [vector.Results].
	Fallback string
}

// Plans returns the plans of the queries of a search in a collection. It returns a [vector.MismatchError]
// if a query does not fit the collection. p was checked.
func Plans(ctx context.Context, e vector.Embedder, c *vector.Collection, p *vector.SearchParams) ([]Plan, error) {
	plans := make([]Plan, len(p.Queries))
	var texts []string
	var of []int
	for i, q := range p.Queries {
		plans[i].Mode = vector.ModeSemantic
		if p.Mode == vector.ModeHybrid && q.Text != "" {
			plans[i].Mode = vector.ModeHybrid
		}
		switch {
		case q.Embedding != nil:
			plans[i].Embedding = slices.Clone(q.Embedding)
		case e != nil && c.Dimension > 0 && p.Mode != vector.ModeLexical:
			texts, of = append(texts, q.Text), append(of, i)
		default:
			plans[i].Mode = vector.ModeLexical
		}
	}
	if len(texts) > 0 {
		if e.Name() != c.Embedder {
			return nil, mismatch(c.Name, "embedder", e.Name(), c.Embedder)
		}
		found, err := embed(ctx, e, texts)
		if err != nil && (p.Mode != vector.ModeHybrid || ctx.Err() != nil) {
			return nil, err
		}
		for i, n := range of {
			if err != nil {
				plans[n] = Plan{Mode: vector.ModeLexical, Fallback: err.Error()}
			} else {
				plans[n].Embedding = found[i]
			}
		}
	}
	for i := range plans {
		v := plans[i].Embedding
		if v == nil {
			continue
		}
		if len(v) != c.Dimension {
			return nil, dimensionError(c, len(v))
		}
		if err := checkMetric(fmt.Sprintf("queries[%d].embedding", i), v, c.Metric); err != nil {
			return nil, err
		}
	}
	return plans, nil
}
