package store

import (
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// TaskOptions say how much of a task to read.
type TaskOptions struct {
	// History keeps at most the newest *History messages; nil keeps all.
	History *int
	// OmitArtifacts leaves the artifacts out.
	OmitArtifacts bool
}

// Query selects tasks of one owner. Zero fields do not filter.
type Query struct {
	Owner     string
	ContextID string
	States    []a2a.TaskState
	// After and Before bound the status time: After <= time < Before.
	After  time.Time
	Before time.Time
	// Cursor continues after the last task of the page before; nil starts.
	Cursor *Cursor
	// Limit is the size of the page, at least 1.
	Limit int
	// Total asks for Page.Total, which costs a count of all that match.
	Total bool
	// Options say how much of each task to read.
	Options TaskOptions
}

// Cursor is a place in the order of Store.Tasks.
type Cursor struct {
	Time time.Time
	ID   string
}

// Page is a part of a list.
type Page struct {
	Tasks []*Task
	// Next continues the list; nil at its end.
	Next *Cursor
	// Total is how many tasks match, -1 when it was not asked for.
	Total int
}
