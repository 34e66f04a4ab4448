package sqlite

import (
	"context"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
)

// The values of webhook_lanes.phase. Lanes in the phases laneReady to laneWaiting have
// pending events.
const (
	laneIdle int64 = iota
	laneReady
	laneLeased
	laneWaiting
	laneDone    // idle, and the task is in a terminal state
	laneDeleted // webhook deleted while a worker holds the lease
)

// The statements that read and write whole lanes.
var (
	sqlSelectLane = `SELECT ` + laneList + ` FROM webhook_lanes WHERE owner = ? AND task_id = ? AND id = ?`
	sqlInsertLane = `INSERT INTO webhook_lanes (` + laneColumns.List("") + `) VALUES (` + laneColumns.Marks() + `)`
	sqlUpdateLane = `UPDATE webhook_lanes SET ` + changedLane.Set() + ` WHERE pk=?`
)

const (
	sqlDropLane      = `DELETE FROM webhook_lanes WHERE pk = ?`
	sqlCountLanes    = `UPDATE task_rows SET lanes = ? WHERE pk = ?`
	sqlInsertWebhook = `INSERT INTO webhook_rows (pk, data, created_at, saved_at) VALUES (?,?,?,?)`
	sqlUpdateWebhook = `UPDATE webhook_rows SET data = ?, saved_at = ? WHERE pk = ? RETURNING created_at`
	sqlRemoveWebhook = `DELETE FROM webhook_rows WHERE pk = ?`

	// These statements change the lanes of a task after an event. For lanes that
	// already have pending events, no indexed column changes.
	sqlMovePending = `UPDATE webhook_lanes INDEXED BY webhook_lanes_name SET tail_seq = ?, terminal = ?
		WHERE owner = ? AND task_id = ? AND phase BETWEEN 1 AND 3`
	sqlMoveIdle = `UPDATE webhook_lanes INDEXED BY webhook_lanes_name SET tail_seq = ?1, terminal = ?2, due_at = ?3,
		phase = CASE WHEN cursor_seq >= ?1 THEN 4 * ?2 WHEN lease_until = 0 THEN 1 ELSE 2 END
		WHERE owner = ?4 AND task_id = ?5 AND phase IN (0, 4) RETURNING phase, lease_until`

	sqlDropTaskDead     = `DELETE FROM webhook_dead WHERE task_pk = ?`
	sqlDropTaskAttempts = `DELETE FROM webhook_attempts WHERE task_pk = ?`
	sqlDropTaskWebhooks = `DELETE FROM webhook_rows WHERE pk IN (SELECT pk FROM webhook_lanes WHERE owner = ? AND task_id = ?)`
	sqlDropTaskLanes    = `DELETE FROM webhook_lanes WHERE owner = ? AND task_id = ?`
	sqlDropLaneDead     = `DELETE FROM webhook_dead WHERE task_pk = ? AND lane_pk = ? AND seq > ?`
	sqlDropLaneAttempts = `DELETE FROM webhook_attempts WHERE task_pk = ? AND lane_pk = ?`
)

// laneStatements are the writer's statements on lanes.
type laneStatements struct {
	selectLane, insertLane, updateLane, dropLane, countLanes                                    *stmt
	insertWebhook, updateWebhook, dropWebhook                                                   *stmt
	movePending, moveIdle                                                                       *stmt
	dropTaskDead, dropTaskAttempts, dropTaskWebhooks, dropTaskLanes                             *stmt
	dropLaneDead, dropLaneAttempts                                                              *stmt
	promoteDue, promoteBeyond, deletedLanes                                                     *stmt
	readyLaneOwner, leasedLaneOwner, readyLaneDue, readyBeyond, leasedLaneDue, leasedLaneBeyond *stmt
	leaseLane, laneLeaseBounds, renewLane, insertAttempts, insertDead                           *stmt
	wakeLanes, oldAttempts, dropAttempts, rewriteAttempts, doneLanes                            *stmt
	dropOldDead                                                                                 *stmt
	saveEndpoint, dropEndpoint                                                                  *stmt
}

func (l *laneStatements) texts() map[**stmt]string {
	return map[**stmt]string{
		&l.selectLane: sqlSelectLane, &l.insertLane: sqlInsertLane, &l.updateLane: sqlUpdateLane, &l.dropLane: sqlDropLane,
		&l.countLanes: sqlCountLanes, &l.insertWebhook: sqlInsertWebhook, &l.updateWebhook: sqlUpdateWebhook, &l.dropWebhook: sqlRemoveWebhook,
		&l.movePending: sqlMovePending, &l.moveIdle: sqlMoveIdle,
		&l.dropTaskDead: sqlDropTaskDead, &l.dropTaskAttempts: sqlDropTaskAttempts, &l.dropTaskWebhooks: sqlDropTaskWebhooks,
		&l.dropTaskLanes: sqlDropTaskLanes, &l.dropLaneDead: sqlDropLaneDead, &l.dropLaneAttempts: sqlDropLaneAttempts,
		&l.promoteDue: sqlPromoteDue, &l.promoteBeyond: sqlPromoteBeyond, &l.deletedLanes: sqlDeletedLanes,
		&l.readyLaneOwner: sqlReadyLaneOwner, &l.leasedLaneOwner: sqlLeasedLaneOwner,
		&l.readyLaneDue: sqlReadyLaneDue, &l.readyBeyond: sqlReadyBeyond, &l.leasedLaneDue: sqlLeasedLaneDue, &l.leasedLaneBeyond: sqlLeasedLaneBeyond,
		&l.leaseLane: sqlLeaseLane, &l.laneLeaseBounds: sqlLaneLeaseBounds, &l.renewLane: sqlRenewLane,
		&l.insertAttempts: sqlInsertAttempts, &l.insertDead: sqlInsertDead, &l.wakeLanes: sqlWakeLanes,
		&l.oldAttempts: sqlOldAttempts, &l.dropAttempts: sqlDropAttempts, &l.rewriteAttempts: sqlRewriteAttempts, &l.doneLanes: sqlDoneLanes,
		&l.dropOldDead:  sqlDropOldDead,
		&l.saveEndpoint: sqlSaveEndpoint, &l.dropEndpoint: sqlDropEndpoint,
	}
}

// laneRow is a row of webhook_lanes.
type laneRow struct {
	PK     int64 `col:"pk"`
	TaskPK int64 `col:"task_pk"`
	sqlrow.Lane
	Phase    int64 `col:"phase"`
	Terminal int64 `col:"terminal"`
	Dead     int64 `col:"dead"`
}

var (
	laneColumns = sqlrow.Of[laneRow]()
	// laneList are the columns that scan reads.
	laneList = laneColumns.List("webhook_lanes.")
	// changedLane are the columns that writeLane writes. moveLanes writes tail_seq and
	// terminal.
	changedLane = laneColumns.Without("pk task_pk owner task_id id tail_seq terminal")
)

func (l *laneRow) scan(r record) { laneColumns.Scan(l, r.int, r.text) }

func (l *laneRow) deleted() bool { return l.Phase == laneDeleted }

func (l *laneRow) pending() bool { return l.Cursor.Seq < l.Tail }

func (l *laneRow) heldBy(lease *store.LaneLease) bool {
	return l.Worker != "" && l.Worker == lease.Worker && l.Fence == lease.Fence
}

// release ends the lease.
func (l *laneRow) release() { l.Worker, l.LeaseUntil = "", 0 }

// leaseBlocked reports whether a lease keeps the lane from being claimed. The lease is
// either held or revoked but possibly still in use.
func (l *laneRow) leaseBlocked() bool { return l.LeaseUntil != 0 }

// wasRevoked reports whether lease was revoked while its holder may still use it.
func (l *laneRow) wasRevoked(lease *store.LaneLease) bool {
	return l.Worker == "" && l.leaseBlocked() && l.Fence == lease.Fence+1
}

// revokeLease revokes the current lease, if any. The lane stays blocked until the
// holder acknowledges or the lease ends.
func (l *laneRow) revokeLease() {
	if l.Worker != "" || !l.leaseBlocked() {
		l.Fence++
	}
	l.Worker = ""
}

// restart makes the lane active and due, resets its failures and revokes the lease.
func (l *laneRow) restart(now int64) {
	l.revokeLease()
	l.State, l.Reason, l.UpdatedAt = string(store.LaneActive), "", now
	l.DueAt, l.Attempt, l.FailedAt = now, 0, 0
}

// setPhase sets the phase from the other columns.
func (l *laneRow) setPhase(now int64) {
	switch {
	case !l.pending() && l.Terminal != 0:
		l.Phase = laneDone
	case !l.pending():
		l.Phase = laneIdle
	case l.leaseBlocked():
		l.Phase = laneLeased
	case l.DueAt <= now:
		l.Phase = laneReady
	default:
		l.Phase = laneWaiting
	}
}

// lane reads a lane. It also returns lanes in phase laneDeleted.
func (w *writer) lane(task store.Key, id string) (lane laneRow, found bool, err error) {
	err = w.selectLane.query(context.Background(), func(r record) error {
		lane.scan(r)
		found = true
		return nil
	}, task.Owner, task.ID, id)
	return lane, found, err
}

// putLane sets the phase of a changed lane and writes it.
func (w *writer) putLane(l *laneRow, now int64) error {
	w.setLanePhase(l, now)
	return w.writeLane(l)
}

// setLanePhase sets the phase of a lane and records whether it became due or leased.
func (w *writer) setLanePhase(l *laneRow, now int64) {
	l.setPhase(now)
	switch l.Phase {
	case laneReady:
		w.lanesDue = true
	case laneLeased:
		w.laneLeases.widen(l.LeaseUntil)
	}
}

func (w *writer) writeLane(l *laneRow) error {
	_, err := w.updateLane.exec(changedLane.Args(l, l.PK)...)
	return err
}

// addLane writes a new lane.
func (w *writer) addLane(l *laneRow, now int64) error {
	w.setLanePhase(l, now)
	_, err := w.insertLane.exec(laneColumns.Args(l)...)
	return err
}

// moveLanes updates the lanes of a task after events were appended to its log.
func (w *writer) moveLanes(t *taskRow) error {
	if t.Lanes == 0 {
		return nil
	}
	terminal := t.terminal()
	if _, err := w.movePending.exec(t.Seq, terminal, t.Key.Owner, t.Key.ID); err != nil {
		return err
	}
	return w.moveIdle.query(context.Background(), func(r record) error {
		switch r.int(0) {
		case laneReady:
			w.lanesDue = true
		case laneLeased:
			w.laneLeases.widen(r.int(1))
			w.lanesDue = w.lanesDue || r.int(1) <= t.UpdatedAt
		}
		return nil
	}, t.Seq, terminal, t.UpdatedAt, t.Key.Owner, t.Key.ID)
}

// terminal returns 1 if the task is in a terminal state, else 0.
func (t *taskRow) terminal() int64 { return number(a2a.TaskState(t.State).Terminal()) }

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// setLanes writes the number of a task's lanes.
func (w *writer) setLanes(t *taskRow, n int64) error {
	t.Lanes = n
	_, err := w.countLanes.exec(n, t.PK)
	return err
}

// removeLaneData removes the data of a webhook except its lane.
func (w *writer) removeLaneData(l *laneRow) error {
	if _, err := w.dropWebhook.exec(l.PK); err != nil {
		return err
	}
	if l.Dead > 0 {
		if _, err := w.dropLaneDead.exec(l.TaskPK, l.PK, noTime); err != nil {
			return err
		}
	}
	_, err := w.dropLaneAttempts.exec(l.TaskPK, l.PK)
	return err
}

// removeLane removes the lane of a webhook whose other data is removed already.
func (w *writer) removeLane(l *laneRow) error {
	if _, err := w.dropLane.exec(l.PK); err != nil {
		return err
	}
	row, found, err := w.row(l.Task)
	if err != nil || !found {
		return err
	}
	if err := w.setLanes(&row, row.Lanes-1); err != nil {
		return err
	}
	w.stageRow(row, row.Phase)
	return nil
}

// removeWebhooks removes all webhooks of a task.
func (w *writer) removeWebhooks(t *taskRow) (err error) {
	if t.Lanes == 0 {
		return nil
	}
	remove := func(s *stmt, args ...any) {
		if err == nil {
			_, err = s.exec(args...)
		}
	}
	remove(w.dropTaskDead, t.PK)
	remove(w.dropTaskAttempts, t.PK)
	remove(w.dropTaskWebhooks, t.Key.Owner, t.Key.ID)
	remove(w.dropTaskLanes, t.Key.Owner, t.Key.ID)
	return err
}
