package client

import (
	"context"
	"iter"

	"github.com/holdfast-dev/holdfast/a2a"
)

// List returns a page of the caller's tasks, newest first. The method is an
// extension of A2A 0.3.
func (c *Client) List(ctx context.Context, p a2a.ListTasksParams) (*a2a.ListTasksResult, error) {
	return result[a2a.ListTasksResult](ctx, c, a2a.MethodList, p)
}

// Tasks yields the tasks of all pages from p.PageToken on. It fetches a page after
// the previous one was consumed, and ends after the first error.
func (c *Client) Tasks(ctx context.Context, p a2a.ListTasksParams) iter.Seq2[a2a.Task, error] {
	return pages(p.PageToken, func(token string) ([]a2a.Task, string, error) {
		p.PageToken = token
		page, err := c.List(ctx, p)
		if err != nil {
			return nil, "", err
		}
		return page.Tasks, page.NextPageToken, nil
	})
}

// pages yields the items of all pages, starting with that of token.
func pages[T any](token string, read func(token string) (items []T, next string, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		for at := token; ; {
			items, next, err := read(at)
			if err != nil {
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			if next == at {
				yield(none, a2a.Errorf(a2a.CodeInvalidAgentResponse, "the agent returned the same page twice"))
				return
			}
			at = next
		}
	}
}
