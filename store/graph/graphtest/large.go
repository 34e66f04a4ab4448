package graphtest

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var largeTests = []test{
	{"values at the limits are stored", testLimits},
	{"a batch that is too large is rejected", testLargeBatch},
	{"a hub with more relationships than a walk may meet is truncated by id", testHub},
}

func testLimits(f *fixture) {
	long := strings.Repeat("i", graph.MaxName)
	f.k = graph.Key{Owner: long, Graph: long}
	properties := map[string]any{"m": strings.Repeat("m", graph.MaxProperties-600), "name": long + long}
	properties["m"] = properties["m"].(string)[len(long):]
	label := strings.Repeat("L", graph.MaxLabel)
	e := graph.Entity{ID: long, Label: label, Properties: properties}
	r := graph.Relationship{ID: long, Source: long, Target: long, Type: strings.Repeat("T", graph.MaxLabel), Properties: properties, ValidFrom: time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC), ValidTo: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	f.write(graph.Batch{Entities: []graph.Entity{e}, Relationships: []graph.Relationship{r}})
	r.Version, r.RecordedAt = 1, start
	f.equal("Entities()", f.entities(f.k, long), []graph.Entity{e})
	f.equal("Relationships()", f.relationships(long), []graph.Relationship{r})
	var b graph.Batch
	for i := range graph.MaxWrite {
		b.Entities = append(b.Entities, graph.Entity{ID: fmt.Sprintf("e%04d", i), Label: "L"})
		b.Relationships = append(b.Relationships, edges(fmt.Sprintf("r%04d: e%04d to %s", i, i, long))...)
	}
	f.write(b)
	found, ids, truncated := f.neighbors(graph.NeighborParams{IDs: []string{long}, Depth: 1, MaxEntities: 2000})
	f.equal("Neighbors()", []any{len(found), len(ids), truncated}, []any{1001, 1001, false})
	found, _, truncated = f.neighbors(graph.NeighborParams{IDs: []string{long}, Depth: 1})
	f.equal("Neighbors() with the default limit", []any{len(found), truncated}, []any{graph.DefaultEntities, true})
	f.equal("FindEntities() with the default limit", len(f.found(graph.FindParams{})), graph.DefaultLimit)
	f.equal("FindEntities()", len(f.found(graph.FindParams{Limit: graph.MaxLimit})), graph.MaxLimit)
	starts := make([]string, graph.MaxIDs)
	for i := range starts {
		starts[i] = fmt.Sprintf("e%04d", i)
	}
	found, ids, _ = f.neighbors(graph.NeighborParams{IDs: starts, Depth: 2, MaxEntities: 2000})
	f.equal("Neighbors() of many", []any{len(found), len(ids)}, []any{1001, 1001})
	f.write(graph.Batch{DeleteEntities: starts})
	f.equal("FindEntities() after the removal", f.found(graph.FindParams{}), []string{long})
}

func testLargeBatch(f *fixture) {
	large := map[string]any{"m": strings.Repeat("m", graph.MaxProperties-100)}
	var b graph.Batch
	for i := range 300 {
		b.Entities = append(b.Entities, graph.Entity{ID: fmt.Sprint(i), Label: "L", Properties: large})
	}
	f.wantInvalid("Write() of 19 MB", suite.Err(f.s.Write(f.ctx, f.k, b)), "properties: exceed")
	f.equal("FindEntities()", f.found(graph.FindParams{}), []string(nil))
}

// testHub has more relationships than are read at once.
func testHub(f *fixture) {
	f.write(graph.Batch{Entities: entities("hub", "a", "b")})
	for n := range 3 {
		var b graph.Batch
		for i := range 900 {
			r := edges(fmt.Sprintf("r%04d: hub to %s", (i*3+n)*7%2700, []string{"a", "b"}[i%2]))[0]
			r.Properties = map[string]any{"even": i%2 == 0}
			b.Relationships = append(b.Relationships, r)
		}
		f.write(b)
	}
	p := graph.NeighborParams{IDs: []string{"hub"}, Depth: 1, MaxRelationships: 1500}
	_, ids, truncated := f.neighbors(p)
	f.equal("1500 of 2700", []any{len(ids), ids[0], ids[1499], truncated}, []any{1500, "r0000", "r1499", true})
	p.Relationships, p.MaxRelationships = filter.Eq("even", true), 1200
	_, ids, truncated = f.neighbors(p)
	if len(ids) != 1200 || !truncated {
		f.Errorf("1200 of 1350 = %d relationships, truncated %t", len(ids), truncated)
	}
	p.MaxRelationships = 1350
	if _, ids, truncated = f.neighbors(p); len(ids) != 1350 || truncated {
		f.Errorf("1350 of 1350 = %d relationships, truncated %t", len(ids), truncated)
	}
}
