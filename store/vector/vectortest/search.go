package vectortest

import (
	"fmt"
	"math"
	"slices"

	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/suite"
	"github.com/holdfast-dev/holdfast/store/vector"
)

var searchTests = []test{
	{name: "scores follow the metric", run: testScores},
	{name: "equal scores are ordered by id", run: testTies},
	{name: "equal directions have equal scores", run: testDirections},
	{name: "limit and offset select ranks", run: testOffset},
	{name: "MinScore excludes documents", run: testMinScore},
	{name: "filters apply before ranks", run: testFilter},
	{name: "filters follow changes of metadata", run: testFilterChanges},
	{name: "filters are not kept", run: testFilterOfCaller},
	{name: "GroupBy returns the closest document of each group", run: testGroup},
	{name: "queries have separate results", run: testQueries},
	{name: "embeddings are included on request", run: testIncludeEmbedding},
	{name: "without an embedder a text is searched by words", run: testLexical},
	{name: "words follow changes of documents", run: testWordChanges},
	{name: "words of a deleted collection are not found", run: testWordsOfDeleted},
	{name: "offset, MinScore and groups apply to words", run: testWordRanks},
}

func testScores(f *fixture) {
	for _, test := range []struct {
		metric vector.Metric
		ids    []string
		scores []float64
	}{
		{vector.Cosine, []string{"long", "same", "half", "opposite"}, []float64{1, 1, math.Sqrt(0.5), -1}},
		{vector.Dot, []string{"long", "half", "same", "opposite"}, []float64{20, 6, 4, -4}},
		{vector.L2, []string{"same", "half", "opposite", "long"}, []float64{1, 1 / (1 + math.Sqrt(10)), 1.0 / 5, 1.0 / 9}},
	} {
		k := vector.Key{Owner: "owner", Collection: string(test.metric)}
		f.write(k, vector.WriteParams{Metric: test.metric, Documents: []vector.Document{
			document("same", 2, 0), document("long", 10, 0), document("half", 3, 3), document("opposite", -2, 0),
		}})
		for _, exact := range []bool{false, true} {
			all := suite.Call(f.s.Search(f.ctx, k, vector.SearchParams{Queries: []vector.Query{{Embedding: []float32{2, 0}}}, Exact: exact})).Must(f, "Search()")
			f.wantIDs(string(test.metric), all[0].Hits, test.ids...)
			for i, h := range all[0].Hits {
				if math.Abs(h.Score-test.scores[i]) > 1e-6 {
					f.Errorf("%s: score of %s is %g, want %g", test.metric, h.ID, h.Score, test.scores[i])
				}
			}
		}
	}
}

func testTies(f *fixture) {
	var want []string
	for i := range 60 {
		f.upsert(document(fmt.Sprintf("%03d", (i*37)%60), 1, 2, 3))
		want = append(want, fmt.Sprintf("%03d", i))
	}
	f.wantIDs("Search()", f.search(vector.SearchParams{Limit: 7}, 1, 1, 1), want[:7]...)
	f.wantIDs("Search()", f.search(vector.SearchParams{Limit: 7, Offset: 50, Exact: true}, 1, 1, 1), want[50:57]...)
}

// Vectors of the same direction have the same cosine whatever their lengths are.
func testDirections(f *fixture) {
	query := make([]float32, 40)
	for i := range query {
		query[i] = float32(math.Sin(float64(i))) * 0.37
	}
	var want []string
	for i := range 30 {
		d := document(fmt.Sprintf("%03d", i), slices.Clone(query)...)
		for j := range d.Embedding {
			d.Embedding[j] *= float32(30-i) * 0.1
		}
		d.Metadata = map[string]any{"group": float64(i % 3)}
		f.upsert(d)
		want = append(want, d.ID)
	}
	for _, exact := range []bool{false, true} {
		hits := f.search(vector.SearchParams{Limit: 7, Exact: exact}, query...)
		f.wantIDs("Search()", hits, want[:7]...)
		if hits[6].Score != hits[0].Score {
			f.Errorf("scores of equal directions are %v and %v", hits[0].Score, hits[6].Score)
		}
		f.wantIDs("Search() by group", f.search(vector.SearchParams{GroupBy: "group", Limit: 7, Exact: exact}, query...), want[:3]...)
	}
}

// A store may keep what a filter selects, but not the memory of the caller.
func testFilterOfCaller(f *fixture) {
	f.upsert(circle(10)...)
	values := []any{1.0, 2.0}
	p := vector.SearchParams{Filter: filter.And(filter.In("n", values...)), Limit: 3}
	f.wantIDs("in", f.search(p, 1, 0), "001", "002")
	p.Filter.Filters[0].Values[0], p.Filter.Filters[0].Values[1] = 8.0, 9.0
	f.upsert(circle(10)...)
	f.wantIDs("in again", f.search(vector.SearchParams{Filter: filter.And(filter.In("n", 1.0, 2.0)), Limit: 3}, 1, 0), "001", "002")
}

// circle returns n documents. Their angles to the axis grow with their numbers.
func circle(n int) (all []vector.Document) {
	for i := range n {
		angle := math.Pi * float64(i) / float64(n)
		d := document(fmt.Sprintf("%03d", i), float32(math.Cos(angle)), float32(math.Sin(angle)))
		d.Metadata = map[string]any{"n": float64(i), "tenth": float64(i / 10), "even": i%2 == 0}
		all = append(all, d)
	}
	return all
}

func testOffset(f *fixture) {
	f.upsert(circle(30)...)
	f.wantIDs("default limit", f.search(vector.SearchParams{}, 1, 0), "000", "001", "002", "003", "004")
	f.wantIDs("offset", f.search(vector.SearchParams{Limit: 2, Offset: 3}, 1, 0), "003", "004")
	f.wantIDs("end", f.search(vector.SearchParams{Limit: 10, Offset: 28}, 1, 0), "028", "029")
	f.wantIDs("beyond", f.search(vector.SearchParams{Limit: 10, Offset: 30}, 1, 0))
}

func testMinScore(f *fixture) {
	f.upsert(circle(30)...)
	for _, limit := range []float64{1.5, 0.99, 0, -1} {
		hits := f.search(vector.SearchParams{Limit: 100, MinScore: &limit}, 1, 0)
		want := 0
		for i := range 30 {
			if math.Cos(math.Pi*float64(i)/30) >= limit-1e-9 {
				want++
			}
		}
		if len(hits) < want-1 || len(hits) > want { // one may be at the limit
			f.Errorf("MinScore %g: %d documents, want %d", limit, len(hits), want)
		}
	}
}

func testFilter(f *fixture) {
	f.upsert(circle(300)...)
	p := vector.SearchParams{Filter: filter.Gte("n", 280), Limit: 3}
	f.wantIDs("gte", f.search(p, 1, 0), "280", "281", "282")
	p.Filter, p.Offset = filter.And(filter.Eq("even", true), filter.Lt("n", 100)), 1
	f.wantIDs("and", f.search(p, 1, 0), "002", "004", "006")
	p.Filter, p.Limit, p.Offset = filter.Eq("missing", 1), 10, 0
	f.wantIDs("none", f.search(p, 1, 0))
	p.Filter = filter.In("n", 299, 298, 5)
	f.wantIDs("in", f.search(p, 1, 0), "005", "298", "299")
}

func testFilterChanges(f *fixture) {
	p := vector.SearchParams{Filter: filter.Eq("even", true), Limit: 3}
	f.upsert(circle(20)...)
	f.wantIDs("before", f.search(p, 1, 0), "000", "002", "004")
	d := document("002", 1, 0)
	d.Metadata = map[string]any{"even": false}
	f.upsert(d)
	d.ID, d.Metadata = "001", map[string]any{"even": true}
	f.upsert(d)
	suite.Call(f.s.Delete(f.ctx, f.k, []string{"004"})).Must(f, "Delete()")
	f.wantIDs("after", f.search(p, 1, 0), "000", "001", "006")
}

func testGroup(f *fixture) {
	all := circle(60)
	delete(all[1].Metadata, "tenth")
	all[2].Metadata["tenth"] = "0"
	all[3].Metadata["tenth"] = []any{0.0}
	f.upsert(all...)
	p := vector.SearchParams{GroupBy: "tenth", Limit: 6}
	f.wantIDs("groups", f.search(p, 1, 0), "000", "001", "002", "003", "010", "020")
	p.Offset, p.Limit = 4, 10
	f.wantIDs("offset", f.search(p, 1, 0), "010", "020", "030", "040", "050")
	p.Offset, p.Filter = 0, filter.Eq("even", true)
	f.wantIDs("filter", f.search(p, 1, 0), "000", "002", "010", "020", "030", "040", "050")
	p = vector.SearchParams{GroupBy: "even", Limit: 10}
	f.wantIDs("few groups", f.search(p, 1, 0), "000", "001")
}

func testQueries(f *fixture) {
	f.upsert(circle(10)...)
	all, err := f.s.Search(f.ctx, f.k, vector.SearchParams{Limit: 1, Queries: []vector.Query{
		{Embedding: []float32{-1, 0}}, {Embedding: []float32{1, 0}}, {Text: "text of 004"}, {Embedding: []float32{0, 1}},
	}})
	if err != nil || len(all) != 4 {
		f.Fatalf("Search() = %+v, %v, want 4 results", all, err)
	}
	for i, want := range []string{"009", "000", "004", "005"} {
		f.wantIDs(fmt.Sprint("query ", i), all[i].Hits, want)
	}
	if all[2].Mode != vector.ModeLexical || all[3].Mode != vector.ModeSemantic {
		f.Errorf("modes are %q and %q", all[2].Mode, all[3].Mode)
	}
}

func testIncludeEmbedding(f *fixture) {
	d := circle(3)[1]
	d.Blocks = []byte(`[1]`)
	f.upsert(d)
	want := vector.Hit{Document: d, Score: 1}
	f.equal("with embedding", f.search(vector.SearchParams{IncludeEmbedding: true}, d.Embedding...), []vector.Hit{want})
	want.Embedding = nil
	f.equal("without", f.search(vector.SearchParams{}, d.Embedding...), []vector.Hit{want})
}

func testLexical(f *fixture) {
	f.upsert(
		vector.Document{ID: "a", Text: "The invoice of March was paid twice.", Metadata: map[string]any{"year": 2026.0}},
		vector.Document{ID: "b", Text: "Invoices are sent on the first of each month.", Metadata: map[string]any{"year": 2025.0}},
		vector.Document{ID: "c", Text: "Holidays are listed in the calendar."},
	)
	for text, want := range map[string][]string{"paid invoices": {"a", "b"}, "calender": {"c"}, "nothing": {}, "!?": {}} {
		all, err := f.s.Search(f.ctx, f.k, vector.SearchParams{Queries: []vector.Query{{Text: text}}})
		if err != nil || all[0].Mode != vector.ModeLexical {
			f.Fatalf("Search(%q) = %+v, %v, want a lexical result", text, all, err)
		}
		f.wantIDs(text, all[0].Hits, want...)
		for _, h := range all[0].Hits {
			if h.Score <= 0 || h.Score > 1 {
				f.Errorf("score of %s is %g, want 0 to 1", h.ID, h.Score)
			}
		}
	}
	all := suite.Call(f.s.Search(f.ctx, f.k, vector.SearchParams{Queries: []vector.Query{{Text: "invoice"}}, Filter: filter.Eq("year", 2025)})).Must(f, "Search()")
	f.wantIDs("filter", all[0].Hits, "b")
	f.wantError("Search() of a lexical collection", suite.Err(f.s.Search(f.ctx, f.k, vector.SearchParams{Queries: []vector.Query{{Embedding: []float32{1}}}})), vector.ErrMismatch, "dimension")
}

// byWords searches the collection by words.
func (f *fixture) byWords(text string, p vector.SearchParams) []vector.Hit {
	f.Helper()
	p.Queries = []vector.Query{{Text: text}}
	all, err := f.s.Search(f.ctx, f.k, p)
	if err != nil || len(all) != 1 || all[0].Mode != vector.ModeLexical {
		f.Fatalf("Search(%q) = %+v, %v, want one lexical result", text, all, err)
	}
	return all[0].Hits
}

func testWordChanges(f *fixture) {
	f.upsert(vector.Document{ID: "a", Text: "a harbor with ships"}, vector.Document{ID: "b", Text: "a mountain"}, vector.Document{ID: "c", Text: "ships on a river"})
	f.wantIDs("before", f.byWords("ships", vector.SearchParams{}), "a", "c")
	f.upsert(vector.Document{ID: "a", Text: "a glacier"})
	f.wantIDs("replaced", f.byWords("ships", vector.SearchParams{}), "c")
	f.wantIDs("the new text", f.byWords("glaciers", vector.SearchParams{}), "a")
	f.wantIDs("a misspelt word of the new text", f.byWords("glacer", vector.SearchParams{}), "a")
	f.wantIDs("a misspelt word of the text before", f.byWords("harbro", vector.SearchParams{}))
	suite.Call(f.s.Delete(f.ctx, f.k, []string{"b"})).Must(f, "Delete()")
	f.write(f.k, vector.WriteParams{Documents: []vector.Document{{ID: "d", Text: "a plain"}}, Remove: []string{"c"}})
	f.wantIDs("deleted", f.byWords("mountain", vector.SearchParams{}))
	f.wantIDs("removed", f.byWords("ships", vector.SearchParams{}))
	f.upsert(vector.Document{ID: "b"}, vector.Document{ID: "c", Text: "ships again"})
	f.wantIDs("stored again", f.byWords("mountain ships", vector.SearchParams{}), "c")
}

func testWordsOfDeleted(f *fixture) {
	other := vector.Key{Owner: "other", Collection: f.k.Collection}
	f.upsert(vector.Document{ID: "a", Text: "a harbor"}, vector.Document{ID: "b", Text: "a river"})
	f.write(other, vector.WriteParams{Documents: []vector.Document{{ID: "a", Text: "a mountain"}}})
	f.wantIDs("words of another owner", f.byWords("mountain", vector.SearchParams{}))
	suite.Call(f.s.DeleteCollection(f.ctx, f.k)).Must(f, "DeleteCollection()")
	f.upsert(vector.Document{ID: "b", Text: "a lake"})
	f.wantIDs("words of the collection before", f.byWords("harbor river", vector.SearchParams{}))
	f.wantIDs("words of the new one", f.byWords("lakes", vector.SearchParams{}), "b")
}

func testWordRanks(f *fixture) {
	var all []vector.Document
	for i := range 150 {
		all = append(all, vector.Document{ID: fmt.Sprintf("%03d", (i*37)%150), Text: "a harbor", Metadata: map[string]any{"tenth": float64((i * 37) % 150 / 10)}})
	}
	all = append(all, vector.Document{ID: "best", Text: "a harbor with ships"})
	f.upsert(all...)
	f.wantIDs("ties", f.byWords("harbor", vector.SearchParams{Limit: 3}), "000", "001", "002")
	f.wantIDs("offset", f.byWords("harbor", vector.SearchParams{Limit: 2, Offset: 148}), "148", "149")
	f.wantIDs("best", f.byWords("harbor ships", vector.SearchParams{Limit: 2}), "best", "000")
	limit := 0.999
	f.wantIDs("MinScore", f.byWords("harbor ships", vector.SearchParams{MinScore: &limit}), "best")
	f.wantIDs("groups", f.byWords("harbor", vector.SearchParams{Limit: 3, GroupBy: "tenth"}), "000", "010", "020")
	f.wantIDs("filter", f.byWords("harbor", vector.SearchParams{Limit: 3, Filter: filter.Gte("tenth", 14)}), "140", "141", "142")
}
