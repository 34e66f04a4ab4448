package graphtest

import (
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var inputTests = []test{
	{"invalid batches are rejected and change nothing", testInvalidWrites},
	{"invalid reads are rejected", testInvalidReads},
	{"any text is stored and found", testHostileText},
	{"stores share no memory with their callers", testAliasing},
	{"canceled calls change nothing", testCancel},
}

// wantInvalid checks that an error has code invalid_params or conflict and contains a text.
func (f *fixture) wantInvalid(call string, err error, field string) {
	f.Helper()
	var e *a2a.Error
	if !errors.As(err, &e) || e.Code != a2a.CodeInvalid && e.Code != a2a.CodeConflict || !strings.HasPrefix(err.Error(), "graph: ") || !strings.Contains(err.Error(), field) {
		f.Errorf("%s = %v, want an error with code invalid_params about %s", call, err, field)
	}
}

func testInvalidWrites(f *fixture) {
	deep := any("x")
	for range 100 {
		deep = []any{deep}
	}
	cyclic := map[string]any{}
	cyclic["self"] = cyclic
	entity := func(e graph.Entity) graph.Batch {
		return graph.Batch{Entities: append(entities("a"), e)}
	}
	edge := func(change func(r *graph.Relationship)) graph.Batch {
		all := edges("r: a to b", "s: a to b")
		change(&all[1])
		return graph.Batch{Entities: entities("a", "b"), Relationships: all}
	}
	year := func(n int) time.Time { return time.Date(n, 1, 1, 0, 0, 0, 0, time.UTC) }
	for field, b := range map[string]graph.Batch{
		"entities[1].id: must be":                  entity(graph.Entity{ID: "\xff", Label: "L"}),
		"entities[1].id: has 513":                  entity(graph.Entity{ID: strings.Repeat("i", 513), Label: "L"}),
		`entities[1].id: "a" is repeated`:          entity(graph.Entity{ID: "a", Label: "L"}),
		"entities[1].label: must not":              entity(graph.Entity{ID: "b"}),
		"entities[1].label: has 64":                entity(graph.Entity{ID: "b", Label: strings.Repeat("L", 64)}),
		`entities[1].label: is "A B"`:              entity(graph.Entity{ID: "b", Label: "A B"}),
		`entities[1].label: is "1A"`:               entity(graph.Entity{ID: "b", Label: "1A"}),
		"entities[1].label: is \"A`) DETACH\"":     entity(graph.Entity{ID: "b", Label: "A`) DETACH"}),
		`entities[1].label: is "é"`:                entity(graph.Entity{ID: "b", Label: "é"}),
		`entities[1].properties: "id" is reserved`: entity(graph.Entity{ID: "b", Label: "L", Properties: map[string]any{"id": 1}}),
		"entities[1].properties: has 1":            entity(graph.Entity{ID: "b", Label: "L", Properties: map[string]any{"m": strings.Repeat("m", 1<<20)}}),
		"entities[1].properties: is nested":        entity(graph.Entity{ID: "b", Label: "L", Properties: map[string]any{"m": deep}}),
		"entities[1].properties: json":             entity(graph.Entity{ID: "b", Label: "L", Properties: map[string]any{"m": func() {}}}),
		"entities[1].properties: json: unsupp":     entity(graph.Entity{ID: "b", Label: "L", Properties: map[string]any{"m": math.NaN()}}),
		"entities[1].properties: must be UTF-8":    entity(graph.Entity{ID: "b", Label: "L", Properties: map[string]any{"m": "\xff"}}),
		"entities[1].properties: json: ":           entity(graph.Entity{ID: "b", Label: "L", Properties: cyclic}),
		"entities: are 1001":                       {Entities: make([]graph.Entity, 1001)},
		"relationships: are 1001":                  {Relationships: make([]graph.Relationship, 1001)},
		"deleteEntities: are 1001":                 {DeleteEntities: make([]string, 1001)},
		"deleteEntities[1]: must not":              {DeleteEntities: []string{"a", ""}},
		"deleteRelationships[0]: must be":          {DeleteRelationships: []string{"\x00"}},
		"ends: are 1001":                           {Ends: make([]graph.End, 1001)},
		"ends[0].id: must not":                     {Ends: []graph.End{{}}},
		"ends[0].at: year is 10000":                {Ends: []graph.End{{ID: "r", At: year(10000)}}},
		`ends[1].id: "r" is repeated`:              {Ends: []graph.End{{ID: "r"}, {ID: "r"}}},
		`relationships[0].id: "r" is repeated`:     {Ends: []graph.End{{ID: "r"}}, Relationships: edges("r: a to b")},
		`relationships[1].id: "r" is repeated`:     edge(func(r *graph.Relationship) { r.ID = "r" }),
		"relationships[1].id: has":                 edge(func(r *graph.Relationship) { r.ID = strings.Repeat("i", 513) }),
		"relationships[1].source: must not":        edge(func(r *graph.Relationship) { r.Source = "" }),
		"relationships[1].target: must be":         edge(func(r *graph.Relationship) { r.Target = "a\x00" }),
		`relationships[1].type: is "a-b"`:          edge(func(r *graph.Relationship) { r.Type = "a-b" }),
		`properties: "valid_to" is reserved`:       edge(func(r *graph.Relationship) { r.Properties = map[string]any{"valid_to": 1} }),
		`properties: "recorded_at" is reserved`:    edge(func(r *graph.Relationship) { r.Properties = map[string]any{"recorded_at": 1} }),
		"relationships[1].validFrom: year":         edge(func(r *graph.Relationship) { r.ValidFrom = year(10000) }),
		"relationships[1].validTo: must be after":  edge(func(r *graph.Relationship) { r.ValidFrom, r.ValidTo = start, start }),
	} {
		f.wantInvalid("Write()", suite.Err(f.s.Write(f.ctx, f.k, b)), field)
	}
	f.equal("FindEntities()", f.found(graph.FindParams{}), []string(nil))
}

func testInvalidReads(f *fixture) {
	f.write(graph.Batch{Entities: entities("a")})
	deep := filter.Eq("a", 1)
	for range 1000 {
		deep = filter.Not(deep)
	}
	late := graph.Moment{AsOf: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}
	a := []string{"a"}
	for field, p := range map[string]graph.NeighborParams{
		"ids: are 0":                     {},
		"ids: are 1001":                  {IDs: make([]string, 1001)},
		"ids[1]: must not":               {IDs: []string{"a", ""}},
		"depth: is -2":                   {IDs: a, Depth: -2},
		"depth: is 17":                   {IDs: a, Depth: graph.MaxDepth + 1},
		"maxEntities: is -1":             {IDs: a, MaxEntities: -1},
		"maxEntities: is 100001":         {IDs: a, MaxEntities: graph.MaxEntities + 1},
		"maxRelationships: is 500001":    {IDs: a, MaxRelationships: graph.MaxRelationships + 1},
		`direction: "up" is unknown`:     {IDs: a, Walk: graph.Walk{Direction: "up"}},
		`types[0]: is "a b"`:             {IDs: a, Walk: graph.Walk{Types: []string{"a b"}}},
		"types: are 101":                 {IDs: a, Walk: graph.Walk{Types: make([]string, 101)}},
		"labels[0]: must not":            {IDs: a, Walk: graph.Walk{Labels: []string{""}}},
		"entities: nested deeper":        {IDs: a, Walk: graph.Walk{Entities: deep}},
		"relationships: op: unknown":     {IDs: a, Walk: graph.Walk{Relationships: filter.Filter{Op: "like", Path: "a"}}},
		"moment.asOf: year is 10000":     {IDs: a, Walk: graph.Walk{Moment: late}},
		"moment.knownAt: year is -1":     {IDs: a, Walk: graph.Walk{Moment: graph.Moment{KnownAt: time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)}}},
		"relationships: path: \"a..b\" ": {IDs: a, Walk: graph.Walk{Relationships: filter.Eq("a..b", 1)}},
	} {
		f.wantInvalid("Neighbors()", suite.Err(f.s.Neighbors(f.ctx, f.k, p)), field)
	}
	for field, p := range map[string]graph.PathParams{
		"from: must not":   {To: "a"},
		"to: must be":      {From: "a", To: "\xff"},
		"maxDepth: is 17":  {From: "a", To: "b", MaxDepth: 17},
		"direction: \"x\"": {From: "a", To: "b", Walk: graph.Walk{Direction: "x"}},
	} {
		f.wantInvalid("ShortestPath()", suite.Err(f.s.ShortestPath(f.ctx, f.k, p)), field)
	}
	for field, p := range map[string]graph.FindParams{
		"limit: is 1001": {Limit: 1001}, "limit: is -1": {Limit: -1}, "after: must be": {After: "\xff"}, `labels[0]: is "a b"`: {Labels: []string{"a b"}},
		"names[0]: has 513": {Names: []string{strings.Repeat("n", 513)}}, "names: are 1001": {Names: make([]string, 1001)}, "filter: nested": {Filter: deep},
	} {
		f.wantInvalid("FindEntities()", suite.Err(f.s.FindEntities(f.ctx, f.k, p)), field)
	}
	for field, p := range map[string]graph.FindRelationshipParams{
		"limit: is 1001": {Limit: 1001}, "after: has 513": {After: strings.Repeat("n", 513)}, `types[0]: is "a b"`: {Types: []string{"a b"}}, "filter: nested": {Filter: deep}, "moment.asOf": {Moment: late},
	} {
		f.wantInvalid("FindRelationships()", suite.Err(f.s.FindRelationships(f.ctx, f.k, p)), field)
	}
	testInvalidKeys(f)
}

func testInvalidKeys(f *fixture) {
	for field, k := range map[string]graph.Key{
		"owner: must not be empty": {Graph: "c"},
		"owner: must be UTF-8":     {Owner: "a\x00", Graph: "c"},
		"graph: must be":           {Owner: "a", Graph: "\xff"},
		"graph: has 513":           {Owner: "a", Graph: strings.Repeat("c", 513)},
	} {
		for _, call := range f.calls(f.ctx, k) {
			f.wantInvalid(call.name, call.run(), field)
		}
	}
	f.wantInvalid("Entities()", suite.Err(f.s.Entities(f.ctx, f.k, []string{"a", ""})), "ids[1]")
	f.wantInvalid("Relationships()", suite.Err(f.s.Relationships(f.ctx, f.k, make([]string, 1001))), "ids: are 1001")
}

// call is a call of a method of the store.
type call struct {
	name string
	run  func() error
}

// calls returns valid calls of all methods of graph.Store.
func (f *fixture) calls(ctx context.Context, k graph.Key) []call {
	return []call{
		{"AddEntities()", func() error { _, err := f.s.AddEntities(ctx, k, entities("new")); return err }},
		{"AddRelationships()", func() error { _, err := f.s.AddRelationships(ctx, k, edges("new: a to a")); return err }},
		{"DeleteEntity()", func() error { _, err := f.s.DeleteEntity(ctx, k, "a"); return err }},
		{"DeleteRelationship()", func() error { _, err := f.s.DeleteRelationship(ctx, k, "r"); return err }},
		{"Write()", func() error { _, err := f.s.Write(ctx, k, graph.Batch{Entities: entities("new")}); return err }},
		{"Neighbors()", func() error {
			_, err := f.s.Neighbors(ctx, k, graph.NeighborParams{IDs: []string{"a"}, Depth: 1})
			return err
		}},
		{"ShortestPath()", func() error { _, err := f.s.ShortestPath(ctx, k, graph.PathParams{From: "a", To: "b"}); return err }},
		{"Entities()", func() error { _, err := f.s.Entities(ctx, k, []string{"a"}); return err }},
		{"Relationships()", func() error { _, err := f.s.Relationships(ctx, k, []string{"r"}); return err }},
		{"FindEntities()", func() error { _, err := f.s.FindEntities(ctx, k, graph.FindParams{}); return err }},
		{"FindRelationships()", func() error { _, err := f.s.FindRelationships(ctx, k, graph.FindRelationshipParams{}); return err }},
	}
}

func testHostileText(f *fixture) {
	for _, text := range []string{`'; DROP TABLE x; --`, `"quoted"`, `100%_`, `back\slash`, "new\nline", "\u202e", "日本語", "🙂", `$1 {s}. $$`, "a::text", `{"a"}`, "[]", "NULL", "a,b", "{}"} {
		f.k = graph.Key{Owner: text, Graph: text}
		e := graph.Entity{ID: text, Label: "L", Properties: map[string]any{"name": text, text: 1.0}}
		r := graph.Relationship{ID: text, Source: text, Target: text, Type: "t", Properties: map[string]any{"m": text, text: true}}
		f.write(graph.Batch{Entities: []graph.Entity{e}, Relationships: []graph.Relationship{r}})
		r.Version, r.RecordedAt = 1, start
		f.equal("Entities()", f.entities(f.k, text), []graph.Entity{e})
		s := suite.Call(f.s.Neighbors(f.ctx, f.k, graph.NeighborParams{IDs: []string{text}, Depth: 1, Walk: graph.Walk{Relationships: filter.Eq("m", text)}})).Must(f, "Neighbors()")
		f.equal("Neighbors()", s, graph.SubGraph{Entities: []graph.Neighbor{{Entity: e}}, Relationships: []graph.Relationship{r}})
		f.equal("FindEntities() by name", f.found(graph.FindParams{Names: []string{text, "other"}}), []string{text})
		suite.Call(f.s.DeleteEntity(f.ctx, f.k, text)).Want(f, true, "DeleteEntity(%q)", text)
	}
}

func testAliasing(f *fixture) {
	e := graph.Entity{ID: "a", Label: "L", Properties: map[string]any{"m": []any{"x"}}}
	r := graph.Relationship{ID: "r", Source: "a", Target: "a", Type: "t", Properties: map[string]any{"m": []any{"x"}}}
	want := map[string]any{"m": []any{"x"}}
	change := func(p map[string]any) { p["m"].([]any)[0], p["n"] = "y", 1 }
	f.write(graph.Batch{Entities: []graph.Entity{e}, Relationships: []graph.Relationship{r}})
	change(e.Properties)
	change(r.Properties)
	p := graph.NeighborParams{IDs: []string{"a"}, Depth: 1}
	for range 2 {
		s, err := f.s.Neighbors(f.ctx, f.k, p)
		if err != nil || len(s.Entities) != 1 || len(s.Relationships) != 1 {
			f.Fatalf("Neighbors() = %+v, %v", s, err)
		}
		entities, relationships := f.entities(f.k, "a"), f.relationships("r")
		for _, p := range []map[string]any{s.Entities[0].Properties, s.Relationships[0].Properties, entities[0].Properties, relationships[0].Properties} {
			f.equal("properties", p, want)
			change(p)
		}
	}
	ids := []string{"z", "a"}
	f.neighbors(graph.NeighborParams{IDs: ids})
	f.equal("ids after the walk", ids, []string{"z", "a"})
}

func testCancel(f *fixture) {
	f.write(graph.Batch{Entities: entities("a"), Relationships: edges("r: a to a")})
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	for _, call := range f.calls(ctx, f.k) {
		suite.Do(call.run()).Fails(f, context.Canceled, "%s", call.name)
	}
	f.equal("Entities()", f.entities(f.k, "a", "new"), entities("a"))
	f.equal("Relationships()", len(f.relationships("r", "new")), 1)
}
