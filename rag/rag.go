package rag

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/keywords"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// Limits.
const (
	// MinChunk is the smallest [Config].ChunkSize, in bytes.
	MinChunk = 100
	// MaxChunk is the largest [Config].ChunkSize, in bytes.
	MaxChunk = 32 << 10
	// MaxChunks is the maximum number of chunks of a document.
	MaxChunks = vector.MaxWrite
	// MaxID limits ids of documents, in bytes.
	MaxID = vector.MaxName - 8
	// MaxTitle limits titles of documents, in bytes.
	MaxTitle = 1024
	// MaxURL limits URLs of documents, in bytes.
	MaxURL = 4096
	// MaxQuestion limits questions, in bytes.
	MaxQuestion = vector.MaxText
)

// DefaultChunk is the default of [Config].ChunkSize, in bytes.
const DefaultChunk = 1000

// sourceMember is the member of a chunk's metadata that has its [source].
const sourceMember = "source"

// Collection is a collection of documents. Turn.Documents of a handler returns one, and so does [In].
type Collection interface {
	Upsert(ctx context.Context, p vector.WriteParams) (ids []string, err error)
	Get(ctx context.Context, ids ...string) ([]vector.Document, error)
	Delete(ctx context.Context, ids ...string) error
	Search(ctx context.Context, p vector.SearchParams) ([]vector.Results, error)
}

// In returns a collection of a store.
func In(s vector.Store, k vector.Key) Collection { return &collection{s, k} }

type collection struct {
	s vector.Store
	k vector.Key
}

func (c *collection) Upsert(ctx context.Context, p vector.WriteParams) ([]string, error) {
	return c.s.Upsert(ctx, c.k, p)
}

func (c *collection) Get(ctx context.Context, ids ...string) ([]vector.Document, error) {
	return c.s.Get(ctx, c.k, ids)
}

func (c *collection) Delete(ctx context.Context, ids ...string) error {
	_, err := c.s.Delete(ctx, c.k, ids)
	return err
}

func (c *collection) Search(ctx context.Context, p vector.SearchParams) ([]vector.Results, error) {
	return c.s.Search(ctx, c.k, p)
}

// Config configures an index. The zero value is valid.
type Config struct {
	// ChunkSize is the maximum size of a chunk in bytes, from [MinChunk] to [MaxChunk]. 0 means
	// [DefaultChunk]. Embedding models accept at least about 2,000 bytes, many of them more.
	ChunkSize int
	// Overlap is the number of bytes of the previous chunk that a chunk may repeat, up to half of
	// ChunkSize. 0 means a sixth of ChunkSize, a negative value none.
	Overlap int
}

// Index stores documents in chunks and finds them. It is safe for concurrent use if its collection
// is, but calls of a handler follow the rules of the turn.
type Index struct {
	c   Collection
	cfg Config
}

func invalid(format string, args ...any) error {
	return a2a.Errorf(a2a.CodeInvalid, "rag: "+format, args...)
}

// New returns an index of the documents in a collection, or an error with code invalid_params. All
// indexes of a collection should have the same config: adding a document with another config splits
// and embeds it again.
func New(c Collection, cfg Config) (*Index, error) {
	if cfg.ChunkSize == 0 {
		cfg.ChunkSize = DefaultChunk
	}
	if cfg.Overlap == 0 {
		cfg.Overlap = cfg.ChunkSize / 6
	}
	cfg.Overlap = max(cfg.Overlap, 0)
	switch {
	case c == nil:
		return nil, invalid("collection: is required")
	case cfg.ChunkSize < MinChunk || cfg.ChunkSize > MaxChunk:
		return nil, invalid("chunkSize: is %d, want %d to %d", cfg.ChunkSize, MinChunk, MaxChunk)
	case cfg.Overlap > cfg.ChunkSize/2:
		return nil, invalid("overlap: is %d, limit is half of the chunk size (%d)", cfg.Overlap, cfg.ChunkSize/2)
	}
	return &Index{c, cfg}, nil
}

// Document is a document to index.
type Document struct {
	// ID identifies the document in the collection, such as a path. Required, up to [MaxID] bytes.
	ID string
	// Title and URL are for people who read a citation. They may be empty.
	Title, URL string
	// Text is the content: UTF-8 without NUL, of at most [MaxChunks] chunks.
	Text string
	// Metadata is a JSON object for filters. Each chunk has a copy of it. It must not have a member "source".
	Metadata map[string]any
}

func (d *Document) check() error {
	for _, f := range []struct {
		field, value string
		limit        int
	}{{"id", d.ID, MaxID}, {"title", d.Title, MaxTitle}, {"url", d.URL, MaxURL}, {"text", d.Text, MaxChunks * MaxChunk}} {
		switch {
		case len(f.value) > f.limit:
			return invalid("document.%s: has %d bytes, limit is %d", f.field, len(f.value), f.limit)
		case !utf8.ValidString(f.value) || strings.ContainsRune(f.value, 0):
			return invalid("document.%s: must be UTF-8 without NUL", f.field)
		}
	}
	switch _, reserved := d.Metadata[sourceMember]; {
	case d.ID == "":
		return invalid("document.id: must not be empty")
	case strings.TrimSpace(d.Text) == "":
		return invalid("document.text: must not be empty")
	case reserved:
		return invalid("document.metadata: must not have the member %q", sourceMember)
	}
	return nil
}

// source is the origin of a chunk: its document and its place in the document's text.
type source struct {
	Document string `json:"document"`
	Title    string `json:"title,omitempty"`
	URL      string `json:"url,omitempty"`
	Chunk    int    `json:"chunk"`
	Start    int    `json:"start"`
	End      int    `json:"end"`
	// Digest identifies the content of the document and the config. Only the first chunk has it.
	Digest string `json:"digest,omitempty"`
}

// ChunkID returns the id of chunk n of a document, from 0.
func ChunkID(document string, n int) string { return document + "#" + strconv.Itoa(n) }

// chunkIDs returns the ids of all chunks that a document may have, starting with chunk first.
func chunkIDs(document string, first int) []string {
	ids := make([]string, 0, MaxChunks-first)
	for n := first; n < MaxChunks; n++ {
		ids = append(ids, ChunkID(document, n))
	}
	return ids
}

// Add indexes a document in place of the one with the same id, in one write, and returns the number
// of its chunks. It writes nothing if the document is already indexed unchanged with the same
// config.
func (x *Index) Add(ctx context.Context, d Document) (chunks int, err error) {
	if err := d.check(); err != nil {
		return 0, err
	}
	all := Chunks(d.Text, x.cfg.ChunkSize, x.cfg.Overlap)
	if len(all) > MaxChunks {
		return 0, invalid("document.text: has %d chunks, limit is %d; use larger chunks, or several documents", len(all), MaxChunks)
	}
	p, digest, err := x.write(&d, all)
	if err != nil {
		return 0, err
	}
	known, err := x.c.Get(ctx, ChunkID(d.ID, 0))
	if err != nil && !errors.Is(err, vector.ErrCollectionNotFound) {
		return 0, err
	}
	if len(known) == 1 && sourceOf(known[0].Metadata).Digest == digest {
		return len(all), nil
	}
	_, err = x.c.Upsert(ctx, p)
	return len(all), err
}

// write returns the write of the chunks of a document, and its digest.
func (x *Index) write(d *Document, chunks []Chunk) (p vector.WriteParams, digest string, err error) {
	encoded, err := json.Marshal([]any{d, x.cfg})
	if err != nil {
		return p, "", invalid("document.metadata: %v", err)
	}
	sum := sha256.Sum256(encoded)
	digest = hex.EncodeToString(sum[:16])
	p.Remove = chunkIDs(d.ID, len(chunks))
	for n, c := range chunks {
		s := map[string]any{"document": d.ID, "chunk": n, "start": c.Start, "end": c.End}
		if d.Title != "" {
			s["title"] = d.Title
		}
		if d.URL != "" {
			s["url"] = d.URL
		}
		if n == 0 {
			s["digest"] = digest
		}
		metadata := maps.Clone(d.Metadata)
		if metadata == nil {
			metadata = make(map[string]any)
		}
		metadata[sourceMember] = s
		p.Documents = append(p.Documents, vector.Document{ID: ChunkID(d.ID, n), Text: d.Text[c.Start:c.End], Metadata: metadata})
	}
	return p, digest, nil
}

// sourceOf returns the source of a chunk, or the zero value.
func sourceOf(metadata map[string]any) (s source) {
	encoded, err := json.Marshal(metadata[sourceMember])
	if err == nil {
		_ = json.Unmarshal(encoded, &s) // a document of another writer has no source
	}
	return s
}

// Remove removes a document. It returns no error if the document does not exist.
func (x *Index) Remove(ctx context.Context, id string) error {
	if err := (&Document{ID: id, Text: "-"}).check(); err != nil {
		return err
	}
	err := x.c.Delete(ctx, chunkIDs(id, 0)...)
	if errors.Is(err, vector.ErrCollectionNotFound) {
		return nil
	}
	return err
}

// SearchParams select citations. The zero value selects the best [vector.DefaultLimit] citations.
type SearchParams struct {
	// Mode is the way in which passages are ranked. "" means [vector.ModeHybrid], which is by words and by
	// meaning if the store has an embedder, otherwise by words.
	Mode vector.Mode
	// Limit is the maximum number of citations, up to [vector.MaxLimit]. 0 means
	// [vector.DefaultLimit].
	Limit int
	// MinScore excludes citations with a lower score; see [Citation].
	MinScore *float64
	// Filter selects documents by their metadata.
	Filter filter.Filter
	// Documents are the ids of the documents to search, all if it is empty.
	Documents []string
	// OnePerDocument returns only the best citation of each document.
	OnePerDocument bool
}

// Citation is a passage of a document.
type Citation struct {
	// Document is the id of the document.
	Document string `json:"document"`
	// Title and URL are the title and the URL of the document.
	Title string `json:"title,omitempty"`
	URL   string `json:"url,omitempty"`
	// Start and End are byte offsets in the text of the document.
	Start int `json:"start"`
	End   int `json:"end"`
	// Text is the passage.
	Text string `json:"text"`
	// Score is larger for better passages. It is from 0 to 1. If the search is by meaning only, it
	// is the score of the collection's metric.
	Score float64 `json:"score"`
	// Scores explains Score unless the search is by meaning only.
	Scores vector.Scores `json:"scores,omitzero"`
	// Metadata is the metadata of the document.
	Metadata map[string]any `json:"metadata,omitempty"`
}

// Found is the result of a search.
type Found struct {
	// Mode states how citations were found.
	Mode vector.Mode `json:"mode"`
	// Fallback is the error of the embedder if the search is by words because the embedder failed,
	// otherwise "".
	Fallback string `json:"fallback,omitempty"`
	// Citations are by falling score.
	Citations []Citation `json:"citations"`
}

// Search returns the passages that answer a question best, none if the collection does not exist. A search by words
// alone ignores words such as "the", unless the question has no others.
func (x *Index) Search(ctx context.Context, question string, p SearchParams) (Found, error) {
	switch {
	case strings.TrimSpace(question) == "":
		return Found{}, invalid("question: must not be empty")
	case len(question) > MaxQuestion:
		return Found{}, invalid("question: has %d bytes, limit is %d", len(question), MaxQuestion)
	}
	search := vector.SearchParams{Mode: cmp.Or(p.Mode, vector.ModeHybrid), Queries: []vector.Query{{Text: question}}, Limit: p.Limit, MinScore: p.MinScore, Filter: filter.And(filter.Exists(sourceMember + ".document"))}
	if len(p.Documents) > 0 {
		ids := make([]any, len(p.Documents))
		for i, id := range p.Documents {
			ids[i] = id
		}
		search.Filter = filter.In(sourceMember+".document", ids...)
	}
	if !p.Filter.IsZero() {
		search.Filter = filter.And(search.Filter, p.Filter)
	}
	if p.OnePerDocument {
		search.GroupBy = sourceMember + ".document"
	}
	words := strings.Join(keywords.Of(question), " ")
	if search.Mode == vector.ModeLexical && words != "" {
		search.Queries[0].Text = words
	}
	results, err := x.c.Search(ctx, search)
	if err == nil && results[0].Mode == vector.ModeLexical && search.Mode != vector.ModeLexical && words != "" { // without an embedder
		fallback := results[0].Fallback
		search.Mode, search.Queries[0].Text = vector.ModeLexical, words
		if results, err = x.c.Search(ctx, search); err == nil {
			results[0].Fallback = fallback
		}
	}
	if errors.Is(err, vector.ErrCollectionNotFound) {
		return Found{Mode: vector.ModeLexical}, nil
	}
	if err != nil {
		return Found{}, err
	}
	found := Found{Mode: results[0].Mode, Fallback: results[0].Fallback}
	for _, h := range results[0].Hits {
		s := sourceOf(h.Metadata)
		metadata := maps.Clone(h.Metadata)
		delete(metadata, sourceMember)
		if len(metadata) == 0 {
			metadata = nil
		}
		found.Citations = append(found.Citations, Citation{s.Document, s.Title, s.URL, s.Start, s.End, h.Text, h.Score, h.Scores, metadata})
	}
	return found, nil
}

// Context returns the passages as a text for a model, numbered from 1, each with its source.
func (f Found) Context() string {
	var b strings.Builder
	for i, c := range f.Citations {
		name := c.Title
		if name == "" {
			name = c.Document
		}
		fmt.Fprintf(&b, "[%d] %s", i+1, name)
		if c.URL != "" {
			fmt.Fprintf(&b, " (%s)", c.URL)
		}
		fmt.Fprintf(&b, "\n%s\n\n", c.Text)
	}
	return strings.TrimSpace(b.String())
}
