package vectortest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/vectortest"
)

// broken is a store with a defect: it changes params or results.
type broken struct {
	vector.Store
	key    func(k *vector.Key)
	write  func(p *vector.WriteParams)
	adds   func(err error) error
	search func(p *vector.SearchParams)
	found  func(asked vector.SearchParams, all []vector.Results)
	get    func(all []vector.Document)
	ids    func(ids []string) []string
	failed func(err error) error
}

func (b *broken) in(k vector.Key) vector.Key {
	if b.key != nil && k.Owner != "" {
		b.key(&k)
	}
	return k
}

func (b *broken) Add(ctx context.Context, k vector.Key, p vector.WriteParams) ([]string, error) {
	if b.write != nil {
		b.write(&p)
	}
	ids, err := b.Store.Add(ctx, b.in(k), p)
	if b.adds != nil && errors.Is(err, vector.ErrExists) {
		return b.Store.Upsert(ctx, b.in(k), p)
	}
	return ids, err
}

func (b *broken) Upsert(ctx context.Context, k vector.Key, p vector.WriteParams) ([]string, error) {
	if b.write != nil {
		b.write(&p)
	}
	return b.Store.Upsert(ctx, b.in(k), p)
}

func (b *broken) Search(ctx context.Context, k vector.Key, p vector.SearchParams) ([]vector.Results, error) {
	asked := p
	if b.search != nil {
		b.search(&p)
	}
	all, err := b.Store.Search(ctx, b.in(k), p)
	if b.found != nil && err == nil {
		b.found(asked, all)
	}
	if b.failed != nil && err != nil {
		err = b.failed(err)
	}
	return all, err
}

func (b *broken) Get(ctx context.Context, k vector.Key, ids []string) ([]vector.Document, error) {
	all, err := b.Store.Get(ctx, b.in(k), ids)
	if b.get != nil {
		b.get(all)
	}
	return all, err
}

func (b *broken) Delete(ctx context.Context, k vector.Key, ids []string) (int, error) {
	if b.ids != nil {
		ids = b.ids(ids)
	}
	return b.Store.Delete(ctx, b.in(k), ids)
}

// eachHits returns a function that changes the hits of all results.
func eachHits(change func(asked vector.SearchParams, hits []vector.Hit) []vector.Hit) func(vector.SearchParams, []vector.Results) {
	return func(asked vector.SearchParams, all []vector.Results) {
		for i := range all {
			all[i].Hits = change(asked, all[i].Hits)
		}
	}
}

var mutants = map[string]broken{
	"ignores the owner":       {key: func(k *vector.Key) { k.Owner = "x" }},
	"ignores the collection":  {key: func(k *vector.Key) { k.Collection = "x" }},
	"ignores case of owners":  {key: func(k *vector.Key) { k.Owner = strings.ToLower(k.Owner) }},
	"ignores the metric":      {write: func(p *vector.WriteParams) { p.Metric = "" }},
	"ignores the embedder":    {write: func(p *vector.WriteParams) { p.Embedder = "" }},
	"adds existing ids":       {adds: func(error) error { return nil }},
	"ignores the filter":      {search: func(p *vector.SearchParams) { p.Filter = filter.Filter{} }},
	"filters after the limit": {search: func(p *vector.SearchParams) { p.Filter = filter.Filter{} }, found: eachHits(filterAfter)},
	"ignores the offset":      {search: func(p *vector.SearchParams) { p.Offset = 0 }},
	"ignores groups":          {search: func(p *vector.SearchParams) { p.GroupBy = "" }},
	"ignores the score limit": {search: func(p *vector.SearchParams) { p.MinScore = nil }},
	"omits embeddings":        {search: func(p *vector.SearchParams) { p.IncludeEmbedding = false }},
	"always has embeddings":   {search: func(p *vector.SearchParams) { p.IncludeEmbedding = true }},
	"has another limit":       {search: func(p *vector.SearchParams) { p.Limit = max(p.Limit, 6) }},
	"misses the last result": {found: eachHits(func(_ vector.SearchParams, hits []vector.Hit) []vector.Hit {
		return hits[:max(0, len(hits)-1)]
	})},
	"reverses results": {found: eachHits(func(_ vector.SearchParams, hits []vector.Hit) []vector.Hit {
		slices.Reverse(hits)
		return hits
	})},
	"returns distances": {found: eachHits(func(_ vector.SearchParams, hits []vector.Hit) []vector.Hit {
		for i := range hits {
			hits[i].Score = 1 - hits[i].Score
		}
		return hits
	})},
	"states another mode": {found: func(_ vector.SearchParams, all []vector.Results) {
		for i := range all {
			all[i].Mode = vector.ModeSemantic
		}
	}},
	"rounds embeddings": {get: func(all []vector.Document) {
		for _, d := range all {
			for i, c := range d.Embedding {
				d.Embedding[i] = float32(int(c))
			}
		}
	}},
	"omits metadata": {get: func(all []vector.Document) {
		for i := range all {
			all[i].Metadata = nil
		}
	}},
	"deletes one document": {ids: func(ids []string) []string { return ids[:min(1, len(ids))] }},
	"hides errors":         {failed: func(error) error { return nil }},
	"returns other errors": {failed: func(error) error { return errors.New("other") }},
}

func filterAfter(asked vector.SearchParams, hits []vector.Hit) []vector.Hit {
	return slices.DeleteFunc(hits, func(h vector.Hit) bool { return !asked.Filter.Match(h.Metadata) })
}

func TestSuiteDetectsDefects(t *testing.T) {
	t.Parallel()
	for name, mutant := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := storetest.NewRecorder(t.Context())
			vectortest.RunOn(r, vectortest.Harness{Calls: 100, Open: func(t storetest.T, cfg vector.Config) vector.Store {
				s := inmem.New()
				t.Cleanup(func() { s.Close() })
				b := mutant
				b.Store = s.Vectors(cfg)
				return &b
			}})
			if len(r.Failures()) == 0 {
				t.Error("the suite passes")
			}
		})
	}
}
