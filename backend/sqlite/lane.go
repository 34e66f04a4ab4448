package sqlite

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
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
		WHERE owner = ? AND task_id = ? AND phase BETWEEN {ready} AND {waiting}`
	sqlMoveIdle = `UPDATE webhook_lanes INDEXED BY webhook_lanes_name SET tail_seq = ?1, terminal = ?2, due_at = ?3,
		phase = CASE WHEN cursor_seq < ?1 THEN CASE lease_until WHEN 0 THEN {ready} ELSE {leased} END WHEN ?2 THEN {done} ELSE {idle} END
		WHERE owner = ?4 AND task_id = ?5 AND phase IN ({idle}, {done}) RETURNING phase, lease_until`

	sqlDropTaskDead     = `DELETE FROM webhook_dead WHERE task_pk = ?`
	sqlDropTaskAttempts = `DELETE FROM webhook_attempts WHERE task_pk = ?`
	sqlDropTaskWebhooks = `DELETE FROM webhook_rows WHERE pk IN (SELECT pk FROM webhook_lanes WHERE owner = ? AND task_id = ?)`
	sqlDropTaskLanes    = `DELETE FROM webhook_lanes WHERE owner = ? AND task_id = ?`
	sqlDropLaneDead     = `DELETE FROM webhook_dead WHERE task_pk = ? AND lane_pk = ? AND seq > ?`
	sqlDropLaneAttempts = `DELETE FROM webhook_attempts WHERE task_pk = ? AND lane_pk = ?`
)

// webhookStore has the webhooks of tasks, with their lanes and delivery attempts.
type webhookStore struct {
	*changeWriter
	// watchers are called when this process makes lanes due.
	watchers store.LaneWatchers
}

// laneWriter changes webhooks, their lanes and their deliveries.
type laneWriter struct {
	*taskWriter
	watchers   *store.LaneWatchers
	nextLane   int64
	laneLeases timeBounds

	// The staged state.
	pendingNextLane int64
	lanesDue        bool // lanes became due
}

func (w *laneWriter) load() error {
	lane, err := w.ints(`SELECT coalesce(max(pk), 0) FROM webhook_lanes`)
	if err != nil {
		return fmt.Errorf("read the last webhook: %w", err)
	}
	w.nextLane, w.laneLeases = nextPK(lane[0]), unknownBounds
	return nil
}

func (w *laneWriter) stage() { w.pendingNextLane, w.lanesDue = w.nextLane, false }

func (w *laneWriter) publish() {
	w.nextLane = w.pendingNextLane
	if w.lanesDue {
		w.watchers.Notify()
	}
}

// laneRow is a row of webhook_lanes.
type laneRow struct {
	rules.Lane
	PK       int64        `col:"pk"`
	TaskPK   int64        `col:"task_pk"`
	Phase    sqlrow.Phase `col:"phase"`
	Terminal bool         `col:"terminal"` // the task is in a terminal state
	Dead     int64        `col:"dead"`     // number of dead letters
}

var (
	laneColumns = sqlrow.LaneColumns[laneRow]().And(sqlrow.Of[laneRow]())
	// laneList are the columns that scan reads.
	laneList = laneColumns.List("webhook_lanes.")
	// changedLane are the columns that putLane writes. moveLanes writes tail_seq and
	// terminal.
	changedLane = laneColumns.Without("pk task_pk owner task_id id tail_seq terminal")
)

func (l *laneRow) scan(r record) {
	laneColumns.Scan(l, r.int, r.text)
	l.Deleted = l.Phase == sqlrow.PhaseDeleted
}

// value returns the lane with the data and the creation time of its webhook, which are the
// first columns of a record.
func (l *laneRow) value(r record) store.Lane {
	v := l.Lane.Lane
	v.Webhook.Data, v.Webhook.CreatedAt = []byte(r.text(0)), fromMillis(r.int(1))
	return v
}

// lane reads a lane. It also returns the lane of a deleted webhook.
func (w *laneWriter) lane(task store.Key, id string) (lane laneRow, found bool, err error) {
	err = w.query(sqlSelectLane, func(r record) error {
		lane.scan(r)
		found = true
		return nil
	}, task.Owner, task.ID, id)
	return lane, found, err
}

// putLane writes a changed lane.
func (w *laneWriter) putLane(l *laneRow, now time.Time) error {
	w.setLanePhase(l, now)
	_, err := w.exec(sqlUpdateLane, changedLane.Args(l, l.PK)...)
	return err
}

// setLanePhase sets the phase of a lane and records whether it became due or leased.
func (w *laneWriter) setLanePhase(l *laneRow, now time.Time) {
	l.Phase = sqlrow.LanePhase(&l.Lane, l.Terminal, now)
	switch l.Phase {
	case sqlrow.PhaseReady:
		w.lanesDue = true
	case sqlrow.PhaseLeased:
		w.laneLeases.widen(millis(l.LeaseUntil))
	case sqlrow.PhaseIdle, sqlrow.PhaseWaiting, sqlrow.PhaseDone, sqlrow.PhaseDeleted:
	}
}

// addLane writes a new lane.
func (w *laneWriter) addLane(l *laneRow, now time.Time) error {
	w.setLanePhase(l, now)
	_, err := w.exec(sqlInsertLane, laneColumns.Args(l)...)
	return err
}

// moveLanes updates the lanes of a task after events were appended to its log.
func (w *laneWriter) moveLanes(t *taskRow) error {
	if t.Lanes == 0 {
		return nil
	}
	terminal := number(t.terminal())
	if _, err := w.exec(sqlMovePending, t.Seq, terminal, t.Key.Owner, t.Key.ID); err != nil {
		return err
	}
	return w.query(sqlMoveIdle, func(r record) error {
		switch until := r.int(1); sqlrow.Phase(r.int(0)) {
		case sqlrow.PhaseReady:
			w.lanesDue = true
		case sqlrow.PhaseLeased:
			w.laneLeases.widen(until)
			w.lanesDue = w.lanesDue || until <= t.UpdatedAt
		case sqlrow.PhaseIdle, sqlrow.PhaseWaiting, sqlrow.PhaseDone, sqlrow.PhaseDeleted:
		}
		return nil
	}, t.Seq, terminal, t.UpdatedAt, t.Key.Owner, t.Key.ID)
}

func (t *taskRow) terminal() bool { return a2a.TaskState(t.State).Terminal() }

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// setLanes writes the number of a task's lanes.
func (w *laneWriter) setLanes(t *taskRow, n int64) error {
	t.Lanes = n
	_, err := w.exec(sqlCountLanes, n, t.PK)
	return err
}

// removeLaneData removes the data of a webhook except its lane.
func (w *laneWriter) removeLaneData(l *laneRow) error {
	if _, err := w.exec(sqlRemoveWebhook, l.PK); err != nil {
		return err
	}
	if l.Dead > 0 {
		if _, err := w.exec(sqlDropLaneDead, l.TaskPK, l.PK, noTime); err != nil {
			return err
		}
	}
	_, err := w.exec(sqlDropLaneAttempts, l.TaskPK, l.PK)
	return err
}

// removeLane removes the lane of a webhook after its other data was removed.
func (w *laneWriter) removeLane(l *laneRow) error {
	if _, err := w.exec(sqlDropLane, l.PK); err != nil {
		return err
	}
	row, found, err := w.row(l.Webhook.Task)
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
func (w *laneWriter) removeWebhooks(t *taskRow) (err error) {
	if t.Lanes == 0 {
		return nil
	}
	remove := func(text string, args ...any) {
		if err == nil {
			_, err = w.exec(text, args...)
		}
	}
	remove(sqlDropTaskDead, t.PK)
	remove(sqlDropTaskAttempts, t.PK)
	remove(sqlDropTaskWebhooks, t.Key.Owner, t.Key.ID)
	remove(sqlDropTaskLanes, t.Key.Owner, t.Key.ID)
	return err
}
