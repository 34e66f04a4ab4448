package postgres

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
)

// laneList are the columns of webhook_lanes that scanLane reads, laneWidth is their number.
var (
	laneColumns = sqlrow.LaneColumns[store.Lane]()
	laneList    = laneColumns.List("l.")
	laneWidth   = laneColumns.Len()
)

// The decisions of [rules.Lane] about the lane l, in SQL. The statements that need them change
// many lanes, or are part of a commit, so that a separate read would cost a round trip under
// locks.
const (
	sqlRevokeLease = `fence = CASE WHEN l.worker = '' AND l.lease_until > 0 THEN l.fence ELSE l.fence + 1 END, worker = ''`
	sqlRestartLane = `state = 'active', reason = '', attempt = 0, failed_at = 0, ` + sqlRevokeLease
)

// lanePhase returns the phase of a lane as [sqlrow.LanePhase] does, from four expressions. Lanes
// without pending events are done until expiry finds that it cannot remove them.
func lanePhase(cursor, tail, blocked, due string) string {
	return fmt.Sprintf(`CASE WHEN %s >= %s THEN {done} WHEN %s THEN {leased} WHEN %s THEN {ready} ELSE {waiting} END`, cursor, tail, blocked, due)
}

// sqlLaneKey compares the key of the lane l, or of another row of a webhook, to the key
// of u. sqlWebhookKey compares it to parameters 1 to 3.
const (
	sqlLaneKey    = `l.owner = u.owner COLLATE "POSIX" AND l.task_id = u.task_id COLLATE "POSIX" AND l.id = u.id COLLATE "POSIX"`
	sqlWebhookKey = `owner = $1::text COLLATE "POSIX" AND task_id = $2::text COLLATE "POSIX" AND id = $3::text COLLATE "POSIX"`
)

// webhookStore implements [store.Webhooks] and [store.Lanes].
type webhookStore struct {
	*taskStore
	// laneDepth is the largest number of lanes of one owner in the last claim.
	laneDepth atomic.Int64

	sweptLanes, sweptLongLanes, sweptDeadLetters, sweptAttempts sweepBound
}

// scanLane reads a lane. scanWebhook reads the rest of its webhook.
func scanLane(r record) store.Lane {
	var l store.Lane
	laneColumns.Scan(&l, r.int, r.text)
	return l
}

// scanWebhook reads the data and the creation time of a webhook.
func scanWebhook(c *store.Webhook, r record) {
	c.Data, c.CreatedAt = slices.Clone(r[0]), fromMillis(r.int(1))
}

// sqlAdvanceLanes are CTEs that move the ends of lanes to the last events of their tasks. The
// CTE moved has the tasks with the times of these events. The lanes are locked in the order
// of their keys, as acknowledgements do. A lane without pending events becomes due; the due
// time of others does not change. The statement must compare the number of rows of followed
// with the number of webhooks of the tasks, because it does not see lanes that were added
// after it started.
const sqlAdvanceLanes = `followers AS MATERIALIZED (
		SELECT l.*, m.seq, m.at FROM (SELECT * FROM moved ORDER BY owner, id) m CROSS JOIN LATERAL (
			SELECT l.owner, l.task_id, l.id FROM {s}.webhook_lanes l
			WHERE l.owner = m.owner COLLATE "POSIX" AND l.task_id = m.id COLLATE "POSIX"
			ORDER BY l.id COLLATE "POSIX" FOR NO KEY UPDATE) l
	), followed AS (
		UPDATE {s}.webhook_lanes l SET tail_seq = u.seq,
			due_at = CASE WHEN l.cursor_seq >= l.tail_seq THEN u.at ELSE l.due_at END,
			phase = CASE WHEN l.cursor_seq < l.tail_seq THEN l.phase WHEN l.lease_until > 0 THEN {leased} ELSE {ready} END,
			era = CASE WHEN l.cursor_seq < l.tail_seq THEN l.era ELSE {era} END
		FROM followers u WHERE ` + sqlLaneKey + ` RETURNING 1
	)`
