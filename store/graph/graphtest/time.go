package graphtest

import (
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var timeTests = []test{
	{"reads select relationships by when they are valid", testAsOf},
	{"reads select relationships by when they were known", testKnownAt},
	{"an end keeps that a relationship was true before", testEnd},
	{"history has all versions", testHistory},
}

// wantMoment checks the ids of the relationships that reads find at a moment.
func (f *fixture) wantMoment(name string, m graph.Moment, want ...string) {
	f.Helper()
	for _, p := range []graph.NeighborParams{
		{IDs: []string{"a"}, Depth: 1, Walk: graph.Walk{Moment: m}},
		{IDs: []string{"b"}, Depth: 1, Walk: graph.Walk{Moment: m}, IDsOnly: true},
	} {
		_, ids, _ := f.neighbors(p)
		f.equal(name, ids, want)
	}
	found, err := f.s.FindRelationships(f.ctx, f.k, graph.FindRelationshipParams{Moment: m})
	var ids []string
	for _, r := range found {
		ids = append(ids, r.ID)
	}
	if err != nil {
		f.Fatalf("FindRelationships() = %v", err)
	}
	f.equal(name+", found", ids, want)
}

func testAsOf(f *fixture) {
	day := func(n int) time.Time { return start.AddDate(0, 0, n) }
	all := edges("always: a to b", "from: a to b", "until: a to b", "within: b to a")
	all[1].ValidFrom, all[2].ValidTo, all[3].ValidFrom, all[3].ValidTo = day(-1), day(1), day(-2), day(-1)
	f.write(graph.Batch{Entities: entities("a", "b"), Relationships: all})
	f.wantMoment("now", graph.Moment{}, "always", "from", "until")
	f.wantMoment("any time", graph.Moment{AnyTime: true}, "always", "from", "until", "within")
	f.wantMoment("at the start", graph.Moment{AsOf: day(-2)}, "always", "until", "within")
	f.wantMoment("before the end", graph.Moment{AsOf: day(-1).Add(-time.Millisecond)}, "always", "until", "within")
	f.wantMoment("at the end", graph.Moment{AsOf: day(-1)}, "always", "from", "until")
	f.wantMoment("long ago", graph.Moment{AsOf: time.Date(1, 1, 1, 0, 0, 0, int(time.Millisecond), time.UTC)}, "always", "until")
	f.wantMoment("long after", graph.Moment{AsOf: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}, "always", "from")
	f.clock.Add(48 * time.Hour)
	f.wantMoment("later", graph.Moment{}, "always", "from")
	f.wantPath("as of", graph.PathParams{From: "b", To: "a", Walk: graph.Walk{Direction: graph.Out, Moment: graph.Moment{AsOf: day(-2)}}}, "b", "within", "a")
	f.wantPath("now", graph.PathParams{From: "b", To: "a", Walk: graph.Walk{Direction: graph.Out}})
}

func testKnownAt(f *fixture) {
	r := edges("r: a to b")
	f.write(graph.Batch{Entities: entities("a", "b"), Relationships: r})
	corrected := f.clock.Add(time.Hour)
	r[0].ValidFrom = start.Add(30 * time.Minute) // it is known later that it was not true at the start
	f.write(graph.Batch{Relationships: r})
	f.clock.Add(time.Hour)
	f.wantMoment("as of the start, as known now", graph.Moment{AsOf: start})
	f.wantMoment("as of the start, as known then", graph.Moment{AsOf: start, KnownAt: start}, "r")
	f.wantMoment("as known before the correction", graph.Moment{AsOf: start, KnownAt: corrected.Add(-time.Millisecond)}, "r")
	f.wantMoment("as known at the correction", graph.Moment{AsOf: start, KnownAt: corrected})
	f.wantMoment("as of now, as known at the correction", graph.Moment{KnownAt: corrected}, "r")
	f.wantMoment("as known before the first version", graph.Moment{KnownAt: start.Add(-time.Millisecond)})
	f.wantMoment("any time, as known before", graph.Moment{KnownAt: start.Add(-time.Millisecond), AnyTime: true})
}

func testEnd(f *fixture) {
	f.write(graph.Batch{Entities: entities("a", "b"), Relationships: edges("old: a to b")})
	at := f.clock.Add(time.Hour)
	b := graph.Supersede("old", at, edges("new: a to b")[0])
	f.write(b)
	f.wantMoment("now", graph.Moment{}, "new")
	f.wantMoment("before", graph.Moment{AsOf: at.Add(-time.Millisecond)}, "old")
	f.wantMoment("as known before", graph.Moment{KnownAt: at.Add(-time.Millisecond)}, "old")
	f.equal("Relationships()", f.relationships("old", "new"), []graph.Relationship{
		{ID: "old", Source: "a", Target: "b", Type: "to", ValidTo: at, Version: 2, RecordedAt: at},
		{ID: "new", Source: "a", Target: "b", Type: "to", ValidFrom: at, Version: 1, RecordedAt: at},
	})
	f.clock.Add(time.Hour)
	f.write(graph.Batch{Ends: b.Ends})
	if got := f.relationships("old"); got[0].Version != 2 {
		f.Errorf("after the same end again: %+v, want version 2", got)
	}
	f.write(graph.Batch{Ends: []graph.End{{ID: "new"}}})
	if got := f.relationships("new"); !got[0].ValidTo.Equal(f.clock.Now()) {
		f.Errorf("after an end without a time: %+v, want the present time", got)
	}
	for name, at := range map[string]time.Time{"at the start": at, "later than before": f.clock.Now().Add(time.Hour)} {
		f.wantInvalid("Write() with an end "+name, suite.Err(f.s.Write(f.ctx, f.k, graph.Batch{Ends: []graph.End{{ID: "new", At: at}}})), "ends")
	}
}

func testHistory(f *fixture) {
	h := optional[graph.Historian](f)
	r := edges("r: a to b")[0]
	f.write(graph.Batch{Entities: entities("a", "b"), Relationships: []graph.Relationship{r}})
	var want []graph.Relationship
	for i := range 3 {
		at := f.clock.Now()
		if i == 2 { // the clock was set back: versions keep their order
			at = f.clock.Add(-10 * time.Hour).Add(10 * time.Hour)
		}
		r.Version, r.RecordedAt = int64(i+1), at
		if i > 0 {
			r.Properties = map[string]any{"n": float64(i)}
			f.write(graph.Batch{Relationships: []graph.Relationship{r}})
			want[i-1].ReplacedAt = at
		}
		want = append(want, r)
		if i == 0 {
			f.clock.Add(time.Hour)
		}
	}
	got := suite.Call(h.History(f.ctx, f.k, "r")).Must(f, "History()")
	f.equal("History()", got, want)
	_, err := h.History(f.ctx, f.k, "missing")
	f.wantError("History()", err, graph.ErrRelationshipNotFound, "")
	f.wantError("History()", err, store.ErrNotFound, "")
}
