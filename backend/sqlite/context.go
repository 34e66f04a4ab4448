package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

// The statements that read and save a context's row. Saving a context leaves first_pk
// unchanged.
var (
	sqlContextHead = `SELECT ` + headColumns.List("") + ` FROM context_rows WHERE owner = ? AND id = ?`
	// sqlReadContexts reads the contexts of a JSON array of ids with their first tasks, which are found by their pk,
	// because the indexes by context omit them.
	sqlReadContexts = `SELECT json_each.key, t.created_at, t.id, ` + headColumns.List("c.") + `, c.record FROM json_each(?2)
		CROSS JOIN context_rows c ON c.owner = ?1 AND c.id = json_each.value LEFT JOIN task_rows t ON t.pk = c.first_pk`
	sqlSaveContext   = `INSERT INTO context_rows (` + newContext.List("") + `) VALUES (` + newContext.Marks() + `)`
	sqlContextFirst  = `SELECT ` + firstColumns.List("t.") + ` FROM context_rows c JOIN task_rows t ON t.pk = c.first_pk WHERE c.owner = ? AND c.id = ?`
	sqlUpdateContext = `UPDATE context_rows SET ` + changedContext.Set() + ` WHERE owner = ? AND id = ?`
)

const (
	// sqlNewestTasks reads the newest tasks of the contexts of a JSON array of ids, without their first tasks.
	sqlNewestTasks = `SELECT json_each.key, t.created_at, t.id FROM json_each(?2) CROSS JOIN task_rows t ON t.pk IN (
		SELECT pk FROM task_rows INDEXED BY task_rows_context_created
		WHERE owner = ?1 AND context_id = json_each.value AND first = 0 ORDER BY created_at DESC, id DESC LIMIT ?3)`

	// The other columns of a new context have their defaults.
	sqlInsertContext = `INSERT INTO context_rows (owner, id, created_at, updated_at, bucket, first_pk) VALUES (?,?,?,?,?,?)
		ON CONFLICT DO NOTHING`
	sqlDropContext = `DELETE FROM context_rows WHERE owner = ? AND id = ?`
	// SQLite updates an index when a statement names one of its columns. So a statement
	// names bucket only when it changes.
	sqlCountContext = `UPDATE context_rows SET task_count = task_count + ?1 WHERE owner = ?2 AND id = ?3`
	sqlTouchContext = `UPDATE context_rows SET task_count = task_count + ?1, updated_at = ?4 WHERE owner = ?2 AND id = ?3`
	sqlUseContext   = `UPDATE context_rows SET task_count = task_count + ?1, updated_at = ?4, bucket = 'active.used' WHERE owner = ?2 AND id = ?3`
	sqlTouchLabels  = `UPDATE context_labels SET updated_at = ? WHERE owner = ? AND id = ?`
)

// The bucket of a context is the value by which lists and counters group contexts. It
// is the context's status, with three exceptions.
const (
	bucketNew      = "active.new"  // not saved by SaveContext, not updated after its creation
	bucketUsed     = "active.used" // not saved by SaveContext, updated after its creation
	bucketDeleting = ""            // the deletion is pending
)

// statusOf returns the status of the contexts in a bucket.
func statusOf(bucket string) a2a.ContextStatus {
	if bucket == bucketNew || bucket == bucketUsed {
		return a2a.ContextActive
	}
	return a2a.ContextStatus(bucket)
}

// contextStore reads, saves and deletes contexts.
type contextStore struct{ *changeWriter }

// contextWriter changes contexts, their labels and their counters.
type contextWriter struct{ *counterWriter }

// contextHead has the columns of a context's row that preconditions need.
type contextHead struct {
	found     bool
	Bucket    string `col:"bucket"`
	CreatedAt int64  `col:"created_at"`
	UpdatedAt int64  `col:"updated_at"`
	Version   int64  `col:"version"`
	Tasks     int64  `col:"task_count"`
	FirstPK   int64  `col:"first_pk"`
	Labels    int64  `col:"labels"`
}

// contextRow is a row of context_rows.
type contextRow struct {
	Key store.ContextKey `col:"owner,id"`
	contextHead
	Name   string `col:"name"`
	Record string `col:"record"`
}

var (
	headColumns    = sqlrow.Of[contextHead]()
	newContext     = sqlrow.Of[contextRow]().Without("first_pk")
	changedContext = newContext.Only("updated_at bucket name version labels record")
)

func (c *contextHead) scan(r record) {
	headColumns.Scan(c, r.int, r.text)
	c.found = true
}

func (c *contextHead) status() a2a.ContextStatus { return statusOf(c.Bucket) }

// live reports whether reads return the context.
func (c *contextHead) live() bool { return c.found && c.Bucket != bucketDeleting }

// readContextHead reads a context's row, also while its deletion is pending.
func (c *conn) readContextHead(k store.ContextKey) (head contextHead, err error) {
	err = c.query(sqlContextHead, func(r record) error {
		head.scan(r)
		return nil
	}, k.Owner, k.ID)
	return head, err
}

// decodeContext returns the context that a row describes. data is the row's record, nil
// if it has none.
func decodeContext(k store.ContextKey, head *contextHead, data []byte) (c store.Context, err error) {
	c = store.Context{
		Key: k, Role: store.DefaultContextRole, Status: head.status(),
		CreatedAt: fromMillis(head.CreatedAt), UpdatedAt: fromMillis(head.UpdatedAt),
		Version: head.Version, TaskCount: int(head.Tasks),
	}
	if data == nil {
		return c, nil
	}
	return c, encoding.DecodeContext(&c, data)
}

// touchContextRow sets updated_at to the time of a client message if that is later, and
// adds to the number of tasks.
func (w *contextWriter) touchContextRow(k store.ContextKey, c *contextHead, at, tasks int64) (err error) {
	switch moved := at > c.UpdatedAt; {
	case moved && c.Bucket == bucketNew:
		_, err = w.exec(sqlUseContext, tasks, k.Owner, k.ID, at)
		w.addCount(k.Owner, labelAll, bucketNew, -1)
		w.addCount(k.Owner, labelAll, bucketUsed, 1)
	case moved:
		_, err = w.exec(sqlTouchContext, tasks, k.Owner, k.ID, at)
		if err == nil && c.Labels > 0 {
			_, err = w.exec(sqlTouchLabels, at, k.Owner, k.ID)
		}
	case tasks != 0:
		_, err = w.exec(sqlCountContext, tasks, k.Owner, k.ID)
	}
	return err
}

// Context implements store.Contexts.
func (s *contextStore) Context(ctx context.Context, owner, id string, tasks int) (c store.Context, err error) {
	err = s.read(ctx, func(r *reader) error {
		return r.readTx(func() (err error) {
			all, err := r.readContexts(owner, []string{id}, tasks)
			if err == nil && len(all) == 0 {
				err = store.ErrNotFound
			}
			if err == nil {
				c = all[0]
			}
			return err
		})
	})
	if err != nil {
		return store.Context{}, err
	}
	return c, nil
}

// readTx runs f in a read transaction, so that all its reads see the same state.
func (r *reader) readTx(f func() error) error {
	if _, err := r.exec("BEGIN"); err != nil {
		return err
	}
	err := f()
	if _, e := r.exec("COMMIT"); e != nil {
		return errors.Join(err, e)
	}
	return err
}

// readContexts returns contexts in the order of their ids, with the ids of their newest tasks. It omits contexts that do
// not exist.
func (r *reader) readContexts(owner string, ids []string, tasks int) ([]store.Context, error) {
	contexts, newest, more := make([]store.Context, len(ids)), make([][]position, len(ids)), false
	list, _ := json.Marshal(ids) // ids are UTF-8
	err := r.query(sqlReadContexts, func(rec record) (err error) {
		i := int(rec.int(0))
		var head contextHead
		head.scan(rec[3:])
		if !head.live() {
			return nil
		}
		var data []byte
		if record := 3 + headColumns.Len(); !rec.null(record) {
			data = rec.json(record)
		}
		if !rec.null(2) {
			newest[i] = append(newest[i], position{at: rec.int(1), id: rec.text(2)})
		}
		more = more || head.Tasks > int64(len(newest[i]))
		contexts[i], err = decodeContext(store.ContextKey{Owner: owner, ID: ids[i]}, &head, data)
		return err
	}, owner, string(list))
	if err == nil && more && tasks > 0 {
		err = r.query(sqlNewestTasks, func(rec record) error {
			i := int(rec.int(0))
			newest[i] = append(newest[i], position{at: rec.int(1), id: rec.text(2)})
			return nil
		}, owner, string(list), int64(tasks))
	}
	if err != nil {
		return nil, err
	}
	for i, found := range newest {
		slices.SortFunc(found, comparePositions)
		for _, t := range found[max(0, len(found)-max(0, tasks)):] {
			contexts[i].TaskIDs = append(contexts[i].TaskIDs, t.id)
		}
	}
	return slices.DeleteFunc(contexts, func(c store.Context) bool { return c.Key.ID == "" }), nil
}

// firstTask is the first task of a context.
type firstTask struct {
	CreatedAt int64  `col:"created_at"`
	StateAt   int64  `col:"state_at"`
	ID        string `col:"id"`
	PK        int64  `col:"pk"`
	State     string `col:"state"`
}

var firstColumns = sqlrow.Of[firstTask]()

// firstTask returns the first task of a context. Its PK is 0 if it was deleted.
func (c *conn) firstTask(k store.ContextKey) (f firstTask, err error) {
	err = c.query(sqlContextFirst, func(r record) error {
		firstColumns.Scan(&f, r.int, r.text)
		return nil
	}, k.Owner, k.ID)
	return f, err
}

// contextTasks returns the first task of a context and up to n tasks that a statement
// finds, oldest first.
func (c *conn) contextTasks(text string, k store.ContextKey, n int) (found []position, err error) {
	first, err := c.firstTask(k)
	if err != nil {
		return nil, err
	}
	if first.PK != 0 {
		found = append(found, position{at: first.CreatedAt, id: first.ID})
	}
	err = c.query(text, func(r record) error {
		found = append(found, position{at: r.int(0), id: r.text(1)})
		return nil
	}, k.Owner, k.ID, int64(n))
	slices.SortFunc(found, comparePositions)
	return found, err
}
