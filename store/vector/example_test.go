package vector_test

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// colors is an embedder for three colors. Use package embedding for one that knows the language.
type colors struct{}

func (colors) Name() string { return "colors" }

func (colors) Embed(_ context.Context, texts []string) (all [][]float32, err error) {
	for _, text := range texts {
		all = append(all, map[string][]float32{"red": {1, 0, 0}, "orange": {0.8, 0.5, 0}, "blue": {0, 0, 1}}[text])
	}
	return all, nil
}

func Example() {
	ctx := context.Background()
	s := inmem.New()
	defer s.Close()
	documents := s.Vectors(vector.Config{Embedder: colors{}})
	key := vector.Key{Owner: "ravi", Collection: "paints"}
	_, err := documents.Upsert(ctx, key, vector.WriteParams{Documents: []vector.Document{
		{ID: "p1", Text: "red", Metadata: map[string]any{"liters": 2}},
		{ID: "p2", Text: "blue", Metadata: map[string]any{"liters": 5}},
		{ID: "p3", Text: "orange", Metadata: map[string]any{"liters": 5}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	found, err := documents.Search(ctx, key, vector.SearchParams{
		Queries: []vector.Query{{Text: "red"}}, Filter: filter.Gte("liters", 5), Limit: 1,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, h := range found[0].Hits {
		fmt.Printf("%s %s %.2f\n", h.ID, h.Text, h.Score)
	}
	// Output: p3 orange 0.85
}
