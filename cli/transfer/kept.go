package transfer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// keptID is the id of the context of a document with the data that agents keep for an owner. No context
// has it.
const keptID = "\x00kept"

type keptLine struct {
	_     struct{} `wire:"const=type:kept,required"`
	Owner string   `json:"owner" wire:"required"`
}

// ExportKept writes a document with the data of an owner in stores of contracts to w, if there are
// any. stores are in the order of all.Kinds. Servers may use them at the same time: data that are
// written meanwhile may be missing. Notes of the report are about stores that cannot list their data.
func ExportKept(ctx context.Context, w io.Writer, stores []contract.Store, owner string) (Report, error) {
	e := &exporter{out: w, key: store.ContextKey{Owner: owner}, sum: sha256.New()}
	line := func(typ string, v any) error {
		if len(e.lines) == 0 {
			if err := errors.Join(e.head(), e.line(typeKept, &keptLine{Owner: owner})); err != nil {
				return err
			}
		}
		return e.line(lineType(typ), v)
	}
	for _, s := range stores {
		e.kinds = append(e.kinds, s.Kind())
		err := s.Export(ctx, owner, line)
		var reason contract.Unlisted
		if errors.As(err, &reason) {
			e.report.Notes = append(e.report.Notes, fmt.Sprintf("%s are not exported: %s", s.Kind().Name, reason))
			err = nil
		}
		if err != nil {
			return e.report, err
		}
	}
	if len(e.lines) == 0 {
		return e.report, nil
	}
	return e.report, e.end()
}

// keptTypes are the types of lines of contracts.
type keptTypes struct {
	kinds []*contract.Kind
	types map[lineType]keptType
}

// keptType is a type of lines of a kind.
type keptType struct {
	*contract.LineType
	kind int
}

func newKeptTypes(kinds []*contract.Kind) *keptTypes {
	k := &keptTypes{kinds, make(map[lineType]keptType)}
	for i, kind := range kinds {
		for j := range kind.Lines {
			k.types[lineType(kind.Lines[j].Name)] = keptType{&kind.Lines[j], i}
		}
	}
	return k
}

// after returns the types that may follow a line of a type: typeKept or a type of a contract.
func (k *keptTypes) after(last lineType) (next []lineType) {
	later := 0
	t, ok := k.types[last]
	if ok {
		later = t.kind + 1
		for _, l := range k.kinds[t.kind].Lines {
			if slices.Contains(l.After, t.Name) || l.After == nil && !t.Incomplete {
				next = append(next, lineType(l.Name))
			}
		}
		if t.Incomplete {
			return next
		}
	}
	for _, kind := range k.kinds[later:] {
		for _, l := range kind.Lines {
			if l.After == nil {
				next = append(next, lineType(l.Name))
			}
		}
	}
	if ok {
		next = append(next, typeEnd)
	}
	return next
}

// keptScan is the state of the scanner in the lines of one contract.
type keptScan struct {
	kind    *contract.Kind // nil before the first line
	scanner contract.Scanner
}

// parseKept starts a document of kept data.
func (s *scanner) parseKept(ctx context.Context, raw []byte) error {
	var l keptLine
	if err := wire.Unmarshal(raw, &l); err != nil {
		return err
	}
	s.context, s.kept = store.ContextKey{Owner: l.Owner, ID: keptID}, keptScan{}
	if err := checkOwner(l.Owner); err != nil {
		return err
	}
	s.out.kept(l.Owner)
	return nil
}

// parseItem parses a line of a contract.
func (s *scanner) parseItem(ctx context.Context, t lineType, raw []byte) error {
	kind := s.types.kinds[s.types.types[t].kind]
	if s.kept.kind != kind {
		if err := s.endKind(); err != nil {
			return err
		}
		s.kept = keptScan{kind, kind.Scan(s.context.Owner)}
	}
	item, err := s.kept.scanner.Scan(string(t), raw)
	if err != nil {
		return s.invalid(err)
	}
	return s.out.item(ctx, kind, item)
}

// endKind checks that the lines of the current contract are complete.
func (s *scanner) endKind() error {
	if s.kept.kind == nil {
		return nil
	}
	return s.invalid(s.kept.scanner.End())
}

// invalid adds the line to an error of a contract's rules.
func (s *scanner) invalid(err error) error {
	var coded *a2a.Error
	if errors.As(err, &coded) && coded.Code == a2a.CodeInvalid {
		return s.errorf("%s", coded.Message)
	}
	return err
}

// keptImport is the state of an importer in the lines of one contract.
type keptImport struct {
	kind *contract.Kind // nil before the first item
	// importer adds the items to a store, records adds them to the records of the store of tasks.
	importer contract.Importer
	records  *contract.RecordForm
}

// kept implements sink.
func (m *importer) kept(owner string) {
	m.saved = store.Context{Key: store.ContextKey{Owner: m.owner(owner), ID: keptID}}
	m.now = keptImport{}
}

// item implements sink.
func (m *importer) item(ctx context.Context, kind *contract.Kind, item any) (err error) {
	if m.now.kind != kind {
		if err := m.endKept(ctx); err != nil {
			return err
		}
		if m.now, err = m.keptImport(kind); err != nil {
			return err
		}
	}
	if m.now.records != nil {
		r, err := m.now.records.Record(m.saved.Key.Owner, item)
		if err != nil {
			return err
		}
		return m.saveRecord(ctx, m.saved.Key.Owner, r)
	}
	return m.now.importer.Add(ctx, item)
}

// keptImport returns the import of the items of a kind.
func (m *importer) keptImport(kind *contract.Kind) (k keptImport, err error) {
	s := contract.Find(m.opts.Contracts, kind)
	switch {
	case s != nil:
		k.importer, err = s.Import(m.params(m.saved.Key.Owner))
	case kind.Records != nil:
		k.records = kind.Records
	default:
		err = kind.NoTarget()
	}
	k.kind = kind
	return k, err
}

func (m *importer) params(owner string) *contract.ImportParams {
	return &contract.ImportParams{
		Owner: owner, Write: m.write, Now: m.opts.Now, Conflict: m.conflict, Note: m.note, Added: m.report.Written.Add,
		TaskExists: func(ctx context.Context, id string) (bool, error) {
			_, err := m.store.Task(ctx, store.Key{Owner: owner, ID: id}, store.TaskOptions{Outline: true})
			if errors.Is(err, store.ErrNotFound) {
				return false, nil
			}
			return err == nil, err
		},
	}
}

// endKept ends the lines of a contract.
func (m *importer) endKept(ctx context.Context) error {
	if m.now.importer == nil {
		return nil
	}
	return m.now.importer.Flush(ctx)
}

// abort ends an import that has failed.
func (m *importer) abort() {
	if m.now.importer != nil {
		m.now.importer.Abort()
	}
}

// recordItem adds the item that a record contains to a store of its contract. It reports false if the
// record is no such item, or if the target has no such store.
func (m *importer) recordItem(ctx context.Context, owner string, r store.RecordChange) (bool, error) {
	for _, s := range m.opts.Contracts {
		form := s.Kind().Records
		if form == nil || form.Namespace != r.Namespace {
			continue
		}
		item, err := form.Item(owner, r, m.opts.Now())
		if err != nil || item == nil {
			return true, err
		}
		to, err := s.Import(m.params(owner))
		if err == nil {
			err = errors.Join(to.Add(ctx, item), to.Flush(ctx))
		}
		return true, err
	}
	return false, nil
}
