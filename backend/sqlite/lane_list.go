package sqlite

import (
	"context"
	"strings"

	"github.com/holdfast-dev/holdfast/store"
)

var (
	// laneWalk replaces %index, %range and %states in sqlLanes; the values of the last two
	// follow.
	sqlLanes = `SELECT ` + laneList + `, r.data, r.created_at FROM webhook_lanes INDEXED BY %index CROSS JOIN webhook_rows r ON r.pk = webhook_lanes.pk
		WHERE %range AND %states ORDER BY owner, task_id, id LIMIT ?7`
	sqlLanesAll   = `(owner, task_id, id) > (?1, ?2, ?3)`
	sqlLanesOwner = `owner = ?1 AND (task_id, id) > (?2, ?3)`
	sqlLanesTask  = `owner = ?1 AND task_id = ?2 AND id > ?3`
	sqlLanesOne   = `owner = ?1 AND task_id = ?2 AND id = ?3`

	sqlStatesAll = `phase <> {deleted}`
	// Lanes that are not active are few and have their own index.
	sqlStatesInactive = `state <> 'active' AND state <> '' AND state IN (?4, ?5)`
	sqlStatesSome     = `phase <> {deleted} AND state IN (?4, ?5, ?6)`

	sqlWebhookBacklog = `SELECT
		(SELECT count(*) FROM webhook_lanes INDEXED BY webhook_lanes_ready WHERE phase = {ready})
		+ (SELECT count(*) FROM webhook_lanes INDEXED BY webhook_lanes_leased WHERE phase = {leased})
		+ (SELECT count(*) FROM webhook_lanes INDEXED BY webhook_lanes_waiting WHERE phase = {waiting}),
		(SELECT count(*) FROM webhook_lanes INDEXED BY webhook_lanes_inactive WHERE state <> 'active' AND state <> '' AND state = 'parked'),
		(SELECT count(*) FROM webhook_lanes INDEXED BY webhook_lanes_inactive WHERE state <> 'active' AND state <> '' AND state = 'disabled'),
		(SELECT count(*) FROM webhook_dead)`
)

// laneWalk builds a statement that lists lanes.
type laneWalk struct{ names, states string }

func (k laneWalk) text() string {
	index := "webhook_lanes_name"
	if k.states == sqlStatesInactive {
		index = "webhook_lanes_inactive"
	}
	return strings.NewReplacer("%index", index, "%range", k.names, "%states", k.states).Replace(sqlLanes)
}

// newLaneWalk returns the statement for a query and its arguments. none reports that no
// lane can match.
func newLaneWalk(q *store.LaneQuery) (k laneWalk, args []any, none bool) {
	k = laneWalk{sqlLanesAll, sqlStatesAll}
	from := [3]string{} // the names after which the page starts
	if a := q.After; a != nil {
		from = [3]string{a.Task.Owner, a.Task.ID, a.ID}
	}
	for i, name := range []string{q.Owner, q.TaskID, q.ID} {
		if name == "" {
			break
		}
		k.names = []string{sqlLanesOwner, sqlLanesTask, sqlLanesOne}[i]
		switch c := strings.Compare(from[i], name); {
		case c > 0:
			return k, nil, true
		case c == 0 && i == 2:
			return k, nil, true // the only lane that matches was on an earlier page
		case c < 0:
			from = [3]string{}
			copy(from[:i+1], []string{q.Owner, q.TaskID, q.ID})
		}
	}
	states := [3]string{}
	if len(q.States) > 0 {
		k.states = sqlStatesInactive
		n := 0
		for _, state := range []store.LaneState{store.LaneParked, store.LaneDisabled, store.LaneActive} {
			for _, requested := range q.States {
				if requested == state {
					states[n] = string(state)
					n++
					break
				}
			}
		}
		if n == 0 {
			return k, nil, true
		}
		if states[n-1] == string(store.LaneActive) {
			k.states = sqlStatesSome
		}
	}
	return k, []any{from[0], from[1], from[2], states[0], states[1], states[2], int64(q.Limit) + 1}, false
}

// Lanes implements store.Webhooks.
func (s *webhookStore) Lanes(ctx context.Context, q store.LaneQuery) (page store.LanePage, err error) {
	k, args, none := newLaneWalk(&q)
	err = s.readList(ctx, func(r *reader) error {
		if none {
			return nil
		}
		return r.queryContext(ctx, k.text(), func(rec record) error {
			var row laneRow
			row.scan(rec)
			page.Lanes = append(page.Lanes, row.value(rec[laneColumns.Len():]))
			return nil
		}, args...)
	})
	if err != nil {
		return store.LanePage{}, err
	}
	if page.More = len(page.Lanes) > q.Limit; page.More {
		page.Lanes = page.Lanes[:q.Limit]
	}
	return page, nil
}

// WebhookBacklog implements store.Webhooks.
func (s *webhookStore) WebhookBacklog(ctx context.Context) (b store.WebhookBacklog, err error) {
	err = s.read(ctx, func(r *reader) error {
		return r.queryContext(ctx, sqlWebhookBacklog, func(rec record) error {
			b = store.WebhookBacklog{Pending: int(rec.int(0)), Parked: int(rec.int(1)), Disabled: int(rec.int(2)), Dead: int(rec.int(3))}
			return nil
		})
	})
	return b, err
}
