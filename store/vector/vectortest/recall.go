package vectortest

import (
	"context"

	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// CheckRecall stores the doc comments of the Go standard library and searches for a number of them, by clean and
// by misspelt words, as [memorytest.CheckRecall] does with facts.
func CheckRecall(t storetest.T, s vector.Store, queries int) {
	t.Helper()
	memorytest.CheckRecall(t, &recallStore{s: s}, queries)
}

// recallStore has the methods of memory.LongTerm that CheckRecall calls.
type recallStore struct {
	memory.LongTerm
	s vector.Store
}

var recallKey = vector.Key{Owner: memorytest.RecallScope.Owner}

// Save implements memory.LongTerm.
func (r *recallStore) Save(ctx context.Context, _ memory.Scope, content string, _ memory.SaveParams) (string, error) {
	ids, err := r.s.Add(ctx, recallKey, vector.WriteParams{Documents: []vector.Document{{Text: content}}})
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

// Search implements memory.LongTerm.
func (r *recallStore) Search(ctx context.Context, _ memory.Scope, p memory.SearchParams) (memory.Results, error) {
	all, err := r.s.Search(ctx, recallKey, vector.SearchParams{Queries: []vector.Query{{Text: p.Query}}, Limit: p.Limit})
	if err != nil {
		return memory.Results{}, err
	}
	var found memory.Results
	for _, h := range all[0].Hits {
		found.Facts = append(found.Facts, memory.Memory{ID: h.ID, Content: h.Text})
	}
	return found, nil
}
