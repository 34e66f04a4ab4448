package push

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

// registry is what a Service needs to keep webhooks.
type registry struct {
	seal         sealer
	unsealed     sync.Once // that secrets cannot be decrypted is logged once
	globalSecret []byte

	changes taskLocks // held while the webhooks of a task are changed
	saved   quota
}

// newRegistry returns what a Service needs to keep webhooks, or what is wrong with cfg.
func newRegistry(cfg Config) (*registry, error) {
	r := &registry{changes: taskLocks{held: make(map[store.Key]*taskLock)}, saved: quota{limit: cfg.PerMinute}}
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

// taskLocks are locks, one for each task that somebody holds or waits for.
type taskLocks struct {
	mu   sync.Mutex
	held map[store.Key]*taskLock
}

type taskLock struct {
	free  chan struct{} // has one element when nobody holds it
	users int           // who hold it or wait for it
}

// lock keeps others of this process from changing a task's webhooks until unlock, which is
// nil with an error: ctx was done first.
func (t *taskLocks) lock(ctx context.Context, task store.Key) (unlock func(), err error) {
	t.mu.Lock()
	l := t.held[task]
	if l == nil {
		l = &taskLock{free: make(chan struct{}, 1)}
		l.free <- struct{}{}
		t.held[task] = l
	}
	l.users++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(t.held, task)
		}
	}
	select {
	case <-l.free:
		return func() { l.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, a2a.Errorf(a2a.CodeUnavailable, "webhooks of task %s are being changed; try again", a2a.Quote(task.ID))
	}
}

// quota counts what each owner does in a minute.
type quota struct {
	limit  int
	mu     sync.Mutex
	minute time.Time
	counts map[string]int
}

// take reports whether an owner may do it once more.
func (q *quota) take(owner string, now time.Time) bool {
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

// webhook is a lane with its settings. Secrets that cannot be decrypted are not there,
// and unread says so.
type webhook struct {
	store.Lane
	set    settings
	unread bool
}

// webhooks are those of a task: its owner's, by their ids, and the global one, nil if it
// is not told of the task.
type webhooks struct {
	own    []webhook
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
			if l.Config.ID == GlobalID {
				all.global = &l
				continue
			}
			set, err := s.seal.decode(&l.Config)
			if err != nil && !errors.Is(err, errUnsealed) {
				return all, fmt.Errorf("task %s: webhook %s: %w", task.ID, l.Config.ID, err)
			}
			all.own = append(all.own, webhook{l, set, err != nil})
		}
		if !page.More {
			return all, nil
		}
		last := &page.Lanes[len(page.Lanes)-1].Config
		q.After = &store.LaneLease{Task: last.Task, ID: last.ID}
	}
}

// byID returns the owner's webhook of an id, nil if there is none.
func (w *webhooks) byID(id string) *webhook {
	if i := slices.IndexFunc(w.own, func(o webhook) bool { return o.Config.ID == id }); i >= 0 {
		return &w.own[i]
	}
	return nil
}

// resolve returns the webhook that an owner means by an id. None, and "default" unless
// one is called so, is the only one; nil if there is none.
func (w *webhooks) resolve(task, id string) (*webhook, error) {
	if found := w.byID(id); found != nil {
		return found, nil
	}
	switch {
	case id != "" && id != "default", len(w.own) == 0:
		return nil, nil
	case len(w.own) > 1:
		return nil, ambiguous(task, len(w.own))
	}
	return &w.own[0], nil
}

// ambiguous is the error for no id where a task has several webhooks.
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

// taskError words the store's error for a task that is not there.
func taskError(id string, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return a2a.TaskNotFound(id)
	}
	return err
}

// Set saves a webhook of the principal's task and returns it as Get does, with its
// signing secret if the owner has not been told that yet. One without an id replaces the
// one with the same URL, if there is one. Token and credentials that are "********" stay
// what they were. A new webhook is told what happens from now on; one that is replaced
// goes on where it was, also if it had been parked or disabled. Errors: invalid_params
// naming the field, task_not_found, resource_exhausted, unavailable.
func (s *Service) Set(ctx context.Context, p a2a.Principal, c a2a.TaskPushNotificationConfig) (*a2a.TaskPushNotificationConfig, error) {
	if _, err := s.task(ctx, p.ID, c.TaskID); err != nil {
		return nil, err
	}
	w, err := s.wish(ctx, "pushNotificationConfig", p.ID, &c.Config)
	if err != nil {
		return nil, err
	}
	unlock, err := s.changes.lock(ctx, store.Key{Owner: p.ID, ID: c.TaskID})
	if err != nil {
		return nil, err
	}
	defer unlock()
	t, err := s.task(ctx, p.ID, c.TaskID) // as it is now: the wish may have taken a while
	if err != nil {
		return nil, err
	}
	all, err := s.webhooks(ctx, t.Key)
	if err != nil {
		return nil, err
	}
	id, set, err := s.beside(w, &all)
	if err != nil {
		return nil, err
	}
	secret := set.tell(s.cfg.clock())
	var cursor store.PushCursor
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
	kept := store.PushConfig{Task: t.Key, ID: id, Endpoint: w.endpoint, Data: data, LongRunning: c.LongRunning, CreatedAt: now}
	lane, err := s.cfg.Store.SavePush(ctx, kept, cursor, now)
	if err != nil {
		return nil, taskError(c.TaskID, err)
	}
	s.cancelLane(t.Key, id, lane.Fence)
	if err := s.endGlobal(ctx, t.Key, &all, cursor); err != nil {
		return nil, err
	}
	s.reopen(ctx, s.endpointOf(&kept))
	told := view(&webhook{Lane: lane, set: set})
	told.Config.SigningSecret = secret
	return &told, nil
}

// reopen has an endpoint called again because its owner wants it to be.
func (s *Service) reopen(ctx context.Context, name endpointName) {
	if err := s.enable(ctx, name); err != nil {
		s.log.Warn("endpoint may stay disabled elsewhere", "endpoint", name.address, "error", err)
	}
}

// Delete removes a webhook of the principal's task. Once it has returned no attempt is
// begun any more. One that is not there counts as deleted. Errors: task_not_found,
// invalid_params, unavailable if an attempt that another process makes does not end in
// time: the webhook is gone, but for that.
func (s *Service) Delete(ctx context.Context, p a2a.Principal, d a2a.DeleteTaskPushNotificationConfigParams) error {
	t, err := s.task(ctx, p.ID, d.TaskID)
	if err != nil {
		return err
	}
	unlock, err := s.changes.lock(ctx, t.Key)
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
		id = found.Config.ID
		if len(all.own) == 1 {
			if err := s.bringGlobal(ctx, t); err != nil {
				return err
			}
		}
	}
	if id == GlobalID {
		return nil // no webhook of an owner
	}
	return s.remove(ctx, t.Key, id)
}

// deletePoll is how long it takes at most to see that an attempt has ended.
const deletePoll = 50 * time.Millisecond

// remove deletes a webhook and waits for the attempt that may be under way.
func (s *Service) remove(ctx context.Context, task store.Key, id string) error {
	pause := time.Millisecond
	for {
		busy, err := s.cfg.Store.DeletePush(ctx, task, id, store.Time(s.now()))
		switch {
		case errors.Is(err, store.ErrNotFound) || err == nil && !busy:
			return nil
		case err != nil:
			return err
		}
		s.cancelLane(task, id, anyFence)
		timer := time.NewTimer(pause)
		pause = min(2*pause, deletePoll)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return a2a.Errorf(a2a.CodeUnavailable, "the webhook is deleted, but an attempt under way has not ended yet; try again")
		}
	}
}
