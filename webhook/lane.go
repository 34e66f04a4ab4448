package webhook

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

type laneID struct {
	task store.Key
	id   string
}

// lane is a webhook's lane that this process has claimed. It holds the state that the claimer,
// the endpoint registry, the deliverer and the acknowledger each keep for a lane, so that none
// of them needs an index of its own. It has many fields because it combines these four states.
type lane struct {
	// The current state. Owned by the claimer and then by the goroutine that works on the lane.
	store.ClaimedLane
	lease    store.LaneLease
	endpoint *endpoint
	ctx      context.Context
	done     chan struct{} // closed when no more work is done on it
	previous *lane         // an earlier claim of the same lane, which must end first
	through  int64         // last event to send, 0 for no end; see globalThrough

	// Results that are not in an ack yet.
	attempts     []store.DeliveryAttempt
	dead         []store.DeadLetter
	delivered    int       // number of events
	unsentSince  time.Time // time of the first result that is not in an ack
	refusals     int       // consecutive events refused by the policy
	refusalsRead bool      // refusals includes the refusals of earlier claims

	handOff bool       // not claimed here when it is due, because another process may have the key
	memory  memoryHold // for its events

	notifications uint64 // claimer's count of notifications when it was claimed

	mu     sync.Mutex
	until  time.Time          // end of the lease
	halted bool               // makes no further attempt
	cancel context.CancelFunc // cancels ctx; nil before the lane is started

	// Guarded by the lock of the endpoint registry.
	counted   bool // counted in the limits of its owner and endpoint
	trial     bool // makes the trial attempt of a half-open breaker
	unproven  bool // counted in limits.unproven
	startedAt time.Time

	ack ackState // guarded by the lock of the acknowledger
}

// eventOverhead is the memory of an event in addition to its content, in bytes.
const eventOverhead = 512

// ackState is the state of a lane in the acknowledger.
type ackState struct {
	queued     *store.LaneAck // to be stored; nil if there is none
	batchLimit int            // maximum size of the batch with the ack; 0 for no limit
	failures   int            // consecutive failures to store the ack alone
	retryAt    time.Time      // when to retry after that
}

// memoryNeed returns the memory for the events of a lane and the bodies built from them.
func (l *lane) memoryNeed() (bytes int64) {
	for i := range l.Events {
		bytes += eventOverhead + 2*int64(l.Events[i].Size())
	}
	return bytes
}

func (l *lane) id() laneID { return laneID{l.lease.Task, l.lease.ID} }

// finish releases the memory of the events, when the work on the lane has ended.
func (l *lane) finish() {
	l.Events = nil
	l.memory.shrink(0)
}

// isDone reports whether no more work is done on the lane.
func (l *lane) isDone() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// start sets the context of attempts.
func (l *lane) start(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ctx, l.cancel = context.WithCancel(ctx)
}

// halt cancels the attempt in progress, and prevents further ones.
func (l *lane) halt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.halted = true
	if l.cancel != nil {
		l.cancel()
	}
}

func (l *lane) isHalted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.halted
}

// extend records that the lease was renewed.
func (l *lane) extend(until time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = until
}

// leaseLeft returns the rest of the lease, or 0 if no further attempt may be made.
func (l *lane) leaseLeft(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.halted {
		return 0
	}
	return l.until.Sub(now)
}

// next returns the cursor after event e, and whether the lane sends e.
func (l *lane) next(e *store.Event) (next store.WebhookCursor, send bool) {
	next, send = l.Cursor.Next(e)
	return next, send && (l.through == 0 || e.Seq <= l.through)
}

// advance moves the cursor of a lane past an event.
func (l *lane) advance(next store.WebhookCursor) {
	l.Cursor, l.Attempt, l.FailedAt = next, 0, time.Time{}
}

func (l *lane) recordAttempt(next store.WebhookCursor, r result, at time.Time, took time.Duration) {
	if len(l.attempts)+len(l.dead) == 0 {
		l.unsentSince = at
	}
	l.attempts = append(l.attempts, store.DeliveryAttempt{
		Task: l.lease.Task, WebhookID: l.lease.ID, Seq: next.Seq, Sequence: next.Sequence, Attempt: l.Attempt + 1,
		At: at, Duration: max(took, 0).Truncate(time.Millisecond), Status: r.status, Outcome: r.outcome, Address: r.address, Detail: r.detail,
	})
}

// scheduleRetry counts a failed attempt and returns when the lane is due again. parked
// reports that the schedule is exhausted.
func (l *lane) scheduleRetry(r result, schedule []time.Duration, now time.Time, chance float64) (due time.Time, parked bool) {
	l.Attempt++
	if l.FailedAt.IsZero() || l.FailedAt.After(now) {
		l.FailedAt = now
	}
	wait, ok := retryBackoff(schedule, l.Attempt, now.Sub(l.FailedAt), chance)
	if !ok {
		return now, true
	}
	return store.Time(now.Add(max(wait, r.retryAfter))), false
}

// collectAck returns an ack with the results since the previous one. keepLease keeps the
// lease; due is when the lane is due next.
func (l *lane) collectAck(now, due time.Time, keepLease bool) store.LaneAck {
	ack := store.LaneAck{
		Lease: l.lease, KeepLease: keepLease, At: store.Time(now),
		Cursor: l.Cursor, State: l.State, Reason: l.Reason, DueAt: store.Time(due), Attempt: l.Attempt, FailedAt: l.FailedAt,
		Delivered: l.delivered, Attempts: l.attempts, Dead: l.dead,
	}
	l.delivered, l.attempts, l.dead = 0, nil, nil
	return ack
}
