//go:build services

package postgres

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/vector"
)

var benchDocuments = flag.Int("documents", 20_000, "documents of BenchmarkVectorSpeed")

// zipfDocuments returns documents of 384 components in clusters with sizes that follow Zipf's law. A
// vector is a random combination of 32 directions near the center of its cluster, with noise.
func zipfDocuments(r *rand.Rand, n int) []vector.Document {
	const dim, directions = 384, 32
	normal := func(scale float64) []float32 {
		v := make([]float32, dim)
		for i := range v {
			v[i] = float32(r.NormFloat64() * scale / math.Sqrt(dim))
		}
		return v
	}
	var basis [directions][]float32
	for i := range basis {
		basis[i] = normal(1)
	}
	combination := func(v []float32, scale float64) []float32 {
		for _, direction := range basis {
			f := float32(r.NormFloat64() * scale / math.Sqrt(directions))
			for i := range v {
				v[i] += f * direction[i]
			}
		}
		return v
	}
	centers := make([][]float32, max(2, n/50))
	for i := range centers {
		centers[i] = combination(make([]float32, dim), 1)
	}
	zipf := rand.NewZipf(r, 1.1, 8, uint64(len(centers)-1))
	all := make([]vector.Document, n)
	for i := range all {
		v := combination(normal(0.15), 0.5)
		for j, c := range centers[zipf.Uint64()] {
			v[j] += c
		}
		all[i] = vector.Document{ID: fmt.Sprintf("%07d", i), Embedding: v, Metadata: map[string]any{"tenth": r.IntN(10), "hundredth": r.IntN(100)}}
	}
	return all
}

// BenchmarkVectorSpeed compares searches of one caller with searches of the index in the process, on
// the same documents and in turn, so that other load of the machine slows down both. It measures the
// recall of 10 documents.
func BenchmarkVectorSpeed(b *testing.B) {
	const seed = 1
	b.Logf("seed %d, %d documents of 384 components", seed, *benchDocuments)
	documents := zipfDocuments(rand.New(rand.NewPCG(seed, 7)), *benchDocuments+200)
	documents, queries := documents[:*benchDocuments], documents[*benchDocuments:]
	memory := inmem.New()
	b.Cleanup(func() { _ = memory.Close() })
	w := storetest.Wrap(b)
	s := open(w, freshConfig(w, Config{Vectors: true, MigrationWait: time.Hour, Logger: testLogger(b)}))
	stores := []vector.Store{s.Vectors(vector.Config{}), memory.Vectors(vector.Config{})}
	for i, name := range []string{"pgvector", "embedded"} {
		start := time.Now()
		for part := range slices.Chunk(documents, vector.MaxWrite) {
			_, err := stores[i].Add(b.Context(), vectorKey, vector.WriteParams{Documents: part})
			must(b, err)
		}
		if i == 0 {
			must(b, s.IndexVectors(b.Context()))
			_, err := s.pool.Exec(b.Context(), s.qualify(`ANALYZE {s}.vector_documents`))
			must(b, err)
		}
		b.Logf("%s: %.0f documents/s stored and indexed", name, float64(len(documents))/time.Since(start).Seconds())
	}
	for _, test := range []struct {
		name   string
		filter filter.Filter
	}{{"all", filter.Filter{}}, {"tenth", filter.Eq("tenth", 3)}, {"hundredth", filter.Eq("hundredth", 3)}} {
		b.Run(test.name, func(b *testing.B) { compareSearches(b, stores, queries, test.filter) })
	}
}

// compareSearches reports the speed and the recall of two stores. Each iteration runs all queries.
func compareSearches(b *testing.B, stores []vector.Store, queries []vector.Document, f filter.Filter) {
	b.Helper()
	search := func(s vector.Store, q *vector.Document, exact bool) []vector.Hit {
		all, err := s.Search(b.Context(), vectorKey, vector.SearchParams{Queries: []vector.Query{{Embedding: q.Embedding}}, Limit: 10, Filter: f, Exact: exact})
		must(b, err)
		return all[0].Hits
	}
	var took [2]time.Duration
	var found [2]int
	for b.Loop() {
		for i := range queries {
			want := search(stores[1], &queries[i], true)
			for j, s := range stores {
				start := time.Now()
				hits := search(s, &queries[i], false)
				took[j] += time.Since(start)
				for _, h := range hits {
					if slices.ContainsFunc(want, func(w vector.Hit) bool { return w.ID == h.ID }) {
						found[j]++
					}
				}
			}
		}
	}
	n := float64(b.N * len(queries))
	for j, name := range []string{"pgvector", "embedded"} {
		b.ReportMetric(n/took[j].Seconds(), name+"-searches/s")
		b.ReportMetric(float64(found[j])/n/10, name+"-recall")
	}
	b.ReportMetric(took[0].Seconds()/took[1].Seconds(), "times-pgvector")
}
