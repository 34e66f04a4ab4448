package push

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Get returns a webhook of the principal's task, and how it fares. Secrets are masked.
// No id, and "default" unless a webhook is called so, means the only one. Errors:
// task_not_found, push_config_not_found, invalid_params when no id was given and there are
// several.
func (s *Service) Get(ctx context.Context, p a2a.Principal, g a2a.GetTaskPushNotificationConfigParams) (*a2a.TaskPushNotificationConfig, error) {
	t, err := s.task(ctx, p.ID, g.TaskID)
	if err != nil {
		return nil, err
	}
	found, err := s.find(ctx, t.Key, g.ConfigID)
	if err != nil {
		return nil, err
	}
	told := view(found)
	return &told, nil
}

// List returns the webhooks of the principal's task, by their ids, as Get does; an empty
// list if there are none. Errors: task_not_found.
func (s *Service) List(ctx context.Context, p a2a.Principal, l a2a.ListTaskPushNotificationConfigParams) ([]a2a.TaskPushNotificationConfig, error) {
	t, err := s.task(ctx, p.ID, l.TaskID)
	if err != nil {
		return nil, err
	}
	all, err := s.webhooks(ctx, t.Key)
	if err != nil {
		return nil, err
	}
	told := make([]a2a.TaskPushNotificationConfig, len(all.own))
	for i := range all.own {
		told[i] = view(&all.own[i])
	}
	return told, nil
}

// find returns the webhook of an owner's task that is meant by an id.
func (s *Service) find(ctx context.Context, task store.Key, id string) (*webhook, error) {
	all, err := s.webhooks(ctx, task)
	if err != nil {
		return nil, err
	}
	found, err := all.resolve(task.ID, id)
	if err != nil || found != nil {
		return found, err
	}
	return nil, noWebhook(task.ID, id)
}

// noWebhook is the error for a webhook that a task does not have.
func noWebhook(task, id string) error {
	if id == "" {
		return a2a.Errorf(a2a.CodePushConfigNotFound, "push notification config not found: task %s has none", a2a.Quote(task))
	}
	return a2a.Errorf(a2a.CodePushConfigNotFound, "push notification config %s of task %s not found", a2a.Quote(id), a2a.Quote(task))
}

// view tells a webhook without its secrets. Those that cannot be decrypted are told as if
// they were there, so that who sends back what was told does not remove them unawares.
func view(w *webhook) a2a.TaskPushNotificationConfig {
	set := &w.set
	c := a2a.PushNotificationConfig{
		ID: w.Config.ID, URL: set.URL, Token: w.mask(set.Secrets.Token), Authentication: set.Authentication,
		PayloadFormat: set.Format, Signatures: set.Signatures, Delivery: delivery(&w.Lane),
	}
	if auth, ok := set.Authentication.(a2a.PushNotificationAuthenticationInfo); ok {
		auth.Credentials = w.mask(set.Secrets.Credentials)
		c.Authentication = auth
	}
	if slices.Contains(set.Signatures, signatureEd25519) && len(set.Secrets.Keys) > 0 {
		c.SigningKey = set.Secrets.Keys[0].public()
	}
	return a2a.TaskPushNotificationConfig{TaskID: w.Config.Task.ID, Config: c, LongRunning: w.Config.LongRunning}
}

func (w *webhook) mask(secret string) string {
	if secret == "" && !w.unread {
		return ""
	}
	return Mask
}

// delivery says how a lane fares.
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
