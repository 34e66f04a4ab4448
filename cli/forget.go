package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/engine"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/contract"
)

// forgetCmd deletes all data of a principal.
type forgetCmd struct {
	Principal command.NonEmpty `arg:"" help:"Principal, the owner of the data."`
	Cancel    bool             `help:"Cancel tasks that are waiting or running. Without it they are an error, and nothing is deleted."`
	command.ConfirmFlag

	keptStorage
}

// Run deletes the data.
func (c *forgetCmd) Run(ctx context.Context, a *app) error {
	if err := c.Check(&a.Console); err != nil {
		return err
	}
	owner := string(c.Principal)
	return c.openKept(ctx, a, true, func(main store.Store, contracts engine.Contracts) error {
		what := "all data of principal " + command.OneLine(owner, 0)
		return c.Delete(ctx, &a.Console, []string{owner}, func(string) (string, error) { return what, nil }, func(string) error {
			report, err := engine.Forget(ctx, engine.ForgetParams{Store: main, Contracts: contracts, Owner: owner, Cancel: c.Cancel})
			return c.report(ctx, a, report, err)
		})
	})
}

// report prints what was deleted, also after an error, which it returns with a hint.
func (c *forgetCmd) report(ctx context.Context, a *app, r engine.ForgetReport, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	rows := contract.Counts{"canceled": r.Canceled}
	rows.AddAll(r.Removed)
	nothing := rows.Total() == 0
	if a.JSON && (err == nil || !nothing) {
		if werr := a.WriteResult(r); werr != nil {
			return errors.Join(err, werr)
		}
	}
	if !a.JSON && (err == nil || !nothing) {
		a.Out.Line("%s", a.Out.Bold("deleted of principal "+command.OneLine(string(c.Principal), 0)))
		for _, name := range a.forgetNames() {
			if rows[name] > 0 {
				a.Out.Line("  %-13s  %d", words(name), rows[name])
			}
		}
		if nothing {
			a.Out.Line("  nothing: it has no data")
		}
	}
	for _, note := range r.Notes {
		a.Info("%s %s", a.Err.Red("note:"), note)
	}
	switch {
	case err == nil:
		return nil
	case a2a.CodeOf(err) == a2a.CodeConflict && nothing:
		return command.WithHint(err, "--cancel cancels them")
	}
	return command.WithHint(err, fmt.Sprintf("run the command again to delete the rest: %s forget %s", a.name, quoteShell(string(c.Principal))))
}

// forgetNames returns the names of what a report of a deletion counts, in the order for people.
func (a *app) forgetNames() []string {
	names := []string{"canceled", engine.RemovedTasks, engine.RemovedContexts, engine.RemovedFeedback, engine.RemovedWebhooks, engine.RemovedRecords}
	for _, kind := range a.kinds {
		names = append(names, kind.Counts...)
	}
	return names
}

// words returns a camelCase name as words.
func words(name string) string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
