package sqlite

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

// The statements of a claim read partial indexes that contain only queued and leased
// tasks. A queued task is ready or waits for its due time. Waiting tasks are in an index by
// due time. A claim makes the due ones ready and reads no other waiting tasks. A ready task
// stays ready, even if the clock is set back.
const (
	sqlQueuedOwner = `SELECT owner FROM task_rows INDEXED BY task_rows_queued WHERE phase = {ready} AND owner > ? ORDER BY owner LIMIT 1`
	sqlLeasedOwner = `SELECT owner FROM task_rows INDEXED BY task_rows_leased WHERE phase = {leased} AND owner > ? ORDER BY owner LIMIT 1`
	sqlOwnerReady  = `SELECT id FROM task_rows INDEXED BY task_rows_queued WHERE phase = {ready} AND owner = ? ORDER BY max(due_at, created_at), id LIMIT ?`
	sqlNextContext = `SELECT context_id, id FROM task_rows INDEXED BY task_rows_context_due
		WHERE phase = {ready} AND owner = ? AND context_id > ? ORDER BY context_id, max(due_at, created_at), id LIMIT 1`
	sqlContextReady = `SELECT id FROM task_rows INDEXED BY task_rows_context_due
		WHERE phase = {ready} AND owner = ? AND context_id = ? ORDER BY max(due_at, created_at), id LIMIT ?`
	sqlWaitingDue    = `SELECT owner, id FROM task_rows INDEXED BY task_rows_waiting WHERE phase = {waiting} AND due_at <= ? ORDER BY due_at LIMIT ?`
	sqlWaitingBeyond = `SELECT owner, id FROM task_rows INDEXED BY task_rows_waiting WHERE phase = {waiting} AND due_at > ? ORDER BY due_at LIMIT ?`
	sqlLeasedDue     = `SELECT id FROM task_rows INDEXED BY task_rows_leased
		WHERE phase = {leased} AND owner = ? AND lease_until <= ? AND lease_worker <> ? ORDER BY lease_until, id LIMIT ?`
	sqlLeasedBeyond = `SELECT id FROM task_rows INDEXED BY task_rows_leased
		WHERE phase = {leased} AND owner = ? AND lease_until > ? AND lease_worker <> ? ORDER BY lease_until, id LIMIT ?`
	sqlLeaseBounds = `SELECT min(lease_until), max(lease_until) FROM task_rows INDEXED BY task_rows_leased WHERE phase = {leased}`
	sqlWaitBounds  = `SELECT min(due_at), max(due_at) FROM task_rows INDEXED BY task_rows_waiting WHERE phase = {waiting}`
	sqlMakeReady   = `UPDATE task_rows SET phase = {ready} WHERE pk = ?`
)

// Claim implements store.Tasks.
func (s *taskStore) Claim(ctx context.Context, p store.ClaimParams) ([]*store.Task, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	if p.Limit <= 0 {
		return nil, nil
	}
	event, err := encoding.NewTemplate(p.Event)
	if err != nil {
		return nil, err
	}
	c := &claim{ClaimParams: p, event: event, now: millis(p.Now), horizon: latest}
	if p.Horizon > 0 {
		c.horizon = millis(p.Now.Add(p.Horizon))
	}
	if err := s.submit(ctx, &request{weight: p.Limit, bytes: p.Limit * len(event.At(p.Now)), apply: c.apply}); err != nil {
		return nil, err
	}
	tasks, unreadable := s.readClaimed(c.claimed, p.OutlineAbove)
	return tasks, (&store.ClaimError{Unreadable: unreadable}).ErrorOrNil()
}

// errLogMissing reports a task without log rows.
var errLogMissing = errors.New("task has no log rows")

// readClaimed reads the claimed tasks, even if the caller's context ends, because they
// are leased already. A task that cannot be read is reported in unreadable and does not
// affect the others. Tasks with more than outlineAbove bytes are returned as outlines;
// 0 means never.
func (s *taskStore) readClaimed(rows []taskRow, outlineAbove int64) (tasks []*store.Task, unreadable []store.UnreadableTask) {
	for i := range rows {
		if outlineAbove > 0 && rows[i].Bytes > outlineAbove {
			tasks = append(tasks, rows[i].Outline())
			continue
		}
		t, err := s.taskAsOf(context.Background(), &rows[i])
		if err == nil && t.Status.State == "" {
			err = errLogMissing
		}
		if err != nil {
			unreadable = append(unreadable, store.UnreadableTask{Key: rows[i].Key, Queue: rows[i].Value().Queue, Err: err})
			continue
		}
		tasks = append(tasks, t)
	}
	return tasks, unreadable
}

// claim is one call of Claim.
type claim struct {
	store.ClaimParams
	event        encoding.Template
	now, horizon int64
	claimed      []taskRow
	lastContext  map[string]string // context served last, by owner
}

// dueTask is a task that may be claimed. context is set if the task was found by
// serving the owner's contexts in turn.
type dueTask struct{ id, context string }

func (c *claim) apply(w *writer) error {
	c.claimed, c.lastContext = c.claimed[:0], make(map[string]string)
	leases := w.mayHaveDueLeases(c)
	if w.pendingCounts.Queued == 0 && !leases {
		return nil
	}
	if err := c.promote(w); err != nil {
		return err
	}
	claims := roundRobin[dueTask]{
		after: c.AfterOwner, limit: c.Limit,
		next: func(after string) (string, error) {
			return w.nextOwner(sqlQueuedOwner, sqlLeasedOwner, after, leases, c.Skip)
		},
		due: func(owner string, n int) ([]dueTask, error) { return c.dueTasks(w, owner, leases, n) },
		claim: func(owner string, d dueTask) (bool, error) {
			if d.context != "" {
				c.lastContext[owner] = d.context
			}
			return c.lease(w, store.Key{Owner: owner, ID: d.id})
		},
	}
	found, err := claims.run()
	if err == nil && !found && leases && !c.Takeover && len(w.pending) == 0 {
		return w.leases.load(w.conn, sqlLeaseBounds)
	}
	return err
}

// promote makes waiting tasks ready if they are due, or if their due time is beyond the horizon.
func (c *claim) promote(w *writer) (err error) {
	if !w.waits.mayBeDue(c.now, c.horizon) {
		return nil
	}
	var keys []store.Key
	find := func(text string, bound int64) {
		if err == nil {
			err = w.query(text, func(r record) error {
				keys = append(keys, store.Key{Owner: r.text(0), ID: r.text(1)})
				return nil
			}, bound, int64(promoteLimit))
		}
	}
	find(sqlWaitingDue, c.now)
	if c.Horizon > 0 {
		find(sqlWaitingBeyond, c.horizon)
	}
	for _, k := range keys {
		row, found, e := w.row(k)
		if err = errors.Join(err, e); err != nil || !found {
			return err
		}
		row.Phase = sqlrow.PhaseReady
		if _, err = w.exec(sqlMakeReady, row.PK); err != nil {
			return err
		}
		w.stageRow(row, sqlrow.PhaseWaiting)
	}
	if err == nil && len(keys) == 0 && len(w.pending) == 0 { // the bounds must not depend on uncommitted changes
		err = w.waits.load(w.conn, sqlWaitBounds)
	}
	return err
}

// mayHaveDueLeases reports whether a lease may have ended or may be taken over.
func (w *taskWriter) mayHaveDueLeases(c *claim) bool {
	if w.pendingCounts.Leased == 0 || c.QueuedOnly {
		return false
	}
	return c.Takeover || w.leases.mayBeDue(c.now, c.horizon)
}

// nextOwner returns the first owner after the given one that has queued or, if leases
// is set, leased entries and is not in skip. It returns "" if there is none.
func (c *conn) nextOwner(queued, leased, after string, leases bool, skip []string) (next string, err error) {
	for {
		next = ""
		each := func(r record) error {
			if o := r.text(0); next == "" || o < next {
				next = o
			}
			return nil
		}
		if err = c.query(queued, each, after); err == nil && leases {
			err = c.query(leased, each, after)
		}
		if err != nil || !slices.Contains(skip, next) {
			return next, err
		}
		after = next
	}
}

// dueTasks returns the first n due tasks of an owner, in claim order.
func (c *claim) dueTasks(w *writer, owner string, leases bool, n int) (found []dueTask, err error) {
	if leases {
		until := c.now
		if c.Takeover {
			until = latest
		}
		if found, err = w.collectDue(found, n, sqlLeasedDue, owner, until, c.Worker); err == nil && c.Horizon > 0 && !c.Takeover {
			found, err = w.collectDue(found, n, sqlLeasedBeyond, owner, c.horizon, c.Worker)
		}
	}
	if err != nil || len(found) == n {
		return found, err
	}
	if !c.OldestFirst {
		return c.addFair(w, owner, found, n)
	}
	return w.collectDue(found, n, sqlOwnerReady, owner)
}

// collectDue appends the results of a statement to found, up to n in total.
func (c *conn) collectDue(found []dueTask, n int, text string, args ...any) ([]dueTask, error) {
	if len(found) >= n {
		return found, nil
	}
	err := c.query(text, func(r record) error {
		found = append(found, dueTask{id: r.text(0)})
		return nil
	}, append(args, int64(n-len(found)))...)
	return found, err
}

// lease leases a task to the claim's worker and appends the claim's event.
func (c *claim) lease(w *writer, key store.Key) (leased bool, err error) {
	row, found, err := w.row(key)
	if err != nil || !found {
		return false, err
	}
	phase, event := row.Phase, c.Event
	if millis(event.Time) < row.UpdatedAt { // times in a log do not decrease
		event.Time = fromMillis(row.UpdatedAt)
	}
	row.Phase, row.Worker, row.LeaseUntil = sqlrow.PhaseLeased, c.Worker, millis(c.Until)
	row.Fence++
	row.Attempt++
	ch := &change{Change: &store.Change{Events: []store.Event{event}, Queue: &store.QueueEntry{}}}
	row.Advance(ch.Events)
	if err := w.update(ch, &row, true); err != nil {
		return false, err
	}
	if err := w.appendLog(&row, row.Seq, "", &change{Change: new(store.Change), Content: sqlrow.Content{EventsJSON: c.event.At(event.Time)}}); err != nil {
		return false, err
	}
	if err := w.moveLanes(&row); err != nil {
		return false, err
	}
	w.stageRow(row, phase)
	c.claimed = append(c.claimed, row)
	return true, nil
}

// Renew implements store.Tasks.
func (s *taskStore) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) ([]store.Key, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	if len(leases) == 0 {
		return nil, nil
	}
	var lost []store.Key
	err := s.submit(ctx, &request{weight: len(leases), apply: func(w *writer) error {
		lost = nil
		for i := range leases {
			row, found, err := w.row(leases[i].Key)
			if err != nil {
				return err
			}
			if seen := row.Seen(); !found || !seen.Holds(&leases[i]) {
				lost = append(lost, leases[i].Key)
				continue
			}
			row.LeaseUntil = millis(until)
			if _, err := w.exec(sqlUpdateLease, row.LeaseUntil, row.PK); err != nil {
				return err
			}
			w.stageRow(row, row.Phase)
		}
		return nil
	}})
	return lost, err
}
