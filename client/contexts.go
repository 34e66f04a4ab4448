package client

import (
	"context"
	"iter"

	"github.com/holdfast-dev/holdfast/a2a"
)

// ListContexts returns a page of the caller's contexts. Filters, order and page are
// members of p.Metadata. The method is an extension of A2A.
func (c *Client) ListContexts(ctx context.Context, p a2a.ListContextsParams) (*a2a.ListContextsResult, error) {
	return result[a2a.ListContextsResult](ctx, c, a2a.MethodContextsList, p)
}

// Contexts yields the contexts of all pages from p.PageToken or p.Offset on, which may also be
// members of p.Metadata. It fetches a page after the previous one was consumed, and ends after the
// first error.
func (c *Client) Contexts(ctx context.Context, p a2a.ListContextsParams) iter.Seq2[a2a.Context, error] {
	return pages(p.PageToken, func(token string) ([]a2a.Context, string, error) {
		p := p
		if token != p.PageToken {
			p.PageToken, p.Offset, p.Metadata = token, nil, withoutPosition(p.Metadata)
		}
		page, err := c.ListContexts(ctx, p)
		if err != nil {
			return nil, "", err
		}
		return page.Contexts, page.NextPageToken, nil
	})
}

// GetContext returns a context with up to p.HistoryLength messages of each of its
// tasks. The method is an extension of A2A.
func (c *Client) GetContext(ctx context.Context, p a2a.ContextQueryParams) (*a2a.Context, error) {
	return result[a2a.Context](ctx, c, a2a.MethodContextsGet, p)
}

// CreateContext creates a context and returns it. The method is an extension of
// A2A.
func (c *Client) CreateContext(ctx context.Context, p a2a.CreateContextParams) (*a2a.Context, error) {
	return result[a2a.Context](ctx, c, a2a.MethodContextsCreate, p)
}

// UpdateContext changes a context and returns its new state. The method is an
// extension of A2A.
func (c *Client) UpdateContext(ctx context.Context, p a2a.UpdateContextParams) (*a2a.Context, error) {
	return result[a2a.Context](ctx, c, a2a.MethodContextsUpdate, p)
}

// ClearContext deletes a context with all its tasks. It returns the number of
// tasks, or 0 if the response does not have it. The method is an extension of
// A2A.
func (c *Client) ClearContext(ctx context.Context, p a2a.ClearContextParams) (tasks int, err error) {
	out, err := result[a2a.ClearContextResult](ctx, c, a2a.MethodContextsClear, p)
	if err != nil {
		return 0, err
	}
	return out.Tasks, nil
}

// Feedback submits feedback on a task and returns its id, or "" if the response
// does not have it. The method is an extension of A2A.
func (c *Client) Feedback(ctx context.Context, p a2a.TaskFeedbackParams) (id string, err error) {
	out, err := result[a2a.TaskFeedbackResult](ctx, c, a2a.MethodFeedback, p)
	if err != nil {
		return "", err
	}
	return out.FeedbackID, nil
}

// ListFeedback returns a page of the caller's feedback, newest first. The method is
// an extension of A2A.
func (c *Client) ListFeedback(ctx context.Context, p a2a.ListTaskFeedbackParams) (*a2a.ListTaskFeedbackResult, error) {
	return result[a2a.ListTaskFeedbackResult](ctx, c, a2a.MethodFeedbackList, p)
}
