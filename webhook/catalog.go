package webhook

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// catalog reads and replays the webhooks in a store.
type catalog struct{ *common }

// webhook is a lane with its decoded settings.
type webhook struct {
	store.Lane
	settings      settings
	undecryptable bool // the settings lack their secrets, since no key decrypts them
}

// webhooks holds the webhooks of a task. owned are the webhooks of its owner in the order of
// their ids. global is the lane of the global webhook, nil if the task has none.
type webhooks struct {
	owned  []webhook
	global *store.Lane
}

func (c catalog) webhooks(ctx context.Context, task store.Key) (webhooks, error) {
	var all webhooks
	q := store.LaneQuery{Owner: task.Owner, TaskID: task.ID, Limit: 100}
	for {
		page, err := c.cfg.Store.Lanes(ctx, q)
		if err != nil {
			return all, err
		}
		for _, l := range page.Lanes {
			if l.Webhook.ID == GlobalID {
				all.global = &l
				continue
			}
			set, err := c.seal.decode(&l.Webhook)
			if err != nil && !errors.Is(err, errUndecryptable) {
				return all, fmt.Errorf("task %s: webhook %s: %w", task.ID, l.Webhook.ID, err)
			}
			all.owned = append(all.owned, webhook{l, set, err != nil})
		}
		if !page.More {
			return all, nil
		}
		last := &page.Lanes[len(page.Lanes)-1].Webhook
		q.After = &store.LaneLease{Task: last.Task, ID: last.ID}
	}
}

// byID returns the owner's webhook with an id, or nil.
func (w *webhooks) byID(id string) *webhook {
	if i := slices.IndexFunc(w.owned, func(o webhook) bool { return o.Webhook.ID == id }); i >= 0 {
		return &w.owned[i]
	}
	return nil
}

// newest returns the owner's webhook that was created last, or nil if there is none.
func (w *webhooks) newest() *webhook {
	var last *webhook
	for i := range w.owned {
		if o := &w.owned[i]; last == nil || o.Webhook.CreatedAt.After(last.Webhook.CreatedAt) {
			last = o
		}
	}
	return last
}

// resolve returns the webhook that an id selects, or nil if it does not exist. An empty id
// selects the only webhook, as does "default" unless a webhook has that id.
func (w *webhooks) resolve(task, id string) (*webhook, error) {
	if found := w.byID(id); found != nil {
		return found, nil
	}
	switch {
	case id != "" && id != "default", len(w.owned) == 0:
		return nil, nil
	case len(w.owned) > 1:
		return nil, ambiguous(task, len(w.owned))
	}
	return &w.owned[0], nil
}

// ambiguous returns the error for an empty id if a task has several webhooks.
func ambiguous(task string, webhooks int) error {
	return a2a.Invalid("pushNotificationConfigId", "is required: task %s has %d webhooks", a2a.Quote(task), webhooks)
}

// task returns an owner's task without its history and artifacts.
func (c catalog) task(ctx context.Context, owner, id string) (*store.Task, error) {
	if a2a.CheckID("taskId", id) != nil {
		return nil, a2a.TaskNotFound(id)
	}
	t, err := c.cfg.Store.Task(ctx, store.Key{Owner: owner, ID: id}, store.TaskOptions{Outline: true})
	return t, taskError(id, err)
}

// taskError converts the store's error for a missing task to task_not_found.
func taskError(id string, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return a2a.TaskNotFound(id)
	}
	return err
}

// find returns the task's webhook that an id selects; see resolve.
func (c catalog) find(ctx context.Context, task store.Key, id string) (*webhook, error) {
	all, err := c.webhooks(ctx, task)
	if err != nil {
		return nil, err
	}
	found, err := all.resolve(task.ID, id)
	if err != nil || found != nil {
		return found, err
	}
	return nil, noWebhook(task.ID, id)
}

// resendFrom returns the cursor at which a replay of a webhook starts: before the event with
// sequence from or, if from is 0, before the first dead letter. found is false if there is none.
func (c catalog) resendFrom(ctx context.Context, w *store.Webhook, from int64) (at store.WebhookCursor, found bool, err error) {
	if from <= 0 {
		first, err := c.firstDeadLetter(ctx, w.Task, w.ID)
		if err != nil || first == nil {
			return at, false, err
		}
		return first.Cursor, true, nil
	}
	at, last, err := c.cursorBefore(ctx, w.Task, from)
	if err != nil {
		return at, false, taskError(w.Task.ID, err)
	}
	if last < from {
		return at, false, a2a.Invalid("fromSequence", "is %d, the task has only %d events", from, last)
	}
	return at, true, nil
}

// resend makes a webhook resend the events after a cursor.
func (c catalog) resend(ctx context.Context, w *store.Webhook, from store.WebhookCursor) (*a2a.ReplayResult, error) {
	at, err := c.cfg.Store.ReplayWebhook(ctx, w.Task, w.ID, from, store.Time(c.now()))
	if err != nil {
		return nil, taskError(w.Task.ID, err)
	}
	return &a2a.ReplayResult{TaskID: w.Task.ID, ConfigID: w.ID, FromSequence: at.Sequence + 1}, nil
}

// cursorBefore returns the cursor before the event with a sequence. If last is less than
// sequence, no such event exists and last is the number of events.
func (c catalog) cursorBefore(ctx context.Context, task store.Key, sequence int64) (at store.WebhookCursor, last int64, err error) {
	err = store.WalkLog(ctx, c.cfg.Store, c.cfg.Memory, task, 0, math.MaxInt64, func(page []store.Event) bool {
		for i := range page {
			next, _ := at.Next(&page[i])
			if last = next.Sequence; last >= sequence {
				return false
			}
			at = next
		}
		return true
	})
	return at, last, err
}

// firstDeadLetter returns the dead letter of a webhook with the lowest sequence, or nil.
func (c catalog) firstDeadLetter(ctx context.Context, task store.Key, id string) (*store.DeadLetter, error) {
	var first *store.DeadLetter
	q := store.WebhookQuery{Owner: task.Owner, TaskID: task.ID, ID: id, Limit: 100}
	for {
		page, err := c.cfg.Store.DeadLetters(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page.Letters {
			if d := &page.Letters[i]; first == nil || d.Seq < first.Seq {
				first = d
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return first, nil
		}
	}
}

// eventIDs returns a function that returns the ids of events and caches their tasks.
func (c catalog) eventIDs(ctx context.Context) func(task store.Key, seq int64) (string, error) {
	created := make(map[store.Key]*store.Task)
	return func(task store.Key, seq int64) (string, error) {
		t, ok := created[task]
		if !ok {
			var err error
			if t, err = c.task(ctx, task.Owner, task.ID); err != nil {
				return "", err
			}
			created[task] = t
		}
		return EventID(task, t.CreatedAt, seq), nil
	}
}

// noWebhook returns the error for a webhook that does not exist.
func noWebhook(task, id string) error {
	if id == "" {
		return a2a.Errorf(a2a.CodePushConfigNotFound, "push notification config not found: task %s has none", a2a.Quote(task))
	}
	return a2a.Errorf(a2a.CodePushConfigNotFound, "push notification config %s of task %s not found", a2a.Quote(id), a2a.Quote(task))
}
