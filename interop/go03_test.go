package interop_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"testing"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
	"github.com/a2aproject/a2a-go/a2aclient/agentcard"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// go03 is the official Go SDK of A2A 0.3.
type go03 struct {
	client *a2aclient.Client
	agent  cardInfo
}

func connectGo03(t *testing.T, url string) peer {
	t.Helper()
	return newGo03(t, url)
}

// insecurely lets clients connect without TLS.
var insecurely = grpc.WithTransportCredentials(insecure.NewCredentials())

func connectGo03GRPC(t *testing.T, url string) peer {
	t.Helper()
	return newGo03(t, url, a2aclient.WithDefaultsDisabled(), a2aclient.WithGRPCTransport(insecurely))
}

func newGo03(t *testing.T, url string, opts ...a2aclient.FactoryOption) peer {
	t.Helper()
	c, err := agentcard.DefaultResolver.Resolve(t.Context(), url)
	if err != nil {
		t.Fatalf("resolve card: %v", err)
	}
	client, err := a2aclient.NewFromCard(t.Context(), c, opts...)
	if err != nil {
		t.Fatalf("client from card: %v", err)
	}
	t.Cleanup(func() { _ = client.Destroy() })
	return &go03{client, cardInfo{name: c.Name, skills: len(c.Skills), streaming: c.Capabilities.Streaming, push: c.Capabilities.PushNotifications}}
}

func (p *go03) card() cardInfo { return p.agent }

func (p *go03) params(s sending) (*a2a.MessageSendParams, error) {
	blocking := !s.immediate
	params := &a2a.MessageSendParams{Config: &a2a.MessageSendConfig{Blocking: &blocking}}
	if s.hook != nil {
		params.Config.PushConfig = &a2a.PushConfig{ID: s.hook.id, URL: s.hook.url, Token: s.hook.token}
	}
	return params, json.Unmarshal(to03(s.message), &params.Message)
}

func (p *go03) send(ctx context.Context, s sending) (event, error) {
	params, err := p.params(s)
	if err != nil {
		return event{}, err
	}
	return event03(p.client.SendMessage(ctx, params))
}

func (p *go03) stream(ctx context.Context, s sending) iter.Seq2[event, error] {
	params, err := p.params(s)
	if err != nil {
		return failing(err)
	}
	return each(p.client.SendStreamingMessage(ctx, params), event03[a2a.Event])
}

func (p *go03) resubscribe(ctx context.Context, id string) iter.Seq2[event, error] {
	return each(p.client.ResubscribeToTask(ctx, &a2a.TaskIDParams{ID: a2a.TaskID(id)}), event03[a2a.Event])
}

func (p *go03) task(ctx context.Context, id string) (event, error) {
	return event03(p.client.GetTask(ctx, &a2a.TaskQueryParams{ID: a2a.TaskID(id)}))
}

func (p *go03) cancel(ctx context.Context, id string) (event, error) {
	return event03(p.client.CancelTask(ctx, &a2a.TaskIDParams{ID: a2a.TaskID(id)}))
}

func (p *go03) setHook(ctx context.Context, h hook) (hook, error) {
	c, err := p.client.SetTaskPushConfig(ctx, &a2a.TaskPushConfig{
		TaskID: a2a.TaskID(h.taskID), Config: a2a.PushConfig{ID: h.id, URL: h.url, Token: h.token},
	})
	if err != nil {
		return hook{}, failure03(err)
	}
	return hook{id: c.Config.ID, taskID: string(c.TaskID), url: c.Config.URL}, nil
}

func (p *go03) hook(ctx context.Context, task, id string) (hook, error) {
	c, err := p.client.GetTaskPushConfig(ctx, &a2a.GetTaskPushConfigParams{TaskID: a2a.TaskID(task), ConfigID: id})
	if err != nil {
		return hook{}, failure03(err)
	}
	return hook{id: c.Config.ID, taskID: string(c.TaskID), url: c.Config.URL}, nil
}

func (p *go03) hooks(ctx context.Context, task string) ([]hook, error) {
	list, err := p.client.ListTaskPushConfig(ctx, &a2a.ListTaskPushConfigParams{TaskID: a2a.TaskID(task)})
	var hooks []hook
	for _, c := range list {
		hooks = append(hooks, hook{id: c.Config.ID, taskID: string(c.TaskID), url: c.Config.URL})
	}
	return hooks, failure03(err)
}

func (p *go03) deleteHook(ctx context.Context, task, id string) error {
	return failure03(p.client.DeleteTaskPushConfig(ctx, &a2a.DeleteTaskPushConfigParams{TaskID: a2a.TaskID(task), ConfigID: id}))
}

func event03[T any](v T, err error) (event, error) {
	if err != nil {
		return event{}, failure03(err)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return event{}, err
	}
	return from03(raw)
}

func failure03(err error) error {
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
