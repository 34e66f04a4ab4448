package methods

import (
	"context"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/rpc"
)

// webhookBindings returns the implementations of the webhook methods.
func (m *Methods) webhookBindings() []rpc.Binding {
	return []rpc.Binding{
		rpc.Bind(a2a.MethodPushSet, m.setWebhook),
		rpc.Bind(a2a.MethodPushGet, m.getWebhook),
		rpc.Bind(a2a.MethodPushList, m.listWebhook),
		rpc.Bind(a2a.MethodPushDelete, m.deleteWebhook),
		rpc.Bind(a2a.MethodDeadLetters, m.listDeadLetters),
		rpc.Bind(a2a.MethodPushReplay, m.replayWebhook),
		rpc.Bind(a2a.MethodPushAttempts, m.listAttempts),
	}
}

// addWebhook adds the webhook of a message to opts, if webhooks are supported.
func (m *Methods) addWebhook(ctx context.Context, p a2a.Principal, c *a2a.MessageSendConfiguration, opts engine.SendOptions) (engine.SendOptions, error) {
	if m.cfg.Webhook == nil {
		return opts, nil
	}
	inline, err := m.cfg.Webhook.Prepare(ctx, p, c)
	if err != nil {
		return opts, err
	}
	stored := opts.OnStored
	opts.Webhook = inline.Webhooks
	opts.OnStored = func() {
		inline.AfterCommit(context.WithoutCancel(ctx))
		if stored != nil {
			stored()
		}
	}
	return opts, nil
}

func (m *Methods) setWebhook(ctx context.Context, c *rpc.Call, p a2a.TaskPushNotificationConfig) (*a2a.TaskPushNotificationConfig, error) {
	c.TaskID = p.TaskID
	return m.cfg.Webhook.Set(ctx, c.Principal, p)
}

func (m *Methods) getWebhook(ctx context.Context, c *rpc.Call, p a2a.GetTaskPushNotificationConfigParams) (*a2a.TaskPushNotificationConfig, error) {
	c.TaskID = p.TaskID
	return m.cfg.Webhook.Get(ctx, c.Principal, p)
}

func (m *Methods) listWebhook(ctx context.Context, c *rpc.Call, p a2a.ListTaskPushNotificationConfigParams) (*a2a.ListTaskPushNotificationConfigResult, error) {
	c.TaskID = p.TaskID
	return m.cfg.Webhook.List(ctx, c.Principal, p)
}

// deleteWebhook returns null, as A2A requires.
func (m *Methods) deleteWebhook(ctx context.Context, c *rpc.Call, p a2a.DeleteTaskPushNotificationConfigParams) (*a2a.DeletedPushNotificationConfig, error) {
	c.TaskID = p.TaskID
	return nil, m.cfg.Webhook.Delete(ctx, c.Principal, p)
}

func (m *Methods) listDeadLetters(ctx context.Context, c *rpc.Call, p a2a.ListDeadLettersParams) (*a2a.ListDeadLettersResult, error) {
	c.TaskID = p.TaskID
	return m.cfg.Webhook.DeadLetters(ctx, c.Principal, p)
}

func (m *Methods) replayWebhook(ctx context.Context, c *rpc.Call, p a2a.ReplayParams) (*a2a.ReplayResult, error) {
	c.TaskID = p.TaskID
	return m.cfg.Webhook.Replay(ctx, c.Principal, p)
}

func (m *Methods) listAttempts(ctx context.Context, c *rpc.Call, p a2a.ListAttemptsParams) (*a2a.ListAttemptsResult, error) {
	c.TaskID = p.TaskID
	return m.cfg.Webhook.Attempts(ctx, c.Principal, p)
}
