package vectortest

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/suite"
	"github.com/holdfast-dev/holdfast/store/vector"
)

var inf = math.Inf(1)

var inputTests = []test{
	{name: "invalid documents are rejected and nothing is stored", run: testInvalidWrites},
	{name: "invalid searches are rejected", run: testInvalidSearches},
	{name: "invalid keys and ids are rejected", run: testInvalidKeys},
	{name: "any text is stored and found", run: testHostileText},
	{name: "documents at the limits are stored", run: testLimits},
	{name: "stores share no memory with their callers", run: testAliasing},
	{name: "canceled calls change nothing", run: testCancel},
}

func (f *fixture) wantCode(call string, err error, code a2a.Code) {
	f.Helper()
	suite.Do(err).Rejected(f, code, "%s", call)
}

func (f *fixture) wantInvalid(call string, err error, field string) {
	f.Helper()
	f.wantCode(call, err, a2a.CodeInvalid)
	if err != nil && (!strings.HasPrefix(err.Error(), "vector: ") || !strings.Contains(err.Error(), field)) {
		f.Errorf("%s = %v, want an error about %s", call, err, field)
	}
}

func testInvalidWrites(f *fixture) {
	nan, infinite := float32(math.NaN()), float32(inf)
	deep := any("x")
	for range 100 {
		deep = []any{deep}
	}
	for name, test := range map[string]struct {
		document vector.Document
		field    string
	}{
		"NaN":                  {document("b", 1, nan), "documents[1].embedding[1]: is NaN"},
		"infinity":             {document("b", infinite, 1), "documents[1].embedding[0]: is +Inf"},
		"too large":            {document("b", 3e38, 3e38), "documents[1].embedding: has a norm"},
		"zero":                 {document("b", 0, 0), "documents[1].embedding: is the zero vector"},
		"no components":        {vector.Document{ID: "b", Embedding: []float32{}}, "documents[1].embedding: has 0"},
		"too many components":  {document("b", make([]float32, vector.MaxDimension+1)...), "documents[1].embedding: has 4097"},
		"NUL in id":            {document("a\x00", 1, 1), "documents[1].id"},
		"long id":              {document(strings.Repeat("i", vector.MaxName+1), 1, 1), "documents[1].id"},
		"repeated id":          {document("a", 1, 1), "documents[1].id"},
		"text is not UTF-8":    {vector.Document{ID: "b", Text: "\xff", Embedding: []float32{1, 1}}, "documents[1].text"},
		"long text":            {vector.Document{ID: "b", Text: strings.Repeat("t", vector.MaxText+1), Embedding: []float32{1, 1}}, "documents[1].text"},
		"blocks are no array":  {vector.Document{ID: "b", Blocks: []byte(`{}`), Embedding: []float32{1, 1}}, "documents[1].blocks"},
		"blocks are no JSON":   {vector.Document{ID: "b", Blocks: []byte(`[1`), Embedding: []float32{1, 1}}, "documents[1].blocks"},
		"blocks are empty":     {vector.Document{ID: "b", Blocks: []byte{}, Embedding: []float32{1, 1}}, "documents[1].blocks"},
		"10 MB of metadata":    {vector.Document{ID: "b", Metadata: map[string]any{"m": strings.Repeat("m", 10<<20)}, Embedding: []float32{1, 1}}, "documents[1].metadata"},
		"deep metadata":        {vector.Document{ID: "b", Metadata: map[string]any{"m": deep}, Embedding: []float32{1, 1}}, "documents[1].metadata"},
		"metadata is not JSON": {vector.Document{ID: "b", Metadata: map[string]any{"m": func() {}}, Embedding: []float32{1, 1}}, "documents[1].metadata"},
	} {
		p := vector.WriteParams{Documents: []vector.Document{document("a", 1, 1), test.document}}
		f.wantInvalid("Upsert() of "+name, suite.Err(f.s.Upsert(f.ctx, f.k, p)), test.field)
		f.wantInvalid("Add() of "+name, suite.Err(f.s.Add(f.ctx, f.k, p)), test.field)
	}
	for field, p := range map[string]vector.WriteParams{
		"documents: are 0":    {},
		"documents: are 1001": {Documents: make([]vector.Document, vector.MaxWrite+1)},
		"metric":              {Documents: []vector.Document{document("a", 1, 1)}, Metric: "manhattan"},
		"embedder":            {Documents: []vector.Document{document("a", 1, 1)}, Embedder: "\xff"},
	} {
		f.wantInvalid("Upsert()", suite.Err(f.s.Upsert(f.ctx, f.k, p)), field)
	}
	suite.Call(f.s.Collections(f.ctx, f.k.Owner)).Empty(f, "Collections()")
	f.write(f.k, vector.WriteParams{Documents: []vector.Document{document("zero", 0, 0)}, Metric: vector.L2})
}

func testInvalidSearches(f *fixture) {
	f.upsert(document("a", 1, 1))
	deep := filter.Eq("a", 1)
	for range 1000 {
		deep = filter.Not(deep)
	}
	q, nan := []vector.Query{{Embedding: []float32{1, 1}}}, math.NaN()
	for field, p := range map[string]vector.SearchParams{
		"queries: are 0":                     {},
		"queries: are 65":                    {Queries: make([]vector.Query, vector.MaxQueries+1)},
		"queries[0]: needs":                  {Queries: []vector.Query{{}}},
		"queries[1]: needs":                  {Queries: []vector.Query{q[0], {Text: "a", Embedding: []float32{1, 1}}}},
		"queries[0].embedding[0]: is NaN":    {Queries: []vector.Query{{Embedding: []float32{float32(nan), 1}}}},
		"queries[0].embedding: is the zero":  {Queries: []vector.Query{{Embedding: []float32{0, 0}}}},
		"queries[0].text: must be UTF-8":     {Queries: []vector.Query{{Text: "\xff"}}},
		"limit: is -1":                       {Queries: q, Limit: -1},
		"limit: is 1001":                     {Queries: q, Limit: vector.MaxLimit + 1},
		"offset: is -1":                      {Queries: q, Offset: -1},
		"offset: is 10001":                   {Queries: q, Offset: vector.MaxOffset + 1},
		"minScore":                           {Queries: q, MinScore: &nan},
		"groupBy":                            {Queries: q, GroupBy: "a..b"},
		"filter: nested deeper":              {Queries: q, Filter: deep},
		`filter: op: unknown operator "like`: {Queries: q, Filter: filter.Filter{Op: "like", Path: "a"}},
	} {
		f.wantInvalid("Search()", suite.Err(f.s.Search(f.ctx, f.k, p)), field)
	}
}

func testInvalidKeys(f *fixture) {
	f.upsert(document("a", 1, 1))
	for field, k := range map[string]vector.Key{
		"owner: must not be empty": {Collection: "c"},
		"owner: must be UTF-8":     {Owner: "a\x00", Collection: "c"},
		"collection: must be":      {Owner: "a", Collection: "\xff"},
		"collection: has 513":      {Owner: "a", Collection: strings.Repeat("c", vector.MaxName+1)},
	} {
		_, err := f.s.Upsert(f.ctx, k, vector.WriteParams{Documents: []vector.Document{document("a", 1)}})
		f.wantInvalid("Upsert()", err, field)
		_, err = f.s.Get(f.ctx, k, []string{"a"})
		f.wantInvalid("Get()", err, field)
		_, err = f.s.Delete(f.ctx, k, []string{"a"})
		f.wantInvalid("Delete()", err, field)
		f.wantInvalid("Search()", suite.Err(f.s.Search(f.ctx, k, vector.SearchParams{Queries: []vector.Query{{Text: "a"}}})), field)
		f.wantInvalid("DeleteCollection()", suite.Err(f.s.DeleteCollection(f.ctx, k)), field)
	}
	_, err := f.s.Collections(f.ctx, "")
	f.wantInvalid("Collections()", err, "owner")
	f.wantInvalid("Get()", suite.Err(f.s.Get(f.ctx, f.k, []string{"a", ""})), "ids[1]")
	f.wantInvalid("Delete()", suite.Err(f.s.Delete(f.ctx, f.k, make([]string, vector.MaxIDs+1))), "ids: are 1001")
}

func testHostileText(f *fixture) {
	texts := []string{`'; DROP TABLE x; --`, `"quoted"`, `100%_`, `back\slash`, "new\nline", "\u202e\u0000"[:3], "日本語", "🙂", `$1 {s}. $$`, "a::text"}
	for _, text := range texts {
		k := vector.Key{Owner: text, Collection: text}
		d := vector.Document{ID: text, Text: text, Embedding: []float32{1, 1}, Metadata: map[string]any{"m": text, text: 1.0}}
		f.write(k, vector.WriteParams{Documents: []vector.Document{d}, Embedder: text})
		f.equal("Get()", f.get(k, text), []vector.Document{d})
		all := suite.Call(f.s.Search(f.ctx, k, vector.SearchParams{Queries: []vector.Query{{Embedding: []float32{1, 0}}}, Filter: filter.Eq("m", text)})).Must(f, "Search()")
		f.wantIDs(text, all[0].Hits, text)
	}
}

func testLimits(f *fixture) {
	d := vector.Document{
		ID: strings.Repeat("i", vector.MaxName), Text: strings.Repeat("t", vector.MaxText), Embedding: make([]float32, vector.MaxDimension),
		Blocks: []byte(`["` + strings.Repeat("b", vector.MaxBlocks-4) + `"]`), Metadata: map[string]any{"m": strings.Repeat("m", vector.MaxMetadata-8)},
	}
	for i := range d.Embedding {
		d.Embedding[i] = float32(i)
	}
	k := vector.Key{Owner: strings.Repeat("o", vector.MaxName), Collection: strings.Repeat("c", vector.MaxName)}
	f.write(k, vector.WriteParams{Documents: []vector.Document{d}})
	if got := f.get(k, d.ID); !reflect.DeepEqual(got, []vector.Document{d}) {
		f.Errorf("Get() returns another document than was stored")
	}
	many := make([]vector.Document, vector.MaxWrite)
	for i := range many {
		many[i] = document(fmt.Sprint(i), 1, float32(i))
	}
	f.upsert(many...)
	suite.Equal(f, len(f.search(vector.SearchParams{Limit: vector.MaxLimit}, 1, 0)), vector.MaxWrite, "number of results of Search()")
}

func testAliasing(f *fixture) {
	d := vector.Document{ID: "a", Embedding: []float32{1, 0}, Blocks: []byte(`[1]`), Metadata: map[string]any{"m": []any{"x"}}}
	want := vector.Document{ID: "a", Embedding: []float32{1, 0}, Blocks: []byte(`[1]`), Metadata: map[string]any{"m": []any{"x"}}}
	change := func(d vector.Document) {
		d.Embedding[0], d.Blocks[1], d.Metadata["m"].([]any)[0], d.Metadata["n"] = 5, '2', "y", 1
	}
	f.upsert(d)
	change(d)
	got := f.get(f.k, "a")
	f.equal("Get() after the argument was changed", got, []vector.Document{want})
	change(got[0])
	query := []float32{1, 0}
	hits := f.search(vector.SearchParams{IncludeEmbedding: true}, query...)
	f.equal("Search() after the result was changed", hits, []vector.Hit{{Document: want, Score: 1}})
	change(hits[0].Document)
	f.equal("Get() after hits were changed", f.get(f.k, "a"), []vector.Document{want})
	if !slices.Equal(query, []float32{1, 0}) {
		f.Errorf("Search() changed the query")
	}
}

func testCancel(f *fixture) {
	f.upsert(document("a", 1, 1))
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	p := vector.WriteParams{Documents: []vector.Document{document("b", 1, 1)}}
	suite.Canceled(f, map[string]error{
		"Add":              suite.Err(f.s.Add(ctx, f.k, p)),
		"Upsert":           suite.Err(f.s.Upsert(ctx, f.k, p)),
		"Get":              suite.Err(f.s.Get(ctx, f.k, []string{"a"})),
		"Delete":           suite.Err(f.s.Delete(ctx, f.k, []string{"a"})),
		"Collections":      suite.Err(f.s.Collections(ctx, f.k.Owner)),
		"DeleteCollection": suite.Err(f.s.DeleteCollection(ctx, f.k)),
		"Search":           suite.Err(f.s.Search(ctx, f.k, vector.SearchParams{Queries: []vector.Query{{Embedding: []float32{1, 1}}}})),
	})
	f.equal("Get()", f.get(f.k, "a", "b"), []vector.Document{document("a", 1, 1)})
}
