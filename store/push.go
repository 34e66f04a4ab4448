package store

import (
	"context"
	"math"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/memory"
)

// PushStore keeps webhooks and how far each has been told: one lane per webhook,
// which is a cursor in the log of its task, a due time and a lease. There is no
// record per delivery; what is to be sent follows from the log.
//
// A lane is pending while its Cursor.Seq is below its Tail. Every commit and claim
// that appends events to a task moves the Tail of its lanes to the task's new
// version, in the same transaction; a lane that was not pending becomes due at the
// time of the last of these events, and one that was pending stays as it is,
// whoever holds it.
type PushStore interface {
	// SavePush creates a webhook of a task, or replaces the Endpoint, Data and
	// LongRunning of the one with its ID. A new lane begins behind cursor. One that is
	// there keeps its cursor and what it has delivered, loses its lease, is active
	// again, and, if it is pending, due at now with no failed attempts. A new lane's
	// Fence begins at now in milliseconds since 1970, so that an old lease is not that of
	// a new webhook of the same ID; if a deleted one is still held, it takes its place
	// as if that were replaced. ErrNotFound when the owner has no such task.
	//
	// A lane that loses its lease has no Worker any more, and its Fence grows by one,
	// unless it has lost one before that is not over. Its LeaseUntil stays: the worker may
	// be in the midst of an attempt, so nobody claims the lane until that is over. It is
	// when the worker, who is told with its next RenewLanes or AckLanes, acknowledges
	// without Hold, or else by LeaseUntil. A lane that nobody holds just has its Fence
	// grow by one.
	SavePush(ctx context.Context, c PushConfig, cursor PushCursor, now time.Time) (Lane, error)
	// Lanes returns a page of lanes, ordered by owner, task and webhook, by their
	// bytes.
	Lanes(ctx context.Context, q LaneQuery) (LanePage, error)
	// DeletePush removes a webhook with its lane, its attempts and its dead letters.
	// From then on no read finds it. While a worker holds the lane, as of now, or a lease
	// that was taken away is not over, busy is true: the worker is told with its next
	// RenewLanes or AckLanes that it has lost it, and its AckLanes without Hold removes
	// the rest. Calling again tells whether it has; ErrNotFound when there is nothing left,
	// or never was.
	DeletePush(ctx context.Context, task Key, id string, now time.Time) (busy bool, err error)

	// ClaimLanes leases due lanes to a worker, with the next events of each. As with
	// Claim, owners are visited in turn and the longest due of an owner comes first,
	// then by task and webhook. A lane is due when it is pending and its DueAt, or if
	// it has one its LeaseUntil, has come. Fence grows by one. A lane whose task
	// cannot be read is left out, and comes again when its lease has ended. Rows of logs
	// of more than p.LargestRow bytes are not read: a lane ends before them, without events
	// if the next is in one.
	ClaimLanes(ctx context.Context, p LaneClaim) ([]ClaimedLane, error)
	// RenewLanes extends leases that are still held and returns those that are not.
	RenewLanes(ctx context.Context, until time.Time, leases []LaneLease) (lost []LaneLease, err error)
	// AckLanes tells what became of claimed lanes, each whole or, when its lease is
	// not held any more, not at all; those are returned, and over unless they Hold. After
	// an error it is open what was stored: acknowledging again is safe.
	AckLanes(ctx context.Context, acks ...LaneAck) (lost []LaneLease, err error)
	// ReplayPush sets a lane back to cursor, never forward: a lane that stands before
	// it, by Seq, stays there, so that no event is left out. It is active, its dead letters
	// behind where it stands then are removed, it loses its lease as with SavePush, and is
	// due at now with no failed attempts if it is pending. It returns the lane's Cursor.
	// ErrNotFound when there is no such webhook.
	ReplayPush(ctx context.Context, task Key, id string, cursor PushCursor, now time.Time) (PushCursor, error)
	// WakeLanes makes up to limit pending lanes of an endpoint that wait, unleased, for a
	// time after now due at now, the longest due first, and returns how many.
	WakeLanes(ctx context.Context, endpoint string, now time.Time, limit int) (int, error)

	// DeadLetters returns a page of dead letters: the newest first by At, then by owner,
	// task and webhook, ascending by their bytes, then by sequence, descending.
	DeadLetters(ctx context.Context, q PushQuery) (DeadLetterPage, error)
	// PushAttempts returns a page of attempts, ordered like dead letters, then by Attempt,
	// descending.
	PushAttempts(ctx context.Context, q PushQuery) (PushAttemptPage, error)

	// Endpoints returns what is known of endpoints that fail, or have been disabled.
	Endpoints(ctx context.Context) ([]Endpoint, error)
	// SaveEndpoint creates or replaces the record of an endpoint. One without
	// Failures that is not Disabled is removed.
	SaveEndpoint(ctx context.Context, e Endpoint) error

	// ExpirePush removes up to limit records of each kind: attempts made before
	// p.Attempts, dead letters made before p.Dead, and then webhooks whose task is over, whose lane is not pending, which
	// have no dead letters, and which were last active (Lane.UpdatedAt) before
	// p.Finished, or p.LongRunning if they are long-running. It returns how many it
	// removed.
	ExpirePush(ctx context.Context, p PushExpiry, limit int) (int, error)
	// PushBacklog counts lanes and dead letters. It costs no more than a look at those.
	PushBacklog(ctx context.Context) (PushBacklog, error)
	// WatchLanes has f called after lanes may have become due: by a commit of this
	// process, or by others as far as that is known. Calls may be late, repeated or lost,
	// and f must not block. stop ends it.
	WatchLanes(f func()) (stop func())
}

// PushConfig is a webhook of a task. A task may have several.
type PushConfig struct {
	Task Key
	ID   string
	// Endpoint is where it goes: scheme, host and port. Lanes are woken by it.
	Endpoint string
	// Data is the webhook as its user described it, a JSON object. Stores do not look
	// into it.
	Data []byte
	// LongRunning webhooks are kept for longer once their task is over.
	LongRunning bool
	// CreatedAt is kept when the webhook is replaced.
	CreatedAt time.Time
}

// PushCursor is a place in a task's log as a receiver of its events sees it. The zero
// cursor stands before all.
type PushCursor struct {
	// Seq is the last event of the log that has been dealt with.
	Seq int64 `json:"seq"`
	// Sequence counts the events told so far: that of the last one, from 1.
	Sequence int64 `json:"sequence"`
	// State is the task's after them.
	State a2a.TaskState `json:"state,omitempty"`
}

// Next returns the cursor behind the event that follows, and whether receivers are
// told of that event: of each artifact, and of each status that is another than the
// one before or says something; not that a task waits to be run, of messages that
// they have sent themselves, and of changed metadata.
func (c PushCursor) Next(e *Event) (next PushCursor, told bool) {
	next = PushCursor{Seq: e.Seq, Sequence: c.Sequence, State: c.State}
	switch {
	case e.Artifact != nil:
		told = true
	case e.Received != nil, e.State == a2a.StateSubmitted, e.State == a2a.StatePending, e.Progress && len(e.Metadata) > 0:
		next.State = e.State
	default:
		next.State = e.State
		told = e.State != c.State || e.Message != nil
	}
	if told {
		next.Sequence++
	}
	return next, told
}

// CursorAt returns the cursor behind a version of a task, by reading its log.
func CursorAt(ctx context.Context, s Store, b *memory.Budget, task Key, seq int64) (c PushCursor, err error) {
	err = WalkLog(ctx, s, b, task, 0, seq, func(page []Event) bool {
		for i := range page {
			c, _ = c.Next(&page[i])
		}
		return true
	})
	return c, err
}

// NewPush is a webhook that a change brings to its task, as with SavePush. Its time
// is that of the task's last event, after the change. The lane begins behind Cursor,
// whose Seq is at most the task's version before the change; it is ignored when the
// webhook is there.
type NewPush struct {
	ID          string
	Endpoint    string
	Data        []byte
	LongRunning bool
	Cursor      PushCursor
}

// LaneState says whether a lane delivers.
type LaneState string

// The states of lanes.
const (
	// LaneActive lanes deliver.
	LaneActive LaneState = "active"
	// LaneParked lanes have used up their attempts. What they are to send becomes
	// dead letters at once, until they are set back.
	LaneParked LaneState = "parked"
	// LaneDisabled lanes are not wanted by their receiver, or must not be called.
	LaneDisabled LaneState = "disabled"
)

// Lane is a webhook and how far it has been told. Lanes of any state are claimed
// when they are due.
type Lane struct {
	Config PushConfig
	// Cursor is behind the last event that was delivered or became a dead letter.
	Cursor PushCursor
	// Tail is the task's version.
	Tail   int64
	State  LaneState
	Reason string // why it is not active, for people
	// DueAt is when the next event may be sent. It means nothing while the lane is
	// not pending.
	DueAt time.Time
	// Attempt counts the failed attempts to send the next event, FailedAt is when the
	// first was.
	Attempt  int
	FailedAt time.Time
	// Delivered counts the events that were delivered, DeliveredAt is when the last was.
	Delivered   int64
	DeliveredAt time.Time
	// UpdatedAt is when the lane was saved, acknowledged or set back last.
	UpdatedAt time.Time

	// Worker holds the lane until LeaseUntil; "" when nobody does. LeaseUntil is zero then,
	// unless it is that of a lease that was taken away; see SavePush.
	Worker     string
	Fence      int64
	LeaseUntil time.Time
}

// Pending reports whether there are events to be dealt with.
func (l *Lane) Pending() bool { return l.Cursor.Seq < l.Tail }

// LaneLease names a lease of a lane.
type LaneLease struct {
	Task   Key
	ID     string // the webhook's
	Worker string
	Fence  int64
}

// LaneClaim are the arguments of ClaimLanes. Those it has in common with
// ClaimParams mean the same; a worker may claim again what was leased to it, once
// the lease has ended.
type LaneClaim struct {
	Worker     string
	Now, Until time.Time
	Limit      int
	Takeover   bool
	Horizon    time.Duration
	AfterOwner string
	// Skip are owners that are passed over.
	Skip []string
	// Events is how many events of each lane are read at most, and Bytes, if positive,
	// how much: the events end with the one with which their content, by Event.Size, comes to
	// more.
	Events int
	Bytes  int
}

// LargestRow is the size of the largest row of a log that a claim reads.
func (c *LaneClaim) LargestRow() int64 {
	if c.Bytes <= 0 {
		return math.MaxInt64
	}
	return 2*int64(c.Bytes) + 64<<10
}

// ClaimedLane is a lane that was leased, with the events behind its cursor: at
// least one, unless the next is in a row that is too large to be read. Created is when
// its task was, and ContextID the task's.
type ClaimedLane struct {
	Lane
	Events    []Event
	Created   time.Time
	ContextID string
}

// LaneAck is what became of a claimed lane.
type LaneAck struct {
	Lease LaneLease
	// Hold keeps the lease; else it is given back, and the worker makes no attempt under it
	// any more.
	Hold bool
	// At is when. The lane's UpdatedAt becomes it, and its DeliveredAt if Delivered is
	// above 0.
	At time.Time
	// The lane's to be.
	Cursor   PushCursor
	State    LaneState
	Reason   string
	DueAt    time.Time
	Attempt  int
	FailedAt time.Time
	// Delivered is added to the lane's.
	Delivered int
	// Attempts and Dead are added to what was noted before.
	Attempts []PushAttempt
	Dead     []DeadLetter
}

// PushAttempt is one attempt to deliver an event, or that it was not made because
// it must not be.
type PushAttempt struct {
	Task     Key
	ConfigID string
	Seq      int64 // of the log
	Sequence int64 // as told to the receiver
	Attempt  int   // from 1
	At       time.Time
	Duration time.Duration // to the millisecond
	// Status is the HTTP status, 0 when there was no answer.
	Status int
	// Outcome says in a word what happened: "delivered", "refused", "timeout", ...
	Outcome string
	// Address is the IP address and port that was called; "" when none was.
	Address string
	// Detail is for operators, not for those who registered the webhook.
	Detail string
}

// DeadLetter is an event that will not be sent unless its lane is set back.
type DeadLetter struct {
	Task     Key
	ConfigID string
	// Cursor is the place before the event, to which ReplayPush can go back.
	Cursor   PushCursor
	Seq      int64
	Sequence int64
	Attempts int // made for it
	Status   int // of the last
	Reason   string
	At       time.Time
}

// LaneQuery selects lanes. Zero fields do not filter.
type LaneQuery struct {
	Owner  string
	TaskID string // with Owner
	ID     string // of the webhook, with TaskID
	States []LaneState
	// After continues behind a lane: only its names count. nil starts.
	After *LaneLease
	// Limit is the size of the page, at least 1.
	Limit int
}

// LanePage is a page of lanes.
type LanePage struct {
	Lanes []Lane
	// More says that there are more.
	More bool
}

// PushQuery selects attempts or dead letters. Zero fields do not filter.
type PushQuery struct {
	Owner  string
	TaskID string // with Owner
	ID     string // of the webhook, with TaskID
	// Sequence is of one event.
	Sequence int64
	// Cursor continues a list: what Page.Next was. "" starts.
	Cursor string
	// Limit is the size of the page, at least 1.
	Limit int
}

// DeadLetterPage is a page of dead letters. Next, if not empty, continues the list.
type DeadLetterPage struct {
	Letters []DeadLetter
	Next    string
}

// PushAttemptPage is a page of attempts. Next, if not empty, continues the list.
type PushAttemptPage struct {
	Attempts []PushAttempt
	Next     string
}

// Endpoint is what is known of an endpoint that fails.
type Endpoint struct {
	Name string // what its failures are counted by, such as PushConfig.Endpoint
	// Failures counts the failures since the last success.
	Failures int
	FailedAt time.Time // the first of these
	// OpenUntil is when it may be called again.
	OpenUntil time.Time
	// Disabled endpoints are not called at all; Reason says why, for people.
	Disabled  bool
	Reason    string
	UpdatedAt time.Time
}

// PushExpiry says what is old enough to be removed by ExpirePush. Zero times remove
// nothing.
type PushExpiry struct {
	Attempts    time.Time
	Dead        time.Time
	Finished    time.Time
	LongRunning time.Time
}

// PushBacklog counts lanes by what they do.
type PushBacklog struct {
	Pending  int // of any state
	Parked   int
	Disabled int
	Dead     int // dead letters
}
