package push

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

// Probe is a request as a webhook gets them, to see what becomes of it: that a task
// which does not exist works.
type Probe struct {
	URL    *url.URL // that CheckURL of the policy has returned
	Token  string   // "" for none
	Secret string   // as receivers are told it; "" for no signature
	TaskID string
	Agent  string // told as the user agent
	At     time.Time
}

// ProbeResult is what became of a Probe.
type ProbeResult struct {
	// Status is the HTTP status, 0 when there was no answer.
	Status int
	// Outcome and Reason are what owners of tasks would be told, Detail and Address, if
	// something was called, what operators are.
	Outcome, Reason, Detail, Address string
	// Rule is that of the policy by which it was refused; "" if it was not.
	Rule string
	// Delivered, Retried, Dropped (a dead letter) or Disabled (a dead letter, as all after
	// it) is what would become of a real event. Exactly one is true.
	Delivered, Retried, Dropped, Disabled bool
}

// Send makes the request. Its error says that it could not be made.
func (p Probe) Send(ctx context.Context, s Sender) (ProbeResult, error) {
	t := told{
		id: EventID(store.Key{ID: p.TaskID}, p.At, 1), sequence: 1, taskID: p.TaskID, contextID: p.TaskID,
		event: &store.Event{Seq: 1, Time: p.At, State: a2a.StateWorking},
	}
	body, err := t.payload(a2a.PayloadEvent)
	if err != nil {
		return ProbeResult{}, err
	}
	h := http.Header{
		"Content-Type": {contentType(a2a.PayloadEvent)}, "User-Agent": {p.Agent}, "X-Delivery-Attempt": {"1"},
		"Webhook-Id": {t.id}, "Webhook-Timestamp": {strconv.FormatInt(p.At.Unix(), 10)},
	}
	authenticate(h, &settings{Secrets: &secrets{Token: p.Token}})
	if p.Secret != "" {
		secret, err := decodeSecret(p.Secret)
		if err != nil {
			return ProbeResult{}, err
		}
		h["Webhook-Signature"] = []string{signature([]signer{{secret: secret}}, t.id, p.At, body)}
	}
	resp, err := s.Post(ctx, safehttp.Request{URL: p.URL, Header: h, Body: body})
	r := judge(resp, err, ctx.Err() != nil)
	rule := ""
	if refusal := (*safehttp.Refusal)(nil); errors.As(err, &refusal) {
		rule = refusal.Rule
	}
	return ProbeResult{
		Status: r.status, Outcome: r.outcome, Reason: r.reason, Detail: r.detail, Address: r.address, Rule: rule,
		Delivered: r.verdict == deliver, Retried: r.verdict == retry || r.verdict == abort,
		Dropped: r.verdict == reject || r.verdict == refuse, Disabled: r.verdict == gone,
	}, nil
}

// CheckToken reports whether a token can be sent. Its error does not repeat it.
func CheckToken(token string) error { return secretFault(token) }

// CheckSecret reports whether a secret is one to sign with. Its error does not repeat it.
func CheckSecret(told string) error {
	_, err := decodeSecret(told)
	return err
}
