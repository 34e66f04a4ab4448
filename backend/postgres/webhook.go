package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

// webhookParams is a webhook to be saved. A null time means the time of the last event of the task.
type webhookParams struct {
	Task        store.Key           `col:"owner,task_id"`
	ID          string              `col:"id"`
	Endpoint    string              `col:"endpoint"`
	Data        string              `col:"data"`
	LongRunning bool                `col:"long_running"`
	Cursor      store.WebhookCursor `col:"cursor_seq,cursor_sequence,cursor_state"`
	At          *int64              `col:"at"`
	MadeAt      *int64              `col:"made_at"`
}

var webhookRows = paramRowsOf[webhookParams]("u")

// stmtWebhook saves distinct webhooks of locked tasks. Their default time is the time of the
// last event of the task. It revokes the lease of an existing lane: the lane cannot be claimed
// until the worker acknowledges that or the lease ends. A new lane also waits for the lease of
// a deleted webhook with the same id.
var stmtWebhook = newStatement("holdfast_webhooks", "", `WITH u AS MATERIALIZED (
			SELECT u.*, t.pk, t.seq, t.context_id, t.created_at AS task_created_at, coalesce(u.at, t.updated_at) AS now
			FROM {u ord}
			JOIN {s}.task_rows t ON t.owner = u.owner COLLATE "POSIX" AND t.id = u.task_id COLLATE "POSIX"
		), removed AS (
			DELETE FROM {s}.deleted_webhooks l USING u WHERE `+sqlLaneKey+` RETURNING u.ord, l.fence, l.lease_until
		), c AS (
			INSERT INTO {s}.webhooks AS c (owner, task_id, id, task_pk, context_id, task_created_at, data, long_running, rev, created_at, updated_at)
			SELECT owner, task_id, id, pk, context_id, task_created_at, data, long_running, 1, coalesce(made_at, now), now FROM u ORDER BY ord
			ON CONFLICT (owner COLLATE "POSIX", task_id COLLATE "POSIX", id COLLATE "POSIX") DO UPDATE SET
				data = excluded.data, long_running = excluded.long_running, rev = c.rev + 1, updated_at = excluded.updated_at
			RETURNING c.*
		), l AS (
			INSERT INTO {s}.webhook_lanes AS l (owner, task_id, id, endpoint, rev, phase, era, state, long_running, cursor_seq, cursor_sequence,
				cursor_state, tail_seq, due_at, attempt, failed_at, delivered, delivered_at, updated_at, worker, fence, lease_until, reason)
			SELECT u.owner, u.task_id, u.id, u.endpoint, c.rev,
				`+lanePhase("u.cursor_seq", "u.seq", "g.ord IS NOT NULL", "true")+`, {era}, 'active', u.long_running,
				u.cursor_seq, u.cursor_sequence, u.cursor_state, u.seq, u.now, 0, 0, 0, 0, u.now, '',
				coalesce(g.fence, u.now), coalesce(g.lease_until, 0), ''
			FROM u JOIN c ON c.owner = u.owner AND c.task_id = u.task_id AND c.id = u.id LEFT JOIN removed g ON g.ord = u.ord ORDER BY u.ord
			ON CONFLICT (owner COLLATE "POSIX", task_id COLLATE "POSIX", id COLLATE "POSIX") DO UPDATE SET
				endpoint = excluded.endpoint, rev = excluded.rev, long_running = excluded.long_running,
				phase = `+lanePhase("l.cursor_seq", "l.tail_seq", "l.lease_until > 0", "true")+`, era = excluded.era,
				due_at = excluded.due_at, updated_at = excluded.updated_at, `+sqlRestartLane+`
			RETURNING l.*, l.rev = 1 AS made
		), n AS (
			UPDATE {s}.task_rows t SET webhooks = t.webhooks + u.n
			FROM (SELECT owner, task_id, count(*)::integer AS n FROM l WHERE made GROUP BY 1, 2) u
			WHERE t.owner = u.owner COLLATE "POSIX" AND t.id = u.task_id COLLATE "POSIX"
		)
		SELECT `+laneList+`, c.data, c.created_at FROM l JOIN c ON c.owner = l.owner AND c.task_id = l.task_id AND c.id = l.id`, webhookRows)

// webhooks returns the calls that save the webhooks of changes. A webhook that occurs twice
// needs two calls.
func (c *committer) webhooks(changes []*change) (calls []*call) {
	type webhook struct {
		task store.Key
		id   string
	}
	var nth map[webhook]int
	for _, ch := range changes {
		for i := range ch.Webhooks {
			p := &ch.Webhooks[i]
			if nth == nil {
				nth = make(map[webhook]int)
			}
			w := webhook{ch.Key, p.ID}
			n := nth[w]
			if nth[w]++; n == len(calls) {
				calls = append(calls, c.reuseCall(stmtWebhook))
			}
			webhookRows.add(calls[n], &webhookParams{
				Task: ch.Key, ID: p.ID, Endpoint: p.Endpoint, Data: string(p.Data), LongRunning: p.LongRunning, Cursor: p.Cursor,
			})
		}
	}
	return calls
}

// sqlLockTaskUpdate locks a task against changes, which would move its lanes.
const sqlLockTaskUpdate = `SELECT 1 FROM {s}.task_rows WHERE owner = $1::text COLLATE "POSIX" AND id = $2::text COLLATE "POSIX" FOR NO KEY UPDATE`

// SaveWebhook implements [store.Webhooks].
func (s *webhookStore) SaveWebhook(ctx context.Context, c store.Webhook, cursor store.WebhookCursor, now time.Time) (lane store.Lane, err error) {
	at, madeAt := millis(now), millis(c.CreatedAt)
	err = s.transact(ctx, "save webhook", func(ctx context.Context, tx pgx.Tx) error {
		if !storable(c.Task.Owner, c.Task.ID) {
			return store.ErrNotFound
		}
		found, err := s.exists(ctx, tx, sqlLockTaskUpdate, c.Task.Owner, c.Task.ID)
		if err == nil && !found {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		return s.eachRow(ctx, tx, stmtWebhook.text, func(r record) error {
			lane = scanLane(r)
			scanWebhook(&lane.Webhook, r[laneWidth:])
			return nil
		}, webhookRows.args([]webhookParams{{
			Task: c.Task, ID: c.ID, Endpoint: c.Endpoint, Data: string(c.Data), LongRunning: c.LongRunning, Cursor: cursor,
			At: &at, MadeAt: &madeAt,
		}})...)
	})
	if err != nil {
		return store.Lane{}, err
	}
	s.lanesDue(lane.Pending())
	return lane, nil
}

var sqlDeleteLane = `DELETE FROM {s}.webhook_lanes l WHERE ` + sqlWebhookKey + ` RETURNING ` + laneList

const (
	// sqlDeleteWebhook must run after the lane was removed, so that no more attempts are added.
	sqlDeleteWebhook = `WITH c AS (
			DELETE FROM {s}.webhooks WHERE ` + sqlWebhookKey + `
		), a AS (
			DELETE FROM {s}.delivery_attempts WHERE owner = $1::text AND task_id = $2::text AND config_id = $3::text
		), d AS (
			DELETE FROM {s}.dead_letters WHERE owner = $1::text COLLATE "POSIX" AND task_id = $2::text COLLATE "POSIX" AND config_id = $3::text COLLATE "POSIX"
		), g AS (
			INSERT INTO {s}.deleted_webhooks (owner, task_id, id, fence, lease_until)
			SELECT $1::text, $2::text, $3::text, $4::bigint, $5::bigint WHERE $6::boolean
		)
		UPDATE {s}.task_rows SET webhooks = webhooks - 1 WHERE owner = $1::text COLLATE "POSIX" AND id = $2::text COLLATE "POSIX"`
	sqlReadDeletedWebhook   = `SELECT lease_until FROM {s}.deleted_webhooks WHERE ` + sqlWebhookKey
	sqlForgetDeletedWebhook = `DELETE FROM {s}.deleted_webhooks WHERE ` + sqlWebhookKey
)

// DeleteWebhook implements [store.Webhooks].
func (s *webhookStore) DeleteWebhook(ctx context.Context, task store.Key, id string, now time.Time) (busy bool, err error) {
	err = s.transact(ctx, "delete webhook", func(ctx context.Context, tx pgx.Tx) error {
		busy = false
		if !storable(task.Owner, task.ID, id) {
			return store.ErrNotFound
		}
		if _, err := s.exists(ctx, tx, sqlLockTaskUpdate, task.Owner, task.ID); err != nil {
			return err
		}
		var lane rules.Lane
		found := false
		err := s.eachRow(ctx, tx, sqlDeleteLane, func(r record) error {
			lane.Lane, found = scanLane(r), true
			return nil
		}, task.Owner, task.ID, id)
		if err != nil {
			return err
		}
		if !found {
			busy, err = s.forgetDeleted(ctx, tx, task, id, now)
			return err
		}
		lane, busy = lane.Delete(now)
		_, err = s.exec(ctx, tx, sqlDeleteWebhook, task.Owner, task.ID, id, lane.Fence, millis(lane.LeaseUntil), busy)
		return err
	})
	return busy && err == nil, err
}

// forgetDeleted forgets a deleted webhook, unless a worker still has the lease. It returns
// ErrNotFound if there is no such webhook.
func (s *webhookStore) forgetDeleted(ctx context.Context, tx pgx.Tx, task store.Key, id string, now time.Time) (busy bool, err error) {
	found := false
	err = s.eachRow(ctx, tx, sqlReadDeletedWebhook, func(r record) error {
		found, busy = true, r.int(0) > millis(now)
		return nil
	}, task.Owner, task.ID, id)
	switch {
	case err != nil || busy:
		return busy, err
	case !found:
		return false, store.ErrNotFound
	}
	_, err = s.exec(ctx, tx, sqlForgetDeletedWebhook, task.Owner, task.ID, id)
	return false, err
}

var sqlReplayLane = `UPDATE {s}.webhook_lanes l SET cursor_seq = LEAST(cursor_seq, $4::bigint),
			cursor_sequence = CASE WHEN cursor_seq < $4::bigint THEN cursor_sequence ELSE $5::bigint END,
			cursor_state = CASE WHEN cursor_seq < $4::bigint THEN cursor_state ELSE $6::text END,
			phase = ` + lanePhase("LEAST(cursor_seq, $4::bigint)", "tail_seq", "lease_until > 0", "true") + `, era = {era},
			due_at = $7::bigint, updated_at = $7::bigint, ` + sqlRestartLane + `
		WHERE ` + sqlWebhookKey + ` RETURNING ` + laneList

// sqlDeleteReplayed must run after the lane was changed, so that no more dead letters are added.
const sqlDeleteReplayed = `DELETE FROM {s}.dead_letters WHERE owner = $1::text COLLATE "POSIX" AND task_id = $2::text COLLATE "POSIX"
		AND config_id = $3::text COLLATE "POSIX" AND seq > $4::bigint`

// ReplayWebhook implements [store.Webhooks].
func (s *webhookStore) ReplayWebhook(ctx context.Context, task store.Key, id string, cursor store.WebhookCursor, now time.Time) (at store.WebhookCursor, err error) {
	var lane store.Lane
	err = s.transact(ctx, "replay webhook", func(ctx context.Context, tx pgx.Tx) error {
		if !storable(task.Owner, task.ID, id) {
			return store.ErrNotFound
		}
		found := false
		err := s.eachRow(ctx, tx, sqlReplayLane, func(r record) error {
			lane, found = scanLane(r), true
			return nil
		}, task.Owner, task.ID, id, cursor.Seq, cursor.Sequence, string(cursor.State), millis(now))
		if err == nil && !found {
			err = store.ErrNotFound
		}
		if err == nil {
			_, err = s.exec(ctx, tx, sqlDeleteReplayed, task.Owner, task.ID, id, lane.Cursor.Seq)
		}
		return err
	})
	if err != nil {
		return store.WebhookCursor{}, err
	}
	s.lanesDue(lane.Pending())
	return lane.Cursor, nil
}

// stmtWakeLanes finds waiting lanes without locking them, and then locks them in the order of
// their keys, as acknowledgements do.
var stmtWakeLanes = &statement{
	name: "holdfast_lanes_wake",
	text: `WITH w AS MATERIALIZED (
			SELECT owner, task_id, id FROM {s}.webhook_lanes
			WHERE (phase = {ready} OR phase = {waiting}) AND endpoint = $1::text AND due_at > $2::bigint ORDER BY due_at LIMIT $3::bigint
		), u AS MATERIALIZED (
			SELECT l.* FROM (SELECT * FROM w ORDER BY owner, task_id, id) u CROSS JOIN LATERAL (
				SELECT l.owner, l.task_id, l.id FROM {s}.webhook_lanes l
				WHERE ` + sqlLaneKey + ` AND l.phase + 0 IN ({ready}, {waiting}) AND l.due_at > $2::bigint FOR NO KEY UPDATE) l
		)
		UPDATE {s}.webhook_lanes l SET phase = {ready}, era = {era}, due_at = $2::bigint FROM u WHERE ` + sqlLaneKey + ` RETURNING 1`,
}

// WakeLanes implements [store.Lanes]. It is not retried if the outcome is unknown.
func (s *webhookStore) WakeLanes(ctx context.Context, endpoint string, now time.Time, limit int) (n int, err error) {
	if limit <= 0 || !storable(endpoint) {
		return 0, nil
	}
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	wake := &call{statement: stmtWakeLanes, args: []any{endpoint, millis(now), limit}, row: func(record) { n++ }}
	err = s.retryRolledBack(ctx, "wake lanes", func() error {
		n = 0
		return s.pipelined(ctx, []*call{wake})
	})
	if err != nil {
		return 0, err
	}
	s.lanesDue(n > 0)
	return n, nil
}

// retryRolledBack runs f and retries transient failures after which nothing was stored. If the
// outcome is unknown, it returns the error.
func (s *webhookStore) retryRolledBack(ctx context.Context, op string, f func() error) error {
	for try := 0; ; try++ {
		err := f()
		if err == nil || try >= s.cfg.MaxRetries || !rolledBack(err) || !s.backoff(ctx, try, err) {
			return wrapError(ctx, err, op)
		}
	}
}
