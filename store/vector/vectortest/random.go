package vectortest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/suite"
	"github.com/holdfast-dev/holdfast/store/vector"
)

var randomTests = []test{{name: "random calls have the results of a model", run: testRandom}}

// world is the model: a map of documents, which it compares one by one.
type world struct {
	r           *rand.Rand
	collections map[vector.Key]*modelCollection
}

type modelCollection struct {
	metric    vector.Metric
	dimension int
	documents map[string]vector.Document
}

// testRandom compares random calls with the model. Components are small integers, so that many
// scores are equal and rounding does not change their order.
func testRandom(f *fixture) {
	seed := testseed.Of(f)
	w := &world{rand.New(rand.NewPCG(seed, 0)), make(map[vector.Key]*modelCollection)}
	for n := 0; n < f.h.Calls && !f.Failed(); n++ {
		k := vector.Key{Owner: fmt.Sprint("owner", w.r.IntN(2)), Collection: fmt.Sprint("c", w.r.IntN(3))}
		switch x := w.r.IntN(100); {
		case x < 30:
			w.write(f, k)
		case x < 40:
			w.remove(f, k)
		case x < 41:
			w.removeCollection(f, k)
		case x < 42 && f.h.Reopen != nil:
			f.s = f.h.Reopen(f.T, f.s, f.cfg)
		default:
			w.search(f, k)
		}
		if f.Failed() {
			f.Logf("call %d", n)
		}
	}
}

func (w *world) embedding(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(w.r.IntN(5) - 2)
	}
	v[w.r.IntN(n)] = 1
	return v
}

// text returns one of a few words, none of which is similar to another.
func (w *world) text() string { return fmt.Sprint(10 + w.r.IntN(12)) }

func (w *world) id() string { return fmt.Sprint("d", w.r.IntN(60)) }

func (w *world) metadata() map[string]any {
	m := map[string]any{"n": float64(w.r.IntN(6)), "s": string(rune('a' + w.r.IntN(4)))}
	if w.r.IntN(2) == 0 {
		m["t"] = []any{string(rune('a' + w.r.IntN(4))), float64(w.r.IntN(3))}
	}
	if w.r.IntN(2) == 0 {
		m["o"] = map[string]any{"b": w.r.IntN(2) == 0, "x": nil}
	}
	return m
}

// filter returns a random filter.
func (w *world) filter(depth int) filter.Filter {
	path := []string{"n", "s", "t", "o.b", "o.x", "o", "missing"}[w.r.IntN(7)]
	value := []any{w.r.IntN(6), string(rune('a' + w.r.IntN(4))), w.r.IntN(2) == 0, nil, 2.5}[w.r.IntN(5)]
	ordered := []any{w.r.IntN(6), string(rune('a' + w.r.IntN(4)))}[w.r.IntN(2)]
	leaves := []filter.Filter{
		filter.Eq(path, value), filter.Ne(path, value), filter.In(path, value, ordered), filter.NotIn(path, value, ordered), filter.Exists(path),
		filter.Contains(path, value), filter.StartsWith(path, "a"), filter.Gt(path, ordered), filter.Gte(path, ordered), filter.Lt(path, ordered), filter.Lte(path, ordered),
	}
	if depth == 0 || w.r.IntN(3) == 0 {
		return leaves[w.r.IntN(len(leaves))]
	}
	a, b := w.filter(depth-1), w.filter(depth-1)
	return []filter.Filter{filter.And(a, b), filter.Or(a, b), filter.Not(a)}[w.r.IntN(3)]
}

func (w *world) write(f *fixture, k vector.Key) {
	metric, dimension := []vector.Metric{vector.Cosine, vector.Dot, vector.L2}[w.r.IntN(3)], 2+w.r.IntN(3)
	c, add := w.collections[k], w.r.IntN(2) == 0
	if c != nil && w.r.IntN(10) > 0 {
		metric, dimension = c.metric, c.dimension
	}
	var p vector.WriteParams
	documents := make(map[string]vector.Document)
	exists := false
	for range 1 + w.r.IntN(5) {
		d := vector.Document{ID: w.id(), Text: w.text(), Embedding: w.embedding(dimension), Metadata: w.metadata()}
		if _, repeated := documents[d.ID]; repeated {
			continue
		}
		documents[d.ID] = d
		p.Documents = append(p.Documents, d)
		if c != nil {
			_, found := c.documents[d.ID]
			exists = exists || found
		}
	}
	p.Metric = metric
	call := f.s.Upsert
	if add {
		call = f.s.Add
	}
	_, err := call(f.ctx, k, p)
	switch {
	case c != nil && (c.metric != metric || c.dimension != dimension):
		f.wantError("write", err, vector.ErrMismatch, "")
	case add && exists:
		f.wantError("Add()", err, vector.ErrExists, "")
	case err != nil:
		f.Errorf("write = %v", err)
	default:
		if c == nil {
			c = &modelCollection{metric, dimension, make(map[string]vector.Document)}
			w.collections[k] = c
		}
		maps.Copy(c.documents, documents)
	}
}

func (w *world) remove(f *fixture, k vector.Key) {
	ids := []string{w.id(), w.id(), w.id()}
	n, err := f.s.Delete(f.ctx, k, ids)
	c := w.collections[k]
	if c == nil {
		f.wantError("Delete()", err, vector.ErrCollectionNotFound, "")
		return
	}
	before := len(c.documents)
	for _, id := range ids {
		delete(c.documents, id)
	}
	if want := before - len(c.documents); n != want || err != nil {
		f.Errorf("Delete(%v) = %d, %v, want %d", ids, n, err, want)
	}
}

func (w *world) removeCollection(f *fixture, k vector.Key) {
	want := 0
	if c := w.collections[k]; c != nil {
		want = len(c.documents)
	}
	delete(w.collections, k)
	suite.Call(f.s.DeleteCollection(f.ctx, k)).Want(f, want, "DeleteCollection()")
}

func (w *world) search(f *fixture, k vector.Key) {
	c := w.collections[k]
	p := vector.SearchParams{Limit: 1 + w.r.IntN(12), Exact: w.r.IntN(2) == 0}
	if w.r.IntN(3) == 0 {
		p.Offset = w.r.IntN(10)
	}
	if w.r.IntN(2) == 0 {
		p.Filter = w.filter(3)
	}
	if w.r.IntN(4) == 0 {
		p.GroupBy = []string{"n", "s", "o.b", "t"}[w.r.IntN(4)]
	}
	if w.r.IntN(4) == 0 {
		limit := w.r.Float64()*2 - 1 + math.Pi/1e5
		p.MinScore = &limit
	}
	dimension := 3
	if c != nil {
		dimension = c.dimension
	}
	q := vector.Query{Embedding: w.embedding(dimension)}
	if w.r.IntN(4) == 0 {
		q = vector.Query{Text: w.text()}
	}
	p.Queries = []vector.Query{q}
	all, err := f.s.Search(f.ctx, k, p)
	switch {
	case c == nil:
		f.wantError("Search()", err, vector.ErrCollectionNotFound, "")
	case err != nil:
		f.Errorf("Search() = %v", err)
	default:
		if len(all) != 1 {
			f.Fatalf("Search() = %+v", all)
		}
		for i := range all[0].Hits {
			all[0].Hits[i].Scores = vector.Scores{}
		}
		f.equal(fmt.Sprintf("Search(%+v) of %s", p, c.metric), all[0].Hits, c.search(q, p))
	}
}

// search is the reference of a search.
func (c *modelCollection) search(q vector.Query, p vector.SearchParams) (hits []vector.Hit) {
	for _, d := range c.documents {
		score := 1.0
		if q.Embedding != nil {
			score = modelScore(c.metric, q.Embedding, d.Embedding)
		} else if d.Text != q.Text {
			continue
		}
		if p.Filter.Match(d.Metadata) && (p.MinScore == nil || score >= *p.MinScore) {
			d.Embedding = nil
			hits = append(hits, vector.Hit{Document: d, Score: score})
		}
	}
	slices.SortFunc(hits, func(a, b vector.Hit) int {
		if math.Abs(a.Score-b.Score) < 1e-6 {
			return strings.Compare(a.ID, b.ID)
		}
		return cmp.Compare(b.Score, a.Score)
	})
	seen := make(map[any]bool)
	hits = slices.DeleteFunc(hits, func(h vector.Hit) bool {
		var group any
		if o, _ := h.Metadata["o"].(map[string]any); p.GroupBy == "o.b" && o != nil {
			group = o["b"]
		} else if p.GroupBy == "n" || p.GroupBy == "s" {
			group = h.Metadata[p.GroupBy]
		}
		repeated := group != nil && seen[group]
		seen[group] = true
		return repeated
	})
	hits = hits[min(p.Offset, len(hits)):]
	return hits[:min(p.Limit, len(hits))]
}

func modelScore(m vector.Metric, a, b []float32) float64 {
	var dot, aa, bb, dd float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		dot, aa, bb, dd = dot+x*y, aa+x*x, bb+y*y, dd+(x-y)*(x-y)
	}
	switch m {
	case vector.Cosine:
		return dot / math.Sqrt(aa*bb)
	case vector.Dot:
		return dot
	default:
		return 1 / (1 + math.Sqrt(dd))
	}
}
