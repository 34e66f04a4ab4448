package sqlite

import (
	"context"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// The phases of lanes as they are stored. Those from laneReady to laneWaiting have
// something to send.
const (
	laneIdle int64 = iota
	laneReady
	laneLeased
	laneWaiting
	laneDone // idle, and the task is over
	laneGone // deleted while a worker holds it
)

// laneColumns are the columns of webhook_lanes that scan reads, in its order.
const laneColumns = `webhook_lanes.pk, task_pk, owner, task_id, id, endpoint, long_running, phase, state, reason, over, tail,
	cursor_seq, cursor_sequence, cursor_state, due_at, attempt, failed_at, delivered, delivered_at, updated_at,
	dead, worker, fence, lease_until`

// laneWidth is the number of laneColumns.
const laneWidth = 25

const (
	sqlSelectLane = `SELECT ` + laneColumns + ` FROM webhook_lanes WHERE owner = ? AND task_id = ? AND id = ?`
	sqlInsertLane = `INSERT INTO webhook_lanes (pk, task_pk, owner, task_id, id, endpoint, long_running, phase, state, reason, over, tail,
		cursor_seq, cursor_sequence, cursor_state, due_at, attempt, failed_at, delivered, delivered_at, updated_at, dead, worker, fence, lease_until)
		VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`
	sqlUpdateLane = `UPDATE webhook_lanes SET endpoint=?, long_running=?, phase=?, state=?, reason=?,
		cursor_seq=?, cursor_sequence=?, cursor_state=?, due_at=?, attempt=?, failed_at=?, delivered=?, delivered_at=?, updated_at=?,
		dead=?, worker=?, fence=?, lease_until=? WHERE pk=?`
	sqlDropLane      = `DELETE FROM webhook_lanes WHERE pk = ?`
	sqlCountLanes    = `UPDATE task_rows SET lanes = ? WHERE pk = ?`
	sqlInsertWebhook = `INSERT INTO webhook_rows (pk, data, created_at, saved_at) VALUES (?,?,?,?)`
	sqlUpdateWebhook = `UPDATE webhook_rows SET data = ?, saved_at = ? WHERE pk = ? RETURNING created_at`
	sqlDropHook      = `DELETE FROM webhook_rows WHERE pk = ?`

	// Of lanes that had something to send no index is written.
	sqlMovePending = `UPDATE webhook_lanes INDEXED BY webhook_lanes_name SET tail = ?, over = ?
		WHERE owner = ? AND task_id = ? AND phase BETWEEN 1 AND 3`
	sqlMoveIdle = `UPDATE webhook_lanes INDEXED BY webhook_lanes_name SET tail = ?1, over = ?2, due_at = ?3,
		phase = CASE WHEN cursor_seq >= ?1 THEN 4 * ?2 WHEN lease_until = 0 THEN 1 ELSE 2 END
		WHERE owner = ?4 AND task_id = ?5 AND phase IN (0, 4) RETURNING phase, lease_until`

	sqlDropTaskDead     = `DELETE FROM webhook_dead WHERE task_pk = ?`
	sqlDropTaskAttempts = `DELETE FROM webhook_attempts WHERE task_pk = ?`
	sqlDropTaskWebhooks = `DELETE FROM webhook_rows WHERE pk IN (SELECT pk FROM webhook_lanes WHERE owner = ? AND task_id = ?)`
	sqlDropTaskLanes    = `DELETE FROM webhook_lanes WHERE owner = ? AND task_id = ?`
	sqlDropLaneDead     = `DELETE FROM webhook_dead WHERE task_pk = ? AND lane_pk = ? AND seq > ?`
	sqlDropLaneAttempts = `DELETE FROM webhook_attempts WHERE task_pk = ? AND lane_pk = ?`
)

// laneStatements are those with which the writer keeps lanes.
type laneStatements struct {
	selectLane, insertLane, updateLane, dropLane, countLanes        *stmt
	insertWebhook, updateWebhook, dropWebhook                       *stmt
	movePending, moveIdle                                           *stmt
	dropTaskDead, dropTaskAttempts, dropTaskWebhooks, dropTaskLanes *stmt
	dropLaneDead, dropLaneAttempts                                  *stmt
	promoteDue, promoteFar, goneLanes                               *stmt
	readyOwner, heldOwner, readyDue, readyFar, heldDue, heldFar     *stmt
	leaseLane, heldBounds, renewLane, insertAttempts, insertDead    *stmt
	wakeLanes, oldAttempts, dropAttempts, cutAttempts, doneLanes    *stmt
	dropOldDead                                                     *stmt
	saveEndpoint, dropEndpoint                                      *stmt
}

func (l *laneStatements) texts() map[**stmt]string {
	return map[**stmt]string{
		&l.selectLane: sqlSelectLane, &l.insertLane: sqlInsertLane, &l.updateLane: sqlUpdateLane, &l.dropLane: sqlDropLane,
		&l.countLanes: sqlCountLanes, &l.insertWebhook: sqlInsertWebhook, &l.updateWebhook: sqlUpdateWebhook, &l.dropWebhook: sqlDropHook,
		&l.movePending: sqlMovePending, &l.moveIdle: sqlMoveIdle,
		&l.dropTaskDead: sqlDropTaskDead, &l.dropTaskAttempts: sqlDropTaskAttempts, &l.dropTaskWebhooks: sqlDropTaskWebhooks,
		&l.dropTaskLanes: sqlDropTaskLanes, &l.dropLaneDead: sqlDropLaneDead, &l.dropLaneAttempts: sqlDropLaneAttempts,
		&l.promoteDue: sqlPromoteDue, &l.promoteFar: sqlPromoteFar, &l.goneLanes: sqlGoneLanes,
		&l.readyOwner: sqlReadyOwner, &l.heldOwner: sqlHeldOwner,
		&l.readyDue: sqlReadyDue, &l.readyFar: sqlReadyFar, &l.heldDue: sqlHeldDue, &l.heldFar: sqlHeldFar,
		&l.leaseLane: sqlLeaseLane, &l.heldBounds: sqlHeldBounds, &l.renewLane: sqlRenewLane,
		&l.insertAttempts: sqlInsertAttempts, &l.insertDead: sqlInsertDead, &l.wakeLanes: sqlWakeLanes,
		&l.oldAttempts: sqlOldAttempts, &l.dropAttempts: sqlDropAttempts, &l.cutAttempts: sqlCutAttempts, &l.doneLanes: sqlDoneLanes,
		&l.dropOldDead:  sqlDropOldDead,
		&l.saveEndpoint: sqlSaveEndpoint, &l.dropEndpoint: sqlDropEndpoint,
	}
}

// laneRow is a row of webhook_lanes.
type laneRow struct {
	pk, taskPK  int64
	task        store.Key
	id          string
	endpoint    string
	longRunning int64
	phase       int64
	state       string
	reason      string
	over        int64
	tail        int64
	cursor      store.PushCursor
	dueAt       int64
	attempt     int64
	failedAt    int64
	delivered   int64
	deliveredAt int64
	updatedAt   int64
	dead        int64
	worker      string
	fence       int64
	leaseUntil  int64
}

func (l *laneRow) scan(r record) {
	*l = laneRow{
		pk: r.int(0), taskPK: r.int(1), task: store.Key{Owner: r.text(2), ID: r.text(3)}, id: r.text(4),
		endpoint: r.text(5), longRunning: r.int(6), phase: r.int(7), state: r.text(8), reason: r.text(9), over: r.int(10), tail: r.int(11),
		cursor: store.PushCursor{Seq: r.int(12), Sequence: r.int(13), State: a2a.TaskState(r.text(14))},
		dueAt:  r.int(15), attempt: r.int(16), failedAt: r.int(17), delivered: r.int(18), deliveredAt: r.int(19), updatedAt: r.int(20),
		dead: r.int(21), worker: r.text(22), fence: r.int(23), leaseUntil: r.int(24),
	}
}

// lane returns the lane with what webhook_rows has of it.
func (l *laneRow) lane(data []byte, createdAt int64) store.Lane {
	return store.Lane{
		Config: store.PushConfig{
			Task: l.task, ID: l.id, Endpoint: l.endpoint, Data: data, LongRunning: l.longRunning != 0, CreatedAt: fromMillis(createdAt),
		},
		Cursor: l.cursor, Tail: l.tail, State: store.LaneState(l.state), Reason: l.reason, DueAt: fromMillis(l.dueAt),
		Attempt: int(l.attempt), FailedAt: fromMillis(l.failedAt),
		Delivered: l.delivered, DeliveredAt: fromMillis(l.deliveredAt), UpdatedAt: fromMillis(l.updatedAt),
		Worker: l.worker, Fence: l.fence, LeaseUntil: fromMillis(l.leaseUntil),
	}
}

func (l *laneRow) gone() bool { return l.phase == laneGone }

func (l *laneRow) pending() bool { return l.cursor.Seq < l.tail }

func (l *laneRow) heldBy(lease *store.LaneLease) bool {
	return l.worker != "" && l.worker == lease.Worker && l.fence == lease.Fence
}

// release gives the lane back.
func (l *laneRow) release() { l.worker, l.leaseUntil = "", 0 }

// barred reports whether the lane cannot be claimed, unless a lease has ended: one that is
// held, or that was taken away.
func (l *laneRow) barred() bool { return l.leaseUntil != 0 }

// takenFrom reports whether a lease was taken away and may be in use still.
func (l *laneRow) takenFrom(lease *store.LaneLease) bool {
	return l.worker == "" && l.barred() && l.fence == lease.Fence+1
}

// takeLease takes the lease away, if there is one. The lane stays barred until its holder
// knows, or it has ended.
func (l *laneRow) takeLease() {
	if l.worker != "" || !l.barred() {
		l.fence++
	}
	l.worker = ""
}

// restart makes a lane active and due, as one that has not failed, and takes it from whoever
// holds it.
func (l *laneRow) restart(now int64) {
	l.takeLease()
	l.state, l.reason, l.updatedAt = string(store.LaneActive), "", now
	l.dueAt, l.attempt, l.failedAt = now, 0, 0
}

// settle finds the phase of what is known of a lane by now.
func (l *laneRow) settle(now int64) {
	switch {
	case !l.pending() && l.over != 0:
		l.phase = laneDone
	case !l.pending():
		l.phase = laneIdle
	case l.barred():
		l.phase = laneLeased
	case l.dueAt <= now:
		l.phase = laneReady
	default:
		l.phase = laneWaiting
	}
}

// lane reads a lane, which may be gone.
func (w *writer) lane(task store.Key, id string) (lane laneRow, found bool, err error) {
	err = w.selectLane.query(context.Background(), func(r record) error {
		lane.scan(r)
		found = true
		return nil
	}, task.Owner, task.ID, id)
	return lane, found, err
}

// putLane writes a lane that has changed.
func (w *writer) putLane(l *laneRow, now int64) error {
	w.settleLane(l, now)
	return w.writeLane(l)
}

// settleLane finds the phase of a lane and notes what has come of it.
func (w *writer) settleLane(l *laneRow, now int64) {
	l.settle(now)
	switch l.phase {
	case laneReady:
		w.lanesDue = true
	case laneLeased:
		w.laneLeases.widen(l.leaseUntil)
	}
}

func (w *writer) writeLane(l *laneRow) error {
	_, err := w.updateLane.exec(l.endpoint, l.longRunning, l.phase, l.state, l.reason,
		l.cursor.Seq, l.cursor.Sequence, string(l.cursor.State), l.dueAt, l.attempt, l.failedAt, l.delivered, l.deliveredAt, l.updatedAt,
		l.dead, l.worker, l.fence, l.leaseUntil, l.pk)
	return err
}

// addLane writes a new lane.
func (w *writer) addLane(l *laneRow, now int64) error {
	w.settleLane(l, now)
	_, err := w.insertLane.exec(l.pk, l.taskPK, l.task.Owner, l.task.ID, l.id, l.endpoint, l.longRunning, l.phase, l.state, l.reason, l.over, l.tail,
		l.cursor.Seq, l.cursor.Sequence, string(l.cursor.State), l.dueAt, l.attempt, l.failedAt, l.delivered, l.deliveredAt, l.updatedAt,
		l.dead, l.worker, l.fence, l.leaseUntil)
	return err
}

// moveLanes tells the lanes of a task that its log has grown.
func (w *writer) moveLanes(t *taskRow) error {
	if t.lanes == 0 {
		return nil
	}
	over := t.over()
	if _, err := w.movePending.exec(t.seq, over, t.key.Owner, t.key.ID); err != nil {
		return err
	}
	return w.moveIdle.query(context.Background(), func(r record) error {
		switch r.int(0) {
		case laneReady:
			w.lanesDue = true
		case laneLeased:
			w.laneLeases.widen(r.int(1))
			w.lanesDue = w.lanesDue || r.int(1) <= t.updatedAt
		}
		return nil
	}, t.seq, over, t.updatedAt, t.key.Owner, t.key.ID)
}

// over is 1 for a task that never changes again.
func (t *taskRow) over() int64 { return number(a2a.TaskState(t.state).Terminal()) }

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// setLanes notes how many lanes a task has.
func (w *writer) setLanes(t *taskRow, n int64) error {
	t.lanes = n
	_, err := w.countLanes.exec(n, t.pk)
	return err
}

// cutLane removes what belongs to a webhook, but for its lane.
func (w *writer) cutLane(l *laneRow) error {
	if _, err := w.dropWebhook.exec(l.pk); err != nil {
		return err
	}
	if l.dead > 0 {
		if _, err := w.dropLaneDead.exec(l.taskPK, l.pk, never); err != nil {
			return err
		}
	}
	_, err := w.dropLaneAttempts.exec(l.taskPK, l.pk)
	return err
}

// removeLane removes the lane of a webhook, of which nothing else is left.
func (w *writer) removeLane(l *laneRow) error {
	if _, err := w.dropLane.exec(l.pk); err != nil {
		return err
	}
	row, found, err := w.row(l.task)
	if err != nil || !found {
		return err
	}
	if err := w.setLanes(&row, row.lanes-1); err != nil {
		return err
	}
	w.keep(row, row.phase)
	return nil
}

// removeWebhooks removes the webhooks of a task that is removed.
func (w *writer) removeWebhooks(t *taskRow) (err error) {
	if t.lanes == 0 {
		return nil
	}
	remove := func(s *stmt, args ...any) {
		if err == nil {
			_, err = s.exec(args...)
		}
	}
	remove(w.dropTaskDead, t.pk)
	remove(w.dropTaskAttempts, t.pk)
	remove(w.dropTaskWebhooks, t.key.Owner, t.key.ID)
	remove(w.dropTaskLanes, t.key.Owner, t.key.ID)
	return err
}
