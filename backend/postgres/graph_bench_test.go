package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store/graph/graphtest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// BenchmarkGraphWalk compares with a walk over the same tables, on a connection of its own, that returns
// nothing but ids.
func BenchmarkGraphWalk(b *testing.B) {
	cfg := freshConfig(storetest.Wrap(b), Config{})
	s := open(storetest.Wrap(b), cfg)
	c, err := pgx.Connect(bg, cfg.URL)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close(bg) })
	table := pgx.Identifier{cfg.Schema, "graph_relationships"}.Sanitize()
	text := `SELECT r.target FROM ` + table + ` r WHERE r.owner = 'owner' AND r.graph = 'default' COLLATE "POSIX" AND r.source = ANY($1::text[])
		UNION ALL SELECT r.source FROM ` + table + ` r WHERE r.owner = 'owner' AND r.graph = 'default' COLLATE "ucs_basic" AND r.target = ANY($1::text[])`
	graphtest.BenchWalk(b, s.Graph(nil), func(start string) int {
		visited, frontier := map[string]bool{start: true}, []string{start}
		for range 3 {
			rows, err := c.Query(bg, text, frontier)
			if err != nil {
				b.Fatal(err)
			}
			var id string
			frontier = nil
			if _, err := pgx.ForEachRow(rows, []any{&id}, func() error {
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
