// Package notes is a contract for tests that Holdfast does not know: short texts of an owner, which expire after an
// hour. It shows all parts of a contract in one folder: the store, its lines in an export, the methods for handlers, a
// command and a suite.
package notes

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// ErrTooLong is the error of a note of more than 100 bytes.
var ErrTooLong = errors.New("the note is too long")

// File is the environment variable with the name of the file that a store of tasks keeps notes in.
const File = "NOTES_FILE"

// Kind is the contract of notes.
var Kind = &contract.Kind{
	Name: "notes", Counts: []string{"notes"}, Lines: []contract.LineType{{Name: "note", Counts: "notes"}},
	Part: func(any, contract.PartParams) contract.Store {
		if file := os.Getenv(File); file != "" {
			return New(file)
		}
		return nil
	},
	Scan:    func(string) contract.Scanner { return scanner{} },
	Lasting: []error{ErrTooLong},
}

// Note is a text.
type Note struct {
	Key, Text string
	Expires   time.Time
}

// Notes stores notes by owner and key. It implements contract.Store.
type Notes struct {
	file string

	mu      sync.Mutex
	byOwner map[string]map[string]Note
	writes  int
}

// New returns a store in a file, or in memory if file is "".
func New(file string) *Notes { return &Notes{file: file, byOwner: make(map[string]map[string]Note)} }

// change reads the file, calls f and writes the file.
func (n *Notes) change(f func() error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.file == "" {
		return f()
	}
	raw, err := os.ReadFile(n.file)
	if err == nil {
		err = json.Unmarshal(raw, &n.byOwner)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	if raw, err = json.Marshal(n.byOwner); err != nil {
		return err
	}
	return os.WriteFile(n.file, raw, 0o600)
}

// Add adds a note once per key.
func (n *Notes) Add(owner string, x Note) error {
	return n.change(func() error {
		n.writes++
		if len(x.Text) > 100 {
			return ErrTooLong
		}
		if n.byOwner[owner] == nil {
			n.byOwner[owner] = make(map[string]Note)
		}
		n.byOwner[owner][x.Key] = x
		return nil
	})
}

// Of returns the notes of an owner by key.
func (n *Notes) Of(owner string) (all []Note, err error) {
	err = n.change(func() error {
		all = slices.SortedFunc(maps.Values(n.byOwner[owner]), func(a, b Note) int { return strings.Compare(a.Key, b.Key) })
		return nil
	})
	return all, err
}

// Writes returns the number of calls of Add.
func (n *Notes) Writes() int { return n.writes }

// Kind implements contract.Store.
func (*Notes) Kind() *contract.Kind { return Kind }

// Forget implements contract.Store.
func (n *Notes) Forget(_ context.Context, owner string, removed func(string, int64)) error {
	return n.change(func() error {
		removed("notes", int64(len(n.byOwner[owner])))
		delete(n.byOwner, owner)
		return nil
	})
}

// Sweeps implements contract.Sweeper.
func (n *Notes) Sweeps() []contract.Sweep {
	return []contract.Sweep{{Kind: "notes", Batch: func(_ context.Context, now time.Time) (removed int, more bool, err error) {
		err = n.change(func() error {
			for _, all := range n.byOwner {
				before := len(all)
				maps.DeleteFunc(all, func(_ string, x Note) bool { return !now.Before(x.Expires) })
				removed += before - len(all)
			}
			return nil
		})
		return removed, false, err
	}}}
}

type line struct {
	_       struct{}  `wire:"const=type:note,required"`
	Key     string    `json:"key" wire:"required"`
	Text    string    `json:"text" wire:"required"`
	Expires time.Time `json:"expires" wire:"required"`
}

// Export implements contract.Store.
func (n *Notes) Export(_ context.Context, owner string, write func(string, any) error) error {
	all, err := n.Of(owner)
	for _, x := range all {
		if err == nil {
			err = write("note", &line{Key: x.Key, Text: x.Text, Expires: x.Expires})
		}
	}
	return err
}

type scanner struct{}

// Scan implements contract.Scanner.
func (scanner) Scan(_ string, raw []byte) (any, error) {
	var l line
	if err := wire.Unmarshal(raw, &l); err != nil {
		return nil, err
	}
	if l.Text == "" {
		return nil, &wire.Error{Path: "text", Rule: "must not be empty"}
	}
	return Note{l.Key, l.Text, store.Time(l.Expires)}, nil
}

// End implements contract.Scanner.
func (scanner) End() error { return nil }

// Import implements contract.Store.
func (n *Notes) Import(p *contract.ImportParams) (contract.Importer, error) {
	return &importer{ImportParams: p, notes: n}, nil
}

type importer struct {
	contract.Immediate
	*contract.ImportParams
	notes *Notes
}

// Add implements contract.Importer.
func (m *importer) Add(_ context.Context, item any) error {
	x := item.(Note)
	all, err := m.notes.Of(m.Owner)
	if err != nil {
		return err
	}
	for _, known := range all {
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
	return m.notes.Add(m.Owner, x)
}

// In adds and reads the notes of a turn's owner.
func In(t contract.Turn) Turn { return Turn{t} }

// Turn has the methods for handlers.
type Turn struct{ turn contract.Turn }

func (t Turn) notes() (*Notes, error) {
	if s, _ := t.turn.Store(Kind); s != nil {
		return s.(*Notes), nil
	}
	return nil, Kind.Unsupported()
}

// Add adds a note.
func (t Turn) Add(ctx context.Context, text string) error {
	n, err := t.notes()
	if err != nil {
		return err
	}
	return t.turn.Call(ctx, contract.Call{Op: "notes.add", Args: []any{text}, Direct: func(_ context.Context, once string) error {
		return n.Add(t.turn.Session().Owner, Note{once, text, store.Time(t.turn.Now().Add(time.Hour))})
	}})
}

// Read returns the texts of all notes.
func (t Turn) Read(ctx context.Context) (texts []string, err error) {
	n, err := t.notes()
	if err != nil {
		return nil, err
	}
	err = t.turn.Call(ctx, contract.Call{Op: "notes.read", Result: &texts, Read: func(context.Context) error {
		all, err := n.Of(t.turn.Session().Owner)
		texts = nil
		for _, x := range all {
			texts = append(texts, x.Text)
		}
		return err
	}})
	return texts, err
}
