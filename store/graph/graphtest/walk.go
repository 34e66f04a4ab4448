package graphtest

import (
	"fmt"

	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var walkTests = []test{
	{"a walk returns entities by distance, each once", testDepth},
	{"a walk follows directions, types, labels and filters at every distance", testSelection},
	{"a walk meets relationships of the entities it leaves", testMet},
	{"limits truncate a walk in its order", testTruncated},
	{"the shortest path is found", testPath},
}

// pinboard writes a graph with a cycle, a loop, parallel relationships and a separate part:
//
//	a -> b -> c -> d -> a,  b => c (twice),  c -> c,  d -> e,  x -> y
func (f *fixture) pinboard() {
	f.Helper()
	all := entities("a", "b", "c", "d", "e", "x", "y")
	all[1].Label = "Other"
	f.write(graph.Batch{Entities: all, Relationships: edges(
		"r1: a knows b", "r2: b knows c", "r3: b knows c", "r4: c knows d", "r5: d likes a", "r6: c likes c", "r7: d knows e", "r8: x knows y",
	)})
}

func testDepth(f *fixture) {
	f.pinboard()
	walk := func(depth int, ids ...string) graph.NeighborParams {
		return graph.NeighborParams{IDs: ids, Depth: depth}
	}
	f.wantNeighbors("unknown start", walk(3, "missing"), "", "")
	f.wantNeighbors("depth 0, which means 1", walk(0, "a"), "a 0, b 1, d 1", "r1 r5")
	f.wantNeighbors("starts only", walk(graph.StartsOnly, "a"), "a 0", "")
	f.wantNeighbors("depth 1", walk(1, "a"), "a 0, b 1, d 1", "r1 r5")
	f.wantNeighbors("depth 2", walk(2, "a"), "a 0, b 1, d 1, c 2, e 2", "r1 r2 r3 r4 r5 r7")
	f.wantNeighbors("depth 3", walk(3, "a"), "a 0, b 1, d 1, c 2, e 2", "r1 r2 r3 r4 r5 r6 r7")
	f.wantNeighbors("largest depth", walk(graph.MaxDepth, "a"), "a 0, b 1, d 1, c 2, e 2", "r1 r2 r3 r4 r5 r6 r7")
	f.wantNeighbors("several starts", walk(1, "x", "e", "missing", "x"), "e 0, x 0, d 1, y 1", "r7 r8")
	f.wantNeighbors("connected starts", walk(1, "c", "b"), "b 0, c 0, a 1, d 1", "r1 r2 r3 r4 r6")
}

func testSelection(f *fixture) {
	f.pinboard()
	walk := func(w graph.Walk) graph.NeighborParams {
		return graph.NeighborParams{IDs: []string{"a"}, Depth: 3, Walk: w}
	}
	f.wantNeighbors("out", walk(graph.Walk{Direction: graph.Out}), "a 0, b 1, c 2, d 3", "r1 r2 r3 r4 r6")
	f.wantNeighbors("in", walk(graph.Walk{Direction: graph.In}), "a 0, d 1, c 2, b 3", "r2 r3 r4 r5 r6")
	f.wantNeighbors("both", walk(graph.Walk{Direction: graph.Both}), "a 0, b 1, d 1, c 2, e 2", "r1 r2 r3 r4 r5 r6 r7")
	f.wantNeighbors("type", walk(graph.Walk{Types: []string{"likes"}}), "a 0, d 1", "r5")
	f.wantNeighbors("types", walk(graph.Walk{Types: []string{"likes", "knows"}, Direction: graph.In}), "a 0, d 1, c 2, b 3", "r2 r3 r4 r5 r6")
	f.wantNeighbors("label", walk(graph.Walk{Labels: []string{"Thing"}}), "a 0, d 1, c 2, e 2", "r4 r5 r6 r7")
	f.wantNeighbors("label of the start", walk(graph.Walk{Labels: []string{"Other"}}), "a 0, b 1", "r1")
	f.wantNeighbors("entities", walk(graph.Walk{Entities: filter.Ne("of", "d")}), "a 0, b 1, c 2", "r1 r2 r3 r6")
	changed := edges("r1: a knows b", "r2: b knows c")
	changed[0].Properties, changed[1].Properties = map[string]any{"w": 1.0}, map[string]any{"w": 2.0}
	f.write(graph.Batch{Relationships: changed})
	f.wantNeighbors("relationships", walk(graph.Walk{Relationships: filter.Exists("w")}), "a 0, b 1, c 2", "r1 r2")
	f.wantNeighbors("relationships by value", walk(graph.Walk{Relationships: filter.Lt("w", 2)}), "a 0, b 1", "r1")
}

func testMet(f *fixture) {
	f.write(graph.Batch{Entities: entities("a", "b", "c", "d"), Relationships: edges("ab: a to b", "ac: a to c", "bc: b to c", "bb: b to b", "ca: c to a", "cd: c to d", "bd: b to d")})
	p := graph.NeighborParams{IDs: []string{"a"}, Depth: 1}
	f.wantNeighbors("met", p, "a 0, b 1, c 1", "ab ac ca")
	p.Induced = true
	f.wantNeighbors("induced", p, "a 0, b 1, c 1", "ab ac bb bc ca")
	p.Direction = graph.Out
	f.wantNeighbors("induced, out", p, "a 0, b 1, c 1", "ab ac bb bc ca")
	p.Direction = graph.In
	f.wantNeighbors("induced, in", p, "a 0, c 1", "ac ca")
	p = graph.NeighborParams{IDs: []string{"b", "c"}, Depth: graph.StartsOnly, Induced: true}
	f.wantNeighbors("induced, starts only", p, "b 0, c 0", "bb bc")
	p.MaxRelationships = 1
	found, ids, truncated := f.neighbors(p)
	f.equal("truncated induced walk", []any{found, ids, truncated}, []any{[]string{"b 0", "c 0"}, []string{"bb"}, true})
}

func testTruncated(f *fixture) {
	var b graph.Batch
	b.Entities = entities("hub")
	for i := range 20 {
		leaf, far := fmt.Sprintf("n%02d", i), fmt.Sprintf("m%02d", i)
		b.Entities = append(b.Entities, entities(leaf, far)...)
		b.Relationships = append(b.Relationships, edges(fmt.Sprintf("r%02d: hub to %s", 19-i, leaf), fmt.Sprintf("s%02d: %s to %s", i, far, leaf))...)
	}
	f.write(b)
	check := func(name string, p graph.NeighborParams, wantEntities, wantRelationships []string, want bool) {
		f.Helper()
		p.IDs = []string{"hub"}
		found, ids, truncated := f.neighbors(p)
		f.equal(name+": entities", found, wantEntities)
		f.equal(name+": relationships", ids, wantRelationships)
		f.equal(name+": truncated", truncated, want)
		p.IDsOnly = true
		again, idsAgain, truncatedAgain := f.neighbors(p)
		f.equal(name+": ids only", []any{again, idsAgain, truncatedAgain}, []any{found, ids, truncated})
	}
	check("3 entities", graph.NeighborParams{Depth: 2, MaxEntities: 3}, []string{"hub 0", "n00 1", "n01 1"}, []string{"r18", "r19"}, true)
	check("1 entity", graph.NeighborParams{Depth: 2, MaxEntities: 1}, []string{"hub 0"}, nil, true)
	check("2 relationships", graph.NeighborParams{Depth: 2, MaxRelationships: 2}, []string{"hub 0", "n18 1", "n19 1"}, []string{"r00", "r01"}, true)
	found, ids, truncated := f.neighbors(graph.NeighborParams{IDs: []string{"hub"}, Depth: 2, MaxEntities: 24, MaxRelationships: 100})
	f.equal("24 entities", []any{len(found), found[21:], len(ids), ids[20:], truncated}, []any{24, []string{"m00 2", "m01 2", "m02 2"}, 23, []string{"s00", "s01", "s02"}, true})
	found, ids, truncated = f.neighbors(graph.NeighborParams{IDs: []string{"hub"}, Depth: 2, MaxEntities: 100, MaxRelationships: 22})
	f.equal("22 relationships", []any{len(found), found[21:], len(ids), ids[20:], truncated}, []any{23, []string{"m00 2", "m01 2"}, 22, []string{"s00", "s01"}, true})
	found, ids, truncated = f.neighbors(graph.NeighborParams{IDs: []string{"hub"}, Depth: 2, MaxEntities: 41, MaxRelationships: 40})
	f.equal("exact limits", []any{len(found), len(ids), truncated}, []any{41, 40, false})
	found, _, truncated = f.neighbors(graph.NeighborParams{IDs: []string{"n03", "n02", "n01"}, MaxEntities: 2})
	f.equal("starts beyond the limit", []any{found, truncated}, []any{[]string{"n01 0", "n02 0"}, true})
}

// wantPath checks a path: ids of entities and relationships in turn.
func (f *fixture) wantPath(name string, p graph.PathParams, want ...string) {
	f.Helper()
	path := suite.Call(f.s.ShortestPath(f.ctx, f.k, p)).Must(f, "ShortestPath(%+v)", p)
	var got []string
	for i, e := range path.Entities {
		got = append(got, e.ID)
		if i < len(path.Relationships) {
			got = append(got, path.Relationships[i].ID)
		}
	}
	f.equal(name, got, want)
}

func testPath(f *fixture) {
	f.pinboard()
	path := func(from, to string, w graph.Walk) graph.PathParams {
		return graph.PathParams{From: from, To: to, Walk: w}
	}
	f.wantPath("one step", path("a", "b", graph.Walk{}), "a", "r1", "b")
	f.wantPath("to itself", path("c", "c", graph.Walk{}), "c")
	f.wantPath("to itself, unknown", path("missing", "missing", graph.Walk{}))
	f.wantPath("smallest ids", path("a", "c", graph.Walk{}), "a", "r1", "b", "r2", "c")
	f.wantPath("against the direction", path("a", "e", graph.Walk{}), "a", "r5", "d", "r7", "e")
	f.wantPath("out", path("a", "e", graph.Walk{Direction: graph.Out}), "a", "r1", "b", "r2", "c", "r4", "d", "r7", "e")
	f.wantPath("in", path("e", "b", graph.Walk{Direction: graph.In}), "e", "r7", "d", "r4", "c", "r2", "b")
	f.wantPath("type", path("a", "d", graph.Walk{Types: []string{"knows"}}), "a", "r1", "b", "r2", "c", "r4", "d")
	f.wantPath("excluded entity", path("a", "c", graph.Walk{Entities: filter.Ne("of", "b")}), "a", "r5", "d", "r4", "c")
	f.wantPath("the end is always included", path("a", "b", graph.Walk{Labels: []string{"Thing"}}), "a", "r1", "b")
	f.wantPath("none", path("a", "x", graph.Walk{}))
	f.wantPath("unknown", path("a", "missing", graph.Walk{}))
	f.wantPath("unknown start", path("missing", "a", graph.Walk{}))
	f.wantPath("too far", graph.PathParams{From: "a", To: "c", MaxDepth: 1})
	f.wantPath("far enough", graph.PathParams{From: "a", To: "c", MaxDepth: 2}, "a", "r1", "b", "r2", "c")
	f.wantPath("ids only", graph.PathParams{From: "a", To: "c", IDsOnly: true}, "a", "r1", "b", "r2", "c")
	got := suite.Call(f.s.ShortestPath(f.ctx, f.k, graph.PathParams{From: "d", To: "e"})).Must(f, "ShortestPath()")
	f.equal("ShortestPath()", got, graph.Path{Entities: entities("d", "e"), Relationships: f.relationships("r7")})
}
