package vectortest

import (
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/suite"
	"github.com/holdfast-dev/holdfast/store/vector"
)

var durableTests = []test{{name: "documents and settings survive a restart", run: testReopen}}

func testReopen(f *fixture) {
	if f.h.Reopen == nil {
		f.Skipf("the store is not durable")
	}
	p := vector.SearchParams{Filter: filter.Eq("even", true), Limit: 10, IncludeEmbedding: true}
	f.write(f.k, vector.WriteParams{Documents: circle(100), Embedder: "m"})
	before := f.search(p, 1, 0)
	for round := range 3 {
		f.s = f.h.Reopen(f.T, f.s, f.cfg)
		f.equal("Search() after a restart", f.search(p, 1, 0), before)
		d := circle(200)[100+2*round]
		f.upsert(d)
		if n, err := f.s.Delete(f.ctx, f.k, []string{before[0].ID}); n != 1 || err != nil {
			f.Fatalf("Delete() = %d, %v", n, err)
		}
		before = f.search(p, 1, 0)
	}
	f.wantError("Upsert()", suite.Err(f.s.Upsert(f.ctx, f.k, vector.WriteParams{Documents: []vector.Document{document("x", 1, 0)}, Embedder: "other"})), vector.ErrMismatch, "embedder")
	suite.Call(f.s.DeleteCollection(f.ctx, f.k)).Must(f, "DeleteCollection()")
	f.upsert(document("new", 1, 0, 0))
	f.s = f.h.Reopen(f.T, f.s, f.cfg)
	f.wantIDs("Search() of the new collection", f.search(vector.SearchParams{}, 1, 0, 0), "new")
}
