package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
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

type laneID struct {
	task store.Key
	id   string
}

// lane is a lane claimed by this process.
type lane struct {
	// The current state. Owned by the goroutine that works on the lane.
	store.ClaimedLane
	lease    store.LaneLease
	endpoint *endpoint
	ctx      context.Context
	cancel   context.CancelFunc
	done     chan struct{} // closed when no more work is done on it
	previous *lane         // an earlier claim of the same lane, which must end first
	through  int64         // last event to send, 0 for no end; see globalThrough

	// Results that are not in an ack yet.
	attempts     []store.DeliveryAttempt
	dead         []store.DeadLetter
	delivered    int       // number of events
	unsentSince  time.Time // time of the first of these
	refusals     int       // consecutive events refused by the policy
	refusalsRead bool      // refusals includes those of earlier claims

	// Guarded by Service.mu.
	until         time.Time // end of the lease
	halted        bool      // makes no further attempt
	finished      bool      // work on it has ended
	handOff       bool      // leave it to another process
	counted       bool      // counted in the limits of its owner and endpoint
	trial         bool      // makes the trial attempt of a half-open breaker
	unproven      bool      // counted in limits.unproven
	startedAt     time.Time
	memory        memoryHold     // for its events
	notifications uint64         // Service.notifications when it was claimed
	ack           *store.LaneAck // to be stored
	ackBatchLimit int            // maximum size of the batch with its ack; 0 for no limit
	ackFailures   int            // consecutive failures to store its ack alone
	ackRetryAt    time.Time      // when to retry after that
}

// eventOverhead is the memory of an event in addition to its content, in bytes.
const eventOverhead = 512

// memoryNeed returns the memory for the events of a lane and the bodies built from them.
func (l *lane) memoryNeed() (bytes int64) {
	for i := range l.Events {
		bytes += eventOverhead + 2*int64(l.Events[i].Size())
	}
	return bytes
}

func (l *lane) id() laneID { return laneID{l.lease.Task, l.lease.ID} }

// work delivers the claimed events and releases the lane.
func (s *Service) work(l *lane) {
	defer s.workers.Done()
	if l.previous != nil {
		<-l.previous.done
		l.previous = nil
	}
	var due time.Time
	if err := guard(func() { due = s.deliver(l) }); err != nil {
		s.log.Error("webhook lane failed", "task", l.lease.Task.ID, "webhook", l.lease.ID, "error", err)
		due = s.now().Add(errorBackoff)
	}
	close(l.done)
	l.cancel()
	s.finishLane(l, due)
}

// deliver sends the lane's events one after the other, and returns when the lane is due again.
func (s *Service) deliver(l *lane) (due time.Time) {
	if len(l.Events) == 0 {
		release, err := s.loadEvents(l)
		if err != nil {
			return s.dueAfterError(l, err)
		}
		defer release()
	}
	if l.State != store.LaneActive {
		s.deadLetterFrom(l, 0, l.Reason, store.Time(s.now()))
		return s.now()
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
		limit, due, ok := s.mayAttempt(l)
		if !ok {
			return due
		}
		var err error
		if c == nil {
			c, err = s.compose(l.ctx, &l.ClaimedLane)
		}
		at, r := store.Time(s.now()), result{}
		if err == nil {
			r, err = s.attempt(l, c, e, next, limit)
		}
		var permanent *permanentError
		var large *tooLargeError
		var busy *safehttp.Error
		if errors.Is(err, errUndecryptable) {
			if due, _ = s.applyResult(l, i, next, undecryptableResult); l.State == store.LaneActive {
				l.handOff = true
				due = s.now().Add(jitter(undecryptableBackoff, s.cfg.random()))
			}
			return due
		}
		if errors.As(err, &busy) { // no attempt was made
			s.log.Debug("webhook delivery deferred", "task", l.lease.Task.ID, "webhook", l.lease.ID, "reason", busy)
			return s.now().Add(jitter(busyBackoff, s.cfg.random()))
		}
		if errors.As(err, &large) {
			s.deadLetterTooLarge(l, next, large)
			continue
		}
		if errors.As(err, &permanent) {
			if c != nil {
				c.close()
			}
			c, r = nil, result{verdict: verdictRefused, outcome: safehttp.OutcomeRefused, reason: permanent.reason, detail: permanent.reason}
		} else if err != nil {
			return s.dueAfterError(l, err)
		}
		s.recordResult(l, r)
		s.logAttempt(l, next.Sequence, r)
		l.recordAttempt(next, r, at, s.now().Sub(at))
		if due, ok := s.applyResult(l, i, next, r); !ok {
			return due
		}
		if s.now().Sub(l.unsentSince) >= ackInterval && i+1 < len(l.Events) {
			s.ackProgress(l)
		}
	}
	return s.now()
}

// loadEvents reads the next events of a lane if they were too large for the claim. The caller
// must call release when it no longer needs them.
func (s *Service) loadEvents(l *lane) (release func(), err error) {
	after := l.Cursor.Seq
	rows, err := s.cfg.Store.LogRows(l.ctx, l.lease.Task, after, 1)
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("task %s: log ends at %d", l.lease.Task.ID, after)
	}
	if err != nil {
		return nil, err
	}
	item, err := s.getShared(l.ctx, sharedKey{task: l.lease.Task, created: l.Created.UnixMilli(), seq: after + 1}, s.readRow(l.lease.Task, after, rows[0]))
	var large *tooLargeError
	if errors.As(err, &large) { // the event is unknown: assume that it is one to be sent
		s.deadLetterTooLarge(l, store.WebhookCursor{Seq: rows[0].Last(), Sequence: l.Cursor.Sequence + 1, State: l.Cursor.State}, large)
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	l.Events = item.events
	if set, err := s.seal.decode(&l.Webhook); err == nil && set.Format == a2a.PayloadTask && rows[0].Bytes > smallTask {
		l.Events = withoutContent(item.events) // the body is built from the log
		s.pool.put(item)
		return func() {}, nil
	}
	return func() { s.pool.put(item) }, nil
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

// dueAfterError returns when a lane is due again whose request could not be built.
func (s *Service) dueAfterError(l *lane, err error) (due time.Time) {
	if errors.Is(err, errNoMemory) {
		return s.now().Add(jitter(memoryBackoff, s.cfg.random()))
	}
	if l.ctx.Err() == nil {
		s.log.Warn("compose webhook request", "task", l.lease.Task.ID, "webhook", l.lease.ID, "error", err)
	}
	return s.now().Add(errorBackoff)
}

// deadLetterTooLarge dead-letters the event before next, because it exceeds the memory share
// of its owner.
func (s *Service) deadLetterTooLarge(l *lane, next store.WebhookCursor, err *tooLargeError) {
	now := store.Time(s.now())
	r := result{verdict: verdictReject, outcome: outcomeTooLarge, reason: err.Error()}
	s.logAttempt(l, next.Sequence, r)
	l.recordAttempt(next, r, now, 0)
	s.deadLetter(l, next, 0, r, now)
}

// attempt makes one attempt to send e. It returns an error if no attempt was made: the
// request could not be built, or the address is busy.
func (s *Service) attempt(l *lane, c *composer, e *store.Event, next store.WebhookCursor, limit time.Duration) (result, error) {
	request, err := c.request(l.ctx, e, next, l.Attempt+1, s.cfg.clock()) // wall clock: receivers compare it with theirs
	if err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithTimeout(l.ctx, limit)
	defer cancel()
	response, err := s.cfg.Sender.Post(ctx, request)
	var failed *safehttp.Error
	if errors.As(err, &failed) && failed.Outcome == safehttp.OutcomeBusy {
		return result{}, failed
	}
	return classify(response, err, l.ctx.Err() != nil), nil
}

// mayAttempt reports whether a lane may make an attempt now, and its timeout. If not, it
// returns when the lane is due again.
func (s *Service) mayAttempt(l *lane) (limit time.Duration, due time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	left := l.until.Sub(now) - min(2*time.Second, s.cfg.Lease/4)
	if l.halted || s.stopping || l.endpoint.disabled || left < min(s.cfg.Timeout, s.cfg.Lease/4) {
		return 0, now, false
	}
	if !l.trial {
		retry, trial, ok := l.endpoint.allow(now, s.cfg.random())
		if !ok {
			return 0, retry, false
		}
		l.trial = trial
	}
	return min(s.cfg.Timeout, left), now, true
}

// applyResult updates a lane with the result of an attempt to send event i. If ok is false,
// the lane must stop and is due again at due.
func (s *Service) applyResult(l *lane, i int, next store.WebhookCursor, r result) (due time.Time, ok bool) {
	now := store.Time(s.now())
	if r.verdict != verdictRefused && r.verdict != verdictAborted {
		l.refusals, l.refusalsRead = 0, true
	}
	switch r.verdict {
	case verdictDelivered:
		l.delivered++
		l.advance(next)
		s.delivered.Add(1)
		return now, true
	case verdictAborted:
		return now, false
	case verdictRetry:
		s.failed.Add(1)
		due, parked := l.scheduleRetry(r, s.cfg.Schedule, now, s.cfg.random())
		if !parked {
			return due, false
		}
		s.endLane(l, store.LaneParked, "attempts exhausted, last error: "+r.reason)
	case verdictReject:
		s.failed.Add(1)
		s.deadLetter(l, next, 1, r, now)
		return now, true
	case verdictGone:
		s.failed.Add(1)
		s.endLane(l, store.LaneDisabled, r.reason)
	case verdictRefused:
		if s.countRefusal(l, next.Sequence); l.refusals < maxRefusals {
			s.deadLetter(l, next, 1, r, now)
			return now, true
		}
		s.endLane(l, store.LaneDisabled, r.reason)
	}
	attempts := 1
	if r.verdict == verdictRetry {
		attempts = 0 // already counted
	}
	s.deadLetter(l, next, attempts, r, now)
	s.deadLetterFrom(l, i+1, l.Reason, now)
	return now, false
}

// endLane parks or disables a lane.
func (s *Service) endLane(l *lane, state store.LaneState, reason string) {
	l.State, l.Reason = state, reason
	log := s.log.With("task", l.lease.Task.ID, "webhook", l.lease.ID, "endpoint", l.endpoint.name.address, "reason", reason)
	if state == store.LaneParked {
		log.Warn("webhook parked")
	} else {
		log.Warn("webhook disabled")
	}
}

// deadLetter dead-letters the event before next, after attempts that l.Attempt does not
// include yet.
func (s *Service) deadLetter(l *lane, next store.WebhookCursor, attempts int, r result, now time.Time) {
	l.dead = append(l.dead, store.DeadLetter{
		Task: l.lease.Task, WebhookID: l.lease.ID, Cursor: l.Cursor, Seq: next.Seq, Sequence: next.Sequence,
		Attempts: l.Attempt + attempts, Status: r.status, Reason: r.reason, At: now,
	})
	s.dead.Add(1)
	l.advance(next)
}

// deadLetterFrom dead-letters the claimed events from index i on.
func (s *Service) deadLetterFrom(l *lane, i int, reason string, now time.Time) {
	for ; i < len(l.Events); i++ {
		next, send := l.next(&l.Events[i])
		if !send {
			l.Cursor = next
			continue
		}
		s.deadLetter(l, next, 0, result{reason: reason}, now)
	}
}

// countRefusal counts the event of a sequence as refused. The first call of a claim adds the
// directly preceding refusals of earlier claims, but only those after the millisecond in
// which the webhook was last saved or replayed.
func (s *Service) countRefusal(l *lane, sequence int64) {
	if !l.refusalsRead {
		l.refusalsRead = true
		set, _ := s.seal.decode(&l.Webhook) // Saved is readable without the key
		page, err := s.cfg.Store.DeliveryAttempts(l.ctx, store.WebhookQuery{
			Owner: l.lease.Task.Owner, TaskID: l.lease.Task.ID, ID: l.lease.ID, Limit: maxRefusals - 1,
		})
		if err != nil {
			s.log.Warn("read webhook attempts", "task", l.lease.Task.ID, "webhook", l.lease.ID, "error", err)
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
