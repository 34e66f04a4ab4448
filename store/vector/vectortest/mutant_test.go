package vectortest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/suite"
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
	// texts are the first texts of documents, which searches by words find forever.
	texts *sync.Map // by id
}

func (b *broken) in(k vector.Key) vector.Key {
	if b.key != nil && k.Owner != "" {
		b.key(&k)
	}
	return k
}

func (b *broken) Add(ctx context.Context, k vector.Key, p vector.WriteParams) ([]string, error) {
	suite.Mutate(b.write, &p)
	ids, err := b.Store.Add(ctx, b.in(k), p)
	if b.adds != nil && errors.Is(err, vector.ErrExists) {
		return b.Store.Upsert(ctx, b.in(k), p)
	}
	return ids, err
}

func (b *broken) Upsert(ctx context.Context, k vector.Key, p vector.WriteParams) ([]string, error) {
	suite.Mutate(b.write, &p)
	for i := 0; b.texts != nil && i < len(p.Documents); i++ {
		b.texts.LoadOrStore(p.Documents[i].ID, p.Documents[i].Text)
	}
	return b.Store.Upsert(ctx, b.in(k), p)
}

func (b *broken) Search(ctx context.Context, k vector.Key, p vector.SearchParams) ([]vector.Results, error) {
	asked := p
	suite.Mutate(b.search, &p)
	all, err := b.Store.Search(ctx, b.in(k), p)
	for i := 0; b.texts != nil && i < len(all); i++ {
		b.texts.Range(func(id, text any) bool {
			known := slices.ContainsFunc(all[i].Hits, func(h vector.Hit) bool { return h.ID == id })
			if query := asked.Queries[i].Text; !known && query != "" && strings.Contains(text.(string), query) {
				all[i].Hits = append(all[i].Hits, vector.Hit{Document: vector.Document{ID: id.(string)}})
			}
			return true
		})
	}
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
	"ignores removals":        {write: func(p *vector.WriteParams) { p.Remove = nil }},
	"adds existing ids":       {adds: func(error) error { return nil }},
	"ignores the filter":      {search: func(p *vector.SearchParams) { p.Filter = filter.Filter{} }},
	"filters after the limit": {search: func(p *vector.SearchParams) { p.Filter = filter.Filter{} }, found: eachHits(filterAfter)},
	"ignores the offset":      {search: func(p *vector.SearchParams) { p.Offset = 0 }},
	"ignores groups":          {search: func(p *vector.SearchParams) { p.GroupBy = "" }},
	"ignores the score limit": {search: func(p *vector.SearchParams) { p.MinScore = nil }},
	"ignores the mode":        {search: func(p *vector.SearchParams) { p.Mode = "" }},
	"omits parts of scores":   {found: eachHits(omitParts)},
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
	"keeps the words of documents": {texts: new(sync.Map)},
	"deletes one document":         {ids: func(ids []string) []string { return ids[:min(1, len(ids))] }},
	"hides errors":                 {failed: func(error) error { return nil }},
	"returns other errors":         {failed: func(error) error { return errors.New("other") }},
}

func omitParts(_ vector.SearchParams, hits []vector.Hit) []vector.Hit {
	for i := range hits {
		hits[i].Scores = vector.Scores{}
	}
	return hits
}

func filterAfter(asked vector.SearchParams, hits []vector.Hit) []vector.Hit {
	return slices.DeleteFunc(hits, func(h vector.Hit) bool { return !asked.Filter.Match(h.Metadata) })
}

func TestSuiteDetectsDefects(t *testing.T) {
	t.Parallel()
	suite.Mutants(t, mutants, func(t suite.T, b broken) {
		vectortest.RunOn(t, vectortest.Harness{Calls: 100, Open: func(t storetest.T, cfg vector.Config) vector.Store {
			s := inmem.New()
			t.Cleanup(func() { s.Close() })
			b := b
			b.Store = s.Vectors(cfg)
			if b.texts != nil {
				b.texts = new(sync.Map) // of this store
			}
			return &b
		}})
	})
}

// brokenEffects is a store with a defect in its effects.
type brokenEffects struct {
	vector.Store
	vector.Transactional
	tasks   store.Store
	effect  func(s vector.Store, k vector.Key, p vector.WriteParams, e store.Effect) store.Effect
	removes func(ids []string) []string
	embeds  bool // again when an effect is applied
	e       vector.Embedder
}

func (b *brokenEffects) UpsertEffect(ctx context.Context, k vector.Key, p vector.WriteParams) (store.Effect, []string, error) {
	e, ids, err := b.Transactional.UpsertEffect(ctx, k, p)
	if b.effect != nil && err == nil {
		e = b.effect(b.Store, k, p, e)
	}
	if b.embeds && err == nil && b.e != nil {
		inner := e
		e = effectFunc(func(tx any) error {
			_, _ = b.e.Embed(context.Background(), []string{"again"})
			return inner.Apply(tx)
		})
	}
	return e, ids, err
}

func (b *brokenEffects) DeleteEffect(k vector.Key, ids []string) (store.Effect, error) {
	if b.removes != nil {
		ids = b.removes(ids)
	}
	return b.Transactional.DeleteEffect(k, ids)
}

type effectFunc func(tx any) error

func (f effectFunc) Apply(tx any) error { return f(tx) }

var effectMutants = map[string]brokenEffects{
	"write before the commit": {effect: func(s vector.Store, k vector.Key, p vector.WriteParams, e store.Effect) store.Effect {
		_, _ = s.Upsert(context.Background(), k, p)
		return e
	}},
	"are not applied": {effect: func(vector.Store, vector.Key, vector.WriteParams, store.Effect) store.Effect {
		return effectFunc(func(any) error { return nil })
	}},
	"hide their failure": {effect: func(_ vector.Store, _ vector.Key, _ vector.WriteParams, e store.Effect) store.Effect {
		return effectFunc(func(tx any) error {
			_ = e.Apply(tx)
			return nil
		})
	}},
	"remove one document": {removes: func(ids []string) []string { return ids[:min(1, len(ids))] }},
	"embed when applied":  {embeds: true},
}

func TestSuiteDetectsDefectsOfEffects(t *testing.T) {
	t.Parallel()
	suite.Mutants(t, effectMutants, func(t suite.T, b brokenEffects) {
		vectortest.RunOn(t, vectortest.Harness{
			Calls: 100,
			Open: func(t storetest.T, cfg vector.Config) vector.Store {
				s := inmem.New()
				t.Cleanup(func() { s.Close() })
				b := b
				b.tasks, b.Store, b.e = s, s.Vectors(cfg), cfg.Embedder
				b.Transactional = b.Store.(vector.Transactional)
				return &b
			},
			Tasks: func(s vector.Store) store.Store { return s.(*brokenEffects).tasks },
		})
	})
}
