package cli

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/holdfast-dev/holdfast/cli/command"
)

// call calls a method and returns its result, as JSON and decoded.
func call[T any](ctx context.Context, a *app, c *connection, method string, params any) (json.RawMessage, *T, error) {
	cl, err := c.client(ctx, a, nil)
	if err != nil {
		return nil, nil, err
	}
	v := new(T)
	raw, err := cl.Invoke(ctx, method, params, v)
	if err != nil {
		return nil, nil, c.explain(ctx, a, err)
	}
	return inV03(cl, raw, v), v, nil
}

// show calls a method and prints its result: raw with --json, else with text.
func show[T any](ctx context.Context, a *app, c *connection, method string, params any, text func(*T)) error {
	raw, result, err := call[T](ctx, a, c, method, params)
	switch {
	case err != nil:
		return err
	case a.JSON:
		a.Out.JSON(raw)
	default:
		text(result)
	}
	return nil
}

// change calls a method and prints its result: raw with --json, else as the given text.
func (c *connection) change(ctx context.Context, a *app, method string, params any, text string) error {
	return show(ctx, a, c, method, params, func(*any) { a.Out.Line("%s", command.Clean(text)) })
}

// list is a paged list of a server.
type list[R any] struct {
	method string
	// params returns the params for the page of a token.
	params func(token string) any
	// add adds the items of a page to the table and returns the token of the next page.
	add func(page *R) (next string)
}

func (l list[R]) show(ctx context.Context, a *app, c *connection, p *command.PageFlags, t *command.Table) error {
	if err := p.Check(); err != nil {
		return err
	}
	return p.Each(t, func(token string) (json.RawMessage, string, error) {
		raw, page, err := call[R](ctx, a, c, l.method, l.params(token))
		if err != nil {
			return nil, "", err
		}
		return raw, l.add(page), nil
	})
}

// totalText formats the total of a list, such as 10,000+ if it is capped.
func totalText(n int, capped bool) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	if capped {
		text += "+"
	}
	return text
}
