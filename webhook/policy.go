package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/safehttp"
)

// Outcomes of attempts, in addition to the outcomes of package safehttp.
const (
	outcomeDelivered   = "delivered"
	outcomeRejected    = "rejected"    // a response that a retry would not change
	outcomeGone        = "gone"        // 410
	outcomeUnavailable = "unavailable" // a response that allows a retry
	outcomeTooLarge    = "too-large"   // no attempt was made: see Config.Memory

	// outcomeNone replaces all outcomes without a response when shown to owners.
	outcomeNone = "no-answer"
)

// maxRetryAfter is the upper bound of the Retry-After header of a response.
const maxRetryAfter = time.Hour

// maxRefusals is the number of consecutive events refused by the policy after which their
// webhook is disabled.
const maxRefusals = 3

// verdict is the consequence of an attempt.
type verdict int

const (
	verdictDelivered verdict = iota // the receiver accepted the event
	verdictRetry                    // retry later
	verdictReject                   // the event becomes a dead letter, the lane continues
	verdictGone                     // the receiver removed the webhook: disable it
	verdictRefused                  // the policy does not allow it
	verdictAborted                  // canceled by this process; no consequence
)

// result is the result of an attempt.
type result struct {
	verdict    verdict
	outcome    string
	status     int
	retryAfter time.Duration
	address    string
	detail     string
	reason     string // reason of a dead letter, for the owner of the task
	unanswered bool   // no response was received
	throttle   bool   // the endpoint asked for fewer requests
}

// classify returns the result of an attempt from its response or error. aborted reports
// whether this process canceled the attempt.
func classify(resp safehttp.Response, err error, aborted bool) result {
	if err != nil {
		return classifyError(err, aborted)
	}
	r := result{status: resp.Status, address: addressText(resp.Address), reason: fmt.Sprintf("the receiver answered %d", resp.Status)}
	switch status := resp.Status; {
	case status >= 200 && status < 300:
		r.verdict, r.outcome = verdictDelivered, outcomeDelivered
	case status == 410:
		r.verdict, r.outcome = verdictGone, outcomeGone
	case status == 408, status == 425, status == 429, status >= 500 && status < 600:
		r.verdict, r.outcome = verdictRetry, outcomeUnavailable
		r.retryAfter = min(max(resp.RetryAfter, 0), maxRetryAfter)
		r.throttle = status == 429 || status == 502 || status == 504
	case status >= 300 && status < 500:
		r.verdict, r.outcome = verdictReject, outcomeRejected
	default:
		r.verdict, r.outcome, r.unanswered, r.reason = verdictRetry, safehttp.OutcomeProtocol, true, reasonNoAnswer
	}
	return r
}

// reasonNoAnswer is the only reason that owners see for attempts without a response. Details
// would reveal the network behind the address.
const reasonNoAnswer = "no answer"

// maxDetailBytes limits the stored text of an error. Receivers can influence its content.
const maxDetailBytes = 500

func classifyError(err error, aborted bool) result {
	detail := err.Error()
	detail = strings.ToValidUTF8(detail[:min(len(detail), maxDetailBytes)], "")
	r := result{verdict: verdictRetry, outcome: safehttp.OutcomeProtocol, unanswered: true, reason: reasonNoAnswer, detail: detail}
	var failed *safehttp.Error
	if errors.As(err, &failed) {
		r.outcome, r.address = failed.Outcome, addressText(failed.Address)
	}
	var refusal *safehttp.Refusal
	switch {
	case r.outcome == safehttp.OutcomeRefused:
		r.verdict, r.unanswered, r.reason = verdictRefused, false, "the address is not allowed"
		if errors.As(err, &refusal) {
			r.reason, r.detail = refusal.Text, refusal.Detail
		}
	case aborted && (r.outcome == safehttp.OutcomeCanceled || errors.Is(err, context.Canceled)):
		r.verdict, r.outcome, r.unanswered = verdictAborted, safehttp.OutcomeCanceled, false
	}
	return r
}

func addressText(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// retryBackoff returns the backoff after a number of failed attempts of a lane. The first one
// was elapsed ago; chance is a random number in [0, 1). ok is false when the schedule is
// exhausted. Attempts before their scheduled time, made because other requests to the
// endpoint succeeded, do not exhaust the schedule.
func retryBackoff(schedule []time.Duration, attempts int, elapsed time.Duration, chance float64) (d time.Duration, ok bool) {
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
	return jitter(schedule[step], chance), true
}

// jitter returns d plus or minus up to 20 %; chance is a random number in [0, 1).
func jitter(d time.Duration, chance float64) time.Duration {
	return d*4/5 + time.Duration(chance*float64(d)*2/5)
}
