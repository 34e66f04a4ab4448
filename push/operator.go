package push

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Operator looks at webhooks in a store, those of all owners and the global one, while
// servers may be using it, and sets them back. It tells no secrets and needs no keys.
type Operator struct{ s *Service }

// NewOperator returns an operator of a store.
func NewOperator(st store.Store) (*Operator, error) {
	s, err := New(Config{Store: st, NewID: func() string { return "operator" }})
	if err != nil {
		return nil, err
	}
	return &Operator{s}, nil
}

// OwnedWebhook is a webhook as its owner is told it. The global one has the id GlobalID
// and no URL.
type OwnedWebhook struct {
	Owner   string
	Webhook a2a.TaskPushNotificationConfig
}

// OwnedDeadLetter is a dead letter as its owner is told it.
type OwnedDeadLetter struct {
	Owner  string
	Letter a2a.DeadLetter
}

// OwnedAttempt is an attempt. Beyond what its owner is told it says what was called, and
// what went wrong: Attempt has the outcome and the duration also of those without an
// answer.
type OwnedAttempt struct {
	Owner           string
	Attempt         a2a.PushAttempt
	Address, Detail string
}

// OwnedReplay is a replay as an owner is told it.
type OwnedReplay struct {
	Owner  string
	Replay a2a.ReplayResult
}

// Webhooks yields webhooks, by owner, task and id: those of all owners where owner is
// empty, of all tasks where task, which needs an owner, is. It ends after the first error.
// Errors: task_not_found.
func (o *Operator) Webhooks(ctx context.Context, owner, task string) iter.Seq2[OwnedWebhook, error] {
	return func(yield func(OwnedWebhook, error) bool) {
		if err := o.check(ctx, store.PushQuery{Owner: owner, TaskID: task}); err != nil {
			yield(OwnedWebhook{}, err)
			return
		}
		for lane, err := range o.lanes(ctx, store.LaneQuery{Owner: owner, TaskID: task}) {
			if err != nil {
				yield(OwnedWebhook{}, err)
				return
			}
			w := webhook{Lane: lane}
			if w.set, err = o.s.seal.decode(&lane.Config); err != nil && !errors.Is(err, errUnsealed) {
				yield(OwnedWebhook{}, fmt.Errorf("task %s: webhook %s: %w", lane.Config.Task.ID, lane.Config.ID, err))
				return
			}
			w.unread = err != nil
			if !yield(OwnedWebhook{lane.Config.Task.Owner, view(&w)}, nil) {
				return
			}
		}
	}
}

// check reports a task or a webhook of a query that is not there.
func (o *Operator) check(ctx context.Context, q store.PushQuery) error {
	if q.TaskID == "" {
		return nil
	}
	task := store.Key{Owner: q.Owner, ID: q.TaskID}
	var err error
	if q.ID == "" {
		_, err = o.s.task(ctx, task.Owner, task.ID)
	} else {
		_, err = o.find(ctx, task, q.ID)
	}
	return err
}

// lanesPage is how many lanes are read at once.
const lanesPage = 100

func (o *Operator) lanes(ctx context.Context, q store.LaneQuery) iter.Seq2[store.Lane, error] {
	return func(yield func(store.Lane, error) bool) {
		q.Limit = lanesPage
		for {
			page, err := o.s.cfg.Store.Lanes(ctx, q)
			if err != nil {
				yield(store.Lane{}, err)
				return
			}
			for _, lane := range page.Lanes {
				if !yield(lane, nil) {
					return
				}
				q.After = &store.LaneLease{Task: lane.Config.Task, ID: lane.Config.ID}
			}
			if !page.More {
				return
			}
		}
	}
}

// WebhookKey names a webhook among those of all tasks and owners.
type WebhookKey struct{ Owner, TaskID, ConfigID string }

// deadPage is how many dead letters are read at once to count them.
const deadPage = 1_000

// CountDead counts the dead letters of each webhook of an owner's task, of all tasks where
// task is empty, of all owners where owner is. It reads no more than limit, the newest; more
// says that there are others. Errors: task_not_found.
func (o *Operator) CountDead(ctx context.Context, owner, task string, limit int) (counts map[WebhookKey]int, more bool, err error) {
	q := store.PushQuery{Owner: owner, TaskID: task}
	if err := o.check(ctx, q); err != nil {
		return nil, false, err
	}
	counts = make(map[WebhookKey]int)
	for limit > 0 {
		q.Limit = min(limit, deadPage)
		page, err := o.s.cfg.Store.DeadLetters(ctx, q)
		if err != nil {
			return nil, false, err
		}
		for i := range page.Letters {
			d := &page.Letters[i]
			counts[WebhookKey{d.Task.Owner, d.Task.ID, d.ConfigID}]++
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return counts, false, nil
		}
		limit -= len(page.Letters)
	}
	return counts, true, nil
}

// DeadLetters returns a page of dead letters, the newest first, and the cursor of the
// next page. Errors: task_not_found, invalid_params.
func (o *Operator) DeadLetters(ctx context.Context, q store.PushQuery) (letters []OwnedDeadLetter, next string, err error) {
	if err := o.check(ctx, q); err != nil {
		return nil, "", err
	}
	page, err := o.s.cfg.Store.DeadLetters(ctx, q)
	if err != nil {
		return nil, "", badToken(q, err)
	}
	ids := o.s.eventIDs(ctx)
	for i := range page.Letters {
		d := &page.Letters[i]
		id, err := ids(d.Task, d.Seq)
		if err != nil && !errors.Is(err, a2a.ErrTaskNotFound) {
			return nil, "", err
		}
		letters = append(letters, OwnedDeadLetter{d.Task.Owner, a2a.DeadLetter{
			TaskID: d.Task.ID, ConfigID: d.ConfigID, EventID: id, Sequence: d.Sequence,
			Reason: d.Reason, Attempts: d.Attempts, Status: d.Status, At: d.At,
		}})
	}
	return letters, page.Next, nil
}

// Attempts returns a page of attempts, the newest first, and the cursor of the next page.
// Errors: task_not_found, push_config_not_found, invalid_params.
func (o *Operator) Attempts(ctx context.Context, q store.PushQuery) (attempts []OwnedAttempt, next string, err error) {
	if err := o.check(ctx, q); err != nil {
		return nil, "", err
	}
	page, err := o.s.cfg.Store.PushAttempts(ctx, q)
	if err != nil {
		return nil, "", badToken(q, err)
	}
	ids := o.s.eventIDs(ctx)
	for i := range page.Attempts {
		a := &page.Attempts[i]
		id, err := ids(a.Task, a.Seq)
		if err != nil && !errors.Is(err, a2a.ErrTaskNotFound) {
			return nil, "", err
		}
		attempts = append(attempts, OwnedAttempt{a.Task.Owner, wholeAttempt(a, id), a.Address, a.Detail})
	}
	return attempts, page.Next, nil
}

// ReplayDead sets back all webhooks of an owner, or of all where it is empty, that have
// dead letters, and yields what is sent again.
func (o *Operator) ReplayDead(ctx context.Context, owner string) iter.Seq2[OwnedReplay, error] {
	return func(yield func(OwnedReplay, error) bool) {
		q := store.PushQuery{Owner: owner, Limit: lanesPage}
		for {
			page, err := o.s.cfg.Store.DeadLetters(ctx, q)
			if err != nil {
				yield(OwnedReplay{}, err)
				return
			}
			done := make(map[laneID]bool)
			for _, d := range page.Letters {
				name := laneID{d.Task, d.ConfigID}
				if done[name] {
					continue
				}
				done[name] = true
				r, err := o.Replay(ctx, d.Task, d.ConfigID, 0)
				if errors.Is(err, a2a.ErrTaskNotFound) || err == nil && r.Replay.FromSequence == 0 {
					continue // somebody else was faster
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

// Replay sets back a webhook of a task, as Service.Replay does: everything is sent again
// from an event on, or, where from is 0, from its first dead letter on; FromSequence is 0
// if it has none. No id means the only webhook, and the global one counts. Errors:
// task_not_found, push_config_not_found, invalid_params.
func (o *Operator) Replay(ctx context.Context, task store.Key, id string, from int64) (*OwnedReplay, error) {
	lane, err := o.find(ctx, task, id)
	if err != nil {
		return nil, err
	}
	r, err := o.s.replay(ctx, lane, from)
	if err == nil && r.FromSequence > 0 {
		err = o.enable(ctx, o.s.endpointOf(&lane.Config).record())
	}
	if err != nil {
		return nil, fmt.Errorf("task %s: webhook %s: %w", task.ID, lane.Config.ID, err)
	}
	return &OwnedReplay{task.Owner, *r}, nil
}

// find returns the lane of a task that is meant by an id.
func (o *Operator) find(ctx context.Context, task store.Key, id string) (*store.Lane, error) {
	if _, err := o.s.task(ctx, task.Owner, task.ID); err != nil {
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

// enable has an endpoint called again if it is not called at all; servers see it when they
// next look.
func (o *Operator) enable(ctx context.Context, name string) error {
	all, err := o.s.cfg.Store.Endpoints(ctx)
	if err != nil {
		return err
	}
	for _, e := range all {
		if e.Name == name && e.Disabled {
			return o.s.cfg.Store.SaveEndpoint(ctx, store.Endpoint{Name: name, UpdatedAt: store.Time(o.s.now())})
		}
	}
	return nil
}
