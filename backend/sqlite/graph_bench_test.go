package sqlite

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store/graph"
)

// BenchmarkGraphWalk walks to a distance of 3 in a graph of 50,000 entities and 200,000 relationships with
// hubs, beside a walk over the same tables that is written by hand and returns nothing but ids.
func BenchmarkGraphWalk(b *testing.B) {
	const entities, edges, starts, seed = 50_000, 200_000, 40, 1
	s := open(b, Config{Dir: b.TempDir(), Synchronous: "NORMAL"})
	g, k, r := s.Graph(nil), graph.Key{Owner: "owner"}, rand.New(rand.NewPCG(seed, 0))
	name := func(n int) string { return fmt.Sprintf("e%05d", n) }
	for i := 0; i < entities; i += graph.MaxWrite {
		var batch graph.Batch
		for n := range graph.MaxWrite {
			batch.Entities = append(batch.Entities, graph.Entity{ID: name(i + n), Label: "E"})
		}
		_, err := g.Write(bg, k, batch)
		must(b, err)
	}
	zipf := rand.NewZipf(r, 1.2, 50, entities-1)
	for i := 0; i < edges; i += graph.MaxWrite {
		var batch graph.Batch
		for n := range graph.MaxWrite {
			batch.Relationships = append(batch.Relationships, graph.Relationship{ID: fmt.Sprintf("r%06d", i+n), Source: name(r.IntN(entities)), Target: name(int(zipf.Uint64())), Type: "to"})
		}
		_, err := g.Write(bg, k, batch)
		must(b, err)
	}
	for b.Loop() {
		var walks, raws []time.Duration
		found := 0
		for range starts {
			start := name(r.IntN(entities))
			at := time.Now()
			sub, err := g.Neighbors(bg, k, graph.NeighborParams{IDs: []string{start}, Depth: 3, IDsOnly: true, MaxEntities: graph.MaxEntities, MaxRelationships: graph.MaxRelationships})
			walks = append(walks, time.Since(at))
			must(b, err)
			at = time.Now()
			n := rawWalk(b, &kit{s.changeWriter}, start)
			raws = append(raws, time.Since(at))
			if n != len(sub.Entities) {
				b.Fatalf("the walk found %d entities, by hand %d", len(sub.Entities), n)
			}
			found += n
		}
		slices.Sort(walks)
		slices.Sort(raws)
		b.ReportMetric(float64(walks[starts/2].Microseconds())/1000, "ms/walk")
		b.ReportMetric(float64(raws[starts/2].Microseconds())/1000, "ms/by-hand")
		b.ReportMetric(float64(found)/starts, "entities")
	}
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
