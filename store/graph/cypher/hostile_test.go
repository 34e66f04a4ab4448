package cypher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/graph"
)

func TestUnsupportedPartsAreNamed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		query, rule  string
		line, column int
	}{
		{"CREATE (n)", "CREATE", 1, 1},
		{"MATCH (n)\nDETACH DELETE n", "DETACH DELETE", 2, 1},
		{"MATCH (n) SET n.x = 1", "SET", 1, 11},
		{"MERGE (n)", "MERGE", 1, 1},
		{"MATCH (n) REMOVE n.x", "REMOVE", 1, 11},
		{"CALL db.labels()", "CALL", 1, 1},
		{"LOAD CSV FROM 'file:///etc/passwd' AS x RETURN x", "LOAD CSV", 1, 1},
		{"FOREACH (x IN [1] | CREATE ())", "FOREACH", 1, 1},
		{"MATCH (n) RETURN date(n.x)", "function date", 1, 18},
		{"RETURN apoc.text.join(['a'], '')", "property", 0, 0},
		{"RETURN db.version()", "function db.version", 1, 8},
		{"RETURN 'a' =~ 'b'", "operator =~", 1, 12},
		{"MATCH (n) WHERE EXISTS { (n)-->() } RETURN n", "EXISTS { ... }", 1, 17},
		{"RETURN COUNT { (n)-->() }", "COUNT { ... }", 1, 8},
		{"MATCH p = shortestPath((a)-[*]->(b)) RETURN p", "shortestPath() in a pattern", 1, 11},
		{"RETURN reduce(a = 0, x IN [1] | a + x)", "function reduce", 1, 8},
		{"MATCH (n:A|B) RETURN n", "| between labels", 1, 11},
		{"MATCH (n $props) RETURN n", "a parameter as the properties of a pattern", 1, 10},
		{"MATCH (n) RETURN n {.name}", "a map projection", 1, 20},
		{"MATCH (n) RETURN stDev(n.x)", "function stDev", 1, 18},
	} {
		_, err := Parse(test.query)
		var e *graph.CypherError
		if !errors.As(err, &e) {
			t.Errorf("Parse(%q) = %v, want a CypherError", test.query, err)
			continue
		}
		if test.line == 0 {
			continue // rejected as malformed
		}
		if want := test.rule + " is not supported"; !errors.Is(err, graph.ErrCypherUnsupported) || e.Rule != want || e.Line != test.line || e.Column != test.column {
			t.Errorf("Parse(%q) = %v, want %d:%d: %s", test.query, err, test.line, test.column, want)
		}
	}
}

func TestMalformedQueriesHaveAPosition(t *testing.T) {
	t.Parallel()
	deep := func(open, inner, closing string) string {
		return "RETURN " + strings.Repeat(open, 1000) + inner + strings.Repeat(closing, 1000) + " AS x"
	}
	for _, query := range []string{
		"MATCH (n) RETURN m", "MATCH (n", "RETURN", "MATCH (n)", "RETURN 'abc", "RETURN `a", "RETURN /* x", "RETURN 1 +", "RETURN 12abc",
		"MATCH (a)-[r]->(b)-[r]->(c) RETURN r", "MATCH (a) MATCH p = (a)-->() , p = (a) RETURN p", "MATCH (r)-[r]->() RETURN r",
		"RETURN 1 AS a, 2 AS a", "WITH 1 RETURN 2", "MATCH (n) RETURN n LIMIT -1", "MATCH (n) RETURN n SKIP n.x", "RETURN 1 UNION RETURN 2 AS b",
		"MATCH (n) WHERE count(*) > 1 RETURN n", "RETURN count(count(*))", "MATCH (n) RETURN n.x + count(*)", "RETURN \x00", "RETURN 'a\\q'", "RETURN $",
		"MATCH (n) RETURN n; MATCH (m) RETURN m", "RETURN 1 RETURN 2", "RETURN *", "MATCH (a)-[*3..1000001]->() RETURN a", "RETURN 1 $$ ", "RETURN 1 -- x",
		deep("(", "1", ")"), deep("[", "", "]"), deep("{a: ", "1", "}"), deep("NOT ", "true", ""), deep("- ", "1", ""), deep("size(", "''", ")"),
		deep("CASE WHEN true THEN ", "1", " END"), deep("[x IN ", "[]", "]"), deep("({a: ", "1", "})"),
		"MATCH " + strings.Repeat("(", 1000) + " RETURN 1",
	} {
		_, err := Parse(query)
		var e *graph.CypherError
		if !errors.As(err, &e) || e.Line == 0 || e.Column == 0 || len(err.Error()) > 200 {
			t.Errorf("Parse(%.60q) = %.300v, want a CypherError with a position", query, err)
		}
	}
	if _, err := Parse("RETURN '" + strings.Repeat("x", MaxText) + "'"); !errors.Is(err, graph.ErrCypher) {
		t.Errorf("Parse of a large text = %v, want ErrCypher", err)
	}
	if _, err := Parse("RETURN '\xff'"); !errors.Is(err, graph.ErrCypher) {
		t.Errorf("Parse of invalid UTF-8 = %v, want ErrCypher", err)
	}
}

// complete returns a graph in which all n entities are connected.
func complete(t *testing.T, n int) *memory {
	t.Helper()
	return newGraph(t, fmt.Sprintf("UNWIND range(1, %d) AS i CREATE (:N {i: i})", n), "MATCH (a:N), (b:N) CREATE (a)-[:T]->(b)")
}

func TestBudgetEndsExpensiveQueries(t *testing.T) {
	t.Parallel()
	g := complete(t, 12)
	for _, query := range []string{
		"MATCH (a)-[*]->(b) RETURN count(*)",
		"MATCH (a)-[*1..100]-(b) WHERE b.i = -1 RETURN b",
		"MATCH (a), (b), (c), (d), (e), (f), (g), (h) RETURN count(*)",
		"UNWIND range(1, 1000000000) AS x RETURN count(x)",
		"UNWIND range(1, 100000) AS x UNWIND range(1, 100000) AS y RETURN max(x + y)",
		"RETURN size([x IN range(1, 100000) WHERE x IN range(1, 100000)])",
		"WITH 'xxxxxxxxxxxxxxxx' AS s" + strings.Repeat(" WITH s + s AS s", 40) + " RETURN size(s)",
		"WITH [1] AS l" + strings.Repeat(" WITH [l, l] AS l", 60) + " RETURN l",
		"WITH [1] AS l" + strings.Repeat(" WITH l + l AS l", 60) + " RETURN size(l)",
		"WITH {a: 1} AS m" + strings.Repeat(" WITH {a: m, b: m} AS m", 60) + " RETURN m",
		"WITH 'aaaaaaaaaaaaaaaa' AS s" + strings.Repeat(" WITH replace(s, 'a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa') AS s", 20) + " RETURN size(s)",
		"MATCH (a)-[*4]->(b) RETURN a, collect(b) AS l ORDER BY l",
		"MATCH (a) WHERE (a)-[*11]->({i: -1}) RETURN a",
	} {
		q, err := Parse(query)
		if err != nil {
			t.Errorf("Parse(%.60q) = %v", query, err)
			continue
		}
		p := limits(nil)
		p.MaxSteps = 200_000
		if _, err := q.Run(t.Context(), g, p); !errors.Is(err, graph.ErrBudget) {
			t.Errorf("Run(%.60q) = %v, want ErrBudget", query, err)
		}
	}
}

func TestTimeoutEndsQueries(t *testing.T) {
	t.Parallel()
	g := complete(t, 12)
	q, err := Parse("MATCH (a)-[*]->(b) RETURN count(*)")
	if err != nil {
		t.Fatal(err)
	}
	p := graph.CypherParams{MaxRows: 1, MaxSteps: 1 << 60, Timeout: time.Millisecond}
	if _, err := q.Run(t.Context(), g, p); !errors.Is(err, graph.ErrBudget) {
		t.Errorf("Run with a timeout = %v, want ErrBudget", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.Timeout = time.Hour
	if _, err := q.Run(ctx, g, p); !errors.Is(err, context.Canceled) {
		t.Errorf("Run with a canceled context = %v, want context.Canceled", err)
	}
}

func TestLimitEndsSearches(t *testing.T) {
	t.Parallel()
	g := complete(t, 12)
	for _, query := range []string{
		"MATCH (a)-[*]->(b) RETURN b LIMIT 3",
		"MATCH (a)-[*]->(b) WITH b LIMIT 3 RETURN b",
		"MATCH (a)-[*]->(b) WITH b LIMIT 3 MATCH (b)-[*]-(c) RETURN c LIMIT 3",
		"UNWIND range(1, 100000) AS x WITH x LIMIT 3 WHERE x > 0 RETURN x ORDER BY x DESC",
	} {
		r, err := g.query(query, nil)
		if err != nil || len(r.Rows) != 3 || r.Truncated {
			t.Errorf("%s: %d rows, truncated %v, %v, want 3 rows", query, len(r.Rows), r.Truncated, err)
		}
	}
}

func TestRowsAboveTheLimitAreTruncated(t *testing.T) {
	t.Parallel()
	g := complete(t, 12)
	for query, rows := range map[string]int{
		"MATCH (a)-[*]->(b) RETURN b":                                               10,
		"UNWIND range(1, 10) AS x RETURN x":                                         10,
		"UNWIND range(1, 11) AS x RETURN x ORDER BY x":                              10,
		"UNWIND range(1, 20) AS x RETURN x UNION UNWIND range(1, 20) AS x RETURN x": 10,
	} {
		q, err := Parse(query)
		if err != nil {
			t.Fatal(err)
		}
		p := limits(nil)
		p.MaxRows = 10
		r, err := q.Run(t.Context(), g, p)
		if want := query != "UNWIND range(1, 10) AS x RETURN x"; err != nil || len(r.Rows) != rows || r.Truncated != want {
			t.Errorf("%s: %d rows, truncated %v, %v, want %d rows, truncated %v", query, len(r.Rows), r.Truncated, err, rows, want)
		}
	}
}

func TestResultsAboveTheSizeAreRejected(t *testing.T) {
	t.Parallel()
	g := newGraph(t)
	large := map[string]any{"x": strings.Repeat("x", 1<<20)}
	if _, err := g.query("UNWIND range(1, 100) AS i RETURN $x", large); !errors.Is(err, graph.ErrTooLarge) {
		t.Errorf("query = %v, want ErrTooLarge", err)
	}
}

func TestParametersAreValues(t *testing.T) {
	t.Parallel()
	g := newGraph(t, "CREATE (:N {name: 'x'}), (:N {name: 'y\\' OR true //'})")
	for _, name := range []string{"') RETURN 1 //", "' OR true //", "$$", "`", "\u0000", "x'} ) MATCH (m) RETURN m //"} {
		r, err := g.query("MATCH (n:N {name: $name}) WHERE n.name = $name RETURN n", map[string]any{"name": name})
		if err != nil || len(r.Rows) != 0 {
			t.Errorf("name %q: %d rows, %v, want none", name, len(r.Rows), err)
		}
	}
	r, err := g.query("RETURN $a.b[1] AS x", map[string]any{"a": map[string]any{"b": []any{1.0, 2.0}}})
	if err != nil || r.Rows[0][0] != int64(2) {
		t.Errorf("nested parameter = %v, %v, want 2", r.Rows, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, query := range []string{
		"MATCH (a:A {x: $x})-[r:T|U*1..3]->(b) WHERE a.x = 1 AND NOT (a)-->(b) RETURN DISTINCT a, count(*) AS c ORDER BY c DESC SKIP 1 LIMIT 2",
		"UNWIND [1, 2] AS x WITH x, [y IN range(1, x) WHERE y > 1 | y] AS l RETURN CASE x WHEN 1 THEN 'a' ELSE null END UNION ALL RETURN 1",
		"OPTIONAL MATCH p = (`a b`)<-[]-() RETURN all(x IN nodes(p) WHERE x:L), [(a)-->(b) | b.x], $p[1..2].x",
	} {
		f.Add(query)
	}
	g := &memory{}
	if err := g.execute("CREATE (a:A {x: 1})-[:T]->(:B {x: 2})-[:U]->(a)"); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, query string) {
		q, err := Parse(query)
		if err != nil {
			return
		}
		p := limits(map[string]any{"x": int64(1)})
		p.MaxSteps = 10_000
		_, _ = q.Run(t.Context(), g, p)
	})
}
