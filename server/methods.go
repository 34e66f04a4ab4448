package server

import (
	"context"
	"iter"
	"strconv"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/rpc"
)

// bindings returns the implementation of each method. New fails if a descriptor of package
// a2a has no binding.
func (s *Server) bindings() []rpc.Binding {
	all := []rpc.Binding{
		rpc.Bind(a2a.MethodSend, s.send),
		rpc.BindStream(a2a.MethodStream, s.sendStream),
		rpc.Bind(a2a.MethodGet, s.getTask),
		rpc.Bind(a2a.MethodList, s.listTasks),
		rpc.Bind(a2a.MethodCancel, s.cancelTask),
		rpc.BindStream(a2a.MethodResubscribe, s.resubscribe),
		rpc.Bind(a2a.MethodTasksDelete, s.deleteTask),

		rpc.Bind(a2a.MethodContextsList, s.listContexts),
		rpc.Bind(a2a.MethodContextsGet, s.getContext),
		rpc.Bind(a2a.MethodContextsCreate, s.createContext),
		rpc.Bind(a2a.MethodContextsUpdate, s.updateContext),
		rpc.Bind(a2a.MethodContextsClear, s.clearContext),
		rpc.Bind(a2a.MethodFeedback, s.addFeedback),
		rpc.Bind(a2a.MethodFeedbackList, s.listFeedback),
	}
	if s.cfg.Webhook != nil {
		all = append(all, s.webhookBindings()...)
	}
	return all
}

func sendOptions(c *rpc.Call) engine.SendOptions {
	return engine.SendOptions{IdempotencyKey: c.IdempotencyKey, RequestHash: c.RequestHash, OnStored: c.OnStored, ReserveMemory: c.ReserveMemory}
}

func historyLength(c *a2a.MessageSendConfiguration) *int {
	if c == nil {
		return nil
	}
	return c.HistoryLength
}

func (s *Server) send(ctx context.Context, c *rpc.Call, p a2a.MessageSendParams) (*a2a.Task, error) {
	c.TaskID = p.Message.TaskID
	opts, err := s.addWebhook(ctx, c.Principal, p.Configuration, sendOptions(c))
	if err != nil {
		return nil, err
	}
	if p.Configuration != nil && p.Configuration.Blocking {
		opts.Wait = true
		var cancel, leave context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.cfg.BlockingTimeout)
		defer cancel()
		ctx, leave = joinContexts(ctx, s.graceEnded)
		defer leave()
	}
	length := historyLength(p.Configuration)
	sent, err := s.cfg.Engine.Send(ctx, c.Principal, p, opts) // p may be large and must not be used after this
	if err != nil {
		return nil, err
	}
	c.TaskID = sent.Task.Key.ID
	return convertTask(sent.Task, length), nil
}

func (s *Server) sendStream(ctx context.Context, c *rpc.Call, p a2a.MessageSendParams) (rpc.Stream, error) {
	c.TaskID = p.Message.TaskID
	opts, err := s.addWebhook(ctx, c.Principal, p.Configuration, sendOptions(c))
	if err != nil {
		return rpc.Stream{}, err
	}
	sent, err := s.cfg.Engine.Send(ctx, c.Principal, p, opts)
	if err != nil {
		return rpc.Stream{}, err
	}
	first := sent.First
	if first == nil {
		first = sent.Task
	}
	c.TaskID = first.Key.ID
	seq, contextID := first.Seq, first.ContextID
	item := rpc.Item{Seq: seq, Event: convertTask(first, historyLength(p.Configuration)), More: sent.Task.Seq > seq}
	return rpc.Stream{Items: func(yield func(rpc.Item, error) bool) {
		ok := yield(item, nil)
		item = rpc.Item{} // release the task, which may be large, while the stream waits
		if ok {
			s.follow(ctx, c.Principal, c.TaskID, contextID, &seq)(yield)
		}
	}}, nil
}

// follow returns the updates of a task as items of a stream.
func (s *Server) follow(ctx context.Context, p a2a.Principal, id, contextID string, after *int64) iter.Seq2[rpc.Item, error] {
	return func(yield func(rpc.Item, error) bool) {
		for u, err := range s.cfg.Engine.Follow(ctx, p, id, after) {
			if err != nil {
				yield(rpc.Item{}, err)
				return
			}
			if !yield(rpc.Item{Seq: u.Seq, Event: convertUpdate(&u, id, contextID, nil), More: u.More}, nil) {
				return
			}
		}
	}
}

func (s *Server) deleteTask(ctx context.Context, c *rpc.Call, p a2a.DeleteTaskParams) (map[string]string, error) {
	c.TaskID = p.ID
	if err := s.cfg.Engine.DeleteTask(ctx, c.Principal, p); err != nil {
		return nil, err
	}
	if s.cfg.Webhook != nil {
		s.cfg.Webhook.CancelStaleOfTask(ctx, c.Principal.ID, p.ID) // its webhooks are deleted
	}
	return map[string]string{"taskId": p.ID, "message": "Task " + p.ID + " deleted"}, nil
}

func (s *Server) cancelTask(ctx context.Context, c *rpc.Call, p a2a.TaskIDParams) (*a2a.Task, error) {
	c.TaskID = p.ID
	t, err := s.cfg.Engine.Cancel(ctx, c.Principal, p.ID, sendOptions(c))
	if err != nil {
		return nil, err
	}
	return convertTask(t, nil), nil
}

func (s *Server) resubscribe(ctx context.Context, c *rpc.Call, p a2a.TaskIDParams) (rpc.Stream, error) {
	c.TaskID = p.ID
	after, err := lastEventID(c.LastEventID)
	if err != nil {
		return rpc.Stream{}, err
	}
	t, err := s.cfg.Engine.Outline(ctx, c.Principal, p.ID)
	if err != nil {
		return rpc.Stream{}, err
	}
	return rpc.Stream{
		Items: s.follow(ctx, c.Principal, p.ID, t.ContextID, after),
		// The next event may be far in the future. A number that is too large is rejected with
		// the first item.
		Started: after != nil && *after <= t.Seq,
	}, nil
}

// lastEventID parses a Last-Event-ID header; it returns nil if the header is absent.
func lastEventID(header string) (*int64, error) {
	if header == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(header, 10, 64)
	if err != nil || n < 0 || header[0] == '+' {
		return nil, a2a.Invalid("Last-Event-ID", "is %s, want the id of an event of the task's stream", a2a.Quote(header))
	}
	return &n, nil
}
