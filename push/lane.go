package push

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
	// troubleWait is how long a lane waits when something here went wrong.
	troubleWait = 5 * time.Second
	// ackAfter is how long what became of a lane's events is kept to be stored together.
	ackAfter = 50 * time.Millisecond
	// busyWait is how long about a lane waits when its address is called by too many.
	busyWait = time.Second
)

type laneID struct {
	task store.Key
	id   string
}

// lane is a lane that this process has claimed.
type lane struct {
	// As it stands now. It belongs to the goroutine that works the lane.
	store.ClaimedLane
	lease    store.LaneLease
	endpoint *endpoint
	ctx      context.Context
	cancel   context.CancelFunc
	done     chan struct{} // closed when it is not worked any more
	after    *lane         // an earlier claim of it that must have ended first
	through  int64         // see globalThrough

	// What became of its events and is not on its way to the store yet.
	attempts []store.PushAttempt
	dead     []store.DeadLetter
	told     int
	since    time.Time // of the first of these
	refused  int       // events in a row that the policy did not allow, and known says
	known    bool      // that earlier claims have been looked at

	// Guarded by Service.mu.
	until     time.Time // of the lease
	halted    bool      // begins no further attempt
	settled   bool      // it has been worked
	elsewhere bool      // another process should claim it next
	counted   bool      // it counts for its owner and endpoint
	trial     bool      // it is to show whether its endpoint answers again
	stranger  bool      // it counts as one of an endpoint that is not proven
	begun     time.Time
	hold      hold           // of the memory for its events
	notices   uint64         // of the store when it was claimed
	ack       *store.LaneAck // to be stored
	together  int            // with how many others at most, it included; 0: any
	alone     int            // times in a row that it could not be stored by itself
	retryAt   time.Time      // when to try again after that
}

// eventWeight is what an event takes beside its content.
const eventWeight = 512

// weight is what the events of a lane take, and as much for what is made of them.
func (l *lane) weight() (bytes int64) {
	for i := range l.Events {
		bytes += eventWeight + 2*int64(l.Events[i].Size())
	}
	return bytes
}

func (l *lane) id() laneID { return laneID{l.lease.Task, l.lease.ID} }

// work delivers what was claimed.
func (s *Service) work(l *lane) {
	defer s.working.Done()
	if l.after != nil {
		<-l.after.done
		l.after = nil
	}
	var due time.Time
	if err := guard(func() { due = s.deliver(l) }); err != nil {
		s.log.Error("webhook lane failed", "task", l.lease.Task.ID, "webhook", l.lease.ID, "error", err)
		due = s.now().Add(troubleWait)
	}
	close(l.done)
	l.cancel()
	s.conclude(l, due)
}

// deliver tells the lane's events, one after the other, and returns when the lane is due
// again.
func (s *Service) deliver(l *lane) (due time.Time) {
	if len(l.Events) == 0 {
		release, err := s.load(l)
		if err != nil {
			return s.unready(l, err)
		}
		defer release()
	}
	if l.State != store.LaneActive {
		s.buryFrom(l, 0, l.Reason, store.Time(s.now()))
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
		next, told := l.next(e)
		if !told {
			l.Cursor = next
			continue
		}
		limit, due, ok := s.begin(l)
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
		var never *permanent
		var large *tooLarge
		var busy *safehttp.Error
		if errors.Is(err, errUnsealed) {
			if due, _ = s.follow(l, i, next, unsealed); l.State == store.LaneActive {
				l.elsewhere = true
				due = s.now().Add(spread(unsealedWait, s.cfg.random()))
			}
			return due
		}
		if errors.As(err, &busy) { // no attempt was made
			s.log.Debug("webhook put off", "task", l.lease.Task.ID, "webhook", l.lease.ID, "reason", busy)
			return s.now().Add(spread(busyWait, s.cfg.random()))
		}
		if errors.As(err, &large) {
			s.omit(l, next, large)
			continue
		}
		if errors.As(err, &never) {
			if c != nil {
				c.close()
			}
			c, r = nil, result{verdict: refuse, outcome: safehttp.OutcomeRefused, reason: never.reason, detail: never.reason}
		} else if err != nil {
			return s.unready(l, err)
		}
		s.note(l, r)
		s.logAttempt(l, next.Sequence, r)
		l.noteAttempt(next, r, at, s.now().Sub(at))
		if due, ok := s.follow(l, i, next, r); !ok {
			return due
		}
		if s.now().Sub(l.since) >= ackAfter && i+1 < len(l.Events) {
			s.hold(l)
		}
	}
	return s.now()
}

// load reads the events of a lane whose next are too large to be claimed with it. release
// is to be called when they are not needed any more.
func (s *Service) load(l *lane) (release func(), err error) {
	after := l.Cursor.Seq
	rows, err := s.cfg.Store.LogRows(l.ctx, l.lease.Task, after, 1)
	if err == nil && len(rows) == 0 {
		err = fmt.Errorf("task %s: log ends at %d", l.lease.Task.ID, after)
	}
	if err != nil {
		return nil, err
	}
	item, err := s.get(l.ctx, sharedKey{task: l.lease.Task, created: l.Created.UnixMilli(), seq: after + 1}, s.readRow(l.lease.Task, after, rows[0]))
	var large *tooLarge
	if errors.As(err, &large) { // then it is not known what is in it
		s.omit(l, store.PushCursor{Seq: rows[0].Last(), Sequence: l.Cursor.Sequence + 1, State: l.Cursor.State}, large)
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	l.Events = item.events
	if set, err := s.seal.decode(&l.Config); err == nil && set.Format == a2a.PayloadTask && rows[0].Bytes > smallTask {
		l.Events = outlines(item.events) // the body is made of the log
		s.pool.put(item)
		return func() {}, nil
	}
	return func() { s.pool.put(item) }, nil
}

// outlines returns events without their content.
func outlines(events []store.Event) []store.Event {
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

// unready returns when a lane is due again for whose events something is lacking here.
func (s *Service) unready(l *lane, err error) (due time.Time) {
	if errors.Is(err, errNoMemory) {
		return s.now().Add(spread(memoryPause, s.cfg.random()))
	}
	if l.ctx.Err() == nil {
		s.log.Warn("compose webhook request", "task", l.lease.Task.ID, "webhook", l.lease.ID, "error", err)
	}
	return s.now().Add(troubleWait)
}

// omit makes a dead letter of the event that ends at next, for which there can be no memory.
func (s *Service) omit(l *lane, next store.PushCursor, err *tooLarge) {
	now := store.Time(s.now())
	r := result{verdict: reject, outcome: outcomeTooLarge, reason: err.Error()}
	s.logAttempt(l, next.Sequence, r)
	l.noteAttempt(next, r, now, 0)
	s.bury(l, next, 0, r, now)
}

// attempt makes one attempt to send e. Its error is why there is nothing to send, or that
// the address is busy.
func (s *Service) attempt(l *lane, c *composer, e *store.Event, next store.PushCursor, limit time.Duration) (result, error) {
	request, err := c.request(l.ctx, e, next, l.Attempt+1, s.cfg.clock()) // as receivers have it, also where it was set back
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
	return judge(response, err, l.ctx.Err() != nil), nil
}

// begin reports whether a lane may make an attempt, and how long that may take; if not,
// when the lane is due again.
func (s *Service) begin(l *lane) (limit time.Duration, due time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	left := l.until.Sub(now) - min(2*time.Second, s.cfg.Lease/4)
	if l.halted || s.stopping || l.endpoint.disabled || left < min(s.cfg.Timeout, s.cfg.Lease/4) {
		return 0, now, false
	}
	if !l.trial {
		retry, trial, ok := l.endpoint.admit(now, s.cfg.random())
		if !ok {
			return 0, retry, false
		}
		l.trial = trial
	}
	return min(s.cfg.Timeout, left), now, true
}

// follow does what follows from an attempt to send event i. ok is false if the lane
// does not go on now.
func (s *Service) follow(l *lane, i int, next store.PushCursor, r result) (due time.Time, ok bool) {
	now := store.Time(s.now())
	if r.verdict != refuse && r.verdict != abort {
		l.refused, l.known = 0, true
	}
	switch r.verdict {
	case deliver:
		l.told++
		l.advance(next)
		s.delivered.Add(1)
		return now, true
	case abort:
		return now, false
	case retry:
		s.failed.Add(1)
		due, parked := l.failed(r, s.cfg.Schedule, now, s.cfg.random())
		if !parked {
			return due, false
		}
		s.end(l, store.LaneParked, "attempts used up, the last: "+r.reason)
	case reject:
		s.failed.Add(1)
		s.bury(l, next, 1, r, now)
		return now, true
	case gone:
		s.failed.Add(1)
		s.end(l, store.LaneDisabled, r.reason)
	case refuse:
		if s.refusals(l, next.Sequence); l.refused < refusalsAllowed {
			s.bury(l, next, 1, r, now)
			return now, true
		}
		s.end(l, store.LaneDisabled, r.reason)
	}
	attempts := 1
	if r.verdict == retry {
		attempts = 0 // has been counted
	}
	s.bury(l, next, attempts, r, now)
	s.buryFrom(l, i+1, l.Reason, now)
	return now, false
}

// end has a lane tell nothing more.
func (s *Service) end(l *lane, state store.LaneState, reason string) {
	l.State, l.Reason = state, reason
	log := s.log.With("task", l.lease.Task.ID, "webhook", l.lease.ID, "endpoint", l.endpoint.name.address, "reason", reason)
	if state == store.LaneParked {
		log.Warn("webhook parked")
	} else {
		log.Warn("webhook disabled")
	}
}

// bury makes a dead letter of the event that ends at next, after so many more attempts
// than were counted.
func (s *Service) bury(l *lane, next store.PushCursor, attempts int, r result, now time.Time) {
	l.dead = append(l.dead, store.DeadLetter{
		Task: l.lease.Task, ConfigID: l.lease.ID, Cursor: l.Cursor, Seq: next.Seq, Sequence: next.Sequence,
		Attempts: l.Attempt + attempts, Status: r.status, Reason: r.reason, At: now,
	})
	s.dead.Add(1)
	l.advance(next)
}

// buryFrom makes dead letters of the events from i on.
func (s *Service) buryFrom(l *lane, i int, reason string, now time.Time) {
	for ; i < len(l.Events); i++ {
		next, told := l.next(&l.Events[i])
		if !told {
			l.Cursor = next
			continue
		}
		s.bury(l, next, 0, result{reason: reason}, now)
	}
}

// refusals counts the events in a row that were refused, the last of them that of a
// sequence, those of earlier claims too, but none up to the millisecond in which the webhook
// was saved or set back.
func (s *Service) refusals(l *lane, sequence int64) {
	if !l.known {
		l.known = true
		set, _ := s.seal.decode(&l.Config) // what can be read of it
		page, err := s.cfg.Store.PushAttempts(l.ctx, store.PushQuery{
			Owner: l.lease.Task.Owner, TaskID: l.lease.Task.ID, ID: l.lease.ID, Limit: refusalsAllowed - 1,
		})
		if err != nil {
			s.log.Warn("read webhook attempts", "task", l.lease.Task.ID, "webhook", l.lease.ID, "error", err)
		}
		for _, a := range page.Attempts {
			if a.Outcome != safehttp.OutcomeRefused || a.Sequence >= sequence || !a.At.After(set.Saved) {
				break
			}
			l.refused, sequence = l.refused+1, a.Sequence
		}
	}
	l.refused++
}

// advance moves a lane behind an event that has been dealt with.
func (l *lane) advance(next store.PushCursor) {
	l.Cursor, l.Attempt, l.FailedAt = next, 0, time.Time{}
}

func (l *lane) noteAttempt(next store.PushCursor, r result, at time.Time, took time.Duration) {
	if len(l.attempts)+len(l.dead) == 0 {
		l.since = at
	}
	l.attempts = append(l.attempts, store.PushAttempt{
		Task: l.lease.Task, ConfigID: l.lease.ID, Seq: next.Seq, Sequence: next.Sequence, Attempt: l.Attempt + 1,
		At: at, Duration: max(took, 0).Truncate(time.Millisecond), Status: r.status, Outcome: r.outcome, Address: r.address, Detail: r.detail,
	})
}
