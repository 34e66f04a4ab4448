package cli

import (
	"bufio"
	"context"

	"github.com/holdfast-dev/holdfast/a2a"
)

type tasksDeleteCmd struct {
	IDs   []string `arg:"" name:"id" help:"Task ids."`
	Yes   bool     `short:"y" help:"Do not ask for confirmation. Required without a terminal and with --json."`
	Force bool     `help:"Also delete tasks with undelivered webhook events, and drop these events."`

	connection
}

// Help implements [kong.HelpProvider].
func (tasksDeleteCmd) Help() string {
	return `Permanently deletes tasks with their messages, results, feedback and webhooks. An unfinished task is rejected (exit code 5): cancel it first. A task with undelivered webhook events is rejected unless --force is set.

Examples:

    holdfast tasks delete 01980a2e-...
    holdfast tasks list --state failed --all --json | jq -r .id | xargs holdfast tasks delete --yes`
}

// Run deletes tasks. It continues after errors.
func (c *tasksDeleteCmd) Run(ctx context.Context, a *app) error {
	confirm, err := a.needsConfirmation(c.Yes)
	if err != nil {
		return err
	}
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	keyboard := bufio.NewReader(a.stdin)
	return a.each(ctx, c.IDs, func(id string) error {
		if confirm {
			if err := a.confirm(ctx, keyboard, "task "+clean(id)); err != nil {
				return err
			}
		}
		raw, _, err := callMethod[map[string]string](ctx, cl, a2a.MethodTasksDelete, a2a.DeleteTaskParams{ID: id, Force: c.Force})
		if err != nil {
			return c.explain(ctx, a, err)
		}
		a.printChange(raw, "deleted "+id)
		return nil
	})
}
