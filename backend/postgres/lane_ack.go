package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

// stmtAck acknowledges lanes whose leases are held, each at most once, and returns their
// ordinals and phases. It adds the attempts and dead letters of these lanes, which name the
// lane by its ordinal. It never moves a cursor back: a repeated acknowledgement may reach the
// server late.
var stmtAck = &statement{
	name: "holdfast_lanes_ack",
	text: `WITH u AS MATERIALIZED (
			SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::boolean[], $7::bigint[], $8::bigint[], $9::bigint[],
				$10::text[], $11::text[], $12::bytea[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[])
			WITH ORDINALITY AS u(owner, task_id, id, worker, fence, hold, at, cursor_seq, cursor_sequence, cursor_state, state, reason, due_at,
				attempt, failed_at, delivered, ord)
		), h AS MATERIALIZED (
			SELECT u.* FROM u JOIN {s}.webhook_lanes l ON ` + sqlLaneKey + ` AND l.worker = u.worker AND l.fence = u.fence
			WHERE l.worker <> '' AND l.cursor_seq <= u.cursor_seq ORDER BY u.ord FOR NO KEY UPDATE OF l
		), up AS (
			UPDATE {s}.webhook_lanes l SET
				worker = CASE WHEN u.hold THEN l.worker ELSE '' END,
				lease_until = CASE WHEN u.hold THEN l.lease_until ELSE 0 END,
				phase = CASE WHEN u.cursor_seq >= l.tail_seq THEN 0 WHEN u.hold THEN 3 WHEN u.due_at <= u.at THEN 1 ELSE 2 END,
				cursor_seq = u.cursor_seq, cursor_sequence = u.cursor_sequence, cursor_state = u.cursor_state, state = u.state,
				reason = u.reason, due_at = u.due_at, attempt = u.attempt, failed_at = u.failed_at, delivered = l.delivered + u.delivered,
				delivered_at = CASE WHEN u.delivered > 0 THEN u.at ELSE l.delivered_at END, updated_at = u.at
			FROM h u WHERE ` + sqlLaneKey + `
			RETURNING u.ord, l.owner, l.task_id, l.id, l.phase
		), a AS (
			INSERT INTO {s}.delivery_attempts (owner, task_id, config_id, first_at, last_at, data)
			SELECT up.owner, up.task_id, up.id, a.first_at, a.last_at, a.data
			FROM unnest($17::bigint[], $18::bigint[], $19::bigint[], $20::text[]) AS a(ord, first_at, last_at, data) JOIN up ON up.ord = a.ord
		), d AS (
			INSERT INTO {s}.dead_letters (owner, task_id, config_id, seq, sequence, at, cursor_seq, cursor_sequence, cursor_state, attempts, status, reason)
			SELECT up.owner, up.task_id, up.id, d.seq, d.sequence, d.at, d.cursor_seq, d.cursor_sequence, d.cursor_state, d.attempts, d.status, d.reason
			FROM unnest($21::bigint[], $22::bigint[], $23::bigint[], $24::bigint[], $25::bigint[], $26::bigint[], $27::text[], $28::bigint[],
				$29::bigint[], $30::bytea[]) AS d(ord, seq, sequence, at, cursor_seq, cursor_sequence, cursor_state, attempts, status, reason)
			JOIN up ON up.ord = d.ord
			ON CONFLICT (owner COLLATE "POSIX", task_id COLLATE "POSIX", config_id COLLATE "POSIX", seq) DO UPDATE SET
				sequence = excluded.sequence, at = excluded.at, cursor_seq = excluded.cursor_seq, cursor_sequence = excluded.cursor_sequence,
				cursor_state = excluded.cursor_state, attempts = excluded.attempts, status = excluded.status, reason = excluded.reason
		)
		SELECT ord, phase FROM up`,
	arrays: []uint32{
		oidText, oidText, oidText, oidText, oidInt8, oidBool, oidInt8, oidInt8, oidInt8, oidText, oidText, oidBytea, oidInt8, oidInt8, oidInt8, oidInt8,
		oidInt8, oidInt8, oidInt8, oidText,
		oidInt8, oidInt8, oidInt8, oidInt8, oidInt8, oidInt8, oidText, oidInt8, oidInt8, oidBytea,
	},
}

// AckLanes implements [store.Lanes]. It is not retried if the outcome is unknown.
func (s *Store) AckLanes(ctx context.Context, acks ...store.LaneAck) (lost []store.LaneLease, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	held := make([]bool, len(acks))
	due := false
	for _, wave := range ackWaves(acks) { // separate transactions: one of all waves would not lock in the order of keys
		k := newCall(stmtAck)
		for i, at := range wave {
			if err := k.ack(int64(i+1), &acks[at]); err != nil {
				return nil, wrapError(ctx, err, "acknowledge lanes")
			}
		}
		k.row = func(r record) {
			held[wave[r.int(0)-1]] = true
			due = due || r.int(1) == 1
		}
		err := s.retryRolledBack(ctx, "acknowledge lanes", func() error {
			for _, at := range wave {
				held[at] = false
			}
			return s.pipelined(ctx, []*call{k})
		})
		if err != nil {
			return nil, err
		}
	}
	if due {
		s.laneWatchers.notify()
	}
	var ended []store.LaneLease
	for i := range acks {
		if held[i] {
			continue
		}
		if lost = append(lost, acks[i].Lease); !acks[i].KeepLease {
			ended = append(ended, acks[i].Lease)
		}
	}
	if err := s.releaseRevoked(ctx, ended); err != nil {
		return nil, err
	}
	return lost, nil
}

const sqlReleaseRevoked = `WITH u AS MATERIALIZED (
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[]) WITH ORDINALITY AS u(owner, task_id, id, worker, fence, ord)
	), g AS (
		DELETE FROM {s}.deleted_webhooks l USING u
		WHERE ` + sqlLaneKey + ` AND (l.worker = u.worker AND l.fence = u.fence OR l.worker = '' AND l.fence = u.fence + 1)
	), h AS MATERIALIZED (
		SELECT l.owner, l.task_id, l.id FROM u JOIN {s}.webhook_lanes l ON ` + sqlLaneKey + ` AND l.fence = u.fence + 1
		WHERE l.worker = '' AND l.lease_until > 0 ORDER BY u.ord FOR NO KEY UPDATE OF l
	)
	UPDATE {s}.webhook_lanes l SET lease_until = 0, phase = CASE WHEN l.phase > 0 THEN 1 ELSE 0 END
	FROM h u WHERE ` + sqlLaneKey + ` RETURNING l.phase`

// releaseRevoked makes lanes claimable whose leases were revoked, and forgets webhooks that were
// deleted while their lanes were leased. It runs after the acknowledgement, so that it sees
// the revocations for which the acknowledgement waited.
func (s *Store) releaseRevoked(ctx context.Context, leases []store.LaneLease) error {
	a := leaseArrays(sortLeases(leases))
	if len(a.fences) == 0 {
		return nil
	}
	due := false
	err := s.retry(ctx, "release revoked leases", func(ctx context.Context, c *pgx.Conn) error {
		return s.eachRow(ctx, c, sqlReleaseRevoked, func(r record) error {
			due = due || r.int(0) > 0
			return nil
		}, a.owners, a.tasks, a.ids, a.workers, a.fences)
	})
	s.lanesDue(due)
	return err
}

// ackWaves returns the indexes of acknowledgements in waves with at most one per lane, in the
// order of the lanes' keys. It omits leases that cannot exist.
func ackWaves(acks []store.LaneAck) (waves [][]int) {
	type lane struct {
		task store.Key
		id   string
	}
	nth := make(map[lane]int, len(acks))
	for i := range acks {
		l := &acks[i].Lease
		if !storableLease(l) {
			continue
		}
		k := lane{l.Task, l.ID}
		n := nth[k]
		if nth[k]++; n == len(waves) {
			waves = append(waves, nil)
		}
		waves[n] = append(waves[n], i)
	}
	for _, wave := range waves {
		slices.SortFunc(wave, func(a, b int) int {
			x, y := &acks[a].Lease, &acks[b].Lease
			return cmp.Or(compareKeys(x.Task, y.Task), cmp.Compare(x.ID, y.ID))
		})
	}
	return waves
}

// ack adds the arguments of an acknowledgement.
func (k *call) ack(ord int64, a *store.LaneAck) error {
	col := k.columns
	for i, v := range []string{a.Lease.Task.Owner, a.Lease.Task.ID, a.Lease.ID, a.Lease.Worker} {
		col[i].text(v)
	}
	col[4].int(a.Lease.Fence)
	col[5].bool(a.KeepLease)
	for i, v := range []int64{millis(a.At), a.Cursor.Seq, a.Cursor.Sequence} {
		col[6+i].int(v)
	}
	col[9].text(string(a.Cursor.State))
	col[10].text(string(a.State))
	col[11].text(a.Reason)
	for i, v := range []int64{millis(a.DueAt), int64(a.Attempt), millis(a.FailedAt), int64(a.Delivered)} {
		col[12+i].int(v)
	}
	if err := k.ackAttempts(col[16:20], ord, a.Attempts); err != nil {
		return err
	}
	last := make(map[int64]int, len(a.Dead))
	for i := range a.Dead {
		last[a.Dead[i].Seq] = i
	}
	for i := range a.Dead {
		if d := &a.Dead[i]; last[d.Seq] == i {
			dead := col[20:]
			for j, v := range []int64{ord, d.Seq, d.Sequence, millis(d.At), d.Cursor.Seq, d.Cursor.Sequence} {
				dead[j].int(v)
			}
			dead[6].text(string(d.Cursor.State))
			dead[7].int(int64(d.Attempts))
			dead[8].int(int64(d.Status))
			dead[9].text(d.Reason)
		}
	}
	return nil
}

// ackAttempts adds attempts in as few rows as possible.
func (k *call) ackAttempts(col []array, ord int64, attempts []store.DeliveryAttempt) error {
	for _, b := range encoding.AttemptRows(attempts, batchSpan) {
		data, err := encoding.Attempts(b)
		if err != nil {
			return err
		}
		col[0].int(ord)
		col[1].int(b[0].At)
		col[2].int(b[len(b)-1].At)
		col[3].text(string(data))
	}
	return nil
}
