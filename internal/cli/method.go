package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
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
	case a.json:
		a.out.json(raw)
	default:
		text(result)
	}
	return nil
}

// change calls a method and prints its result: raw with --json, else as the given text.
func (c *connection) change(ctx context.Context, a *app, method string, params any, text string) error {
	return show(ctx, a, c, method, params, func(*any) { a.out.line("%s", clean(text)) })
}

// each calls do for every id, also after errors. It returns the first error and reports the
// others.
func (a *app) each(ctx context.Context, ids []string, do func(id string) error) error {
	var first error
	for _, id := range ids {
		err := do(id)
		switch {
		case err == nil:
		case first == nil:
			first = err
		default:
			a.report(err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return first
}

// maxPage is the maximum page size of servers.
const maxPage = 100

// pageFlags has the flags of paged lists.
type pageFlags struct {
	Limit     int    `short:"n" default:"20" help:"${items} per page, at most 100."`
	PageToken string `placeholder:"TOKEN" help:"Continue from a previous page."`
	All       bool   `help:"Show all pages. With --json: one ${item} per line${but}."`
}

// check checks the page size.
func (p *pageFlags) check() error {
	if p.Limit < 1 || p.Limit > maxPage {
		return usagef("--limit is %d, want 1 to %d: --all shows all pages", p.Limit, maxPage)
	}
	return nil
}

// each shows one page, or all pages with --all. fetch adds the items of the page of a token to t, and
// returns the page as JSON and the token of the next page, "" after the last.
func (p *pageFlags) each(t *table, fetch func(token string) (raw json.RawMessage, next string, err error)) error {
	token := p.PageToken
	for {
		raw, next, err := fetch(token)
		switch {
		case err != nil:
			return err
		case t.a.json && p.All:
			if err := t.writeItems(raw); err != nil {
				return err
			}
		case t.a.json:
			t.a.out.json(raw)
		}
		if token = next; !p.All || token == "" {
			break
		}
	}
	if t.rows == 0 {
		t.a.info("no %s", t.what)
	}
	if token != "" {
		t.a.info("more results%s: --all shows all, --page-token %s shows the next page", t.total, token)
	}
	return nil
}

// list is a paged list of a server.
type list[R any] struct {
	method string
	// params returns the params for the page of a token.
	params func(token string) any
	// add adds the items of a page to the table and returns the token of the next page.
	add func(page *R) (next string)
}

func (l list[R]) show(ctx context.Context, c *connection, p *pageFlags, t *table) error {
	if err := p.check(); err != nil {
		return err
	}
	return p.each(t, func(token string) (json.RawMessage, string, error) {
		raw, page, err := call[R](ctx, t.a, c, l.method, l.params(token))
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

// confirmFlag is the --yes flag of permanent deletions.
type confirmFlag struct {
	Yes bool `short:"y" help:"Do not ask for confirmation. Required without a terminal and with --json."`
}

// delete deletes each of ids, after it has asked the user unless --yes is set. what describes an id for
// the question.
func (f *confirmFlag) delete(ctx context.Context, a *app, ids []string, what func(id string) (string, error), do func(id string) error) error {
	if err := f.check(a); err != nil {
		return err
	}
	var keyboard *bufio.Reader
	if !f.Yes {
		keyboard = bufio.NewReader(a.stdin)
	}
	return a.each(ctx, ids, func(id string) error {
		if keyboard != nil {
			text, err := what(id)
			if err == nil {
				err = a.confirm(ctx, keyboard, text)
			}
			if err != nil {
				return err
			}
		}
		return do(id)
	})
}

// check returns an error if the user can neither confirm a deletion nor has confirmed it.
func (f *confirmFlag) check(a *app) error {
	if !f.Yes && (a.json || !isTerminal(a.stdin) || !a.err.terminal) {
		return usagef("--yes is required without a terminal and with --json: the deletion is permanent")
	}
	return nil
}

// errNotConfirmed reports that the user did not confirm a deletion.
var errNotConfirmed = errors.New("nothing was deleted")

// confirm asks the user whether to delete something. It returns errNotConfirmed if not.
func (a *app) confirm(ctx context.Context, keyboard *bufio.Reader, what string) error {
	_, _ = fmt.Fprintf(a.err.w, "Delete %s permanently? [y/N] ", what)
	answer := make(chan string, 1)
	go func() {
		line, err := keyboard.ReadString('\n')
		if err != nil {
			line = ""
			a.err.line("")
		}
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case reply := <-answer:
		if reply == "y" || reply == "yes" {
			return nil
		}
		return errNotConfirmed
	case <-ctx.Done():
		a.err.line("")
		return context.Cause(ctx)
	}
}
