package sqlite

import (
	"time"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

// taskRow is a row of task_rows.
type taskRow struct {
	sqlrow.Task
	First int64 `col:"first"` // 1 for the first task of its context
	Lanes int64 `col:"lanes"` // number of its webhooks
}

var taskColumns = sqlrow.Of[taskRow]()

// rowColumns are the columns of task_rows that scan reads, rowWidth is their number.
var (
	rowColumns = taskColumns.List("t.")
	rowWidth   = taskColumns.Len()
)

// The columns that statements write. SQLite updates an index when a statement names one of its
// columns, so there are several updates.
var (
	newTask    = taskColumns.Without("lanes")
	taskLog    = taskColumns.Only("seq checkpoint updated_at bytes")
	taskStatus = taskColumns.Only("state state_at seq received_seq checkpoint updated_at bytes")
	taskQueue  = taskColumns.Only(sqlrow.QueueColumns)
	taskAll    = taskStatus.And(taskQueue)
)

func (t *taskRow) scan(r record) { taskColumns.Scan(t, r.int, r.text) }

func (t *taskRow) contextKey() store.ContextKey {
	return store.ContextKey{Owner: t.Key.Owner, ID: t.ContextID}
}

// logID returns the id of the log row whose first event has the given sequence.
func (t *taskRow) logID(seq int64) int64 { return t.PK<<logShift | seq }

// The id of a log row is the task's pk << logShift plus the sequence of its first
// event.
const (
	logShift = 24
	logMask  = 1<<logShift - 1
)

// rowCache caches rows of tasks. It has two generations of up to limit rows. When the
// young one is full, it replaces the old one, whose rows are dropped.
type rowCache struct {
	limit int
	young map[store.Key]taskRow
	old   map[store.Key]taskRow
}

func newRowCache(limit int) *rowCache {
	return &rowCache{limit: limit, young: make(map[store.Key]taskRow)}
}

func (c *rowCache) get(k store.Key) (taskRow, bool) {
	if row, ok := c.young[k]; ok {
		return row, true
	}
	row, ok := c.old[k]
	return row, ok
}

func (c *rowCache) put(row taskRow) {
	if _, ok := c.young[row.Key]; !ok && len(c.young) >= c.limit {
		c.old, c.young = c.young, make(map[store.Key]taskRow, c.limit/4)
	}
	c.young[row.Key] = row
}

func (c *rowCache) remove(k store.Key) {
	delete(c.young, k)
	delete(c.old, k)
}

func millis(t time.Time) int64 { return encoding.Millis(t) }

func fromMillis(ms int64) time.Time { return encoding.FromMillis(ms) }
