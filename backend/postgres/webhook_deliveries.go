package postgres

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/backend/internal/sqltask"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
)

// batchSpan is the maximum time between the attempts of one row in milliseconds. A walk by the
// time of the last attempt can therefore stop when all later rows are too old.
const batchSpan = 60_000

// deliveryFilter adds the conditions of a query on the table n and returns its scope: "owner",
// "task", or "" for all.
func deliveryFilter(w *walk, q *store.WebhookQuery) (within string) {
	if q.Owner == "" {
		return ""
	}
	w.filter("n.owner = %s", w.arg(q.Owner, "text"))
	if q.TaskID == "" {
		return "owner"
	}
	w.filter("n.task_id = %s", w.arg(q.TaskID, "text"))
	if q.ID != "" {
		w.filter("n.config_id = %s", w.arg(q.ID, "text"))
	}
	return "task"
}

// attemptRows returns the statement that reads rows of attempts, the latest first, after the row
// with the end time last and the number id.
func attemptRows(q *store.WebhookQuery, place *sqltask.DeliveryKey, last, id int64, limit int) (string, []any) {
	var w walk
	deliveryFilter(&w, q)
	if place != nil {
		w.filter("n.first_at <= %s", w.arg(place.At, "bigint"))
	}
	w.filter("(n.last_at, n.id) < (%s, %s)", w.arg(last, "bigint"), w.arg(id, "bigint"))
	return fmt.Sprintf(`SELECT n.id, n.owner, n.task_id, n.config_id, n.last_at, n.data FROM {s}.delivery_attempts n
		WHERE %s ORDER BY n.last_at DESC, n.id DESC LIMIT %s`, strings.Join(w.where, " AND "), w.arg(limit, "bigint")), w.args
}

// DeliveryAttempts implements [store.Webhooks].
func (s *webhookStore) DeliveryAttempts(ctx context.Context, q store.WebhookQuery) (page store.DeliveryAttemptPage, err error) {
	empty, err := sqltask.NewDeliveryPage[store.DeliveryAttempt](sqlkit.PostgreSQL, &q)
	if err != nil {
		return page, err
	}
	err = s.readList(ctx, "list attempts", func(ctx context.Context, c *pgx.Conn) error {
		page = store.DeliveryAttemptPage{}
		if !storable(q.Owner, q.TaskID, q.ID) {
			return nil
		}
		p, limit := empty, q.Limit+16
		last, id := p.Start(batchSpan), int64(math.MaxInt64) // of the last row that was read
		for rows := limit; rows == limit && !p.Full(last); {
			rows = 0
			text, args := attemptRows(&q, p.After, last, id, limit)
			err := s.eachRow(ctx, c, text, func(r record) error {
				rows++
				id, last = r.int(0), r.int(4)
				return sqltask.AddAttempts(&p, id, sqltask.DeliveryKey{Owner: r.text(1), Task: r.text(2), ID: r.text(3)}, r[5])
			}, args...)
			if err != nil {
				return err
			}
		}
		page.Attempts, page.Next = p.Result()
		return nil
	})
	return page, err
}

// deadLetterText returns the statement of a list of dead letters: a walk of the index that
// starts with the columns of the query.
func deadLetterText(q *store.WebhookQuery, place *sqltask.DeliveryKey) (string, []any) {
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
	p, err := sqltask.NewDeliveryPage[store.DeadLetter](sqlkit.PostgreSQL, &q)
	if err != nil {
		return page, err
	}
	text, args := deadLetterText(&q, p.After)
	err = s.readList(ctx, "list dead letters", func(ctx context.Context, c *pgx.Conn) error {
		page = store.DeadLetterPage{}
		if !storable(q.Owner, q.TaskID, q.ID) {
			return nil
		}
		return s.eachRow(ctx, c, text, func(r record) error {
			if n := len(page.Letters); n == q.Limit {
				last := &page.Letters[n-1]
				end := sqltask.DeliveryKey{At: millis(last.At), Owner: last.Task.Owner, Task: last.Task.ID, ID: last.WebhookID, Sequence: last.Sequence}
				page.Next = end.Cursor()
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
