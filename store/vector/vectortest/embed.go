package vectortest

import (
	"errors"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/suite"
	"github.com/holdfast-dev/holdfast/store/vector"
)

func embedTests() []test {
	return []test{
		{name: "documents and queries without embeddings are embedded", run: testEmbed, embedder: &model{name: "m", dim: 64}},
		{name: "a failed embedder changes nothing", run: testEmbedFails, embedder: &model{name: "m", dim: 8}},
		{name: "collections of another embedder are rejected", run: testOtherEmbedder, embedder: &model{name: "m", dim: 2}},
		{name: "a hybrid search fuses words and embeddings", run: testHybrid, embedder: &model{name: "m", dim: 64}},
		{name: "a hybrid search without an embedding is lexical", run: testHybridFallback, embedder: &model{name: "m", dim: 8}},
		{name: "an embedding of the caller is part of a hybrid search", run: testHybridEmbedding},
		{name: "a lexical collection remains lexical", run: testRemainsLexical},
	}
}

func testEmbed(f *fixture) {
	f.upsert(vector.Document{ID: "a", Text: "red green"}, vector.Document{ID: "b", Text: "blue yellow"}, vector.Document{ID: "c", Text: "green white"})
	all, err := f.s.Search(f.ctx, f.k, vector.SearchParams{Queries: []vector.Query{{Text: "blue yellow"}, {Text: "red green"}}, Limit: 1})
	if err != nil || all[0].Mode != vector.ModeSemantic {
		f.Fatalf("Search() = %+v, %v, want a semantic result", all, err)
	}
	f.wantIDs("first query", all[0].Hits, "b")
	f.wantIDs("second query", all[1].Hits, "a")
	want, _ := f.cfg.Embedder.Embed(f.ctx, []string{"red green"})
	f.equal("embedding", f.get(f.k, "a")[0].Embedding, want[0])
	collections := suite.Call(f.s.Collections(f.ctx, f.k.Owner)).Must(f, "Collections()")
	f.equal("Collections()", collections, []vector.Collection{{Name: "collection", Metric: vector.Cosine, Dimension: 64, Embedder: "m", Documents: 3}})
	f.wantInvalid("a text without words", suite.Err(f.s.Upsert(f.ctx, f.k, vector.WriteParams{Documents: []vector.Document{{ID: "d", Text: " "}}})), "documents[0].text")
}

func testEmbedFails(f *fixture) {
	m := f.cfg.Embedder.(*model)
	texts := []vector.Document{{ID: "a", Text: "one"}, {ID: "b", Text: "two"}}
	write := func() error {
		_, err := f.s.Upsert(f.ctx, f.k, vector.WriteParams{Documents: texts})
		return err
	}
	m.err = errors.New("killed")
	f.wantCode("Upsert() with a failed embedder", write(), a2a.CodeUnavailable)
	m.err, m.bad = nil, []float32{1, float32(inf)}
	f.wantCode("Upsert() with an infinite embedding", write(), a2a.CodeUnavailable)
	m.bad = []float32{}
	f.wantCode("Upsert() with an empty embedding", write(), a2a.CodeUnavailable)
	suite.Call(f.s.Collections(f.ctx, f.k.Owner)).Empty(f, "Collections()")
	m.bad = nil
	suite.Do(write()).Must(f, "Upsert()")
	m.dim = 9
	texts[1] = vector.Document{ID: "c", Text: "three"}
	f.wantError("Upsert() with another dimension", write(), vector.ErrMismatch, "dimension")
	f.wantError("Search() with another dimension", suite.Err(f.s.Search(f.ctx, f.k, vector.SearchParams{Queries: []vector.Query{{Text: "one"}}})), vector.ErrMismatch, "dimension")
	if got := f.get(f.k, "a", "b", "c"); len(got) != 2 {
		f.Errorf("Get() = %+v, want 2 documents", got)
	}
}

func testOtherEmbedder(f *fixture) {
	f.write(f.k, vector.WriteParams{Documents: []vector.Document{document("a", 1, 0)}, Embedder: "other"})
	_, err := f.s.Upsert(f.ctx, f.k, vector.WriteParams{Documents: []vector.Document{{ID: "b", Text: "text"}}})
	f.wantError("Upsert()", err, vector.ErrMismatch, "embedder")
	f.wantError("Upsert() that names the other one", suite.Err(f.s.Upsert(f.ctx, f.k, vector.WriteParams{Documents: []vector.Document{{ID: "b", Text: "text"}}, Embedder: "other"})), vector.ErrMismatch, "embedder")
	f.wantError("Search()", suite.Err(f.s.Search(f.ctx, f.k, vector.SearchParams{Queries: []vector.Query{{Text: "text"}}})), vector.ErrMismatch, "embedder")
	f.wantIDs("Search()", f.search(vector.SearchParams{}, 1, 0), "a")
}

func testRemainsLexical(f *fixture) {
	f.upsert(vector.Document{ID: "a", Text: "one"})
	f.wantError("Upsert() with an embedding", suite.Err(f.s.Upsert(f.ctx, f.k, vector.WriteParams{Documents: []vector.Document{document("b", 1, 0)}})), vector.ErrMismatch, "dimension")
	f.upsert(vector.Document{ID: "b", Text: "two"})
}

// inMode runs a query in a mode.
func (f *fixture) inMode(p vector.SearchParams, want vector.Mode, q vector.Query) vector.Results {
	f.Helper()
	p.Queries = []vector.Query{q}
	all, err := f.s.Search(f.ctx, f.k, p)
	if err != nil || len(all) != 1 || all[0].Mode != want {
		f.Fatalf("Search(%+v) = %+v, %v, want one %s result", p, all, err, want)
	}
	for i, h := range all[0].Hits {
		for _, s := range []float64{h.Score, h.Scores.Lexical, h.Scores.Trigram, h.Scores.Semantic} {
			if want != vector.ModeSemantic && (s < 0 || s > 1 || h.Score == 0) || i > 0 && h.Score > all[0].Hits[i-1].Score {
				f.Errorf("hit %d of %+v has the scores %g, %+v, want 0 to 1 and falling", i, p, h.Score, h.Scores)
			}
		}
	}
	return all[0]
}

// The embedder knows whole words only, so stems are found by words and other documents by embeddings.
func testHybrid(f *fixture) {
	f.upsert(
		vector.Document{ID: "a", Text: "invoices of march", Metadata: map[string]any{"year": 2026.0}},
		vector.Document{ID: "b", Text: "invoice paid twice", Metadata: map[string]any{"year": 2025.0}},
		vector.Document{ID: "c", Text: "holidays"},
	)
	q := vector.Query{Text: "invoice paid"}
	hybrid := vector.SearchParams{Mode: vector.ModeHybrid}
	r := f.inMode(hybrid, vector.ModeHybrid, q)
	f.wantIDs("hybrid", r.Hits, "b", "a", "c")
	if best := r.Hits[0]; best.Score != 1 || best.Scores.Lexical <= 0 || best.Scores.Semantic <= 0.5 || best.Scores.Trigram != 0 {
		f.Errorf("the best hit has the scores %g, %+v", best.Score, best.Scores)
	}
	if stem := r.Hits[1]; stem.Scores.Lexical <= 0 || stem.Score >= 1 {
		f.Errorf("the hit with a stem has the scores %g, %+v", stem.Score, stem.Scores)
	}
	f.wantIDs("misspelt", f.inMode(vector.SearchParams{Mode: vector.ModeHybrid, Limit: 1}, vector.ModeHybrid, vector.Query{Text: "holydays"}).Hits, "c")
	r = f.inMode(vector.SearchParams{Mode: vector.ModeLexical}, vector.ModeLexical, q)
	f.wantIDs("lexical", r.Hits, "b", "a")
	if s := r.Hits[0].Scores; s.Lexical <= 0 || s.Semantic != 0 {
		f.Errorf("the best lexical hit has the scores %+v", s)
	}
	hybrid.Filter = filter.Eq("year", 2026)
	f.wantIDs("filter", f.inMode(hybrid, vector.ModeHybrid, q).Hits, "a")
	hybrid.Filter, hybrid.Offset, hybrid.Limit = filter.Filter{}, 1, 1
	f.wantIDs("offset", f.inMode(hybrid, vector.ModeHybrid, q).Hits, "a")
	least := 0.995
	hybrid.MinScore, hybrid.Offset, hybrid.Limit = &least, 0, 5
	f.wantIDs("MinScore", f.inMode(hybrid, vector.ModeHybrid, q).Hits, "b")
	f.wantInvalid("another mode", suite.Err(f.s.Search(f.ctx, f.k, vector.SearchParams{Mode: "other", Queries: []vector.Query{q}})), "mode")
}

func testHybridFallback(f *fixture) {
	f.upsert(vector.Document{ID: "a", Text: "one"}, vector.Document{ID: "b", Text: "two"})
	f.cfg.Embedder.(*model).err = errors.New("killed")
	r := f.inMode(vector.SearchParams{Mode: vector.ModeHybrid}, vector.ModeLexical, vector.Query{Text: "two"})
	f.wantIDs("with a failed embedder", r.Hits, "b")
	if !strings.Contains(r.Fallback, "killed") {
		f.Errorf("Fallback is %q, want the error of the embedder", r.Fallback)
	}
	s := newFixture(f.T, f.h, vector.Config{})
	s.upsert(vector.Document{ID: "a", Text: "one"})
	r = s.inMode(vector.SearchParams{Mode: vector.ModeHybrid}, vector.ModeLexical, vector.Query{Text: "one"})
	s.wantIDs("without an embedder", r.Hits, "a")
	suite.Equal(f, r.Fallback, "", "Fallback without an embedder")
}

func testHybridEmbedding(f *fixture) {
	for _, metric := range []vector.Metric{vector.Cosine, vector.Dot, vector.L2} {
		f.k.Collection = string(metric)
		f.write(f.k, vector.WriteParams{Metric: metric, Documents: []vector.Document{
			{ID: "a", Text: "a harbor", Embedding: []float32{0, -9}}, {ID: "b", Text: "a river", Embedding: []float32{9, 0}}, {ID: "c", Text: "a lake", Embedding: []float32{8, 4}},
		}})
		q := vector.Query{Text: "harbors", Embedding: []float32{9, 0}}
		r := f.inMode(vector.SearchParams{Mode: vector.ModeHybrid}, vector.ModeHybrid, q)
		f.wantIDs(string(metric), r.Hits, "a", "b", "c")
		if s := r.Hits[1].Scores; s.Semantic <= 0.9 || s.Lexical != 0 {
			f.Errorf("%s: the closest document has the scores %+v", metric, s)
		}
		f.wantInvalid("both in another mode", suite.Err(f.s.Search(f.ctx, f.k, vector.SearchParams{Queries: []vector.Query{q}})), "queries[0]")
	}
}
