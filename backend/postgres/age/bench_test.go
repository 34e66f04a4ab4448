//go:build services

package age

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/internal/pgtest"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/cypher"
	"github.com/holdfast-dev/holdfast/store/graph/graphtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// BenchmarkGraphWalk compares with a walk by hand over the same tables, on a connection of its own, that reads
// the columns which the walk returns.
func BenchmarkGraphWalk(b *testing.B) {
	cfg := freshConfig(storetest.Wrap(b), false)
	s := open(storetest.Wrap(b), cfg)
	table := pgx.Identifier{cfg.Postgres.Schema, "graph_relationships"}.Sanitize()
	benchWalk(b, s.Graph(nil), `SELECT r.target, r.id, r.source, r.type FROM `+table+` r WHERE r.owner = 'owner' AND r.graph = 'default' COLLATE "POSIX" AND r.source = ANY($1::text[])
		UNION ALL SELECT r.source, r.id, r.target, r.type FROM `+table+` r WHERE r.owner = 'owner' AND r.graph = 'default' COLLATE "ucs_basic" AND r.target = ANY($1::text[])`,
		func(_ *pgx.Conn, start string) string { return start })
}

// BenchmarkGraphWalkInAGE compares a walk of a graph with a copy in Apache AGE with one by hand over the tables
// of the copy, which returns nothing but AGE's ids.
func BenchmarkGraphWalkInAGE(b *testing.B) {
	a := open(storetest.Wrap(b), withAGE(storetest.Wrap(b))).Graph(nil).(*Graphs)
	name := pgx.Identifier{a.Name(graphtest.BenchKey)}.Sanitize()
	benchWalk(b, a, `SELECT textin(ag_catalog.graphid_out(e.end_id)), '', '', '' FROM `+name+`."to" e WHERE e.start_id OPERATOR(ag_catalog.=) ANY ($1::text[]::ag_catalog.graphid[])
		UNION ALL SELECT textin(ag_catalog.graphid_out(e.start_id)), '', '', '' FROM `+name+`."to" e WHERE e.end_id OPERATOR(ag_catalog.=) ANY ($1::text[]::ag_catalog.graphid[])`,
		func(c *pgx.Conn, start string) (id string) {
			text := `SELECT textin(ag_catalog.graphid_out(v.id)) FROM ` + name + `."E" v WHERE ` + keyIn("v") + ` OPERATOR(ag_catalog.=) $1::text::ag_catalog.agtype`
			if err := c.QueryRow(bg, text, cypher.Value(start)).Scan(&id); err != nil {
				b.Fatal(err)
			}
			return id
		})
}

// benchWalk compares with a walk that reads the other ends of the relationships of entities with text.
func benchWalk(b *testing.B, s graph.Store, text string, idOf func(c *pgx.Conn, start string) string) {
	b.Helper()
	c, err := pgx.Connect(bg, pgtest.URL(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close(bg) })
	graphtest.BenchWalk(b, s, func(start string) int {
		start = idOf(c, start)
		visited, frontier := map[string]bool{start: true}, []string{start}
		for range 3 {
			rows, err := c.Query(bg, text, frontier)
			if err != nil {
				b.Fatal(err)
			}
			var id, relationship, source, name string
			frontier = nil
			if _, err := pgx.ForEachRow(rows, []any{&id, &relationship, &source, &name}, func() error {
				if !visited[id] {
					visited[id] = true
					frontier = append(frontier, id)
				}
				return nil
			}); err != nil {
				b.Fatal(err)
			}
		}
		return len(visited)
	})
}
