package webhook

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	// ackBatch is the maximum number of lanes acknowledged in one call.
	ackBatch = 256
	// outageFailures is the number of consecutive failed calls after which the store is
	// considered unavailable. Fewer failures may be due to a single ack.
	outageFailures = 3
	// minAckBackoff and maxAckBackoff bound the backoff after failed calls.
	minAckBackoff, maxAckBackoff = 20 * time.Millisecond, 2 * time.Second
)

// acknowledger stores the results of lanes and releases them. An ack that cannot be stored does not
// delay others.
type acknowledger struct {
	*common
	// stored is called after acks have been stored and before flush returns. lost has the
	// leases that this process no longer held.
	stored   func(lanes []*lane, acks []store.LaneAck, lost map[store.LaneLease]bool)
	pending  runtime.Signal // acks are waiting to be stored
	drained  runtime.Signal // all acks are stored
	failures atomic.Int32   // consecutive failed calls of AckLanes

	mu       sync.Mutex
	lanes    []*lane // lanes with an ack to be stored
	inFlight int     // number of acks being stored
}

func newAcknowledger(common *common) *acknowledger {
	return &acknowledger{common: common, pending: runtime.NewSignal(), drained: runtime.NewSignal()}
}

// failing reports whether the last call of the store failed.
func (q *acknowledger) failing() bool { return q.failures.Load() > 0 }

// release ends the claim of a lane on which no work was started. due is when the lane is due again.
func (q *acknowledger) release(l *lane, due time.Time) {
	l.finish()
	close(l.done)
	q.queue(l, l.collectAck(q.now(), due, false))
}

// queue queues an ack, merged with the lane's queued one.
func (q *acknowledger) queue(l *lane, ack store.LaneAck) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l.ack.queued == nil {
		q.lanes = append(q.lanes, l)
	} else {
		ack = mergeAcks(*l.ack.queued, ack)
	}
	l.ack.queued = &ack
	q.pending.Send()
}

// mergeAcks combines two successive acks of a lane into one.
func mergeAcks(first, then store.LaneAck) store.LaneAck {
	then.Delivered += first.Delivered
	then.Attempts = append(first.Attempts[:len(first.Attempts):len(first.Attempts)], then.Attempts...)
	then.Dead = append(first.Dead[:len(first.Dead):len(first.Dead)], then.Dead...)
	return then
}

// run stores queued acks in batches until ctx is done.
func (q *acknowledger) run(ctx context.Context, beat func()) {
	for ctx.Err() == nil {
		lanes, acks, wait := q.next()
		beat()
		if len(lanes) == 0 {
			idle := time.NewTimer(min(wait, q.cfg.Lease))
			select {
			case <-ctx.Done():
			case <-q.pending:
			case <-idle.C:
			}
			idle.Stop()
			continue
		}
		lost, err := q.send(ctx, acks)
		if err == nil {
			q.failures.Store(0)
			q.complete(lanes, acks, lost)
			continue
		}
		if ctx.Err() == nil {
			q.log.Error("storing delivery results of webhooks failed, retrying", "webhooks", len(acks), "task", acks[0].Lease.Task.ID, "webhook", acks[0].Lease.ID, "error", err)
			_ = runtime.Sleep(ctx, q.failed(lanes))
		}
		q.requeue(q.notStored(ctx, lanes, acks))
	}
}

// failed records that a call failed and returns the backoff before the next one. A single
// ack may be the cause, so the batch size is halved until that ack is sent alone. Then it has
// its own backoff and does not delay others.
func (q *acknowledger) failed(lanes []*lane) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range lanes {
		l.ack.batchLimit = max(len(lanes)/2, 1)
	}
	fails := int(q.failures.Load())
	if len(lanes) == 1 {
		l := lanes[0]
		l.ack.retryAt = time.Now().Add(ackBackoff(l.ack.failures))
		if l.ack.failures++; l.ack.failures > 1 && fails < outageFailures {
			return 0
		}
	}
	q.failures.Add(1)
	return ackBackoff(fails)
}

// ackBackoff returns the backoff after fails+1 consecutive failures.
func ackBackoff(fails int) time.Duration { return min(minAckBackoff<<min(fails, 10), maxAckBackoff) }

// notStored returns the acks of a failed call that must be repeated. It reads the lanes to omit
// acks that were stored despite the error. An ack that releases its lane can be repeated without
// this check, because the store ignores it if the lease is no longer held.
func (q *acknowledger) notStored(ctx context.Context, lanes []*lane, acks []store.LaneAck) (failedLanes []*lane, failedAcks []store.LaneAck) {
	for i := range acks {
		a := &acks[i]
		for fails := 0; a.KeepLease && ctx.Err() == nil; fails++ {
			page, err := q.cfg.Store.Lanes(ctx, store.LaneQuery{Owner: a.Lease.Task.Owner, TaskID: a.Lease.Task.ID, ID: a.Lease.ID, Limit: 1})
			if err != nil {
				_ = runtime.Sleep(ctx, ackBackoff(fails))
				continue
			}
			if len(page.Lanes) > 0 && page.Lanes[0].Cursor == a.Cursor && page.Lanes[0].UpdatedAt.Equal(a.At) {
				a = nil
			}
			break
		}
		if a != nil {
			failedLanes, failedAcks = append(failedLanes, lanes[i]), append(failedAcks, *a)
		}
	}
	return failedLanes, failedAcks
}

func (q *acknowledger) send(ctx context.Context, acks []store.LaneAck) ([]store.LaneLease, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, q.cfg.Lease, errSlowStore)
	defer cancel()
	return q.cfg.Store.AckLanes(ctx, acks...)
}

// next removes a batch of acks from the queue. If none is due, wait is the time until the next
// one.
func (q *acknowledger) next() (lanes []*lane, acks []store.LaneAck, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, maxBatch := time.Now(), ackBatch
	left := q.lanes[:0]
	wait = q.cfg.Lease
	for _, l := range q.lanes {
		limit := maxBatch
		if l.ack.batchLimit > 0 {
			limit = min(limit, l.ack.batchLimit)
		}
		if pause := l.ack.retryAt.Sub(now); pause > 0 || len(lanes) >= limit {
			wait = min(wait, pause)
			left = append(left, l)
			continue
		}
		maxBatch = limit
		lanes, acks = append(lanes, l), append(acks, *l.ack.queued)
		l.ack.queued = nil
	}
	clear(q.lanes[len(left):])
	q.lanes, q.inFlight = left, len(lanes)
	return lanes, acks, wait
}

// requeue ends a call of the store. It returns acks that were not stored to the queue.
func (q *acknowledger) requeue(lanes []*lane, acks []store.LaneAck) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inFlight = 0
	for i, l := range lanes {
		ack := acks[i]
		if l.ack.queued != nil {
			*l.ack.queued = mergeAcks(ack, *l.ack.queued)
			continue
		}
		l.ack.queued = &ack
		q.lanes = append(q.lanes, l)
	}
	if len(q.lanes) == 0 {
		q.drained.Send()
	}
}

// complete reports stored acks to q.stored and resets the failures of their lanes. lost are the
// leases that this process no longer held.
func (q *acknowledger) complete(lanes []*lane, acks []store.LaneAck, lost []store.LaneLease) {
	lostLeases := make(map[store.LaneLease]bool, len(lost))
	for _, lease := range lost {
		lostLeases[lease] = true
	}
	q.stored(lanes, acks, lostLeases)
	defer q.requeue(nil, nil)
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range lanes {
		l.ack.batchLimit, l.ack.failures, l.ack.retryAt = 0, 0, time.Time{}
	}
}

// flush waits until all acks are stored, or both contexts are done.
func (q *acknowledger) flush(ctx, grace context.Context) {
	for {
		q.mu.Lock()
		left := len(q.lanes) + q.inFlight
		q.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-q.drained:
			continue
		case <-ctx.Done():
		}
		select {
		case <-q.drained:
		case <-grace.Done():
			q.log.Error("delivery results of webhooks were not stored before the service stopped", "webhooks", left)
			return
		}
	}
}

// stuckFailures is the number of consecutive failures of an ack that Service.Health reports.
const stuckFailures = 10

// stuck returns the number of lanes with an ack that cannot be stored.
func (q *acknowledger) stuck() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.lanes {
		if l.ack.failures >= stuckFailures {
			n++
		}
	}
	return n
}
