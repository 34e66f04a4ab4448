package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// laneColumns are the columns of push_lanes that scanLane reads, in its order.
const laneColumns = `l.owner, l.task_id, l.id, l.endpoint, l.long_running, l.state, l.cursor_seq, l.cursor_sequence, l.cursor_state,
	l.tail_seq, l.due_at, l.attempt, l.failed_at, l.delivered, l.delivered_at, l.updated_at, l.worker, l.fence, l.lease_until, l.reason`

// laneWidth is the number of laneColumns.
const laneWidth = 20

// sqlLaneKey finds the lane l, or another row of a webhook, by the key in u.
const (
	sqlLaneKey = `l.owner = u.owner COLLATE "POSIX" AND l.task_id = u.task_id COLLATE "POSIX" AND l.id = u.id COLLATE "POSIX"`
	sqlThisKey = `owner = $1::text COLLATE "POSIX" AND task_id = $2::text COLLATE "POSIX" AND id = $3::text COLLATE "POSIX"`
)

// scanLane reads a lane whose webhook is to be completed by scanConfig.
func scanLane(r record) store.Lane {
	return store.Lane{
		Config: store.PushConfig{
			Task: store.Key{Owner: r.text(0), ID: r.text(1)}, ID: r.text(2), Endpoint: r.text(3), LongRunning: r.bool(4),
		},
		State:  store.LaneState(r.text(5)),
		Cursor: store.PushCursor{Seq: r.int(6), Sequence: r.int(7), State: a2a.TaskState(r.text(8))},
		Tail:   r.int(9), DueAt: fromMillis(r.int(10)),
		Attempt: int(r.int(11)), FailedAt: fromMillis(r.int(12)),
		Delivered: r.int(13), DeliveredAt: fromMillis(r.int(14)), UpdatedAt: fromMillis(r.int(15)),
		Worker: r.text(16), Fence: r.int(17), LeaseUntil: fromMillis(r.int(18)), Reason: r.text(19),
	}
}

// scanConfig reads the data of a webhook and when it was created.
func scanConfig(c *store.PushConfig, r record) {
	c.Data, c.CreatedAt = slices.Clone(r[0]), fromMillis(r.int(1))
}

// sqlFollow has the lanes of tasks that were moved on follow them: those in moved,
// with the time of their last event. The lanes are locked in the order of their keys,
// as acknowledgements do. A lane that was not pending becomes due; one that was stays
// as it is. Whoever uses it compares how many have followed with how many webhooks
// the tasks have: a statement does not see lanes that came after it began.
const sqlFollow = `followers AS MATERIALIZED (
		SELECT l.*, m.seq, m.at FROM (SELECT * FROM moved ORDER BY owner, id) m CROSS JOIN LATERAL (
			SELECT l.owner, l.task_id, l.id FROM {s}.push_lanes l
			WHERE l.owner = m.owner COLLATE "POSIX" AND l.task_id = m.id COLLATE "POSIX"
			ORDER BY l.id COLLATE "POSIX" FOR NO KEY UPDATE) l
	), followed AS (
		UPDATE {s}.push_lanes l SET tail_seq = u.seq,
			due_at = CASE WHEN l.cursor_seq >= l.tail_seq THEN u.at ELSE l.due_at END,
			phase = CASE WHEN l.phase > 0 THEN l.phase WHEN l.lease_until > 0 THEN 3 ELSE 1 END
		FROM followers u WHERE ` + sqlLaneKey + ` RETURNING 1
	)`

// sqlLanes lists lanes. %s are conditions, and the collation of the index that is
// walked.
const sqlLanes = `SELECT ` + laneColumns + `, c.data, c.created_at FROM {s}.push_lanes l CROSS JOIN LATERAL (
		SELECT data, created_at FROM {s}.push_configs c
		WHERE c.owner = l.owner COLLATE "POSIX" AND c.task_id = l.task_id COLLATE "POSIX" AND c.id = l.id COLLATE "POSIX" OFFSET 0) c
	WHERE %[1]s ORDER BY l.owner COLLATE %[2]s, l.task_id COLLATE %[2]s, l.id COLLATE %[2]s LIMIT `

// lanesText writes the statement of a list of lanes.
func lanesText(q *store.LaneQuery) (string, []any) {
	var w walk
	collation := `"POSIX"`
	if len(q.States) > 0 {
		states := make([]string, len(q.States))
		for i, state := range q.States {
			states[i] = string(state)
		}
		w.filter("l.state = ANY (%s)", w.arg(states, "text[]"))
		if !slices.Contains(q.States, store.LaneActive) { // there is an index of those alone
			w.filter("l.state <> 'active'")
			collation = `"C"`
		}
	}
	names := []string{"owner", "task_id", "id"}
	for i, value := range []string{q.Owner, q.TaskID, q.ID} {
		if value == "" {
			break
		}
		w.filter("l.%s = %s COLLATE %s", names[i], w.arg(value, "text"), collation)
	}
	if a := q.After; a != nil {
		var left, right []string
		for i, value := range []string{a.Task.Owner, a.Task.ID, a.ID} {
			left = append(left, fmt.Sprintf("l.%s COLLATE %s", names[i], collation))
			right = append(right, fmt.Sprintf("%s COLLATE %s", w.arg(value, "text"), collation))
		}
		w.filter("(%s) > (%s)", strings.Join(left, ", "), strings.Join(right, ", "))
	}
	if len(w.where) == 0 {
		w.filter("true")
	}
	return fmt.Sprintf(sqlLanes, strings.Join(w.where, " AND "), collation) + w.arg(q.Limit+1, "bigint"), w.args
}

// Lanes implements [store.PushStore].
func (s *Store) Lanes(ctx context.Context, q store.LaneQuery) (page store.LanePage, err error) {
	text, args := lanesText(&q)
	err = s.readList(ctx, "list lanes", func(ctx context.Context, c *pgx.Conn) error {
		page = store.LanePage{}
		if !storable(q.Owner, q.TaskID, q.ID) {
			return nil
		}
		return s.each(ctx, c, text, func(r record) error {
			if page.More = len(page.Lanes) == q.Limit; !page.More {
				l := scanLane(r)
				scanConfig(&l.Config, r[laneWidth:])
				page.Lanes = append(page.Lanes, l)
			}
			return nil
		}, args...)
	})
	return page, err
}

const sqlPushBacklog = `SELECT
	(SELECT count(*) FROM {s}.push_lanes WHERE phase = 1) + (SELECT count(*) FROM {s}.push_lanes WHERE phase = 2) +
	(SELECT count(*) FROM {s}.push_lanes WHERE phase = 3),
	(SELECT count(*) FROM {s}.push_lanes WHERE state <> 'active' AND state = 'parked'),
	(SELECT count(*) FROM {s}.push_lanes WHERE state <> 'active' AND state = 'disabled'),
	(SELECT count(*) FROM {s}.push_dead)`

// PushBacklog implements [store.PushStore]: it counts the entries of indexes that
// hold only what is counted.
func (s *Store) PushBacklog(ctx context.Context) (b store.PushBacklog, err error) {
	err = s.read(ctx, "count the backlog of webhooks", func(ctx context.Context, c *pgx.Conn) error {
		return s.each(ctx, c, sqlPushBacklog, func(r record) error {
			b = store.PushBacklog{Pending: int(r.int(0)), Parked: int(r.int(1)), Disabled: int(r.int(2)), Dead: int(r.int(3))}
			return nil
		})
	})
	return b, err
}
