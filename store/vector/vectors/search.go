// Package vectors searches the documents of a collection in the process, for stores that keep an
// index of package ann: by embeddings, or by words.
package vectors

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"slices"

	"github.com/holdfast-dev/holdfast/internal/jsonobject"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/memory/recall"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/ann"
	"github.com/holdfast-dev/holdfast/store/vector/vectordriver"
)

// Documents reads the documents of a collection.
type Documents interface {
	// Rows calls each with the documents with the given ids that exist.
	Rows(ctx context.Context, ids []string, each func(r *vectordriver.Row)) error
	// Words returns the index of the words of the documents that a filter selects.
	Words(ctx context.Context, f filter.Filter) recall.Index
}

// Collection is what a search reads. Index is nil if the collection is lexical.
type Collection struct {
	vector.Collection
	Index     *ann.Index
	Documents Documents
}

// NewIndex returns the index of a collection, nil if it is lexical. cfg needs no dimension and metric.
func NewIndex(c *vector.Collection, cfg ann.Config) (*ann.Index, error) {
	if c.Dimension == 0 {
		return nil, nil
	}
	return ann.New(configure(c, cfg))
}

// ReadIndex reads a snapshot of the index of a collection, as [ann.ReadSnapshot] does.
func ReadIndex(r io.Reader, c *vector.Collection, cfg ann.Config) (*ann.Index, []byte, error) {
	return ann.ReadSnapshot(r, configure(c, cfg))
}

func configure(c *vector.Collection, cfg ann.Config) ann.Config {
	cfg.Dim = c.Dimension
	cfg.Metric = map[vector.Metric]ann.Metric{vector.Cosine: ann.Cosine, vector.Dot: ann.Dot, vector.L2: ann.L2}[c.Metric]
	return cfg
}

// Item returns a document as an item of an index. The index owns its embedding.
func Item(r *vectordriver.Row) ann.Item {
	return ann.Item{ID: r.ID, Vector: r.Embedding, Attr: jsonobject.Decode(r.Metadata)}
}

// Nearest finds the documents that are closest to each of embeddings. It writes them to the result at the same index.
type Nearest func(ctx context.Context, embeddings [][]float32, p *vector.SearchParams, results []*vector.Results) error

// Search runs the queries of p, which was checked, in a collection. It calls nearest once for all queries that are
// only compared by their embeddings.
func Search(ctx context.Context, e vector.Embedder, c *vector.Collection, d Documents, p *vector.SearchParams, nearest Nearest) ([]vector.Results, error) {
	plans, err := vectordriver.Plans(ctx, e, c, p)
	if err != nil {
		return nil, err
	}
	all := make([]vector.Results, len(plans))
	var embeddings [][]float32
	var semantic []*vector.Results
	for i, plan := range plans {
		all[i].Mode, all[i].Fallback = plan.Mode, plan.Fallback
		if plan.Mode == vector.ModeSemantic {
			embeddings, semantic = append(embeddings, plan.Embedding), append(semantic, &all[i])
			continue
		}
		text := TextSearch{Documents: d, Text: p.Queries[i].Text, Metric: c.Metric}
		if plan.Mode == vector.ModeHybrid {
			text.Near = func(p *vector.SearchParams) ([]vector.Hit, error) {
				var found vector.Results
				err := nearest(ctx, [][]float32{plan.Embedding}, p, []*vector.Results{&found})
				return found.Hits, err
			}
		}
		if all[i].Hits, err = text.Run(ctx, p); err != nil {
			return nil, err
		}
	}
	return all, nearest(ctx, embeddings, p, semantic)
}

// Search runs the queries of p, which was checked.
func (c *Collection) Search(ctx context.Context, e vector.Embedder, p *vector.SearchParams) ([]vector.Results, error) {
	return Search(ctx, e, &c.Collection, c.Documents, p, c.nearest)
}

func (c *Collection) nearest(ctx context.Context, embeddings [][]float32, p *vector.SearchParams, results []*vector.Results) error {
	for i, embedding := range embeddings {
		if err := c.semantic(ctx, embedding, p, results[i]); err != nil {
			return err
		}
	}
	return nil
}

// firstLimit returns the number of documents that a search ranks at first.
func firstLimit(p *vector.SearchParams) int {
	if p.GroupBy != "" {
		return 4 * (p.Offset + p.Limit)
	}
	return p.Offset + p.Limit
}

// semantic runs a query. If there are groups, it ranks more and more documents until it has enough.
func (c *Collection) semantic(ctx context.Context, embedding []float32, p *vector.SearchParams, result *vector.Results) error {
	q := ann.SearchParams{Vector: embedding, Exact: p.Exact, Limit: firstLimit(p)}
	if !p.Filter.IsZero() {
		key, err := json.Marshal(p.Filter)
		if err != nil {
			return err
		}
		q.Filter = &ann.Filter{Key: string(key), Match: matcher(p.Filter)}
	}
	most := math.MaxInt
	if p.GroupBy != "" && !p.Exact {
		most = max(vector.MaxGrouped, q.Limit)
	}
	rows := make(map[string]*vectordriver.Row, q.Limit)
	for {
		found, err := c.Index.Search(ctx, q)
		if err != nil {
			return err
		}
		ids := make([]string, len(found))
		for i := range found {
			ids[i] = found[i].ID
		}
		if err := readRows(ctx, c.Documents, ids, rows); err != nil {
			return err
		}
		hits := vectordriver.NewCollector(p)
		for _, f := range found {
			if r := rows[f.ID]; r != nil && !hits.Add(r, f.Score, vector.Scores{}) {
				break
			}
		}
		result.Truncated = !hits.Full() && len(found) == q.Limit && q.Limit == most
		if hits.Full() || len(found) < q.Limit || result.Truncated {
			result.Hits = hits.Hits()
			return nil
		}
		q.Limit = min(4*q.Limit, most)
	}
}

// matcher returns the function that evaluates a filter on the metadata of an item. The index keeps it,
// so that it must not share memory with the caller.
func matcher(f filter.Filter) func(id string, attr any) bool {
	f = copied(f)
	return func(_ string, attr any) bool { return f.Match(attr.(map[string]any)) }
}

func copied(f filter.Filter) filter.Filter {
	f.Values, f.Filters = slices.Clone(f.Values), slices.Clone(f.Filters)
	for i := range f.Filters {
		f.Filters[i] = copied(f.Filters[i])
	}
	return f
}
