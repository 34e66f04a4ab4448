package client

import (
	"context"
	"iter"
	"maps"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// List returns a page of the caller's tasks, newest first. In A2A 0.3 the
// method is an extension.
func (c *Client) List(ctx context.Context, p a2a.ListTasksParams) (*a2a.ListTasksResult, error) {
	return result[a2a.ListTasksResult](ctx, c, a2a.MethodList, p)
}

// Tasks yields the tasks of all pages from p.PageToken or p.Offset on. It fetches a page
// after the previous one was consumed, and ends after the first error.
func (c *Client) Tasks(ctx context.Context, p a2a.ListTasksParams) iter.Seq2[a2a.Task, error] {
	return pages(p.PageToken, func(token string) ([]a2a.Task, string, error) {
		p := p
		if token != p.PageToken {
			p.PageToken, p.Offset, p.Metadata = token, nil, withoutPosition(p.Metadata)
		}
		page, err := c.List(ctx, p)
		if err != nil {
			return nil, "", err
		}
		return page.Tasks, page.NextPageToken, nil
	})
}

// withoutPosition returns the metadata of a list without the position of its first page, for the
// pages after it.
func withoutPosition(metadata map[string]any) map[string]any {
	metadata = maps.Clone(metadata)
	for name := range metadata {
		if wire.Camel(name) == "pageToken" || name == "offset" {
			delete(metadata, name)
		}
	}
	return metadata
}

// pages yields the items of all pages, starting with the page of token.
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
