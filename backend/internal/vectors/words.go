package vectors

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/backend/internal/recall"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// Words has the words of the documents that a filter selects. It implements recall.Index.
type Words struct{ documents []wordDocument }

type wordDocument struct {
	row   *vector.Row
	text  recall.Text
	stems map[string]bool
	grams map[string]bool // nil before they are needed, which is for misspelt words only
}

// ReadWords reads the words of the documents that a filter selects.
func ReadWords(ctx context.Context, from Documents, f filter.Filter) (*Words, error) {
	x := &Words{}
	err := from.All(ctx, func(r *vector.Row) {
		if !f.Match(memory.DecodeMetadata(r.Metadata)) {
			return
		}
		text := recall.Analyze(r.Text)
		x.documents = append(x.documents, wordDocument{row: r, text: text, stems: setOf(text.Stems)})
	})
	slices.SortFunc(x.documents, func(a, b wordDocument) int { return strings.Compare(a.row.ID, b.row.ID) })
	return x, err
}

func setOf(all []string) map[string]bool {
	set := make(map[string]bool, len(all))
	for _, s := range all {
		set[s] = true
	}
	return set
}

// terms returns the terms of a part.
func (d *wordDocument) terms(part recall.Part) map[string]bool {
	if part != recall.Grams {
		return d.stems
	}
	if d.grams == nil {
		d.grams = setOf(recall.Trigrams(d.text.Words...))
	}
	return d.grams
}

// Search returns the documents that have words of a text, or similar ones.
func (x *Words) Search(text string, p *vector.SearchParams) ([]vector.Hit, error) {
	for limit := firstLimit(p); ; limit *= 4 {
		found, err := recall.Search(x, memory.SearchParams{Query: text, Limit: limit})
		if err != nil {
			return nil, err
		}
		hits := vector.NewCollector(p)
		for _, m := range found {
			at, _ := slices.BinarySearchFunc(x.documents, m.ID, func(d wordDocument, id string) int { return strings.Compare(d.row.ID, id) })
			if !hits.Add(x.documents[at].row, m.Score) {
				break
			}
		}
		if hits.Full() || len(found) < limit {
			return hits.Hits(), nil
		}
	}
}

// Count implements recall.Index.
func (x *Words) Count(stems []string) (counts []int, all int, err error) {
	counts = make([]int, len(stems))
	for i, s := range stems {
		for _, d := range x.documents {
			if d.stems[s] && counts[i] < recall.MaxCount {
				counts[i]++
			}
		}
	}
	return counts, min(len(x.documents), recall.MaxCount), nil
}

// Candidates implements recall.Index.
func (x *Words) Candidates(part recall.Part, terms []string, n int) ([]memory.Memory, error) {
	type candidate struct {
		row   *vector.Row
		terms int
	}
	var all []candidate
	for i := range x.documents {
		d := &x.documents[i]
		contained, count := d.terms(part), 0
		for _, t := range terms {
			if contained[t] {
				count++
			}
		}
		if count > 0 {
			all = append(all, candidate{d.row, count})
		}
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.terms, a.terms) })
	found := make([]memory.Memory, min(n, len(all)))
	for i := range found {
		found[i] = memory.Memory{ID: all[i].row.ID, Content: all[i].row.Text}
	}
	return found, nil
}
