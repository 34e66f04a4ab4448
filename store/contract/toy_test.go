package contract_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/cli/transfer"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/holdfasttest"
	"github.com/holdfast-dev/holdfast/internal/notes"
	"github.com/holdfast-dev/holdfast/store/board/boards"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/contract/all"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
)

func kinds() []*contract.Kind { return append(all.Kinds(), notes.Kind) }

func notesOf(t *testing.T, n *notes.Notes, owner string) []notes.Note {
	t.Helper()
	all, err := n.Of(owner)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestContractIsOneFolderAndOneLine(t *testing.T) {
	t.Parallel()
	kept := notes.New("")
	attempts := 0
	handler := holdfast.HandlerFunc(func(ctx context.Context, turn *holdfast.Turn) error {
		attempts++
		c := turn.Contracts()
		if err := c.Call(ctx, contract.Call{Op: "notes.none"}); a2a.CodeOf(err) != a2a.CodeInvalid {
			return fmt.Errorf("call without a function = %w, want invalid", err)
		}
		if err := notes.In(c).Add(ctx, strings.Repeat("x", 101)); !errors.Is(err, notes.ErrTooLong) {
			return fmt.Errorf("add a long note = %w, want %w", err, notes.ErrTooLong)
		}
		if err := notes.In(c).Add(ctx, "buy oil"); err != nil {
			return err
		}
		texts, err := notes.In(c).Read(ctx)
		if err != nil || !slices.Equal(texts, []string{"buy oil"}) {
			return fmt.Errorf("read notes = %q, %w", texts, err)
		}
		if attempts == 1 {
			return holdfast.Retry(errors.Join(turn.State().Update(ctx, map[string]any{"n": 1}), turn.Flush(), errors.New("later")))
		}
		return nil
	})
	r := holdfasttest.New(t, handler, holdfast.Config{Contracts: engine.Contracts{Stores: []contract.Store{kept}, Kinds: kinds()}, Turns: engine.Turns{RetryDelay: time.Millisecond}})
	if task := r.Send("x"); task.State != a2a.StateCompleted || attempts != 2 || kept.Writes() != 2 {
		t.Fatalf("the task is %s (%s) after %d attempts and %d writes, want completed, 2 and 2", task.State, task.Message, attempts, kept.Writes())
	}

	var document bytes.Buffer
	report, err := transfer.ExportKept(t.Context(), &document, []contract.Store{kept}, a2a.Anonymous)
	if err != nil || report.Document["notes"] != 1 || !strings.Contains(document.String(), `{"type":"note",`) {
		t.Fatalf("ExportKept() = %+v, %v: %s", report, err, &document)
	}
	moved := notes.New("")
	opts := transfer.ImportOptions{Contracts: []contract.Store{moved}, Kinds: kinds()}
	for _, want := range []int64{1, 0} {
		report, err := transfer.Import(t.Context(), bytes.NewReader(document.Bytes()), inmem.New(), opts)
		if err != nil || report.Written["notes"] != want || !slices.Equal(notesOf(t, moved, a2a.Anonymous), notesOf(t, kept, a2a.Anonymous)) {
			t.Fatalf("Import() = %+v, %v, want %d written", report, err, want)
		}
	}
	damaged := strings.Replace(document.String(), `"text":"buy oil"`, `"text":""`, 1)
	if _, err := transfer.Import(t.Context(), strings.NewReader(damaged), inmem.New(), opts); err == nil || !strings.Contains(err.Error(), "line 3: text must not be empty") {
		t.Errorf("Import() of a damaged note = %v, want the line and the rule", err)
	}
	if _, err := transfer.Import(t.Context(), bytes.NewReader(document.Bytes()), inmem.New(), transfer.ImportOptions{Kinds: kinds()}); a2a.CodeOf(err) != a2a.CodeUnsupported {
		t.Errorf("Import() without a store = %v, want unsupported", err)
	}

	forgotten, err := engine.Forget(t.Context(), engine.ForgetParams{Store: inmem.New(), Contracts: engine.Contracts{Stores: []contract.Store{kept}, Kinds: kinds()}, Owner: a2a.Anonymous})
	if err != nil || forgotten.Removed["notes"] != 1 || len(notesOf(t, kept, a2a.Anonymous)) > 0 {
		t.Errorf("Forget() = %+v, %v, want one note", forgotten, err)
	}
}

func TestExpiredDataOfAContractIsSwept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kept := notes.New("")
		if err := kept.Add("alice", notes.Note{Key: "k", Text: "buy oil", Expires: time.Now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		e, err := engine.New(engine.Config{
			Store: inmem.New(), Contracts: engine.Contracts{Stores: []contract.Store{kept}, Kinds: kinds()},
			Handler: func(context.Context, *engine.Turn) error { return nil }, NewID: func() string { return "id" },
		})
		if err == nil {
			err = e.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if n := e.Health(t.Context()).Swept["notes"]; n != 1 || len(notesOf(t, kept, "alice")) > 0 {
			t.Errorf("swept %d notes, %d are left, want 1 and 0", n, len(notesOf(t, kept, "alice")))
		}
		if err := e.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestStoresOfContractsAreChecked(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		contracts engine.Contracts
		want      string
	}{
		"two of a kind": {engine.Contracts{Stores: []contract.Store{notes.New(""), notes.New("")}, Kinds: kinds()}, "two stores of notes"},
		"not in Kinds":  {engine.Contracts{Stores: []contract.Store{notes.New("")}}, "a store of notes, which are not in Kinds"},
	} {
		_, err := engine.New(engine.Config{Store: inmem.New(), Contracts: test.contracts, Handler: func(context.Context, *engine.Turn) error { return nil }})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("New() with stores %s = %v, want %q", name, err, test.want)
		}
	}
}

// Every contract accepts the longest name of an agent.
func TestContractsAcceptTheNamesOfAgents(t *testing.T) {
	t.Parallel()
	agent := strings.Repeat("a", contract.MaxAgent)
	r := holdfasttest.New(t, holdfast.HandlerFunc(func(ctx context.Context, turn *holdfast.Turn) error {
		_, err := turn.Board().Create(ctx, boards.Params{}, "one")
		return errors.Join(err, turn.State().Update(ctx, map[string]any{"n": 1}), turn.Transcript().AppendText(ctx, "user", "x"), turn.Remember(ctx, "x", facts.RememberParams{}))
	}), holdfast.Config{Name: agent})
	task := r.Send("x")
	if task.State != a2a.StateCompleted || len(r.Transcript(task.ContextID)) != 1 || len(r.Facts("")) != 1 {
		t.Errorf("the task is %s: %s", task.State, task.Message)
	}
}

// The names of all kinds identify lines, counts and sweeps.
func TestNamesOfKindsAreUnique(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	once := func(what, name string) {
		t.Helper()
		if key := what + " " + name; seen[key] || name == "" {
			t.Errorf("the %s %q is empty or used twice", what, name)
		} else {
			seen[key] = true
		}
	}
	for _, kind := range kinds() {
		once("kind", kind.Name)
		for _, count := range kind.Counts {
			once("count", count)
		}
		for _, line := range kind.Lines {
			once("line", line.Name)
			if line.Counts != "" && !slices.Contains(kind.Counts, line.Counts) {
				t.Errorf("lines %s count %s, which %s do not list", line.Name, line.Counts, kind.Name)
			}
			for _, before := range line.After {
				if !slices.ContainsFunc(kind.Lines, func(l contract.LineType) bool { return l.Name == before }) {
					t.Errorf("lines %s follow %s, which %s do not have", line.Name, before, kind.Name)
				}
			}
		}
	}
}
