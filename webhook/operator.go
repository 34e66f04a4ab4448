package webhook

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Operator lists and replays the webhooks in a store, of all owners and including the global
// one. Servers may use the store at the same time. It shows no secrets and needs no keys.
type Operator struct{ catalog }

// NewOperator returns an operator of a store.
func NewOperator(st Store) (*Operator, error) {
	common, err := newCommon(Config{Store: st, NewID: func() string { return "operator" }})
	if err != nil {
		return nil, err
	}
	return &Operator{catalog{common}}, nil
}

// OwnedWebhook is a webhook in its public form, with its owner. The global one has the id
// GlobalID and no URL.
type OwnedWebhook struct {
	Owner   string
	Webhook a2a.TaskPushNotificationConfig
}

// OwnedDeadLetter is a dead letter with its owner.
type OwnedDeadLetter struct {
	Owner  string
	Letter a2a.DeadLetter
}

// OwnedAttempt is a delivery attempt with its owner. It has details that owners do not see:
// the address, the error, and the outcome and duration of attempts without a response.
type OwnedAttempt struct {
	Owner           string
	Attempt         a2a.PushAttempt
	Address, Detail string
}

// OwnedReplay is the result of a replay with the owner of the webhook.
type OwnedReplay struct {
	Owner  string
	Replay a2a.ReplayResult
}

// Webhooks yields webhooks in the order of owner, task and id. An empty owner selects all
// owners, an empty task all tasks; a task requires an owner. The sequence ends after the
// first error. Errors: task_not_found.
func (o *Operator) Webhooks(ctx context.Context, owner, task string) iter.Seq2[OwnedWebhook, error] {
	return func(yield func(OwnedWebhook, error) bool) {
		if err := o.checkExists(ctx, store.WebhookQuery{Owner: owner, TaskID: task}); err != nil {
			yield(OwnedWebhook{}, err)
			return
		}
		for lane, err := range o.lanes(ctx, store.LaneQuery{Owner: owner, TaskID: task}) {
			if err != nil {
				yield(OwnedWebhook{}, err)
				return
			}
			w := webhook{Lane: lane}
			if w.settings, err = o.seal.decode(&lane.Webhook); err != nil && !errors.Is(err, errUndecryptable) {
				yield(OwnedWebhook{}, fmt.Errorf("task %s: webhook %s: %w", lane.Webhook.Task.ID, lane.Webhook.ID, err))
				return
			}
			w.undecryptable = err != nil
			if !yield(OwnedWebhook{lane.Webhook.Task.Owner, view(&w)}, nil) {
				return
			}
		}
	}
}

// checkExists returns an error if the task or the webhook of a query does not exist.
func (o *Operator) checkExists(ctx context.Context, q store.WebhookQuery) error {
	if q.TaskID == "" {
		return nil
	}
	task := store.Key{Owner: q.Owner, ID: q.TaskID}
	var err error
	if q.ID == "" {
		_, err = o.task(ctx, task.Owner, task.ID)
	} else {
		_, err = o.find(ctx, task, q.ID)
	}
	return err
}

// lanesPage is the page size of reads of lanes.
const lanesPage = 100

func (o *Operator) lanes(ctx context.Context, q store.LaneQuery) iter.Seq2[store.Lane, error] {
	return func(yield func(store.Lane, error) bool) {
		q.Limit = lanesPage
		for {
			page, err := o.cfg.Store.Lanes(ctx, q)
			if err != nil {
				yield(store.Lane{}, err)
				return
			}
			for _, lane := range page.Lanes {
				if !yield(lane, nil) {
					return
				}
				q.After = &store.LaneLease{Task: lane.Webhook.Task, ID: lane.Webhook.ID}
			}
			if !page.More {
				return
			}
		}
	}
}

// Key identifies a webhook.
type Key struct{ Owner, TaskID, ConfigID string }

// deadLettersPage is the page size for counting dead letters.
const deadLettersPage = 1_000

// CountDeadLetters counts the dead letters of each webhook. An empty owner selects all owners, an
// empty task all tasks. It counts only the newest limit dead letters; more reports whether
// others exist. Errors: task_not_found.
func (o *Operator) CountDeadLetters(ctx context.Context, owner, task string, limit int) (counts map[Key]int, more bool, err error) {
	q := store.WebhookQuery{Owner: owner, TaskID: task}
	if err := o.checkExists(ctx, q); err != nil {
		return nil, false, err
	}
	counts = make(map[Key]int)
	for limit > 0 {
		q.Limit = min(limit, deadLettersPage)
		page, err := o.cfg.Store.DeadLetters(ctx, q)
		if err != nil {
			return nil, false, err
		}
		for i := range page.Letters {
			d := &page.Letters[i]
			counts[Key{d.Task.Owner, d.Task.ID, d.WebhookID}]++
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return counts, false, nil
		}
		limit -= len(page.Letters)
	}
	return counts, true, nil
}

// DeadLetters returns a page of dead letters, newest first, and the cursor of the next page.
// Errors: task_not_found, invalid_params.
func (o *Operator) DeadLetters(ctx context.Context, q store.WebhookQuery) (letters []OwnedDeadLetter, next string, err error) {
	if err := o.checkExists(ctx, q); err != nil {
		return nil, "", err
	}
	page, err := o.cfg.Store.DeadLetters(ctx, q)
	if err != nil {
		return nil, "", pageTokenError(q, err)
	}
	ids := o.eventIDs(ctx)
	for i := range page.Letters {
		d := &page.Letters[i]
		id, err := ids(d.Task, d.Seq)
		if err != nil && !errors.Is(err, a2a.ErrTaskNotFound) {
			return nil, "", err
		}
		letters = append(letters, OwnedDeadLetter{d.Task.Owner, deadLetterOf(d, id)})
	}
	return letters, page.Next, nil
}

// Attempts returns a page of attempts, newest first, and the cursor of the next page.
// Errors: task_not_found, push_config_not_found, invalid_params.
func (o *Operator) Attempts(ctx context.Context, q store.WebhookQuery) (attempts []OwnedAttempt, next string, err error) {
	if err := o.checkExists(ctx, q); err != nil {
		return nil, "", err
	}
	page, err := o.cfg.Store.DeliveryAttempts(ctx, q)
	if err != nil {
		return nil, "", pageTokenError(q, err)
	}
	ids := o.eventIDs(ctx)
	for i := range page.Attempts {
		a := &page.Attempts[i]
		id, err := ids(a.Task, a.Seq)
		if err != nil && !errors.Is(err, a2a.ErrTaskNotFound) {
			return nil, "", err
		}
		attempts = append(attempts, OwnedAttempt{a.Task.Owner, operatorAttempt(a, id), a.Address, a.Detail})
	}
	return attempts, page.Next, nil
}

// ReplayDeadLetters replays all webhooks of an owner that have dead letters, and yields the
// results. An empty owner selects all owners. The sequence ends after the first error.
func (o *Operator) ReplayDeadLetters(ctx context.Context, owner string) iter.Seq2[OwnedReplay, error] {
	return func(yield func(OwnedReplay, error) bool) {
		q := store.WebhookQuery{Owner: owner, Limit: lanesPage}
		for {
			page, err := o.cfg.Store.DeadLetters(ctx, q)
			if err != nil {
				yield(OwnedReplay{}, err)
				return
			}
			done := make(map[laneID]bool)
			for _, d := range page.Letters {
				name := laneID{d.Task, d.WebhookID}
				if done[name] {
					continue
				}
				done[name] = true
				r, err := o.Replay(ctx, d.Task, d.WebhookID, 0)
				if errors.Is(err, a2a.ErrTaskNotFound) || err == nil && r.Replay.FromSequence == 0 {
					continue // already replayed or deleted
				}
				if err != nil {
					yield(OwnedReplay{}, err)
					return
				}
				if !yield(*r, nil) {
					return
				}
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				return
			}
		}
	}
}

// Replay resends the events of a webhook, as Service.Replay does. It starts with sequence from
// or, if from is 0, with the first dead letter. FromSequence of the result is 0 if there are no
// dead letters. An empty id selects the task's only webhook; the global webhook counts as one.
// Errors: task_not_found, push_config_not_found, invalid_params.
func (o *Operator) Replay(ctx context.Context, task store.Key, id string, from int64) (*OwnedReplay, error) {
	lane, err := o.find(ctx, task, id)
	if err != nil {
		return nil, err
	}
	w := &lane.Webhook
	out := &a2a.ReplayResult{TaskID: task.ID, ConfigID: w.ID}
	at, exists, err := o.resendFrom(ctx, w, from)
	if err == nil && exists {
		if out, err = o.resend(ctx, w, at); err == nil {
			err = o.enable(ctx, o.endpointOf(w).record())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("task %s: webhook %s: %w", task.ID, w.ID, err)
	}
	return &OwnedReplay{task.Owner, *out}, nil
}

// find returns the lane of a task that an id selects.
func (o *Operator) find(ctx context.Context, task store.Key, id string) (*store.Lane, error) {
	if _, err := o.task(ctx, task.Owner, task.ID); err != nil {
		return nil, err
	}
	var found []store.Lane
	for lane, err := range o.lanes(ctx, store.LaneQuery{Owner: task.Owner, TaskID: task.ID, ID: id}) {
		if err != nil {
			return nil, err
		}
		found = append(found, lane)
	}
	switch {
	case len(found) == 0:
		return nil, noWebhook(task.ID, id)
	case len(found) > 1:
		return nil, ambiguous(task.ID, len(found))
	}
	return &found[0], nil
}

// enable enables an endpoint if it is disabled. Servers notice it at their next read of the
// store.
func (o *Operator) enable(ctx context.Context, name string) error {
	all, err := o.cfg.Store.Endpoints(ctx)
	if err != nil {
		return err
	}
	for _, e := range all {
		if e.Name == name && e.Disabled {
			return o.cfg.Store.SaveEndpoint(ctx, store.Endpoint{Name: name, UpdatedAt: store.Time(o.now())})
		}
	}
	return nil
}
