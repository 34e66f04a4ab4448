package ann

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/holdfast-dev/holdfast/internal/testseed"
)

// TestIDTableFindsRows compares the table with a map.
func TestIDTableFindsRows(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	x := newIndex(t, Config{Dim: 1, Metric: Dot})
	model := make(map[string]float32)
	for range 20_000 {
		id := fmt.Sprint(r.IntN(3000))
		if r.IntN(3) == 0 {
			_, exists := model[id]
			if got := x.Delete([]string{id}) == 1; got != exists {
				t.Fatalf("Delete(%s) = %t, want %t", id, got, exists)
			}
			delete(model, id)
			continue
		}
		model[id] = r.Float32()
		if err := x.Upsert([]Item{{ID: id, Vector: []float32{model[id]}}}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 3000 {
		id := fmt.Sprint(n)
		row, ok := x.rows.get(x.table, id)
		v, want := model[id]
		if ok != want || ok && (x.id(row) != id || x.vector(row)[0] != v) {
			t.Errorf("the table finds row %d of %s: %t, want %t", row, id, ok, want)
		}
	}
	if x.Len() != len(model) {
		t.Errorf("Len() = %d, want %d", x.Len(), len(model))
	}
	for _, b := range x.blocks {
		if len(b.ids.text) > 32<<10 {
			t.Errorf("the ids of a block need %d bytes", len(b.ids.text))
		}
	}
}

func TestLinksKeepAllBitsOfRows(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(testseed.Of(t), 1))
	l := &blockLinks{limit: baseDegree}
	want := map[int][]uint32{0: {1, 1<<24 - 1}, 5: {}, 6: {0xfedcba98, 3, 1 << 24}, blockRows - 1: make([]uint32, baseDegree)}
	for i := range want[blockRows-1] {
		want[blockRows-1][i] = r.Uint32() >> r.IntN(32)
	}
	for i, links := range want {
		l.set(i, links)
	}
	for i, links := range want {
		if got := l.get(i, new(linkList)); !slices.Equal(got, links) {
			t.Errorf("links of row %d are %v, want %v", i, got, links)
		}
	}
}

func TestBytesFollowsTheIndex(t *testing.T) {
	t.Parallel()
	x := newIndex(t, Config{Dim: 64, Metric: Cosine, GraphAt: 1000, Source: &source{}})
	d := newData(t, 1, 64, 10)
	empty := x.Bytes()
	upsert(t, x, d.items(3*blockRows, 0))
	if got, codes := x.Bytes()-empty, int64(3*blockRows*64); got < codes+3*blockRows*baseDegree*linkBytes || got > 5*codes {
		t.Errorf("Bytes() grows by %d, the codes have %d", got, codes)
	}
}
