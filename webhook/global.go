package webhook

import (
	"bytes"
	"context"
	"errors"

	sign "github.com/holdfast-dev/holdfast/internal/signature"
	"github.com/holdfast-dev/holdfast/internal/wire"
	"github.com/holdfast-dev/holdfast/store"
)

// GlobalID is the id of the lane that delivers a task's events to the global webhook. The id
// is reserved, and the lane is hidden from owners.
const GlobalID = "global"

// reasonNoGlobal is the reason of dead letters if the global webhook is no longer configured.
const reasonNoGlobal = "no global webhook is configured"

// globalData is the stored data of the global webhook of a task. Its URL, token and secret
// come from the Config at the time of delivery.
var globalData = []byte(`{"global":true}`)

// decodeSecret decodes a signing secret in the form that receivers use: whsec_ and base64.
func decodeSecret(encoded string) ([]byte, error) {
	key, err := sign.ParseKey(encoded)
	if err != nil || len(key.Secret) < 24 || len(key.Secret) > 64 {
		return nil, errors.New("must be whsec_ followed by the base64 of 24 to 64 bytes")
	}
	return key.Secret, nil
}

// newGlobal returns the global webhook for a new task, or nil if none is configured.
func (reg *registrar) newGlobal() []store.NewWebhook {
	if reg.cfg.Global.URL == "" {
		return nil
	}
	return []store.NewWebhook{{ID: GlobalID, Endpoint: endpointOf(reg.cfg.Global.URL), Data: globalData}}
}

// joinGlobal returns the global webhook for an existing task that has no active webhook,
// starting after event seq. This happens if no global webhook was configured when the task
// started or when its own webhook was deleted.
func (reg *registrar) joinGlobal(ctx context.Context, task store.Key, seq int64) ([]store.NewWebhook, error) {
	webhook := reg.newGlobal()
	if webhook == nil {
		return nil, nil
	}
	all, err := reg.webhooks(ctx, task)
	if err != nil || len(all.owned) > 0 || all.global != nil && globalThrough(&all.global.Webhook) == 0 && all.global.Reason != reasonNoGlobal {
		return nil, err
	}
	webhook[0].Cursor, err = store.CursorAt(ctx, reg.cfg.Store, reg.cfg.Memory, task, seq)
	return webhook, err
}

// resumeGlobal saves the global webhook, if one is configured, for a task that loses its last
// own webhook. It starts after the newest event, or continues at its cursor.
func (reg *registrar) resumeGlobal(ctx context.Context, t *store.Task) error {
	if reg.cfg.Global.URL == "" || t.Status.State.Terminal() {
		return nil
	}
	cursor, err := store.CursorAt(ctx, reg.cfg.Store, reg.cfg.Memory, t.Key, t.Seq)
	if err != nil {
		return taskError(t.Key.ID, err)
	}
	now := store.Time(reg.now())
	c := store.Webhook{Task: t.Key, ID: GlobalID, Endpoint: endpointOf(reg.cfg.Global.URL), Data: globalData, CreatedAt: now}
	_, err = reg.cfg.Store.SaveWebhook(ctx, c, cursor, now)
	return taskError(t.Key.ID, err)
}

// globalUntil returns the global webhook of a task with cursor as its end, or nil if nothing
// is to be saved. Pending events up to the cursor are still delivered.
func (w *webhooks) globalUntil(cursor store.WebhookCursor) (*store.NewWebhook, error) {
	if w.global == nil || cursor.Seq == 0 || globalThrough(&w.global.Webhook) > 0 {
		return nil, nil
	}
	data, err := wire.Marshal(&settings{Global: true, Through: cursor.Seq})
	if err != nil {
		return nil, err
	}
	c := &w.global.Webhook
	return &store.NewWebhook{ID: GlobalID, Endpoint: c.Endpoint, Data: data, LongRunning: c.LongRunning, Cursor: cursor}, nil
}

// endGlobal ends the global webhook of a task at cursor.
func (reg *registrar) endGlobal(ctx context.Context, task store.Key, all *webhooks, cursor store.WebhookCursor) error {
	n, err := all.globalUntil(cursor)
	if n == nil || err != nil {
		return err
	}
	now := store.Time(reg.now())
	c := store.Webhook{Task: task, ID: n.ID, Endpoint: n.Endpoint, Data: n.Data, LongRunning: n.LongRunning, CreatedAt: now}
	lane, err := reg.cfg.Store.SaveWebhook(ctx, c, cursor, now)
	if err == nil {
		reg.claims.cancelLane(task, GlobalID, lane.Fence)
	}
	return err
}

// globalThrough returns the last event that a global webhook receives, or 0 if it has no end.
func globalThrough(c *store.Webhook) int64 {
	var set settings
	if c.ID != GlobalID || bytes.Equal(c.Data, globalData) || wire.Unmarshal(c.Data, &set) != nil {
		return 0
	}
	return set.Through
}
