package store

import (
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

// TaskOptions select the content of a task to read.
type TaskOptions struct {
	// History limits the messages to the newest *History ones; nil reads all.
	History *int
	// OmitArtifacts omits the artifacts.
	OmitArtifacts bool
	// Outline omits all content, as [Task.AsOutline] does. The store reads none, and the
	// other options have no effect.
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
	// CreatedAfter and CreatedBefore bound the creation time: After <= time < Before.
	CreatedAfter  time.Time
	CreatedBefore time.Time
	// ByCreated sorts by creation time instead of status time.
	ByCreated bool
	// Ascending reverses the order, also of ids.
	Ascending bool
	// Cursor continues after the last task of the previous page; nil starts the list.
	Cursor *Cursor
	// Offset is the number of tasks to skip first.
	Offset int
	// Limit is the maximum size of the page, at least 1.
	Limit int
	// MaxBytes, if positive, limits the content of the page: it ends after the first task
	// with which the sum of Task.Size exceeds MaxBytes. Such a page has a Next if more tasks
	// match.
	MaxBytes int
	// Total requests Page.Total. TotalLimit, if positive, is where the count stops.
	Total      bool
	TotalLimit int
	// Options select the content of each task to read.
	Options TaskOptions
	// Cached, if not nil, reports whether the caller has the content of a task already.
	// The store calls it with the outline of each task of the page before it reads the
	// content, possibly more than once. If ok is true, the page contains the outline,
	// which counts as size bytes towards MaxBytes. Cached must not call the store. It is not
	// called if Options.Outline is set.
	Cached func(outline *Task) (size int, ok bool) `json:"-"`
}

// Cursor is a position in the order of Store.Tasks. Time is the time by which the list is
// sorted.
type Cursor struct {
	Time time.Time
	ID   string
}

// CursorOf returns the position of a task in the query's order.
func (q *Query) CursorOf(t *Task) *Cursor {
	if q.ByCreated {
		return &Cursor{Time: t.CreatedAt, ID: t.Key.ID}
	}
	return &Cursor{Time: t.Status.Timestamp, ID: t.Key.ID}
}

// Fit reduces a page of completely read tasks to the content that the query requests, as
// limited by Options, Cached and MaxBytes. Backends that always read everything use it.
func (p *Page) Fit(q Query) {
	size := 0
	for i, t := range p.Tasks {
		size += q.fit(&p.Tasks[i])
		if q.MaxBytes > 0 && size > q.MaxBytes && i+1 < len(p.Tasks) {
			p.Tasks = p.Tasks[:i+1]
			p.Next = q.CursorOf(t)
			return
		}
	}
}

// OutlineOnly reports whether the page contains only the outline of a task, and the
// number of bytes that count towards MaxBytes.
func (q *Query) OutlineOnly(outline *Task) (size int, ok bool) {
	if q.Options.Outline || q.Cached == nil {
		return outline.Size(), q.Options.Outline
	}
	return q.Cached(outline)
}

// fit reduces a completely read task to the requested content and returns its size.
func (q *Query) fit(t **Task) int {
	if q.Cached != nil {
		outline := (*t).AsOutline()
		if size, ok := q.OutlineOnly(outline); ok {
			*t = outline
			return size
		}
	}
	(*t).Cut(q.Options)
	return (*t).Size()
}

// Page is a page of a list of tasks.
type Page struct {
	Tasks []*Task
	// Next continues the list; nil at its end.
	Next *Cursor
	// Total is the number of tasks that match, or -1 if it was not requested. TotalCapped
	// reports that more tasks may match: the count stopped at Query.TotalLimit or after
	// [TotalScan] entries.
	Total       int
	TotalCapped bool
}

// TotalScan is the maximum number of index entries that a count with a limit reads if
// not every entry matches the query.
const TotalScan = 50_000

// CountRows returns the number of index entries that a count may read. A limit of 0 is
// no limit. In an exact count every entry matches.
func CountRows(limit int, exact bool) int {
	switch {
	case limit <= 0:
		return math.MaxInt
	case exact:
		return limit + 1
	}
	return max(limit+1, TotalScan)
}

// CapTotal returns the total of a count that found n matches after it read the given
// number of entries, at most CountRows.
func CapTotal(n, entries, limit int, exact bool) (total int, capped bool) {
	if limit <= 0 {
		return n, false
	}
	return min(n, limit), n > limit || entries >= CountRows(limit, exact)
}
