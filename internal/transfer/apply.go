package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// maxNamed is how many tasks an error names.
const maxNamed = 10

// importer is the sink that brings documents into a store. It goes through them
// twice: first it only looks for what is to be refused, then it writes.
type importer struct {
	store  store.Store
	opts   ImportOptions
	write  bool
	report Report

	refused    error    // the first contradiction that was found while looking
	unfinished []string // ids of the first unfinished tasks, while looking
	waiting    int64    // how many unfinished tasks there are
	orphans    []orphan
	sums       map[store.ContextKey]string // of the documents, while looking

	// Of the document under way.
	record  store.Context
	there   *store.Context // the context as it stood before; nil when it was not there
	touched bool           // the context was made or changed
	cur     *incoming      // the task under way
	batch   batch
}

// orphan is a context that had to do without its parent.
type orphan struct {
	record  store.Context
	err     error
	touched bool // it is counted as written
}

// refuse keeps the first contradiction while looking, so that a document that is
// damaged is told to be so whatever it says; while writing it ends the import.
func (m *importer) refuse(format string, args ...any) error {
	err := a2a.Errorf(a2a.CodeConflict, format, args...)
	if m.write {
		return err
	}
	if m.refused == nil {
		m.refused = err
	}
	return nil
}

// refusal is why nothing is to be written.
func (m *importer) refusal() error {
	if m.refused != nil || m.waiting == 0 || m.opts.Unfinished != UnfinishedRefuse {
		return m.refused
	}
	named := strings.Join(m.unfinished, ", ")
	if more := m.waiting - int64(len(m.unfinished)); more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return &UnfinishedError{Tasks: m.waiting, named: named}
}

func (m *importer) context(ctx context.Context, c store.Context) error {
	if m.opts.Owner != "" {
		c.Key.Owner = m.opts.Owner
	}
	m.record, m.there, m.touched = c, nil, false
	there, err := m.store.Context(ctx, c.Key.Owner, c.Key.ID, 0)
	if err == nil {
		m.there = &there
		return m.compare(&there)
	}
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if !m.write {
		return nil
	}
	c.Status, c.ParentID = a2a.ContextActive, ""
	_, err = m.store.SaveContext(ctx, store.ContextChange{Context: c, Create: true})
	if errors.Is(err, store.ErrExists) {
		return m.refuse("context %s is being deleted: import it once that is done", a2a.Quote(c.Key.ID))
	}
	if err != nil {
		return fmt.Errorf("context %s: %w", c.Key.ID, err)
	}
	m.touched = true
	return nil
}

// compare refuses a context that is there and is another.
func (m *importer) compare(there *store.Context) error {
	if parent := there.ParentID; parent != "" && parent != m.record.ParentID {
		return m.refuse("context %s is there already with another parent", a2a.Quote(there.Key.ID))
	}
	a, b := *there, m.record
	a.Status, a.ParentID, a.UpdatedAt = b.Status, b.ParentID, b.UpdatedAt
	got, err := wire.Marshal(contextLineOf(&a))
	if err != nil {
		return err
	}
	want, err := wire.Marshal(contextLineOf(&b))
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return m.refuse("context %s is there already and is not the one of the export: its time of creation, name, description, role, tags, metadata, references or extensions differ", a2a.Quote(there.Key.ID))
	}
	return nil
}

func (m *importer) end(ctx context.Context, sum string) error {
	if !m.write {
		return m.once(sum)
	}
	if err := m.flush(ctx); err != nil {
		return err
	}
	there, err := m.settle(ctx, &m.record)
	if err != nil {
		return err
	}
	if there.Status != m.record.Status {
		m.note("context %s is %s here and was left so; in the export it is %s", a2a.Quote(there.Key.ID), there.Status, m.record.Status)
	}
	if m.touched {
		m.report.Written.Contexts++
		for i := range m.orphans {
			o := &m.orphans[i]
			o.touched = o.touched || o.record.Key == m.record.Key
		}
	}
	m.report.Document.Contexts++
	return nil
}

// once refuses a second document of a context, unless it is the same again: the store
// cannot tell yet whether they contradict each other.
func (m *importer) once(sum string) error {
	key := m.record.Key
	if before, twice := m.sums[key]; twice && before != sum {
		return m.refuse("context %s of owner %s is in the export more than once, and not the same: import its documents one by one", a2a.Quote(key.ID), a2a.Quote(key.Owner))
	}
	if m.sums == nil {
		m.sums = map[store.ContextKey]string{}
	}
	m.sums[key] = sum
	return nil
}

// settle gives a context whose tasks are there what only its record tells: the status
// if nobody has changed it since the import made it, the time of its last change, and
// its parent. It returns the context as it stands then.
func (m *importer) settle(ctx context.Context, record *store.Context) (store.Context, error) {
	there, err := m.store.Context(ctx, record.Key.Owner, record.Key.ID, 0)
	if err != nil {
		return there, fmt.Errorf("context %s: %w", record.Key.ID, err)
	}
	want := there
	if there.Version == 1 && there.Status == a2a.ContextActive {
		want.Status = record.Status
	}
	want.UpdatedAt = later(there.UpdatedAt, record.UpdatedAt)
	if there.ParentID == "" {
		want.ParentID = record.ParentID
	}
	for want.Status != there.Status || want.ParentID != there.ParentID || !want.UpdatedAt.Equal(there.UpdatedAt) {
		saved, err := m.store.SaveContext(ctx, store.ContextChange{Context: want, Version: there.Version})
		switch {
		case err == nil:
			m.touched = true
			return saved, nil
		case errors.Is(err, store.ErrParentNotFound), errors.Is(err, store.ErrParentCycle), errors.Is(err, store.ErrParentDepth):
			m.orphans = append(m.orphans, orphan{record: *record, err: err})
			want.ParentID = there.ParentID
		default:
			return there, fmt.Errorf("context %s: %w", record.Key.ID, err)
		}
	}
	return there, nil
}

// addParents looks for the parents that were not there before all documents were
// read, and notes those that are still missing.
func (m *importer) addParents(ctx context.Context) error {
	orphans := m.orphans
	for i := range orphans {
		o := &orphans[i]
		m.orphans, m.touched = nil, false
		if _, err := m.settle(ctx, &o.record); err != nil {
			return err
		}
		if m.touched && !o.touched {
			m.report.Written.Contexts++
		}
		if len(m.orphans) > 0 {
			m.note("context %s was left without its parent %s: %v", a2a.Quote(o.record.Key.ID), a2a.Quote(o.record.ParentID), m.orphans[0].err)
		}
	}
	return nil
}

func (m *importer) note(format string, args ...any) {
	m.report.Notes = append(m.report.Notes, fmt.Sprintf(format, args...))
}
