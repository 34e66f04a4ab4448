package memorytest

import (
	"context"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// RecallScope is the scope of the facts of [MeasureRecall].
var RecallScope = memory.Scope{Owner: "recall", Agent: "agent"}

// Recall is the quality of searches: the share of queries that find their document among the
// first ten results, and the mean of the reciprocal rank of the document among them.
type Recall struct {
	At10, MRR float64
}

func (r Recall) String() string { return fmt.Sprintf("recall@10 %.3f (MRR@10 %.3f)", r.At10, r.MRR) }

// CheckRecall saves the [Documents] and searches for a number of them, by clean and by misspelt words. It fails
// if the recall is less than the recall of BM25 with a trigram arm in the reference measurements.
func CheckRecall(t storetest.T, s memory.LongTerm, queries int) {
	t.Helper()
	documents, err := Documents(t.Context())
	if err != nil {
		t.Fatalf("no source of the standard library: %v", err)
	}
	clean, misspelt, err := MeasureRecall(t.Context(), s, documents, queries, 1)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Logf("%d documents: clean %v, misspelt %v", len(documents), clean, misspelt)
	if clean.At10 < 0.890 || misspelt.At10 < 0.578 {
		t.Errorf("recall of clean queries = %v, of misspelt ones %v, want at least 0.890 and 0.578", clean, misspelt)
	}
}

// Documents returns the doc comments of the Go standard library with 60 to 8000 bytes, from the
// source of the Go installation. An error means that it has no source.
func Documents(ctx context.Context) ([]string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output() // a test that was built with -trimpath does not know it
	if err != nil {
		return nil, err
	}
	dirs := make(map[string][]string)
	err = filepath.WalkDir(filepath.Join(strings.TrimSpace(string(root)), "src"), func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{"internal", "vendor", "testdata", "cmd"}, name):
			return fs.SkipDir
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			dirs[filepath.Dir(path)] = append(dirs[filepath.Dir(path)], path)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool)
	for _, files := range dirs {
		for _, path := range files {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			for _, text := range comments(file) {
				seen[text] = true
			}
		}
	}
	var all []string
	for text := range seen {
		if len(text) >= 60 && len(text) <= 8000 {
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return all, nil
}

// comments returns the doc comments of the exported declarations of a file.
func comments(file *ast.File) (all []string) {
	add := func(name string, comment *ast.CommentGroup) {
		if ast.IsExported(name) && comment != nil {
			all = append(all, strings.TrimSpace(comment.Text()))
		}
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			add(d.Name.Name, d.Doc)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					if s.Doc == nil {
						s.Doc = d.Doc
					}
					add(s.Name.Name, s.Doc)
				case *ast.ValueSpec:
					add(s.Names[0].Name, s.Doc)
				}
			}
		}
	}
	return append(all, doc.Synopsis(file.Doc.Text())) //nolint:staticcheck // links in it are no matter here
}

// MeasureRecall saves documents in RecallScope and measures queries of five of a document's
// words, as they are and with one error in each.
func MeasureRecall(ctx context.Context, s memory.LongTerm, documents []string, queries int, seed uint64) (clean, misspelt Recall, err error) {
	ids, err := saveAll(ctx, s, documents, func(int) memory.Scope { return RecallScope })
	if err != nil {
		return clean, misspelt, err
	}
	random := rand.New(rand.NewPCG(seed, 1))
	for range queries {
		i := random.IntN(len(documents))
		words := pickWords(random, documents[i])
		for len(words) < 5 {
			i = random.IntN(len(documents))
			words = pickWords(random, documents[i])
		}
		if err = clean.add(ctx, s, words, ids[i], queries); err != nil {
			return clean, misspelt, err
		}
		for w := range words {
			words[w] = misspell(random, words[w])
		}
		if err = misspelt.add(ctx, s, words, ids[i], queries); err != nil {
			return clean, misspelt, err
		}
	}
	return clean, misspelt, nil
}

// pickWords returns up to five distinct words of at least four letters.
func pickWords(random *rand.Rand, text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) })
	words = slices.DeleteFunc(words, func(w string) bool { return len(w) < 4 })
	slices.Sort(words)
	words = slices.Compact(words)
	random.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
	return words[:min(5, len(words))]
}

// misspell returns a word with one letter replaced, removed, added or exchanged with the next.
func misspell(random *rand.Rand, word string) string {
	w := []rune(word)
	i, letter := random.IntN(len(w)-1), rune('a'+random.IntN(26))
	switch random.IntN(4) {
	case 0:
		w[i] = letter
	case 1:
		w = slices.Delete(w, i, i+1)
	case 2:
		w = slices.Insert(w, i, letter)
	default:
		w[i], w[i+1] = w[i+1], w[i]
	}
	return string(w)
}

func (r *Recall) add(ctx context.Context, s memory.LongTerm, words []string, id string, queries int) error {
	found, err := s.Search(ctx, RecallScope, memory.SearchParams{Query: strings.Join(words, " "), Limit: 10})
	if err != nil {
		return err
	}
	if rank := slices.IndexFunc(found.Facts, func(m memory.Memory) bool { return m.ID == id }); rank >= 0 {
		r.At10 += 1 / float64(queries)
		r.MRR += 1 / float64(rank+1) / float64(queries)
	}
	return nil
}
