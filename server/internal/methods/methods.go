package methods

import (
	"context"
	"encoding/json"
	"iter"
	"strconv"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/rpc"
	"github.com/holdfast-dev/holdfast/webhook"
)

// Config configures [Methods].
type Config struct {
	Engine *engine.Engine
	// Webhook may be nil. Then the methods for webhooks are off.
	Webhook *webhook.Service
	// URL is the address of the agent for links to files; "" means the address of the request.
	URL string
	// ExtendedCard returns the encoded card of the caller. If nil, the method for it is off.
	ExtendedCard func(ctx context.Context, c *rpc.Call) (json.RawMessage, error)
	// StreamingOff turns the streaming methods off.
	StreamingOff bool
	// BlockingTimeout is the maximum duration of a blocking message/send, and of a tasks/get that
	// waits for a generation.
	BlockingTimeout time.Duration
	// MessageWait is how long a stream that starts a task waits for a message that answers in
	// place of the task, before its first item.
	MessageWait time.Duration
	// GraceEnded ends when blocking calls must return.
	GraceEnded context.Context
	// CacheBytes is the size of the cache of encoded finished tasks. Negative disables it.
	CacheBytes int64
}

// Methods implements the methods of A2A. Create it with [New].
type Methods struct {
	cfg   Config
	cache *readCache
}

// New returns the methods of an engine.
func New(cfg Config) *Methods { return &Methods{cfg: cfg, cache: newReadCache(cfg.CacheBytes)} }

// Bindings returns the implementation of each method that is not off.
func (m *Methods) Bindings() []rpc.Binding {
	all := []rpc.Binding{
		rpc.Bind(a2a.MethodSend, m.send),
		rpc.Bind(a2a.MethodGet, m.getTask),
		rpc.Bind(a2a.MethodList, m.listTasks),
		rpc.Bind(a2a.MethodCancel, m.cancelTask),
		rpc.Bind(a2a.MethodTasksDelete, m.deleteTask),

		rpc.Bind(a2a.MethodContextsList, m.listContexts),
		rpc.Bind(a2a.MethodContextsGet, m.getContext),
		rpc.Bind(a2a.MethodContextsCreate, m.createContext),
		rpc.Bind(a2a.MethodContextsUpdate, m.updateContext),
		rpc.Bind(a2a.MethodContextsClear, m.clearContext),
		rpc.Bind(a2a.MethodFeedback, m.addFeedback),
		rpc.Bind(a2a.MethodFeedbackList, m.listFeedback),
	}
	if m.cfg.ExtendedCard != nil {
		all = append(all, rpc.Bind(a2a.MethodExtendedCard, m.extendedCard))
	}
	if !m.cfg.StreamingOff {
		all = append(all, rpc.BindStream(a2a.MethodStream, m.sendStream), rpc.BindStream(a2a.MethodResubscribe, m.resubscribe))
	}
	if m.cfg.Webhook != nil {
		all = append(all, m.webhookBindings()...)
	}
	return all
}

// Descriptors returns the known methods. The methods of configured features are on.
func (m *Methods) Descriptors() []a2a.Method {
	all := a2a.Methods()
	for i := range all {
		switch d := &all[i]; {
		case d.Off == a2a.CodePushNotSupported && m.cfg.Webhook != nil:
			d.Off = ""
		case d.Off == a2a.CodeNoExtendedCard && m.cfg.ExtendedCard != nil:
			d.Off = ""
		case d.Streaming && m.cfg.StreamingOff:
			d.Off = a2a.CodeUnsupported
		}
	}
	return all
}

func (m *Methods) extendedCard(ctx context.Context, c *rpc.Call, _ struct{}) (json.RawMessage, error) {
	return m.cfg.ExtendedCard(ctx, c)
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

// allowsMessage reports whether a message may answer a request in place of a task: the request
// names no task, and no webhook that would receive the task.
func allowsMessage(p *a2a.MessageSendParams) bool {
	return p.Message.TaskID == "" && (p.Configuration == nil || p.Configuration.PushNotificationConfig == nil)
}

// prepareSend returns the options of a send.
func (m *Methods) prepareSend(ctx context.Context, c *rpc.Call, p *a2a.MessageSendParams) (engine.SendOptions, error) {
	c.TaskID = p.Message.TaskID
	if p.Configuration != nil && !hasGenerations(c) {
		p.Configuration.IfGenerationMatch = nil
	}
	return m.addWebhook(ctx, c.Principal, p.Configuration, sendOptions(c))
}

// limitWait returns a context that ends when a blocking call must return.
func (m *Methods) limitWait(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, m.cfg.BlockingTimeout)
	stop := context.AfterFunc(m.cfg.GraceEnded, cancel)
	return ctx, func() { stop(); cancel() }
}

func (m *Methods) send(ctx context.Context, c *rpc.Call, p a2a.MessageSendParams) (a2a.SendMessageResult, error) {
	opts, err := m.prepareSend(ctx, c, &p)
	if err != nil {
		return nil, err
	}
	if p.Configuration != nil && p.Configuration.Blocking {
		opts.Wait = true
		var cancel context.CancelFunc
		ctx, cancel = m.limitWait(ctx)
		defer cancel()
	}
	length, alone := historyLength(p.Configuration), allowsMessage(&p)
	sent, err := m.cfg.Engine.Send(ctx, c.Principal, p, opts) // p may be large and must not be used after this
	if err != nil {
		return nil, err
	}
	c.TaskID = sent.Task.Key.ID
	if answer := sent.Task.Answer(); alone && answer != nil {
		return m.view(c).Message(ctx, answer)
	}
	return m.viewTask(ctx, c, sent.Task, length)
}

func (m *Methods) sendStream(ctx context.Context, c *rpc.Call, p a2a.MessageSendParams) (rpc.Stream, error) {
	opts, err := m.prepareSend(ctx, c, &p)
	if err != nil {
		return rpc.Stream{}, err
	}
	length, alone := historyLength(p.Configuration), allowsMessage(&p)
	sent, err := m.cfg.Engine.Send(ctx, c.Principal, p, opts)
	if err != nil {
		return rpc.Stream{}, err
	}
	first := sent.First
	if first == nil {
		first = sent.Task
	}
	c.TaskID = first.Key.ID
	seq, contextID := first.Seq, first.ContextID
	if alone && m.cfg.MessageWait > 0 && seq == 1 {
		return rpc.Stream{Items: m.messageOrTask(ctx, c, contextID, length), Started: true}, nil
	}
	shown, err := m.viewTask(ctx, c, first, length)
	if err != nil {
		return rpc.Stream{}, err
	}
	item := rpc.Item{Seq: seq, Event: shown, More: sent.Task.Seq > seq}
	return rpc.Stream{Items: func(yield func(rpc.Item, error) bool) {
		ok := yield(item, nil)
		item = rpc.Item{} // release the task, which may be large, while the stream waits
		if ok {
			m.items(ctx, c, m.cfg.Engine.Follow(ctx, c.Principal, c.TaskID, &seq), contextID, nil)(yield)
		}
	}}, nil
}

// messageOrTask returns the items of a stream that started a task: the message that answers in
// place of the task, if there is one within MessageWait, or the task and its updates.
func (m *Methods) messageOrTask(ctx context.Context, c *rpc.Call, contextID string, length *int) iter.Seq2[rpc.Item, error] {
	return func(yield func(rpc.Item, error) bool) {
		wait, cancel := context.WithTimeout(ctx, m.cfg.MessageWait)
		answer, seq := m.cfg.Engine.Answer(wait, c.Principal, c.TaskID)
		cancel()
		if answer != nil {
			answer, err := m.view(c).Message(ctx, answer)
			yield(rpc.Item{Seq: seq, Event: answer}, err)
			return
		}
		start := int64(0)
		m.items(ctx, c, m.cfg.Engine.Follow(ctx, c.Principal, c.TaskID, &start), contextID, length)(yield)
	}
}

// items returns the updates of a task as items of a stream. historyLength limits the messages of
// updates that are the whole task.
func (m *Methods) items(ctx context.Context, c *rpc.Call, updates iter.Seq2[engine.Update, error], contextID string, historyLength *int) iter.Seq2[rpc.Item, error] {
	view := m.view(c)
	return func(yield func(rpc.Item, error) bool) {
		for u, err := range updates {
			item := rpc.Item{Seq: u.Seq, More: u.More}
			if err == nil {
				item.Event, err = viewEvent(ctx, view, convertUpdate(c, &u, contextID, historyLength))
			}
			if err != nil {
				yield(rpc.Item{}, err)
				return
			}
			if !yield(item, nil) {
				return
			}
		}
	}
}

func (m *Methods) deleteTask(ctx context.Context, c *rpc.Call, p a2a.DeleteTaskParams) (*a2a.DeleteTaskResult, error) {
	c.TaskID = p.ID
	if err := m.cfg.Engine.DeleteTask(ctx, c.Principal, p); err != nil {
		return nil, err
	}
	if m.cfg.Webhook != nil {
		m.cfg.Webhook.CancelStaleOfTask(ctx, c.Principal.ID, p.ID) // its webhooks are deleted
	}
	return &a2a.DeleteTaskResult{TaskID: p.ID, Message: "Task " + p.ID + " deleted"}, nil
}

func (m *Methods) cancelTask(ctx context.Context, c *rpc.Call, p a2a.TaskIDParams) (*a2a.Task, error) {
	c.TaskID = p.ID
	t, err := m.cfg.Engine.Cancel(ctx, c.Principal, p.ID, sendOptions(c))
	if err != nil {
		return nil, err
	}
	return m.viewTask(ctx, c, t, nil)
}

func (m *Methods) resubscribe(ctx context.Context, c *rpc.Call, p a2a.TaskIDParams) (rpc.Stream, error) {
	c.TaskID = p.ID
	after, err := lastEventID(c.LastEventID)
	if err != nil {
		return rpc.Stream{}, err
	}
	t, err := m.cfg.Engine.Outline(ctx, c.Principal, p.ID)
	if err != nil {
		return rpc.Stream{}, err
	}
	follow := m.cfg.Engine.Follow
	if p.UntilFinished {
		follow = m.cfg.Engine.Subscribe
	}
	return rpc.Stream{
		Items: m.items(ctx, c, follow(ctx, c.Principal, p.ID, after), t.ContextID, nil),
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
