package sqlite

import (
	"context"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
	"github.com/holdfast-dev/holdfast/store/rules"
)

const (
	sqlContextParent = `SELECT record ->> '$.parentContextId' FROM context_rows WHERE owner = ? AND id = ? AND bucket <> ''`

	sqlLabelsOf    = `SELECT label FROM context_labels WHERE owner = ? AND id = ?`
	sqlInsertLabel = `INSERT INTO context_labels (owner, id, label, bucket, created_at, updated_at, name) VALUES (?,?,?,?,?,?,?)`
	sqlDropLabels  = `DELETE FROM context_labels WHERE owner = ? AND id = ?`
)

func tagLabel(tag string) string   { return "tag:" + tag }
func roleLabel(role string) string { return "role:" + role }

// SaveContext implements store.Contexts.
func (s *contextStore) SaveContext(ctx context.Context, c store.ContextChange) (store.Context, error) {
	if err := c.Check(); err != nil {
		return store.Context{}, err
	}
	record, err := encoding.Context(&c.Context)
	if err != nil {
		return store.Context{}, err
	}
	save := &contextSave{ContextChange: &c, record: string(record)}
	if err := s.write(ctx, &request{weight: 1 + len(c.Context.Tags), bytes: len(record), apply: save.apply}); err != nil {
		return store.Context{}, err
	}
	if save.refusal != nil {
		return store.Context{}, save.refusal
	}
	return decodeContext(c.Context.Key, &save.head, record)
}

// contextSave is one call of SaveContext. head is the resulting row.
type contextSave struct {
	*store.ContextChange
	record  string
	refusal error
	head    contextHead
}

// apply checks all preconditions before it writes.
func (c *contextSave) apply(w *writer) error {
	before, err := w.readContextHead(c.Context.Key)
	if err != nil {
		return err
	}
	if c.refusal, err = c.check(w, &before); err != nil || c.refusal != nil {
		return err
	}
	c.head = before
	c.head.found, c.head.Bucket, c.head.Labels = true, string(c.Context.Status), int64(1+len(c.Context.Tags))
	c.head.Version++
	if c.Create {
		c.head.CreatedAt, c.head.UpdatedAt = millis(c.Context.CreatedAt), millis(c.Context.UpdatedAt)
	} else {
		c.head.UpdatedAt = max(before.UpdatedAt, millis(c.Context.UpdatedAt))
	}
	if k := c.Idempotency; k != nil {
		if err := w.insertKey(k, c.head.Version, lookupByContext); err != nil {
			return err
		}
	}
	if err := w.removeLabels(c.Context.Key, &before); err != nil {
		return err
	}
	if err := c.write(w); err != nil {
		return err
	}
	return c.addLabels(w)
}

// check returns the error of a change if its preconditions do not hold.
func (c *contextSave) check(w *writer, before *contextHead) (refusal, err error) {
	seen := rules.Context{Exists: before.found, Deleting: before.found && !before.live(), Version: before.Version}
	if k := c.Idempotency; k != nil {
		if _, seen.Duplicate, err = w.findKey(k.Owner, k.Key); err != nil {
			return nil, err
		}
	}
	if c.RequireFinished && before.Tasks > 0 {
		if seen.Unfinished, err = w.hasUnfinishedTasks(c.Context.Key); err != nil {
			return nil, err
		}
	}
	if c.Context.ParentID != "" {
		if seen.ParentID, _, err = w.parentOf(c.Context.Key); err != nil {
			return nil, err
		}
	}
	if seen.NewParent(c.ContextChange) {
		if err = w.readAncestors(&seen.Ancestors, c.Context.Key, c.Context.ParentID); err != nil {
			return nil, err
		}
	}
	return rules.SaveContext(c.ContextChange, &seen), nil
}

func (w *contextWriter) parentOf(k store.ContextKey) (parent string, found bool, err error) {
	err = w.query(sqlContextParent, func(r record) error {
		parent, found = r.text(0), true
		return nil
	}, k.Owner, k.ID)
	return parent, found, err
}

// hasUnfinishedTasks reports whether a task of the context is in a state that is not
// terminal.
func (w *contextWriter) hasUnfinishedTasks(k store.ContextKey) (unfinished bool, err error) {
	first, err := w.firstTask(k)
	if unfinished = first.PK != 0 && !a2a.TaskState(first.State).Terminal(); err != nil || unfinished {
		return unfinished, err
	}
	err = w.query(sqlContextStates, func(r record) error {
		unfinished = unfinished || !a2a.TaskState(r.text(0)).Terminal()
		return nil
	}, k.Owner, k.ID)
	return unfinished, err
}

// readAncestors adds the context parentID, the new parent of child, and its ancestors to
// ancestors.
func (w *contextWriter) readAncestors(ancestors *rules.Ancestors, child store.ContextKey, parentID string) error {
	for id := parentID; ; {
		parent, found, err := w.parentOf(store.ContextKey{Owner: child.Owner, ID: id})
		if err != nil || !found || !ancestors.Add(child.ID, id, parent) {
			return err
		}
		id = parent
	}
}

func (c *contextSave) write(w *writer) (err error) {
	k := c.Context.Key
	row := &contextRow{Key: k, contextHead: c.head, Name: c.Context.Name, Record: c.record}
	if c.Create {
		_, err = w.exec(sqlSaveContext, newContext.Args(row)...)
	} else {
		_, err = w.exec(sqlUpdateContext, changedContext.Args(row, k.Owner, k.ID)...)
	}
	return err
}

// addLabels adds the labels of the context's tags and role, and counts the context.
func (c *contextSave) addLabels(w *writer) error {
	k := c.Context.Key
	w.addCount(k.Owner, labelAll, c.head.Bucket, 1)
	add := func(label string) error {
		w.addCount(k.Owner, label, c.head.Bucket, 1)
		_, err := w.exec(sqlInsertLabel, k.Owner, k.ID, label, c.head.Bucket, c.head.CreatedAt, c.head.UpdatedAt, c.Context.Name)
		return err
	}
	for _, tag := range c.Context.Tags {
		if err := add(tagLabel(tag)); err != nil {
			return err
		}
	}
	return add(roleLabel(c.Context.Role))
}

// removeLabels removes the labels of a context and subtracts it from the counters. It does
// nothing if the context does not exist or its deletion is pending.
func (w *contextWriter) removeLabels(k store.ContextKey, c *contextHead) error {
	if !c.live() {
		return nil
	}
	w.addCount(k.Owner, labelAll, c.Bucket, -1)
	if c.Labels == 0 {
		return nil
	}
	err := w.query(sqlLabelsOf, func(r record) error {
		w.addCount(k.Owner, r.text(0), c.Bucket, -1)
		return nil
	}, k.Owner, k.ID)
	if err != nil {
		return err
	}
	_, err = w.exec(sqlDropLabels, k.Owner, k.ID)
	return err
}
