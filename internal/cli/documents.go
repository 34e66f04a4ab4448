package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/summarize"
	"github.com/holdfast-dev/holdfast/rag"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/documents"
)

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

func (f *collectionFlag) key(k *kept) vector.Key {
	return vector.Key{Owner: k.owner, Collection: f.Collection}
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
func (f *keptFlags) withDocuments(ctx context.Context, a *app, write bool, do func(k *kept) error) error {
	return f.with(ctx, a, write, func(k *kept) error {
		if documents.In(k.Stores) == nil {
			return without("documents")
		}
		return do(k)
	})
}

// collectionError adds the collection to the error of one that does not exist.
func (k *kept) collectionError(name string, err error) error {
	if errors.Is(err, vector.ErrCollectionNotFound) {
		return k.notFound("collection", name)
	}
	return err
}

// documentLister returns the documents as a vector.Lister.
func (k *kept) documentLister() (vector.Lister, error) {
	lister, ok := documents.In(k.Stores).(vector.Lister)
	if !ok {
		return nil, without("lists of documents")
	}
	return lister, nil
}

type documentsCollectionsCmd struct {
	keptFlags
}

// Run lists collections.
func (c *documentsCollectionsCmd) Run(ctx context.Context, a *app) error {
	return c.withDocuments(ctx, a, false, func(k *kept) error {
		all, err := documents.In(k.Stores).Collections(ctx, k.owner)
		if err != nil {
			return err
		}
		t := &table{a: a, what: "collections", member: "collections", columns: []column{{"COLLECTION", 30}, {"DOCUMENTS", -9}, {"DIMENSION", -9}, {"METRIC", 8}, {"EMBEDDER", 0}}}
		t.fit()
		views := make([]map[string]any, len(all))
		for i := range all {
			one := &all[i]
			views[i] = map[string]any{"name": one.Name, "documents": one.Documents, "dimension": one.Dimension, "metric": one.Metric, "embedder": one.Embedder}
			if !a.json {
				t.row(one.Name, strconv.FormatInt(one.Documents, 10), strconv.Itoa(one.Dimension), string(one.Metric), one.Embedder)
			}
		}
		switch {
		case a.json:
			return a.writeResult(map[string]any{"collections": views})
		case len(all) == 0:
			a.info("no collections")
		}
		return nil
	})
}

type documentsListCmd struct {
	collectionFlag
	pageFlags `group:"Pages:" set:"items=Documents" set:"item=document" set:"but="`
	keptFlags
}

// documentTable returns the table of documents.
func documentTable(a *app) *table {
	t := &table{a: a, what: "documents", member: "documents", columns: []column{{"ID", 36}, {"TEXT", 0}}}
	t.fit()
	return t
}

// Run lists documents.
func (c *documentsListCmd) Run(ctx context.Context, a *app) error {
	t := documentTable(a)
	return c.pages(ctx, t, &c.pageFlags, func(k *kept, token string) (items []any, next string, err error) {
		lister, err := k.documentLister()
		if err != nil {
			return nil, "", err
		}
		var after string
		if err := fromPageToken(token, &after); err != nil {
			return nil, "", err
		}
		page, err := lister.List(ctx, c.key(k), vector.ListParams{After: after, Limit: c.Limit})
		if err != nil {
			return nil, "", k.collectionError(c.Collection, err)
		}
		for i := range page {
			t.row(page[i].ID, page[i].Text)
			items = append(items, viewDocument(&page[i]))
		}
		if len(page) == c.Limit {
			next, err = pageToken(page[len(page)-1].ID)
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

	keptFlags
}

// Run adds documents. It continues after errors.
func (c *documentsAddCmd) Run(ctx context.Context, a *app) error {
	if len(c.Files) > 1 && (c.ID != "" || c.Title != "" || c.URL != "") {
		return usagef("--id, --title and --url need a single file")
	}
	return c.withDocuments(ctx, a, true, func(k *kept) error {
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
			if d.Text, err = a.documentText(ctx, file); err == nil {
				n, err = index.Add(ctx, d)
			}
			if err == nil {
				err = a.done(map[string]any{"id": d.ID, "chunks": n}, fmt.Sprintf("added %s (%s)", d.ID, plural(int64(n), "passage")))
			} else {
				err = fmt.Errorf("%s: %w", file, err)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// documentText returns the text of a file, or of stdin for "-".
func (a *app) documentText(ctx context.Context, file string) (string, error) {
	var data []byte
	var err error
	if file == "-" {
		data, err = io.ReadAll(nonNilReader(a.stdin))
	} else {
		data, err = os.ReadFile(file) // named by the user
	}
	if err != nil {
		return "", err
	}
	kind := mediaType(file, data[:min(len(data), 512)])
	if kind == "text/markdown" {
		kind = "text/plain" // with headings and tables
	}
	pages, err := a.parts.Reader.Pages(ctx, "", kind, data)
	if errors.Is(err, summarize.ErrUnsupported) && a.parts.Reader.PDF == nil {
		return "", &hintError{err, "the command " + fullBuild + " reads PDF too"}
	}
	if err != nil {
		return "", err
	}
	texts := make([]string, len(pages))
	for i, p := range pages {
		texts[i] = p.Text
	}
	return strings.Join(texts, "\n\n"), nil
}

type documentsSearchCmd struct {
	Query string `arg:"" help:"Text to search for, such as a question."`
	Limit int    `short:"n" default:"5" help:"Maximum number of documents, at most 100."`
	collectionFlag

	keptFlags
}

// Run searches documents.
func (c *documentsSearchCmd) Run(ctx context.Context, a *app) error {
	if c.Limit < 1 || c.Limit > maxPage {
		return usagef("--limit is %d, want 1 to %d", c.Limit, maxPage)
	}
	return c.withDocuments(ctx, a, false, func(k *kept) error {
		all, err := documents.In(k.Stores).Search(ctx, c.key(k), vector.SearchParams{Mode: vector.ModeHybrid, Queries: []vector.Query{{Text: c.Query}}, Limit: c.Limit})
		if err != nil {
			return k.collectionError(c.Collection, err)
		}
		found := all[0]
		if a.json {
			views := make([]documentView, len(found.Hits))
			for i := range found.Hits {
				views[i] = viewDocument(&found.Hits[i].Document)
				views[i].Score = &found.Hits[i].Score
			}
			return a.writeResult(map[string]any{"mode": found.Mode, "documents": views})
		}
		for i := range found.Hits {
			h := &found.Hits[i]
			a.out.line("%s  %s", a.out.bold(clean(h.ID)), a.out.dim(strconv.FormatFloat(h.Score, 'f', 2, 64)))
			a.out.line("%s", clean(h.Text))
			a.out.line("")
		}
		if len(found.Hits) == 0 {
			a.info("no documents match")
		}
		return nil
	})
}

type documentsDeleteCmd struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Ids of documents, or of files that were added. Optional with --all."`
	All bool     `help:"Delete the whole collection."`
	collectionFlag
	confirmFlag

	keptFlags
}

// Run deletes documents. It continues after errors.
func (c *documentsDeleteCmd) Run(ctx context.Context, a *app) error {
	if c.All == (len(c.IDs) > 0) {
		return usagef("want ids of documents or --all")
	}
	if err := c.check(a); err != nil {
		return err
	}
	return c.withDocuments(ctx, a, true, func(k *kept) error {
		key := c.key(k)
		if c.All {
			which := "collection " + a2a.Quote(c.Collection)
			return c.delete(ctx, a, []string{which}, func(string) (string, error) { return which, nil }, func(string) error {
				n, err := documents.In(k.Stores).DeleteCollection(ctx, key)
				if err != nil {
					return err
				}
				return a.done(map[string]any{"documents": n}, "deleted "+plural(int64(n), "document"))
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
				return "", k.collectionError(c.Collection, err)
			case len(found) == 0:
				return "", k.notFound("document", id)
			}
			return fmt.Sprintf("document %s (%s)", id, oneLine(found[0].Text, factContentWidth)), nil
		}
		return c.delete(ctx, a, c.IDs, describe, func(id string) error {
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
			return a.done(map[string]any{"id": id}, "deleted "+id)
		})
	})
}

type documentsExportCmd struct {
	Output string `short:"o" placeholder:"FILE" help:"Write to this file instead of stdout. Only you can read it. An existing file is replaced after the export is complete."`
	collectionFlag

	keptFlags
}

// Run exports the documents of a collection.
func (c *documentsExportCmd) Run(ctx context.Context, a *app) error {
	return c.withDocuments(ctx, a, false, func(k *kept) error {
		lister, err := k.documentLister()
		if err != nil {
			return err
		}
		n := 0
		export := func(w io.Writer) error {
			lines := json.NewEncoder(w)
			lines.SetEscapeHTML(false)
			for p := (vector.ListParams{Limit: maxPage}); ; {
				page, err := lister.List(ctx, c.key(k), p)
				if err != nil || len(page) == 0 {
					return k.collectionError(c.Collection, err)
				}
				for i := range page {
					p.After = page[i].ID
					view := viewDocument(&page[i])
					view.Embedding = page[i].Embedding
					if err := lines.Encode(view); err != nil {
						return err
					}
					n++
				}
			}
		}
		if c.Output == "" || c.Output == "-" {
			return export(a.out.w)
		}
		if err := replaceFile(c.Output, export); err != nil {
			return err
		}
		if a.json {
			return a.writeResult(map[string]any{"documents": n})
		}
		a.info("exported %s to %s", plural(int64(n), "document"), c.Output)
		return nil
	})
}
