// Package rules contains the decisions that all backends make about changes, as functions
// over values: a backend reports what it read and applies the verdict.
package rules

import (
	"slices"

	"github.com/holdfast-dev/holdfast/store"
)

// Task is an existing task as a backend read it.
type Task struct {
	Seq, ReceivedSeq int64
	// Worker and Fence belong to the current lease. Worker is "" if the task is not leased.
	Worker string
	Fence  int64
	// Finished reports that the state is terminal, and that the task is not queued or leased.
	Finished bool
	// Deleting reports that the deletion of the task's context is pending.
	Deleting bool
}

// Holds reports whether the lease is the current one.
func (t *Task) Holds(l *store.HeldLease) bool {
	return t.Worker != "" && t.Worker == l.Worker && t.Fence == l.Fence
}

// Change returns why a store rejects a change, or nil. record is the existing idempotency
// record with the change's key and t is the task; each may be nil. closed reports that the
// context of a new task exists and is not active. versions are the versions of the records
// that the change names, 0 for a record that does not exist.
func Change(c *store.Change, record *store.IdempotencyRecord, t *Task, closed bool, versions []int64) error {
	switch {
	case record != nil:
		return store.ErrDuplicate
	case c.Create != nil && t != nil:
		return store.ErrExists
	case c.Create != nil && closed:
		return store.ErrContextClosed
	case c.Create != nil:
		return Records(c.Records, versions)
	case t == nil, t.Deleting && slices.ContainsFunc(c.Events, fromClient):
		return store.ErrNotFound
	case c.Version > 0 && c.Version != t.Seq:
		return store.ErrConflict
	case c.Lease != nil && !t.Holds(c.Lease):
		return store.ErrLeaseLost
	case c.Seen > 0 && t.ReceivedSeq > c.Seen:
		return store.ErrUnread
	}
	return Records(c.Records, versions)
}

// DeleteTask returns why a store rejects the deletion of a task, or nil. t is nil if the task does
// not exist. undelivered reports that one of its lanes is pending and that this prevents the
// deletion.
func DeleteTask(t *Task, undelivered bool) error {
	switch {
	case t == nil:
		return store.ErrNotFound
	case !t.Finished:
		return store.ErrBusy
	case undelivered:
		return store.ErrUndelivered
	}
	return nil
}

// Records returns why a store rejects changes of records with these versions, or nil.
func Records(changes []store.RecordChange, versions []int64) error {
	for i := range changes {
		if changes[i].Version != versions[i] {
			return store.ErrRecordConflict
		}
	}
	return nil
}

func fromClient(e store.Event) bool { return e.Received != nil }

// Context is what a backend read for the change or deletion of a context.
type Context struct {
	// Duplicate reports that the change's idempotency key exists.
	Duplicate bool
	// Exists reports that the context exists. Deleting reports that its deletion is pending; a
	// context that is Deleting still Exists.
	Exists, Deleting bool
	Version          int64
	ParentID         string
	// Unfinished reports that a task is in a non-terminal state. It is read if the change
	// sets RequireFinished.
	Unfinished bool
	// Busy reports that a task is queued or leased. It is read for a deletion that has not
	// started.
	Busy bool
	// Ancestors are the new parent and its ancestors. They are read if
	// NewParent returns true.
	Ancestors Ancestors
}

// NewParent reports whether the change sets a parent that has to be checked.
func (s *Context) NewParent(c *store.ContextChange) bool {
	parent := c.Context.ParentID
	return parent != "" && (!s.Exists || s.ParentID != parent)
}

// SaveContext returns why a store rejects a context change, or nil.
func SaveContext(c *store.ContextChange, s *Context) error {
	switch {
	case s.Duplicate:
		return store.ErrDuplicate
	case c.Create && s.Exists:
		return store.ErrExists
	case !c.Create && (!s.Exists || s.Deleting):
		return store.ErrNotFound
	case !c.Create && c.Version != s.Version:
		return store.ErrConflict
	case c.RequireFinished && s.Unfinished:
		return store.ErrBusy
	case !s.NewParent(c):
		return nil
	case s.Ancestors.cycle:
		return store.ErrParentCycle
	case s.Ancestors.n == 0:
		return store.ErrParentNotFound
	case s.Ancestors.n > store.MaxContextDepth:
		return store.ErrParentDepth
	}
	return nil
}

// DeleteContext returns why a store rejects the deletion of a context, or nil. finish is true for
// FinishDelete.
func DeleteContext(s *Context, finish bool) error {
	switch {
	case !s.Exists, finish && !s.Deleting:
		return store.ErrNotFound
	case !s.Deleting && s.Busy:
		return store.ErrBusy
	}
	return nil
}

// Ancestors collects the ancestors of a context, from its parent upwards.
type Ancestors struct {
	n     int
	cycle bool
}

// Add adds an ancestor of a context. parent is the parent of the ancestor, or "". Add reports
// whether to read the parent and add it next.
func (a *Ancestors) Add(context, ancestor, parent string) (more bool) {
	a.n++
	a.cycle = a.cycle || ancestor == context || parent == context
	return !a.cycle && parent != "" && a.n <= store.MaxContextDepth
}
