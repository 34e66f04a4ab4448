package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	grpcv1 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
)

// go10 is the official Go SDK of A2A 1.0, or its compatibility client of 0.3.
type go10 struct {
	client *a2aclient.Client
	agent  cardInfo
}

func connectGo10(binding a2a.TransportProtocol) func(*testing.T, string) peer {
	return func(t *testing.T, url string) peer {
		t.Helper()
		return newGo10(t, url, agentcard.DefaultResolver, grpcv1.WithGRPCTransport(insecurely),
			a2aclient.WithConfig(a2aclient.Config{PreferredTransports: []a2a.TransportProtocol{binding}}))
	}
}

// connectGo10Compat offers the client 0.3 only.
func connectGo10Compat(transport a2aclient.FactoryOption) func(*testing.T, string) peer {
	return func(t *testing.T, url string) peer {
		t.Helper()
		return newGo10(t, url, &agentcard.Resolver{CardParser: a2av0.NewAgentCardParser()}, a2aclient.WithDefaultsDisabled(), transport)
	}
}

func newGo10(t *testing.T, url string, resolver *agentcard.Resolver, opts ...a2aclient.FactoryOption) peer {
	t.Helper()
	c, err := resolver.Resolve(t.Context(), url)
	if err != nil {
		t.Fatalf("resolve card: %v", err)
	}
	client, err := a2aclient.NewFromCard(t.Context(), c, opts...)
	if err != nil {
		t.Fatalf("client from card: %v", err)
	}
	t.Cleanup(func() { _ = client.Destroy() })
	return &go10{client, cardInfo{name: c.Name, skills: len(c.Skills), streaming: c.Capabilities.Streaming, push: c.Capabilities.PushNotifications}}
}

func (p *go10) card() cardInfo { return p.agent }

func (p *go10) request(s sending) (*a2a.SendMessageRequest, error) {
	req := &a2a.SendMessageRequest{Config: &a2a.SendMessageConfig{ReturnImmediately: s.immediate}}
	if s.hook != nil {
		req.Config.PushConfig = &a2a.PushConfig{ID: s.hook.id, URL: s.hook.url, Token: s.hook.token}
	}
	return req, json.Unmarshal(to10(s.message), &req.Message)
}

func (p *go10) send(ctx context.Context, s sending) (event, error) {
	req, err := p.request(s)
	if err != nil {
		return event{}, err
	}
	return event10(p.client.SendMessage(ctx, req))
}

func (p *go10) stream(ctx context.Context, s sending) iter.Seq2[event, error] {
	req, err := p.request(s)
	if err != nil {
		return failing(err)
	}
	return each(p.client.SendStreamingMessage(ctx, req), event10[a2a.Event])
}

func (p *go10) resubscribe(ctx context.Context, id string) iter.Seq2[event, error] {
	return each(p.client.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: a2a.TaskID(id)}), event10[a2a.Event])
}

func (p *go10) task(ctx context.Context, id string) (event, error) {
	return event10(p.client.GetTask(ctx, &a2a.GetTaskRequest{ID: a2a.TaskID(id)}))
}

func (p *go10) cancel(ctx context.Context, id string) (event, error) {
	return event10(p.client.CancelTask(ctx, &a2a.CancelTaskRequest{ID: a2a.TaskID(id)}))
}

func (p *go10) setHook(ctx context.Context, h hook) (hook, error) {
	return hook10(p.client.CreateTaskPushConfig(ctx, &a2a.PushConfig{TaskID: a2a.TaskID(h.taskID), ID: h.id, URL: h.url, Token: h.token}))
}

func (p *go10) hook(ctx context.Context, task, id string) (hook, error) {
	return hook10(p.client.GetTaskPushConfig(ctx, &a2a.GetTaskPushConfigRequest{TaskID: a2a.TaskID(task), ID: id}))
}

func (p *go10) hooks(ctx context.Context, task string) ([]hook, error) {
	list, err := p.client.ListTaskPushConfigs(ctx, &a2a.ListTaskPushConfigRequest{TaskID: a2a.TaskID(task)})
	var hooks []hook
	for _, c := range list {
		h, _ := hook10(c, nil)
		hooks = append(hooks, h)
	}
	return hooks, failure10(err)
}

func (p *go10) deleteHook(ctx context.Context, task, id string) error {
	return failure10(p.client.DeleteTaskPushConfig(ctx, &a2a.DeleteTaskPushConfigRequest{TaskID: a2a.TaskID(task), ID: id}))
}

func event10[T a2a.Event](v T, err error) (event, error) {
	if err != nil {
		return event{}, failure10(err)
	}
	raw, err := json.Marshal(a2a.StreamResponse{Event: v})
	if err != nil {
		return event{}, err
	}
	return from10(raw)
}

func hook10(c *a2a.PushConfig, err error) (hook, error) {
	if err != nil {
		return hook{}, failure10(err)
	}
	return hook{id: c.ID, taskID: string(c.TaskID), url: c.URL}, nil
}

func failure10(err error) error {
	for known, code := range map[error]int{
		a2a.ErrInvalidParams: codeInvalidParams, a2a.ErrTaskNotFound: codeTaskNotFound,
		a2a.ErrTaskNotCancelable: codeTaskNotCancelable, a2a.ErrUnsupportedOperation: codeUnsupportedOperation,
	} {
		if errors.Is(err, known) {
			return &failure{code, err}
		}
	}
	return err
}
