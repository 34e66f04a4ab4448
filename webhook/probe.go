package webhook

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// Probe is a test request to a webhook. Its event is a status update with the state working, of
// a task that does not exist.
type Probe struct {
	URL       *url.URL // as returned by CheckURL of the policy
	Token     string   // optional
	Secret    string   // "whsec_" and base64; "" for no signature
	TaskID    string
	UserAgent string // value of the User-Agent header
	At        time.Time
}

// ProbeResult is the result of a Probe.
type ProbeResult struct {
	// Status is the HTTP status, or 0 if no response was received.
	Status int
	// Outcome and Reason are shown to owners of tasks. Detail and Address are for operators;
	// Address is empty if no request was sent.
	Outcome, Reason, Detail, Address string
	// Rule is the rule of the policy that refused the request, or "".
	Rule string
	// Exactly one of these is true. It reports the effect that the same response would have on
	// a real event: the event is delivered, it is retried, it becomes a dead letter, or it
	// becomes a dead letter and the webhook is disabled.
	Delivered, Retried, Dropped, Disabled bool
}

// Send makes the request. It returns an error only if no request could be made.
func (p Probe) Send(ctx context.Context, s Sender) (ProbeResult, error) {
	u := update{
		id: EventID(store.Key{ID: p.TaskID}, p.At, 1), sequence: 1, taskID: p.TaskID, contextID: p.TaskID,
		event: &store.Event{Seq: 1, Time: p.At, State: a2a.StateWorking},
	}
	body, err := u.payload(a2a.PayloadEvent)
	if err != nil {
		return ProbeResult{}, err
	}
	h := http.Header{
		"Content-Type": {contentType(a2a.PayloadEvent)}, "User-Agent": {p.UserAgent}, "X-Delivery-Attempt": {"1"},
		"Webhook-Id": {u.id}, "Webhook-Timestamp": {strconv.FormatInt(p.At.Unix(), 10)},
	}
	setAuthHeaders(h, &settings{Secrets: &secrets{Token: p.Token}})
	if p.Secret != "" {
		secret, err := decodeSecret(p.Secret)
		if err != nil {
			return ProbeResult{}, err
		}
		h["Webhook-Signature"] = []string{signature([]signer{{secret: secret}}, u.id, p.At, body)}
	}
	resp, err := s.Post(ctx, safehttp.Request{URL: p.URL, Header: h, Body: body})
	r := classify(resp, err, ctx.Err() != nil)
	rule := ""
	if refusal := (*safehttp.Refusal)(nil); errors.As(err, &refusal) {
		rule = refusal.Rule
	}
	return ProbeResult{
		Status: r.status, Outcome: r.outcome, Reason: r.reason, Detail: r.detail, Address: r.address, Rule: rule,
		Delivered: r.verdict == verdictDelivered, Retried: r.verdict == verdictRetry || r.verdict == verdictAborted,
		Dropped: r.verdict == verdictReject || r.verdict == verdictRefused, Disabled: r.verdict == verdictGone,
	}, nil
}

// CheckToken returns an error if a token cannot be sent in a header. The error does not
// contain the token.
func CheckToken(token string) error { return validateSecret(token) }
