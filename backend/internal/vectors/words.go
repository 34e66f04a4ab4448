package vectors

import (
	"context"

	"github.com/holdfast-dev/holdfast/backend/internal/recall"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// SearchWords returns the documents that have words of a text, or similar ones. p was checked.
func SearchWords(ctx context.Context, from Documents, text string, p *vector.SearchParams) ([]vector.Hit, error) {
	ix, err := from.Words(ctx, p.Filter)
	if err != nil {
		return nil, err
	}
	rows := make(map[string]*vector.Row)
	for limit := firstLimit(p); ; limit *= 4 {
		found, err := recall.Search(ix, memory.SearchParams{Query: text, Limit: limit, Filter: p.Filter})
		if err != nil {
			return nil, err
		}
		ids := make([]string, len(found))
		for i := range found {
			ids[i] = found[i].ID
		}
		if err := readRows(ctx, from, ids, rows); err != nil {
			return nil, err
		}
		hits := vector.NewCollector(p)
		for _, m := range found {
			if r := rows[m.ID]; r != nil && !hits.Add(r, m.Score) {
				break
			}
		}
		if hits.Full() || len(found) < limit {
			return hits.Hits(), nil
		}
	}
}

// readRows adds the documents that rows lacks.
func readRows(ctx context.Context, from Documents, ids []string, rows map[string]*vector.Row) error {
	var missing []string
	for _, id := range ids {
		if rows[id] == nil {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return from.Rows(ctx, missing, func(r *vector.Row) { rows[r.ID] = r })
}
