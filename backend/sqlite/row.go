package sqlite

import (
	"errors"
	"fmt"
	"sync/atomic"
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

// The columns that statements write, and these statements. SQLite updates an index when a
// statement names one of its columns, even if the value stays the same. So each kind of change
// has a statement that names only its own columns.
var (
	newTask    = taskColumns.Without("lanes")
	taskLog    = taskColumns.Only("seq checkpoint updated_at bytes")
	taskStatus = taskColumns.Only("state state_at seq received_seq checkpoint updated_at bytes")
	taskQueue  = taskColumns.Only(sqlrow.QueueColumns)
	taskAll    = taskStatus.And(taskQueue)

	sqlInsertRow    = `INSERT INTO task_rows (` + newTask.List("") + `) VALUES (` + newTask.Marks() + `) ON CONFLICT (owner, id) DO NOTHING`
	sqlUpdateAll    = `UPDATE task_rows SET ` + taskAll.Set() + ` WHERE pk=?`
	sqlUpdateStatus = `UPDATE task_rows SET ` + taskStatus.Set() + ` WHERE pk=?`
	sqlUpdateLog    = `UPDATE task_rows SET ` + taskLog.Set() + ` WHERE pk=?`
	sqlUpdateQueue  = `UPDATE task_rows SET ` + taskQueue.Set() + ` WHERE pk=?`
)

const sqlUpdateLease = `UPDATE task_rows SET lease_until=? WHERE pk=?`

func (t *taskRow) scan(r record) { taskColumns.Scan(t, r.int, r.text) }

func (t *taskRow) contextKey() store.ContextKey {
	return store.ContextKey{Owner: t.Key.Owner, ID: t.ContextID}
}

// logID returns the id of the log row that starts with the event of the given sequence.
func (t *taskRow) logID(seq int64) int64 { return t.PK<<logShift | seq }

// The id of a log row is the task's pk << logShift plus the sequence of its first
// event.
const (
	logShift = 24
	logMask  = 1<<logShift - 1
)

// taskWriter reads and writes rows of tasks. It caches rows of queued and leased tasks, and
// counts these.
type taskWriter struct {
	*conn
	rows     *rowCache
	terminal *terminalCache
	nextPK   int64
	backlog  store.Backlog
	leases   timeBounds
	waits    timeBounds // due times of waiting tasks
	counts   atomic.Pointer[store.Backlog]

	// The staged state.
	pending       map[store.Key]taskRow // a row with PK 0 was removed
	pendingCounts store.Backlog
	pendingNext   int64
}

// rowCacheSize is the size of a generation of the row cache, which has two.
const rowCacheSize = 8192

func (w *taskWriter) load() error {
	pk, err := w.ints(`SELECT max((SELECT coalesce(max(pk), 0) FROM task_rows), (SELECT coalesce(max(pk), 0) FROM tasks_deleted))`)
	if err != nil {
		return fmt.Errorf("read the last task: %w", err)
	}
	counts, err := w.ints(sqlBacklog)
	if err != nil {
		return fmt.Errorf("count the backlog: %w", err)
	}
	w.nextPK = nextPK(pk[0])
	w.backlog = store.Backlog{Queued: int(counts[0]), Leased: int(counts[1])}
	w.publishCounts()
	return errors.Join(w.leases.load(w.conn, sqlLeaseBounds), w.waits.load(w.conn, sqlWaitBounds))
}

// nextPK returns the primary key after the last one. Keys start above 1, because SQLite
// plans a statement again when an argument changes from or to 0 or 1.
func nextPK(last int64) int64 { return max(last, 15) + 1 }

func (w *taskWriter) stage() {
	clear(w.pending)
	w.pendingCounts, w.pendingNext = w.backlog, w.nextPK
}

func (w *taskWriter) publish() {
	w.terminal.remove(w.pending)
	for key, row := range w.pending {
		if row.Phase == sqlrow.PhaseIdle {
			w.rows.remove(key)
			continue
		}
		w.rows.put(row)
	}
	w.nextPK = w.pendingNext
	if w.backlog != w.pendingCounts {
		w.backlog = w.pendingCounts
		w.publishCounts()
	}
}

func (w *taskWriter) publishCounts() {
	counts := w.backlog
	w.counts.Store(&counts)
}

// row returns a task's row, including changes of the current transaction.
func (w *taskWriter) row(k store.Key) (row taskRow, found bool, err error) {
	if row, found = w.pending[k]; found {
		return row, row.PK != 0, nil
	}
	if row, found = w.rows.get(k); found {
		return row, true, nil
	}
	err = w.query(sqlSelectRow, func(r record) error {
		row.scan(r)
		found = true
		return nil
	}, k.Owner, k.ID)
	return row, found, err
}

// stageRemoval records that the current transaction removed a row.
func (w *taskWriter) stageRemoval(row *taskRow) {
	w.pending[row.Key] = taskRow{Task: sqlrow.Task{Key: row.Key}}
	w.countPhase(row.Phase, -1)
}

// stageRow records a row that the current transaction wrote. before is its previous
// phase.
func (w *taskWriter) stageRow(row taskRow, before sqlrow.Phase) {
	w.pending[row.Key] = row
	w.countPhase(before, -1)
	w.countPhase(row.Phase, 1)
	switch row.Phase {
	case sqlrow.PhaseLeased:
		w.leases.widen(row.LeaseUntil)
	case sqlrow.PhaseWaiting:
		w.waits.widen(row.DueAt)
	default: // the time of other rows is not checked
	}
}

func (w *taskWriter) countPhase(phase sqlrow.Phase, by int) {
	switch phase {
	case sqlrow.PhaseReady, sqlrow.PhaseWaiting:
		w.pendingCounts.Queued += by
	case sqlrow.PhaseLeased:
		w.pendingCounts.Leased += by
	default: // not counted
	}
}

// rowCache caches rows of tasks. It has two generations of up to limit rows. When the
// young one is full, it replaces the old one, and the rows of the old one are dropped.
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
