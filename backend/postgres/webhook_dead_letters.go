package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
)

// deadLetterText returns the statement of a list of dead letters: a walk of the index that
// starts with the columns of the query.
func deadLetterText(q *store.WebhookQuery, place *deliveryPlace) (string, []any) {
	var w walk
	within := deliveryFilter(&w, q)
	sort := map[string][]string{
		"":      {"(-n.at)", "n.owner", "n.task_id", "n.config_id", "(-n.sequence)"},
		"owner": {"(-n.at)", "n.task_id", "n.config_id", "(-n.sequence)"},
		"task":  {"(-n.at)", "n.config_id", "(-n.sequence)"},
	}[within]
	if q.Sequence != 0 {
		w.filter("n.sequence = %s", w.arg(q.Sequence, "bigint"))
	}
	if place != nil {
		at := []string{w.arg(-place.At, "bigint")}
		if within == "" {
			at = append(at, w.arg(place.Owner, "text"))
		}
		if within != "task" {
			at = append(at, w.arg(place.Task, "text"))
		}
		at = append(at, w.arg(place.ID, "text"), w.arg(-place.Sequence, "bigint"))
		w.filter("(%s) > (%s)", strings.Join(sort, ", "), strings.Join(at, ", "))
	}
	if len(w.where) == 0 {
		w.filter("true")
	}
	return fmt.Sprintf(`SELECT n.owner, n.task_id, n.config_id, %s
		FROM {s}.dead_letters n WHERE %s ORDER BY %s LIMIT %s`, sqlrow.DeadLetterColumns.List("n."), strings.Join(w.where, " AND "), strings.Join(sort, ", "), w.arg(q.Limit+1, "bigint")), w.args
}

// DeadLetters implements [store.Webhooks].
func (s *webhookStore) DeadLetters(ctx context.Context, q store.WebhookQuery) (page store.DeadLetterPage, err error) {
	place, err := decodePlace(q.Cursor)
	if err != nil {
		return page, err
	}
	text, args := deadLetterText(&q, place)
	err = s.readList(ctx, "list dead letters", func(ctx context.Context, c *pgx.Conn) error {
		page = store.DeadLetterPage{}
		if !storable(q.Owner, q.TaskID, q.ID) {
			return nil
		}
		return s.eachRow(ctx, c, text, func(r record) error {
			if n := len(page.Letters); n == q.Limit {
				last := &page.Letters[n-1]
				end := deliveryPlace{millis(last.At), last.Task.Owner, last.Task.ID, last.WebhookID, last.Sequence, 0}
				page.Next = end.encode()
				return nil
			}
			d := store.DeadLetter{Task: store.Key{Owner: r.text(0), ID: r.text(1)}, WebhookID: r.text(2)}
			sqlrow.DeadLetterColumns.Scan(&d, r[3:].int, r[3:].text)
			page.Letters = append(page.Letters, d)
			return nil
		}, args...)
	})
	return page, err
}

var sqlEndpoints = `SELECT ` + sqlrow.EndpointColumns.List("") + ` FROM {s}.webhook_endpoints ORDER BY name`

const (
	sqlSaveEndpoint = `INSERT INTO {s}.webhook_endpoints (name, failures, failed_at, open_until, disabled, reason, updated_at)
		VALUES ($1::text, $2::bigint, $3::bigint, $4::bigint, $5::boolean, $6::bytea, $7::bigint)
		ON CONFLICT (name) DO UPDATE SET failures = excluded.failures, failed_at = excluded.failed_at, open_until = excluded.open_until,
			disabled = excluded.disabled, reason = excluded.reason, updated_at = excluded.updated_at`
	sqlDeleteEndpoint = `DELETE FROM {s}.webhook_endpoints WHERE name = $1::text`
)

// Endpoints implements [store.Webhooks]. They are ordered by name.
func (s *webhookStore) Endpoints(ctx context.Context) (all []store.Endpoint, err error) {
	err = s.read(ctx, "list endpoints", func(ctx context.Context, c *pgx.Conn) error {
		all = nil
		return s.eachRow(ctx, c, sqlEndpoints, func(r record) error {
			var e store.Endpoint
			sqlrow.EndpointColumns.Scan(&e, r.int, r.text)
			all = append(all, e)
			return nil
		})
	})
	return all, err
}

// SaveEndpoint implements [store.Webhooks].
func (s *webhookStore) SaveEndpoint(ctx context.Context, e store.Endpoint) error {
	return s.transact(ctx, "save endpoint", func(ctx context.Context, tx pgx.Tx) (err error) {
		if e.Failures == 0 && !e.Disabled {
			if storable(e.Name) {
				_, err = s.exec(ctx, tx, sqlDeleteEndpoint, e.Name)
			}
			return err
		}
		_, err = s.exec(ctx, tx, sqlSaveEndpoint, e.Name, e.Failures, millis(e.FailedAt), millis(e.OpenUntil), e.Disabled, []byte(e.Reason),
			millis(e.UpdatedAt))
		return err
	})
}
