package ann

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/testseed"
)

// A walk starts at the query. Here the filter selects the half of the items that is furthest from it,
// before and after half of the items were replaced.
func TestWalkFindsSelectedItemsFarFromTheQuery(t *testing.T) {
	t.Parallel()
	const n = 21_000 // so that half of them are not scanned
	d := newData(t, testseed.Of(t), 32, 100)
	x := newIndex(t, Config{Dim: 32, Metric: Cosine, GraphAt: 1000})
	items := d.items(n, 0)
	upsert(t, x, items)
	for round := range 2 {
		var sum float64
		const queries = 5
		for q := range queries {
			query := d.vector()
			closeness := make([]float64, n)
			for i := range items {
				closeness[i] = exactScore(Cosine, query, items[i].Vector)
			}
			median := slices.Sorted(slices.Values(closeness))[n/2]
			far := &Filter{Key: fmt.Sprint(round, q), Match: func(_ string, attr any) bool { return closeness[attr.(int)] <= median }}
			p := SearchParams{Vector: query, Limit: 10, Filter: far}
			got := search(t, x, p)
			p.Exact = true
			want := search(t, x, p)
			if len(got) != len(want) {
				t.Fatalf("Search() returns %d results, want %d", len(got), len(want))
			}
			sum += recall(got, want)
		}
		// Two of the 50 results may be missing. A walk that ends too early misses more than five.
		if sum/queries < 0.955 {
			t.Errorf("round %d: recall is %.4f, want 0.96", round, sum/queries)
		}
		if round > 0 || testing.Short() {
			break
		}
		var changed []Item
		for _, i := range rand.Perm(n)[:n/2] {
			items[i].Vector = d.vector()
			changed = append(changed, items[i])
		}
		upsert(t, x, changed)
	}
}

// Equal vectors must not fill the lists of links so that others cannot be reached.
func TestEqualVectorsDoNotHideOthers(t *testing.T) {
	t.Parallel()
	d := newData(t, testseed.Of(t), 32, 20)
	x := newIndex(t, Config{Dim: 32, Metric: Cosine, GraphAt: 200})
	items := d.items(4000, 0)
	same := d.vector()
	for i := range items {
		if i%4 != 0 {
			items[i].Vector = same
		}
	}
	upsert(t, x, items)
	if got := check(t, x, d, byID(items), SearchParams{}, 100); got < 0.98 {
		t.Errorf("recall is %.4f, want 0.98", got)
	}
	if got := check(t, x, d, byID(items), SearchParams{Filter: modulo(4)}, 50); got < 0.99 {
		t.Errorf("others: recall is %.4f, want 0.99", got)
	}
	for _, r := range search(t, x, SearchParams{Vector: same, Limit: 100}) {
		if r.Score < 1-1e-6 {
			t.Errorf("the score of an equal vector is %g", r.Score)
		}
	}
}
