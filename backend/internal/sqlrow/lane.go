package sqlrow

import (
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/encoding"
)

// Lane has the columns of webhook_lanes that are in a [store.Lane]. Times are in milliseconds
// since 1970.
type Lane struct {
	Task        store.Key           `col:"owner,task_id"`
	ID          string              `col:"id"`
	Endpoint    string              `col:"endpoint"`
	LongRunning bool                `col:"long_running"`
	State       string              `col:"state"`
	Reason      string              `col:"reason"`
	Tail        int64               `col:"tail_seq"`
	Cursor      store.WebhookCursor `col:"cursor_seq,cursor_sequence,cursor_state"`
	DueAt       int64               `col:"due_at"`
	Attempt     int64               `col:"attempt"`
	FailedAt    int64               `col:"failed_at"`
	Delivered   int64               `col:"delivered"`
	DeliveredAt int64               `col:"delivered_at"`
	UpdatedAt   int64               `col:"updated_at"`
	Worker      string              `col:"worker"`
	Fence       int64               `col:"fence"`
	LeaseUntil  int64               `col:"lease_until"`
}

// Value returns the lane with the data and the creation time of its webhook.
func (l *Lane) Value(data []byte, createdAt int64) store.Lane {
	return store.Lane{
		Webhook: store.Webhook{
			Task: l.Task, ID: l.ID, Endpoint: l.Endpoint, Data: data, LongRunning: l.LongRunning, CreatedAt: encoding.FromMillis(createdAt),
		},
		Cursor: l.Cursor, Tail: l.Tail, State: store.LaneState(l.State), Reason: l.Reason, DueAt: encoding.FromMillis(l.DueAt),
		Attempt: int(l.Attempt), FailedAt: encoding.FromMillis(l.FailedAt),
		Delivered: l.Delivered, DeliveredAt: encoding.FromMillis(l.DeliveredAt), UpdatedAt: encoding.FromMillis(l.UpdatedAt),
		Worker: l.Worker, Fence: l.Fence, LeaseUntil: encoding.FromMillis(l.LeaseUntil),
	}
}
