package webhook

import (
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// The circuit breaker of an endpoint opens after openAfter consecutive attempts without a
// response, or when at least half of the attempts in a window failed. The second rule applies
// to windows with at least windowMinAttempts attempts.
const (
	openAfter         = 5
	window            = 30 * time.Second
	windowMinAttempts = 20

	minOpen = 5 * time.Second
	maxOpen = 5 * time.Minute

	// An endpoint is disabled when all its attempts failed for disableAfter, and at least
	// disableMinFailures were made.
	disableAfter       = 5 * 24 * time.Hour
	disableMinFailures = 10
	// forgetAfter is how long failures count after the last one.
	forgetAfter = 3 * 24 * time.Hour
	// disabledRetention is how long the store keeps the record of a disabled endpoint.
	disabledRetention = 30 * 24 * time.Hour
)

// breaker is the circuit breaker of an endpoint. The zero value is closed and ready to use.
// It is not safe for concurrent use.
type breaker struct {
	failures   int       // since the last success
	failedAt   time.Time // time of the first of these failures
	lastAt     time.Time // time of the last of these failures
	unanswered int       // consecutive attempts without a response

	windowStart               time.Time
	windowTotal, windowFailed int // attempts in the window

	open           bool
	openUntil      time.Time
	backoff        time.Duration // duration of the current or last open period
	trial          bool          // half-open: a trial attempt is in progress
	trialScheduled bool          // a lane is due at openUntil to make the trial attempt

	disabled bool
	reason   string
}

// transition is the effect of an attempt on a breaker.
type transition int

const (
	unchanged transition = iota
	opens
	closes   // success of an open breaker
	recovers // success after failures that did not open the breaker
	disables
)

// recoverAfter is the number of consecutive failures after which a success wakes the
// waiting lanes of an endpoint.
const recoverAfter = 3

// recordSuccess records that the endpoint responded.
func (b *breaker) recordSuccess(now time.Time) transition {
	b.rollWindow(now)
	b.windowTotal++
	was, open := b.failures, b.open
	b.failures, b.failedAt, b.lastAt, b.unanswered = 0, time.Time{}, time.Time{}, 0
	b.open, b.trial, b.backoff = false, false, 0
	switch {
	case open:
		b.windowTotal, b.windowFailed = 0, 0
		return closes
	case was >= recoverAfter:
		return recovers
	}
	return unchanged
}

// recordFailure records a failed attempt. unanswered means that there was no response, trial
// that it was the trial attempt of a half-open breaker.
func (b *breaker) recordFailure(now time.Time, unanswered, trial bool) transition {
	b.rollWindow(now)
	if b.failures > 0 && now.Sub(b.lastAt) > forgetAfter {
		b.failures = 0
	}
	if b.failures == 0 || b.failedAt.After(now) {
		b.failedAt = now
	}
	b.failures, b.lastAt = b.failures+1, now
	b.windowTotal++
	b.windowFailed++
	if unanswered {
		b.unanswered++
	} else {
		b.unanswered = 0
	}
	if trial {
		b.trial = false
	}
	switch {
	case b.disabled:
		return unchanged
	case b.failures >= disableMinFailures && now.Sub(b.failedAt) >= disableAfter:
		b.disabled, b.open, b.reason = true, false, "no attempt has succeeded for 5 days"
		return disables
	case b.open && !trial:
		return unchanged
	case b.open:
		b.reopen(now)
		return unchanged
	case b.unanswered >= openAfter || b.windowTotal >= windowMinAttempts && 2*b.windowFailed >= b.windowTotal:
		b.reopen(now)
		return opens
	}
	return unchanged
}

// reopen opens the breaker for a third of the time that the endpoint has been failing, but at
// least minOpen and at most maxOpen. Deliveries thus resume, after the end of an outage,
// within about a third of its duration.
func (b *breaker) reopen(now time.Time) {
	b.backoff = min(max(now.Sub(b.failedAt)/3, minOpen), maxOpen)
	b.open, b.trialScheduled, b.openUntil = true, false, store.Time(now.Add(b.backoff))
	b.windowTotal, b.windowFailed = 0, 0
}

// rollWindow starts a new window if the current one has ended or the clock was set back.
func (b *breaker) rollWindow(now time.Time) {
	if age := now.Sub(b.windowStart); age > window || age < 0 {
		b.windowStart, b.windowTotal, b.windowFailed = now, 0, 0
	}
}

// allow reports whether a lane may call the endpoint, and whether that is the trial attempt
// of a half-open breaker. If not, retry is when the lane is due again: one lane at the end of
// the open period, the others later, since a successful trial wakes them. chance is a random
// number in [0, 1).
func (b *breaker) allow(now time.Time, chance float64) (retry time.Time, trial, ok bool) {
	switch {
	case !b.open:
		return time.Time{}, false, true
	case b.openUntil.Sub(now) > maxOpen:
		b.openUntil = now // the clock was set back
	}
	if !now.Before(b.openUntil) && !b.trial {
		b.trial = true
		return time.Time{}, true, true
	}
	from := b.openUntil
	if from.Before(now) {
		from = now
	} else if !b.trialScheduled {
		b.trialScheduled = true
		return from, false, false
	}
	return store.Time(from.Add(time.Second + time.Duration(chance*float64(max(b.backoff, minOpen))))), false, false
}

// stale reports whether the state has expired.
func (b *breaker) stale(now time.Time) bool {
	age := now.Sub(b.lastAt)
	return age > disabledRetention || !b.disabled && age > forgetAfter
}

// reset returns the breaker to its initial, closed state.
func (b *breaker) reset() { *b = breaker{} }

// record returns the state of the breaker for the store.
func (b *breaker) record(name string, now time.Time) store.Endpoint {
	return store.Endpoint{
		Name: name, Failures: b.failures, FailedAt: store.Time(b.failedAt), OpenUntil: store.Time(b.openUntil),
		Disabled: b.disabled, Reason: b.reason, UpdatedAt: store.Time(now),
	}
}

// restore sets the breaker to a state from the store.
func (b *breaker) restore(e store.Endpoint, now time.Time) {
	*b = breaker{
		failures: e.Failures, failedAt: e.FailedAt, lastAt: e.UpdatedAt,
		disabled: e.Disabled, reason: e.Reason,
		open: !e.Disabled && e.OpenUntil.After(e.FailedAt), openUntil: e.OpenUntil,
	}
	if b.open {
		b.backoff = min(max(e.OpenUntil.Sub(e.UpdatedAt), minOpen), maxOpen)
		if b.openUntil.Before(now) {
			b.openUntil = now
		}
	}
}
