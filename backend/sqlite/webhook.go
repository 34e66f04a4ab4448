package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
)

const sqlWakeLanes = `UPDATE webhook_lanes SET phase = 1, due_at = ?1 WHERE pk IN
	(SELECT pk FROM webhook_lanes INDEXED BY webhook_lanes_endpoint WHERE phase IN (1, 3) AND endpoint = ?2 AND due_at > ?1 ORDER BY due_at LIMIT ?3)`

// WatchLanes implements store.Lanes. A read-only store never calls f.
func (s *Store) WatchLanes(f func()) (stop func()) { return s.watchers.Add(f) }

// SaveWebhook implements store.Webhooks.
func (s *Store) SaveWebhook(ctx context.Context, c store.Webhook, cursor store.WebhookCursor, now time.Time) (saved store.Lane, err error) {
	c.Data = slices.Clone(c.Data)
	var refusal error
	err = s.write(ctx, &request{weight: 1, bytes: len(c.Data), apply: func(w *writer) error {
		row, found, err := w.row(c.Task)
		if refusal = nil; err != nil || !found {
			refusal = store.ErrNotFound
			return err
		}
		lane, created, err := w.saveWebhook(&row, &c, cursor, millis(now))
		if err != nil {
			return err
		}
		w.stageRow(row, row.Phase)
		saved = lane.Value(c.Data, created)
		return nil
	}})
	if err == nil {
		err = refusal
	}
	if err != nil {
		return store.Lane{}, err
	}
	return saved, nil
}

// saveWebhooks saves the webhooks of a change.
func (w *writer) saveWebhooks(t *taskRow, all []store.NewWebhook) error {
	for i := range all {
		n := &all[i]
		c := &store.Webhook{
			Task: t.Key, ID: n.ID, Endpoint: n.Endpoint, Data: n.Data, LongRunning: n.LongRunning, CreatedAt: fromMillis(t.UpdatedAt),
		}
		if _, _, err := w.saveWebhook(t, c, n.Cursor, t.UpdatedAt); err != nil {
			return err
		}
	}
	return nil
}

// saveWebhook creates or replaces a webhook of a task, and returns its lane and when it
// was created. The caller stages the task's row.
func (w *writer) saveWebhook(t *taskRow, c *store.Webhook, cursor store.WebhookCursor, now int64) (lane laneRow, created int64, err error) {
	lane, found, err := w.lane(t.Key, c.ID)
	if err != nil {
		return lane, 0, err
	}
	if found && !lane.deleted() {
		lane.Endpoint, lane.LongRunning = c.Endpoint, c.LongRunning
		lane.restart(now)
		err = w.updateWebhook.query(context.Background(), func(r record) error {
			created = r.int(0)
			return nil
		}, string(c.Data), now, lane.PK)
		if err != nil {
			return lane, 0, err
		}
		return lane, created, w.putLane(&lane, now)
	}
	lanes, fence, until := t.Lanes+1, now, int64(0)
	if found {
		lane.revokeLease()
		lanes, fence, until = t.Lanes, lane.Fence, lane.LeaseUntil
		if _, err := w.dropLane.exec(lane.PK); err != nil {
			return lane, 0, err
		}
	}
	lane = laneRow{
		PK: w.pendingNextLane, TaskPK: t.PK, Terminal: t.terminal(),
		Lane: sqlrow.Lane{
			Task: t.Key, ID: c.ID, Endpoint: c.Endpoint, LongRunning: c.LongRunning, State: string(store.LaneActive), Tail: t.Seq, Cursor: cursor,
			DueAt: now, UpdatedAt: now, Fence: fence, LeaseUntil: until,
		},
	}
	w.pendingNextLane++
	if err := w.addLane(&lane, now); err != nil {
		return lane, 0, err
	}
	created = millis(c.CreatedAt)
	if _, err := w.insertWebhook.exec(lane.PK, string(c.Data), created, now); err != nil {
		return lane, 0, err
	}
	return lane, created, w.setLanes(t, lanes)
}

// DeleteWebhook implements store.Webhooks.
func (s *Store) DeleteWebhook(ctx context.Context, task store.Key, id string, now time.Time) (busy bool, err error) {
	var refusal error
	err = s.write(ctx, &request{weight: 1, apply: func(w *writer) error {
		busy, refusal = false, nil
		lane, found, err := w.lane(task, id)
		if err != nil {
			return err
		}
		if !found {
			refusal = store.ErrNotFound
			return nil
		}
		if !lane.deleted() {
			if err := w.removeLaneData(&lane); err != nil {
				return err
			}
		}
		if busy = millis(now) < lane.LeaseUntil; !busy {
			return w.removeLane(&lane)
		}
		if lane.deleted() {
			return nil
		}
		lane.Phase, lane.State, lane.Dead = laneDeleted, "", 0
		return w.writeLane(&lane)
	}})
	if err == nil {
		err = refusal
	}
	return busy && err == nil, err
}

// ReplayWebhook implements store.Webhooks.
func (s *Store) ReplayWebhook(ctx context.Context, task store.Key, id string, cursor store.WebhookCursor, now time.Time) (at store.WebhookCursor, err error) {
	var refusal error
	err = s.write(ctx, &request{weight: 1, apply: func(w *writer) error {
		lane, found, err := w.lane(task, id)
		if refusal = nil; err != nil || !found || lane.deleted() {
			refusal = store.ErrNotFound
			return err
		}
		if cursor.Seq <= lane.Cursor.Seq {
			lane.Cursor = cursor
		}
		at = lane.Cursor
		if lane.Dead > 0 {
			n, err := w.dropLaneDead.exec(lane.TaskPK, lane.PK, at.Seq)
			if err != nil {
				return err
			}
			lane.Dead -= n
		}
		lane.restart(millis(now))
		return w.putLane(&lane, millis(now))
	}})
	if err == nil {
		err = refusal
	}
	if err != nil {
		return store.WebhookCursor{}, err
	}
	return at, nil
}

// WakeLanes implements store.Lanes.
func (s *Store) WakeLanes(ctx context.Context, endpoint string, now time.Time, limit int) (woken int, err error) {
	err = s.write(ctx, &request{weight: 1 + max(limit, 0), apply: func(w *writer) error {
		n, err := w.wakeLanes.exec(millis(now), endpoint, int64(max(limit, 0)))
		woken = int(n)
		w.lanesDue = w.lanesDue || n > 0
		return err
	}})
	return woken, err
}
