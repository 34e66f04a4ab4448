package contract_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/holdfasttest"
	"github.com/holdfast-dev/holdfast/internal/transfer"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/board/boards"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/contract/all"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
)

// Notes are a contract that Holdfast does not know: texts of an owner, up to 100 bytes each. They
// expire after an hour. All of it is in this file; kinds is its line in the list.

func kinds() []*contract.Kind { return append(all.Kinds(), notesKind) }

var (
	errNoteTooLong = errors.New("the note is too long")

	notesKind = &contract.Kind{
		Name: "notes", Counts: []string{"notes"}, Lines: []contract.LineType{{Name: "note", Counts: "notes"}},
		Scan:    func(string) contract.Scanner { return noteScanner{} },
		Lasting: []error{errNoteTooLong},
	}
)

type note struct {
	Key, Text string
	Expires   time.Time
}

// notes stores notes by owner and key.
type notes struct {
	mu      sync.Mutex
	byOwner map[string]map[string]note
	writes  int
}

func newNotes() *notes { return &notes{byOwner: make(map[string]map[string]note)} }

func (*notes) Kind() *contract.Kind { return notesKind }

// add adds a note once per key.
func (n *notes) add(owner string, x note) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.writes++
	if len(x.Text) > 100 {
		return errNoteTooLong
	}
	if n.byOwner[owner] == nil {
		n.byOwner[owner] = make(map[string]note)
	}
	n.byOwner[owner][x.Key] = x
	return nil
}

func (n *notes) of(owner string) []note {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.SortedFunc(maps.Values(n.byOwner[owner]), func(a, b note) int { return strings.Compare(a.Key, b.Key) })
}

func (n *notes) Forget(_ context.Context, owner string, removed func(string, int64)) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	removed("notes", int64(len(n.byOwner[owner])))
	delete(n.byOwner, owner)
	return nil
}

func (n *notes) Sweeps() []contract.Sweep {
	return []contract.Sweep{{Kind: "notes", Batch: func(_ context.Context, now time.Time) (removed int, more bool, err error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, all := range n.byOwner {
			maps.DeleteFunc(all, func(_ string, x note) bool {
				expired := !now.Before(x.Expires)
				if expired {
					removed++
				}
				return expired
			})
		}
		return removed, false, nil
	}}}
}

type noteLine struct {
	_       struct{}  `wire:"const=type:note,required"`
	Key     string    `json:"key" wire:"required"`
	Text    string    `json:"text" wire:"required"`
	Expires time.Time `json:"expires" wire:"required"`
}

func (n *notes) Export(_ context.Context, owner string, line func(string, any) error) error {
	for _, x := range n.of(owner) {
		if err := line("note", &noteLine{Key: x.Key, Text: x.Text, Expires: x.Expires}); err != nil {
			return err
		}
	}
	return nil
}

type noteScanner struct{}

func (noteScanner) Scan(_ string, raw []byte) (any, error) {
	var l noteLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	if l.Text == "" {
		return nil, &wire.Error{Path: "text", Rule: "must not be empty"}
	}
	return note{l.Key, l.Text, store.Time(l.Expires)}, nil
}

func (noteScanner) End() error { return nil }

func (n *notes) Import(p *contract.ImportParams) (contract.Importer, error) {
	return &noteImporter{ImportParams: p, notes: n}, nil
}

type noteImporter struct {
	contract.Immediate
	*contract.ImportParams
	notes *notes
}

func (m *noteImporter) Add(_ context.Context, item any) error {
	x := item.(note)
	for _, known := range m.notes.of(m.Owner) {
		if known.Key == x.Key && known != x {
			return m.Conflict("note %s exists with another text", a2a.Quote(x.Key))
		} else if known == x {
			return nil
		}
	}
	if !m.Write {
		return nil
	}
	m.Added("notes", 1)
	return m.notes.add(m.Owner, x)
}

// addNote and readNotes are the methods for handlers.
func addNote(ctx context.Context, t contract.Turn, text string) error {
	s, _ := t.Store(notesKind)
	if s == nil {
		return notesKind.Unsupported()
	}
	return t.Call(ctx, contract.Call{Op: "notes.add", Args: []any{text}, Direct: func(_ context.Context, once string) error {
		return s.(*notes).add(t.Session().Owner, note{once, text, store.Time(t.Now().Add(time.Hour))})
	}})
}

func readNotes(ctx context.Context, t contract.Turn) (texts []string, err error) {
	s, _ := t.Store(notesKind)
	if s == nil {
		return nil, notesKind.Unsupported()
	}
	err = t.Call(ctx, contract.Call{Op: "notes.read", Result: &texts, Read: func(context.Context) error {
		texts = nil
		for _, x := range s.(*notes).of(t.Session().Owner) {
			texts = append(texts, x.Text)
		}
		return nil
	}})
	return texts, err
}

func TestContractIsOneFolderAndOneLine(t *testing.T) {
	t.Parallel()
	kept := newNotes()
	attempts := 0
	handler := holdfast.HandlerFunc(func(ctx context.Context, turn *holdfast.Turn) error {
		attempts++
		c := turn.Contracts()
		if err := c.Call(ctx, contract.Call{Op: "notes.none"}); a2a.CodeOf(err) != a2a.CodeInvalid {
			return fmt.Errorf("call without a function = %w, want invalid", err)
		}
		if err := addNote(ctx, c, strings.Repeat("x", 101)); !errors.Is(err, errNoteTooLong) {
			return fmt.Errorf("add a long note = %w, want %w", err, errNoteTooLong)
		}
		if err := addNote(ctx, c, "buy oil"); err != nil {
			return err
		}
		texts, err := readNotes(ctx, c)
		if err != nil || !slices.Equal(texts, []string{"buy oil"}) {
			return fmt.Errorf("read notes = %q, %w", texts, err)
		}
		if attempts == 1 {
			return holdfast.Retry(errors.Join(turn.State().Update(ctx, map[string]any{"n": 1}), turn.Flush(), errors.New("later")))
		}
		return nil
	})
	r := holdfasttest.New(t, handler, holdfast.Config{Contracts: engine.Contracts{Stores: []contract.Store{kept}, Kinds: kinds()}, RetryDelay: time.Millisecond})
	if task := r.Send("x"); task.State != a2a.StateCompleted || attempts != 2 || kept.writes != 2 {
		t.Fatalf("the task is %s (%s) after %d attempts and %d writes, want completed, 2 and 2", task.State, task.Message, attempts, kept.writes)
	}

	var document bytes.Buffer
	report, err := transfer.ExportKept(t.Context(), &document, []contract.Store{kept}, a2a.Anonymous)
	if err != nil || report.Document["notes"] != 1 || !strings.Contains(document.String(), `{"type":"note",`) {
		t.Fatalf("ExportKept() = %+v, %v: %s", report, err, &document)
	}
	moved := newNotes()
	opts := transfer.ImportOptions{Contracts: []contract.Store{moved}, Kinds: kinds()}
	for _, want := range []int64{1, 0} {
		report, err := transfer.Import(t.Context(), bytes.NewReader(document.Bytes()), inmem.New(), opts)
		if err != nil || report.Written["notes"] != want || !slices.Equal(moved.of(a2a.Anonymous), kept.of(a2a.Anonymous)) {
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
	if err != nil || forgotten.Removed["notes"] != 1 || len(kept.of(a2a.Anonymous)) > 0 {
		t.Errorf("Forget() = %+v, %v, want one note", forgotten, err)
	}
}

func TestExpiredDataOfAContractIsSwept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		kept := newNotes()
		if err := kept.add("alice", note{"k", "buy oil", time.Now().Add(time.Hour)}); err != nil {
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
		if n := e.Health(t.Context()).Swept["notes"]; n != 1 || len(kept.of("alice")) > 0 {
			t.Errorf("swept %d notes, %d are left, want 1 and 0", n, len(kept.of("alice")))
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
		"two of a kind": {engine.Contracts{Stores: []contract.Store{newNotes(), newNotes()}, Kinds: kinds()}, "two stores of notes"},
		"not in Kinds":  {engine.Contracts{Stores: []contract.Store{newNotes()}}, "a store of notes, which are not in Kinds"},
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
