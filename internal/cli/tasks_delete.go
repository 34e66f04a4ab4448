package cli

import (
	"bufio"
	"context"

	"github.com/holdfast-dev/holdfast/a2a"
)

type tasksDeleteCmd struct {
	IDs   []string `arg:"" name:"id" help:"The ids of the tasks."`
	Yes   bool     `short:"y" help:"Do not ask. Needed where nobody can be asked: without a terminal, and with --json."`
	Force bool     `help:"Also delete tasks with webhook events that are not delivered yet, and drop these events."`

	connection
}

// Help has examples.
func (tasksDeleteCmd) Help() string {
	return `Deletes tasks with their messages, results, feedback and webhooks. Nothing brings them back. A task that is not finished, or that has undelivered webhook events, is rejected (exit code 5): cancel it first, or set --force.

Examples:

    holdfast tasks delete 01980a2e-...
    holdfast tasks list --state failed --all --json | jq -r .id | xargs holdfast tasks delete --yes`
}

// Run deletes tasks, all of them even if one is rejected.
func (c *tasksDeleteCmd) Run(ctx context.Context, a *app) error {
	asking, err := a.asking(c.Yes)
	if err != nil {
		return err
	}
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	keyboard := bufio.NewReader(a.stdin)
	return a.each(ctx, c.IDs, func(id string) error {
		if asking {
			if err := a.confirm(ctx, keyboard, "task "+clean(id)); err != nil {
				return err
			}
		}
		raw, _, err := ask[map[string]string](ctx, cl, a2a.MethodTasksDelete, a2a.DeleteTaskParams{ID: id, Force: c.Force})
		if err != nil {
			return c.explain(ctx, a, err)
		}
		a.changed(raw, "deleted "+id)
		return nil
	})
}
