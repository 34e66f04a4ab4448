package server

import (
	"context"

	"github.com/holdfast-dev/holdfast/a2a"
	v03 "github.com/holdfast-dev/holdfast/a2a/v03"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/rpc"
)

// pushBindings lists what the methods of webhooks do.
func (s *Server) pushBindings() []rpc.Binding {
	return []rpc.Binding{
		rpc.Bind(a2a.MethodPushSet, v03.Params[a2a.TaskPushNotificationConfig], s.setPush),
		rpc.Bind(a2a.MethodPushGet, v03.Params[a2a.GetTaskPushNotificationConfigParams], s.getPush),
		rpc.Bind(a2a.MethodPushList, v03.Params[a2a.ListTaskPushNotificationConfigParams], s.listPush),
		rpc.Bind(a2a.MethodPushDelete, v03.Params[a2a.DeleteTaskPushNotificationConfigParams], s.deletePush),
		rpc.Bind(a2a.MethodDeadLetters, v03.Params[a2a.ListDeadLettersParams], listed(s, s.listDeadLetters)),
		rpc.Bind(a2a.MethodPushReplay, v03.Params[a2a.ReplayParams], s.replayPush),
		rpc.Bind(a2a.MethodPushAttempts, v03.Params[a2a.ListAttemptsParams], listed(s, s.listAttempts)),
	}
}

// methods lists the methods that are known, with those of webhooks on if they are
// offered here.
func (c Config) methods() []a2a.Method {
	all := a2a.Methods()
	for i := range all {
		if all[i].Off == a2a.CodePushNotSupported && c.Push != nil {
			all[i].Off = ""
		}
	}
	return all
}

// withPush has a message bring its webhook, if webhooks are offered.
func (s *Server) withPush(ctx context.Context, p a2a.Principal, c *a2a.MessageSendConfiguration, opts engine.SendOptions) (engine.SendOptions, error) {
	if s.cfg.Push == nil {
		return opts, nil
	}
	inline, err := s.cfg.Push.Prepare(ctx, p, c)
	if err != nil {
		return opts, err
	}
	stored := opts.Stored
	opts.Push = inline.Push
	opts.Stored = func() {
		inline.Stored(context.WithoutCancel(ctx))
		if stored != nil {
			stored()
		}
	}
	return opts, nil
}

func (s *Server) setPush(ctx context.Context, c *rpc.Call, p a2a.TaskPushNotificationConfig) (any, error) {
	c.TaskID = p.TaskID
	return s.cfg.Push.Set(ctx, c.Principal, p)
}

func (s *Server) getPush(ctx context.Context, c *rpc.Call, p a2a.GetTaskPushNotificationConfigParams) (any, error) {
	c.TaskID = p.TaskID
	return s.cfg.Push.Get(ctx, c.Principal, p)
}

func (s *Server) listPush(ctx context.Context, c *rpc.Call, p a2a.ListTaskPushNotificationConfigParams) (any, error) {
	c.TaskID = p.TaskID
	return s.cfg.Push.List(ctx, c.Principal, p)
}

// deletePush answers with null, as A2A says.
func (s *Server) deletePush(ctx context.Context, c *rpc.Call, p a2a.DeleteTaskPushNotificationConfigParams) (any, error) {
	c.TaskID = p.TaskID
	return nil, s.cfg.Push.Delete(ctx, c.Principal, p)
}

func (s *Server) listDeadLetters(ctx context.Context, c *rpc.Call, p a2a.ListDeadLettersParams) (any, error) {
	c.TaskID = p.TaskID
	return s.cfg.Push.DeadLetters(ctx, c.Principal, p)
}

func (s *Server) replayPush(ctx context.Context, c *rpc.Call, p a2a.ReplayParams) (any, error) {
	c.TaskID = p.TaskID
	return s.cfg.Push.Replay(ctx, c.Principal, p)
}

func (s *Server) listAttempts(ctx context.Context, c *rpc.Call, p a2a.ListAttemptsParams) (any, error) {
	c.TaskID = p.TaskID
	return s.cfg.Push.Attempts(ctx, c.Principal, p)
}
