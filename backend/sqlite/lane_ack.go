package sqlite

import (
	"context"
	"time"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
	"github.com/holdfast-dev/holdfast/store/rules"
)

const (
	sqlRenewLane      = `UPDATE webhook_lanes SET lease_until = ? WHERE pk = ?`
	sqlInsertAttempts = `INSERT INTO webhook_attempts (lane_pk, task_pk, owner, at, n, attempts) VALUES (?,?,?,?,?,?)`
)

var sqlInsertDead = `INSERT INTO webhook_dead (` + sqlrow.DeadLetterColumns.List("") + `, lane_pk, task_pk, owner)
	VALUES (` + sqlrow.DeadLetterColumns.Marks() + `, ?, ?, ?)`

// attemptSpan is the maximum time between attempts that share a row. Reads and expiry
// by time extend their range by it.
const attemptSpan = 250 // ms

// attemptRow is a row of webhook_attempts to be written.
type attemptRow struct {
	at   int64
	n    int
	text string
}

// ack is a store.LaneAck with its attempts encoded.
type ack struct {
	*store.LaneAck
	attempts []attemptRow
}

// encodeAttempts groups attempts into rows, in the order of their times.
func encodeAttempts(all []store.DeliveryAttempt) (rows []attemptRow, err error) {
	for _, attempts := range encoding.AttemptRows(all, attemptSpan) {
		row, err := encodeAttemptRow(attempts)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// encodeAttemptRow encodes attempts that share a row. The last one is the newest.
func encodeAttemptRow(attempts []encoding.Attempt) (attemptRow, error) {
	data, err := encoding.Attempts(attempts)
	if err != nil {
		return attemptRow{}, err
	}
	return attemptRow{at: attempts[len(attempts)-1].At, n: len(attempts), text: string(data)}, nil
}

// AckLanes implements store.Lanes.
func (s *webhookStore) AckLanes(ctx context.Context, acks ...store.LaneAck) (lost []store.LaneLease, err error) {
	ready, size := make([]ack, len(acks)), 0
	for i := range acks {
		ready[i].LaneAck = &acks[i]
		if ready[i].attempts, err = encodeAttempts(acks[i].Attempts); err != nil {
			return nil, err
		}
		for _, row := range ready[i].attempts {
			size += len(row.text)
		}
	}
	err = s.write(ctx, &request{weight: len(acks), bytes: size, apply: func(w *writer) error {
		lost = nil
		for i := range ready {
			held, err := w.ack(&ready[i])
			if err != nil {
				return err
			}
			if !held {
				lost = append(lost, ready[i].Lease)
			}
		}
		return nil
	}})
	return lost, err
}

// ack applies an acknowledgement. It returns false if its lease is not held.
func (w *laneWriter) ack(a *ack) (held bool, err error) {
	lane, found, err := w.lane(a.Lease.Task, a.Lease.ID)
	if err != nil || !found {
		return false, err
	}
	after, verdict := lane.Ack(a.LaneAck)
	if verdict == rules.LaneAcked {
		lane.Dead += int64(len(a.Dead))
	}
	if err := w.applyVerdict(&lane, after, verdict, a.At); err != nil || verdict != rules.LaneAcked {
		return false, err
	}
	for _, row := range a.attempts {
		if _, err := w.exec(sqlInsertAttempts, lane.PK, lane.TaskPK, lane.Webhook.Task.Owner, row.at, int64(row.n), row.text); err != nil {
			return true, err
		}
	}
	for i := range a.Dead {
		_, err := w.exec(sqlInsertDead, sqlrow.DeadLetterColumns.Args(&a.Dead[i], lane.PK, lane.TaskPK, lane.Webhook.Task.Owner)...)
		if err != nil {
			return true, err
		}
	}
	return true, nil
}

// applyVerdict writes the lane after an acknowledgement or a release.
func (w *laneWriter) applyVerdict(l *laneRow, after rules.Lane, v rules.LaneVerdict, at time.Time) error {
	switch v {
	case rules.LaneAcked, rules.LaneReleased:
		l.Lane = after
		return w.putLane(l, at)
	case rules.LaneRemoved:
		return w.removeLane(l)
	case rules.LaneLost:
	}
	return nil
}
