package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// Lanes that wait stand in an index by time alone, those that may be due in one by
// owner: a claim moves from one to the other what has become due, and never looks
// at what waits.
const (
	sqlPromoteDue = `UPDATE webhook_lanes SET phase = 1 WHERE pk IN
		(SELECT pk FROM webhook_lanes INDEXED BY webhook_lanes_waiting WHERE phase = 3 AND due_at <= ? ORDER BY due_at LIMIT ?)`
	sqlPromoteFar = `UPDATE webhook_lanes SET phase = 1 WHERE pk IN
		(SELECT pk FROM webhook_lanes INDEXED BY webhook_lanes_waiting WHERE phase = 3 AND due_at > ? ORDER BY due_at LIMIT ?)`
	sqlGoneLanes = `SELECT ` + laneColumns + ` FROM webhook_lanes INDEXED BY webhook_lanes_gone
		WHERE phase = 5 AND lease_until <= ? ORDER BY lease_until LIMIT ?`

	sqlReadyOwner = `SELECT owner FROM webhook_lanes INDEXED BY webhook_lanes_ready WHERE phase = 1 AND owner > ? ORDER BY owner LIMIT 1`
	sqlHeldOwner  = `SELECT owner FROM webhook_lanes INDEXED BY webhook_lanes_leased WHERE phase = 2 AND owner > ? ORDER BY owner LIMIT 1`
	sqlReadyDue   = `SELECT due_at, task_id, id, pk FROM webhook_lanes INDEXED BY webhook_lanes_ready
		WHERE phase = 1 AND owner = ? AND due_at <= ? ORDER BY due_at, task_id, id LIMIT ?`
	sqlReadyFar = `SELECT due_at, task_id, id, pk FROM webhook_lanes INDEXED BY webhook_lanes_ready
		WHERE phase = 1 AND owner = ? AND due_at > ? ORDER BY due_at, task_id, id LIMIT ?`
	// A lease is also there for the taking when it is another worker's than ?3.
	sqlHeldDue = `SELECT lease_until, task_id, id, pk FROM webhook_lanes INDEXED BY webhook_lanes_leased
		WHERE phase = 2 AND owner = ? AND lease_until <= ? AND worker IS NOT ? ORDER BY lease_until, task_id, id LIMIT ?`
	sqlHeldFar = `SELECT lease_until, task_id, id, pk FROM webhook_lanes INDEXED BY webhook_lanes_leased
		WHERE phase = 2 AND owner = ? AND lease_until > ? ORDER BY lease_until, task_id, id LIMIT ?`
	sqlHeldBounds = `SELECT min(lease_until), max(lease_until) FROM webhook_lanes INDEXED BY webhook_lanes_leased WHERE phase = 2`
	sqlLeaseLane  = `UPDATE webhook_lanes SET phase = 2, worker = ?, fence = fence + 1, lease_until = ? WHERE pk = ? RETURNING ` + laneColumns

	// A lane that was lost since it was claimed is not found.
	sqlClaimedLane = `SELECT r.data, r.created_at, t.created_at, t.context_id
		FROM webhook_lanes l CROSS JOIN webhook_rows r ON r.pk = l.pk CROSS JOIN task_rows t ON t.pk = l.task_pk
		WHERE l.pk = ? AND l.fence = ? AND l.owner = ? AND l.task_id = ? AND l.id = ?`
)

// promoteLimit bounds what one claim moves from the lanes or tasks that wait to those
// that are due: others do not wait long, and those that are due first come first.
const promoteLimit = 1024

// ClaimLanes implements store.Store.
func (s *Store) ClaimLanes(ctx context.Context, p store.LaneClaim) ([]store.ClaimedLane, error) {
	defer s.gate.RUnlock()
	if s.gate.RLock(); s.closed {
		return nil, store.ErrClosed
	}
	if p.Limit <= 0 {
		return nil, ctx.Err()
	}
	c := &laneClaim{LaneClaim: p, now: millis(p.Now), far: noLease}
	if p.Horizon > 0 {
		c.far = millis(p.Now.Add(p.Horizon))
	}
	if err := s.submit(ctx, &request{weight: p.Limit, apply: c.apply}); err != nil {
		return nil, err
	}
	return s.readLanes(c)
}

// laneClaim is one call of ClaimLanes.
type laneClaim struct {
	store.LaneClaim
	now, far int64
	claimed  []laneRow
	held     bool // some of what was found is leased
}

// dueLane is a lane that may be claimed.
type dueLane struct {
	at       int64
	task, id string
	pk       int64
}

func (c *laneClaim) apply(w *writer) error {
	c.claimed, c.held = c.claimed[:0], false
	if err := c.promote(w); err != nil {
		return err
	}
	leases := c.Takeover || w.laneLeases.over(c.now, c.far)
	turns := rounds[dueLane]{
		after: c.AfterOwner, limit: c.Limit,
		next: func(after string) (string, error) {
			return nextOwner(w.readyOwner, w.heldOwner, after, leases, c.Skip)
		},
		due:  func(owner string, n int) ([]dueLane, error) { return c.dueOf(w, owner, leases, n) },
		take: func(_ string, d dueLane) (bool, error) { return c.take(w, d) },
	}
	if _, err := turns.run(); err != nil || !leases || c.held {
		return err
	}
	// A transaction that fails makes the bounds unknown again.
	return w.laneLeases.load(w.heldBounds)
}

// promote moves lanes that have waited for long enough to those that are due, and
// removes what is left of deleted ones whose leases have ended.
func (c *laneClaim) promote(w *writer) error {
	if _, err := w.promoteDue.exec(c.now, int64(promoteLimit)); err != nil {
		return err
	}
	if c.Horizon > 0 {
		if _, err := w.promoteFar.exec(c.far, int64(promoteLimit)); err != nil {
			return err
		}
	}
	var gone []laneRow
	err := w.goneLanes.query(context.Background(), func(r record) error {
		gone = append(gone, laneRow{})
		gone[len(gone)-1].scan(r)
		return nil
	}, c.now, int64(promoteLimit))
	for i := range gone {
		if err == nil {
			err = w.removeLane(&gone[i])
		}
	}
	return err
}

// dueOf returns the first n lanes of an owner that are due, longest due first.
func (c *laneClaim) dueOf(w *writer, owner string, leases bool, n int) (found []dueLane, err error) {
	look := func(s *stmt, each func(d dueLane), args ...any) {
		if err == nil {
			err = s.query(context.Background(), func(r record) error {
				each(dueLane{at: r.int(0), task: r.text(1), id: r.text(2), pk: r.int(3)})
				return nil
			}, args...)
		}
	}
	ready := func(d dueLane) { found = append(found, d) }
	look(w.readyDue, ready, owner, c.now, int64(n))
	if c.Horizon > 0 && len(found) < n {
		look(w.readyFar, ready, owner, c.far, int64(n))
	}
	if leases {
		held, limit := func(d dueLane) {
			c.held = true
			claimed := func(l laneRow) bool { return l.pk == d.pk }
			if !slices.Contains(found, d) && !slices.ContainsFunc(c.claimed, claimed) {
				found = append(found, d)
			}
		}, int64(n+len(c.claimed))
		look(w.heldDue, held, owner, c.now, nil, limit)
		if c.Takeover {
			look(w.heldDue, held, owner, noLease, c.Worker, limit)
		}
		if c.Horizon > 0 {
			look(w.heldFar, held, owner, c.far, limit)
		}
	}
	slices.SortFunc(found, func(a, b dueLane) int {
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.task, b.task), strings.Compare(a.id, b.id))
	})
	return found[:min(n, len(found))], err
}

// take leases a lane to the claim's worker.
func (c *laneClaim) take(w *writer, d dueLane) (taken bool, err error) {
	err = w.leaseLane.query(context.Background(), func(r record) error {
		c.claimed = append(c.claimed, laneRow{})
		c.claimed[len(c.claimed)-1].scan(r)
		taken = true
		return nil
	}, c.Worker, millis(c.Until), d.pk)
	w.laneLeases.widen(millis(c.Until))
	return taken, err
}

// readLanes reads what lanes whose leases have been taken are to tell, so it does
// not stop when the caller's context ends. A lane that cannot be read does not keep
// the others from being delivered.
func (s *Store) readLanes(c *laneClaim) (lanes []store.ClaimedLane, err error) {
	if len(c.claimed) == 0 {
		return nil, nil
	}
	lanes = make([]store.ClaimedLane, 0, len(c.claimed))
	var out []store.LaneLease
	e := s.withReader(context.Background(), func(r *reader) error {
		for i := range c.claimed {
			row := &c.claimed[i]
			lane, found, e := r.claimedLane(row, c)
			switch {
			case e != nil:
				s.log.Error("claimed webhook cannot be read", "task", row.task.ID, "webhook", row.id, "error", e)
				err = failed(e, "read")
			case found:
				lanes = append(lanes, lane)
			default:
				out = append(out, store.LaneLease{Task: row.task, ID: row.id, Worker: row.worker, Fence: row.fence})
			}
		}
		return nil
	})
	if len(out) > 0 {
		e = errors.Join(e, s.letGo(out, c.now))
	}
	if len(lanes) > 0 {
		return lanes, nil
	}
	return nil, errors.Join(e, err)
}

// letGo lets lanes go whose leases were taken away before they could be read.
func (s *Store) letGo(leases []store.LaneLease, now int64) error {
	return s.submit(context.Background(), &request{weight: len(leases), apply: func(w *writer) error {
		for i := range leases {
			lane, found, err := w.lane(leases[i].Task, leases[i].ID)
			if err == nil && found {
				err = w.letGo(&lane, &leases[i], now)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}})
}

// claimedLane reads the settings and the next events of a lane.
func (r *reader) claimedLane(row *laneRow, c *laneClaim) (lane store.ClaimedLane, found bool, err error) {
	err = r.lane.query(context.Background(), func(rec record) error {
		lane = store.ClaimedLane{
			Lane:    row.lane([]byte(rec.text(0)), rec.int(1)),
			Created: fromMillis(rec.int(2)), ContextID: rec.text(3),
		}
		found = true
		return nil
	}, row.pk, row.fence, row.task.Owner, row.task.ID, row.id)
	if err != nil || !found {
		return lane, false, err
	}
	after := max(row.cursor.Seq, 0)
	last := min(row.tail, after+int64(max(c.Events, 1)))
	var large bool
	lane.Events, large, err = r.nextEvents(row, lane.ContextID, after, last, &c.LaneClaim)
	return lane, large || len(lane.Events) > 0, err
}

// errEnough ends a query before its end.
var errEnough = errors.New("enough")

// nextEvents reads the events of a lane's task behind one and up to another, the
// last of them the one with which they come to more than a claim reads. large reports
// that they end before a row that is too large.
func (r *reader) nextEvents(row *laneRow, contextID string, after, last int64, c *store.LaneClaim) (events []store.Event, large bool, err error) {
	task, size := taskRow{pk: row.taskPK}, 0
	err = r.laneEvents.query(context.Background(), func(rec record) error {
		first := rec.int(0) & logMask
		if large = rec.null(1); large {
			return errEnough
		}
		data, err := r.whole(rec.int(0), rec.json(1), false)
		if err != nil {
			return fmt.Errorf("task %s: event %d: %w", row.task.ID, first, err)
		}
		found, err := store.DecodeEvents(data, first, row.task, contextID)
		if err != nil {
			return fmt.Errorf("task %s: event %d: %w", row.task.ID, first, err)
		}
		for i := range found {
			if e := &found[i]; e.Seq > after && e.Seq <= last {
				events = append(events, *e)
				if size += e.Size(); c.Bytes > 0 && size > c.Bytes {
					return errEnough
				}
			}
		}
		return nil
	}, task.logID(1), task.logID(after+1), task.logID(last), c.LargestRow())
	if errors.Is(err, errEnough) {
		err = nil
	}
	return events, large, err
}

// RenewLanes implements store.Store.
func (s *Store) RenewLanes(ctx context.Context, until time.Time, leases []store.LaneLease) (lost []store.LaneLease, err error) {
	err = s.write(ctx, &request{weight: len(leases), apply: func(w *writer) error {
		lost = nil
		for i := range leases {
			lane, found, err := w.lane(leases[i].Task, leases[i].ID)
			if err != nil {
				return err
			}
			if !found || lane.gone() || !lane.heldBy(&leases[i]) {
				lost = append(lost, leases[i])
				continue
			}
			if _, err := w.renewLane.exec(millis(until), lane.pk); err != nil {
				return err
			}
			w.laneLeases.widen(millis(until))
		}
		return nil
	}})
	return lost, err
}
