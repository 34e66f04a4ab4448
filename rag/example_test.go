package rag_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/rag"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// Without an embedder, passages are found by words.
func Example() {
	ctx := context.Background()
	store := inmem.New()
	defer store.Close()
	manuals := rag.In(store.Vectors(vector.Config{}), vector.Key{Owner: "alice", Collection: "manuals"})
	index, err := rag.New(manuals, rag.Config{ChunkSize: 100, Overlap: -1})
	if err != nil {
		log.Fatal(err)
	}
	text := "The pump needs no oil. Clean the filter once a month. " +
		"To reset the pump, hold the red button for three seconds. The lamp then blinks twice."
	if _, err := index.Add(ctx, rag.Document{ID: "pump.txt", Title: "Pump manual", URL: "https://example.com/pump", Text: text}); err != nil {
		log.Fatal(err)
	}
	found, err := index.Search(ctx, "How do I reset the pump?", rag.SearchParams{Limit: 1})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range found.Citations {
		fmt.Printf("%s %d-%d: %s\n", c.Document, c.Start, c.End, text[c.Start:c.End])
	}
	fmt.Println(found.Mode)
	fmt.Println(found.Context())
	// Output:
	// pump.txt 54-139: To reset the pump, hold the red button for three seconds. The lamp then blinks twice.
	// lexical
	// [1] Pump manual (https://example.com/pump)
	// To reset the pump, hold the red button for three seconds. The lamp then blinks twice.
}
