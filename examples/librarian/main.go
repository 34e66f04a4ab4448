// The librarian is an agent that keeps the texts that it gets, and answers questions from them with
// citations. It needs no server, no model and no key. With EMBEDDING_URL and EMBEDDING_MODEL it finds
// passages by meaning instead of by words.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/backend/sqlite"
	"github.com/holdfast-dev/holdfast/embedding"
	"github.com/holdfast-dev/holdfast/rag"
)

// answer answers a message that ends with a question mark, and keeps any other message as a
// document. The first line of a document is its title; a document with the same title is replaced.
func answer(ctx context.Context, t *holdfast.Turn) error {
	index, err := rag.New(t.Documents("library"), rag.Config{})
	if err != nil {
		return err
	}
	text := strings.TrimSpace(t.Text())
	if !strings.HasSuffix(text, "?") {
		title, body, _ := strings.Cut(text, "\n")
		passages, err := index.Add(ctx, rag.Document{ID: title[:min(len(title), 100)], Title: title, Text: cmp.Or(strings.TrimSpace(body), title)})
		if err != nil {
			return err
		}
		return t.Reply(fmt.Sprintf("kept: %s (passages: %d)", title, passages))
	}
	found, err := index.Search(ctx, text, rag.SearchParams{Limit: 3})
	if err != nil {
		return err
	}
	if len(found.Citations) == 0 {
		return t.Reply("I have no text about that.")
	}
	return t.Reply(found.Context()) // or give it to a model, in a step
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx); err != nil {
		log.Fatal(err)
	}
}

func serve(ctx context.Context) (err error) {
	store, err := sqlite.Open(ctx, sqlite.Config{Dir: "library-data"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	cfg := holdfast.Config{Name: "librarian", Store: store}
	if url := os.Getenv("EMBEDDING_URL"); url != "" {
		cfg.Contracts.Embedder, err = embedding.New(embedding.Config{URL: url, Model: os.Getenv("EMBEDDING_MODEL"), Key: os.Getenv("EMBEDDING_KEY")})
		if err != nil {
			return err
		}
	}
	agent, err := holdfast.New(cfg, holdfast.HandlerFunc(answer))
	if err != nil {
		return err
	}
	return agent.ListenAndServe(ctx, cmp.Or(os.Getenv("ADDR"), "127.0.0.1:3773"))
}
