package holdfast_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/store/board"
	"github.com/holdfast-dev/holdfast/store/board/boards"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/history"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// The examples of the folders of contracts, which their pages show.
func folderExamples() map[string]func(ctx context.Context, t *holdfast.Turn, png []byte, result func(any)) error {
	return map[string]func(ctx context.Context, t *holdfast.Turn, png []byte, result func(any)) error{
		"memory": func(ctx context.Context, t *holdfast.Turn, _ []byte, result func(any)) error {
			if err := t.Remember(ctx, "the pump needs no oil", facts.RememberParams{}); err != nil {
				return err
			}
			found, err := t.Recall(ctx, "pump", facts.RecallParams{})
			result(found)
			return err
		},
		"history": func(ctx context.Context, t *holdfast.Turn, _ []byte, result func(any)) error {
			if err := t.Transcript().AppendText(ctx, "user", "When does the lease end?"); err != nil {
				return err
			}
			page, err := t.Transcript().Page(ctx, history.Tail(20))
			result(page)
			return err
		},
		"graph": func(ctx context.Context, t *holdfast.Turn, _ []byte, result func(any)) error {
			g := t.Graph("default")
			if _, _, err := g.Write(ctx, graph.Batch{Entities: []graph.Entity{{ID: "ada", Label: "Person"}}}); err != nil {
				return err
			}
			near, err := g.Neighbors(ctx, graph.NeighborParams{IDs: []string{"ada"}, Depth: 2})
			result(near)
			return err
		},
		"vector": func(ctx context.Context, t *holdfast.Turn, _ []byte, result func(any)) error {
			docs := t.Documents("default")
			if _, err := docs.Upsert(ctx, vector.WriteParams{Documents: []vector.Document{{ID: "manual", Text: "The pump needs no oil."}}}); err != nil {
				return err
			}
			found, err := docs.SearchText(ctx, "oil", 5)
			result(found)
			return err
		},
		"blob": func(ctx context.Context, t *holdfast.Turn, png []byte, result func(any)) error {
			ref, err := t.Blobs().Store(ctx, png, "image/png")
			if err != nil {
				return err
			}
			data, err := t.Blobs().Resolve(ctx, ref)
			result(data)
			return err
		},
		"board": func(ctx context.Context, t *holdfast.Turn, _ []byte, result func(any)) error {
			plan, err := t.Board().Create(ctx, boards.Params{}, "read", "write")
			if err != nil {
				return err
			}
			task, err := t.Board().SetStatus(ctx, plan.ID, "1", board.InProgress, "")
			result(task)
			return err
		},
	}
}

// The page of each contract's folder fits a screen, lists its packages and shows code that compiles.
func TestFoldersOfContractsHaveAPage(t *testing.T) {
	t.Parallel()
	examples, err := os.ReadFile("folders_test.go")
	if err != nil {
		t.Fatal(err)
	}
	commands, err := filepath.Glob("store/*/*cmd")
	if err != nil || len(commands) != len(folderExamples()) {
		t.Fatalf("found %d folders with a command, %v, want %d", len(commands), err, len(folderExamples()))
	}
	for _, command := range commands {
		folder := filepath.Dir(command)
		page := read(t, filepath.Join(folder, "README.md"))
		if n := strings.Count(page, "\n"); n > 40 {
			t.Errorf("%s/README.md has %d lines, want at most 40", folder, n)
		}
		packages, err := filepath.Glob(folder + "/*/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range packages {
			if name := filepath.Base(filepath.Dir(file)); !strings.Contains(page, "`"+name+"`") {
				t.Errorf("%s/README.md does not list package %s", folder, name)
			}
		}
		_, code, _ := strings.Cut(page, "```go\n")
		code, _, ok := strings.Cut(code, "```")
		if want := "\t\t\t" + strings.ReplaceAll(strings.TrimSpace(code), "\n", "\n\t\t\t") + "\n\t\t\tresult("; !ok || !strings.Contains(string(examples), want) {
			t.Errorf("%s/README.md has other code than folders_test.go", folder)
		}
	}
}
