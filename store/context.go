package store

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// DefaultContextRole is the role of contexts that a task brought into being.
const DefaultContextRole = "assistant"

// MaxContextDepth is how many ancestors a context may have.
const MaxContextDepth = 64

// ContextKey names a context. Both parts are non-empty.
type ContextKey struct {
	Owner string
	ID    string
}

// Context is a conversation. One that nobody described begins with the first
// event of its first task: active, DefaultContextRole, Version 1.
type Context struct {
	Key         ContextKey
	Name        string
	Description string
	Role        string
	// Status is never empty.
	Status   a2a.ContextStatus
	Tags     []string // sorted, each once
	Metadata map[string]any
	// ParentID names the context around this one. It is looked at when it is set: a
	// parent that is deleted later leaves its id behind.
	ParentID     string
	ReferenceIDs []string
	Extensions   map[string]any
	CreatedAt    time.Time
	// UpdatedAt is moved forward, never back, to the time of each event that brings
	// a client's message to one of its tasks, and of each change of the record.
	UpdatedAt time.Time
	// Version counts the changes of the record, from 1. Tasks do not move it.
	Version int64

	// TaskCount is how many tasks it has. TaskIDs are those of the newest as far as
	// they were asked for, by the time they were created and then by id, oldest
	// first.
	TaskCount int
	TaskIDs   []string
}

// ContextChange is a change of a context's record.
type ContextChange struct {
	// Context is the record to be. Version, TaskCount and TaskIDs are ignored, and
	// CreatedAt when it is not to be created.
	Context Context
	// Create: the context must not exist. Else its Version must be Version.
	Create  bool
	Version int64
	// TasksOver refuses the change with ErrBusy while a task of the context is in a
	// state that is not terminal.
	TasksOver bool
	// Idempotency is written with the change, or refuses it with ErrDuplicate. Its
	// TaskID is the context's id; the store makes its Seq the Version that the
	// change left behind.
	Idempotency *IdempotencyRecord
}

// Check reports a change that no store can apply: a mistake of the caller. Stores
// call it before they write anything.
func (c *ContextChange) Check() error {
	k := c.Context.Key
	switch {
	case k.Owner == "" || k.ID == "":
		return errors.New("change names no context")
	case c.Create == (c.Version > 0):
		return fmt.Errorf("change of context %s needs one of Create and Version", k.ID)
	case c.Context.Status == "" || c.Context.Role == "":
		return fmt.Errorf("change of context %s has no status or no role", k.ID)
	case !slices.IsSorted(c.Context.Tags) || len(slices.Compact(slices.Clone(c.Context.Tags))) != len(c.Context.Tags):
		return fmt.Errorf("change of context %s has tags out of order or twice", k.ID)
	}
	return nil
}

// ContextSort is what contexts are sorted by. Contexts of one name are sorted by
// the time of their creation, and contexts that are equal in that too by id, all in
// the same direction. Names and ids compare by their bytes.
type ContextSort string

// The orders.
const (
	ContextsByUpdated ContextSort = "updatedAt"
	ContextsByCreated ContextSort = "createdAt"
	ContextsByName    ContextSort = "name" // those without one first
)

// ContextQuery selects contexts of one owner. Zero fields do not filter.
type ContextQuery struct {
	Owner    string
	Statuses []a2a.ContextStatus
	Tags     []string // all of them
	Role     string
	// CreatedAfter and CreatedBefore bound the time of creation: After <= time < Before.
	CreatedAfter, CreatedBefore time.Time
	// Sort is required. Ascending reverses the whole order, that of equals included.
	Sort      ContextSort
	Ascending bool
	// Cursor continues after the last context of the page before; nil starts.
	Cursor *ContextCursor
	// Offset skips so many first.
	Offset int
	// Limit is the size of the page, at least 1.
	Limit int
	// Tasks is how many task ids to read of each.
	Tasks int
	// TotalLimit, if positive, limits ContextPage.Total as in [Query]: see CountLimit.
	TotalLimit int
}

// CountLimit returns the limit of the total: TotalLimit, or 0 where stores keep a counter.
// They count contexts by status, by tag and by role, but not by several of those.
func (q *ContextQuery) CountLimit() int {
	kinds := len(slices.Compact(slices.Sorted(slices.Values(q.Tags))))
	if len(q.Statuses) > 0 {
		kinds++
	}
	if q.Role != "" {
		kinds++
	}
	if kinds > 1 || q.Role == DefaultContextRole || !q.CreatedAfter.IsZero() || !q.CreatedBefore.IsZero() {
		return q.TotalLimit
	}
	return 0
}

// ContextCursor is a place in the order of Store.Contexts. Time is that which the
// list is sorted by; in a list by name it is the time of creation. Name is set only
// in a list by name.
type ContextCursor struct {
	Time time.Time
	Name string
	ID   string
}

// ContextPage is a part of a list of contexts.
type ContextPage struct {
	Contexts []Context
	// Next continues the list; nil at its end.
	Next *ContextCursor
	// Total is how many contexts match, wherever the page begins. TotalCapped is as in
	// [Page].
	Total       int
	TotalCapped bool
}

// Cursor returns the place of c in a list sorted like this.
func (s ContextSort) Cursor(c *Context) *ContextCursor {
	cursor := &ContextCursor{ID: c.Key.ID}
	switch s {
	case ContextsByCreated:
		cursor.Time = c.CreatedAt
	case ContextsByName:
		cursor.Name, cursor.Time = c.Name, c.CreatedAt
	default:
		cursor.Time = c.UpdatedAt
	}
	return cursor
}

// Copy returns a copy that shares nothing that can be changed with c.
func (c Context) Copy() Context {
	c.Tags, c.ReferenceIDs, c.TaskIDs = slices.Clone(c.Tags), slices.Clone(c.ReferenceIDs), slices.Clone(c.TaskIDs)
	c.Metadata, c.Extensions = CopyMap(c.Metadata), CopyMap(c.Extensions)
	return c
}
