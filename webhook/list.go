package webhook

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	sign "github.com/holdfast-dev/holdfast/internal/signature"
	"github.com/holdfast-dev/holdfast/store"
)

// Get returns a webhook of the principal's task with its delivery state. Secrets are masked.
// An empty id selects the webhook that was created last, as does "default" unless a webhook has
// that id. Errors: task_not_found, push_config_not_found.
func (reg *registrar) Get(ctx context.Context, p a2a.Principal, g a2a.GetTaskPushNotificationConfigParams) (*a2a.TaskPushNotificationConfig, error) {
	t, err := reg.task(ctx, p.ID, g.TaskID)
	if err != nil {
		return nil, err
	}
	all, err := reg.webhooks(ctx, t.Key)
	if err != nil {
		return nil, err
	}
	found := all.byID(g.ConfigID)
	if found == nil && (g.ConfigID == "" || g.ConfigID == "default") {
		found = all.newest()
	}
	if found == nil {
		return nil, noWebhook(g.TaskID, g.ConfigID)
	}
	out := view(found)
	return &out, nil
}

// List returns a page of the webhooks of the principal's task in the order of their ids, in the
// form that Get returns. The list may be empty. Errors: task_not_found, invalid_params.
func (reg *registrar) List(ctx context.Context, p a2a.Principal, l a2a.ListTaskPushNotificationConfigParams) (*a2a.ListTaskPushNotificationConfigResult, error) {
	t, err := reg.task(ctx, p.ID, l.TaskID)
	if err != nil {
		return nil, err
	}
	all, err := reg.webhooks(ctx, t.Key)
	if err != nil {
		return nil, err
	}
	scope := newTokenScope("configs", store.WebhookQuery{Owner: p.ID, TaskID: l.TaskID})
	after, err := scope.cursor(l.PageToken)
	if err != nil {
		return nil, err
	}
	out := &a2a.ListTaskPushNotificationConfigResult{Configs: []a2a.TaskPushNotificationConfig{}}
	for i := range all.owned {
		id := all.owned[i].Webhook.ID
		if id <= after {
			continue
		}
		if n := len(out.Configs); l.PageSize > 0 && n == l.PageSize {
			out.NextPageToken = scope.token(out.Configs[n-1].Config.ID)
			break
		}
		out.Configs = append(out.Configs, view(&all.owned[i]))
	}
	return out, nil
}

// view returns the public form of a webhook, with secrets masked. Secrets that cannot be
// decrypted are masked too, or a client that sends the webhook back would remove them.
func view(w *webhook) a2a.TaskPushNotificationConfig {
	set := &w.settings
	c := a2a.PushNotificationConfig{
		ID: w.Webhook.ID, URL: set.URL, Token: w.mask(set.Secrets.Token), Authentication: set.Authentication,
		PayloadFormat: set.Format, Signatures: set.Signatures, Delivery: delivery(&w.Lane),
	}
	if auth, ok := set.Authentication.(a2a.PushNotificationAuthenticationInfo); ok {
		auth.Credentials = w.mask(set.Secrets.Credentials)
		c.Authentication = auth
	}
	if slices.Contains(set.Signatures, sign.Ed25519) && len(set.Secrets.Keys) > 0 {
		c.SigningKey = set.Secrets.Keys[0].encodedPublicKey()
	}
	return a2a.TaskPushNotificationConfig{TaskID: w.Webhook.Task.ID, Config: c, LongRunning: w.Webhook.LongRunning}
}

func (w *webhook) mask(secret string) string {
	if secret == "" && !w.undecryptable {
		return ""
	}
	return Mask
}

// delivery returns the delivery state of a lane.
func delivery(l *store.Lane) *a2a.PushDelivery {
	d := &a2a.PushDelivery{
		State: string(l.State), Reason: l.Reason, Sequence: l.Cursor.Sequence, Delivered: l.Delivered, Pending: l.Pending(), Attempts: l.Attempt,
	}
	if d.Pending && l.Attempt > 0 {
		d.NextAttemptAt = &l.DueAt
	}
	if !l.DeliveredAt.IsZero() {
		d.LastDelivered = &l.DeliveredAt
	}
	return d
}
