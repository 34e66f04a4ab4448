package vectortest

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/suite"
	"github.com/holdfast-dev/holdfast/store/vector"
)

const racers = 64

var raceTests = []test{
	{name: "of concurrent adds of an id one succeeds", run: testAddRace},
	{name: "of concurrent first writes one fixes the collection", run: testFirstWriteRace},
	{name: "concurrent upserts lose no document", run: testUpsertRace},
	{name: "searches during changes return whole documents", run: testSearchRace},
	{name: "writes during removals of the collection succeed", run: testRemovalRace},
}

func testAddRace(f *fixture) {
	added := suite.Winners(f, racers, vector.ErrExists, func(i int) error {
		return suite.Err(f.s.Add(f.ctx, f.k, vector.WriteParams{Documents: []vector.Document{document(fmt.Sprint("own", i), 1, 1), document("same", 1, float32(i))}}))
	})
	if n := added; n != 1 {
		f.Errorf("%d adds succeeded, want 1", n)
	}
	suite.Equal(f, len(f.search(vector.SearchParams{Limit: 100}, 1, 1)), 2, "number of results of Search()")
}

func testFirstWriteRace(f *fixture) {
	written := suite.Winners(f, racers, vector.ErrMismatch, func(i int) error {
		return suite.Err(f.s.Upsert(f.ctx, f.k, vector.WriteParams{Documents: []vector.Document{document(fmt.Sprint(i), make([]float32, 1+i%4)...)}, Metric: vector.L2}))
	})
	all, err := f.s.Collections(f.ctx, f.k.Owner)
	if err != nil || len(all) != 1 || all[0].Documents != racers/4 || written != racers/4 {
		f.Errorf("%d writes succeeded, then Collections() = %+v, %v; want %d", written, all, err, racers/4)
	}
}

func testUpsertRace(f *fixture) {
	suite.Concurrently(racers, func(i int) {
		for n := range 5 {
			suite.Call(f.s.Upsert(f.ctx, f.k, vector.WriteParams{Documents: []vector.Document{document(fmt.Sprint(i, n), 1, float32(i)), document(fmt.Sprint("shared", n), 1, float32(i))}})).Check(f, "Upsert()")
		}
	})
	hits := f.search(vector.SearchParams{Limit: vector.MaxLimit, IncludeEmbedding: true}, 1, 1)
	suite.Equal(f, len(hits), racers*5+5, "Search()")
}

func testSearchRace(f *fixture) {
	f.upsert(circle(50)...)
	p := vector.SearchParams{Queries: []vector.Query{{Embedding: []float32{1, 0}}}, Filter: filter.Eq("even", true), Limit: 20, IncludeEmbedding: true}
	suite.Concurrently(racers, func(i int) {
		for n := range 4 {
			if i%4 == 0 {
				d := circle(100)[50+(i+n)%50]
				suite.Call(f.s.Upsert(f.ctx, f.k, vector.WriteParams{Documents: []vector.Document{d}})).Check(f, "Upsert()")
				suite.Call(f.s.Delete(f.ctx, f.k, []string{circle(100)[50+(i+n+7)%50].ID})).Check(f, "Delete()")
				continue
			}
			all, err := f.s.Search(f.ctx, f.k, p)
			if err != nil || len(all[0].Hits) != 20 {
				f.Errorf("Search() = %d documents, %v, want 20", len(all[0].Hits), err)
				continue
			}
			for _, h := range all[0].Hits {
				if h.Metadata["even"] != true || len(h.Embedding) != 2 || h.Text == "" {
					f.Errorf("Search() returns %+v", h)
				}
			}
		}
	})
}

func testRemovalRace(f *fixture) {
	suite.Concurrently(racers, func(i int) {
		if i%8 == 0 {
			suite.Call(f.s.DeleteCollection(f.ctx, f.k)).Check(f, "DeleteCollection()")
			return
		}
		f.upsert(document(fmt.Sprint(i), 1, float32(i)))
		_, err := f.s.Search(f.ctx, f.k, vector.SearchParams{Queries: []vector.Query{{Embedding: []float32{1, 1}}}})
		suite.Do(err).MayFail(f, vector.ErrCollectionNotFound, "Search()")
	})
	f.upsert(document("last", 1, 1))
	all, err := f.s.Collections(f.ctx, f.k.Owner)
	if err != nil || len(all) != 1 {
		f.Fatalf("Collections() = %+v, %v", all, err)
	}
	if hits := f.search(vector.SearchParams{Limit: 1000}, 1, 1); int64(len(hits)) != all[0].Documents {
		f.Errorf("Search() returns %d documents, the collection has %d", len(hits), all[0].Documents)
	}
}
