package vectortest

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/store/suite"
	"github.com/holdfast-dev/holdfast/store/vector"
)

var contractTests = []test{
	{name: "Get returns what was added", run: testGet},
	{name: "Add rejects existing ids and stores nothing", run: testAddExisting},
	{name: "Upsert replaces documents", run: testUpsert},
	{name: "a write removes other documents", run: testRemove},
	{name: "documents without an id get one", run: testIDs},
	{name: "Delete removes documents and keeps the collection", run: testDelete},
	{name: "Collections lists the owner's collections by name", run: testCollections},
	{name: "DeleteCollection removes documents and settings", run: testDeleteCollection},
	{name: "unknown collections are not found", run: testUnknown},
	{name: "owners and collections are isolated", run: testIsolation},
	{name: "List pages through all documents by id", run: testList},
	{name: "ForgetOwner removes all collections of one owner", run: testForget},
	{name: "the first write fixes metric, dimension and embedder", run: testMismatch},
}

func testGet(f *fixture) {
	d := vector.Document{
		ID: "id", Text: "text", Blocks: []byte(`[{"kind": "text"}, 1]`), Embedding: []float32{0.1, -2, 3e-5},
		Metadata: map[string]any{"a": 1.5, "b": []any{"x", nil, true}, "c": map[string]any{"d": "e"}},
	}
	ids := suite.Call(f.s.Add(f.ctx, f.k, vector.WriteParams{Documents: []vector.Document{d, document("other", 1, 2, 3)}})).Must(f, "Add()")
	f.equal("Add()", ids, []string{"id", "other"})
	f.equal("Get()", f.get(f.k, "other", "missing", "id"), []vector.Document{document("other", 1, 2, 3), d})
	f.equal("Get() of no ids", f.get(f.k), []vector.Document(nil))
}

func testAddExisting(f *fixture) {
	f.upsert(document("a", 1, 0))
	f.wantError("Add()", suite.Err(f.s.Add(f.ctx, f.k, vector.WriteParams{Documents: []vector.Document{document("b", 1, 1), document("a", 0, 1)}})), vector.ErrExists, "")
	f.equal("Get()", f.get(f.k, "a", "b"), []vector.Document{document("a", 1, 0)})
	f.wantIDs("Search()", f.search(vector.SearchParams{}, 1, 1), "a")
}

func testUpsert(f *fixture) {
	f.upsert(document("a", 1, 0), document("b", 0, 1))
	changed := vector.Document{ID: "a", Embedding: []float32{0, 2}, Metadata: map[string]any{"v": 2.0}}
	f.upsert(changed, document("c", 1, 1))
	f.equal("Get()", f.get(f.k, "a"), []vector.Document{changed})
	f.wantIDs("Search()", f.search(vector.SearchParams{}, 0, 1), "a", "b", "c")
	f.wantIDs("Search()", f.search(vector.SearchParams{}, 1, 0), "c", "a", "b")
}

func testRemove(f *fixture) {
	f.upsert(document("a", 1, 0), document("b", 0, 1), document("c", 1, 1))
	p := vector.WriteParams{Documents: []vector.Document{document("a", 0, 2), document("d", 1, 0)}, Remove: []string{"b", "missing", "b"}}
	f.write(f.k, p)
	f.wantIDs("Search()", f.search(vector.SearchParams{}, 1, 0), "d", "c", "a")
	f.equal("Get()", f.get(f.k, "a", "b"), []vector.Document{document("a", 0, 2)})
	f.wantError("Add()", suite.Err(f.s.Add(f.ctx, f.k, vector.WriteParams{Documents: []vector.Document{document("a", 1, 1)}, Remove: []string{"c"}})), vector.ErrExists, "")
	f.wantIDs("Search()", f.search(vector.SearchParams{}, 1, 0), "d", "c", "a")
	suite.Call(f.s.Add(f.ctx, f.k, vector.WriteParams{Documents: []vector.Document{document("e", 1, 1)}, Remove: []string{"c"}})).Check(f, "Add()")
	f.wantIDs("Search()", f.search(vector.SearchParams{}, 1, 0), "d", "e", "a")
	all, err := f.s.Collections(f.ctx, f.k.Owner)
	if err != nil || len(all) != 1 || all[0].Documents != 3 {
		f.Errorf("Collections() = %+v, %v, want one with 3 documents", all, err)
	}
	for field, p := range map[string]vector.WriteParams{
		"remove: ids[0]": {Documents: p.Documents, Remove: []string{"a"}},
		"remove: ids[1]": {Documents: p.Documents, Remove: []string{"x", ""}},
		"remove: ids":    {Documents: p.Documents, Remove: make([]string, vector.MaxIDs+1)},
	} {
		_, err := f.s.Upsert(f.ctx, f.k, p)
		if err == nil || !strings.Contains(err.Error(), field) {
			f.Errorf("Upsert() = %v, want an error of %s", err, field)
		}
	}
}

func testIDs(f *fixture) {
	ids := f.write(f.k, vector.WriteParams{Documents: []vector.Document{document("", 1, 0), document("", 1, 1), document("x", 0, 1)}})
	if len(ids) != 3 || ids[0] == "" || ids[0] == ids[1] || ids[2] != "x" {
		f.Fatalf("Upsert() = %q", ids)
	}
	for i, d := range f.get(f.k, ids...) {
		suite.Equal(f, d.ID, ids[i], "the id of document %d", i)
	}
}

func testDelete(f *fixture) {
	f.upsert(document("a", 1, 0), document("b", 0, 1), document("c", 1, 1))
	suite.Call(f.s.Delete(f.ctx, f.k, []string{"a", "missing", "c", "a"})).Want(f, 2, "Delete()")
	f.equal("Get()", f.get(f.k, "a", "b", "c"), []vector.Document{document("b", 0, 1)})
	f.wantIDs("Search()", f.search(vector.SearchParams{}, 1, 0), "b")
	suite.Call(f.s.Delete(f.ctx, f.k, []string{"b"})).Want(f, 1, "Delete()")
	f.wantIDs("Search()", f.search(vector.SearchParams{}, 1, 0))
	f.wantError("Upsert() to the empty collection", suite.Err(f.s.Upsert(f.ctx, f.k, vector.WriteParams{Documents: []vector.Document{document("a", 1, 2, 3)}})), vector.ErrMismatch, "dimension")
	f.upsert(document("a", 1, 0))
	f.wantIDs("Search()", f.search(vector.SearchParams{}, 1, 0), "a")
}

func testCollections(f *fixture) {
	all, err := f.s.Collections(f.ctx, "owner")
	if len(all) != 0 || err != nil {
		f.Errorf("Collections() of an empty store = %+v, %v", all, err)
	}
	f.write(vector.Key{Owner: "owner", Collection: "b"}, vector.WriteParams{Documents: []vector.Document{document("a", 1, 0), document("b", 1, 0)}, Metric: vector.L2, Embedder: "m"})
	f.write(vector.Key{Owner: "owner"}, vector.WriteParams{Documents: []vector.Document{document("a", 1, 0, 0)}})
	f.write(vector.Key{Owner: "owner", Collection: "a"}, vector.WriteParams{Documents: []vector.Document{{ID: "a", Text: "words"}}})
	f.write(vector.Key{Owner: "other", Collection: "c"}, vector.WriteParams{Documents: []vector.Document{document("a", 1)}})
	all = suite.Call(f.s.Collections(f.ctx, "owner")).Must(f, "Collections()")
	f.equal("Collections()", all, []vector.Collection{
		{Name: "a", Metric: vector.Cosine, Documents: 1},
		{Name: "b", Metric: vector.L2, Dimension: 2, Embedder: "m", Documents: 2},
		{Name: "default", Metric: vector.Cosine, Dimension: 3, Documents: 1},
	})
}

func testDeleteCollection(f *fixture) {
	other := vector.Key{Owner: "owner", Collection: "other"}
	f.upsert(document("a", 1, 0), document("b", 1, 1))
	f.write(other, vector.WriteParams{Documents: []vector.Document{document("a", 1, 0)}})
	suite.Call(f.s.DeleteCollection(f.ctx, f.k)).Want(f, 2, "DeleteCollection()")
	suite.Call(f.s.DeleteCollection(f.ctx, f.k)).Want(f, 0, "DeleteCollection() again")
	f.wantError("Get()", suite.Err(f.s.Get(f.ctx, f.k, []string{"a"})), vector.ErrCollectionNotFound, "")
	f.write(f.k, vector.WriteParams{Documents: []vector.Document{document("c", 1, 2, 3)}, Metric: vector.Dot})
	f.wantIDs("Search()", f.search(vector.SearchParams{}, 1, 0, 0), "c")
	f.equal("Get()", f.get(other, "a"), []vector.Document{document("a", 1, 0)})
}

func testUnknown(f *fixture) {
	_, err := f.s.Get(f.ctx, f.k, []string{"a"})
	f.wantError("Get()", err, vector.ErrCollectionNotFound, "")
	_, err = f.s.Delete(f.ctx, f.k, []string{"a"})
	f.wantError("Delete()", err, vector.ErrCollectionNotFound, "")
	_, err = f.s.Search(f.ctx, f.k, vector.SearchParams{Queries: []vector.Query{{Embedding: []float32{1}}}})
	f.wantError("Search()", err, vector.ErrCollectionNotFound, "")
	_, err = f.s.Search(f.ctx, f.k, vector.SearchParams{Queries: []vector.Query{{Text: "a"}}})
	f.wantError("Search()", err, vector.ErrCollectionNotFound, "")
	suite.Call(f.s.Collections(f.ctx, f.k.Owner)).Empty(f, "Collections()")
}

func testIsolation(f *fixture) {
	keys := []vector.Key{{Owner: "a", Collection: "b"}, {Owner: "a", Collection: "b/c"}, {Owner: "a/b", Collection: "c"}, {Owner: "b", Collection: "a"}, {Owner: "A", Collection: "b"}, {Owner: "a%", Collection: "_"}}
	for i, k := range keys {
		f.write(k, vector.WriteParams{Documents: []vector.Document{{ID: "same", Embedding: []float32{1, float32(i)}}, {ID: fmt.Sprint(i), Embedding: []float32{1, 1}}}})
	}
	for i, k := range keys {
		f.equal("Get()", f.get(k, "same", "0", "1", "2", "3", "4", "5"),
			[]vector.Document{{ID: "same", Embedding: []float32{1, float32(i)}}, {ID: fmt.Sprint(i), Embedding: []float32{1, 1}}})
		all, err := f.s.Search(f.ctx, k, vector.SearchParams{Queries: []vector.Query{{Embedding: []float32{0, 1}}}, Limit: 100})
		if err != nil || len(all[0].Hits) != 2 {
			f.Errorf("Search(%v) = %+v, %v, want 2 documents", k, all, err)
		}
	}
	suite.Call(f.s.Delete(f.ctx, keys[0], []string{"same", "1", "2"})).Want(f, 1, "Delete()")
	suite.Call(f.s.DeleteCollection(f.ctx, keys[1])).Want(f, 2, "DeleteCollection()")
	for _, k := range keys[2:] {
		if got := f.get(k, "same"); len(got) != 1 {
			f.Errorf("Get(%v) = %v after documents of others were removed", k, got)
		}
	}
}

func testList(f *fixture) {
	l := optional[vector.Lister](f)
	f.wantError("List()", suite.Err(l.List(f.ctx, f.k, vector.ListParams{})), vector.ErrCollectionNotFound, "")
	var want []vector.Document
	for i := range 25 {
		want = append(want, document(fmt.Sprintf("%02d", i), 1, float32(i)))
	}
	for i := range want {
		f.upsert(want[(i*7)%25])
	}
	var got []vector.Document
	for after := ""; ; after = got[len(got)-1].ID {
		page := suite.Call(l.List(f.ctx, f.k, vector.ListParams{After: after, Limit: 10})).Must(f, "List()")
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
		f.upsert(document("000", 1, 1)) // before the page
	}
	f.equal("List()", got, want)
}

func testForget(f *fixture) {
	s := optional[vector.Forgetter](f)
	for _, k := range []vector.Key{{Owner: "a", Collection: "x"}, {Owner: "a", Collection: "y"}, {Owner: "b", Collection: "x"}} {
		f.write(k, vector.WriteParams{Documents: []vector.Document{document("1", 1, 0), document("2", 1, 0)}})
	}
	suite.Call(s.ForgetOwner(f.ctx, "a")).Want(f, 4, "ForgetOwner()")
	suite.Call(f.s.Collections(f.ctx, "a")).Empty(f, "Collections()")
	if got := f.get(vector.Key{Owner: "b", Collection: "x"}, "1"); len(got) != 1 {
		f.Errorf("the document of another owner was removed")
	}
}

func testMismatch(f *fixture) {
	first := vector.WriteParams{Documents: []vector.Document{document("a", 1, 0)}, Metric: vector.L2, Embedder: "m"}
	f.write(f.k, first)
	for field, p := range map[string]vector.WriteParams{
		"dimension": {Documents: []vector.Document{document("b", 1, 0), document("c", 1, 0, 0)}},
		"metric":    {Documents: []vector.Document{document("b", 1, 0)}, Metric: vector.Cosine},
		"embedder":  {Documents: []vector.Document{document("b", 1, 0)}, Embedder: "other"},
	} {
		f.wantError("Upsert()", suite.Err(f.s.Upsert(f.ctx, f.k, p)), vector.ErrMismatch, field)
		f.wantError("Add()", suite.Err(f.s.Add(f.ctx, f.k, p)), vector.ErrMismatch, field)
	}
	f.wantError("Upsert() without embedding", suite.Err(f.s.Upsert(f.ctx, f.k, vector.WriteParams{Documents: []vector.Document{{ID: "d", Text: "without embedding"}}})), vector.ErrMismatch, "dimension")
	f.wantError("Search()", suite.Err(f.s.Search(f.ctx, f.k, vector.SearchParams{Queries: []vector.Query{{Embedding: []float32{1, 0}}, {Embedding: []float32{1}}}})), vector.ErrMismatch, "dimension")
	f.equal("Get()", f.get(f.k, "a", "b", "c", "d"), first.Documents)
	f.write(f.k, vector.WriteParams{Documents: []vector.Document{document("b", 1, 0)}, Metric: vector.L2, Embedder: "m"})
	f.upsert(document("c", 1, 0))
}
