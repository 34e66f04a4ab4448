package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/backend/internal/sqltask"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
)

// Delivery records are attempts and dead letters. Their rows are read by time, newest
// first; see [sqltask.DeliveryPage].
var (
	sqlAttemptRecords    = sqlDeliveryKey + `n.attempts FROM webhook_attempts n INDEXED BY webhook_attempts_%s`
	sqlDeadLetterRecords = sqlDeliveryKey + sqlrow.DeadLetterColumns.List("n.") + ` FROM webhook_dead n INDEXED BY webhook_dead_%s`
)

const (
	sqlDeliveryKey = `SELECT n.pk, n.at, l.owner, l.task_id, l.id, `

	sqlDeliveriesAll   = ` CROSS JOIN webhook_lanes l ON l.pk = n.lane_pk WHERE n.at <= ?1 ORDER BY n.at DESC`
	sqlDeliveriesOwner = ` CROSS JOIN webhook_lanes l ON l.pk = n.lane_pk WHERE n.owner = ?2 AND n.at <= ?1 ORDER BY n.at DESC`
	sqlDeliveriesTask  = ` CROSS JOIN webhook_lanes l ON l.pk = n.lane_pk
		WHERE n.task_pk = (SELECT pk FROM task_rows WHERE owner = ?2 AND id = ?3) AND n.at <= ?1 ORDER BY n.at DESC`
	sqlDeliveriesLane = ` CROSS JOIN webhook_lanes l ON l.pk = n.lane_pk
		WHERE n.task_pk = (SELECT pk FROM task_rows WHERE owner = ?2 AND id = ?3) AND n.at <= ?1
		AND n.lane_pk = (SELECT pk FROM webhook_lanes WHERE owner = ?2 AND task_id = ?3 AND id = ?4) ORDER BY n.at DESC`
)

// deliveryWalk builds a statement that lists delivery records of a kind.
type deliveryWalk struct{ records, index, where string }

func (k deliveryWalk) text() string { return fmt.Sprintf(k.records, k.index) + k.where }

func newDeliveryWalk(records string, q *store.WebhookQuery) (k deliveryWalk, args []any) {
	switch {
	case q.Owner == "":
		return deliveryWalk{records, "at", sqlDeliveriesAll}, nil
	case q.TaskID == "":
		return deliveryWalk{records, "owner", sqlDeliveriesOwner}, []any{q.Owner}
	case q.ID == "":
		return deliveryWalk{records, "task", sqlDeliveriesTask}, []any{q.Owner, q.TaskID}
	}
	return deliveryWalk{records, "task", sqlDeliveriesLane}, []any{q.Owner, q.TaskID, q.ID}
}

// readDeliveries reads a page. add adds the records of a row. It receives the columns that
// follow the key.
func readDeliveries[V any](ctx context.Context, s *database, records string, q *store.WebhookQuery, add func(p *sqltask.DeliveryPage[V], k sqltask.DeliveryKey, rec record) error) ([]V, string, error) {
	p, err := sqltask.NewDeliveryPage[V](sqlkit.SQLite, q)
	if err != nil {
		return nil, "", err
	}
	err = s.readList(ctx, func(r *reader) error {
		k, args := newDeliveryWalk(records, q)
		return r.queryContext(ctx, k.text(), func(rec record) error {
			k := sqltask.DeliveryKey{Row: rec.int(0), At: rec.int(1), Owner: rec.text(2), Task: rec.text(3), ID: rec.text(4)}
			if p.Full(k.At) {
				return errStop
			}
			return add(&p, k, rec[5:])
		}, append([]any{p.Start(attemptSpan)}, args...)...)
	})
	if err != nil && !errors.Is(err, errStop) {
		return nil, "", err
	}
	all, next := p.Result()
	return all, next, nil
}

// DeliveryAttempts implements store.Webhooks.
func (s *webhookStore) DeliveryAttempts(ctx context.Context, q store.WebhookQuery) (store.DeliveryAttemptPage, error) {
	all, next, err := readDeliveries(ctx, s.database, sqlAttemptRecords, &q, func(p *sqltask.DeliveryPage[store.DeliveryAttempt], k sqltask.DeliveryKey, rec record) error {
		return sqltask.AddAttempts(p, k.Row, k, rec.json(0))
	})
	return store.DeliveryAttemptPage{Attempts: all, Next: next}, err
}

// DeadLetters implements store.Webhooks.
func (s *webhookStore) DeadLetters(ctx context.Context, q store.WebhookQuery) (store.DeadLetterPage, error) {
	all, next, err := readDeliveries(ctx, s.database, sqlDeadLetterRecords, &q, func(p *sqltask.DeliveryPage[store.DeadLetter], k sqltask.DeliveryKey, rec record) error {
		d := store.DeadLetter{Task: store.Key{Owner: k.Owner, ID: k.Task}, WebhookID: k.ID}
		sqlrow.DeadLetterColumns.Scan(&d, rec.int, rec.text)
		k.Sequence = d.Sequence
		p.Add(k, d)
		return nil
	})
	return store.DeadLetterPage{Letters: all, Next: next}, err
}
