package sqlite

import (
	"testing"

	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/graph/graphsql"
	"github.com/holdfast-dev/holdfast/store/graph/graphtest"
)

// BenchmarkGraphWalk compares with a walk over the same tables that returns nothing but ids.
func BenchmarkGraphWalk(b *testing.B) {
	s := open(b, Config{Dir: b.TempDir(), Synchronous: "NORMAL"})
	graphtest.BenchWalk(b, graphsql.Of(s, nil), func(start string) int { return rawWalk(b, s.kit, start) })
}

// rawWalk returns the number of entities up to a distance of 3.
func rawWalk(b *testing.B, db sqlkit.DB, start string) int {
	b.Helper()
	const text = `SELECT r.target FROM {s}.graph_relationships r WHERE r.owner = 'owner' AND r.graph = 'default' AND r.source = ANY($1::text[])
		UNION ALL SELECT r.source FROM {s}.graph_relationships r WHERE r.owner = 'owner' AND r.graph = 'default' AND r.target = ANY($1::text[])`
	visited, frontier := map[string]bool{start: true}, []string{start}
	must(b, db.Read(bg, func(q sqlkit.Querier) error {
		for range 3 {
			var next []string
			err := q.Query(text, func(r sqlkit.Row) error {
				if id := r.Text(0); !visited[id] {
					visited[id] = true
					next = append(next, id)
				}
				return nil
			}, frontier)
			if err != nil {
				return err
			}
			frontier = next
		}
		return nil
	}))
	return len(visited)
}
