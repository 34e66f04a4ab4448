package sqlite

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
)

// Waiting lanes are indexed by due time, ready lanes by owner. A claim moves due lanes
// from the first index to the second and reads no other waiting lanes.
var (
	sqlPromoteDue = `UPDATE webhook_lanes SET phase = {ready} WHERE pk IN
		(SELECT pk FROM webhook_lanes INDEXED BY webhook_lanes_waiting WHERE phase = {waiting} AND due_at <= ? ORDER BY due_at LIMIT ?)`
	sqlPromoteBeyond = `UPDATE webhook_lanes SET phase = {ready} WHERE pk IN
		(SELECT pk FROM webhook_lanes INDEXED BY webhook_lanes_waiting WHERE phase = {waiting} AND due_at > ? ORDER BY due_at LIMIT ?)`
	sqlDeletedLanes = `SELECT ` + laneList + ` FROM webhook_lanes INDEXED BY webhook_lanes_deleted
		WHERE phase = {deleted} AND lease_until <= ? ORDER BY lease_until LIMIT ?`

	sqlReadyLaneOwner  = `SELECT owner FROM webhook_lanes INDEXED BY webhook_lanes_ready WHERE phase = {ready} AND owner > ? ORDER BY owner LIMIT 1`
	sqlLeasedLaneOwner = `SELECT owner FROM webhook_lanes INDEXED BY webhook_lanes_leased WHERE phase = {leased} AND owner > ? ORDER BY owner LIMIT 1`
	sqlReadyLaneDue    = `SELECT due_at, task_id, id, pk FROM webhook_lanes INDEXED BY webhook_lanes_ready
		WHERE phase = {ready} AND owner = ? AND due_at <= ? ORDER BY due_at, task_id, id LIMIT ?`
	sqlReadyBeyond = `SELECT due_at, task_id, id, pk FROM webhook_lanes INDEXED BY webhook_lanes_ready
		WHERE phase = {ready} AND owner = ? AND due_at > ? ORDER BY due_at, task_id, id LIMIT ?`
	// During a takeover, the third argument of sqlLeasedLaneDue is the worker, because its own
	// leases are excluded. Otherwise it is null.
	sqlLeasedLaneDue = `SELECT lease_until, task_id, id, pk FROM webhook_lanes INDEXED BY webhook_lanes_leased
		WHERE phase = {leased} AND owner = ? AND lease_until <= ? AND worker IS NOT ? ORDER BY lease_until, task_id, id LIMIT ?`
	sqlLeasedLaneBeyond = `SELECT lease_until, task_id, id, pk FROM webhook_lanes INDEXED BY webhook_lanes_leased
		WHERE phase = {leased} AND owner = ? AND lease_until > ? ORDER BY lease_until, task_id, id LIMIT ?`
	sqlLaneLeaseBounds = `SELECT min(lease_until), max(lease_until) FROM webhook_lanes INDEXED BY webhook_lanes_leased WHERE phase = {leased}`
	sqlLeaseLane       = `UPDATE webhook_lanes SET phase = {leased}, worker = ?, fence = fence + 1, lease_until = ? WHERE pk = ? RETURNING ` + laneList

	// sqlClaimedLane finds no row if the lane was changed after the claim.
	sqlClaimedLane = `SELECT r.data, r.created_at, t.created_at, t.context_id
		FROM webhook_lanes l CROSS JOIN webhook_rows r ON r.pk = l.pk CROSS JOIN task_rows t ON t.pk = l.task_pk
		WHERE l.pk = ? AND l.fence = ? AND l.owner = ? AND l.task_id = ? AND l.id = ?`
)

// promoteLimit bounds the waiting lanes or tasks that one claim makes ready, so that
// other requests do not wait long. Those due first are made ready first.
const promoteLimit = 1024

// ClaimLanes implements store.Lanes.
func (s *webhookStore) ClaimLanes(ctx context.Context, p store.LaneClaim) ([]store.ClaimedLane, error) {
	defer s.gate.RUnlock()
	if s.gate.RLock(); s.closed {
		return nil, store.ErrClosed
	}
	if p.Limit <= 0 {
		return nil, ctx.Err()
	}
	c := &laneClaim{LaneClaim: p, now: millis(p.Now), horizon: latest}
	if p.Horizon > 0 {
		c.horizon = millis(p.Now.Add(p.Horizon))
	}
	if err := s.submit(ctx, &request{weight: p.Limit, apply: c.apply}); err != nil {
		return nil, err
	}
	return s.readLanes(c)
}

// laneClaim is one call of ClaimLanes.
type laneClaim struct {
	store.LaneClaim
	now, horizon int64
	claimed      []laneRow
	foundLeased  bool // a leased lane was found
}

// dueLane is a lane that may be claimed.
type dueLane struct {
	at       int64
	task, id string
	pk       int64
}

func (c *laneClaim) apply(w *writer) error {
	c.claimed, c.foundLeased = c.claimed[:0], false
	if err := c.promote(w); err != nil {
		return err
	}
	leases := c.Takeover || w.laneLeases.mayBeDue(c.now, c.horizon)
	claims := roundRobin[dueLane]{
		after: c.AfterOwner, limit: c.Limit,
		next: func(after string) (string, error) {
			return w.nextOwner(sqlReadyLaneOwner, sqlLeasedLaneOwner, after, leases, c.Skip)
		},
		due:   func(owner string, n int) ([]dueLane, error) { return c.dueLanes(w, owner, leases, n) },
		claim: func(_ string, d dueLane) (bool, error) { return c.lease(w, d) },
	}
	if _, err := claims.run(); err != nil || !leases || c.foundLeased {
		return err
	}
	// If this transaction fails, the bounds are reset to unknown.
	return w.laneLeases.load(w.conn, sqlLaneLeaseBounds)
}

// promote makes waiting lanes ready if they are due, or if their due time is beyond the
// horizon. It also removes deleted lanes after their leases have ended.
func (c *laneClaim) promote(w *writer) error {
	if _, err := w.exec(sqlPromoteDue, c.now, int64(promoteLimit)); err != nil {
		return err
	}
	if c.Horizon > 0 {
		if _, err := w.exec(sqlPromoteBeyond, c.horizon, int64(promoteLimit)); err != nil {
			return err
		}
	}
	var deleted []laneRow
	err := w.query(sqlDeletedLanes, func(r record) error {
		deleted = append(deleted, laneRow{})
		deleted[len(deleted)-1].scan(r)
		return nil
	}, c.now, int64(promoteLimit))
	for i := range deleted {
		if err == nil {
			err = w.removeLane(&deleted[i])
		}
	}
	return err
}

// dueLanes returns the first n due lanes of an owner, longest due first.
func (c *laneClaim) dueLanes(w *writer, owner string, leases bool, n int) (found []dueLane, err error) {
	find := func(text string, each func(d dueLane), args ...any) {
		if err == nil {
			err = w.query(text, func(r record) error {
				each(dueLane{at: r.int(0), task: r.text(1), id: r.text(2), pk: r.int(3)})
				return nil
			}, args...)
		}
	}
	addReady := func(d dueLane) { found = append(found, d) }
	find(sqlReadyLaneDue, addReady, owner, c.now, int64(n))
	if c.Horizon > 0 && len(found) < n {
		find(sqlReadyBeyond, addReady, owner, c.horizon, int64(n))
	}
	if leases {
		addLeased, limit := func(d dueLane) {
			c.foundLeased = true
			claimed := func(l laneRow) bool { return l.PK == d.pk }
			if !slices.Contains(found, d) && !slices.ContainsFunc(c.claimed, claimed) {
				found = append(found, d)
			}
		}, int64(n+len(c.claimed))
		find(sqlLeasedLaneDue, addLeased, owner, c.now, nil, limit)
		if c.Takeover {
			find(sqlLeasedLaneDue, addLeased, owner, latest, c.Worker, limit)
		}
		if c.Horizon > 0 {
			find(sqlLeasedLaneBeyond, addLeased, owner, c.horizon, limit)
		}
	}
	slices.SortFunc(found, func(a, b dueLane) int {
		return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.task, b.task), strings.Compare(a.id, b.id))
	})
	return found[:min(n, len(found))], err
}

// lease leases a lane to the claim's worker.
func (c *laneClaim) lease(w *writer, d dueLane) (leased bool, err error) {
	err = w.query(sqlLeaseLane, func(r record) error {
		c.claimed = append(c.claimed, laneRow{})
		c.claimed[len(c.claimed)-1].scan(r)
		leased = true
		return nil
	}, c.Worker, millis(c.Until), d.pk)
	w.laneLeases.widen(millis(c.Until))
	return leased, err
}

// readLanes reads the webhooks and events of the claimed lanes, even if the caller's
// context ends, because they are leased already. A lane that cannot be read does not
// affect the others.
func (s *webhookStore) readLanes(c *laneClaim) (lanes []store.ClaimedLane, err error) {
	if len(c.claimed) == 0 {
		return nil, nil
	}
	lanes = make([]store.ClaimedLane, 0, len(c.claimed))
	var unreadable []store.LaneLease
	e := s.withReader(context.Background(), func(r *reader) error {
		for i := range c.claimed {
			row := &c.claimed[i]
			lane, found, e := r.claimedLane(row, c)
			switch {
			case e != nil:
				s.log.Error("cannot read claimed webhook", "task", row.Webhook.Task.ID, "webhook", row.Webhook.ID, "error", e)
				err = wrapError(e, "read")
			case found:
				lanes = append(lanes, lane)
			default:
				unreadable = append(unreadable, store.LaneLease{Task: row.Webhook.Task, ID: row.Webhook.ID, Worker: row.Worker, Fence: row.Fence})
			}
		}
		return nil
	})
	if len(unreadable) > 0 {
		e = errors.Join(e, s.releaseRevoked(unreadable, c.Now))
	}
	if len(lanes) > 0 {
		return lanes, nil
	}
	return nil, errors.Join(e, err)
}

// releaseRevoked releases lanes if their leases were revoked before they were read.
func (s *webhookStore) releaseRevoked(leases []store.LaneLease, now time.Time) error {
	return s.submit(context.Background(), &request{weight: len(leases), apply: func(w *writer) error {
		for i := range leases {
			lane, found, err := w.lane(leases[i].Task, leases[i].ID)
			if err == nil && found {
				after, verdict := lane.Release(&leases[i])
				err = w.applyVerdict(&lane, after, verdict, now)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}})
}

// claimedLane reads the webhook and the next events of a lane.
func (r *reader) claimedLane(row *laneRow, c *laneClaim) (lane store.ClaimedLane, found bool, err error) {
	err = r.query(sqlClaimedLane, func(rec record) error {
		lane = store.ClaimedLane{Lane: row.value(rec), Created: fromMillis(rec.int(2)), ContextID: rec.text(3)}
		found = true
		return nil
	}, row.PK, row.Fence, row.Webhook.Task.Owner, row.Webhook.Task.ID, row.Webhook.ID)
	if err != nil || !found {
		return lane, false, err
	}
	after := max(row.Cursor.Seq, 0)
	last := min(row.Tail, after+int64(max(c.Events, 1)))
	var large bool
	lane.Events, large, err = r.nextEvents(row, lane.ContextID, after, last, &c.LaneClaim)
	return lane, large || len(lane.Events) > 0, err
}

// errStop ends a query early.
var errStop = errors.New("query stopped early")

// nextEvents reads the events of a lane's task after a sequence, up to last or until
// they exceed c.Bytes. large reports that it stopped before a log row larger than
// c.LargestRow.
func (r *reader) nextEvents(row *laneRow, contextID string, after, last int64, c *store.LaneClaim) (events []store.Event, large bool, err error) {
	task, size := taskRow{Task: sqlrow.Task{PK: row.TaskPK}}, 0
	err = r.query(sqlLaneEvents, func(rec record) error {
		if large = rec.null(1); large {
			return errStop
		}
		found, err := r.decodeEvents(rec, row.Webhook.Task, contextID)
		if err != nil {
			return err
		}
		for i := range found {
			if e := &found[i]; e.Seq > after && e.Seq <= last {
				events = append(events, *e)
				if size += e.Size(); c.Bytes > 0 && size > c.Bytes {
					return errStop
				}
			}
		}
		return nil
	}, task.logID(1), task.logID(after+1), task.logID(last), c.LargestRow())
	if errors.Is(err, errStop) {
		err = nil
	}
	return events, large, err
}

// RenewLanes implements store.Lanes.
func (s *webhookStore) RenewLanes(ctx context.Context, until time.Time, leases []store.LaneLease) (lost []store.LaneLease, err error) {
	err = s.write(ctx, &request{weight: len(leases), apply: func(w *writer) error {
		lost = nil
		for i := range leases {
			lane, found, err := w.lane(leases[i].Task, leases[i].ID)
			if err != nil {
				return err
			}
			if !found || !lane.Holds(&leases[i]) {
				lost = append(lost, leases[i])
				continue
			}
			if _, err := w.exec(sqlRenewLane, millis(until), lane.PK); err != nil {
				return err
			}
			w.laneLeases.widen(millis(until))
		}
		return nil
	}})
	return lost, err
}
