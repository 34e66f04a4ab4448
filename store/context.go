package store

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// DefaultContextRole is the role of a context that was created with its first task.
const DefaultContextRole = "assistant"

// MaxContextDepth is the maximum number of ancestors of a context.
const MaxContextDepth = 64

// ContextKey identifies a context. Both parts are non-empty.
type ContextKey struct {
	Owner string
	ID    string
}

// Context is a conversation: a group of tasks. A context that SaveContext did not create
// is created at the time of the first event of its first task, with status active,
// DefaultContextRole and Version 1.
type Context struct {
	Key         ContextKey
	Name        string
	Description string
	Role        string
	// Status is never empty.
	Status   a2a.ContextStatus
	Tags     []string // sorted, each once
	Metadata map[string]any
	// ParentID is the id of the parent context. The store checks it only when it is set;
	// it remains when the parent is deleted.
	ParentID     string
	ReferenceIDs []string
	Extensions   map[string]any
	CreatedAt    time.Time
	// UpdatedAt is the latest time of a client's message to one of the tasks, or of a
	// change of the context by SaveContext.
	UpdatedAt time.Time
	// Version is 1 for a new context, and each SaveContext increments it. Tasks
	// do not change it.
	Version int64

	// TaskCount is the number of tasks. TaskIDs are the ids of the newest tasks, up to the
	// requested number, ordered by creation time, oldest first, then by id.
	TaskCount int
	TaskIDs   []string
}

// ContextChange creates or changes a context.
type ContextChange struct {
	// Context has the new values. The store ignores Version, TaskCount and TaskIDs, and,
	// unless Create is set, CreatedAt.
	Context Context
	// Create: the context must not exist. Otherwise its Version must equal Version.
	Create  bool
	Version int64
	// RequireFinished rejects the change with ErrBusy while a task of the context is in a
	// non-terminal state.
	RequireFinished bool
	// Idempotency is written with the change. If its key exists, the store rejects the
	// change with ErrDuplicate. Its TaskID is the context's id. The store sets its Seq to
	// the context's Version after the change.
	Idempotency *IdempotencyRecord
}

// Check returns an error if the change is malformed, so that no store can apply it.
// Stores call it before they write.
func (c *ContextChange) Check() error {
	k := c.Context.Key
	switch {
	case k.Owner == "" || k.ID == "":
		return errors.New("change has no owner or no context id")
	case c.Create == (c.Version > 0):
		return fmt.Errorf("change of context %s must set exactly one of Create and Version", k.ID)
	case c.Context.Status == "" || c.Context.Role == "":
		return fmt.Errorf("change of context %s has no status or no role", k.ID)
	case !slices.IsSorted(c.Context.Tags) || len(slices.Compact(slices.Clone(c.Context.Tags))) != len(c.Context.Tags):
		return fmt.Errorf("change of context %s has unsorted or duplicate tags", k.ID)
	}
	return nil
}

// ContextSort is the order of a list of contexts. Contexts with equal names are ordered
// by creation time, and contexts with equal times by id, in the same direction. Names
// and ids compare by their bytes.
type ContextSort string

// Sort orders.
const (
	ContextsByUpdated ContextSort = "updatedAt"
	ContextsByCreated ContextSort = "createdAt"
	ContextsByName    ContextSort = "name" // contexts without a name first
)

// ContextQuery selects contexts of one owner. Zero fields do not filter.
type ContextQuery struct {
	Owner    string
	Statuses []a2a.ContextStatus
	Tags     []string // the context has all of them
	Role     string
	// CreatedAfter and CreatedBefore bound the creation time: After <= time < Before.
	CreatedAfter, CreatedBefore time.Time
	// Sort is required. The default direction is descending. Ascending also reverses the
	// order of contexts with equal times or names.
	Sort      ContextSort
	Ascending bool
	// Cursor continues after the last context of the previous page; nil starts the list.
	Cursor *ContextCursor
	// Offset is the number of contexts to skip first.
	Offset int
	// Limit is the maximum size of the page, at least 1.
	Limit int
	// MaxTaskIDs is the maximum number of task ids to read per context.
	MaxTaskIDs int
	// TotalLimit, if positive, limits ContextPage.Total as in [Query]. See CountLimit.
	TotalLimit int
}

// CountLimit returns the limit of the total: TotalLimit, or 0 (no limit) if stores have a
// counter for the query. They have counters by status, by tag and by role, but none for
// combinations of these.
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

// ContextCursor is a position in the order of Store.Contexts. Time is the time by which
// the list is sorted. In a list by name, Time is the creation time, and Name is set.
type ContextCursor struct {
	Time time.Time
	Name string
	ID   string
}

// ContextPage is a page of a list of contexts.
type ContextPage struct {
	Contexts []Context
	// Next continues the list; nil at its end.
	Next *ContextCursor
	// Total is the number of contexts that match the filters of the query. TotalCapped is
	// as in [Page].
	Total       int
	TotalCapped bool
}

// Cursor returns the position of c in a list with this order.
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

// Copy returns a deep copy of c.
func (c Context) Copy() Context {
	c.Tags, c.ReferenceIDs, c.TaskIDs = slices.Clone(c.Tags), slices.Clone(c.ReferenceIDs), slices.Clone(c.TaskIDs)
	c.Metadata, c.Extensions = CopyMap(c.Metadata), CopyMap(c.Extensions)
	return c
}
