package sqltask

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/sqlkit"
)

// DeliveryKey is the sort key of a delivery attempt or a dead letter in its list.
type DeliveryKey struct {
	At       int64
	Owner    string
	Task     string
	ID       string
	Sequence int64
	Attempt  int64 // 0 for dead letters
	// Row and Index make keys unique; they are 0 in backends without duplicate keys.
	Row, Index int64
}

// Compare returns the order of two keys in a list.
func (k *DeliveryKey) Compare(o *DeliveryKey) int {
	return cmp.Or(cmp.Compare(o.At, k.At), strings.Compare(k.Owner, o.Owner), strings.Compare(k.Task, o.Task), strings.Compare(k.ID, o.ID),
		cmp.Compare(o.Sequence, k.Sequence), cmp.Compare(o.Attempt, k.Attempt), cmp.Compare(k.Row, o.Row), cmp.Compare(k.Index, o.Index))
}

// Cursor returns the cursor of a page that ends with the key.
func (k *DeliveryKey) Cursor() string {
	raw, _ := json.Marshal(k) // strings and numbers cannot fail
	return base64.RawURLEncoding.EncodeToString(raw)
}

// ParseDeliveryCursor returns the key of a cursor, nil for "".
func ParseDeliveryCursor(d sqlkit.Dialect, cursor string) (*DeliveryKey, error) {
	if cursor == "" {
		return nil, nil // the start of the list
	}
	var k DeliveryKey
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(raw, &k)
	}
	if err != nil || !d.Storable(k.Owner, k.Task, k.ID) {
		return nil, a2a.Wrap(a2a.CodeInvalid, err, "malformed cursor")
	}
	return &k, nil
}
