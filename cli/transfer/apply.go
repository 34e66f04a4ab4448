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
	"github.com/holdfast-dev/holdfast/store/contract"
)

// maxNamed is the maximum number of tasks that an error names.
const maxNamed = 10

// importer is the sink that imports documents into a store. Import scans its input twice: one
// importer only checks, the second one writes.
type importer struct {
	store  Target
	opts   ImportOptions
	write  bool // false: check only
	files  fileStore
	report Report

	firstConflict   error
	unfinishedIDs   []string // the first maxNamed of them
	unfinishedCount int64
	missingParents  []missingParent
	sums            map[store.ContextKey]string // checksums of the documents

	// State of the current document.
	saved    store.Context
	existing *store.Context // before the import; nil if it did not exist
	changed  bool           // the context was created or changed
	cur      *incoming      // the current task
	batch    batch
	now      keptImport
}

// missingParent is an imported context without its parent, because the parent could not be set.
type missingParent struct {
	record  store.Context
	err     error
	changed bool // the context is counted in Report.Written
}

// conflict reports a conflict with the store. While writing it returns the error. While checking
// it records the first conflict and returns nil: damage later in the document is reported
// first.
func (m *importer) conflict(format string, args ...any) error {
	err := a2a.Errorf(a2a.CodeConflict, format, args...)
	if m.write {
		return err
	}
	if m.firstConflict == nil {
		m.firstConflict = err
	}
	return nil
}

// checkResult returns the conflict or the unfinished tasks that the check found.
func (m *importer) checkResult() error {
	if m.firstConflict != nil || m.unfinishedCount == 0 || m.opts.Unfinished != UnfinishedRefuse {
		return m.firstConflict
	}
	named := strings.Join(m.unfinishedIDs, ", ")
	if more := m.unfinishedCount - int64(len(m.unfinishedIDs)); more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return &UnfinishedError{Tasks: m.unfinishedCount, named: named}
}

// owner returns the owner of the imported data of a document's owner.
func (m *importer) owner(named string) string {
	if m.opts.Owner != "" {
		return m.opts.Owner
	}
	return named
}

func (m *importer) context(ctx context.Context, c store.Context) error {
	c.Key.Owner = m.owner(c.Key.Owner)
	m.saved, m.existing, m.changed = c, nil, false
	existing, err := m.store.Context(ctx, c.Key.Owner, c.Key.ID, 0)
	if err == nil {
		m.existing = &existing
		return m.compare(&existing)
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
		return m.conflict("context %s is being deleted; retry when the deletion is done", a2a.Quote(c.Key.ID))
	}
	if err != nil {
		return fmt.Errorf("context %s: %w", c.Key.ID, err)
	}
	m.changed = true
	return nil
}

// compare reports a conflict if the existing context differs from the document's.
func (m *importer) compare(existing *store.Context) error {
	if parent := existing.ParentID; parent != "" && parent != m.saved.ParentID {
		return m.conflict("context %s exists with another parent", a2a.Quote(existing.Key.ID))
	}
	a, b := *existing, m.saved
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
		return m.conflict("context %s exists and differs from the document in its time of creation, name, description, role, tags, metadata, references or extensions", a2a.Quote(existing.Key.ID))
	}
	return nil
}

// record creates a record. Its version starts at 1.
func (m *importer) record(ctx context.Context, owner string, r store.RecordChange) error {
	owner = m.owner(owner)
	m.saved = store.Context{Key: store.ContextKey{Owner: owner}}
	if done, err := m.recordItem(ctx, owner, r); done {
		return err
	}
	return m.saveRecord(ctx, owner, r)
}

// saveRecord creates a record, unless it exists with the same value.
func (m *importer) saveRecord(ctx context.Context, owner string, r store.RecordChange) error {
	existing, err := m.store.Record(ctx, store.RecordKey{Owner: owner, Namespace: r.Namespace, Key: r.Key})
	switch {
	case err == nil && !bytes.Equal(existing.Value, r.Value):
		return m.conflict("record %s of namespace %s of owner %s exists with another value", a2a.Quote(r.Key), a2a.Quote(r.Namespace), a2a.Quote(owner))
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	case !m.write:
		return nil
	case err != nil:
		if err := m.store.SaveRecords(ctx, owner, r); err != nil {
			return fmt.Errorf("record %s: %w", r.Key, err)
		}
		m.report.Written.Add(Records, 1)
	}
	return nil
}

func (m *importer) end(ctx context.Context, sum string, items contract.Counts) error {
	m.report.Document.AddAll(items)
	if m.saved.Key.ID == keptID {
		if err := m.endKept(ctx); err != nil {
			return err
		}
	}
	if !m.write {
		return m.checkDuplicate(sum)
	}
	if m.saved.Key.ID == "" || m.saved.Key.ID == keptID { // records or kept data
		return nil
	}
	if err := m.flush(ctx); err != nil {
		return err
	}
	existing, err := m.updateContext(ctx, &m.saved)
	if err != nil {
		return err
	}
	if existing.Status != m.saved.Status {
		m.note("context %s keeps its status %s; in the document it is %s", a2a.Quote(existing.Key.ID), existing.Status, m.saved.Status)
	}
	if m.changed {
		m.report.Written.Add(Contexts, 1)
		for i := range m.missingParents {
			o := &m.missingParents[i]
			o.changed = o.changed || o.record.Key == m.saved.Key
		}
	}
	return nil
}

// checkDuplicate reports a conflict if the input has two different documents of one context.
// Conflicts between them would not be found before the first one is written.
func (m *importer) checkDuplicate(sum string) error {
	key := m.saved.Key
	if before, exists := m.sums[key]; exists && before != sum {
		switch key.ID {
		case "":
			return m.conflict("the input has different records of owner %s; import them separately", a2a.Quote(key.Owner))
		case keptID:
			return m.conflict("the input has different data of agents for owner %s; import them separately", a2a.Quote(key.Owner))
		}
		return m.conflict("the input has different documents of context %s of owner %s; import them separately", a2a.Quote(key.ID), a2a.Quote(key.Owner))
	}
	if m.sums == nil {
		m.sums = map[store.ContextKey]string{}
	}
	m.sums[key] = sum
	return nil
}

// updateContext copies status, update time and parent from the document's record after the
// tasks were imported. It keeps a status that was changed since the import created the context.
// It returns the updated context.
func (m *importer) updateContext(ctx context.Context, record *store.Context) (store.Context, error) {
	existing, err := m.store.Context(ctx, record.Key.Owner, record.Key.ID, 0)
	if err != nil {
		return existing, fmt.Errorf("context %s: %w", record.Key.ID, err)
	}
	want := existing
	if existing.Version == 1 && existing.Status == a2a.ContextActive {
		want.Status = record.Status
	}
	want.UpdatedAt = later(existing.UpdatedAt, record.UpdatedAt)
	if existing.ParentID == "" {
		want.ParentID = record.ParentID
	}
	for want.Status != existing.Status || want.ParentID != existing.ParentID || !want.UpdatedAt.Equal(existing.UpdatedAt) {
		saved, err := m.store.SaveContext(ctx, store.ContextChange{Context: want, Version: existing.Version})
		switch {
		case err == nil:
			m.changed = true
			return saved, nil
		case errors.Is(err, store.ErrParentNotFound), errors.Is(err, store.ErrParentCycle), errors.Is(err, store.ErrParentDepth):
			m.missingParents = append(m.missingParents, missingParent{record: *record, err: err})
			want.ParentID = existing.ParentID
		default:
			return existing, fmt.Errorf("context %s: %w", record.Key.ID, err)
		}
	}
	return existing, nil
}

// addParents sets parents that did not exist when their children were imported, and adds a note
// for each parent that is still missing.
func (m *importer) addParents(ctx context.Context) error {
	missing := m.missingParents
	for i := range missing {
		o := &missing[i]
		m.missingParents, m.changed = nil, false
		if _, err := m.updateContext(ctx, &o.record); err != nil {
			return err
		}
		if m.changed && !o.changed {
			m.report.Written.Add(Contexts, 1)
		}
		if len(m.missingParents) > 0 {
			m.note("context %s was imported without its parent %s: %v", a2a.Quote(o.record.Key.ID), a2a.Quote(o.record.ParentID), m.missingParents[0].err)
		}
	}
	return nil
}

func (m *importer) note(format string, args ...any) {
	m.report.Notes = append(m.report.Notes, fmt.Sprintf(format, args...))
}
