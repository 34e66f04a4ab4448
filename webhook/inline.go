package webhook

import (
	"context"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Inline holds the webhook that a message registers for its task, if any. Use it for one
// message.
type Inline struct {
	reg         *registrar
	request     *saveRequest // nil if the message has no webhook
	rejection   error        // returned by Webhooks: quota exceeded or URL refused
	longRunning bool
	task        store.Key
	saved       bool // the last call of Webhooks returned the message's webhook
}

// Prepare validates the webhook of a message. The task need not exist yet. c may be nil. The
// signing secret of such a webhook is returned by the first call of Set for it. Errors:
// invalid_params for an invalid webhook, with a field in
// configuration.pushNotificationConfig. [Inline.Webhooks] returns the errors that depend on the time of
// the call: the address of the URL and the number of webhooks saved in this minute. A
// repeated message thus gets the same response as before.
func (reg *registrar) Prepare(ctx context.Context, p a2a.Principal, c *a2a.MessageSendConfiguration) (*Inline, error) {
	in := &Inline{reg: reg}
	if c == nil || c.PushNotificationConfig == nil {
		return in, nil
	}
	in.longRunning = c.LongRunning
	var err error
	if in.request, err = reg.validate("configuration.pushNotificationConfig", c.PushNotificationConfig); err != nil {
		return nil, err
	}
	in.rejection = reg.checkQuotaAndURL(ctx, p.ID, in.request)
	return in, nil
}

// Webhooks returns the webhooks to store with the message: its own webhook or, for a task
// without one, the global webhook. seq is the task's version before the message, 0 for a new
// task. The engine calls it. It returns the errors of Set, with a field in
// configuration.pushNotificationConfig.
func (in *Inline) Webhooks(ctx context.Context, task store.Key, seq int64) ([]store.NewWebhook, error) {
	in.saved, in.task = false, task
	switch {
	case in.request == nil && seq == 0:
		return in.reg.newGlobal(), nil
	case in.request == nil:
		return in.reg.joinGlobal(ctx, task, seq)
	case in.rejection != nil:
		return nil, in.rejection
	}
	var all webhooks
	var err error
	if seq > 0 {
		if all, err = in.reg.webhooks(ctx, task); err != nil {
			return nil, err
		}
	}
	id, set, err := in.reg.resolve(in.request, &all)
	if err != nil {
		return nil, err
	}
	found := all.byID(id)
	if found != nil && found.State == store.LaneActive && found.Webhook.LongRunning == in.longRunning && set.equal(found.settings) {
		return nil, nil // clients repeat it with each message; saving it would cancel attempts
	}
	var cursor store.WebhookCursor
	if found == nil || all.global != nil {
		if cursor, err = store.CursorAt(ctx, in.reg.cfg.Store, in.reg.cfg.Memory, task, seq); err != nil {
			return nil, err
		}
	}
	data, err := in.reg.encode(set, task, id)
	if err != nil {
		return nil, err
	}
	in.saved = true
	webhook := []store.NewWebhook{{ID: id, Endpoint: in.request.endpoint, Data: data, LongRunning: in.longRunning, Cursor: cursor}}
	global, err := all.globalUntil(cursor)
	if global != nil {
		webhook = append(webhook, *global)
	}
	return webhook, err
}

// AfterCommit must be called after the message was stored. If the message registered a webhook,
// it stops attempts with the replaced settings and enables the endpoint. Errors are logged.
func (in *Inline) AfterCommit(ctx context.Context) {
	if in.saved {
		in.reg.claims.renewLeases(ctx, func(l *lane) bool { return l.lease.Task == in.task })
		in.reg.enableEndpoint(ctx, endpointName{in.task.Owner, in.request.endpoint})
	}
}
