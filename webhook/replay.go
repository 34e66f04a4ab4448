package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/safehttp"
	"github.com/holdfast-dev/holdfast/store"
)

// Replay resends the events of a webhook of the principal's task, with the same ids. It starts
// at the event with sequence r.FromSequence or, if that is 0, at the first dead letter. If the
// next pending event is earlier it starts there, so that no event is skipped. FromSequence of
// the result is the actual start, 0 if nothing is resent. A parked or disabled webhook becomes
// active. Errors: task_not_found, push_config_not_found, invalid_params.
func (reg *registrar) Replay(ctx context.Context, p a2a.Principal, r a2a.ReplayParams) (*a2a.ReplayResult, error) {
	t, err := reg.task(ctx, p.ID, r.TaskID)
	if err != nil {
		return nil, err
	}
	found, err := reg.find(ctx, t.Key, r.ConfigID)
	if err != nil {
		return nil, err
	}
	return reg.replay(ctx, &found.Lane, r.FromSequence)
}

// replay revokes the lease of the lane before it cancels an attempt. In the reverse order, the lane could be claimed in
// between, and the attempt's event would be sent once more before the replay.
func (reg *registrar) replay(ctx context.Context, lane *store.Lane, from int64) (*a2a.ReplayResult, error) {
	w := &lane.Webhook
	at, exists, err := reg.resendFrom(ctx, w, from)
	if err != nil || !exists {
		return &a2a.ReplayResult{TaskID: w.Task.ID, ConfigID: w.ID}, err
	}
	out, err := reg.resend(ctx, w, at)
	if err == nil {
		reg.claims.cancelLane(w.Task, w.ID, lane.Fence+1) // attempts of the replay have greater fences
		reg.enableEndpoint(ctx, reg.endpointOf(w))
	}
	return out, err
}

// DeadLetters returns a page of the principal's dead letters, newest first. It omits the dead
// letters of the global webhook, so any page may be short. Errors: task_not_found,
// push_config_not_found, invalid_params.
func (reg *registrar) DeadLetters(ctx context.Context, p a2a.Principal, l a2a.ListDeadLettersParams) (*a2a.ListDeadLettersResult, error) {
	q, scope, err := reg.query(ctx, "dead", p.ID, l.TaskID, l.ConfigID, l.PageSize, l.PageToken)
	if err != nil {
		return nil, err
	}
	page, err := pageAfter(q, l.Offset, func(q store.WebhookQuery) (page store.DeadLetterPage, visible int, next string, err error) {
		page, err = reg.cfg.Store.DeadLetters(ctx, q)
		for i := range page.Letters {
			visible += countVisible(page.Letters[i].WebhookID)
		}
		return page, visible, page.Next, err
	})
	if err != nil {
		return nil, pageTokenError(q, err)
	}
	out := &a2a.ListDeadLettersResult{DeadLetters: []a2a.DeadLetter{}, PageSize: q.Limit, NextPageToken: scope.token(page.Next)}
	ids := reg.eventIDs(ctx)
	for i := range page.Letters {
		d := &page.Letters[i]
		if d.WebhookID == GlobalID {
			continue
		}
		id, err := ids(d.Task, d.Seq)
		if errors.Is(err, a2a.ErrTaskNotFound) {
			continue // the task was just deleted
		}
		if err != nil {
			return nil, err
		}
		out.DeadLetters = append(out.DeadLetters, deadLetterOf(d, id))
	}
	return out, nil
}

func deadLetterOf(d *store.DeadLetter, eventID string) a2a.DeadLetter {
	return a2a.DeadLetter{
		TaskID: d.Task.ID, ConfigID: d.WebhookID, EventID: eventID, Sequence: d.Sequence,
		Reason: d.Reason, Attempts: d.Attempts, Status: d.Status, At: d.At,
	}
}

// Attempts returns a page of the delivery attempts of the principal's webhooks, newest first.
// It omits the attempts of the global webhook. Errors: task_not_found, push_config_not_found,
// invalid_params.
func (reg *registrar) Attempts(ctx context.Context, p a2a.Principal, l a2a.ListAttemptsParams) (*a2a.ListAttemptsResult, error) {
	q, scope, err := reg.query(ctx, "attempts", p.ID, l.TaskID, l.ConfigID, l.PageSize, l.PageToken)
	if err != nil {
		return nil, err
	}
	page, err := pageAfter(q, l.Offset, func(q store.WebhookQuery) (page store.DeliveryAttemptPage, visible int, next string, err error) {
		page, err = reg.cfg.Store.DeliveryAttempts(ctx, q)
		for i := range page.Attempts {
			visible += countVisible(page.Attempts[i].WebhookID)
		}
		return page, visible, page.Next, err
	})
	if err != nil {
		return nil, pageTokenError(q, err)
	}
	out := &a2a.ListAttemptsResult{Attempts: []a2a.PushAttempt{}, PageSize: q.Limit, NextPageToken: scope.token(page.Next)}
	ids := reg.eventIDs(ctx)
	for i := range page.Attempts {
		a := &page.Attempts[i]
		if a.WebhookID == GlobalID {
			continue
		}
		id, err := ids(a.Task, a.Seq)
		if errors.Is(err, a2a.ErrTaskNotFound) {
			continue // the task was just deleted
		}
		if err != nil {
			return nil, err
		}
		out.Attempts = append(out.Attempts, ownerAttempt(a, id))
	}
	return out, nil
}

// ownerAttempt returns an attempt in the form that owners see. If there was no response, it
// hides the cause and the duration, which would reveal the network behind the address. Owners
// can still infer an immediate refusal from the time of the next attempt.
func ownerAttempt(a *store.DeliveryAttempt, eventID string) a2a.PushAttempt {
	out := operatorAttempt(a, eventID)
	switch a.Outcome {
	case outcomeDelivered, outcomeRejected, outcomeGone, outcomeUnavailable, outcomeTooLarge, safehttp.OutcomeRefused:
	default:
		out.Outcome, out.Status, out.Millis = outcomeNone, 0, 0
	}
	return out
}

func operatorAttempt(a *store.DeliveryAttempt, eventID string) a2a.PushAttempt {
	return a2a.PushAttempt{
		TaskID: a.Task.ID, ConfigID: a.WebhookID, EventID: eventID, Sequence: a.Sequence, Attempt: a.Attempt,
		At: a.At, Millis: a.Duration.Milliseconds(), Status: a.Status, Outcome: a.Outcome,
	}
}

// query returns the store query for a list request, and the scope of its page tokens.
func (reg *registrar) query(ctx context.Context, name, owner, task, config string, size int, token string) (store.WebhookQuery, tokenScope, error) {
	q := store.WebhookQuery{Owner: owner, TaskID: task, Limit: size}
	if q.Limit == 0 {
		q.Limit = 50
	}
	if task != "" {
		t, err := reg.task(ctx, owner, task)
		if err != nil {
			return q, tokenScope{}, err
		}
		if config != "" {
			found, err := reg.find(ctx, t.Key, config)
			if err != nil {
				return q, tokenScope{}, err
			}
			q.ID = found.Webhook.ID
		}
	}
	scope := newTokenScope(name, q)
	var err error
	q.Cursor, err = scope.cursor(token)
	return q, scope, err
}

// pageAfter reads a page of a list after the first skip items visible to its owner.
func pageAfter[P any](q store.WebhookQuery, skip int, read func(store.WebhookQuery) (page P, visible int, next string, err error)) (P, error) {
	for skip > 0 {
		skipped := q
		skipped.Limit = min(skip, 100)
		_, visible, next, err := read(skipped)
		if err != nil || next == "" {
			var none P
			return none, err
		}
		skip -= visible
		q.Cursor = next
	}
	page, _, _, err := read(q)
	return page, err
}

// countVisible returns 1 for a webhook that its owner sees, 0 for the global one.
func countVisible(configID string) int {
	if configID == GlobalID {
		return 0
	}
	return 1
}

// tokenScope binds page tokens to the list that they were issued for.
type tokenScope struct{ hash string }

func newTokenScope(name string, q store.WebhookQuery) tokenScope {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %q %q", name, q.Owner, q.TaskID, q.ID))
	return tokenScope{string(sum[:8])}
}

func (l tokenScope) token(cursor string) string {
	if cursor == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString([]byte(l.hash + cursor))
}

func (l tokenScope) cursor(token string) (string, error) {
	if token == "" {
		return "", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) <= len(l.hash) {
		return "", a2a.Invalid("pageToken", "was not issued by this agent")
	}
	if string(raw[:len(l.hash)]) != l.hash {
		return "", a2a.Invalid("pageToken", "was issued for another list")
	}
	return string(raw[len(l.hash):]), nil
}

// pageTokenError converts the store's error for an invalid cursor.
func pageTokenError(q store.WebhookQuery, err error) error {
	if q.Cursor != "" && a2a.CodeOf(err) == a2a.CodeInvalid {
		return a2a.Invalid("pageToken", "was not issued by this agent")
	}
	return err
}
