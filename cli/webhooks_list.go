package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/webhook"
)

type webhooksListCmd struct {
	Task command.NonEmpty `arg:"" optional:"" help:"Task id. Optional with --owner and --all-owners."`

	operatorFlags
	connection
}

// Run lists webhooks.
func (c *webhooksListCmd) Run(ctx context.Context, a *app) error {
	if c.usesStore() {
		return c.list(ctx, a, string(c.Task))
	}
	if err := c.checkRemote(a, string(c.Task)); err != nil {
		return err
	}
	raw, list, err := webhooksOf(ctx, a, &c.connection, c.Task)
	switch {
	case err != nil:
		return err
	case a.JSON:
		a.Out.JSON(raw)
		return nil
	case len(list) == 0:
		a.Info("no webhooks")
		return nil
	}
	letters, err := c.deadLetters(ctx, a, a2a.ListDeadLettersParams{TaskID: string(c.Task)})
	if err != nil {
		return err
	}
	t, dead := webhookTable(a, false), countDead(letters)
	for i := range list {
		addWebhook(t, "", &list[i], dead.of("", &list[i]))
	}
	return nil
}

type webhooksAttemptsCmd struct {
	Task command.NonEmpty `arg:"" optional:"" help:"Task id. Optional with --owner and --all-owners."`
	ID   command.NonEmpty `arg:"" optional:"" help:"Webhook id (default all webhooks of the task)."`

	command.PageFlags `group:"Pages:" set:"items=Items" set:"item=item" set:"but="`
	operatorFlags
	connection
}

// Run lists attempts.
func (c *webhooksAttemptsCmd) Run(ctx context.Context, a *app) error {
	if c.usesStore() {
		return c.attempts(ctx, a, string(c.Task), string(c.ID), &c.PageFlags)
	}
	if err := c.checkRemote(a, string(c.Task)); err != nil {
		return err
	}
	t := attemptTable(a, false)
	return c.explainWebhook(a, c.Task, list[a2a.ListAttemptsResult]{
		a2a.MethodPushAttempts,
		func(token string) any {
			return a2a.ListAttemptsParams{TaskID: string(c.Task), ConfigID: string(c.ID), PageSize: c.Limit, PageToken: token}
		},
		func(page *a2a.ListAttemptsResult) string {
			for i := range page.Attempts {
				addAttempt(t, nil, &page.Attempts[i])
			}
			return page.NextPageToken
		},
	}.show(ctx, a, &c.connection, &c.PageFlags, t))
}

type webhooksDeadCmd struct {
	Task command.NonEmpty `placeholder:"ID" group:"Filter:" help:"Only dead letters of this task."`

	command.PageFlags `group:"Pages:" set:"items=Items" set:"item=item" set:"but="`
	operatorFlags
	connection
}

// Run lists dead letters.
func (c *webhooksDeadCmd) Run(ctx context.Context, a *app) error {
	if c.usesStore() {
		return c.dead(ctx, a, string(c.Task), &c.PageFlags)
	}
	if err := c.checkRemote(a, "any"); err != nil {
		return err
	}
	t := deadTable(a, false)
	return list[a2a.ListDeadLettersResult]{
		a2a.MethodDeadLetters,
		func(token string) any {
			return a2a.ListDeadLettersParams{TaskID: string(c.Task), PageSize: c.Limit, PageToken: token}
		},
		func(page *a2a.ListDeadLettersResult) string {
			for i := range page.DeadLetters {
				addDead(t, "", &page.DeadLetters[i])
			}
			return page.NextPageToken
		},
	}.show(ctx, a, &c.connection, &c.PageFlags, t)
}

type webhooksReplayCmd struct {
	Task command.NonEmpty `arg:"" optional:"" help:"Task id. Optional with --owner or --all-owners; without it, all webhooks with dead letters."`
	ID   command.NonEmpty `arg:"" optional:"" help:"Webhook id (default the only webhook of the task; with --owner the global webhook counts too)."`
	From int64            `help:"Sequence number of the first event to send, from 1 (default the first dead letter)."`

	operatorFlags
	connection
}

// Run moves the cursor of a webhook back.
func (c *webhooksReplayCmd) Run(ctx context.Context, a *app) error {
	if c.From < 1 && a.set.origins["from"].rank == byFlag {
		return command.Usagef("--from must be 1 or more")
	}
	if c.usesStore() {
		return c.replay(ctx, a, string(c.Task), string(c.ID), c.From)
	}
	if err := c.checkRemote(a, string(c.Task)); err != nil {
		return err
	}
	params := a2a.ReplayParams{TaskID: string(c.Task), ConfigID: string(c.ID), FromSequence: c.From}
	return c.explainWebhook(a, c.Task, show(ctx, a, &c.connection, a2a.MethodPushReplay, params, func(set *a2a.ReplayResult) {
		a.Out.Line("%s", command.Clean(replayText(set)))
	}))
}

func replayText(r *a2a.ReplayResult) string {
	if r.FromSequence == 0 {
		return "webhook " + r.ConfigID + " has nothing to resend"
	}
	return fmt.Sprintf("webhook %s resends all events from event %d on", r.ConfigID, r.FromSequence)
}

// withOwner returns a table with a column for the owner in front if several owners are possible.
func withOwner(a *app, operator bool, what, member string, columns ...string) *command.Table {
	if operator {
		columns = append([]string{"OWNER:16"}, columns...)
	}
	t := command.NewTable(&a.Console, what, columns...)
	t.Member, t.Blank = member, "-"
	return t
}

// addOwned prints a row, without the first cell if the table has no column for the owner.
func addOwned(t *command.Table, owner string, cells ...string) {
	if t.Columns[0].Head == "OWNER" {
		cells = append([]string{owner}, cells...)
	}
	t.Row(cells...)
}

// deadCounts has the numbers of dead letters by webhook.
type deadCounts struct {
	counts     map[webhook.Key]int
	incomplete bool // more dead letters exist, of any webhook
}

// countDead counts the dead letters on a page.
func countDead(page *a2a.ListDeadLettersResult) deadCounts {
	dead := deadCounts{make(map[webhook.Key]int), page.NextPageToken != ""}
	for i := range page.DeadLetters {
		dead.counts[webhook.Key{TaskID: page.DeadLetters[i].TaskID, ConfigID: page.DeadLetters[i].ConfigID}]++
	}
	return dead
}

// of returns the number of dead letters of a webhook as text: "" if none, "?" if unknown, with a plus
// sign if there may be more.
func (d *deadCounts) of(owner string, w *a2a.TaskPushNotificationConfig) string {
	n := d.counts[webhook.Key{Owner: owner, TaskID: w.TaskID, ConfigID: w.Config.ID}]
	switch {
	case !d.incomplete:
		return blankIfZero(n)
	case n == 0:
		return "?"
	}
	return blankIfZero(n) + "+"
}

// webhookTable returns the table of webhooks. Operators see the owner and the task too.
func webhookTable(a *app, operator bool) *command.Table {
	columns := []string{"TASK:36", "ID:36", "STATE:8", "SENT:-5", "DEAD:-6", "FAILED:-6", "NEXT:9", "URL"}
	if !operator {
		columns = columns[1:]
	}
	return withOwner(a, operator, "webhooks", "", columns...)
}

func addWebhook(t *command.Table, owner string, w *a2a.TaskPushNotificationConfig, dead string) {
	d := w.Config.Delivery
	if d == nil {
		d = new(a2a.PushDelivery)
	}
	url := w.Config.URL
	if url == "" {
		url = "(global webhook)"
	}
	cells := []string{w.TaskID, w.Config.ID, d.State, strconv.FormatInt(d.Delivered, 10), dead, blankIfZero(d.Attempts), nextOf(d), url}
	if owner == "" {
		cells = cells[1:]
	}
	addOwned(t, owner, cells...)
	if d.Reason != "" && !t.Console.JSON {
		t.Console.Out.Line("  %s", command.OneLine(d.State+": "+d.Reason, 0))
	}
}

// attemptTable returns the table of attempts. Operators see the owner and the task too.
func attemptTable(a *app, operator bool) *command.Table {
	columns := []string{"TASK:36", "AGE:4", "EVENT:-5", "TRY:-3", "STATUS:-6", "MS:-6", "WEBHOOK:36", "OUTCOME"}
	if !operator {
		columns = columns[1:]
	}
	return withOwner(a, operator, "attempts", "attempts", columns...)
}

func addAttempt(t *command.Table, more *operatorInfo, p *a2a.PushAttempt) {
	millis := ""
	if more != nil || p.Status != 0 {
		millis = strconv.FormatInt(p.Millis, 10)
	}
	cells := []string{
		p.TaskID, command.Age(p.At), strconv.FormatInt(p.Sequence, 10), strconv.Itoa(p.Attempt), blankIfZero(p.Status), millis, p.ConfigID, p.Outcome,
	}
	if more == nil {
		addOwned(t, "", cells[1:]...)
		return
	}
	cells[7] = strings.Trim(p.Outcome+"  "+more.Address+"  "+strings.TrimPrefix(more.Detail, p.Outcome+": "), " ")
	addOwned(t, more.Owner, cells...)
}

func deadTable(a *app, operator bool) *command.Table {
	return withOwner(a, operator, "dead letters", "deadLetters",
		"AGE:4", "TASK:36", "WEBHOOK:36", "EVENT:-5", "TRIES:-5", "STATUS:-6", "REASON")
}

func addDead(t *command.Table, owner string, d *a2a.DeadLetter) {
	addOwned(t, owner, command.Age(d.At), d.TaskID, d.ConfigID, strconv.FormatInt(d.Sequence, 10), strconv.Itoa(d.Attempts), blankIfZero(d.Status), d.Reason)
}

// blankIfZero returns n in decimal, "" for 0.
func blankIfZero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
