// Package vectorcmd has the command holdfast documents.
package vectorcmd

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/rag"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/documents"
)

//go:embed help.txt
var help string

// Command is the command of the contract.
var Command = command.Command{Name: "documents", Help: "List, search, add, export and delete documents of an owner, in the store.", Details: help, New: func() any { return new(documentsCmd) }}

// documentsCmd has the commands for documents.
type documentsCmd struct {
	Collections documentsCollectionsCmd `cmd:"" help:"List the collections of documents."`
	List        documentsListCmd        `cmd:"" help:"List the documents of a collection, by id."`
	Add         documentsAddCmd         `cmd:"" help:"Read files, split them into passages and add these to a collection."`
	Search      documentsSearchCmd      `cmd:"" help:"Find documents and passages: by meaning if an embedder is configured, else by words."`
	Delete      documentsDeleteCmd      `cmd:"" help:"Delete documents, with their passages, or collections."`
	Export      documentsExportCmd      `cmd:"" help:"Write the documents of a collection as JSON Lines, with their embeddings."`
}

// collectionFlag selects a collection.
type collectionFlag struct {
	Collection string `short:"c" placeholder:"NAME" default:"default" help:"Collection of documents (default ${default})."`
}

func (f *collectionFlag) key(k *command.Data) vector.Key {
	return vector.Key{Owner: k.Owner, Collection: f.Collection}
}

// documentView is a document in the JSON output.
type documentView struct {
	ID        string          `json:"id"`
	Text      string          `json:"text"`
	Blocks    json.RawMessage `json:"blocks,omitempty"`
	Metadata  map[string]any  `json:"metadata,omitempty"`
	Embedding []float32       `json:"embedding,omitempty"`
	Score     *float64        `json:"score,omitempty"`
}

func viewDocument(d *vector.Document) documentView {
	return documentView{ID: d.ID, Text: d.Text, Blocks: d.Blocks, Metadata: d.Metadata}
}

// withDocuments opens the stores and calls do with the store of documents.
func withDocuments(ctx context.Context, f *command.DataFlags, write bool, do func(k *command.Data) error) error {
	return f.With(ctx, write, func(k *command.Data) error {
		if documents.In(k.Stores) == nil {
			return command.Without("documents")
		}
		return do(k)
	})
}

// collectionError adds the collection to the error of one that does not exist.
func collectionError(k *command.Data, name string, err error) error {
	if errors.Is(err, vector.ErrCollectionNotFound) {
		return k.NotFound("collection", name)
	}
	return err
}

// documentLister returns the documents as a vector.Lister.
func documentLister(k *command.Data) (vector.Lister, error) {
	lister, ok := documents.In(k.Stores).(vector.Lister)
	if !ok {
		return nil, command.Without("lists of documents")
	}
	return lister, nil
}

type documentsCollectionsCmd struct {
	command.DataFlags
}

// Run lists collections.
func (c *documentsCollectionsCmd) Run(ctx context.Context, a *command.Console) error {
	return withDocuments(ctx, &c.DataFlags, false, func(k *command.Data) error {
		all, err := documents.In(k.Stores).Collections(ctx, k.Owner)
		if err != nil {
			return err
		}
		t := command.NewTable(a, "collections", "COLLECTION:30", "DOCUMENTS:-9", "DIMENSION:-9", "METRIC:8", "EMBEDDER")
		t.Fit()
		views := make([]map[string]any, len(all))
		for i := range all {
			one := &all[i]
			views[i] = map[string]any{"name": one.Name, "documents": one.Documents, "dimension": one.Dimension, "metric": one.Metric, "embedder": one.Embedder}
			if !a.JSON {
				t.Row(one.Name, strconv.FormatInt(one.Documents, 10), strconv.Itoa(one.Dimension), string(one.Metric), one.Embedder)
			}
		}
		switch {
		case a.JSON:
			return a.WriteResult(map[string]any{"collections": views})
		case len(all) == 0:
			a.Info("no collections")
		}
		return nil
	})
}

type documentsListCmd struct {
	collectionFlag
	command.PageFlags `group:"Pages:" set:"items=Documents" set:"item=document" set:"but="`
	command.DataFlags
}

// documentTable returns the table of documents.
func documentTable(a *command.Console) *command.Table {
	t := command.NewTable(a, "documents", "ID:36", "TEXT")
	t.Fit()
	return t
}

// Run lists documents.
func (c *documentsListCmd) Run(ctx context.Context, a *command.Console) error {
	t := documentTable(a)
	return c.Pages(ctx, t, &c.PageFlags, func(k *command.Data, token string) (items []any, next string, err error) {
		lister, err := documentLister(k)
		if err != nil {
			return nil, "", err
		}
		var after string
		if err := command.FromPageToken(token, &after); err != nil {
			return nil, "", err
		}
		page, err := lister.List(ctx, c.key(k), vector.ListParams{After: after, Limit: c.Limit})
		if err != nil {
			return nil, "", collectionError(k, c.Collection, err)
		}
		for i := range page {
			t.Row(page[i].ID, page[i].Text)
			items = append(items, viewDocument(&page[i]))
		}
		if len(page) == c.Limit {
			next, err = command.PageToken(page[len(page)-1].ID)
		}
		return items, next, err
	})
}

type documentsAddCmd struct {
	Files []string `arg:"" name:"file" help:"Text, Markdown, HTML or PDF files; - is a text from stdin."`
	ID    string   `name:"id" placeholder:"ID" help:"Id of the document (default the name of the file). A document with the same id is replaced."`
	Title string   `help:"Title for citations."`
	URL   string   `name:"url" placeholder:"URL" help:"URL for citations."`
	collectionFlag

	command.DataFlags
}

// Run adds documents. It continues after errors.
func (c *documentsAddCmd) Run(ctx context.Context, a *command.Console) error {
	if len(c.Files) > 1 && (c.ID != "" || c.Title != "" || c.URL != "") {
		return command.Usagef("--id, --title and --url need a single file")
	}
	return withDocuments(ctx, &c.DataFlags, true, func(k *command.Data) error {
		index, err := rag.New(rag.In(documents.In(k.Stores), c.key(k)), rag.Config{})
		if err != nil {
			return err
		}
		var errs []error
		for _, file := range c.Files {
			d := rag.Document{ID: c.ID, Title: c.Title, URL: c.URL}
			if d.ID == "" {
				d.ID = filepath.Base(file)
			}
			n := 0
			if d.Text, err = a.ReadText(ctx, file); err == nil {
				n, err = index.Add(ctx, d)
			}
			if err == nil {
				err = a.Done(map[string]any{"id": d.ID, "chunks": n}, fmt.Sprintf("added %s (%s)", d.ID, command.Plural(int64(n), "passage")))
			} else {
				err = fmt.Errorf("%s: %w", file, err)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

type documentsSearchCmd struct {
	Query string `arg:"" help:"Text to search for, such as a question."`
	Limit int    `short:"n" default:"5" help:"Maximum number of documents, at most 100."`
	collectionFlag

	command.DataFlags
}

// Run searches documents.
func (c *documentsSearchCmd) Run(ctx context.Context, a *command.Console) error {
	if c.Limit < 1 || c.Limit > command.MaxPage {
		return command.Usagef("--limit is %d, want 1 to %d", c.Limit, command.MaxPage)
	}
	return withDocuments(ctx, &c.DataFlags, false, func(k *command.Data) error {
		all, err := documents.In(k.Stores).Search(ctx, c.key(k), vector.SearchParams{Mode: vector.ModeHybrid, Queries: []vector.Query{{Text: c.Query}}, Limit: c.Limit})
		if err != nil {
			return collectionError(k, c.Collection, err)
		}
		found := all[0]
		if a.JSON {
			views := make([]documentView, len(found.Hits))
			for i := range found.Hits {
				views[i] = viewDocument(&found.Hits[i].Document)
				views[i].Score = &found.Hits[i].Score
			}
			return a.WriteResult(map[string]any{"mode": found.Mode, "documents": views})
		}
		for i := range found.Hits {
			h := &found.Hits[i]
			a.Out.Line("%s  %s", a.Out.Bold(command.Clean(h.ID)), a.Out.Dim(strconv.FormatFloat(h.Score, 'f', 2, 64)))
			a.Out.Line("%s", command.Clean(h.Text))
			a.Out.Line("")
		}
		if len(found.Hits) == 0 {
			a.Info("no documents match")
		}
		return nil
	})
}

type documentsDeleteCmd struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Ids of documents, or of files that were added. Optional with --all."`
	All bool     `help:"Delete the whole collection."`
	collectionFlag
	command.ConfirmFlag

	command.DataFlags
}

// Run deletes documents. It continues after errors.
func (c *documentsDeleteCmd) Run(ctx context.Context, a *command.Console) error {
	if c.All == (len(c.IDs) > 0) {
		return command.Usagef("want ids of documents or --all")
	}
	if err := c.Check(a); err != nil {
		return err
	}
	return withDocuments(ctx, &c.DataFlags, true, func(k *command.Data) error {
		key := c.key(k)
		if c.All {
			which := "collection " + a2a.Quote(c.Collection)
			return c.Delete(ctx, a, []string{which}, func(string) (string, error) { return which, nil }, func(string) error {
				n, err := documents.In(k.Stores).DeleteCollection(ctx, key)
				if err != nil {
					return err
				}
				return a.Done(map[string]any{"documents": n}, "deleted "+command.Plural(int64(n), "document"))
			})
		}
		index, err := rag.New(rag.In(documents.In(k.Stores), key), rag.Config{})
		if err != nil {
			return err
		}
		describe := func(id string) (string, error) {
			found, err := documents.In(k.Stores).Get(ctx, key, []string{id, rag.ChunkID(id, 0)})
			switch {
			case err != nil:
				return "", collectionError(k, c.Collection, err)
			case len(found) == 0:
				return "", k.NotFound("document", id)
			}
			return fmt.Sprintf("document %s (%s)", id, command.OneLine(found[0].Text, 60)), nil
		}
		return c.Delete(ctx, a, c.IDs, describe, func(id string) error {
			if _, err := describe(id); err != nil {
				return err
			}
			if _, err := documents.In(k.Stores).Delete(ctx, key, []string{id}); err != nil {
				return err
			}
			if len(id) <= rag.MaxID {
				if err := index.Remove(ctx, id); err != nil {
					return err
				}
			}
			return a.Done(map[string]any{"id": id}, "deleted "+id)
		})
	})
}

type documentsExportCmd struct {
	Output string `short:"o" placeholder:"FILE" help:"Write to this file instead of stdout. Only you can read it. An existing file is replaced after the export is complete."`
	collectionFlag

	command.DataFlags
}

// Run exports the documents of a collection.
func (c *documentsExportCmd) Run(ctx context.Context, a *command.Console) error {
	return withDocuments(ctx, &c.DataFlags, false, func(k *command.Data) error {
		lister, err := documentLister(k)
		if err != nil {
			return err
		}
		return a.ExportLines(c.Output, "document", func(line func(any) error) error {
			for p := (vector.ListParams{Limit: command.MaxPage}); ; {
				page, err := lister.List(ctx, c.key(k), p)
				if err != nil || len(page) == 0 {
					return collectionError(k, c.Collection, err)
				}
				for i := range page {
					p.After = page[i].ID
					view := viewDocument(&page[i])
					view.Embedding = page[i].Embedding
					if err := line(view); err != nil {
						return err
					}
				}
			}
		})
	})
}
