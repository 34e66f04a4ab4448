package webhook

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/runtime"
	"github.com/holdfast-dev/holdfast/store"
)

// registrar registers, lists and replays the webhooks of tasks for their owners.
type registrar struct {
	catalog
	claims    *claimer
	endpoints *endpointRegistry
	taskLocks runtime.Locks[store.Key] // held during changes of a task's webhooks
	saveQuota quota
}

func newRegistrar(common *common, claims *claimer, endpoints *endpointRegistry) *registrar {
	return &registrar{catalog: catalog{common}, claims: claims, endpoints: endpoints, saveQuota: quota{limit: common.cfg.Limits.PerMinute}}
}

// lock locks the webhooks of a task within this process. The caller must call unlock.
func (reg *registrar) lock(ctx context.Context, task store.Key) (unlock func(), err error) {
	if unlock, err = reg.taskLocks.Lock(ctx, task); err != nil {
		err = a2a.Errorf(a2a.CodeUnavailable, "webhooks of task %s are being changed; retry", a2a.Quote(task.ID))
	}
	return unlock, err
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

// Set saves a webhook of the principal's task and returns it in the form of Get, with its
// signing secret if the owner has not received it yet. A webhook without an id replaces the
// one with the same URL, if any. A token or credentials of "********" keep their stored
// value. A new webhook receives events from now on. A replaced one continues at its cursor
// and becomes active if it was parked or disabled. Errors: invalid_params with the field,
// task_not_found, resource_exhausted, unavailable.
func (reg *registrar) Set(ctx context.Context, p a2a.Principal, c a2a.TaskPushNotificationConfig) (*a2a.TaskPushNotificationConfig, error) {
	if _, err := reg.task(ctx, p.ID, c.TaskID); err != nil {
		return nil, err
	}
	req, err := reg.newSaveRequest(ctx, "pushNotificationConfig", p.ID, &c.Config)
	if err != nil {
		return nil, err
	}
	unlock, err := reg.lock(ctx, store.Key{Owner: p.ID, ID: c.TaskID})
	if err != nil {
		return nil, err
	}
	defer unlock()
	t, err := reg.task(ctx, p.ID, c.TaskID) // read it again: the validation may have taken seconds
	if err != nil {
		return nil, err
	}
	all, err := reg.webhooks(ctx, t.Key)
	if err != nil {
		return nil, err
	}
	id, set, err := reg.resolve(req, &all)
	if err != nil {
		return nil, err
	}
	secret := set.revealSecret(reg.cfg.clock())
	var cursor store.WebhookCursor
	if all.byID(id) == nil || all.global != nil {
		if cursor, err = store.CursorAt(ctx, reg.cfg.Store, reg.cfg.Memory, t.Key, t.Seq); err != nil {
			return nil, taskError(c.TaskID, err)
		}
	}
	data, err := reg.encode(set, t.Key, id)
	if err != nil {
		return nil, err
	}
	now := store.Time(reg.now())
	saved := store.Webhook{Task: t.Key, ID: id, Endpoint: req.endpoint, Data: data, LongRunning: c.LongRunning, CreatedAt: now}
	lane, err := reg.cfg.Store.SaveWebhook(ctx, saved, cursor, now)
	if err != nil {
		return nil, taskError(c.TaskID, err)
	}
	reg.claims.cancelLane(t.Key, id, lane.Fence)
	if err := reg.endGlobal(ctx, t.Key, &all, cursor); err != nil {
		return nil, err
	}
	reg.enableEndpoint(ctx, reg.endpointOf(&saved))
	out := view(&webhook{Lane: lane, settings: set})
	out.Config.SigningSecret = secret
	return &out, nil
}

// enableEndpoint enables an endpoint and logs errors.
func (reg *registrar) enableEndpoint(ctx context.Context, name endpointName) {
	if err := reg.endpoints.enable(ctx, name); err != nil {
		reg.log.Warn("enabling a webhook endpoint failed, it may stay disabled in other processes", "endpoint", name.address, "error", err)
	}
}

// Delete removes a webhook of the principal's task. No attempt starts after it returns.
// Deleting a webhook that does not exist succeeds. Errors: task_not_found, invalid_params,
// and unavailable if an attempt of another process does not end before ctx is done; the
// webhook is deleted nevertheless.
func (reg *registrar) Delete(ctx context.Context, p a2a.Principal, d a2a.DeleteTaskPushNotificationConfigParams) error {
	t, err := reg.task(ctx, p.ID, d.TaskID)
	if err != nil {
		return err
	}
	unlock, err := reg.lock(ctx, t.Key)
	if err != nil {
		return err
	}
	defer unlock()
	all, err := reg.webhooks(ctx, t.Key)
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
			if err := reg.resumeGlobal(ctx, t); err != nil {
				return err
			}
		}
	}
	if id == GlobalID {
		return nil // owners cannot delete it
	}
	return reg.deleteWebhook(ctx, t.Key, id)
}

// maxDeletePoll is the maximum interval at which deleteWebhook checks whether an attempt
// ended.
const maxDeletePoll = 50 * time.Millisecond

// deleteWebhook deletes a webhook and waits for an attempt in progress.
func (reg *registrar) deleteWebhook(ctx context.Context, task store.Key, id string) error {
	pause := time.Millisecond
	for {
		busy, err := reg.cfg.Store.DeleteWebhook(ctx, task, id, store.Time(reg.now()))
		switch {
		case errors.Is(err, store.ErrNotFound) || err == nil && !busy:
			return nil
		case err != nil:
			return err
		}
		reg.claims.cancelLane(task, id, maxFence)
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
