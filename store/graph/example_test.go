package graph_test

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphsql"
)

func Example() {
	ctx := context.Background()
	s := inmem.New()
	defer s.Close()
	graphs, key := graphsql.Of(s, nil), graph.Key{Owner: "ravi"}
	_, err := graphs.Write(ctx, key, graph.Batch{
		Entities: []graph.Entity{
			{ID: "ravi", Label: "Person", Properties: map[string]any{"name": "Ravi"}},
			{ID: "x", Label: "Project", Properties: map[string]any{"name": "Project X"}},
			{ID: "ada", Label: "Person", Properties: map[string]any{"name": "Ada"}},
		},
		Relationships: []graph.Relationship{
			{Source: "ravi", Type: "works_on", Target: "x"},
			{Source: "ada", Type: "works_on", Target: "x"},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	found, err := graphs.Neighbors(ctx, key, graph.NeighborParams{IDs: []string{"ravi"}, Depth: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range found.Entities {
		fmt.Println(e.Distance, e.Properties["name"])
	}
	// Output:
	// 0 Ravi
	// 1 Project X
	// 2 Ada
}
