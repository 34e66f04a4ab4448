package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	// groupWeight bounds the changes of one transaction, groupBytes their size.
	groupWeight = 256
	groupBytes  = 8 << 20
	// largeBytes is the size from which a request is large. At most largeQueued of
	// these are queued or being applied, so that bulk writes of one caller delay small
	// changes of others by no more than that.
	largeBytes  = 256 << 10
	largeQueued = 2
	// queueLength is the number of requests that can be queued without blocking their
	// callers.
	queueLength = 1024
	// rowCacheSize is the size of a generation of the row cache, which has two.
	rowCacheSize = 8192
)

// request is work for the writer. apply runs in a transaction. If the transaction fails
// because of another request, apply runs again from the start.
type request struct {
	apply  func(w *writer) error
	weight int
	bytes  int
	state  atomic.Int32
	done   chan error
}

// The states of a request. A canceled caller abandons a request unless the writer has
// started it.
const (
	requestQueued int32 = iota
	requestStarted
	requestAbandoned
)

// writer owns the connection that writes. Only its goroutine may use it, except for queue,
// large, counts and recent.
type writer struct {
	*conn
	queue chan *request
	large chan struct{} // one token per large request
	log   *slog.Logger

	begin, commit, rollback *stmt

	selectRow                                                     *stmt
	insertRow, insertLog, insertContent, dropSnapshot, upsertStep *stmt
	updateAll, updateStatus, updateLog, updateQueue, updateLease  *stmt
	insertKey, selectKey, dropKey, expireKeys, updateHeartbeat    *stmt
	recentKeys, firstKey, keysIndexed                             *stmt
	queuedOwner, leasedOwner, ownerReady, leasedDue, leasedBeyond *stmt
	nextContext, contextReady, leaseBounds                        *stmt
	waitingDue, waitingBeyond, makeReady, waitBounds              *stmt
	contextStatements
	deleteStatements
	feedbackStatements
	laneStatements
	selectRecord, insertRecord, updateRecord, deleteRecord *stmt
	upsertCounter, dropCounter                             *stmt

	rows               *rowCache
	terminal           *terminalCache
	watchers           *store.LaneWatchers
	nextPK, nextLane   int64
	backlog            store.Backlog
	leases, laneLeases timeBounds
	waits              timeBounds // due times of waiting tasks
	// recent has the records of tasks above indexed, which are not in the index. move
	// is the move in progress, or nil.
	recent  *recentKeys
	indexed int64
	move    *keyMove

	// The staged state of the current transaction, published after its commit.
	pending                      map[store.Key]taskRow
	pendingCounts                store.Backlog
	pendingNext, pendingNextLane int64
	counterChanges               map[counterKey]int64
	pendingKeys                  map[keyName]recentRecord
	pendingMoved                 int // move.next after the commit, 0 if unchanged
	// lanesDue reports that lanes became due.
	lanesDue bool

	// canShrink reports that the file can shrink, shrinking that it is doing so.
	canShrink, shrinking bool

	counts atomic.Pointer[store.Backlog]
	wal    *checkpointer
	files  *fileGuard
}

// submit queues a request and waits for its result. If ctx is done before the writer
// has started it, the request is not applied.
func (s *Store) submit(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.cfg.ReadOnly {
		return errReadOnly
	}
	r.done = make(chan error, 1)
	if r.bytes >= largeBytes {
		select {
		case s.writer.large <- struct{}{}:
			defer func() { <-s.writer.large }()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case s.writer.queue <- r:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		if r.state.CompareAndSwap(requestQueued, requestAbandoned) {
			return ctx.Err()
		}
		return <-r.done
	}
}

// run serves the queue until it is closed.
func (w *writer) run() {
	idle := time.NewTimer(idleDelay)
	defer idle.Stop()
	group := make([]*request, 0, groupWeight)
	for {
		select {
		case r, ok := <-w.queue:
			if !ok {
				return
			}
			group = w.collectGroup(append(group[:0], r))
			if w.shouldMove() {
				group = append(group, &request{apply: (*writer).moveKeys, done: make(chan error, 1)})
			}
			w.runGroup(group)
			clear(group)
			w.wal.afterGroup()
			idle.Reset(idleDelay)
		case <-w.wal.drained:
			w.wal.reset(w)
		case <-w.wal.overdue:
			w.wal.resume()
		case <-idle.C:
			_ = w.files.check() // logged; the next change is rejected
			w.wal.truncate(w)
			idle.Reset(idleDelay)
		}
	}
}

// collectGroup adds queued requests to a group, up to its bounds. It does not wait for
// more.
func (w *writer) collectGroup(group []*request) []*request {
	weight, size := group[0].weight, group[0].bytes
	for weight < groupWeight && size < groupBytes {
		select {
		case r, ok := <-w.queue:
			if !ok {
				return group
			}
			group = append(group, r)
			weight, size = weight+r.weight, size+r.bytes
		default:
			return group
		}
	}
	return group
}

func (w *writer) runGroup(group []*request) {
	started := group[:0]
	for _, r := range group {
		if r.state.CompareAndSwap(requestQueued, requestStarted) {
			started = append(started, r)
		}
	}
	if len(started) == 0 {
		return
	}
	err := w.transact(started)
	if err == nil || len(started) == 1 || w.files.lost() != nil {
		for _, r := range started {
			r.done <- err
		}
		return
	}
	w.log.Warn("group of changes was rolled back, retrying each separately", "error", err, "requests", len(started))
	for i := range started {
		started[i].done <- w.transact(started[i : i+1])
	}
}

// transact applies requests in one transaction, all or none. It checks the file after
// the commit, so that a change to a deleted or replaced file is never acknowledged.
func (w *writer) transact(group []*request) (err error) {
	if err := w.files.lost(); err != nil {
		return err
	}
	if _, err = w.begin.exec(); primaryCode(err) == sqlite3.SQLITE_ERROR {
		// A transaction that could not be rolled back is still open.
		_, _ = w.rollback.exec()
		_, err = w.begin.exec()
	}
	if err != nil {
		return wrapError(err, "begin")
	}
	clear(w.pending)
	clear(w.counterChanges)
	clear(w.pendingKeys)
	w.pendingMoved = 0
	w.pendingCounts, w.pendingNext, w.pendingNextLane, w.lanesDue = w.backlog, w.nextPK, w.nextLane, false
	defer func() {
		if err != nil {
			w.laneLeases = unknownBounds
			// The error is ignored: SQLite may have rolled back by itself.
			_, _ = w.rollback.exec()
		}
	}()
	for _, r := range group {
		if err := r.apply(w); err != nil {
			return wrapError(err, "apply change")
		}
	}
	if err := w.writeCounters(); err != nil {
		return wrapError(err, "count")
	}
	if _, err := w.commit.exec(); err != nil {
		return wrapError(err, "commit")
	}
	if err := w.files.check(); err != nil {
		return err
	}
	w.publish()
	return nil
}

// publish makes the staged state visible, after a commit.
func (w *writer) publish() {
	w.terminal.remove(w.pending)
	for key, row := range w.pending {
		if row.Phase == sqlrow.PhaseIdle {
			w.rows.remove(key)
			continue
		}
		w.rows.put(row)
	}
	w.nextPK, w.nextLane = w.pendingNext, w.pendingNextLane
	w.publishKeys()
	if w.lanesDue {
		w.watchers.Notify()
	}
	if w.backlog != w.pendingCounts {
		counts := w.pendingCounts
		w.backlog = counts
		w.counts.Store(&counts)
	}
}

// row returns a task's row, including changes of the current transaction.
func (w *writer) row(k store.Key) (row taskRow, found bool, err error) {
	if row, found = w.pending[k]; found {
		return row, row.PK != 0, nil
	}
	if row, found = w.rows.get(k); found {
		return row, true, nil
	}
	err = w.selectRow.query(context.Background(), func(r record) error {
		row.scan(r)
		found = true
		return nil
	}, k.Owner, k.ID)
	return row, found, err
}

// stageRemoval records that the current transaction removed a row.
func (w *writer) stageRemoval(row *taskRow) {
	w.pending[row.Key] = taskRow{Task: sqlrow.Task{Key: row.Key}}
	w.countPhase(row.Phase, -1)
}

// stageRow records a row that the current transaction wrote. before is its previous
// phase.
func (w *writer) stageRow(row taskRow, before int64) {
	w.pending[row.Key] = row
	w.countPhase(before, -1)
	w.countPhase(row.Phase, 1)
	switch row.Phase {
	case sqlrow.PhaseLeased:
		w.leases.widen(row.LeaseUntil)
	case sqlrow.PhaseWaiting:
		w.waits.widen(row.DueAt)
	}
}

func (w *writer) countPhase(phase int64, by int) {
	switch phase {
	case sqlrow.PhaseReady, sqlrow.PhaseWaiting:
		w.pendingCounts.Queued += by
	case sqlrow.PhaseLeased:
		w.pendingCounts.Leased += by
	}
}

// prepareWriter prepares the writer's statements.
func (w *writer) prepareWriter() error {
	return w.prepareAll(w.contextStatements.texts(), w.deleteStatements.texts(), w.feedbackStatements.texts(), w.laneStatements.texts(), map[**stmt]string{
		&w.begin:    `BEGIN IMMEDIATE`,
		&w.commit:   `COMMIT`,
		&w.rollback: `ROLLBACK`,

		&w.selectRecord: sqlSelectRecord, &w.insertRecord: sqlInsertRecord, &w.updateRecord: sqlUpdateRecord, &w.deleteRecord: sqlDeleteRecord,

		&w.selectRow:     sqlSelectRow,
		&w.insertRow:     `INSERT INTO task_rows (` + newTask.List("") + `) VALUES (` + newTask.Marks() + `) ON CONFLICT (owner, id) DO NOTHING`,
		&w.insertLog:     `INSERT INTO task_log (id, n, key, key_hash, snapshot, events, large) VALUES (?,?,?,?,?,?,?)`,
		&w.insertContent: `INSERT INTO task_contents (task_pk, hash, data) VALUES (?,?,?) ON CONFLICT DO NOTHING`,
		&w.dropSnapshot:  `UPDATE task_log SET snapshot = NULL WHERE id = ? AND snapshot IS NOT NULL`,
		&w.upsertStep: `INSERT INTO task_steps (task_pk, turn, name, result, artifacts) VALUES (?,?,?,?,?)
			ON CONFLICT DO UPDATE SET result = excluded.result, artifacts = excluded.artifacts`,

		// SQLite updates an index when a statement names one of its columns, even if
		// the value stays the same. So each kind of change has a statement that names
		// only its own columns.
		&w.updateAll:    `UPDATE task_rows SET ` + taskAll.Set() + ` WHERE pk=?`,
		&w.updateStatus: `UPDATE task_rows SET ` + taskStatus.Set() + ` WHERE pk=?`,
		&w.updateLog:    `UPDATE task_rows SET ` + taskLog.Set() + ` WHERE pk=?`,
		&w.updateQueue:  `UPDATE task_rows SET ` + taskQueue.Set() + ` WHERE pk=?`,
		&w.updateLease:  `UPDATE task_rows SET lease_until=? WHERE pk=?`,

		&w.insertKey: `INSERT INTO idempotency_keys (owner, key, hash, task_id, seq, created_at, lookup) VALUES (?,?,?,?,?,?,?)
			ON CONFLICT DO NOTHING`,
		&w.recentKeys:      sqlRecentKeys,
		&w.firstKey:        `SELECT key FROM task_log WHERE id = ? AND key IS NOT NULL`,
		&w.keysIndexed:     `UPDATE idempotency_indexed SET task_pk = ? WHERE pk = 2`,
		&w.selectKey:       sqlSelectKey,
		&w.dropKey:         `DELETE FROM idempotency_keys WHERE owner = ? AND key = ?`,
		&w.expireKeys:      sqlExpireKeys,
		&w.upsertCounter:   sqlUpsertCounter,
		&w.dropCounter:     sqlDropCounter,
		&w.updateHeartbeat: `UPDATE heartbeat SET beats = beats + 1 WHERE pk = 2`,

		&w.queuedOwner: sqlQueuedOwner, &w.leasedOwner: sqlLeasedOwner,
		&w.ownerReady: sqlOwnerReady, &w.nextContext: sqlNextContext, &w.contextReady: sqlContextReady,
		&w.leasedDue: sqlLeasedDue, &w.leasedBeyond: sqlLeasedBeyond,
		&w.leaseBounds: `SELECT min(lease_until), max(lease_until) FROM task_rows INDEXED BY task_rows_leased WHERE phase = 2`,
		&w.waitingDue:  sqlWaitingDue, &w.waitingBeyond: sqlWaitingBeyond,
		&w.makeReady:  `UPDATE task_rows SET phase = 1 WHERE pk = ?`,
		&w.waitBounds: `SELECT min(due_at), max(due_at) FROM task_rows INDEXED BY task_rows_waiting WHERE phase = 3`,
	})
}

// loadState loads the state that the writer keeps in memory.
func (w *writer) loadState() error {
	ctx := context.Background()
	pk, err := w.ints(ctx, `SELECT max((SELECT coalesce(max(pk), 0) FROM task_rows), (SELECT coalesce(max(pk), 0) FROM tasks_deleted))`)
	if err != nil {
		return fmt.Errorf("read the last task: %w", err)
	}
	counts, err := w.ints(ctx, sqlBacklog)
	if err != nil {
		return fmt.Errorf("count the backlog: %w", err)
	}
	lane, err := w.ints(ctx, `SELECT coalesce(max(pk), 0) FROM webhook_lanes`)
	if err != nil {
		return fmt.Errorf("read the last webhook: %w", err)
	}
	// SQLite plans a statement again when an argument changes from or to 0 or 1.
	w.nextPK, w.nextLane = max(pk[0], 15)+1, max(lane[0], 15)+1
	w.laneLeases = unknownBounds
	w.backlog = store.Backlog{Queued: int(counts[0]), Leased: int(counts[1])}
	w.counts.Store(&store.Backlog{Queued: w.backlog.Queued, Leased: w.backlog.Leased})
	return errors.Join(w.loadShrink(), w.loadRecent(), w.leases.load(w.leaseBounds), w.waits.load(w.waitBounds))
}
