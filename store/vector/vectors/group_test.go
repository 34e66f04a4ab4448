package vectors

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/memory/recall"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/ann"
	"github.com/holdfast-dev/holdfast/store/vector/vectordriver"
)

// documents are documents in memory. It counts those that were read.
type documents struct {
	byID map[string]*vectordriver.Row
	read int
}

func (d *documents) Rows(_ context.Context, ids []string, each func(r *vectordriver.Row)) error {
	for _, id := range ids {
		d.read++
		each(d.byID[id])
	}
	return nil
}

func (d *documents) Words(context.Context, filter.Filter) recall.Index { panic("not called") }

// newCollection returns a collection of n documents on a line; group returns the group of each.
func newCollection(t *testing.T, n int, group func(i int) int) (*Collection, *documents) {
	t.Helper()
	info := vector.Collection{Name: "line", Metric: vector.L2, Dimension: 2, Documents: int64(n)}
	index, err := NewIndex(&info, ann.Config{})
	if err != nil {
		t.Fatal(err)
	}
	d := &documents{byID: make(map[string]*vectordriver.Row)}
	var items []ann.Item
	for i := range n {
		r := &vectordriver.Row{ID: fmt.Sprintf("%06d", i), Metadata: fmt.Sprintf(`{"g":%d}`, group(i)), Embedding: []float32{float32(i), 0}}
		d.byID[r.ID] = r
		items = append(items, Item(r))
	}
	if err := index.Upsert(items); err != nil {
		t.Fatal(err)
	}
	return &Collection{info, index, d}, d
}

func groups(t *testing.T, c *Collection, p vector.SearchParams) vector.Results {
	t.Helper()
	p.Queries, p.GroupBy = []vector.Query{{Embedding: []float32{0, 0}}}, "g"
	_, p, err := vectordriver.CheckSearch(vector.Key{Owner: "owner"}, p)
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.Search(t.Context(), nil, &p)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

func TestGroupsReadAsManyDocumentsAsTheyNeed(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		size := 1 + r.IntN(200)
		c, d := newCollection(t, 3000, func(i int) int { return i / size })
		p := vector.SearchParams{Limit: 1 + r.IntN(8), Offset: r.IntN(4)}
		got := groups(t, c, p)
		want := min(p.Limit, max(0, (3000+size-1)/size-p.Offset))
		if len(got.Hits) != want || got.Truncated {
			t.Errorf("groups of %d documents: %+v has %d groups, want %d", size, p, len(got.Hits), want)
		}
		for i, h := range got.Hits {
			if first := fmt.Sprintf("%06d", (p.Offset+i)*size); h.ID != first {
				t.Errorf("groups of %d documents: hit %d of %+v is %s, want %s", size, i, p, h.ID, first)
			}
		}
		if most := 4 * (p.Limit + p.Offset) * size; d.read > max(most, 4*(p.Limit+p.Offset)) {
			t.Errorf("groups of %d documents: %d documents were read for %+v, want at most %d", size, d.read, p, most)
		}
	}
}

func TestGroupsAreBounded(t *testing.T) {
	t.Parallel()
	const n = vector.MaxGrouped + 100
	c, d := newCollection(t, n, func(i int) int { return i / (n - 1) })
	got := groups(t, c, vector.SearchParams{Limit: 2})
	if len(got.Hits) != 1 || !got.Truncated || d.read != vector.MaxGrouped {
		t.Errorf("%d groups, truncated: %t, after %d documents", len(got.Hits), got.Truncated, d.read)
	}
	if got := groups(t, c, vector.SearchParams{Limit: 2, Exact: true}); len(got.Hits) != 2 || got.Truncated {
		t.Errorf("exact: %d groups, truncated: %t", len(got.Hits), got.Truncated)
	}
	if got := groups(t, c, vector.SearchParams{Limit: 1}); len(got.Hits) != 1 || got.Truncated {
		t.Errorf("limit 1: %d groups, truncated: %t", len(got.Hits), got.Truncated)
	}
}
