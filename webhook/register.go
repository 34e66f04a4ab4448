package webhook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// registry holds the parts of a Service that register webhooks.
type registry struct {
	seal              sealer
	undecryptableOnce sync.Once // logs once that secrets cannot be decrypted
	globalSecret      []byte

	taskLocks taskLocks // held during changes of a task's webhooks
	saveQuota quota
}

// newRegistry returns a registry, or an error if cfg is invalid.
func newRegistry(cfg Config) (*registry, error) {
	r := &registry{taskLocks: taskLocks{locks: make(map[store.Key]*taskLock)}, saveQuota: quota{limit: cfg.PerMinute}}
	var err error
	if r.seal, err = newSealer(cfg.Keys); err != nil {
		return nil, err
	}
	if cfg.Global.URL != "" {
		if _, err := cfg.Policy.CheckURL(cfg.Global.URL); err != nil {
			return nil, fmt.Errorf("Global.URL %w", err)
		}
	}
	if err := checkSecret("Global.Token", cfg.Global.Token); err != nil {
		return nil, err
	}
	if cfg.Global.Secret != "" {
		if r.globalSecret, err = decodeSecret(cfg.Global.Secret); err != nil {
			return nil, fmt.Errorf("Global.Secret %w", err)
		}
	}
	return r, nil
}

// taskLocks is a set of locks, one for each task. A lock exists while it is held or waited
// for.
type taskLocks struct {
	mu    sync.Mutex
	locks map[store.Key]*taskLock
}

type taskLock struct {
	free  chan struct{} // has one element while the lock is free
	users int           // holders and waiters
}

// lock acquires the lock of a task within this process. The caller must call unlock. If ctx
// is done first, the error has the code unavailable and unlock is nil.
func (t *taskLocks) lock(ctx context.Context, task store.Key) (unlock func(), err error) {
	t.mu.Lock()
	l := t.locks[task]
	if l == nil {
		l = &taskLock{free: make(chan struct{}, 1)}
		l.free <- struct{}{}
		t.locks[task] = l
	}
	l.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(t.locks, task)
		}
	}
	select {
	case <-l.free:
		return func() { l.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, a2a.Errorf(a2a.CodeUnavailable, "webhooks of task %s are being changed; retry", a2a.Quote(task.ID))
	}
}

// quota limits the operations of each owner in a minute.
type quota struct {
	limit  int
	mu     sync.Mutex
	minute time.Time
	counts map[string]int
}

// allow counts an operation and reports whether it is within the limit of the owner.
func (q *quota) allow(owner string, now time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if minute := now.Truncate(time.Minute); !minute.Equal(q.minute) || q.counts == nil {
		q.minute, q.counts = minute, make(map[string]int)
	}
	if q.counts[owner] >= q.limit {
		return false
	}
	q.counts[owner]++
	return true
}

// webhook is a lane with its decoded settings.
type webhook struct {
	store.Lane
	settings      settings
	undecryptable bool // the settings lack their secrets, since no key decrypts them
}

// webhooks holds the webhooks of a task: those of its owner in the order of their ids, and
// the global one, nil if the task has none.
type webhooks struct {
	owned  []webhook
	global *store.Lane
}

func (s *Service) webhooks(ctx context.Context, task store.Key) (webhooks, error) {
	var all webhooks
	q := store.LaneQuery{Owner: task.Owner, TaskID: task.ID, Limit: 100}
	for {
		page, err := s.cfg.Store.Lanes(ctx, q)
		if err != nil {
			return all, err
		}
		for _, l := range page.Lanes {
			if l.Webhook.ID == GlobalID {
				all.global = &l
				continue
			}
			set, err := s.seal.decode(&l.Webhook)
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
func (s *Service) task(ctx context.Context, owner, id string) (*store.Task, error) {
	if a2a.CheckID("taskId", id) != nil {
		return nil, a2a.TaskNotFound(id)
	}
	t, err := s.cfg.Store.Task(ctx, store.Key{Owner: owner, ID: id}, store.TaskOptions{Outline: true})
	return t, taskError(id, err)
}

// taskError converts the store's error for a missing task to task_not_found.
func taskError(id string, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return a2a.TaskNotFound(id)
	}
	return err
}

// Set saves a webhook of the principal's task and returns it in the form of Get, with its
// signing secret if the owner has not received it yet. A webhook without an id replaces the
// one with the same URL, if any. A token or credentials of "********" keep their stored
// value. A new webhook receives events from now on. A replaced one continues at its cursor
// and becomes active if it was parked or disabled. Errors: invalid_params with the field,
// task_not_found, resource_exhausted, unavailable.
func (s *Service) Set(ctx context.Context, p a2a.Principal, c a2a.TaskPushNotificationConfig) (*a2a.TaskPushNotificationConfig, error) {
	if _, err := s.task(ctx, p.ID, c.TaskID); err != nil {
		return nil, err
	}
	req, err := s.newSaveRequest(ctx, "pushNotificationConfig", p.ID, &c.Config)
	if err != nil {
		return nil, err
	}
	unlock, err := s.taskLocks.lock(ctx, store.Key{Owner: p.ID, ID: c.TaskID})
	if err != nil {
		return nil, err
	}
	defer unlock()
	t, err := s.task(ctx, p.ID, c.TaskID) // read it again: the validation may have taken seconds
	if err != nil {
		return nil, err
	}
	all, err := s.webhooks(ctx, t.Key)
	if err != nil {
		return nil, err
	}
	id, set, err := s.resolve(req, &all)
	if err != nil {
		return nil, err
	}
	secret := set.revealSecret(s.cfg.clock())
	var cursor store.WebhookCursor
	if all.byID(id) == nil || all.global != nil {
		if cursor, err = store.CursorAt(ctx, s.cfg.Store, s.cfg.Memory, t.Key, t.Seq); err != nil {
			return nil, taskError(c.TaskID, err)
		}
	}
	data, err := s.seal.encode(set, t.Key, id)
	if err != nil {
		return nil, err
	}
	now := store.Time(s.now())
	saved := store.Webhook{Task: t.Key, ID: id, Endpoint: req.endpoint, Data: data, LongRunning: c.LongRunning, CreatedAt: now}
	lane, err := s.cfg.Store.SaveWebhook(ctx, saved, cursor, now)
	if err != nil {
		return nil, taskError(c.TaskID, err)
	}
	s.cancelLane(t.Key, id, lane.Fence)
	if err := s.endGlobal(ctx, t.Key, &all, cursor); err != nil {
		return nil, err
	}
	s.enableEndpoint(ctx, s.endpointOf(&saved))
	out := view(&webhook{Lane: lane, settings: set})
	out.Config.SigningSecret = secret
	return &out, nil
}

// enableEndpoint enables an endpoint and logs errors.
func (s *Service) enableEndpoint(ctx context.Context, name endpointName) {
	if err := s.enable(ctx, name); err != nil {
		s.log.Warn("endpoint may stay disabled in other processes", "endpoint", name.address, "error", err)
	}
}

// Delete removes a webhook of the principal's task. No attempt starts after it returns.
// Deleting a webhook that does not exist succeeds. Errors: task_not_found, invalid_params,
// and unavailable if an attempt of another process does not end before ctx is done; the
// webhook is deleted nevertheless.
func (s *Service) Delete(ctx context.Context, p a2a.Principal, d a2a.DeleteTaskPushNotificationConfigParams) error {
	t, err := s.task(ctx, p.ID, d.TaskID)
	if err != nil {
		return err
	}
	unlock, err := s.taskLocks.lock(ctx, t.Key)
	if err != nil {
		return err
	}
	defer unlock()
	all, err := s.webhooks(ctx, t.Key)
	if err != nil {
		return err
	}
	found, err := all.resolve(d.TaskID, d.ConfigID)
	if err != nil {
		return err
	}
	id := d.ConfigID
	if found != nil {
		id = found.Webhook.ID
		if len(all.owned) == 1 {
			if err := s.resumeGlobal(ctx, t); err != nil {
				return err
			}
		}
	}
	if id == GlobalID {
		return nil // owners cannot delete it
	}
	return s.deleteWebhook(ctx, t.Key, id)
}

// maxDeletePoll is the maximum interval at which deleteWebhook checks whether an attempt
// ended.
const maxDeletePoll = 50 * time.Millisecond

// deleteWebhook deletes a webhook and waits for an attempt in progress.
func (s *Service) deleteWebhook(ctx context.Context, task store.Key, id string) error {
	pause := time.Millisecond
	for {
		busy, err := s.cfg.Store.DeleteWebhook(ctx, task, id, store.Time(s.now()))
		switch {
		case errors.Is(err, store.ErrNotFound) || err == nil && !busy:
			return nil
		case err != nil:
			return err
		}
		s.cancelLane(task, id, maxFence)
		timer := time.NewTimer(pause)
		pause = min(2*pause, maxDeletePoll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return a2a.Errorf(a2a.CodeUnavailable, "the webhook is deleted, but an attempt in progress has not ended yet; retry")
		}
	}
}
