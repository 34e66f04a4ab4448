package methods

import (
	"context"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/rpc"
)

func (m *Methods) listContexts(ctx context.Context, c *rpc.Call, p a2a.ListContextsParams) (*a2a.ListContextsResult, error) {
	list, err := m.cfg.Engine.Contexts(ctx, c.Principal, p)
	if err != nil {
		return nil, err
	}
	out := &a2a.ListContextsResult{
		Contexts: make([]a2a.Context, len(list.Contexts)), Total: list.Total, TotalCapped: list.TotalCapped,
		Page: list.Page, PageSize: list.PageSize, NextPageToken: list.NextPageToken, TruncatedBySize: list.TruncatedBySize,
	}
	for i := range list.Contexts {
		history, err := m.viewHistory(ctx, c, list.Contexts[i].History)
		if err != nil {
			return nil, err
		}
		out.Contexts[i] = *convertContext(&list.Contexts[i].Context, history)
	}
	return out, nil
}

func (m *Methods) getContext(ctx context.Context, c *rpc.Call, p a2a.ContextQueryParams) (*a2a.Context, error) {
	found, err := m.cfg.Engine.Context(ctx, c.Principal, p.ContextID, p.HistoryLength)
	if err != nil {
		return nil, err
	}
	history, err := m.viewHistory(ctx, c, found.History)
	return convertContext(&found.Context, history), err
}

func (m *Methods) createContext(ctx context.Context, c *rpc.Call, p a2a.CreateContextParams) (*a2a.Context, error) {
	created, err := m.cfg.Engine.CreateContext(ctx, c.Principal, p, sendOptions(c))
	if err != nil {
		return nil, err
	}
	return convertContext(&created, nil), nil
}

func (m *Methods) updateContext(ctx context.Context, c *rpc.Call, p a2a.UpdateContextParams) (*a2a.Context, error) {
	updated, err := m.cfg.Engine.UpdateContext(ctx, c.Principal, p, sendOptions(c))
	if err != nil {
		return nil, err
	}
	return convertContext(&updated, nil), nil
}

func (m *Methods) clearContext(ctx context.Context, c *rpc.Call, p a2a.ClearContextParams) (*a2a.ClearContextResult, error) {
	tasks, err := m.cfg.Engine.ClearContext(ctx, c.Principal, p, sendOptions(c))
	if m.cfg.Webhook != nil {
		m.cfg.Webhook.CancelStale(ctx, c.Principal.ID, p.ContextID) // the webhooks of its tasks are deleted
	}
	if err != nil {
		return nil, err
	}
	return &a2a.ClearContextResult{
		ContextID: p.ContextID, Tasks: tasks,
		Message: fmt.Sprintf("Context %s and all associated tasks cleared successfully", p.ContextID),
	}, nil
}

func (m *Methods) addFeedback(ctx context.Context, c *rpc.Call, p a2a.TaskFeedbackParams) (*a2a.TaskFeedbackResult, error) {
	c.TaskID = p.TaskID
	added, err := m.cfg.Engine.AddFeedback(ctx, c.Principal, p, sendOptions(c))
	if err != nil {
		return nil, err
	}
	return &a2a.TaskFeedbackResult{TaskID: added.Key.ID, FeedbackID: added.ID, Message: "Feedback submitted successfully"}, nil
}

func (m *Methods) listFeedback(ctx context.Context, c *rpc.Call, p a2a.ListTaskFeedbackParams) (*a2a.ListTaskFeedbackResult, error) {
	c.TaskID = p.TaskID
	list, err := m.cfg.Engine.Feedback(ctx, c.Principal, p)
	if err != nil {
		return nil, err
	}
	out := &a2a.ListTaskFeedbackResult{
		Feedback: make([]a2a.TaskFeedback, len(list.Feedback)), NextPageToken: list.NextPageToken,
		PageSize: list.PageSize, Summary: convertFeedbackSummary(list.Summary),
	}
	for i := range list.Feedback {
		out.Feedback[i] = convertFeedback(&list.Feedback[i])
	}
	return out, nil
}
