package graphtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/graph"
)

// BenchKey is the graph of [BenchWalk].
var BenchKey = graph.Key{Owner: "owner", Graph: graph.DefaultGraph}

// BenchWalk walks to a distance of 3 in a graph of 50,000 entities and 200,000 relationships with hubs,
// beside a walk that is written by hand and returns only the number of entities that it found. Without
// byHand, that walk reads lists of neighbors in memory. It reports the median of each.
func BenchWalk(b *testing.B, s graph.Store, byHand func(start string) int) {
	b.Helper()
	const entities, edges, starts, seed = 50_000, 200_000, 40, 1
	ctx, r := context.Background(), rand.New(rand.NewPCG(seed, 0))
	name := func(n int) string { return fmt.Sprintf("e%05d", n) }
	write := func(batch graph.Batch) {
		if _, err := s.Write(ctx, BenchKey, batch); err != nil {
			b.Fatal(err)
		}
	}
	for i := 0; i < entities; i += graph.MaxWrite {
		var batch graph.Batch
		for n := range graph.MaxWrite {
			batch.Entities = append(batch.Entities, graph.Entity{ID: name(i + n), Label: "E"})
		}
		write(batch)
	}
	lists := make(map[string][]string)
	zipf := rand.NewZipf(r, 1.2, 50, entities-1)
	for i := 0; i < edges; i += graph.MaxWrite {
		var batch graph.Batch
		for n := range graph.MaxWrite {
			source, target := name(r.IntN(entities)), name(int(zipf.Uint64()))
			lists[source], lists[target] = append(lists[source], target), append(lists[target], source)
			batch.Relationships = append(batch.Relationships, graph.Relationship{ID: fmt.Sprintf("r%06d", i+n), Source: source, Target: target, Type: "to"})
		}
		write(batch)
	}
	if byHand == nil {
		byHand = func(start string) int { return walkLists(lists, start) }
	}
	for b.Loop() {
		var walks, references []time.Duration
		found := 0
		for range starts {
			start := name(r.IntN(entities))
			at := time.Now()
			sub, err := s.Neighbors(ctx, BenchKey, graph.NeighborParams{IDs: []string{start}, Depth: 3, IDsOnly: true, MaxEntities: graph.MaxEntities, MaxRelationships: graph.MaxRelationships})
			if walks = append(walks, time.Since(at)); err != nil {
				b.Fatal(err)
			}
			at = time.Now()
			n := byHand(start)
			if references = append(references, time.Since(at)); n != len(sub.Entities) {
				b.Fatalf("the walk found %d entities, by hand %d", len(sub.Entities), n)
			}
			found += n
		}
		slices.Sort(walks)
		slices.Sort(references)
		b.ReportMetric(float64(walks[starts/2].Microseconds())/1000, "ms/walk")
		b.ReportMetric(float64(references[starts/2].Microseconds())/1000, "ms/by-hand")
		b.ReportMetric(float64(found)/starts, "entities")
	}
}

// walkLists returns the number of entities up to a distance of 3.
func walkLists(lists map[string][]string, start string) int {
	visited, frontier := map[string]bool{start: true}, []string{start}
	for range 3 {
		var next []string
		for _, id := range frontier {
			for _, other := range lists[id] {
				if !visited[other] {
					visited[other] = true
					next = append(next, other)
				}
			}
		}
		frontier = next
	}
	return len(visited)
}
