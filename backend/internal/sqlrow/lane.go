package sqlrow

import (
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

// LaneColumns returns the columns of webhook_lanes with the fields of a [store.Lane], which is
// T or embedded in T.
func LaneColumns[T any]() Columns[T] {
	return fields[T](
		"owner Webhook.Task.Owner", "task_id Webhook.Task.ID", "id Webhook.ID", "endpoint Webhook.Endpoint",
		"long_running Webhook.LongRunning", "state State", "reason Reason", "tail_seq Tail", "cursor_seq Cursor.Seq",
		"cursor_sequence Cursor.Sequence", "cursor_state Cursor.State", "due_at DueAt", "attempt Attempt",
		"failed_at FailedAt", "delivered Delivered", "delivered_at DeliveredAt", "updated_at UpdatedAt",
		"worker Worker", "fence Fence", "lease_until LeaseUntil",
	)
}

// EndpointColumns are the columns of webhook_endpoints.
var EndpointColumns = fields[store.Endpoint](
	"name Name", "failures Failures", "failed_at FailedAt", "open_until OpenUntil", "disabled Disabled", "reason Reason", "updated_at UpdatedAt",
)

// DeadLetterColumns are the columns of a dead letter besides those that name its webhook.
var DeadLetterColumns = fields[store.DeadLetter](
	"at At", "seq Seq", "sequence Sequence", "cursor_seq Cursor.Seq", "cursor_sequence Cursor.Sequence", "cursor_state Cursor.State",
	"attempts Attempts", "status Status", "reason Reason",
)

// LanePhase returns the phase of a lane at now. done reports that expiry may remove the lane
// while it is not pending.
func LanePhase(l *rules.Lane, done bool, now time.Time) Phase {
	switch {
	case l.Deleted:
		return PhaseDeleted
	case !l.Pending() && done:
		return PhaseDone
	case !l.Pending():
		return PhaseIdle
	case l.Blocked():
		return PhaseLeased
	case l.DueAt.After(now):
		return PhaseWaiting
	}
	return PhaseReady
}
