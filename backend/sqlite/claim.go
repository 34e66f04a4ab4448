package sqlite

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// The statements of a claim walk the partial indexes of the work queue, which hold only
// tasks with work to do. Tasks that wait are in an index by time alone: a claim makes those
// ready whose time has come, and looks at no others that wait.
const (
	sqlQueuedOwner = `SELECT owner FROM task_rows INDEXED BY task_rows_queued WHERE phase = 1 AND owner > ? ORDER BY owner LIMIT 1`
	sqlLeasedOwner = `SELECT owner FROM task_rows INDEXED BY task_rows_leased WHERE phase = 2 AND owner > ? ORDER BY owner LIMIT 1`
	sqlQueuedDue   = `SELECT due_at, id FROM task_rows INDEXED BY task_rows_queued
		WHERE phase = 1 AND owner = ? AND due_at <= ? ORDER BY due_at, id LIMIT ?`
	sqlQueuedFar = `SELECT due_at, id FROM task_rows INDEXED BY task_rows_queued
		WHERE phase = 1 AND owner = ? AND due_at > ? ORDER BY due_at, id LIMIT ?`
	sqlNextContext = `SELECT context_id, due_at, id FROM task_rows INDEXED BY task_rows_turns
		WHERE phase = 1 AND owner = ? AND context_id > ? ORDER BY context_id, due_at, id LIMIT 1`
	sqlContextDue = `SELECT due_at, id FROM task_rows INDEXED BY task_rows_turns
		WHERE phase = 1 AND owner = ? AND context_id = ? AND due_at <= ? ORDER BY due_at, id LIMIT ?`
	sqlContextFar = `SELECT due_at, id FROM task_rows INDEXED BY task_rows_turns
		WHERE phase = 1 AND owner = ? AND context_id = ? AND due_at > ? ORDER BY due_at, id LIMIT ?`
	sqlWaitingDue = `SELECT owner, id FROM task_rows INDEXED BY task_rows_waiting WHERE phase = 3 AND due_at <= ? ORDER BY due_at LIMIT ?`
	sqlWaitingFar = `SELECT owner, id FROM task_rows INDEXED BY task_rows_waiting WHERE phase = 3 AND due_at > ? ORDER BY due_at LIMIT ?`
	sqlLeasedDue  = `SELECT lease_until, id FROM task_rows INDEXED BY task_rows_leased
		WHERE phase = 2 AND owner = ? AND lease_until <= ? AND lease_worker <> ? ORDER BY lease_until, id LIMIT ?`
	sqlLeasedFar = `SELECT lease_until, id FROM task_rows INDEXED BY task_rows_leased
		WHERE phase = 2 AND owner = ? AND lease_until > ? AND lease_worker <> ? ORDER BY lease_until, id LIMIT ?`
)

// Claim implements store.Store.
func (s *Store) Claim(ctx context.Context, p store.ClaimParams) ([]*store.Task, error) {
	defer s.gate.RUnlock()
	if s.gate.RLock(); s.closed {
		return nil, store.ErrClosed
	}
	if p.Limit <= 0 {
		return nil, ctx.Err()
	}
	events, err := encodeEvent(p.Event)
	if err != nil {
		return nil, err
	}
	c := &claim{ClaimParams: p, events: events, now: millis(p.Now), far: noLease}
	if p.Horizon > 0 {
		c.far = millis(p.Now.Add(p.Horizon))
	}
	if err := s.submit(ctx, &request{weight: p.Limit, bytes: p.Limit * len(events), apply: c.apply}); err != nil {
		return nil, err
	}
	tasks, unread := s.readClaimed(c.claimed, p.Whole)
	return tasks, (&store.ClaimError{Unread: unread}).ErrorOrNil()
}

// errNoLog reports a task without log rows.
var errNoLog = errors.New("its log is missing")

// readClaimed reads tasks whose leases have been taken, so it does not stop
// when the caller's context ends. A task that cannot be read does not keep the
// others from being run. Those with more than whole bytes are outlines, unless it is 0.
func (s *Store) readClaimed(rows []taskRow, whole int64) (tasks []*store.Task, unread []store.UnreadTask) {
	for i := range rows {
		if whole > 0 && rows[i].bytes > whole {
			tasks = append(tasks, rows[i].outline())
			continue
		}
		t, err := s.taskAsOf(context.Background(), &rows[i])
		if err == nil && t.Status.State == "" {
			err = errNoLog
		}
		if err != nil {
			unread = append(unread, store.UnreadTask{Key: rows[i].key, Run: rows[i].task().Run, Err: err})
			continue
		}
		tasks = append(tasks, t)
	}
	return tasks, unread
}

// claim is one call of Claim.
type claim struct {
	store.ClaimParams
	events   string
	now, far int64
	claimed  []taskRow
	after    map[string]string // where the contexts of owners go on
}

// due is a task that may be claimed; context is the one whose turn it is, if any.
type due struct {
	at          int64
	id, context string
}

func (c *claim) apply(w *writer) error {
	c.claimed, c.after = c.claimed[:0], make(map[string]string)
	leases := w.leasesMayEnd(c)
	if w.pendingCounts.Queued == 0 && !leases {
		return nil
	}
	if err := c.promote(w); err != nil {
		return err
	}
	turns := rounds[due]{
		after: c.AfterOwner, limit: c.Limit,
		next: func(after string) (string, error) {
			return nextOwner(w.queuedOwner, w.leasedOwner, after, leases, c.Skip)
		},
		due: func(owner string, n int) ([]due, error) { return c.dueOf(w, owner, leases, n) },
		take: func(owner string, d due) (bool, error) {
			if d.context != "" {
				c.after[owner] = d.context
			}
			return c.take(w, store.Key{Owner: owner, ID: d.id})
		},
	}
	any, err := turns.run()
	if err == nil && !any && leases && !c.Takeover && len(w.pending) == 0 {
		return w.leases.load(w.leaseBounds)
	}
	return err
}

// promote makes waiting tasks ready whose time has come, or is beyond the horizon.
func (c *claim) promote(w *writer) (err error) {
	if !w.waits.over(c.now, c.far) {
		return nil
	}
	var keys []store.Key
	find := func(st *stmt, bound int64) {
		if err == nil {
			err = st.query(context.Background(), func(r record) error {
				keys = append(keys, store.Key{Owner: r.text(0), ID: r.text(1)})
				return nil
			}, bound, int64(promoteLimit))
		}
	}
	find(w.waitingDue, c.now)
	if c.Horizon > 0 {
		find(w.waitingFar, c.far)
	}
	for _, k := range keys {
		row, found, e := w.row(k)
		if err = errors.Join(err, e); err != nil || !found {
			return err
		}
		row.phase = phaseReady
		if _, err = w.makeReady.exec(row.pk); err != nil {
			return err
		}
		w.keep(row, phaseWaiting)
	}
	if err == nil && len(keys) == 0 && len(w.pending) == 0 { // else the transaction may be undone
		err = w.waits.load(w.waitBounds)
	}
	return err
}

// leasesMayEnd reports whether some lease may be there for the taking.
func (w *writer) leasesMayEnd(c *claim) bool {
	if w.pendingCounts.Leased == 0 || c.QueuedOnly {
		return false
	}
	return c.Takeover || w.leases.over(c.now, c.far)
}

// nextOwner returns the first owner after another that has something queued or,
// if asked for, leased, and is not skipped; "" when there is none.
func nextOwner(queued, leased *stmt, after string, leases bool, skip []string) (next string, err error) {
	for {
		next = ""
		each := func(r record) error {
			if o := r.text(0); next == "" || o < next {
				next = o
			}
			return nil
		}
		if err = queued.query(context.Background(), each, after); err == nil && leases {
			err = leased.query(context.Background(), each, after)
		}
		if err != nil || !slices.Contains(skip, next) {
			return next, err
		}
		after = next
	}
}

// dueOf returns the first n tasks of an owner that are due, in the order in which they
// are claimed.
func (c *claim) dueOf(w *writer, owner string, leases bool, n int) (found []due, err error) {
	if leases {
		until := c.now
		if c.Takeover {
			until = noLease
		}
		if found, err = collect(found, n, w.leasedDue, owner, until, c.Worker); err == nil && c.Horizon > 0 && !c.Takeover {
			found, err = collect(found, n, w.leasedFar, owner, c.far, c.Worker)
		}
	}
	if err != nil || len(found) == n {
		return found, err
	}
	if !c.OldestFirst {
		return c.inTurn(w, owner, found, n)
	}
	return c.oldest(w, owner, found, n)
}

// collect adds what a statement finds to what was found, up to n in all.
func collect(found []due, n int, st *stmt, args ...any) ([]due, error) {
	if len(found) >= n {
		return found, nil
	}
	err := st.query(context.Background(), func(r record) error {
		found = append(found, due{at: r.int(0), id: r.text(1)})
		return nil
	}, append(args, int64(n-len(found)))...)
	return found, err
}

// oldest adds an owner's queued tasks that are due, up to n in all.
func (c *claim) oldest(w *writer, owner string, found []due, n int) (_ []due, err error) {
	if found, err = collect(found, n, w.queuedDue, owner, c.now); err == nil && c.Horizon > 0 {
		found, err = collect(found, n, w.queuedFar, owner, c.far)
	}
	return found, err
}

// take leases a task to the claim's worker and appends its event.
func (c *claim) take(w *writer, key store.Key) (taken bool, err error) {
	row, found, err := w.row(key)
	if err != nil || !found {
		return false, err
	}
	phase, event, encoded := row.phase, c.Event, c.events
	if millis(event.Time) < row.updatedAt { // a log does not go back
		event.Time = fromMillis(row.updatedAt)
		if encoded, err = encodeEvent(event); err != nil {
			return false, err
		}
	}
	row.phase, row.worker, row.leaseUntil = phaseLeased, c.Worker, millis(c.Until)
	row.fence++
	row.attempt++
	ch := &change{Change: &store.Change{Events: []store.Event{event}, Run: &store.Run{}}}
	row.advance(ch.Events)
	if err := w.update(ch, &row, true); err != nil {
		return false, err
	}
	if err := w.appendLog(&row, row.seq, "", &change{Change: new(store.Change), events: encoded}); err != nil {
		return false, err
	}
	if err := w.moveLanes(&row); err != nil {
		return false, err
	}
	w.keep(row, phase)
	c.claimed = append(c.claimed, row)
	return true, nil
}

// Renew implements store.Store.
func (s *Store) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) ([]store.Key, error) {
	defer s.gate.RUnlock()
	if s.gate.RLock(); s.closed {
		return nil, store.ErrClosed
	}
	if len(leases) == 0 {
		return nil, ctx.Err()
	}
	var lost []store.Key
	err := s.submit(ctx, &request{weight: len(leases), apply: func(w *writer) error {
		lost = nil
		for i := range leases {
			row, found, err := w.row(leases[i].Key)
			if err != nil {
				return err
			}
			if !found || !row.holds(&leases[i]) {
				lost = append(lost, leases[i].Key)
				continue
			}
			row.leaseUntil = millis(until)
			if _, err := w.updateLease.exec(row.leaseUntil, row.pk); err != nil {
				return err
			}
			w.keep(row, row.phase)
		}
		return nil
	}})
	return lost, err
}
