package vectors

import (
	"context"
	"math"

	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorydriver"
	"github.com/holdfast-dev/holdfast/store/memory/recall"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/vectordriver"
)

// TextSearch is a search by words, and by the embedding of a text if Near is set.
type TextSearch struct {
	Documents Documents
	Text      string
	Metric    vector.Metric
	// Near returns the closest documents. It does not read the queries of p.
	Near func(p *vector.SearchParams) ([]vector.Hit, error)
}

// Run returns the documents that match best. p was checked.
func (s *TextSearch) Run(ctx context.Context, p *vector.SearchParams) ([]vector.Hit, error) {
	ix := &textIndex{s.Documents.Words(ctx, p.Filter), s, p}
	plan := memorydriver.Plan{Lexical: true}
	if s.Near != nil {
		plan.Embedding = new(memorydriver.Embedding) // Near has it
	}
	rows := make(map[string]*vectordriver.Row)
	for limit := firstLimit(p); ; limit *= 4 {
		found, err := recall.SearchFacts(ix, memory.SearchParams{Query: s.Text, Limit: limit, Filter: p.Filter}, plan)
		if err != nil {
			return nil, err
		}
		ids := make([]string, len(found.Facts))
		for i := range ids {
			ids[i] = found.Facts[i].ID
		}
		if err := readRows(ctx, s.Documents, ids, rows); err != nil {
			return nil, err
		}
		hits := vectordriver.NewCollector(p)
		for _, m := range found.Facts {
			r, parts := rows[m.ID], vector.Scores{Lexical: m.Scores.Lexical, Trigram: m.Scores.Trigram, Semantic: m.Scores.Semantic}
			if r != nil && !hits.Add(r, m.Score, parts) {
				break
			}
		}
		if hits.Full() || len(ids) < limit {
			return hits.Hits(), nil
		}
	}
}

// textIndex implements recall.FactIndex.
type textIndex struct {
	recall.Index
	search *TextSearch
	p      *vector.SearchParams
}

// Nearest implements recall.FactIndex.
func (x *textIndex) Nearest(_ memorydriver.Embedding, n int) (found []recall.Near, pending int, err error) {
	hits, err := x.search.Near(&vector.SearchParams{Limit: n, Filter: x.p.Filter, Exact: x.p.Exact})
	for _, h := range hits {
		near := h.Score
		if x.search.Metric == vector.Dot {
			near /= 1 + math.Abs(near)
		}
		found = append(found, recall.Near{Memory: memory.Memory{ID: h.ID, Content: h.Text}, Cosine: near})
	}
	return found, 0, err
}

// readRows adds the documents that rows lacks.
func readRows(ctx context.Context, from Documents, ids []string, rows map[string]*vectordriver.Row) error {
	var missing []string
	for _, id := range ids {
		if rows[id] == nil {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return from.Rows(ctx, missing, func(r *vectordriver.Row) { rows[r.ID] = r })
}
