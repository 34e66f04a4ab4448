package sqlite

import (
	"context"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

const (
	sqlRenewLane      = `UPDATE webhook_lanes SET lease_until = ? WHERE pk = ?`
	sqlInsertAttempts = `INSERT INTO webhook_attempts (lane_pk, task_pk, owner, at, n, attempts) VALUES (?,?,?,?,?,?)`
	sqlInsertDead     = `INSERT INTO webhook_dead (lane_pk, task_pk, owner, at, seq, sequence, cursor_seq, cursor_sequence, cursor_state,
		attempts, status, reason) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)`
)

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
func (s *Store) AckLanes(ctx context.Context, acks ...store.LaneAck) (lost []store.LaneLease, err error) {
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

// releaseRevoked makes a lane claimable again if lease was revoked. If its webhook was
// deleted, it removes the lane.
func (w *writer) releaseRevoked(l *laneRow, lease *store.LaneLease, now int64) error {
	switch revoked := l.wasRevoked(lease); {
	case l.deleted() && (revoked || l.heldBy(lease)):
		return w.removeLane(l)
	case revoked && !l.deleted():
		l.release()
		return w.putLane(l, now)
	}
	return nil
}

// ack applies an acknowledgement. It returns false if its lease is not held.
func (w *writer) ack(a *ack) (held bool, err error) {
	lane, found, err := w.lane(a.Lease.Task, a.Lease.ID)
	switch {
	case err != nil || !found:
		return false, err
	case !lane.deleted() && lane.heldBy(&a.Lease):
	case a.KeepLease:
		return false, nil
	default:
		return false, w.releaseRevoked(&lane, &a.Lease, millis(a.At))
	}
	at := millis(a.At)
	lane.Cursor, lane.State, lane.Reason = a.Cursor, string(a.State), a.Reason
	lane.DueAt, lane.Attempt, lane.FailedAt, lane.UpdatedAt = millis(a.DueAt), int64(a.Attempt), millis(a.FailedAt), at
	if a.Delivered > 0 {
		lane.Delivered += int64(a.Delivered)
		lane.DeliveredAt = at
	}
	lane.Dead += int64(len(a.Dead))
	if !a.KeepLease {
		lane.release()
	}
	if err := w.putLane(&lane, at); err != nil {
		return true, err
	}
	for _, row := range a.attempts {
		if _, err := w.insertAttempts.exec(lane.PK, lane.TaskPK, lane.Task.Owner, row.at, int64(row.n), row.text); err != nil {
			return true, err
		}
	}
	for i := range a.Dead {
		d := &a.Dead[i]
		_, err := w.insertDead.exec(lane.PK, lane.TaskPK, lane.Task.Owner, millis(d.At), d.Seq, d.Sequence,
			d.Cursor.Seq, d.Cursor.Sequence, string(d.Cursor.State), int64(d.Attempts), int64(d.Status), d.Reason)
		if err != nil {
			return true, err
		}
	}
	return true, nil
}
