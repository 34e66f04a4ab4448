package push

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// Outcomes of attempts, beside those of package safehttp.
const (
	outcomeDelivered   = "delivered"
	outcomeRejected    = "rejected"    // an answer that trying again would not change
	outcomeGone        = "gone"        // 410
	outcomeUnavailable = "unavailable" // an answer that says to try again
	outcomeTooLarge    = "too-large"   // no attempt is made: see Config.Memory

	// outcomeNone is what owners are told of all outcomes without an answer.
	outcomeNone = "no-answer"
)

// longestRetryAfter is how long a receiver may have us wait.
const longestRetryAfter = time.Hour

// refusalsAllowed is how many events in a row may be refused by policy before their
// webhook is disabled.
const refusalsAllowed = 3

// verdict is what follows from an attempt.
type verdict int

const (
	deliver verdict = iota // the event has arrived
	retry                  // try again later
	reject                 // the event is a dead letter, the lane moves on
	gone                   // the webhook is not wanted any more
	refuse                 // the policy does not allow it
	abort                  // the attempt was given up here; it says nothing
)

// result is what came of an attempt.
type result struct {
	verdict    verdict
	outcome    string
	status     int
	retryAfter time.Duration
	address    string
	detail     string
	reason     string // why it becomes a dead letter, for the owner of the task
	silent     bool   // there was no answer
	throttle   bool   // the endpoint wants to be called less
}

// judge says what follows from an answer, or from there being none. given reports
// whether the caller has given the attempt up.
func judge(resp safehttp.Response, err error, given bool) result {
	if err != nil {
		return judgeError(err, given)
	}
	r := result{status: resp.Status, address: addressText(resp.Address), reason: fmt.Sprintf("the receiver answered %d", resp.Status)}
	switch status := resp.Status; {
	case status >= 200 && status < 300:
		r.verdict, r.outcome = deliver, outcomeDelivered
	case status == 410:
		r.verdict, r.outcome = gone, outcomeGone
	case status == 408, status == 425, status == 429, status >= 500 && status < 600:
		r.verdict, r.outcome = retry, outcomeUnavailable
		r.retryAfter = min(max(resp.RetryAfter, 0), longestRetryAfter)
		r.throttle = status == 429 || status == 502 || status == 504
	case status >= 300 && status < 500:
		r.verdict, r.outcome = reject, outcomeRejected
	default:
		r.verdict, r.outcome, r.silent, r.reason = retry, safehttp.OutcomeProtocol, true, noAnswer
	}
	return r
}

// noAnswer is all that owners are told of attempts without an answer: more would tell
// them what is behind the address.
const noAnswer = "no answer"

// longestDetail is how much of an error is kept with an attempt, in bytes: receivers have a
// say in it.
const longestDetail = 500

func judgeError(err error, given bool) result {
	detail := err.Error()
	detail = strings.ToValidUTF8(detail[:min(len(detail), longestDetail)], "")
	r := result{verdict: retry, outcome: safehttp.OutcomeProtocol, silent: true, reason: noAnswer, detail: detail}
	var failed *safehttp.Error
	if errors.As(err, &failed) {
		r.outcome, r.address = failed.Outcome, addressText(failed.Address)
	}
	var refusal *safehttp.Refusal
	switch {
	case r.outcome == safehttp.OutcomeRefused:
		r.verdict, r.silent, r.reason = refuse, false, "the address is not allowed"
		if errors.As(err, &refusal) {
			r.reason, r.detail = refusal.Text, refusal.Detail
		}
	case given && (r.outcome == safehttp.OutcomeCanceled || errors.Is(err, context.Canceled)):
		r.verdict, r.outcome, r.silent = abort, safehttp.OutcomeCanceled, false
	}
	return r
}

func addressText(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// pause returns the backoff after a number of failed attempts of a lane, the first of
// them elapsed ago; chance is from 0 to below 1. ok is false when the schedule is used
// up. Attempts that were made before their time, because others of the endpoint
// succeeded, do not use it up.
func pause(schedule []time.Duration, attempts int, elapsed time.Duration, chance float64) (d time.Duration, ok bool) {
	step, sum := 0, time.Duration(0)
	for step < len(schedule) && step < attempts-1 {
		if sum += schedule[step]; elapsed < sum/4*3 {
			break
		}
		step++
	}
	if step == len(schedule) {
		return 0, false
	}
	return spread(schedule[step], chance), true
}

// spread returns d with a fifth more or less, as chance has it.
func spread(d time.Duration, chance float64) time.Duration {
	return d*4/5 + time.Duration(chance*float64(d)*2/5)
}

// failed brings a lane to its next attempt, or parks it.
func (l *lane) failed(r result, schedule []time.Duration, now time.Time, chance float64) (due time.Time, parked bool) {
	l.Attempt++
	if l.FailedAt.IsZero() || l.FailedAt.After(now) {
		l.FailedAt = now
	}
	wait, ok := pause(schedule, l.Attempt, now.Sub(l.FailedAt), chance)
	if !ok {
		return now, true
	}
	return store.Time(now.Add(max(wait, r.retryAfter))), false
}
