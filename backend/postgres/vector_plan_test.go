//go:build services

package postgres

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// A search of a large collection walks its index, also with a filter that selects many documents. One that
// selects few compares those that the index of attributes finds. transact checks that the walk continues
// until it has enough documents (hnsw.iterative_scan).
func TestPlansOfVectorSearches(t *testing.T) {
	t.Parallel()
	v := open(storetest.Wrap(t), freshConfig(storetest.Wrap(t), Config{Vectors: true, indexFrom: 1000})).Vectors(vector.Config{}).(*vectorStore)
	addAll(t, v, vectorKey, vector.WriteParams{Documents: clustered(rand.New(rand.NewPCG(1, 2)), 4000, 8)})
	awaitIndex(t, v, vectorKey, "vector")
	_, err := v.kit.pool.Exec(t.Context(), v.kit.qualify(`ANALYZE {s}.vector_documents`)) // as autovacuum does
	must(t, err)
	const walk, attributes = "Index Scan using vector_hnsw_", "Bitmap Index Scan on vector_attributes_"
	for _, test := range []struct {
		name      string
		filter    filter.Filter
		exact     bool
		want, not string
	}{
		{"all documents", filter.Filter{}, false, walk, attributes},
		{"a filter that selects many", filter.Ne("tenth", 1), false, walk, attributes},
		{"a filter that selects few", filter.Eq("n", 7), false, attributes, walk},
		{"an exact search", filter.Filter{}, true, "Sort", walk},
	} {
		c, err := v.existing(t.Context(), vectorKey)
		must(t, err)
		p := &vector.SearchParams{Limit: 10, Filter: test.filter}
		s := &vectorSearch{kit: v.kit, k: vectorKey, c: c, p: p, exact: test.exact}
		s.add(make([]float32, 8), new([]vector.Hit))
		s.pending[0].embedding[0] = 1
		must(t, s.plan(t.Context()))
		text, args, err := s.text(s.pending[0])
		must(t, err)
		var plan strings.Builder
		explain := s.call("EXPLAIN (COSTS OFF) "+text, args)
		explain.row = func(r record) { plan.WriteString(r.text(0) + "\n") }
		must(t, s.transact(t.Context(), explain))
		if !strings.Contains(plan.String(), test.want) || strings.Contains(plan.String(), test.not) {
			t.Errorf("%s: the plan is\n%s, want %q and not %q", test.name, &plan, test.want, test.not)
		}
	}
}
