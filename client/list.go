package client

import (
	"context"
	"iter"

	"github.com/holdfast-dev/holdfast/a2a"
)

// List reads a page of the caller's tasks, newest first. It is an extension of
// A2A 0.3.
func (c *Client) List(ctx context.Context, p a2a.ListTasksParams) (*a2a.ListTasksResult, error) {
	return result[a2a.ListTasksResult](ctx, c, a2a.MethodList, p)
}

// Tasks yields the tasks of all pages from p.PageToken on, fetching each page
// when the one before has been consumed. It ends after the first error.
func (c *Client) Tasks(ctx context.Context, p a2a.ListTasksParams) iter.Seq2[a2a.Task, error] {
	return func(yield func(a2a.Task, error) bool) {
		for {
			page, err := c.List(ctx, p)
			if err != nil {
				yield(a2a.Task{}, err)
				return
			}
			for _, task := range page.Tasks {
				if !yield(task, nil) {
					return
				}
			}
			if page.NextPageToken == "" {
				return
			}
			if page.NextPageToken == p.PageToken {
				yield(a2a.Task{}, a2a.Errorf(a2a.CodeInvalidAgentResponse, "the agent answers with the same page again"))
				return
			}
			p.PageToken = page.NextPageToken
		}
	}
}
