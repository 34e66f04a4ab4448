package safehttp

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Outcomes of requests without a response.
const (
	OutcomeRefused  = "refused"  // the policy does not allow the request; nothing was sent
	OutcomeDNS      = "dns"      // the name does not resolve
	OutcomeConnect  = "connect"  // the connect failed
	OutcomeTLS      = "tls"      // the TLS handshake failed
	OutcomeTimeout  = "timeout"  // the response was not complete in time
	OutcomeProtocol = "protocol" // the response is not HTTP, too large or empty
	OutcomeCanceled = "canceled" // the caller's context is done
	OutcomeBusy     = "busy"     // too many requests to the address are in progress; nothing was sent
)

// Further outcomes of Fetch.
const (
	OutcomeStatus   = "status"    // the status of the response is not 200
	OutcomeTooLarge = "too_large" // the file is larger than the limit
)

// Error is the error of a request that got no usable response.
type Error struct {
	Outcome string
	// Address is the address that the request was sent to, or the zero value.
	Address netip.AddrPort
	// Status is the status of the response for OutcomeStatus, else 0.
	Status int
	Err    error
}

// Error returns the outcome and its cause, for operators.
func (e *Error) Error() string { return e.Outcome + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// refused returns the error for a rejection by the policy, or for a policy that failed.
func refused(err error) error {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return &Error{Outcome: OutcomeRefused, Err: err}
	}
	return &Error{Outcome: OutcomeConnect, Err: err}
}

// failed returns the error of an attempt that ended with err. If ctx is not done, it has the
// given outcome.
func failed(ctx context.Context, outcome string, to netip.AddrPort, err error) error {
	var timeout net.Error
	deadline, bounded := ctx.Deadline()
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		outcome = OutcomeCanceled
	case ctx.Err() != nil, bounded && !time.Now().Before(deadline): // the timer of ctx may be late
		outcome = OutcomeTimeout
	case outcome == OutcomeProtocol && errors.As(err, &timeout) && timeout.Timeout():
		outcome = OutcomeTimeout
	}
	return &Error{Outcome: outcome, Address: to, Err: err}
}

// failed classifies the error of a round trip.
func (a *attempt) failed(ctx context.Context, err error) error {
	var refusal *Refusal
	var dial *dialError
	switch {
	case errors.As(err, &refusal):
		return &Error{Outcome: OutcomeRefused, Err: err}
	case errors.As(err, &dial):
		return failed(ctx, OutcomeConnect, a.address(), err)
	case a.tls.Load():
		return failed(ctx, OutcomeTLS, a.address(), err)
	}
	return failed(ctx, OutcomeProtocol, a.address(), err)
}

// fieldName has the characters that are allowed in names of header fields.
const fieldName = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

// checkHeader returns an error if a header field cannot be sent.
func checkHeader(header http.Header) error {
	for name, values := range header {
		if name == "" || strings.Trim(name, fieldName) != "" {
			return &Refusal{Rule: "header", Text: "name of a header field is not a token"}
		}
		for _, v := range values {
			if strings.ContainsFunc(v, func(r rune) bool { return r < 0x20 && r != '\t' || r == 0x7f }) {
				return &Refusal{Rule: "header", Text: "header field " + name + " must not contain control characters"}
			}
		}
	}
	return nil
}

// maxRetryAfter is the upper bound of retryAfter.
const maxRetryAfter = 24 * time.Hour

// retryAfter returns the delay that a response requests, or 0. The header has a number of
// seconds, or a date, from which retryAfter subtracts the Date of the response.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if text == "" {
		return 0
	}
	if strings.Trim(text, "0123456789") == "" {
		seconds, err := strconv.ParseUint(text, 10, 32)
		if err != nil || seconds > uint64(maxRetryAfter/time.Second) {
			return maxRetryAfter
		}
		return time.Duration(seconds) * time.Second // bounded above
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(header.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}
