package vectortest

import (
	"errors"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/vector"
)

func embedTests() []test {
	return []test{
		{name: "documents and queries without embeddings are embedded", run: testEmbed, embedder: &model{name: "m", dim: 64}},
		{name: "a failed embedder changes nothing", run: testEmbedFails, embedder: &model{name: "m", dim: 8}},
		{name: "collections of another embedder are rejected", run: testOtherEmbedder, embedder: &model{name: "m", dim: 2}},
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
	collections, err := f.s.Collections(f.ctx, f.k.Owner)
	if err != nil {
		f.Fatalf("Collections() = %v", err)
	}
	f.equal("Collections()", collections, []vector.Collection{{Name: "collection", Metric: vector.Cosine, Dimension: 64, Embedder: "m", Documents: 3}})
	_, err = f.s.Upsert(f.ctx, f.k, vector.WriteParams{Documents: []vector.Document{{ID: "d", Text: " "}}})
	f.wantInvalid("a text without words", err, "documents[0].text")
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
	if all, err := f.s.Collections(f.ctx, f.k.Owner); len(all) != 0 || err != nil {
		f.Errorf("Collections() = %+v, %v, want none", all, err)
	}
	m.bad = nil
	if err := write(); err != nil {
		f.Fatalf("Upsert() = %v", err)
	}
	m.dim = 9
	texts[1] = vector.Document{ID: "c", Text: "three"}
	f.wantError("Upsert() with another dimension", write(), vector.ErrMismatch, "dimension")
	_, err := f.s.Search(f.ctx, f.k, vector.SearchParams{Queries: []vector.Query{{Text: "one"}}})
	f.wantError("Search() with another dimension", err, vector.ErrMismatch, "dimension")
	if got := f.get(f.k, "a", "b", "c"); len(got) != 2 {
		f.Errorf("Get() = %+v, want 2 documents", got)
	}
}

func testOtherEmbedder(f *fixture) {
	f.write(f.k, vector.WriteParams{Documents: []vector.Document{document("a", 1, 0)}, Embedder: "other"})
	_, err := f.s.Upsert(f.ctx, f.k, vector.WriteParams{Documents: []vector.Document{{ID: "b", Text: "text"}}})
	f.wantError("Upsert()", err, vector.ErrMismatch, "embedder")
	_, err = f.s.Upsert(f.ctx, f.k, vector.WriteParams{Documents: []vector.Document{{ID: "b", Text: "text"}}, Embedder: "other"})
	f.wantError("Upsert() that names the other one", err, vector.ErrMismatch, "embedder")
	_, err = f.s.Search(f.ctx, f.k, vector.SearchParams{Queries: []vector.Query{{Text: "text"}}})
	f.wantError("Search()", err, vector.ErrMismatch, "embedder")
	f.wantIDs("Search()", f.search(vector.SearchParams{}, 1, 0), "a")
}

func testRemainsLexical(f *fixture) {
	f.upsert(vector.Document{ID: "a", Text: "one"})
	_, err := f.s.Upsert(f.ctx, f.k, vector.WriteParams{Documents: []vector.Document{document("b", 1, 0)}})
	f.wantError("Upsert() with an embedding", err, vector.ErrMismatch, "dimension")
	f.upsert(vector.Document{ID: "b", Text: "two"})
}
