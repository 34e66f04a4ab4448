package server

import (
	"context"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/rpc"
)

// webhookBindings returns the implementations of the webhook methods.
func (s *Server) webhookBindings() []rpc.Binding {
	return []rpc.Binding{
		rpc.Bind(a2a.MethodPushSet, s.setWebhook),
		rpc.Bind(a2a.MethodPushGet, s.getWebhook),
		rpc.Bind(a2a.MethodPushList, s.listWebhook),
		rpc.Bind(a2a.MethodPushDelete, s.deleteWebhook),
		rpc.Bind(a2a.MethodDeadLetters, s.listDeadLetters),
		rpc.Bind(a2a.MethodPushReplay, s.replayWebhook),
		rpc.Bind(a2a.MethodPushAttempts, s.listAttempts),
	}
}

// methods returns the known methods. Those for webhooks are on if webhooks are supported.
func (c Config) methods() []a2a.Method {
	all := a2a.Methods()
	for i := range all {
		if all[i].Off == a2a.CodePushNotSupported && c.Webhook != nil {
			all[i].Off = ""
		}
	}
	return all
}

// addWebhook adds the webhook of a message to opts, if webhooks are supported.
func (s *Server) addWebhook(ctx context.Context, p a2a.Principal, c *a2a.MessageSendConfiguration, opts engine.SendOptions) (engine.SendOptions, error) {
	if s.cfg.Webhook == nil {
		return opts, nil
	}
	inline, err := s.cfg.Webhook.Prepare(ctx, p, c)
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

func (s *Server) setWebhook(ctx context.Context, c *rpc.Call, p a2a.TaskPushNotificationConfig) (*a2a.TaskPushNotificationConfig, error) {
	c.TaskID = p.TaskID
	return s.cfg.Webhook.Set(ctx, c.Principal, p)
}

func (s *Server) getWebhook(ctx context.Context, c *rpc.Call, p a2a.GetTaskPushNotificationConfigParams) (*a2a.TaskPushNotificationConfig, error) {
	c.TaskID = p.TaskID
	return s.cfg.Webhook.Get(ctx, c.Principal, p)
}

func (s *Server) listWebhook(ctx context.Context, c *rpc.Call, p a2a.ListTaskPushNotificationConfigParams) ([]a2a.TaskPushNotificationConfig, error) {
	c.TaskID = p.TaskID
	return s.cfg.Webhook.List(ctx, c.Principal, p)
}

// deleteWebhook returns null, as A2A requires.
func (s *Server) deleteWebhook(ctx context.Context, c *rpc.Call, p a2a.DeleteTaskPushNotificationConfigParams) (*a2a.DeletedPushNotificationConfig, error) {
	c.TaskID = p.TaskID
	return nil, s.cfg.Webhook.Delete(ctx, c.Principal, p)
}

func (s *Server) listDeadLetters(ctx context.Context, c *rpc.Call, p a2a.ListDeadLettersParams) (*a2a.ListDeadLettersResult, error) {
	c.TaskID = p.TaskID
	return s.cfg.Webhook.DeadLetters(ctx, c.Principal, p)
}

func (s *Server) replayWebhook(ctx context.Context, c *rpc.Call, p a2a.ReplayParams) (*a2a.ReplayResult, error) {
	c.TaskID = p.TaskID
	return s.cfg.Webhook.Replay(ctx, c.Principal, p)
}

func (s *Server) listAttempts(ctx context.Context, c *rpc.Call, p a2a.ListAttemptsParams) (*a2a.ListAttemptsResult, error) {
	c.TaskID = p.TaskID
	return s.cfg.Webhook.Attempts(ctx, c.Principal, p)
}
