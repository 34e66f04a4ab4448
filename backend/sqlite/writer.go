package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	// groupWeight bounds the changes of one transaction, groupBytes their size.
	groupWeight = 256
	groupBytes  = 8 << 20
	// largeBytes is the size of a large request, largeQueued how many of these are queued or under way at
	// once: what one caller writes in bulk delays the small changes of others by no more than that.
	largeBytes  = 256 << 10
	largeQueued = 2
	// queueLength is how many requests may wait without blocking their callers.
	queueLength = 1024
	// hotRows is the limit of the row cache.
	hotRows = 8192
)

// request is something to be done by the writer. apply runs inside a
// transaction, and again, from the start, if that one failed because of a
// neighbour.
type request struct {
	apply  func(w *writer) error
	weight int
	bytes  int
	state  atomic.Int32
	done   chan error
}

// The states of a request: a caller that gives up and the writer compete for it.
const (
	requestQueued int32 = iota
	requestTaken
	requestAbandoned
)

// writer owns the connection that writes. Everything in it belongs to the
// goroutine that runs it.
type writer struct {
	*conn
	queue chan *request
	large chan struct{} // a token per large request
	log   *slog.Logger

	begin, commit, rollback *stmt

	selectRow                                                            *stmt
	insertRow, insertLog, insertContent, dropSnapshot, upsertStep        *stmt
	updateAll, updateStatus, updateLog, updateRun, updateLease           *stmt
	insertKey, selectKey, dropKey, expireKeys, beat                      *stmt
	recentKeys, firstKey, keysIndexed                                    *stmt
	queuedOwner, leasedOwner, queuedDue, queuedFar, leasedDue, leasedFar *stmt
	nextContext, contextDue, contextFar, leaseBounds                     *stmt
	waitingDue, waitingFar, makeReady, waitBounds                        *stmt
	contextStatements
	deleteStatements
	feedbackStatements
	laneStatements
	upsertTally, dropTally *stmt

	rows               *rowCache
	rest               *restCache
	watchers           *laneWatchers
	nextPK, nextLane   int64
	backlog            store.Backlog
	leases, laneLeases leaseBounds
	waits              leaseBounds // of the due times of waiting tasks
	// Records of tasks up to indexed are in the index; move is under way, or nil.
	recent  *recentKeys
	indexed int64
	move    *keyMove

	// pending are rows and counts of the transaction under way.
	pending                      map[store.Key]taskRow
	pendingCounts                store.Backlog
	pendingNext, pendingNextLane int64
	tallies                      map[tallyKey]int64
	pendingKeys                  map[keyName]recentRecord
	pendingMoved                 int // next of move, 0 if it stays
	// lanesDue says that lanes have become due.
	lanesDue bool

	// shrinks says that the file can give space back, shrinking that it is doing so.
	shrinks, shrinking bool

	counts atomic.Pointer[store.Backlog]
	wal    *walKeeper
	files  *fileGuard
}

// submit hands a request to the writer and waits for its end. When ctx ends
// before the writer has taken the request, it is not applied.
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
	idle := time.NewTimer(idleAfter)
	defer idle.Stop()
	group := make([]*request, 0, groupWeight)
	for {
		select {
		case r, ok := <-w.queue:
			if !ok {
				return
			}
			group = w.gather(append(group[:0], r))
			if w.moving() {
				group = append(group, &request{apply: (*writer).moveKeys, done: make(chan error, 1)})
			}
			w.runGroup(group)
			clear(group)
			w.wal.afterGroup()
			idle.Reset(idleAfter)
		case <-w.wal.drained:
			w.wal.startOver(w)
		case <-w.wal.overdue:
			w.wal.resume()
		case <-idle.C:
			_ = w.files.check() // logged; the next change is rejected
			w.wal.truncate(w)
			idle.Reset(idleAfter)
		}
	}
}

// gather takes what is queued, up to the bounds of a group. It does not wait.
func (w *writer) gather(group []*request) []*request {
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
	taken := group[:0]
	for _, r := range group {
		if r.state.CompareAndSwap(requestQueued, requestTaken) {
			taken = append(taken, r)
		}
	}
	if len(taken) == 0 {
		return
	}
	err := w.transact(taken)
	if err == nil || len(taken) == 1 || w.files.lost() != nil {
		for _, r := range taken {
			r.done <- err
		}
		return
	}
	w.log.Warn("group of changes was rolled back, trying them one by one", "error", err, "requests", len(taken))
	for i := range taken {
		taken[i].done <- w.transact(taken[i : i+1])
	}
}

// transact applies requests in one transaction, all or none. A commit counts only if
// the file was in its place after it: a change that was lost is never acknowledged.
func (w *writer) transact(group []*request) (err error) {
	if err := w.files.lost(); err != nil {
		return err
	}
	if _, err = w.begin.exec(); primaryCode(err) == sqlite3.SQLITE_ERROR {
		// A transaction that could not be rolled back is still there.
		_, _ = w.rollback.exec()
		_, err = w.begin.exec()
	}
	if err != nil {
		return failed(err, "begin")
	}
	clear(w.pending)
	clear(w.tallies)
	clear(w.pendingKeys)
	w.pendingMoved = 0
	w.pendingCounts, w.pendingNext, w.pendingNextLane, w.lanesDue = w.backlog, w.nextPK, w.nextLane, false
	defer func() {
		if err != nil {
			w.laneLeases = allLeases
			// SQLite may have rolled back by itself; then this fails and changes nothing.
			_, _ = w.rollback.exec()
		}
	}()
	for _, r := range group {
		if err := r.apply(w); err != nil {
			return failed(err, "apply change")
		}
	}
	if err := w.writeTallies(); err != nil {
		return failed(err, "count")
	}
	if _, err := w.commit.exec(); err != nil {
		return failed(err, "commit")
	}
	if err := w.files.check(); err != nil {
		return err
	}
	w.settle()
	return nil
}

// settle makes the pending state the current one, after a commit.
func (w *writer) settle() {
	w.rest.drop(w.pending)
	for key, row := range w.pending {
		if row.phase == phaseIdle {
			w.rows.drop(key)
			continue
		}
		w.rows.put(row)
	}
	w.nextPK, w.nextLane = w.pendingNext, w.pendingNextLane
	w.settleKeys()
	if w.lanesDue {
		w.watchers.tell()
	}
	if w.backlog != w.pendingCounts {
		counts := w.pendingCounts
		w.backlog = counts
		w.counts.Store(&counts)
	}
}

// row returns a task's row as this transaction sees it.
func (w *writer) row(k store.Key) (row taskRow, found bool, err error) {
	if row, found = w.pending[k]; found {
		return row, row.pk != 0, nil
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

// forget notes that this transaction has removed a row.
func (w *writer) forget(row *taskRow) {
	w.pending[row.key] = taskRow{key: row.key}
	w.count(row.phase, -1)
}

// keep notes a row that this transaction has written; before is its phase
// until then.
func (w *writer) keep(row taskRow, before int64) {
	w.pending[row.key] = row
	w.count(before, -1)
	w.count(row.phase, 1)
	switch row.phase {
	case phaseLeased:
		w.leases.widen(row.leaseUntil)
	case phaseWaiting:
		w.waits.widen(row.dueAt)
	}
}

func (w *writer) count(phase int64, by int) {
	switch phase {
	case phaseReady, phaseWaiting:
		w.pendingCounts.Queued += by
	case phaseLeased:
		w.pendingCounts.Leased += by
	}
}

// prepareWriter makes the writer's statements.
func (w *writer) prepareWriter() error {
	return w.prepareAll(w.contextStatements.texts(), w.deleteStatements.texts(), w.feedbackStatements.texts(), w.laneStatements.texts(), map[**stmt]string{
		&w.begin:    `BEGIN IMMEDIATE`,
		&w.commit:   `COMMIT`,
		&w.rollback: `ROLLBACK`,

		&w.selectRow: sqlSelectRow,
		&w.insertRow: `INSERT INTO task_rows (pk, owner, id, context_id, state, state_at, seq, received_seq, checkpoint,
			phase, due_at, lease_worker, fence, lease_until, turn, attempt, seen_seq, turn_start_seq, created_at, updated_at, first, bytes)
			VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (owner, id) DO NOTHING`,
		&w.insertLog:     `INSERT INTO task_log (id, n, key, key_hash, snapshot, events, large) VALUES (?,?,?,?,?,?,?)`,
		&w.insertContent: `INSERT INTO task_contents (task_pk, hash, data) VALUES (?,?,?) ON CONFLICT DO NOTHING`,
		&w.dropSnapshot:  `UPDATE task_log SET snapshot = NULL WHERE id = ? AND snapshot IS NOT NULL`,
		&w.upsertStep: `INSERT INTO task_steps (task_pk, turn, name, result, artifacts) VALUES (?,?,?,?,?)
			ON CONFLICT DO UPDATE SET result = excluded.result, artifacts = excluded.artifacts`,

		// An index is written when one of its columns is named, even if its value
		// stays; so each kind of change has a statement that names only its own.
		&w.updateAll: `UPDATE task_rows SET state=?, state_at=?, seq=?, received_seq=?, checkpoint=?, updated_at=?, bytes=?,
			phase=?, due_at=?, lease_worker=?, fence=?, lease_until=?, turn=?, attempt=?, seen_seq=?, turn_start_seq=? WHERE pk=?`,
		&w.updateStatus: `UPDATE task_rows SET state=?, state_at=?, seq=?, received_seq=?, checkpoint=?, updated_at=?, bytes=? WHERE pk=?`,
		&w.updateLog:    `UPDATE task_rows SET seq=?, checkpoint=?, updated_at=?, bytes=? WHERE pk=?`,
		&w.updateRun: `UPDATE task_rows SET phase=?, due_at=?, lease_worker=?, fence=?, lease_until=?, turn=?, attempt=?,
			seen_seq=?, turn_start_seq=? WHERE pk=?`,
		&w.updateLease: `UPDATE task_rows SET lease_until=? WHERE pk=?`,

		&w.insertKey: `INSERT INTO idempotency_keys (owner, key, hash, task_id, seq, created_at, kept) VALUES (?,?,?,?,?,?,?)
			ON CONFLICT DO NOTHING`,
		&w.recentKeys:  sqlRecentKeys,
		&w.firstKey:    `SELECT key FROM task_log WHERE id = ? AND key IS NOT NULL`,
		&w.keysIndexed: `UPDATE idempotency_indexed SET task_pk = ? WHERE pk = 2`,
		&w.selectKey:   sqlSelectKey,
		&w.dropKey:     `DELETE FROM idempotency_keys WHERE owner = ? AND key = ?`,
		&w.expireKeys:  sqlExpireKeys,
		&w.upsertTally: sqlUpsertTally,
		&w.dropTally:   sqlDropTally,
		&w.beat:        `UPDATE heartbeat SET beats = beats + 1 WHERE pk = 2`,

		&w.queuedOwner: sqlQueuedOwner, &w.leasedOwner: sqlLeasedOwner,
		&w.queuedDue: sqlQueuedDue, &w.queuedFar: sqlQueuedFar,
		&w.nextContext: sqlNextContext, &w.contextDue: sqlContextDue, &w.contextFar: sqlContextFar,
		&w.leasedDue: sqlLeasedDue, &w.leasedFar: sqlLeasedFar,
		&w.leaseBounds: `SELECT min(lease_until), max(lease_until) FROM task_rows INDEXED BY task_rows_leased WHERE phase = 2`,
		&w.waitingDue:  sqlWaitingDue, &w.waitingFar: sqlWaitingFar,
		&w.makeReady:  `UPDATE task_rows SET phase = 1 WHERE pk = ?`,
		&w.waitBounds: `SELECT min(due_at), max(due_at) FROM task_rows INDEXED BY task_rows_waiting WHERE phase = 3`,
	})
}

// loadState reads what the writer keeps in memory.
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
	// Statements are planned again when an argument changes from or to 0 or 1.
	w.nextPK, w.nextLane = max(pk[0], 15)+1, max(lane[0], 15)+1
	w.laneLeases = allLeases
	w.backlog = store.Backlog{Queued: int(counts[0]), Leased: int(counts[1])}
	w.counts.Store(&store.Backlog{Queued: w.backlog.Queued, Leased: w.backlog.Leased})
	return errors.Join(w.loadShrink(), w.loadRecent(), w.leases.load(w.leaseBounds), w.waits.load(w.waitBounds))
}
