package store

import (
	"context"
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/memory"
)

// Webhooks stores webhooks and their progress. Each webhook has one lane: a cursor in the
// log of its task, a due time and a lease. No record exists per delivery, because the log
// determines the events to send.
//
// A lane is pending while its Cursor.Seq is less than its Tail. Every commit and claim
// that appends events to a task sets the Tail of its lanes to the task's new version, in
// the same transaction. A lane that was not pending becomes due at the time of the last
// of these events. A lane that was pending keeps its due time and its lease.
//
// SaveWebhook, ReplayWebhook and DeleteWebhook revoke the lease of a lane. A revoked lease
// has no Worker, and the lane's Fence is incremented, but LeaseUntil remains. The worker
// may be sending a request, so no other worker can claim the lane until the worker
// releases the lease or LeaseUntil has passed. The worker learns of the revocation from
// its next RenewLanes or AckLanes, and releases the lease with an AckLanes without
// KeepLease. While a revoked lease is unreleased, revoking again leaves Fence unchanged.
// If no worker holds the lane, only Fence is incremented.
type Webhooks interface {
	// SaveWebhook creates a webhook of a task, or replaces the Endpoint, Data and
	// LongRunning of the webhook with the same ID. ErrNotFound: the owner has no such task.
	//
	// The lane of a new webhook starts after cursor. Its Fence is now in milliseconds
	// since 1970, so that a lease of a deleted webhook is not valid for a new one with the
	// same ID. If a worker has not released its revoked lease of a deleted webhook with this
	// ID, the new lane has the Fence and LeaseUntil of that lease instead.
	//
	// The lane of a replaced webhook keeps its cursor and its counters. Its lease is
	// revoked and it becomes active. If it is pending, it is due at now with no failed
	// attempts.
	SaveWebhook(ctx context.Context, c Webhook, cursor WebhookCursor, now time.Time) (Lane, error)
	// Lanes returns a page of lanes, ordered by owner, task and webhook, by their
	// bytes.
	Lanes(ctx context.Context, q LaneQuery) (LanePage, error)
	// DeleteWebhook removes a webhook with its lane, attempts and dead letters. No later
	// read finds it. busy is true while a worker holds the lane at now, or a revoked lease
	// is unreleased. The lease is revoked then, and the worker's AckLanes without KeepLease
	// removes the rest. Call DeleteWebhook again to find out whether it has: ErrNotFound
	// means that nothing is left, or that the webhook never existed.
	DeleteWebhook(ctx context.Context, task Key, id string, now time.Time) (busy bool, err error)
	// ReplayWebhook moves a lane back to cursor, so that it sends the following events
	// again, and returns the new Cursor of the lane. A lane with a lower Seq is not moved,
	// so that no event is skipped. The lane becomes active, its lease is revoked, and its
	// dead letters after the new cursor are removed. If it is pending, it is due at now
	// with no failed attempts. ErrNotFound: the webhook does not exist.
	ReplayWebhook(ctx context.Context, task Key, id string, cursor WebhookCursor, now time.Time) (WebhookCursor, error)
	// DeadLetters returns a page of dead letters, ordered by At, newest first, then by
	// owner, task and webhook, ascending by their bytes, then by sequence, descending.
	DeadLetters(ctx context.Context, q WebhookQuery) (DeadLetterPage, error)
	// DeliveryAttempts returns a page of delivery attempts, ordered like dead letters, then
	// by Attempt, descending.
	DeliveryAttempts(ctx context.Context, q WebhookQuery) (DeliveryAttemptPage, error)
	// Endpoints returns the records of endpoints that fail or are disabled.
	Endpoints(ctx context.Context) ([]Endpoint, error)
	// SaveEndpoint creates or replaces the record of an endpoint. It removes the record if
	// e has no Failures and is not Disabled.
	SaveEndpoint(ctx context.Context, e Endpoint) error
	// ExpireWebhooks removes up to limit records of each kind, and returns their number.
	// It removes delivery attempts made before p.Attempts, dead letters from before p.Dead,
	// and then finished webhooks. A webhook is finished if its task is in a terminal state,
	// its lane is not pending and it has no dead letters. It is removed if its
	// Lane.UpdatedAt is before p.Finished, or p.LongRunning if it is LongRunning.
	ExpireWebhooks(ctx context.Context, p WebhookExpiry, limit int) (int, error)
	// WebhookBacklog counts lanes and dead letters. Its cost is at most proportional to
	// these numbers.
	WebhookBacklog(ctx context.Context) (WebhookBacklog, error)
}

// Lanes leases lanes to the workers that deliver their events. See [Webhooks].
type Lanes interface {
	// ClaimLanes leases due lanes to a worker and returns them with their next events. It
	// visits owners round-robin, as Claim does. Of an owner's lanes, the longest due is
	// first, then by task and webhook. A lane is due if it is pending and its LeaseUntil
	// has passed, or, if that is zero, its DueAt. Its Fence is incremented. If a task
	// cannot be read, its lanes are not returned and can be claimed again when their leases
	// end. ClaimLanes does not read rows of logs of more than p.LargestRow bytes. The events
	// of a lane end before such a row; there are none if it contains the next event.
	ClaimLanes(ctx context.Context, p LaneClaim) ([]ClaimedLane, error)
	// RenewLanes extends leases that the worker still holds and returns the others.
	RenewLanes(ctx context.Context, until time.Time, leases []LaneLease) (lost []LaneLease, err error)
	// AckLanes records the outcome of claimed lanes. Each acknowledgement is applied
	// completely, or not at all if the worker no longer holds the lease. lost has the leases
	// that are no longer held. Those that were revoked are released, unless KeepLease is set.
	// After an error it is unknown which acknowledgements were stored. It is safe to
	// acknowledge again.
	AckLanes(ctx context.Context, acks ...LaneAck) (lost []LaneLease, err error)
	// WakeLanes sets the due time of pending lanes of an endpoint to now, if they are not
	// leased and are due later. It changes up to limit lanes, the earliest due first, and
	// returns their number.
	WakeLanes(ctx context.Context, endpoint string, now time.Time, limit int) (int, error)
	// WatchLanes registers f, which the store calls when lanes may have become due: by a
	// commit of this process or, if the store can detect them, of others. Calls may be late,
	// repeated or lost. f must not block. stop removes f.
	WatchLanes(f func()) (stop func())
}

// Webhook is a webhook of a task. A task may have several.
type Webhook struct {
	Task Key
	ID   string
	// Endpoint is the scheme, host and port of the webhook's URL. WakeLanes selects lanes
	// by it.
	Endpoint string
	// Data is the webhook as registered, a JSON object. It is opaque to stores.
	Data []byte
	// LongRunning selects the longer retention time after the end of the task; see
	// WebhookExpiry.
	LongRunning bool
	// CreatedAt does not change when the webhook is replaced.
	CreatedAt time.Time
}

// WebhookCursor is a position in a task's log, and in the sequence of events that a
// receiver gets. The zero cursor is before the first event.
type WebhookCursor struct {
	// Seq is the sequence of the last event of the log that has been processed.
	Seq int64 `json:"seq"`
	// Sequence is the number of events up to Seq that receivers get. It numbers these
	// events from 1.
	Sequence int64 `json:"sequence"`
	// State is the task's state at Seq.
	State a2a.TaskState `json:"state,omitempty"`
}

// Next returns the cursor after the next event of the log, and reports whether receivers
// get this event. They get artifacts, and statuses with a new state or a message. They do
// not get the states submitted and pending, messages of the client, or changes of metadata.
func (c WebhookCursor) Next(e *Event) (next WebhookCursor, deliver bool) {
	next = WebhookCursor{Seq: e.Seq, Sequence: c.Sequence, State: c.State}
	switch {
	case e.Artifact != nil:
		deliver = true
	case e.Received != nil, e.State == a2a.StateSubmitted, e.State == a2a.StatePending, e.Progress && len(e.Metadata) > 0:
		next.State = e.State
	default:
		next.State = e.State
		deliver = e.State != c.State || e.Message != nil
	}
	if deliver {
		next.Sequence++
	}
	return next, deliver
}

// CursorAt reads the log of a task and returns the cursor after the event with sequence
// seq. See [WalkLog] for b and the errors.
func CursorAt(ctx context.Context, s LogReader, b *memory.Budget, task Key, seq int64) (c WebhookCursor, err error) {
	err = WalkLog(ctx, s, b, task, 0, seq, func(page []Event) bool {
		for i := range page {
			c, _ = c.Next(&page[i])
		}
		return true
	})
	return c, err
}

// NewWebhook is a webhook that a change registers, as SaveWebhook does with the time of the
// last event of the change as now. Its lane starts after Cursor, and Cursor.Seq is at most
// the task's version before the change. Cursor is ignored if the webhook exists.
type NewWebhook struct {
	ID          string
	Endpoint    string
	Data        []byte
	LongRunning bool
	Cursor      WebhookCursor
}

// LaneState is the state of a lane.
type LaneState string

// States of lanes.
const (
	// LaneActive lanes deliver events.
	LaneActive LaneState = "active"
	// LaneParked lanes have used all attempts to deliver an event. Their events become
	// dead letters immediately, until the lane is saved or replayed.
	LaneParked LaneState = "parked"
	// LaneDisabled lanes make no requests: the receiver has ended the webhook, or its URL or
	// endpoint must not be called. Their events become dead letters, as in LaneParked.
	LaneDisabled LaneState = "disabled"
)

// Lane is a webhook and the progress of its deliveries. Lanes in every state can be
// claimed when they are due.
type Lane struct {
	Webhook Webhook
	// Cursor is after the last event that was delivered or became a dead letter.
	Cursor WebhookCursor
	// Tail is the task's version.
	Tail   int64
	State  LaneState
	Reason string // why the lane is not active, for people
	// DueAt is when the next event can be sent. It has no meaning while the lane is not
	// pending.
	DueAt time.Time
	// Attempt is the number of failed attempts to send the next event. FailedAt is the
	// time of the first one.
	Attempt  int
	FailedAt time.Time
	// Delivered is the number of delivered events. DeliveredAt is the time of the last one.
	Delivered   int64
	DeliveredAt time.Time
	// UpdatedAt is when the lane was last saved, acknowledged or replayed.
	UpdatedAt time.Time

	// Worker holds the lane until LeaseUntil. If no worker holds it, Worker is "", and
	// LeaseUntil is zero unless a revoked lease is unreleased; see Webhooks.
	Worker     string
	Fence      int64
	LeaseUntil time.Time
}

// Pending reports whether the lane has events to process.
func (l *Lane) Pending() bool { return l.Cursor.Seq < l.Tail }

// LaneLease identifies a lease of a lane.
type LaneLease struct {
	Task   Key
	ID     string // of the webhook
	Worker string
	Fence  int64
}

// LaneClaim contains the arguments of ClaimLanes. Fields that ClaimParams has too have the
// same meaning, except that a worker can claim a lane after its own lease from an earlier
// claim has ended.
type LaneClaim struct {
	Worker     string
	Now, Until time.Time
	Limit      int
	Takeover   bool
	Horizon    time.Duration // of the due time, as in ClaimParams
	AfterOwner string
	Skip       []string
	// Events is the maximum number of events to read per lane. Bytes, if positive, limits
	// their content: the events of a lane end with the first one with which the sum of
	// Event.Size exceeds Bytes.
	Events int
	Bytes  int
}

// LargestRow returns the size of the largest row of a log that the claim reads.
func (c *LaneClaim) LargestRow() int64 {
	if c.Bytes <= 0 {
		return math.MaxInt64
	}
	return 2*int64(c.Bytes) + 64<<10
}

// ClaimedLane is a leased lane with the events after its cursor. It has at least one
// event, unless the next one is in a row that is too large to read.
type ClaimedLane struct {
	Lane
	Events    []Event
	Created   time.Time // of the task
	ContextID string    // of the task
}

// LaneAck is the outcome of a claimed lane.
type LaneAck struct {
	Lease LaneLease
	// KeepLease keeps the lease. Otherwise it is released, and the worker sends nothing
	// under it anymore.
	KeepLease bool
	// At is the time of the outcome. It becomes the lane's UpdatedAt, and its DeliveredAt
	// if Delivered is positive.
	At time.Time
	// The new values of the lane.
	Cursor   WebhookCursor
	State    LaneState
	Reason   string
	DueAt    time.Time
	Attempt  int
	FailedAt time.Time
	// Delivered is added to the lane's Delivered.
	Delivered int
	// Attempts and Dead are the new delivery attempts and dead letters.
	Attempts []DeliveryAttempt
	Dead     []DeadLetter
}

// DeliveryAttempt records one attempt to deliver an event, or that the webhook service
// sent no request: the URL is not allowed, or the event is too large.
type DeliveryAttempt struct {
	Task      Key
	WebhookID string
	Seq       int64 // of the log
	Sequence  int64 // in the events that the receiver gets
	Attempt   int   // from 1
	At        time.Time
	Duration  time.Duration // precision: milliseconds
	// Status is the HTTP status, or 0 if there was no response.
	Status int
	// Outcome is one word: "delivered", "refused", "timeout", ...
	Outcome string
	// Address is the IP address and port of the request, or "" if none was sent.
	Address string
	// Detail is for operators only. It is not shown to the owner of the webhook.
	Detail string
}

// DeadLetter is an event that is not sent unless its lane is replayed.
type DeadLetter struct {
	Task      Key
	WebhookID string
	// Cursor is the position before the event. ReplayWebhook accepts it.
	Cursor   WebhookCursor
	Seq      int64 // as in DeliveryAttempt
	Sequence int64
	Attempts int // number of attempts for the event
	Status   int // of the last attempt
	Reason   string
	At       time.Time
}

// LaneQuery selects lanes. Zero fields do not filter.
type LaneQuery struct {
	Owner  string
	TaskID string // with Owner
	ID     string // of the webhook, with TaskID
	States []LaneState
	// After continues after the lane with this Task and ID; nil starts the list.
	After *LaneLease
	// Limit is the maximum size of the page, at least 1.
	Limit int
}

// LanePage is a page of lanes.
type LanePage struct {
	Lanes []Lane
	// More reports that more lanes follow.
	More bool
}

// WebhookQuery selects attempts or dead letters. Zero fields do not filter.
type WebhookQuery struct {
	Owner  string
	TaskID string // with Owner
	ID     string // of the webhook, with TaskID
	// Sequence selects the records of one event.
	Sequence int64
	// Cursor is the Next of the previous page; "" starts the list.
	Cursor string
	// Limit is the maximum size of the page, at least 1.
	Limit int
}

// DeadLetterPage is a page of dead letters. Next, if not empty, continues the list.
type DeadLetterPage struct {
	Letters []DeadLetter
	Next    string
}

// DeliveryAttemptPage is a page of attempts. Next, if not empty, continues the list.
type DeliveryAttemptPage struct {
	Attempts []DeliveryAttempt
	Next     string
}

// Endpoint is the circuit breaker of an endpoint that fails, or that is disabled.
type Endpoint struct {
	Name string // Webhook.Endpoint, followed by a space and the owner if it is of one owner
	// Failures is the number of failures since the last success.
	Failures int
	FailedAt time.Time // of the first of these failures
	// OpenUntil is when requests are allowed again.
	OpenUntil time.Time
	// Disabled endpoints receive no requests. Reason explains it, for people.
	Disabled  bool
	Reason    string
	UpdatedAt time.Time
}

// WebhookExpiry contains the limits of ExpireWebhooks. A zero time removes nothing.
type WebhookExpiry struct {
	Attempts    time.Time
	Dead        time.Time
	Finished    time.Time
	LongRunning time.Time
}

// WebhookBacklog counts lanes by state, and dead letters.
type WebhookBacklog struct {
	Pending  int // pending lanes in any state
	Parked   int
	Disabled int
	Dead     int // dead letters
}
