package ann

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// data generates vectors of unit length in clusters with sizes that follow Zipf's law. A cluster
// has 32 directions of its own, and noise in all others.
type data struct {
	r       *rand.Rand
	dim     int
	centers [][]float32
	basis   [][]float32
	zipf    *rand.Zipf
}

func newData(t testing.TB, seed uint64, dim, clusters int) *data {
	r := rand.New(rand.NewPCG(seed, 7))
	d := &data{r: r, dim: dim, zipf: rand.NewZipf(r, 1.1, 8, uint64(clusters-1))}
	for range 32 {
		d.basis = append(d.basis, d.normal(1))
	}
	for range clusters {
		d.centers = append(d.centers, d.combination(1))
	}
	return d
}

func (d *data) normal(scale float64) []float32 {
	v := make([]float32, d.dim)
	for i := range v {
		v[i] = float32(d.r.NormFloat64() * scale / math.Sqrt(float64(d.dim)))
	}
	return v
}

func (d *data) combination(scale float64) []float32 {
	v := make([]float32, d.dim)
	for _, b := range d.basis {
		f := float32(d.r.NormFloat64() * scale / math.Sqrt(32))
		for i := range v {
			v[i] += f * b[i]
		}
	}
	return v
}

func (d *data) vector() []float32 {
	center := d.centers[d.zipf.Uint64()]
	v, noise := d.combination(0.5), d.normal(0.15)
	for i := range v {
		v[i] += center[i] + noise[i]
	}
	n := norm(v)
	for i := range v {
		v[i] /= n
	}
	return v
}

func (d *data) items(n, first int) []Item {
	items := make([]Item, n)
	for i := range items {
		items[i] = Item{ID: fmt.Sprintf("d%07d", first+i), Vector: d.vector(), Attr: first + i}
	}
	return items
}

// nearest returns the items that Search must return, by scores in float64.
func nearest(m Metric, items map[string]Item, q []float32, limit int, f *Filter) []Result {
	var all []Result
	for id, item := range items {
		if f == nil || f.Match(id, item.Attr) {
			all = append(all, Result{ID: id, Score: exactScore(m, q, item.Vector)})
		}
	}
	slices.SortFunc(all, func(a, b Result) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.ID, b.ID))
	})
	return all[:min(limit, len(all))]
}

func exactScore(m Metric, a, b []float32) float64 {
	var dot, aa, bb, dd float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		dot, aa, bb, dd = dot+x*y, aa+x*x, bb+y*y, dd+(x-y)*(x-y)
	}
	switch m {
	case Cosine:
		return dot / math.Sqrt(aa*bb)
	case Dot:
		return dot
	default:
		return 1 / (1 + math.Sqrt(dd))
	}
}

// recall is the share of wanted ids that were found. A result that is as close as the last wanted
// one counts.
func recall(got, want []Result) float64 {
	if len(want) == 0 {
		return 1
	}
	last, found := want[len(want)-1].Score, 0
	for _, r := range got {
		if r.Score >= last-1e-6 {
			found++
		}
	}
	return float64(found) / float64(len(want))
}

func byID(items []Item) map[string]Item {
	m := make(map[string]Item, len(items))
	for _, item := range items {
		m[item.ID] = item
	}
	return m
}

// modulo selects the items with a number that is divisible by n.
func modulo(n int) *Filter {
	return &Filter{Key: fmt.Sprint("modulo ", n), Match: func(_ string, attr any) bool { return attr.(int)%n == 0 }}
}

func newIndex(t testing.TB, cfg Config) *Index {
	t.Helper()
	x, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func upsert(t testing.TB, x *Index, items []Item) {
	t.Helper()
	for part := range slices.Chunk(items, 1000) {
		if err := x.Upsert(part); err != nil {
			t.Fatal(err)
		}
	}
}

func search(t testing.TB, x *Index, p SearchParams) []Result {
	t.Helper()
	if p.Limit == 0 {
		p.Limit = 10
	}
	got, err := x.Search(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func settle(t testing.TB, x *Index) {
	t.Helper()
	if err := x.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
}
