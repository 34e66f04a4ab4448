package graphtest

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var transferTests = []test{
	{"graphs are listed by name", testGraphs},
	{"DeleteGraph and ForgetOwner remove all of a graph and of an owner", testForget},
	{"what was exported can be restored", testRestore},
	{"a relationship of many versions can be restored", testRestoreVersions},
	{"data survive a restart", testReopen},
}

func testGraphs(f *fixture) {
	l := optional[graph.Lister](f)
	list := func(p graph.ListParams) (all []graph.Info) {
		return suite.Call(l.Graphs(f.ctx, p)).Must(f, "Graphs(%+v)", p)
	}
	f.equal("Graphs() of an empty store", list(graph.ListParams{Owner: "owner"}), []graph.Info(nil))
	var want []graph.Info
	for i := range 5 {
		name := fmt.Sprint("g", (i*2)%5)
		f.writeTo(graph.Key{Owner: "owner", Graph: name}, graph.Batch{Entities: entities("a", "b"), Relationships: edges("r: a to b", "s: b to a")})
		f.writeTo(graph.Key{Owner: "owner", Graph: name}, graph.Batch{Ends: []graph.End{{ID: "r"}}})
		want = append(want, graph.Info{Name: fmt.Sprint("g", i), Entities: 2, Relationships: 2})
	}
	f.writeTo(graph.Key{Owner: "other", Graph: "x"}, graph.Batch{Entities: entities("a")})
	f.equal("Graphs()", list(graph.ListParams{Owner: "owner"}), want)
	f.equal("Graphs() with a limit", list(graph.ListParams{Owner: "owner", Limit: 2}), want[:2])
	f.equal("Graphs() after", list(graph.ListParams{Owner: "owner", After: "g1", Limit: 2}), want[2:4])
	f.writeTo(graph.Key{Owner: "owner", Graph: "g0"}, graph.Batch{DeleteEntities: []string{"a", "b"}})
	f.equal("Graphs() without entities", list(graph.ListParams{Owner: "owner"}), want[1:])
}

func testForget(f *fixture) {
	s := optional[graph.Forgetter](f)
	keys := []graph.Key{{Owner: "a", Graph: "x"}, {Owner: "a", Graph: "y"}, {Owner: "b", Graph: "x"}, {Owner: "a", Graph: "z"}}
	for _, k := range keys {
		f.writeTo(k, graph.Batch{Entities: entities("a", "b"), Relationships: edges("r: a to b")})
		f.writeTo(k, graph.Batch{Ends: []graph.End{{ID: "r"}}})
	}
	report, err := s.DeleteGraph(f.ctx, keys[0])
	if want := (graph.ForgetReport{Entities: 2, Relationships: 1}); report != want || err != nil {
		f.Errorf("DeleteGraph() = %+v, %v, want %+v", report, err, want)
	}
	suite.Call(s.DeleteGraph(f.ctx, keys[0])).Want(f, (graph.ForgetReport{}), "DeleteGraph() again")
	f.equal("Entities() of another graph", f.entities(keys[1], "a", "b"), entities("a", "b"))
	report, err = s.ForgetOwner(f.ctx, "a")
	if want := (graph.ForgetReport{Entities: 4, Relationships: 2}); report != want || err != nil {
		f.Errorf("ForgetOwner() = %+v, %v, want %+v", report, err, want)
	}
	for i, k := range keys {
		f.k = k
		want := entities("a", "b")
		if i != 2 {
			want = nil
		}
		f.equal("Entities() after ForgetOwner", f.entities(k, "a", "b"), want)
		f.equal("Relationships() after ForgetOwner", len(f.relationships("r")), len(want)/2)
	}
	f.k = keys[0]
	f.write(graph.Batch{Entities: entities("a", "b")})
	f.wantNeighbors("after entities were added again", graph.NeighborParams{IDs: []string{"a"}, Depth: 1, Walk: graph.Walk{Moment: graph.Moment{AnyTime: true}}}, "a 0", "")
}

func testRestore(f *fixture) {
	s, h := optional[graph.Restorer](f), optional[graph.Historian](f)
	changed := edges("r: a to b")
	changed[0].Properties = map[string]any{"n": 1.0}
	f.write(graph.Batch{Entities: entities("a", "b"), Relationships: edges("r: a to b", "s: b to a")})
	at := f.clock.Add(time.Hour)
	f.write(graph.Batch{Relationships: changed})
	versions := suite.Call(h.History(f.ctx, f.k, "r")).Must(f, "History()")
	versions = append(versions, f.relationships("s")...)
	from := f.k
	f.k = graph.Key{Owner: "owner", Graph: "restored"}
	f.clock.Add(time.Hour)
	suite.Do(s.CanRestore(f.ctx, f.k, entities("a", "b"), versions)).Check(f, "CanRestore()")
	f.wantError("Restore() without an end", s.Restore(f.ctx, f.k, entities("a"), versions), graph.ErrEndpointNotFound, "relationships[0].target")
	f.equal("Entities() after the failure", f.entities(f.k, "a"), []graph.Entity(nil))
	suite.Do(s.Restore(f.ctx, f.k, entities("a", "b"), versions)).Must(f, "Restore()")
	got := suite.Call(h.History(f.ctx, f.k, "r")).Must(f, "History()")
	f.equal("History() of the restored relationship", got, versions[:2])
	f.equal("Entities()", f.entities(f.k, "a", "b"), entities("a", "b"))
	f.wantMoment("as known then", graph.Moment{KnownAt: at}, "r", "s")
	for kind, call := range map[string]func() error{
		"entity":       func() error { return s.Restore(f.ctx, from, append(entities("new"), entities("b")...), nil) },
		"relationship": func() error { return s.Restore(f.ctx, from, entities("new"), versions[2:]) },
	} {
		f.wantError("Restore() of an existing "+kind, call(), graph.ErrExists, kind)
	}
	f.wantError("CanRestore()", s.CanRestore(f.ctx, from, nil, versions[2:]), graph.ErrExists, "relationship")
	f.equal("Entities() after rejections", f.entities(from, "new"), []graph.Entity(nil))
	for name, bad := range map[string][]graph.Relationship{
		"a version is missing":        {versions[1]},
		"the newest is missing":       {versions[0]},
		"the order is wrong":          {versions[1], versions[0]},
		"a relationship is repeated":  {versions[2], versions[0], versions[1], versions[2]},
		"the newest version replaced": {versions[0], versions[2]},
	} {
		err := s.Restore(f.ctx, graph.Key{Owner: "owner", Graph: "bad"}, entities("a", "b"), bad)
		f.wantInvalid("Restore() if "+name, err, "relationships")
	}
}

func testRestoreVersions(f *fixture) {
	s, h := optional[graph.Restorer](f), optional[graph.Historian](f)
	f.write(graph.Batch{Entities: entities("a", "b"), Relationships: edges("r: a to b")})
	at := f.relationships("r")[0].RecordedAt
	versions := make([]graph.Relationship, graph.MaxWrite+1)
	for i := range versions {
		r := edges("many: a to b")[0]
		r.Version, r.RecordedAt, r.Properties = int64(i+1), at.Add(time.Duration(i)*time.Second), map[string]any{"n": float64(i)}
		if i < len(versions)-1 {
			r.ReplacedAt = r.RecordedAt.Add(time.Second)
		}
		versions[i] = r
	}
	f.wantInvalid("Restore() with an entity", s.Restore(f.ctx, f.k, entities("c"), versions), "restore")
	suite.Do(s.Restore(f.ctx, f.k, nil, versions)).Must(f, "Restore()")
	got := suite.Call(h.History(f.ctx, f.k, "many")).Must(f, "History()")
	f.equal("History()", got, versions)
}

func testReopen(f *fixture) {
	if f.h.Reopen == nil {
		f.Skipf("the store is not durable")
	}
	f.pinboard()
	at := f.clock.Add(time.Hour)
	for round := range 3 {
		f.s = f.h.Reopen(f.T, f.s, f.clock.Now)
		f.wantNeighbors("after a restart", graph.NeighborParams{IDs: []string{"a"}, Depth: 1}, "a 0, b 1, d 1", "r1 r5")
		id := fmt.Sprint("n", round)
		f.write(graph.Batch{Entities: entities(id), Relationships: edges(id + ": x to " + id)})
		f.write(graph.Batch{Ends: []graph.End{{ID: id, At: at}}})
	}
	f.s = f.h.Reopen(f.T, f.s, f.clock.Now)
	f.wantNeighbors("as of then", graph.NeighborParams{IDs: []string{"x"}, Depth: 1, Walk: graph.Walk{Moment: graph.Moment{AsOf: start}}}, "x 0, n0 1, n1 1, n2 1, y 1", "n0 n1 n2 r8")
	f.wantNeighbors("now", graph.NeighborParams{IDs: []string{"x"}, Depth: 1}, "x 0, y 1", "r8")
}
