package memory_test

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
)

func ExampleLongTerm() {
	ctx := context.Background()
	facts := memorysql.Of(inmem.New(), memory.LongTermConfig{})
	in := memory.Scope{Owner: "did:key:z6Mk", Namespace: "users/ravi", Agent: "assistant"}
	_, err := facts.Save(ctx, in, "Ravi lives in Pune.", memory.SaveParams{Key: "home", Metadata: map[string]any{"kind": "address"}})
	if err != nil {
		fmt.Println(err)
	}
	_, err = facts.Save(ctx, in, "Ravi prefers Python.", memory.SaveParams{TTL: 24 * time.Hour})
	if err != nil {
		fmt.Println(err)
	}
	for _, p := range []memory.SearchParams{
		{Query: "which programming language does he prefer?"},
		{Query: "pyton"}, // no fact has this word, so similar words match
		{Filter: filter.Eq("kind", "address")},
	} {
		found, err := facts.Search(ctx, in, p)
		for _, m := range found.Facts {
			fmt.Printf("%.2f %s\n", m.Score, m.Content)
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// 1.00 Ravi prefers Python.
	// 1.00 Ravi prefers Python.
	// 1.00 Ravi lives in Pune.
}
