package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// MaxPage is the maximum page size of servers.
const MaxPage = 100

// PageFlags has the flags of paged lists.
type PageFlags struct {
	Limit     int    `short:"n" default:"20" help:"${items} per page, at most 100."`
	PageToken string `placeholder:"TOKEN" help:"Continue from a previous page."`
	All       bool   `help:"Show all pages. With --json: one ${item} per line${but}."`
}

// Check checks the page size.
func (p *PageFlags) Check() error {
	if p.Limit < 1 || p.Limit > MaxPage {
		return Usagef("--limit is %d, want 1 to %d: --all shows all pages", p.Limit, MaxPage)
	}
	return nil
}

// Each shows one page, or all pages with --all. fetch adds the items of the page of a token to t, and
// returns the page as JSON and the token of the next page, "" after the last.
func (p *PageFlags) Each(t *Table, fetch func(token string) (raw json.RawMessage, next string, err error)) error {
	token := p.PageToken
	for {
		raw, next, err := fetch(token)
		switch {
		case err != nil:
			return err
		case t.Console.JSON && p.All:
			if err := t.writeItems(raw); err != nil {
				return err
			}
		case t.Console.JSON:
			t.Console.Out.JSON(raw)
		}
		if token = next; !p.All || token == "" {
			break
		}
	}
	if t.Rows == 0 {
		t.Console.Info("no %s", t.what)
	}
	if token != "" {
		t.Console.Info("more results%s: --all shows all, --page-token %s shows the next page", t.Total, token)
	}
	return nil
}

// ConfirmFlag is the --yes flag of permanent deletions.
type ConfirmFlag struct {
	Yes bool `short:"y" help:"Do not ask for confirmation. Required without a terminal and with --json."`
}

// Delete deletes each of ids, after it has asked the user unless --yes is set. what describes an id for
// the question.
func (f *ConfirmFlag) Delete(ctx context.Context, a *Console, ids []string, what func(id string) (string, error), do func(id string) error) error {
	if err := f.Check(a); err != nil {
		return err
	}
	var keyboard *bufio.Reader
	if !f.Yes {
		keyboard = bufio.NewReader(a.Stdin)
	}
	return a.Each(ctx, ids, func(id string) error {
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

// Check returns an error if the user can neither confirm a deletion nor has confirmed it.
func (f *ConfirmFlag) Check(a *Console) error {
	if !f.Yes && (a.JSON || !IsTerminal(a.Stdin) || !a.Err.Terminal) {
		return Usagef("--yes is required without a terminal and with --json: the deletion is permanent")
	}
	return nil
}

// errNotConfirmed reports that the user did not confirm a deletion.
var errNotConfirmed = errors.New("nothing was deleted")

// confirm asks the user whether to delete something. It returns errNotConfirmed if not.
func (a *Console) confirm(ctx context.Context, keyboard *bufio.Reader, what string) error {
	_, _ = fmt.Fprintf(a.Err.W, "Delete %s permanently? [y/N] ", what)
	answer := make(chan string, 1)
	go func() {
		line, err := keyboard.ReadString('\n')
		if err != nil {
			line = ""
			a.Err.Line("")
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
		a.Err.Line("")
		return context.Cause(ctx)
	}
}
