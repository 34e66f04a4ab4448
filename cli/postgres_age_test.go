//go:build services

package cli_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/backend/postgres"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphsql"
)

// Graphs in a database of their own, with copies in Apache AGE that execute queries.
func TestGraphsInAGE(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	db := connectTo(t, url)
	if _, err := db.Exec(t.Context(), `SELECT pg_advisory_lock(8801); CREATE EXTENSION IF NOT EXISTS age`); err != nil {
		t.Fatalf("the server of HOLDFAST_TEST_POSTGRES_URL needs Apache AGE: %v", err)
	}
	schema, data := pgtest.Schema(t, url), t.TempDir()
	environ := []string{"HOLDFAST_DATA=" + data, "HOLDFAST_SCHEMA=" + schema}
	holdfast := func(stdin string, args ...string) string {
		t.Helper()
		code, out, stderr := run(t, stdin, environ, args...)
		if code != 0 {
			t.Fatalf("holdfast %v = %d, %s%s", args, code, out, stderr)
		}
		return out
	}
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: data})
	if err != nil {
		t.Fatal(err)
	}
	_, err = graphsql.Of(s, nil).AddEntities(t.Context(), graph.Key{Owner: "anonymous"}, []graph.Entity{{ID: "a", Label: "Person"}, {ID: "b", Label: "Person"}})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	lines := holdfast("", "graph", "export")
	holdfast("", "migrate", "up", "--database-url", url)
	environ = append(environ, "HOLDFAST_POSTGRES_AGE=true", "STORE_GRAPH="+url+"&schema="+schema)
	environ = slices.DeleteFunc(environ, func(v string) bool { return strings.HasPrefix(v, "HOLDFAST_SCHEMA") })
	holdfast(lines, "import", "-")
	query := func(text string) (string, string) {
		_, out, stderr := run(t, "", environ, "graph", "query", text, "--json")
		return out, stderr
	}
	const all = `MATCH (p:Person) RETURN p.id AS id ORDER BY id`
	if out, stderr := query(all); !strings.Contains(out, `[["a"],["b"]]`) {
		t.Errorf("graph query = %s%s, want a and b", out, stderr)
	}
	if _, stderr := query(`MATCH (p:Person) RETURN [x IN [1] | x]`); !strings.Contains(stderr, "Apache AGE") {
		t.Errorf("a query with what AGE lacks: %s, want an error about Apache AGE", stderr)
	}
	name := postgres.GraphPrefix(schema) + "%"
	graphs := `SELECT count(*) FROM ag_catalog.ag_graph WHERE name LIKE $1`
	if n := queryInt(t, db, graphs, name); n != 1 {
		t.Errorf("%d graphs in AGE, want 1", n)
	}
	// In a session of its own: in AGE 1.5 a session that dropped a graph fails when the server makes it empty its
	// caches, which happens after many changes of tables.
	if _, err := connectTo(t, url).Exec(t.Context(), `SELECT ag_catalog.drop_graph(name, true) FROM ag_catalog.ag_graph WHERE name LIKE $1`, name); err != nil {
		t.Fatal(err)
	}
	holdfast("", "graph", "rebuild")
	if n := queryInt(t, db, graphs, name); n != 1 {
		t.Errorf("%d graphs in AGE after graph rebuild, want 1", n)
	}
	holdfast("", "forget", "anonymous", "--yes")
	if out, stderr := query(all); !strings.Contains(out, `"rows":[]`) {
		t.Errorf("graph query after forget = %s%s, want nothing", out, stderr)
	}
}
