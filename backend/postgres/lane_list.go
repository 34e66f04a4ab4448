package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/store"
)

// sqlLanes lists lanes. The arguments are the conditions, and the collation of the index to
// walk.
var sqlLanes = `SELECT ` + laneList + `, c.data, c.created_at FROM {s}.webhook_lanes l CROSS JOIN LATERAL (
		SELECT data, created_at FROM {s}.webhooks c
		WHERE c.owner = l.owner COLLATE "POSIX" AND c.task_id = l.task_id COLLATE "POSIX" AND c.id = l.id COLLATE "POSIX" OFFSET 0) c
	WHERE %[1]s ORDER BY l.owner COLLATE %[2]s, l.task_id COLLATE %[2]s, l.id COLLATE %[2]s LIMIT `

// lanesText returns the statement of a list of lanes and its arguments.
func lanesText(q *store.LaneQuery) (string, []any) {
	var w walk
	collation := `"POSIX"`
	if len(q.States) > 0 {
		states := make([]string, len(q.States))
		for i, state := range q.States {
			states[i] = string(state)
		}
		w.filter("l.state = ANY (%s)", w.arg(states, "text[]"))
		if !slices.Contains(q.States, store.LaneActive) { // a partial index contains only these
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

// Lanes implements [store.Webhooks].
func (s *webhookStore) Lanes(ctx context.Context, q store.LaneQuery) (page store.LanePage, err error) {
	text, args := lanesText(&q)
	err = s.readList(ctx, "list lanes", func(ctx context.Context, c *pgx.Conn) error {
		page = store.LanePage{}
		if !storable(q.Owner, q.TaskID, q.ID) {
			return nil
		}
		return s.eachRow(ctx, c, text, func(r record) error {
			if page.More = len(page.Lanes) == q.Limit; !page.More {
				l := scanLane(r)
				scanWebhook(&l.Webhook, r[laneWidth:])
				page.Lanes = append(page.Lanes, l)
			}
			return nil
		}, args...)
	})
	return page, err
}

const sqlWebhookBacklog = `SELECT
	(SELECT count(*) FROM {s}.webhook_lanes WHERE phase = {ready} AND era = {era}) + (SELECT count(*) FROM {s}.webhook_lanes WHERE phase = {leased} AND era = {era}) +
	(SELECT count(*) FROM {s}.webhook_lanes WHERE phase = {waiting}),
	(SELECT count(*) FROM {s}.webhook_lanes WHERE state <> 'active' AND state = 'parked'),
	(SELECT count(*) FROM {s}.webhook_lanes WHERE state <> 'active' AND state = 'disabled'),
	(SELECT count(*) FROM {s}.dead_letters)`

// WebhookBacklog implements [store.Webhooks]. It counts the entries of partial indexes.
func (s *webhookStore) WebhookBacklog(ctx context.Context) (b store.WebhookBacklog, err error) {
	err = s.read(ctx, "count the backlog of webhooks", func(ctx context.Context, c *pgx.Conn) error {
		return s.eachRow(ctx, c, sqlWebhookBacklog, func(r record) error {
			b = store.WebhookBacklog{Pending: int(r.int(0)), Parked: int(r.int(1)), Disabled: int(r.int(2)), Dead: int(r.int(3))}
			return nil
		})
	})
	return b, err
}
