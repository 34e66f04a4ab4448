package graphtest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var contractTests = []test{
	{"reads return what was added", testRead},
	{"adding an entity again replaces it", testReplaceEntity},
	{"adding a relationship again adds a version", testReplaceRelationship},
	{"entities and relationships without an id get one", testIDs},
	{"relationships need both ends", testEndpoints},
	{"deleting an entity deletes its relationships", testDeleteEntity},
	{"deleting a relationship keeps its ends", testDeleteRelationship},
	{"a batch is applied in order and as a whole", testBatch},
	{"entities are found by label, name and properties", testFind},
	{"relationships are found by type, time and properties", testFindRelationships},
	{"owners and graphs are isolated", testIsolation},
}

func testRead(f *fixture) {
	e := graph.Entity{ID: "ravi", Label: "Person", Properties: map[string]any{"name": "Ravi", "n": 1.5, "tags": []any{"a", nil, true}, "o": map[string]any{"p": "q"}}}
	ids := suite.Call(f.s.AddEntities(f.ctx, f.k, []graph.Entity{e, {ID: "x", Label: "Project"}})).Must(f, "AddEntities()")
	f.equal("AddEntities()", ids, []string{"ravi", "x"})
	r := graph.Relationship{
		ID: "r", Source: "ravi", Target: "x", Type: "works_on", Properties: map[string]any{"since": 2024.0},
		ValidFrom: start.Add(-time.Hour), ValidTo: start.Add(1234567 * time.Nanosecond),
	}
	ids = suite.Call(f.s.AddRelationships(f.ctx, f.k, []graph.Relationship{r})).Must(f, "AddRelationships()")
	f.equal("AddRelationships()", ids, []string{"r"})
	f.equal("Entities()", f.entities(f.k, "x", "missing", "ravi"), []graph.Entity{{ID: "x", Label: "Project"}, e})
	r.ValidTo, r.Version, r.RecordedAt = start.Add(time.Millisecond), 1, start
	f.equal("Relationships()", f.relationships("missing", "r"), []graph.Relationship{r})
	s := suite.Call(f.s.Neighbors(f.ctx, f.k, graph.NeighborParams{IDs: []string{"ravi"}, Depth: 1})).Must(f, "Neighbors()")
	f.equal("Neighbors()", s, graph.SubGraph{
		Entities:      []graph.Neighbor{{Entity: e}, {Entity: graph.Entity{ID: "x", Label: "Project"}, Distance: 1}},
		Relationships: []graph.Relationship{r},
	})
	s = suite.Call(f.s.Neighbors(f.ctx, f.k, graph.NeighborParams{IDs: []string{"ravi"}, Depth: 1, IDsOnly: true})).Must(f, "Neighbors()")
	f.equal("Neighbors() of ids", s, graph.SubGraph{
		Entities:      []graph.Neighbor{{Entity: graph.Entity{ID: "ravi"}}, {Entity: graph.Entity{ID: "x"}, Distance: 1}},
		Relationships: []graph.Relationship{{ID: "r", Source: "ravi", Target: "x", Type: "works_on"}},
	})
}

func testReplaceEntity(f *fixture) {
	f.write(graph.Batch{Entities: entities("a", "b"), Relationships: edges("r: a to b")})
	changed := graph.Entity{ID: "a", Label: "Other", Properties: map[string]any{"name": "New"}}
	f.write(graph.Batch{Entities: []graph.Entity{changed}})
	f.equal("Entities()", f.entities(f.k, "a"), []graph.Entity{changed})
	f.wantNeighbors("after the change", graph.NeighborParams{IDs: []string{"a"}, Depth: 1}, "a 0, b 1", "r")
	f.write(graph.Batch{Entities: []graph.Entity{{ID: "a", Label: "Other"}}})
	all, err := f.s.FindEntities(f.ctx, f.k, graph.FindParams{Names: []string{"new"}})
	if err != nil || len(all) > 0 {
		f.Errorf("FindEntities() by the old name = %v, %v, want none", all, err)
	}
}

func testReplaceRelationship(f *fixture) {
	r := edges("r: a to b")
	r[0].Properties = map[string]any{"n": 1.0}
	f.write(graph.Batch{Entities: entities("a", "b", "c"), Relationships: r})
	f.clock.Add(time.Second)
	f.write(graph.Batch{Relationships: r})
	if got := f.relationships("r"); len(got) != 1 || got[0].Version != 1 || !got[0].RecordedAt.Equal(start) {
		f.Errorf("after an equal write: %+v, want version 1", got)
	}
	r[0].Properties = map[string]any{"n": 2.0}
	f.write(graph.Batch{Relationships: r})
	r[0].Version, r[0].RecordedAt = 2, start.Add(time.Second)
	f.equal("Relationships()", f.relationships("r"), r)
	for field, r := range map[string]string{"source": "r: c to b", "target": "r: a to a", "type": "r: a other b"} {
		f.wantError("AddRelationships() with another "+field, suite.Err(f.s.AddRelationships(f.ctx, f.k, edges(r))), graph.ErrConflict, field)
	}
	f.equal("Relationships() after conflicts", f.relationships("r"), r)
}

func testIDs(f *fixture) {
	result := f.write(graph.Batch{
		Entities:      []graph.Entity{{Label: "A"}, {ID: "x", Label: "B"}, {Label: "C"}},
		Relationships: []graph.Relationship{{Source: "x", Target: "x", Type: "is"}, {Source: "x", Target: "x", Type: "is"}},
	})
	seen := make(map[string]bool)
	for _, id := range append(result.Entities, result.Relationships...) {
		if id == "" || seen[id] {
			f.Fatalf("Write() = %+v", result)
		}
		seen[id] = true
	}
	got := f.entities(f.k, result.Entities...)
	f.equal("labels", []string{got[0].Label, got[1].Label, got[2].Label}, []string{"A", "B", "C"})
	if got := f.relationships(result.Relationships...); len(got) != 2 {
		f.Errorf("Relationships() = %v, want 2", got)
	}
}

func testEndpoints(f *fixture) {
	f.write(graph.Batch{Entities: entities("a")})
	f.writeTo(graph.Key{Owner: "owner", Graph: "other"}, graph.Batch{Entities: entities("b")})
	for field, r := range map[string]string{"relationships[1].source": "s: b to a", "relationships[1].target": "s: a to b"} {
		_, err := f.s.AddRelationships(f.ctx, f.k, edges("r: a to a", r))
		f.wantError("AddRelationships()", err, graph.ErrEndpointNotFound, field)
		var e *graph.EndpointError
		if !errors.As(err, &e) || e.Entity != "b" {
			f.Errorf("AddRelationships() = %#v, want an EndpointError for b", err)
		}
	}
	f.wantError("Write()", suite.Err(f.s.Write(f.ctx, f.k, graph.Batch{Entities: entities("c"), Relationships: edges("r: c to b")})), graph.ErrEndpointNotFound, "")
	f.equal("Relationships()", f.relationships("r", "s"), []graph.Relationship(nil))
	f.equal("Entities()", f.entities(f.k, "a", "b", "c"), entities("a"))
	f.wantError("Write() to a deleted entity", suite.Err(f.s.Write(f.ctx, f.k, graph.Batch{DeleteEntities: []string{"a"}, Relationships: edges("r: a to a")})), graph.ErrEndpointNotFound, "")
	f.equal("Entities() after the failed write", f.entities(f.k, "a"), entities("a"))
}

func testDeleteEntity(f *fixture) {
	f.write(graph.Batch{Entities: entities("a", "b", "c"), Relationships: edges("ab: a to b", "bc: b to c", "cb: c to b", "bb: b to b", "ac: a to c")})
	f.write(graph.Batch{Ends: []graph.End{{ID: "ab", At: start}}}) // has two versions, and is not valid
	suite.Call(f.s.DeleteEntity(f.ctx, f.k, "b")).Want(f, true, "DeleteEntity()")
	suite.Call(f.s.DeleteEntity(f.ctx, f.k, "b")).Want(f, false, "DeleteEntity() again")
	f.equal("Entities()", f.entities(f.k, "a", "b", "c"), entities("a", "c"))
	if got := f.relationships("ab", "bc", "cb", "bb", "ac"); len(got) != 1 || got[0].ID != "ac" {
		f.Errorf("Relationships() = %v, want ac", got)
	}
	f.write(graph.Batch{Entities: entities("b")})
	f.wantNeighbors("after b was added again", graph.NeighborParams{IDs: []string{"b", "a"}, Depth: 3, Walk: graph.Walk{Moment: graph.Moment{AnyTime: true}}}, "a 0, b 0, c 1", "ac")
	result := f.write(graph.Batch{Entities: entities("d"), DeleteEntities: []string{"a", "c", "a", "missing"}})
	f.equal("Write()", result, graph.Result{Entities: []string{"d"}, DeletedEntities: 2, DeletedRelationships: 1})
}

func testDeleteRelationship(f *fixture) {
	f.write(graph.Batch{Entities: entities("a", "b"), Relationships: edges("r: a to b", "s: a to b")})
	suite.Call(f.s.DeleteRelationship(f.ctx, f.k, "r")).Want(f, true, "DeleteRelationship()")
	suite.Call(f.s.DeleteRelationship(f.ctx, f.k, "r")).Want(f, false, "DeleteRelationship() again")
	f.wantNeighbors("after the removal", graph.NeighborParams{IDs: []string{"a"}, Depth: 1}, "a 0, b 1", "s")
	f.write(graph.Batch{Relationships: edges("r: b other a")}) // no conflict: the id is free
	f.wantNeighbors("after the id was used again", graph.NeighborParams{IDs: []string{"a"}, Depth: 1}, "a 0, b 1", "r s")
}

func testBatch(f *fixture) {
	f.write(graph.Batch{Entities: entities("a", "b"), Relationships: edges("r: a to b", "s: a to b")})
	result := f.write(graph.Batch{
		DeleteRelationships: []string{"r"}, DeleteEntities: []string{"b"},
		Entities: entities("b", "c"), Relationships: edges("r: a to c", "t: b to c"),
	})
	f.equal("Write()", result, graph.Result{Entities: []string{"b", "c"}, Relationships: []string{"r", "t"}, DeletedEntities: 1, DeletedRelationships: 2})
	f.wantNeighbors("after the batch", graph.NeighborParams{IDs: []string{"a"}, Depth: 5}, "a 0, c 1, b 2", "r t")
	before := f.relationships("r", "t")
	for name, b := range map[string]graph.Batch{
		"an unknown relationship to end": {Ends: []graph.End{{ID: "missing"}}},
		"an unknown end":                 {Relationships: edges("x: a to missing")},
		"another target":                 {Relationships: edges("t: b to a")},
		"an end before the start":        {Ends: []graph.End{{ID: "v", At: start.Add(-time.Second)}}},
	} {
		f.write(graph.Batch{Relationships: []graph.Relationship{{ID: "v", Source: "a", Target: "b", Type: "to", ValidFrom: start}}})
		b.DeleteRelationships, b.DeleteEntities = []string{"t"}, []string{"c"}
		if strings.Contains(name, "target") {
			b.DeleteRelationships, b.DeleteEntities = []string{"r"}, nil
		}
		b.Entities = append(b.Entities, graph.Entity{ID: "a", Label: "Changed"}, graph.Entity{ID: "new", Label: "New"})
		b.Relationships = append(edges("u: a to b"), b.Relationships...)
		if _, err := f.s.Write(f.ctx, f.k, b); err == nil {
			f.Errorf("Write() with %s = nil, want an error", name)
		}
		f.equal("entities after "+name, f.entities(f.k, "a", "b", "c", "new"), entities("a", "b", "c"))
		f.equal("relationships after "+name, f.relationships("r", "t", "u", "x"), before)
	}
	_, err := f.s.Write(f.ctx, f.k, graph.Batch{Ends: []graph.End{{ID: "missing"}}})
	f.wantError("Write()", err, graph.ErrRelationshipNotFound, "")
	f.wantError("Write()", err, store.ErrNotFound, "")
	f.equal("an empty Write()", f.write(graph.Batch{}), graph.Result{})
}

// found returns the ids of entities.
func (f *fixture) found(p graph.FindParams) (ids []string) {
	f.Helper()
	all := suite.Call(f.s.FindEntities(f.ctx, f.k, p)).Must(f, "FindEntities(%+v)", p)
	for _, e := range all {
		ids = append(ids, e.ID)
	}
	return ids
}

func testFind(f *fixture) {
	var all []graph.Entity
	for i := range 30 {
		all = append(all, graph.Entity{ID: fmt.Sprintf("e%02d", (i*7)%30), Label: []string{"A", "B", "C"}[i%3], Properties: map[string]any{"name": fmt.Sprintf("Name  %d", i%5), "n": float64(i)}})
	}
	all[4].Properties["name"] = 4.0
	f.equal("FindEntities() of an empty graph", f.found(graph.FindParams{}), []string(nil))
	f.write(graph.Batch{Entities: all})
	var want []string
	for i := range 30 {
		want = append(want, fmt.Sprintf("e%02d", i))
	}
	f.equal("all", f.found(graph.FindParams{}), want)
	f.equal("first", f.found(graph.FindParams{Limit: 4}), want[:4])
	f.equal("after", f.found(graph.FindParams{Limit: 4, After: "e03"}), want[4:8])
	f.equal("after an unknown id", f.found(graph.FindParams{After: "e28x"}), want[29:])
	f.equal("label", f.found(graph.FindParams{Labels: []string{"A"}, Limit: 3}), []string{"e00", "e03", "e06"})
	f.equal("labels", f.found(graph.FindParams{Labels: []string{"A", "B"}, Limit: 3}), []string{"e00", "e01", "e03"})
	f.equal("unknown label", f.found(graph.FindParams{Labels: []string{"a"}}), []string(nil))
	f.equal("name", f.found(graph.FindParams{Names: []string{"NAME 4"}}), []string{"e03", "e08", "e13", "e18", "e23"})
	f.equal("names", f.found(graph.FindParams{Names: []string{" name 1", "name\t0", "unknown", "name 1"}, Limit: 4}), []string{"e00", "e02", "e05", "e07"})
	f.equal("names after", f.found(graph.FindParams{Names: []string{" name 1", "name\t0"}, Limit: 2, After: "e07"}), []string{"e10", "e12"})
	f.equal("name and label", f.found(graph.FindParams{Names: []string{"name 0"}, Labels: []string{"C"}}), []string{"e05", "e20"})
	f.equal("filter", f.found(graph.FindParams{Filter: filter.Gte("n", 28)}), []string{"e16", "e23"})
	f.equal("filter and limit", f.found(graph.FindParams{Filter: filter.Gte("n", 28), Limit: 1}), []string{"e16"})
	f.equal("filter and name", f.found(graph.FindParams{Filter: filter.Lt("n", 6), Names: []string{"name 0"}}), []string{"e00", "e05"})
}

func testFindRelationships(f *fixture) {
	var all []graph.Relationship
	for i := range 20 {
		r := graph.Relationship{ID: fmt.Sprintf("r%02d", (i*7)%20), Source: "a", Target: "b", Type: []string{"to", "from"}[i%2], Properties: map[string]any{"n": float64(i)}}
		if i%4 == 0 {
			r.ValidTo = start
		}
		all = append(all, r)
	}
	f.write(graph.Batch{Entities: entities("a", "b"), Relationships: all})
	ids := func(p graph.FindRelationshipParams) (ids []string) {
		found := suite.Call(f.s.FindRelationships(f.ctx, f.k, p)).Must(f, "FindRelationships(%+v)", p)
		for _, r := range found {
			ids = append(ids, r.ID)
		}
		return ids
	}
	f.equal("first", ids(graph.FindRelationshipParams{Limit: 3}), []string{"r01", "r02", "r03"})
	f.equal("any time", ids(graph.FindRelationshipParams{Limit: 3, Moment: graph.Moment{AnyTime: true}}), []string{"r00", "r01", "r02"})
	f.equal("as of", ids(graph.FindRelationshipParams{Limit: 3, After: "r02", Moment: graph.Moment{AsOf: start.Add(-1)}}), []string{"r03", "r04", "r05"})
	f.equal("type", ids(graph.FindRelationshipParams{Types: []string{"from"}, Limit: 3}), []string{"r01", "r03", "r05"})
	f.equal("filter", ids(graph.FindRelationshipParams{Filter: filter.Gte("n", 17), Limit: 5}), []string{"r06", "r13", "r19"})
	f.equal("unknown type", ids(graph.FindRelationshipParams{Types: []string{"TO"}}), []string(nil))
}

func testIsolation(f *fixture) {
	keys := []graph.Key{{Owner: "a", Graph: "b"}, {Owner: "a", Graph: "b/c"}, {Owner: "a/b", Graph: "c"}, {Owner: "b", Graph: "a"}, {Owner: "A", Graph: "b"}, {Owner: "a%", Graph: "_"}}
	for i, k := range keys {
		f.writeTo(k, graph.Batch{
			Entities:      []graph.Entity{{ID: "same", Label: "L", Properties: map[string]any{"name": "same", "i": float64(i)}}, {ID: fmt.Sprint("e", i), Label: "L"}},
			Relationships: edges(fmt.Sprintf("r: same to e%d", i)),
		})
	}
	suite.Call(f.s.DeleteEntity(f.ctx, keys[0], "e1")).Want(f, false, "DeleteEntity() of another graph")
	suite.Call(f.s.DeleteEntity(f.ctx, keys[0], "same")).Want(f, true, "DeleteEntity()")
	suite.Call(f.s.DeleteRelationship(f.ctx, keys[1], "r")).Want(f, true, "DeleteRelationship()")
	for i, k := range keys {
		f.k = k
		f.equal("Entities()", len(f.entities(k, "same", "e0", "e1", "e2", "e3", "e4", "e5")), map[int]int{0: 1}[i]+2*(1-map[int]int{0: 1}[i]))
		switch want := fmt.Sprintf("same 0, e%d 1", i); i {
		case 0:
			f.wantNeighbors("deleted entity", graph.NeighborParams{IDs: []string{"same"}, Depth: 5}, "", "")
		case 1:
			f.wantNeighbors("deleted relationship", graph.NeighborParams{IDs: []string{"same"}, Depth: 5}, "same 0", "")
		default:
			f.wantNeighbors("another graph", graph.NeighborParams{IDs: []string{"same"}, Depth: 5}, want, "r")
			f.equal("found", f.found(graph.FindParams{Names: []string{"same"}}), []string{"same"})
		}
	}
	f.k = graph.Key{Owner: "a"}
	f.write(graph.Batch{Entities: entities("x")})
	f.equal("the graph without a name", f.entities(graph.Key{Owner: "a", Graph: graph.DefaultGraph}, "x"), entities("x"))
}
