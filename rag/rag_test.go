package rag_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/rag"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// checkChunks checks what holds for the chunks of any text.
func checkChunks(t *testing.T, text string, size, overlap int) []rag.Chunk {
	t.Helper()
	all := rag.Chunks(text, size, overlap)
	end := 0
	for i, c := range all {
		part := text[c.Start:c.End]
		switch {
		case len(part) == 0 || len(part) > size || part != strings.TrimSpace(part):
			t.Errorf("chunk %d is %q, want 1 to %d bytes without white space around", i, part, size)
		case utf8.ValidString(text) && !utf8.ValidString(part):
			t.Errorf("chunk %d splits a character: %q", i, part)
		case c.Start > end && strings.TrimSpace(text[end:c.Start]) != "":
			t.Errorf("no chunk has %q", text[end:c.Start])
		case i > 0 && (end-c.Start > overlap || c.End <= end):
			t.Errorf("chunk %d is [%d, %d), the one before ends at %d, overlap is %d", i, c.Start, c.End, end, overlap)
		}
		end = c.End
	}
	if rest := strings.TrimSpace(text[end:]); rest != "" {
		t.Errorf("no chunk has the end %q", rest)
	}
	return all
}

func TestChunksEndWithSentences(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("Dr. Miller wrote 3.5 pages. Did she sleep? \"No!\" she said.\n\nThe next day was cold. ", 40)
	chunks := checkChunks(t, text, 200, 60)
	if len(chunks) < 10 {
		t.Fatalf("%d chunks", len(chunks))
	}
	overlaps := 0
	for i, c := range chunks {
		if last := text[c.End-1]; !strings.ContainsRune(".?!\"", rune(last)) {
			t.Errorf("chunk %d ends with %q", i, text[c.Start:c.End])
		}
		if i > 0 && c.Start < chunks[i-1].End {
			overlaps++
		}
	}
	if overlaps == 0 {
		t.Error("no chunk repeats the end of the one before")
	}
	paragraph := "One two three four five six seven. One two three four five."
	all := rag.Chunks(paragraph+"\n\nEleven. Twelve thirteen fourteen fifteen sixteen seventeen.", 100, 0)
	if len(all) != 2 || all[0].End != len(paragraph) {
		t.Errorf("Chunks() = %v, want the first one to end with the paragraph at %d", all, len(paragraph))
	}
}

func TestChunksOfAnyText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " \n ", "a", strings.Repeat("x", 1000), strings.Repeat("日本語", 500), strings.Repeat("word ", 300), strings.Repeat("\n", 500) + "a", "a\r\n\r\nb\xff\xfe" + strings.Repeat("\xf0\x9f", 200)} {
		checkChunks(t, text, 100, 30)
	}
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		var b strings.Builder
		for range r.IntN(400) {
			b.WriteString([]string{"word", "日本", ".", "! ", " ", "\n", "\n\n", "é", "1.5", "\t", strings.Repeat("y", r.IntN(150))}[r.IntN(11)])
		}
		size := 100 + r.IntN(200)
		checkChunks(t, b.String(), size, r.IntN(size/2))
	}
}

func FuzzChunks(f *testing.F) {
	f.Add("One sentence. Another one! A third?", 100, 20)
	f.Fuzz(func(t *testing.T, text string, size, overlap int) {
		size = rag.MinChunk + max(size, -size)%1000
		checkChunks(t, text, size, max(overlap, -overlap)%(size/2))
	})
}

// words is an embedder with a component for each of some words.
type words struct{ embedded int }

func (*words) Name() string { return "words" }

func (m *words) Embed(_ context.Context, texts []string) (all [][]float32, err error) {
	for _, text := range texts {
		m.embedded++
		v := make([]float32, 1024)
		for _, w := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			h := fnv.New32a()
			_, _ = h.Write([]byte(w))
			v[h.Sum32()%1024]++
		}
		all = append(all, v)
	}
	return all, nil
}

func newIndex(t *testing.T, e vector.Embedder, cfg rag.Config) (*rag.Index, vector.Store) {
	t.Helper()
	s := inmem.New()
	t.Cleanup(func() { _ = s.Close() })
	documents := s.Vectors(vector.Config{Embedder: e})
	x, err := rag.New(rag.In(documents, vector.Key{Owner: "alice"}), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return x, documents
}

func search(t *testing.T, x *rag.Index, question string, p rag.SearchParams) rag.Found {
	t.Helper()
	found, err := x.Search(t.Context(), question, p)
	if err != nil {
		t.Fatalf("Search(%q) = %v", question, err)
	}
	return found
}

// Words such as "the" are in most texts, so a text that shares only these with a question does not answer it.
func TestCommonWordsFindNothing(t *testing.T) {
	t.Parallel()
	for _, mode := range []vector.Mode{"", vector.ModeLexical} {
		x, _ := newIndex(t, nil, rag.Config{})
		if _, err := x.Add(t.Context(), rag.Document{ID: "pump", Text: "Hold the button of the pump for three seconds. It is on the left."}); err != nil {
			t.Fatal(err)
		}
		for question, want := range map[string]int{
			"Who is the king of the island?":    0,
			"Wo ist der Schlüssel für die Tür?": 0,
			"Where is the pump?":                1,
			"the button":                        1,
			"is it on the":                      1, // it has no other words
		} {
			if found := search(t, x, question, rag.SearchParams{Mode: mode}); len(found.Citations) != want || found.Mode != vector.ModeLexical {
				t.Errorf("mode %q: Search(%q) = %+v, want %d citations", mode, question, found, want)
			}
		}
	}
}

func TestDocumentsAreReplacedAndCited(t *testing.T) {
	t.Parallel()
	model := new(words)
	for mode, e := range map[vector.Mode]vector.Embedder{vector.ModeLexical: nil, vector.ModeHybrid: model} {
		x, documents := newIndex(t, e, rag.Config{ChunkSize: 100})
		if found := search(t, x, "anything", rag.SearchParams{}); len(found.Citations) > 0 {
			t.Errorf("Search() of no collection = %+v", found)
		}
		var long strings.Builder
		for i := range 30 {
			fmt.Fprintf(&long, "Sentence number%d is about item%d. ", i, i)
		}
		add := func(d rag.Document) int {
			t.Helper()
			n, err := x.Add(t.Context(), d)
			if err != nil {
				t.Fatalf("Add() = %v", err)
			}
			return n
		}
		d := rag.Document{ID: "long#1", Title: "Long", URL: "https://example.com", Text: long.String(), Metadata: map[string]any{"year": 2024}}
		chunks := add(d)
		add(rag.Document{ID: "other", Text: "Lighthouses stand at the sea.", Metadata: map[string]any{"year": 2023}})
		found := search(t, x, "item17", rag.SearchParams{Limit: 2})
		if c := found.Citations[0]; found.Mode != mode || c.Document != "long#1" || c.Title != "Long" || c.URL != d.URL || c.Text != d.Text[c.Start:c.End] || !strings.Contains(c.Text, "item17") || fmt.Sprint(c.Metadata) != "map[year:2024]" {
			t.Errorf("%s: Search() = %+v", mode, found)
		}
		if found := search(t, x, "item17 sea", rag.SearchParams{Limit: 10, OnePerDocument: true}); len(found.Citations) != 2 {
			t.Errorf("%s: Search() of one citation per document = %+v", mode, found)
		}
		for name, p := range map[string]rag.SearchParams{"filter": {Filter: filter.Eq("year", 2023)}, "documents": {Documents: []string{"other"}}} {
			if found := search(t, x, "item17 lighthouses", p); len(found.Citations) != 1 || found.Citations[0].Document != "other" {
				t.Errorf("%s: Search() with %s = %+v", mode, name, found)
			}
		}
		before := model.embedded
		if n := add(d); n != chunks || model.embedded != before {
			t.Errorf("%s: the same document was embedded again", mode)
		}
		d.Text = "It is short now, and says nothing but this."
		add(d)
		all, err := documents.Collections(t.Context(), "alice")
		if err != nil || all[0].Documents != 2 {
			t.Errorf("%s: the collection is %+v, %v, want two chunks", mode, all, err)
		}
		if err := errors.Join(x.Remove(t.Context(), d.ID), x.Remove(t.Context(), d.ID)); err != nil {
			t.Errorf("Remove() = %v", err)
		}
		if found := search(t, x, "short now", rag.SearchParams{Documents: []string{d.ID}}); len(found.Citations) > 0 {
			t.Errorf("%s: Search() after Remove = %+v", mode, found)
		}
	}
}

func TestBadInputChangesNothing(t *testing.T) {
	t.Parallel()
	x, documents := newIndex(t, nil, rag.Config{ChunkSize: rag.MinChunk})
	for want, d := range map[string]rag.Document{
		"document.id":       {Text: "a"},
		"document.text":     {ID: "a", Text: " \n"},
		"must be UTF-8":     {ID: "a", Text: "a\xff"},
		"limit is 1000":     {ID: "a", Text: strings.Repeat("word ", 40_000)},
		`member "source"`:   {ID: "a", Text: "a", Metadata: map[string]any{"source": 1}},
		"document.metadata": {ID: "a", Text: "a", Metadata: map[string]any{"f": func() {}}},
		"document.title":    {ID: "a", Text: "a", Title: strings.Repeat("t", rag.MaxTitle+1)},
		"id: has 505":       {ID: strings.Repeat("i", rag.MaxID+1), Text: "a"},
	} {
		if _, err := x.Add(t.Context(), d); a2a.CodeOf(err) != a2a.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("Add() = %v, want an error of %q", err, want)
		}
	}
	if _, err := x.Search(t.Context(), " ", rag.SearchParams{}); a2a.CodeOf(err) != a2a.CodeInvalid {
		t.Errorf("Search() of an empty question = %v", err)
	}
	if all, err := documents.Collections(t.Context(), "alice"); len(all) > 0 || err != nil {
		t.Errorf("Collections() = %+v, %v, want none", all, err)
	}
	for _, cfg := range []rag.Config{{ChunkSize: 99}, {ChunkSize: rag.MaxChunk + 1}, {ChunkSize: 100, Overlap: 51}} {
		if _, err := rag.New(rag.In(documents, vector.Key{Owner: "a"}), cfg); a2a.CodeOf(err) != a2a.CodeInvalid {
			t.Errorf("New(%+v) = %v", cfg, err)
		}
	}
}
