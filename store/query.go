package store

import (
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// TaskOptions say how much of a task to read.
type TaskOptions struct {
	// History keeps at most the newest *History messages; nil keeps all.
	History *int
	// OmitArtifacts leaves the artifacts out.
	OmitArtifacts bool
	// Outline omits all content, as [Task.AsOutline] does. The store reads none, and the other
	// options have no effect.
	Outline bool
}

// Query selects tasks of one owner. Zero fields do not filter.
type Query struct {
	Owner     string
	ContextID string
	States    []a2a.TaskState
	// After and Before bound the status time: After <= time < Before.
	After  time.Time
	Before time.Time
	// CreatedAfter and CreatedBefore bound the time of creation likewise.
	CreatedAfter  time.Time
	CreatedBefore time.Time
	// ByCreated sorts by the time of creation instead of that of the status.
	ByCreated bool
	// Ascending reverses the order, ids included.
	Ascending bool
	// Cursor continues after the last task of the page before; nil starts.
	Cursor *Cursor
	// Offset skips so many first.
	Offset int
	// Limit is the size of the page, at least 1.
	Limit int
	// Bytes, if positive, ends the page after the task with which what is read of
	// its tasks, by Task.Size, comes to more: the page may then be shorter than
	// Limit and still have a Next. It has at least one task if any is left.
	Bytes int
	// Total asks for Page.Total. TotalLimit, if positive, is where the count stops.
	Total      bool
	TotalLimit int
	// Options say how much of each task to read.
	Options TaskOptions
	// Known, if not nil, is called with the outline of each task of the page before its content
	// is read, perhaps more than once. If it returns true, the caller has the content already:
	// the page holds the outline, which counts as size towards Bytes. It must not call the store,
	// and is not called with Options.Outline.
	Known func(outline *Task) (size int, ok bool) `json:"-"`
}

// Cursor is a place in the order of Store.Tasks: Time is what the list is sorted
// by.
type Cursor struct {
	Time time.Time
	ID   string
}

// CursorOf returns the place of a task in the query's order.
func (q *Query) CursorOf(t *Task) *Cursor {
	if q.ByCreated {
		return &Cursor{Time: t.CreatedAt, ID: t.Key.ID}
	}
	return &Cursor{Time: t.Status.Timestamp, ID: t.Key.ID}
}

// Fit makes a page of whole tasks the one that the query asks for: with outlines of those that
// the caller knows, the others cut, and no longer than its Bytes allow. Backends that have read
// everything use it.
func (p *Page) Fit(q Query) {
	size := 0
	for i, t := range p.Tasks {
		size += q.fit(&p.Tasks[i])
		if q.Bytes > 0 && size > q.Bytes && i+1 < len(p.Tasks) {
			p.Tasks = p.Tasks[:i+1]
			p.Next = q.CursorOf(t)
			return
		}
	}
}

// OutlineOnly reports whether the page holds only the outline of a task, and the bytes that the
// outline counts.
func (q *Query) OutlineOnly(outline *Task) (size int, ok bool) {
	if q.Options.Outline || q.Known == nil {
		return outline.Size(), q.Options.Outline
	}
	return q.Known(outline)
}

// fit replaces a whole task by what the query asks for, and returns how much of the page that takes.
func (q *Query) fit(t **Task) int {
	if q.Known != nil {
		outline := (*t).AsOutline()
		if size, ok := q.OutlineOnly(outline); ok {
			*t = outline
			return size
		}
	}
	(*t).Cut(q.Options)
	return (*t).Size()
}

// Page is a part of a list.
type Page struct {
	Tasks []*Task
	// Next continues the list; nil at its end.
	Next *Cursor
	// Total is how many tasks match, -1 when it was not asked for. TotalCapped means that
	// there are more, or may be: the count stopped at Query.TotalLimit, or see [TotalScan].
	Total       int
	TotalCapped bool
}

// TotalScan is how many entries of an index a count with a limit reads that finds matches
// among others: it stops there, however few it has found.
const TotalScan = 50_000

// CountRows returns how many entries of an index a count with a limit reads, 0 being none.
// In an exact count every entry matches.
func CountRows(limit int, exact bool) int {
	switch {
	case limit <= 0:
		return math.MaxInt
	case exact:
		return limit + 1
	}
	return max(limit+1, TotalScan)
}

// CapTotal returns the total of a count that found n matches in the given number of
// entries, of the CountRows that it was to read.
func CapTotal(n, entries, limit int, exact bool) (total int, capped bool) {
	if limit <= 0 {
		return n, false
	}
	return min(n, limit), n > limit || entries >= CountRows(limit, exact)
}
