package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

const sqlWakeLanes = `UPDATE webhook_lanes SET phase = {ready}, due_at = ?1 WHERE pk IN
	(SELECT pk FROM webhook_lanes INDEXED BY webhook_lanes_endpoint WHERE phase IN ({ready}, {waiting}) AND endpoint = ?2 AND due_at > ?1 ORDER BY due_at LIMIT ?3)`

// WatchLanes implements store.Lanes. A read-only store never calls f.
func (s *webhookStore) WatchLanes(f func()) (stop func()) { return s.watchers.Add(f) }

// SaveWebhook implements store.Webhooks.
func (s *webhookStore) SaveWebhook(ctx context.Context, c store.Webhook, cursor store.WebhookCursor, now time.Time) (saved store.Lane, err error) {
	c.Data = slices.Clone(c.Data)
	var refusal error
	err = s.write(ctx, &request{weight: 1, bytes: len(c.Data), apply: func(w *writer) error {
		row, found, err := w.row(c.Task)
		if refusal = nil; err != nil || !found {
			refusal = store.ErrNotFound
			return err
		}
		saved, err = w.saveWebhook(&row, c, cursor, now)
		w.stageRow(row, row.Phase)
		return err
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
func (w *laneWriter) saveWebhooks(t *taskRow, all []store.NewWebhook) error {
	for i := range all {
		n := &all[i]
		at := fromMillis(t.UpdatedAt)
		c := store.Webhook{Task: t.Key, ID: n.ID, Endpoint: n.Endpoint, Data: n.Data, LongRunning: n.LongRunning, CreatedAt: at}
		if _, err := w.saveWebhook(t, c, n.Cursor, at); err != nil {
			return err
		}
	}
	return nil
}

// saveWebhook creates or replaces a webhook of a task, and returns its lane. The caller
// stages the task's row.
func (w *laneWriter) saveWebhook(t *taskRow, c store.Webhook, cursor store.WebhookCursor, now time.Time) (saved store.Lane, err error) {
	lane, found, err := w.lane(t.Key, c.ID)
	if err != nil {
		return saved, err
	}
	if !found {
		lane.Lane = rules.SaveLane(c, cursor, t.Seq, now, nil)
	} else {
		replaced := !lane.Deleted
		lane.Lane = rules.SaveLane(c, cursor, t.Seq, now, &lane.Lane)
		if replaced {
			err = w.query(sqlUpdateWebhook, func(r record) error {
				lane.Webhook.CreatedAt = fromMillis(r.int(0))
				return nil
			}, string(c.Data), millis(now), lane.PK)
			if err == nil {
				err = w.putLane(&lane, now)
			}
			return lane.Lane.Lane, err
		}
		if _, err := w.exec(sqlDropLane, lane.PK); err != nil {
			return saved, err
		}
		t.Lanes--
	}
	lane.PK, lane.TaskPK, lane.Terminal = w.pendingNextLane, t.PK, t.terminal()
	w.pendingNextLane++
	if err := w.addLane(&lane, now); err != nil {
		return saved, err
	}
	if _, err := w.exec(sqlInsertWebhook, lane.PK, string(c.Data), millis(c.CreatedAt), millis(now)); err != nil {
		return saved, err
	}
	return lane.Lane.Lane, w.setLanes(t, t.Lanes+1)
}

// DeleteWebhook implements store.Webhooks.
func (s *webhookStore) DeleteWebhook(ctx context.Context, task store.Key, id string, now time.Time) (busy bool, err error) {
	var refusal error
	err = s.write(ctx, &request{weight: 1, apply: func(w *writer) error {
		busy, refusal = false, nil
		lane, found, err := w.lane(task, id)
		if err != nil || !found {
			refusal = store.ErrNotFound
			return err
		}
		if !lane.Deleted {
			if err := w.removeLaneData(&lane); err != nil {
				return err
			}
		}
		if lane.Lane, busy = lane.Delete(now); !busy {
			return w.removeLane(&lane)
		}
		lane.State, lane.Dead = "", 0
		return w.putLane(&lane, now)
	}})
	if err == nil {
		err = refusal
	}
	return busy && err == nil, err
}

// ReplayWebhook implements store.Webhooks.
func (s *webhookStore) ReplayWebhook(ctx context.Context, task store.Key, id string, cursor store.WebhookCursor, now time.Time) (at store.WebhookCursor, err error) {
	var refusal error
	err = s.write(ctx, &request{weight: 1, apply: func(w *writer) error {
		lane, found, err := w.lane(task, id)
		if refusal = nil; err != nil || !found || lane.Deleted {
			refusal = store.ErrNotFound
			return err
		}
		lane.Lane = lane.Replay(cursor, now)
		at = lane.Cursor
		if lane.Dead > 0 {
			n, err := w.exec(sqlDropLaneDead, lane.TaskPK, lane.PK, at.Seq)
			if err != nil {
				return err
			}
			lane.Dead -= n
		}
		return w.putLane(&lane, now)
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
func (s *webhookStore) WakeLanes(ctx context.Context, endpoint string, now time.Time, limit int) (woken int, err error) {
	err = s.write(ctx, &request{weight: 1 + max(limit, 0), apply: func(w *writer) error {
		n, err := w.exec(sqlWakeLanes, millis(now), endpoint, int64(max(limit, 0)))
		woken = int(n)
		w.lanesDue = w.lanesDue || n > 0
		return err
	}})
	return woken, err
}
