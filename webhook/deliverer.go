package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	// errorBackoff is the wait of a lane after an error of this process or its store.
	errorBackoff = 5 * time.Second
	// ackInterval is how long results of a lane are collected before they are stored.
	ackInterval = 50 * time.Millisecond
	// busyBackoff is the average wait of a lane while its address has too many requests.
	busyBackoff = time.Second
)

// deliverer sends the events of claimed lanes.
type deliverer struct {
	*common
	endpoints *endpointRegistry
	acks      *acknowledger
	pool      *pool

	ctx      context.Context    // context of delivery attempts
	cancel   context.CancelFunc // cancels ctx
	workers  sync.WaitGroup     // goroutines that work on lanes, and reads of the pool
	stopping atomic.Bool        // no further attempts are made

	delivered, failed, dead atomic.Int64
	undecryptableOnce       sync.Once // logs once that secrets cannot be decrypted
}

func newDeliverer(common *common, endpoints *endpointRegistry, acks *acknowledger) *deliverer {
	d := &deliverer{common: common, endpoints: endpoints, acks: acks}
	d.pool = &pool{common: common, workers: &d.workers, items: make(map[sharedKey]*sharedItem)}
	return d
}

// open sets the context of attempts. It must be called before the first lane is started.
func (d *deliverer) open(ctx context.Context) {
	d.ctx, d.cancel = context.WithCancel(ctx)
	d.pool.ctx = d.ctx
}

// start starts a goroutine that works on a lane.
func (d *deliverer) start(l *lane) {
	l.start(d.ctx)
	d.workers.Add(1)
	go d.work(l)
}

// work delivers the claimed events and releases the lane.
func (d *deliverer) work(l *lane) {
	defer d.workers.Done()
	if l.previous != nil {
		<-l.previous.done
		l.previous = nil
	}
	var due time.Time
	if err := runtime.Guard(func() { due = d.deliver(l) }); err != nil {
		d.log.Error("webhook delivery panicked", "task", l.lease.Task.ID, "webhook", l.lease.ID, "error", err)
		due = d.now().Add(errorBackoff)
	}
	close(l.done)
	l.cancel()
	d.finish(l, due)
}

// deliver sends the lane's events one after the other, and returns when the lane is due again.
func (d *deliverer) deliver(l *lane) (due time.Time) {
	if len(l.Events) == 0 {
		release, err := d.loadEvents(l)
		if err != nil {
			return d.dueAfterError(l, err)
		}
		defer release()
	}
	if l.State != store.LaneActive {
		d.deadLetterFrom(l, 0, l.Reason, store.Time(d.now()))
		return d.now()
	}
	var c *composer
	defer func() {
		if c != nil {
			c.close()
		}
	}()
	for i := range l.Events {
		e := &l.Events[i]
		next, send := l.next(e)
		if !send {
			l.Cursor = next
			continue
		}
		limit, due, ok := d.mayAttempt(l)
		if !ok {
			return due
		}
		var err error
		if c == nil {
			c, err = d.compose(l.ctx, &l.ClaimedLane)
		}
		at, r := store.Time(d.now()), result{}
		if err == nil {
			r, err = d.attempt(l, c, e, next, limit)
		}
		var permanent *permanentError
		var large *tooLargeError
		var busy *safehttp.Error
		if errors.Is(err, errUndecryptable) {
			if due, _ = d.applyResult(l, i, next, undecryptableResult); l.State == store.LaneActive {
				l.handOff = true
				due = d.now().Add(jitter(undecryptableBackoff, d.cfg.random()))
			}
			return due
		}
		if errors.As(err, &busy) { // no attempt was made
			d.log.Debug("webhook delivery deferred", "task", l.lease.Task.ID, "webhook", l.lease.ID, "reason", busy)
			return d.now().Add(jitter(busyBackoff, d.cfg.random()))
		}
		if errors.As(err, &large) {
			d.deadLetterTooLarge(l, next, large)
			continue
		}
		if errors.As(err, &permanent) {
			if c != nil {
				c.close()
			}
			c, r = nil, result{verdict: verdictRefused, outcome: safehttp.OutcomeRefused, reason: permanent.reason, detail: permanent.reason}
		} else if err != nil {
			return d.dueAfterError(l, err)
		}
		d.endpoints.recordResult(l, r)
		d.endpoints.logAttempt(l, next.Sequence, r)
		l.recordAttempt(next, r, at, d.now().Sub(at))
		if due, ok := d.applyResult(l, i, next, r); !ok {
			return due
		}
		if d.now().Sub(l.unsentSince) >= ackInterval && i+1 < len(l.Events) {
			now := d.now()
			d.acks.queue(l, l.collectAck(now, now, true)) // the lane keeps its lease and continues
		}
	}
	return d.now()
}

// finish releases a lane, which is due again at due, and starts lanes that waited for its slot.
func (d *deliverer) finish(l *lane, due time.Time) {
	now := d.now()
	ack := l.collectAck(now, due, false)
	l.finish()
	next := d.endpoints.finish(l, due, now)
	d.acks.queue(l, ack)
	for _, n := range next {
		d.start(n)
	}
}

// loadEvents reads the next events of a lane if they were too large for the claim. The caller
// must call release when it no longer needs them.
func (d *deliverer) loadEvents(l *lane) (release func(), err error) {
	after := l.Cursor.Seq
	rows, err := d.cfg.Store.LogRows(l.ctx, l.lease.Task, after, 1)
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("task %s: log ends at %d", l.lease.Task.ID, after)
	}
	if err != nil {
		return nil, err
	}
	item, err := d.pool.get(l.ctx, sharedKey{task: l.lease.Task, created: l.Created.UnixMilli(), seq: after + 1}, d.pool.readRow(l.lease.Task, after, rows[0]))
	var large *tooLargeError
	if errors.As(err, &large) { // the row was not read: assume that it has one event to send
		d.deadLetterTooLarge(l, store.WebhookCursor{Seq: rows[0].Last(), Sequence: l.Cursor.Sequence + 1, State: l.Cursor.State}, large)
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	l.Events = item.events
	if set, err := d.seal.decode(&l.Webhook); err == nil && set.Format == a2a.PayloadTask && rows[0].Bytes > smallTask {
		l.Events = withoutContent(item.events) // the body is built from the log
		d.pool.put(item)
		return func() {}, nil
	}
	return func() { d.pool.put(item) }, nil
}

// withoutContent returns copies of events with empty messages and artifacts.
func withoutContent(events []store.Event) []store.Event {
	out := slices.Clone(events)
	for i := range out {
		e := &out[i]
		if e.Message != nil {
			e.Message = new(a2a.Message)
		}
		if e.Received != nil {
			e.Received = new(a2a.Message)
		}
		if e.Artifact != nil {
			e.Artifact = new(a2a.Artifact)
		}
	}
	return out
}

// dueAfterError returns when a lane is due again after its request could not be built.
func (d *deliverer) dueAfterError(l *lane, err error) (due time.Time) {
	if errors.Is(err, errNoMemory) {
		return d.now().Add(jitter(memoryBackoff, d.cfg.random()))
	}
	if l.ctx.Err() == nil {
		d.log.Warn("building a webhook request failed", "task", l.lease.Task.ID, "webhook", l.lease.ID, "error", err)
	}
	return d.now().Add(errorBackoff)
}

// deadLetterTooLarge dead-letters the event that ends at cursor next, because it exceeds the memory share
// of its owner.
func (d *deliverer) deadLetterTooLarge(l *lane, next store.WebhookCursor, err *tooLargeError) {
	now := store.Time(d.now())
	r := result{verdict: verdictReject, outcome: outcomeTooLarge, reason: err.Error()}
	d.endpoints.logAttempt(l, next.Sequence, r)
	l.recordAttempt(next, r, now, 0)
	d.deadLetter(l, next, 0, r, now)
}

// attempt makes one attempt to send e. It returns an error if no attempt was made: the
// request could not be built, or the address is busy.
func (d *deliverer) attempt(l *lane, c *composer, e *store.Event, next store.WebhookCursor, limit time.Duration) (result, error) {
	request, err := c.request(l.ctx, e, next, l.Attempt+1, d.cfg.clock()) // wall clock: receivers compare it with theirs
	if err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithTimeout(l.ctx, limit)
	defer cancel()
	response, err := d.cfg.Sender.Post(ctx, request)
	var failed *safehttp.Error
	if errors.As(err, &failed) && failed.Outcome == safehttp.OutcomeBusy {
		return result{}, failed
	}
	return classify(response, err, l.ctx.Err() != nil), nil
}

// mayAttempt reports whether a lane may make an attempt now, and its timeout. If not, it
// returns when the lane is due again.
func (d *deliverer) mayAttempt(l *lane) (limit time.Duration, due time.Time, ok bool) {
	now := d.now()
	left := l.leaseLeft(now) - min(2*time.Second, d.cfg.Lease/4)
	if d.stopping.Load() || left < min(d.cfg.Timeout, d.cfg.Lease/4) {
		return 0, now, false
	}
	if retry, ok := d.endpoints.allow(l, now); !ok {
		return 0, retry, false
	}
	return min(d.cfg.Timeout, left), now, true
}

// applyResult updates a lane with the result of an attempt to send event i. If ok is false,
// the lane must stop and is due again at due.
func (d *deliverer) applyResult(l *lane, i int, next store.WebhookCursor, r result) (due time.Time, ok bool) {
	now := store.Time(d.now())
	if r.verdict != verdictRefused && r.verdict != verdictAborted {
		l.refusals, l.refusalsRead = 0, true
	}
	switch r.verdict {
	case verdictDelivered:
		l.delivered++
		l.advance(next)
		d.delivered.Add(1)
		return now, true
	case verdictAborted:
		return now, false
	case verdictRetry:
		d.failed.Add(1)
		due, parked := l.scheduleRetry(r, d.cfg.Schedule, now, d.cfg.random())
		if !parked {
			return due, false
		}
		d.endLane(l, store.LaneParked, "attempts exhausted, last error: "+r.reason)
	case verdictReject:
		d.failed.Add(1)
		d.deadLetter(l, next, 1, r, now)
		return now, true
	case verdictGone:
		d.failed.Add(1)
		d.endLane(l, store.LaneDisabled, r.reason)
	case verdictRefused:
		if d.countRefusal(l, next.Sequence); l.refusals < maxRefusals {
			d.deadLetter(l, next, 1, r, now)
			return now, true
		}
		d.endLane(l, store.LaneDisabled, r.reason)
	}
	attempts := 1
	if r.verdict == verdictRetry {
		attempts = 0 // already counted
	}
	d.deadLetter(l, next, attempts, r, now)
	d.deadLetterFrom(l, i+1, l.Reason, now)
	return now, false
}

// endLane parks or disables a lane.
func (d *deliverer) endLane(l *lane, state store.LaneState, reason string) {
	l.State, l.Reason = state, reason
	log := d.log.With("task", l.lease.Task.ID, "webhook", l.lease.ID, "endpoint", l.endpoint.name.address, "reason", reason)
	if state == store.LaneParked {
		log.Warn("webhook parked")
	} else {
		log.Warn("webhook disabled")
	}
}

// deadLetter dead-letters the event that ends at cursor next. attempts is the number of attempts
// that l.Attempt does not count yet.
func (d *deliverer) deadLetter(l *lane, next store.WebhookCursor, attempts int, r result, now time.Time) {
	l.dead = append(l.dead, store.DeadLetter{
		Task: l.lease.Task, WebhookID: l.lease.ID, Cursor: l.Cursor, Seq: next.Seq, Sequence: next.Sequence,
		Attempts: l.Attempt + attempts, Status: r.status, Reason: r.reason, At: now,
	})
	d.dead.Add(1)
	l.advance(next)
}

// deadLetterFrom dead-letters the claimed events from index i on.
func (d *deliverer) deadLetterFrom(l *lane, i int, reason string, now time.Time) {
	for ; i < len(l.Events); i++ {
		next, send := l.next(&l.Events[i])
		if !send {
			l.Cursor = next
			continue
		}
		d.deadLetter(l, next, 0, result{reason: reason}, now)
	}
}

// countRefusal counts the event with a sequence as refused. The first call of a claim adds the
// directly preceding refusals of earlier claims, but only those after the millisecond in
// which the webhook was last saved or replayed.
func (d *deliverer) countRefusal(l *lane, sequence int64) {
	if !l.refusalsRead {
		l.refusalsRead = true
		set, _ := d.seal.decode(&l.Webhook) // Saved is readable without the key
		page, err := d.cfg.Store.DeliveryAttempts(l.ctx, store.WebhookQuery{
			Owner: l.lease.Task.Owner, TaskID: l.lease.Task.ID, ID: l.lease.ID, Limit: maxRefusals - 1,
		})
		if err != nil {
			d.log.Warn("reading delivery attempts of a webhook failed", "task", l.lease.Task.ID, "webhook", l.lease.ID, "error", err)
		}
		for _, a := range page.Attempts {
			if a.Outcome != safehttp.OutcomeRefused || a.Sequence >= sequence || !a.At.After(set.Saved) {
				break
			}
			l.refusals, sequence = l.refusals+1, a.Sequence
		}
	}
	l.refusals++
}
