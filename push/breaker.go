package push

import (
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// The breaker of an endpoint opens after a number of attempts in a row without an answer,
// or when half of at least windowLeast attempts of a window have failed.
const (
	openAfter   = 5
	window      = 30 * time.Second
	windowLeast = 20

	shortestOpen = 5 * time.Second
	longestOpen  = 5 * time.Minute

	// disableAfter is how long an endpoint may fail before it is disabled, and
	// disableLeast how often it must have.
	disableAfter = 5 * 24 * time.Hour
	disableLeast = 10
	// forgetAfter is how long after its last failure an endpoint's failures count.
	forgetAfter = 3 * 24 * time.Hour
	// keepDisabled is how long an endpoint stays disabled that nobody enables.
	keepDisabled = 30 * 24 * time.Hour
)

// breaker knows whether an endpoint may be called. The zero breaker lets it. It is not
// safe for concurrent use.
type breaker struct {
	failures int       // since the last success
	failedAt time.Time // the first of these
	lastAt   time.Time // the last of these
	silent   int       // attempts in a row without an answer

	begun         time.Time // of the window
	total, failed int       // in it

	open      bool
	openUntil time.Time
	backoff   time.Duration // how long it was opened for last
	trial     bool          // an attempt is under way to see whether it can be closed
	next      bool          // a lane has been told to try at openUntil

	disabled bool
	reason   string
}

// transition is what an attempt did to a breaker.
type transition int

const (
	stays transition = iota
	opens
	closes   // it was open
	recovers // it has failed, without having been open
	disables
)

// recoverAfter is how many failures an endpoint must have had for its waiting lanes to
// be woken by a success.
const recoverAfter = 3

// succeeded notes that the endpoint has answered.
func (b *breaker) succeeded(now time.Time) transition {
	b.roll(now)
	b.total++
	was, open := b.failures, b.open
	b.failures, b.failedAt, b.lastAt, b.silent = 0, time.Time{}, time.Time{}, 0
	b.open, b.trial, b.backoff = false, false, 0
	switch {
	case open:
		b.total, b.failed = 0, 0
		return closes
	case was >= recoverAfter:
		return recovers
	}
	return stays
}

// failedOnce notes a failure: silent if there was no answer, trial if the attempt was
// to show whether the breaker can be closed.
func (b *breaker) failedOnce(now time.Time, silent, trial bool) transition {
	b.roll(now)
	if b.failures > 0 && now.Sub(b.lastAt) > forgetAfter {
		b.failures = 0
	}
	if b.failures == 0 || b.failedAt.After(now) {
		b.failedAt = now
	}
	b.failures, b.lastAt = b.failures+1, now
	b.total++
	b.failed++
	if silent {
		b.silent++
	} else {
		b.silent = 0
	}
	if trial {
		b.trial = false
	}
	switch {
	case b.disabled:
		return stays
	case b.failures >= disableLeast && now.Sub(b.failedAt) >= disableAfter:
		b.disabled, b.open, b.reason = true, false, "no attempt has succeeded for 5 days"
		return disables
	case b.open && !trial:
		return stays
	case b.open:
		b.reopen(now)
		return stays
	case b.silent >= openAfter || b.total >= windowLeast && 2*b.failed >= b.total:
		b.reopen(now)
		return opens
	}
	return stays
}

// reopen opens the breaker for a third of the time that the endpoint has been failing, so
// that when it is back nobody waits for much longer than that.
func (b *breaker) reopen(now time.Time) {
	b.backoff = min(max(now.Sub(b.failedAt)/3, shortestOpen), longestOpen)
	b.open, b.next, b.openUntil = true, false, store.Time(now.Add(b.backoff))
	b.total, b.failed = 0, 0
}

// roll begins a new window when the last has ended, or a clock has been set back.
func (b *breaker) roll(now time.Time) {
	if age := now.Sub(b.begun); age > window || age < 0 {
		b.begun, b.total, b.failed = now, 0, 0
	}
}

// admit reports whether a lane may call the endpoint, and if so whether that is to
// show if it can be closed. If not, retry is when the lane may ask again: one lane as
// soon as the breaker lets it, the others, which are woken by its success, a while later.
func (b *breaker) admit(now time.Time, chance float64) (retry time.Time, trial, ok bool) {
	switch {
	case !b.open:
		return time.Time{}, false, true
	case b.openUntil.Sub(now) > longestOpen:
		b.openUntil = now // a clock has been set back
	}
	if !now.Before(b.openUntil) && !b.trial {
		b.trial = true
		return time.Time{}, true, true
	}
	from := b.openUntil
	if from.Before(now) {
		from = now
	} else if !b.next {
		b.next = true
		return from, false, false
	}
	return store.Time(from.Add(time.Second + time.Duration(chance*float64(max(b.backoff, shortestOpen))))), false, false
}

// stale reports whether what is known is so old that it counts no more.
func (b *breaker) stale(now time.Time) bool {
	age := now.Sub(b.lastAt)
	return age > keepDisabled || !b.disabled && age > forgetAfter
}

// enable forgets that the endpoint was disabled, and why.
func (b *breaker) enable() { *b = breaker{} }

// record is what the store keeps of the breaker.
func (b *breaker) record(name string, now time.Time) store.Endpoint {
	return store.Endpoint{
		Name: name, Failures: b.failures, FailedAt: store.Time(b.failedAt), OpenUntil: store.Time(b.openUntil),
		Disabled: b.disabled, Reason: b.reason, UpdatedAt: store.Time(now),
	}
}

// restore brings back what the store has kept.
func (b *breaker) restore(e store.Endpoint, now time.Time) {
	*b = breaker{
		failures: e.Failures, failedAt: e.FailedAt, lastAt: e.UpdatedAt,
		disabled: e.Disabled, reason: e.Reason,
		open: !e.Disabled && e.OpenUntil.After(e.FailedAt), openUntil: e.OpenUntil,
	}
	if b.open {
		b.backoff = min(max(e.OpenUntil.Sub(e.UpdatedAt), shortestOpen), longestOpen)
		if b.openUntil.Before(now) {
			b.openUntil = now
		}
	}
}
