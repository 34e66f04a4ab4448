package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// stmtPush saves webhooks of tasks that are locked, each once. Without a time it is
// that of the task's last event. A lease is taken away: the lane stays barred until its
// holder knows, or it has ended. So does that of a deleted webhook of the name that a
// worker may still be busy with.
var stmtPush = &statement{
	name: "holdfast_push",
	text: `WITH u AS MATERIALIZED (
			SELECT u.*, t.pk, t.seq, t.context_id, t.created_at AS born, coalesce(u.at, t.updated_at) AS now
			FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::boolean[], $7::bigint[], $8::bigint[],
				$9::text[], $10::bigint[], $11::bigint[])
				WITH ORDINALITY AS u(owner, task_id, id, endpoint, data, long_running, cursor_seq, cursor_sequence, cursor_state, at, made_at, ord)
			JOIN {s}.task_rows t ON t.owner = u.owner COLLATE "POSIX" AND t.id = u.task_id COLLATE "POSIX"
		), gone AS (
			DELETE FROM {s}.push_gone l USING u WHERE ` + sqlLaneKey + ` RETURNING u.ord, l.lease_until,
				CASE WHEN l.worker = '' THEN l.fence ELSE l.fence + 1 END AS fence
		), c AS (
			INSERT INTO {s}.push_configs AS c (owner, task_id, id, task_pk, context_id, task_created_at, data, long_running, rev, created_at, updated_at)
			SELECT owner, task_id, id, pk, context_id, born, data, long_running, 1, coalesce(made_at, now), now FROM u ORDER BY ord
			ON CONFLICT (owner COLLATE "POSIX", task_id COLLATE "POSIX", id COLLATE "POSIX") DO UPDATE SET
				data = excluded.data, long_running = excluded.long_running, rev = c.rev + 1, updated_at = excluded.updated_at
			RETURNING c.*
		), l AS (
			INSERT INTO {s}.push_lanes AS l (owner, task_id, id, endpoint, rev, phase, state, long_running, cursor_seq, cursor_sequence,
				cursor_state, tail_seq, due_at, attempt, failed_at, delivered, delivered_at, updated_at, worker, fence, lease_until, reason)
			SELECT u.owner, u.task_id, u.id, u.endpoint, c.rev,
				CASE WHEN u.cursor_seq >= u.seq THEN 0 WHEN g.ord IS NULL THEN 1 ELSE 3 END, 'active', u.long_running,
				u.cursor_seq, u.cursor_sequence, u.cursor_state, u.seq, u.now, 0, 0, 0, 0, u.now, '',
				coalesce(g.fence, u.now), coalesce(g.lease_until, 0), ''
			FROM u JOIN c ON c.owner = u.owner AND c.task_id = u.task_id AND c.id = u.id LEFT JOIN gone g ON g.ord = u.ord ORDER BY u.ord
			ON CONFLICT (owner COLLATE "POSIX", task_id COLLATE "POSIX", id COLLATE "POSIX") DO UPDATE SET
				endpoint = excluded.endpoint, rev = excluded.rev, long_running = excluded.long_running, state = 'active',
				phase = CASE WHEN l.cursor_seq >= l.tail_seq THEN 0 WHEN l.lease_until > 0 THEN 3 ELSE 1 END, due_at = excluded.due_at,
				attempt = 0, failed_at = 0, updated_at = excluded.updated_at, ` + sqlTakeLease + `, reason = ''
			RETURNING l.*, l.rev = 1 AS made
		), n AS (
			UPDATE {s}.task_rows t SET webhooks = t.webhooks + u.n
			FROM (SELECT owner, task_id, count(*)::integer AS n FROM l WHERE made GROUP BY 1, 2) u
			WHERE t.owner = u.owner COLLATE "POSIX" AND t.id = u.task_id COLLATE "POSIX"
		)
		SELECT ` + laneColumns + `, c.data, c.created_at FROM l JOIN c ON c.owner = l.owner AND c.task_id = l.task_id AND c.id = l.id`,
	arrays: []uint32{
		oidText, oidText, oidText, oidText, oidText, oidBool, oidInt8, oidInt8, oidText, oidInt8, oidInt8,
	},
}

// sqlTakeLease takes the lease of the lane l away, if there is one.
const sqlTakeLease = `fence = CASE WHEN l.worker = '' AND l.lease_until > 0 THEN l.fence ELSE l.fence + 1 END, worker = ''`

// pushes writes the webhooks that changes bring; one that is there twice takes two
// statements.
func (c *committer) pushes(changes []*change) (calls []*call) {
	type webhook struct {
		task store.Key
		id   string
	}
	var nth map[webhook]int
	for _, ch := range changes {
		for i := range ch.Push {
			p := &ch.Push[i]
			if nth == nil {
				nth = make(map[webhook]int)
			}
			w := webhook{ch.Key, p.ID}
			n := nth[w]
			if nth[w]++; n == len(calls) {
				calls = append(calls, c.call(stmtPush))
			}
			col := calls[n].columns
			for j, v := range []string{ch.Key.Owner, ch.Key.ID, p.ID, p.Endpoint, string(p.Data)} {
				col[j].text(v)
			}
			col[5].bool(p.LongRunning)
			col[6].int(p.Cursor.Seq)
			col[7].int(p.Cursor.Sequence)
			col[8].text(string(p.Cursor.State))
			col[9].null()
			col[10].null()
		}
	}
	return calls
}

// sqlHoldTask keeps the task from being changed by others, and so its lanes from
// being moved on.
const sqlHoldTask = `SELECT 1 FROM {s}.task_rows WHERE owner = $1::text COLLATE "POSIX" AND id = $2::text COLLATE "POSIX" FOR NO KEY UPDATE`

// SavePush implements [store.PushStore].
func (s *Store) SavePush(ctx context.Context, c store.PushConfig, cursor store.PushCursor, now time.Time) (lane store.Lane, err error) {
	err = s.transact(ctx, "save webhook", func(ctx context.Context, tx pgx.Tx) error {
		if !storable(c.Task.Owner, c.Task.ID) {
			return store.ErrNotFound
		}
		found, err := s.any(ctx, tx, sqlHoldTask, c.Task.Owner, c.Task.ID)
		if err == nil && !found {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		return s.each(ctx, tx, stmtPush.text, func(r record) error {
			lane = scanLane(r)
			scanConfig(&lane.Config, r[laneWidth:])
			return nil
		}, []string{c.Task.Owner}, []string{c.Task.ID}, []string{c.ID}, []string{c.Endpoint}, []string{string(c.Data)},
			[]bool{c.LongRunning}, []int64{cursor.Seq}, []int64{cursor.Sequence}, []string{string(cursor.State)},
			[]int64{millis(now)}, []int64{millis(c.CreatedAt)})
	})
	if err != nil {
		return store.Lane{}, err
	}
	s.lanesDue(lane.Pending())
	return lane, nil
}

const (
	sqlDeleteLane = `DELETE FROM {s}.push_lanes WHERE ` + sqlThisKey + ` RETURNING worker, fence, lease_until`
	// It comes after the lane was removed, so that no more attempts are added.
	sqlDeletePush = `WITH c AS (
			DELETE FROM {s}.push_configs WHERE ` + sqlThisKey + `
		), a AS (
			DELETE FROM {s}.push_attempts WHERE owner = $1::text AND task_id = $2::text AND config_id = $3::text
		), d AS (
			DELETE FROM {s}.push_dead WHERE owner = $1::text COLLATE "POSIX" AND task_id = $2::text COLLATE "POSIX" AND config_id = $3::text COLLATE "POSIX"
		), g AS (
			INSERT INTO {s}.push_gone (owner, task_id, id, worker, fence, lease_until)
			SELECT $1::text, $2::text, $3::text, $4::text, $5::bigint, $6::bigint WHERE $6::bigint > 0
		)
		UPDATE {s}.task_rows SET webhooks = webhooks - 1 WHERE owner = $1::text COLLATE "POSIX" AND id = $2::text COLLATE "POSIX"`
	sqlReadGone   = `SELECT lease_until FROM {s}.push_gone WHERE ` + sqlThisKey
	sqlForgetGone = `DELETE FROM {s}.push_gone WHERE ` + sqlThisKey
)

// DeletePush implements [store.PushStore].
func (s *Store) DeletePush(ctx context.Context, task store.Key, id string, now time.Time) (busy bool, err error) {
	err = s.transact(ctx, "delete webhook", func(ctx context.Context, tx pgx.Tx) error {
		busy = false
		if !storable(task.Owner, task.ID, id) {
			return store.ErrNotFound
		}
		if _, err := s.any(ctx, tx, sqlHoldTask, task.Owner, task.ID); err != nil {
			return err
		}
		found, worker, fence, until := false, "", int64(0), int64(0)
		err := s.each(ctx, tx, sqlDeleteLane, func(r record) error {
			found, worker, fence, until = true, r.text(0), r.int(1), r.int(2)
			return nil
		}, task.Owner, task.ID, id)
		if err != nil {
			return err
		}
		if !found {
			busy, err = s.deleteGone(ctx, tx, task, id, now)
			return err
		}
		if busy = until > millis(now); !busy {
			until = 0
		}
		_, err = s.exec(ctx, tx, sqlDeletePush, task.Owner, task.ID, id, worker, fence, until)
		return err
	})
	return busy && err == nil, err
}

// deleteGone removes what is left of a deleted webhook, unless a worker is still
// busy with it.
func (s *Store) deleteGone(ctx context.Context, tx pgx.Tx, task store.Key, id string, now time.Time) (busy bool, err error) {
	found := false
	err = s.each(ctx, tx, sqlReadGone, func(r record) error {
		found, busy = true, r.int(0) > millis(now)
		return nil
	}, task.Owner, task.ID, id)
	switch {
	case err != nil || busy:
		return busy, err
	case !found:
		return false, store.ErrNotFound
	}
	_, err = s.exec(ctx, tx, sqlForgetGone, task.Owner, task.ID, id)
	return false, err
}

const (
	sqlReplayLane = `UPDATE {s}.push_lanes l SET cursor_seq = LEAST(cursor_seq, $4::bigint),
			cursor_sequence = CASE WHEN cursor_seq < $4::bigint THEN cursor_sequence ELSE $5::bigint END,
			cursor_state = CASE WHEN cursor_seq < $4::bigint THEN cursor_state ELSE $6::text END,
			phase = CASE WHEN LEAST(cursor_seq, $4::bigint) >= tail_seq THEN 0 WHEN lease_until > 0 THEN 3 ELSE 1 END,
			state = 'active', reason = '', due_at = $7::bigint, attempt = 0, failed_at = 0, updated_at = $7::bigint, ` + sqlTakeLease + `
		WHERE ` + sqlThisKey + ` RETURNING phase, cursor_seq, cursor_sequence, cursor_state`
	// It comes after the lane was changed, so that no more of them are added.
	sqlReplayDead = `DELETE FROM {s}.push_dead WHERE owner = $1::text COLLATE "POSIX" AND task_id = $2::text COLLATE "POSIX"
		AND config_id = $3::text COLLATE "POSIX" AND seq > $4::bigint`
)

// ReplayPush implements [store.PushStore].
func (s *Store) ReplayPush(ctx context.Context, task store.Key, id string, cursor store.PushCursor, now time.Time) (at store.PushCursor, err error) {
	due := false
	err = s.transact(ctx, "replay webhook", func(ctx context.Context, tx pgx.Tx) error {
		if !storable(task.Owner, task.ID, id) {
			return store.ErrNotFound
		}
		found := false
		err := s.each(ctx, tx, sqlReplayLane, func(r record) error {
			found, due = true, r.int(0) > 0
			at = store.PushCursor{Seq: r.int(1), Sequence: r.int(2), State: a2a.TaskState(r.text(3))}
			return nil
		}, task.Owner, task.ID, id, cursor.Seq, cursor.Sequence, string(cursor.State), millis(now))
		if err == nil && !found {
			err = store.ErrNotFound
		}
		if err == nil {
			_, err = s.exec(ctx, tx, sqlReplayDead, task.Owner, task.ID, id, at.Seq)
		}
		return err
	})
	if err != nil {
		return store.PushCursor{}, err
	}
	s.lanesDue(due)
	return at, nil
}

// stmtWake finds waiting lanes without a lock, and locks them in the order of their
// keys, as acknowledgements do.
var stmtWake = &statement{
	name: "holdfast_lanes_wake",
	text: `WITH w AS MATERIALIZED (
			SELECT owner, task_id, id FROM {s}.push_lanes
			WHERE (phase = 1 OR phase = 2) AND endpoint = $1::text AND due_at > $2::bigint ORDER BY due_at LIMIT $3::bigint
		), u AS MATERIALIZED (
			SELECT l.* FROM (SELECT * FROM w ORDER BY owner, task_id, id) u CROSS JOIN LATERAL (
				SELECT l.owner, l.task_id, l.id FROM {s}.push_lanes l
				WHERE ` + sqlLaneKey + ` AND l.phase + 0 IN (1, 2) AND l.due_at > $2::bigint FOR NO KEY UPDATE) l
		)
		UPDATE {s}.push_lanes l SET phase = 1, due_at = $2::bigint FROM u WHERE ` + sqlLaneKey + ` RETURNING 1`,
}

// WakeLanes implements [store.PushStore]. It is not tried again when lanes may have
// been woken.
func (s *Store) WakeLanes(ctx context.Context, endpoint string, now time.Time, limit int) (n int, err error) {
	if limit <= 0 || !storable(endpoint) {
		return 0, nil
	}
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.leave()
	wake := &call{statement: stmtWake, args: []any{endpoint, millis(now), limit}, row: func(record) { n++ }}
	err = s.openly(ctx, "wake lanes", func() error {
		n = 0
		return s.pipelined(ctx, []*call{wake})
	})
	if err != nil {
		return 0, err
	}
	s.lanesDue(n > 0)
	return n, nil
}

// openly runs f, and again as long as it has not stored anything: else it is open
// what it did, and up to the caller to go on.
func (s *Store) openly(ctx context.Context, doing string, f func() error) error {
	for try := 0; ; try++ {
		err := f()
		if err == nil || try >= s.cfg.MaxRetries || !undone(err) || !s.pause(ctx, try, err) {
			return failed(ctx, err, doing)
		}
	}
}
