package sqltask

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

// DeliveryKey is the sort key of a delivery attempt or a dead letter in its list.
type DeliveryKey struct {
	At       int64
	Owner    string
	Task     string
	ID       string
	Sequence int64
	Attempt  int64 // 0 for dead letters
	// Row makes keys unique. It is 0 if equal keys are the same record, which was stored twice.
	Row int64
}

// Compare returns the order of two keys in a list.
func (k *DeliveryKey) Compare(o *DeliveryKey) int {
	return cmp.Or(cmp.Compare(o.At, k.At), strings.Compare(k.Owner, o.Owner), strings.Compare(k.Task, o.Task), strings.Compare(k.ID, o.ID),
		cmp.Compare(o.Sequence, k.Sequence), cmp.Compare(o.Attempt, k.Attempt), cmp.Compare(k.Row, o.Row))
}

// Cursor returns the cursor of a page that ends with the key.
func (k *DeliveryKey) Cursor() string {
	raw, _ := json.Marshal(k) // strings and numbers cannot fail
	return base64.RawURLEncoding.EncodeToString(raw)
}

// DeliveryPage collects a page of records from rows sorted by time, newest first. Records that share a row or a time
// are sorted in memory.
type DeliveryPage[V any] struct {
	*store.WebhookQuery
	After *DeliveryKey // the last key of the previous page, nil at the start
	keys  []DeliveryKey
	found []V
}

// NewDeliveryPage returns an empty page, or an error with [a2a.CodeInvalid] if the query's cursor is malformed.
func NewDeliveryPage[V any](d sqlkit.Dialect, q *store.WebhookQuery) (p DeliveryPage[V], err error) {
	p.WebhookQuery = q
	if q.Cursor == "" {
		return p, nil
	}
	p.After = new(DeliveryKey)
	raw, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	if err == nil {
		err = json.Unmarshal(raw, p.After)
	}
	if err != nil || !d.Storable(p.After.Owner, p.After.Task, p.After.ID) {
		return p, a2a.Wrap(a2a.CodeInvalid, err, "malformed cursor")
	}
	return p, nil
}

// Start returns the time of the first row that may have a record of the page. The records of a row are at most span
// milliseconds apart.
func (p *DeliveryPage[V]) Start(span int64) int64 {
	if p.After == nil {
		return math.MaxInt64
	}
	return p.After.At + span
}

// Full reports whether the page and the record after it are known, so that rows with the time at and older rows need
// not be read.
func (p *DeliveryPage[V]) Full(at int64) bool {
	return len(p.keys) > p.Limit && p.keys[p.Limit].At > at
}

// Add adds a record if it belongs to the page.
func (p *DeliveryPage[V]) Add(k DeliveryKey, v V) {
	if p.Sequence != 0 && k.Sequence != p.Sequence || p.After != nil && k.Compare(p.After) <= 0 {
		return
	}
	i, exists := slices.BinarySearchFunc(p.keys, &k, func(a DeliveryKey, b *DeliveryKey) int { return a.Compare(b) })
	if i > p.Limit || exists {
		return
	}
	end := min(len(p.keys), p.Limit)
	p.keys = slices.Insert(p.keys[:end], i, k)
	p.found = slices.Insert(p.found[:end], i, v)
}

// AddAttempts adds the attempts of a row with a number. k has the columns of the row.
func AddAttempts(p *DeliveryPage[store.DeliveryAttempt], row int64, k DeliveryKey, data []byte) error {
	attempts, err := encoding.DecodeAttempts(data)
	if err != nil {
		return fmt.Errorf("attempts %d: %w", row, err)
	}
	for i := range attempts {
		a := &attempts[i]
		k.At, k.Sequence, k.Attempt = a.At, a.Sequence, a.Attempt
		p.Add(k, a.Value(store.Key{Owner: k.Owner, ID: k.Task}, k.ID))
	}
	return nil
}

// Result returns the page and the cursor of the next one.
func (p *DeliveryPage[V]) Result() (values []V, next string) {
	if len(p.keys) <= p.Limit {
		return p.found, ""
	}
	return p.found[:p.Limit], p.keys[p.Limit-1].Cursor()
}
