package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/backend/internal/sqltask"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

// Delivery records are attempts and dead letters. Their rows are read by time, newest
// first. Records that share a row or a time are sorted in memory.
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

// deliveryPage collects a page of records from rows sorted by time, newest first.
type deliveryPage[V any] struct {
	*store.WebhookQuery
	after *sqltask.DeliveryKey // nil at the start
	keys  []sqltask.DeliveryKey
	found []V
}

// start returns the time of the first row that may have a record of the page.
func (p *deliveryPage[V]) start() (at any, err error) {
	if p.after, err = sqltask.ParseDeliveryCursor(sqlkit.SQLite, p.Cursor); err != nil || p.after == nil {
		return latest, err
	}
	return p.after.At + attemptSpan, nil
}

// full reports whether the page is complete and the first record after it is known, so that rows
// with the time at and older rows need not be read.
func (p *deliveryPage[V]) full(at int64) bool {
	return len(p.keys) > p.Limit && p.keys[p.Limit].At > at
}

func (p *deliveryPage[V]) add(k sqltask.DeliveryKey, v V) {
	if p.Sequence != 0 && k.Sequence != p.Sequence || p.after != nil && k.Compare(p.after) <= 0 {
		return
	}
	i, _ := slices.BinarySearchFunc(p.keys, &k, func(a sqltask.DeliveryKey, b *sqltask.DeliveryKey) int { return a.Compare(b) })
	if i > p.Limit {
		return
	}
	end := min(len(p.keys), p.Limit)
	p.keys = slices.Insert(p.keys[:end], i, k)
	p.found = slices.Insert(p.found[:end], i, v)
}

// result returns the page and the cursor of the next one.
func (p *deliveryPage[V]) result() (values []V, next string) {
	if len(p.keys) <= p.Limit {
		return p.found, ""
	}
	return p.found[:p.Limit], p.keys[p.Limit-1].Cursor()
}

// readDeliveries reads a page. add adds the records of a row. It receives the columns that
// follow the key.
func readDeliveries[V any](ctx context.Context, s *database, records string, p *deliveryPage[V], add func(k sqltask.DeliveryKey, rec record) error) ([]V, string, error) {
	err := s.readList(ctx, func(r *reader) error {
		start, err := p.start()
		if err != nil {
			return err
		}
		k, args := newDeliveryWalk(records, p.WebhookQuery)
		return r.queryContext(ctx, k.text(), func(rec record) error {
			k := sqltask.DeliveryKey{Row: rec.int(0), At: rec.int(1), Owner: rec.text(2), Task: rec.text(3), ID: rec.text(4)}
			if p.full(k.At) {
				return errStop
			}
			return add(k, rec[5:])
		}, append([]any{start}, args...)...)
	})
	if err != nil && !errors.Is(err, errStop) {
		return nil, "", err
	}
	all, next := p.result()
	return all, next, nil
}

// DeliveryAttempts implements store.Webhooks.
func (s *webhookStore) DeliveryAttempts(ctx context.Context, q store.WebhookQuery) (store.DeliveryAttemptPage, error) {
	p := &deliveryPage[store.DeliveryAttempt]{WebhookQuery: &q}
	all, next, err := readDeliveries(ctx, s.database, sqlAttemptRecords, p, func(k sqltask.DeliveryKey, rec record) error {
		attempts, err := encoding.DecodeAttempts(rec.json(0))
		if err != nil {
			return fmt.Errorf("attempts %d: %w", k.Row, err)
		}
		task := store.Key{Owner: k.Owner, ID: k.Task}
		for i := range attempts {
			a := &attempts[i]
			k.At, k.Sequence, k.Attempt, k.Index = a.At, a.Sequence, a.Attempt, int64(i)
			p.add(k, a.Value(task, k.ID))
		}
		return nil
	})
	return store.DeliveryAttemptPage{Attempts: all, Next: next}, err
}

// DeadLetters implements store.Webhooks.
func (s *webhookStore) DeadLetters(ctx context.Context, q store.WebhookQuery) (store.DeadLetterPage, error) {
	p := &deliveryPage[store.DeadLetter]{WebhookQuery: &q}
	all, next, err := readDeliveries(ctx, s.database, sqlDeadLetterRecords, p, func(k sqltask.DeliveryKey, rec record) error {
		d := store.DeadLetter{Task: store.Key{Owner: k.Owner, ID: k.Task}, WebhookID: k.ID}
		sqlrow.DeadLetterColumns.Scan(&d, rec.int, rec.text)
		k.Sequence = d.Sequence
		p.add(k, d)
		return nil
	})
	return store.DeadLetterPage{Letters: all, Next: next}, err
}
