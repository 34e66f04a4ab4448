package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

// ackParams is an acknowledgement of a lane.
type ackParams struct {
	Task      store.Key           `col:"owner,task_id"`
	ID        string              `col:"id"`
	Worker    string              `col:"worker"`
	Fence     int64               `col:"fence"`
	Hold      bool                `col:"hold"`
	At        int64               `col:"at"`
	Cursor    store.WebhookCursor `col:"cursor_seq,cursor_sequence,cursor_state"`
	State     string              `col:"state"`
	Reason    []byte              `col:"reason"`
	DueAt     int64               `col:"due_at"`
	Attempt   int64               `col:"attempt"`
	FailedAt  int64               `col:"failed_at"`
	Delivered int64               `col:"delivered"`
}

// attemptParams is a row of delivery attempts. Ord is the ordinal of the acknowledgement.
type attemptParams struct {
	Ord     int64  `col:"ord"`
	FirstAt int64  `col:"first_at"`
	LastAt  int64  `col:"last_at"`
	Data    string `col:"data"`
}

// deadLetterParams is a dead letter of an acknowledgement.
type deadLetterParams struct {
	Ord      int64               `col:"ord"`
	Seq      int64               `col:"seq"`
	Sequence int64               `col:"sequence"`
	At       int64               `col:"at"`
	Cursor   store.WebhookCursor `col:"cursor_seq,cursor_sequence,cursor_state"`
	Attempts int64               `col:"attempts"`
	Status   int64               `col:"status"`
	Reason   []byte              `col:"reason"`
}

var (
	ackRows          = paramRowsOf[ackParams]("u")
	attemptBatchRows = paramRowsOf[attemptParams]("a", ackRows)
	deadLetterRows   = paramRowsOf[deadLetterParams]("d", ackRows, attemptBatchRows)
	// deadLetterList are the columns of a dead letter besides its key.
	deadLetterList = deadLetterRows.Without("ord").List("")
)

// stmtAck acknowledges lanes with held leases, each at most once, and returns their ordinals
// and phases. It adds the attempts and dead letters of these lanes, which name the lane by its
// ordinal. It never moves a cursor back: a repeated acknowledgement may reach the server late.
var stmtAck = newStatement("holdfast_lanes_ack", "", `WITH u AS MATERIALIZED (
			SELECT * FROM {u ord}
		), h AS MATERIALIZED (
			SELECT u.* FROM u JOIN {s}.webhook_lanes l ON `+sqlLaneKey+` AND l.worker = u.worker AND l.fence = u.fence
			WHERE l.worker <> '' AND l.cursor_seq <= u.cursor_seq ORDER BY u.ord FOR NO KEY UPDATE OF l
		), up AS (
			UPDATE {s}.webhook_lanes l SET
				worker = CASE WHEN u.hold THEN l.worker ELSE '' END,
				lease_until = CASE WHEN u.hold THEN l.lease_until ELSE 0 END,
				phase = `+lanePhase("u.cursor_seq", "l.tail_seq", "u.hold", "u.due_at <= u.at")+`, era = {era},
				cursor_seq = u.cursor_seq, cursor_sequence = u.cursor_sequence, cursor_state = u.cursor_state, state = u.state,
				reason = u.reason, due_at = u.due_at, attempt = u.attempt, failed_at = u.failed_at, delivered = l.delivered + u.delivered,
				delivered_at = CASE WHEN u.delivered > 0 THEN u.at ELSE l.delivered_at END, updated_at = u.at
			FROM h u WHERE `+sqlLaneKey+`
			RETURNING u.ord, l.owner, l.task_id, l.id, l.phase
		), a AS (
			INSERT INTO {s}.delivery_attempts (owner, task_id, config_id, first_at, last_at, data)
			SELECT up.owner, up.task_id, up.id, a.first_at, a.last_at, a.data
			FROM {a} JOIN up ON up.ord = a.ord
		), d AS (
			INSERT INTO {s}.dead_letters (owner, task_id, config_id, `+deadLetterList+`)
			SELECT up.owner, up.task_id, up.id, `+deadLetterRows.Without("ord").List("d.")+` FROM {d} JOIN up ON up.ord = d.ord
			ON CONFLICT (owner COLLATE "POSIX", task_id COLLATE "POSIX", config_id COLLATE "POSIX", seq) DO UPDATE SET
				sequence = excluded.sequence, at = excluded.at, cursor_seq = excluded.cursor_seq, cursor_sequence = excluded.cursor_sequence,
				cursor_state = excluded.cursor_state, attempts = excluded.attempts, status = excluded.status, reason = excluded.reason
		)
		SELECT ord, phase FROM up`, ackRows, attemptBatchRows, deadLetterRows)

// AckLanes implements [store.Lanes]. It is not retried if the outcome is unknown.
func (s *webhookStore) AckLanes(ctx context.Context, acks ...store.LaneAck) (lost []store.LaneLease, err error) {
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
			phase := sqlrow.Phase(r.int(1))
			due = due || phase == sqlrow.PhaseReady
			if phase == sqlrow.PhaseWaiting {
				s.waitingLanes.added(millis(acks[wave[r.int(0)-1]].DueAt))
			}
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
		s.laneWatchers.Notify()
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

var sqlReleaseRevoked = newStatement("", "", `WITH u AS MATERIALIZED (
		SELECT * FROM {u ord}
	), g AS (
		DELETE FROM {s}.deleted_webhooks l USING u
		WHERE `+sqlLaneKey+` AND l.fence = u.fence + 1
	), h AS MATERIALIZED (
		SELECT l.owner, l.task_id, l.id FROM u JOIN {s}.webhook_lanes l ON `+sqlLaneKey+` AND l.fence = u.fence + 1
		WHERE l.worker = '' AND l.lease_until > 0 ORDER BY u.ord FOR NO KEY UPDATE OF l
	)
	UPDATE {s}.webhook_lanes l SET lease_until = 0, phase = CASE l.phase WHEN {leased} THEN {ready} ELSE l.phase END, era = {era}
	FROM h u WHERE `+sqlLaneKey+` RETURNING l.phase`, leaseRows).text

// releaseRevoked makes lanes with revoked leases claimable, and forgets webhooks that were
// deleted while their lanes were leased. It runs after the acknowledgement, so that it sees the
// revocations for which the acknowledgement waited.
func (s *webhookStore) releaseRevoked(ctx context.Context, leases []store.LaneLease) error {
	sorted := sortLeases(leases)
	if len(sorted) == 0 {
		return nil
	}
	due := false
	err := s.retry(ctx, "release revoked leases", func(ctx context.Context, c *pgx.Conn) error {
		return s.eachRow(ctx, c, sqlReleaseRevoked, func(r record) error {
			due = due || sqlrow.Phase(r.int(0)) == sqlrow.PhaseReady
			return nil
		}, leaseRows.args(sorted)...)
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
	ackRows.add(k, &ackParams{
		Task: a.Lease.Task, ID: a.Lease.ID, Worker: a.Lease.Worker, Fence: a.Lease.Fence, Hold: a.KeepLease, At: millis(a.At),
		Cursor: a.Cursor, State: string(a.State), Reason: []byte(a.Reason), DueAt: millis(a.DueAt), Attempt: int64(a.Attempt),
		FailedAt: millis(a.FailedAt), Delivered: int64(a.Delivered),
	})
	for _, b := range encoding.AttemptRows(a.Attempts, batchSpan) { // as few rows as possible
		data, err := encoding.Attempts(b)
		if err != nil {
			return err
		}
		attemptBatchRows.add(k, &attemptParams{Ord: ord, FirstAt: b[0].At, LastAt: b[len(b)-1].At, Data: string(data)})
	}
	last := make(map[int64]int, len(a.Dead))
	for i := range a.Dead {
		last[a.Dead[i].Seq] = i
	}
	for i := range a.Dead {
		if d := &a.Dead[i]; last[d.Seq] == i {
			deadLetterRows.add(k, &deadLetterParams{
				Ord: ord, Seq: d.Seq, Sequence: d.Sequence, At: millis(d.At), Cursor: d.Cursor,
				Attempts: int64(d.Attempts), Status: int64(d.Status), Reason: []byte(d.Reason),
			})
		}
	}
	return nil
}
