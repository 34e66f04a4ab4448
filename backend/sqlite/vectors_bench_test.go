package sqlite

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/vectortest"
)

// BenchmarkVectorSearch searches 10,000 documents of 24 components, so that it measures the store more
// than the index.
func BenchmarkVectorSearch(b *testing.B) {
	v := open(b, Config{Dir: b.TempDir()}).Vectors(vector.Config{})
	r := rand.New(rand.NewPCG(1, 1))
	for part := range slices.Chunk(randomDocuments(r, 10_000, 0), 1000) {
		_, err := v.Upsert(bg, testCollection, vector.WriteParams{Documents: part})
		must(b, err)
	}
	query := []vector.Query{{Embedding: randomDocuments(r, 1, 0)[0].Embedding}}
	for name, f := range map[string]filter.Filter{"all": {}, "tenth": filter.Eq("n", 3)} {
		b.Run(name, func(b *testing.B) {
			start := processorTime()
			for b.Loop() {
				all, err := v.Search(bg, testCollection, vector.SearchParams{Queries: query, Limit: 10, Filter: f})
				if err != nil || len(all[0].Hits) != 10 {
					b.Fatalf("Search() = %+v, %v", all, err)
				}
			}
			b.ReportMetric(float64(b.N)/(processorTime()-start).Seconds(), "searches/cpu-s")
		})
	}
}

// BenchmarkWordSearch searches collections of up to 100,000 documents by words.
func BenchmarkWordSearch(b *testing.B) {
	s := open(b, Config{Dir: b.TempDir(), Synchronous: "NORMAL"})
	vectortest.BenchWords(b, s.Vectors(vector.Config{}), 100_000, processorTime)
}
