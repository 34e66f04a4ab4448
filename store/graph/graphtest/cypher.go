package graphtest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/cypher"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var cypherTests = []test{
	{"queries return entities, relationships, paths and values", queriesReturnValues},
	{"queries see fields as properties", queriesSeeFields},
	{"queries find the newest version of what was written", queriesFindTheNewest},
	{"queries find nothing of other owners and graphs", queriesAreIsolated},
	{"params of queries are values", queryParamsAreValues},
	{"rows above the limit of a query are truncated", queryRowsAreTruncated},
	{"queries that are malformed or not supported are rejected", invalidQueriesAreRejected},
	{"queries that take too long end", longQueriesEnd},
}

// query executes a query and returns its rows.
func (f *fixture) query(k graph.Key, p graph.CypherParams) graph.CypherResult {
	f.Helper()
	return suite.Call(cypher.Execute(f.ctx, f.s, k, p)).Must(f, "Execute(%s)", p.Query)
}

// wantRows checks the rows of a query, each as its values.
func (f *fixture) wantRows(text string, want ...string) {
	f.Helper()
	var got []string
	for _, row := range f.query(f.k, graph.CypherParams{Query: text}).Rows {
		got = append(got, strings.Trim(fmt.Sprint(row), "[]"))
	}
	f.equal(text, got, want)
}

func queriesReturnValues(f *fixture) {
	f.write(graph.Batch{Entities: entities("a", "b"), Relationships: edges("r: a to b")})
	r := f.query(f.k, graph.CypherParams{Query: `MATCH p = (a {id: 'a'})-[r:to]->(b:Thing) RETURN a, r, p, [a.of, 1, 2.5, true, null] AS list, {x: b} AS m`})
	f.equal("columns", r.Columns, []string{"a", "r", "p", "list", "m"})
	a, b, edge := f.entities(f.k, "a")[0], f.entities(f.k, "b")[0], f.relationships("r")[0]
	path := graph.Path{Entities: []graph.Entity{a, b}, Relationships: []graph.Relationship{edge}}
	f.equal("rows", r.Rows, [][]any{{a, edge, path, []any{"a", int64(1), 2.5, true, nil}, map[string]any{"x": b}}})
	f.equal("rows without a graph", f.query(graph.Key{Owner: "none"}, graph.CypherParams{Query: `RETURN 1 AS one`}).Rows, [][]any{{int64(1)}})
}

func queriesSeeFields(f *fixture) {
	all := edges("r: a to b", "s: b to a")
	all[0].ValidFrom, all[0].ValidTo = start.Add(-time.Hour), start.Add(-time.Minute)
	f.write(graph.Batch{Entities: entities("a", "b"), Relationships: all})
	f.wantRows(`MATCH (a)-[r]->(b) RETURN a.id, r.id, r.valid_from, r.valid_to, r.recorded_at ORDER BY r.id`,
		"a r 2026-11-27T07:00:00.000Z 2026-11-27T07:59:00.000Z 2026-11-27T08:00:00.000Z", "b s <nil> <nil> 2026-11-27T08:00:00.000Z")
	f.wantRows(`MATCH ()-[r]->() WHERE r.valid_to IS NULL OR r.valid_to > '2026-11-27T08:00:00.000Z' RETURN r.id`, "s")
}

func queriesFindTheNewest(f *fixture) {
	f.write(graph.Batch{Entities: entities("a", "b", "c"), Relationships: edges("r: a to b", "s: b to c", "x: c to c")})
	changed := edges("r: a to b")
	changed[0].Properties = map[string]any{"n": 2}
	f.write(graph.Batch{Relationships: changed})
	f.wantRows(`MATCH (a)-[r]->(b) RETURN a.id, r.id, r.n, b.id ORDER BY r.id`, "a r 2 b", "b s <nil> c", "c x <nil> c")
	f.write(graph.Batch{Entities: []graph.Entity{{ID: "b", Label: "Other", Properties: map[string]any{"of": "new"}}}})
	f.wantRows(`MATCH (a)-[r:to]->(b:Other) RETURN a.id, b.of`, "a new")
	f.wantRows(`MATCH (b:Thing) RETURN b.id ORDER BY b.id`, "a", "c")
	f.write(graph.Batch{Ends: []graph.End{{ID: "s"}}})
	f.wantRows(`MATCH (:Other)-[s:to]->() RETURN s.valid_to`, graph.FormatTime(f.clock.Now()))
	f.write(graph.Batch{DeleteEntities: []string{"a"}, DeleteRelationships: []string{"x"}})
	f.wantRows(`MATCH (n) OPTIONAL MATCH (n)-[r]->(m) RETURN n.id, r.id, m.id ORDER BY n.id`, "b s c", "c <nil> <nil>")
}

func queriesAreIsolated(f *fixture) {
	f.write(graph.Batch{Entities: entities("a")})
	for _, k := range []graph.Key{{Owner: "other", Graph: f.k.Graph}, {Owner: f.k.Owner, Graph: "other"}} {
		f.writeTo(k, graph.Batch{Entities: entities("b", "c")})
		f.equal("ids", f.query(k, graph.CypherParams{Query: `MATCH (n) RETURN count(n)`}).Rows, [][]any{{int64(2)}})
	}
	f.wantRows(`MATCH (n) RETURN n.id`, "a")
}

func queryParamsAreValues(f *fixture) {
	names := []string{`it's`, `"quoted"`, `$$ RETURN 1 $$`, `$holdfast$`, "`", `\`, `') MATCH (n) RETURN n //`, "\u00e9\U0001F600\n\t"}
	for i, name := range names {
		f.write(graph.Batch{Entities: []graph.Entity{{ID: fmt.Sprint("e", i), Label: "N", Properties: map[string]any{"text": name}}}})
	}
	for i, name := range names {
		r := f.query(f.k, graph.CypherParams{Query: `MATCH (n:N) WHERE n.text = $text RETURN n.id, n.text, $text`, Params: map[string]any{"text": name}})
		f.equal("rows for "+name, r.Rows, [][]any{{fmt.Sprint("e", i), name, name}})
	}
	r := f.query(f.k, graph.CypherParams{Query: `RETURN $p.list[1] + $p.n AS x, $p.none AS y, $p.f AS z`, Params: map[string]any{"p": map[string]any{"list": []any{1, 2}, "n": 3, "f": 0.5}}})
	f.equal("nested params", r.Rows, [][]any{{int64(5), nil, 0.5}})
	f.wantError("Execute without a param", suite.Err(cypher.Execute(f.ctx, f.s, f.k, graph.CypherParams{Query: `RETURN $missing`})), graph.ErrCypher, "missing")
}

func queryRowsAreTruncated(f *fixture) {
	f.write(graph.Batch{Entities: entities("a", "b", "c")})
	for limit, truncated := range map[int]bool{2: true, 3: false} {
		r := f.query(f.k, graph.CypherParams{Query: `MATCH (n) RETURN n.id`, MaxRows: limit})
		f.equal("number of rows", len(r.Rows), limit)
		f.equal("truncated", r.Truncated, truncated)
	}
}

func invalidQueriesAreRejected(f *fixture) {
	f.write(graph.Batch{Entities: entities("a")})
	for text, want := range map[string]error{
		"":                              graph.ErrCypher,
		"MATCH (n":                      graph.ErrCypher,
		"MATCH (n) RETURN m":            graph.ErrCypher,
		"RETURN 1 / 0":                  graph.ErrCypher,
		"MATCH (n) RETURN n.of.x":       graph.ErrCypher,
		"CALL db.labels()":              graph.ErrCypherUnsupported,
		"MATCH (n) RETURN n.of =~ '.*'": graph.ErrCypherUnsupported,
		"RETURN " + strings.Repeat("(", 1000) + "1" + strings.Repeat(")", 1000): graph.ErrCypher,
	} {
		_, err := cypher.Execute(f.ctx, f.s, f.k, graph.CypherParams{Query: text})
		if text == "" {
			want = err // invalid params, checked before the query
		}
		f.wantError(fmt.Sprintf("Execute(%.40q)", text), err, want, "graph: query")
	}
	for _, text := range []string{"MATCH (n) DETACH DELETE n", "MATCH (n) SET n.of = 1", "CREATE (:Thing {id: 'x'})", "MERGE (:Thing {id: 'x'})", "MATCH (n) REMOVE n.of"} {
		suite.Call(cypher.Execute(f.ctx, f.s, f.k, graph.CypherParams{Query: text})).Fails(f, graph.ErrCypherUnsupported, "Execute(%s)", text)
	}
	f.equal("entities", f.entities(f.k, "a", "x"), entities("a"))
}

func longQueriesEnd(f *fixture) {
	var all []string
	for i := range 12 {
		for j := range 12 {
			all = append(all, fmt.Sprintf("r%d-%d: e%d to e%d", i, j, i, j))
		}
	}
	var ids []string
	for i := range 12 {
		ids = append(ids, fmt.Sprint("e", i))
	}
	f.write(graph.Batch{Entities: entities(ids...), Relationships: edges(all...)})
	long := graph.CypherParams{Query: `MATCH (a)-[:to]->(b)-[:to]->(c)-[:to]->(d)-[:to]->(e)-[:to]->(g)-[:to]->(h) RETURN count(*)`, Timeout: 20 * time.Millisecond}
	f.wantError("Execute with a timeout", suite.Err(cypher.Execute(f.ctx, f.s, f.k, long)), graph.ErrBudget, "")
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	f.wantError("Execute with a canceled context", suite.Err(cypher.Execute(ctx, f.s, f.k, long)), context.Canceled, "")
}
