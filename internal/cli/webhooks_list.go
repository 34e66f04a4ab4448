package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/push"
)

type webhooksListCmd struct {
	Task given `arg:"" optional:"" help:"The task's id. It may be left out with --owner and --all-owners."`

	operator
	connection
}

// Help has examples.
func (webhooksListCmd) Help() string {
	return `SENT is how many events were delivered, DEAD how many became dead letters, FAILED how often the next one was not delivered, and NEXT when it is sent again.

Examples:

    holdfast webhooks list 01980a2e-...
    holdfast webhooks list --all-owners
    holdfast webhooks list --owner alice --data /var/lib/holdfast --json`
}

// Run lists webhooks.
func (c *webhooksListCmd) Run(ctx context.Context, a *app) error {
	if c.direct() {
		return c.list(ctx, a, string(c.Task))
	}
	if err := c.remote(a, string(c.Task)); err != nil {
		return err
	}
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	raw, list, err := ask[[]a2a.TaskPushNotificationConfig](ctx, cl, a2a.MethodPushList, a2a.ListTaskPushNotificationConfigParams{TaskID: string(c.Task)})
	if err != nil {
		return c.explain(ctx, a, err)
	}
	if a.json {
		a.out.raw(append(raw, '\n'))
		return nil
	}
	var dead deadCounts
	if len(*list) > 0 {
		_, letters, err := ask[a2a.ListDeadLettersResult](ctx, cl, a2a.MethodDeadLetters, a2a.ListDeadLettersParams{TaskID: string(c.Task), PageSize: maxPage})
		switch {
		case a2a.CodeOf(err) == a2a.CodeMethodNotFound: // some other A2A server
			dead.more = true
		case err != nil:
			return c.explain(ctx, a, err)
		default:
			dead = countDead(letters)
		}
	}
	table := webhookTable{a: a}
	for i := range *list {
		table.webhook("", &(*list)[i], dead.of("", &(*list)[i]))
	}
	if len(*list) == 0 {
		a.say("no webhooks")
	}
	return nil
}

// maxPage is the most that a server puts on a page.
const maxPage = 100

// checkLimit refuses sizes of pages that no page can have.
func checkLimit(n int) error {
	if n < 1 || n > maxPage {
		return usagef("--limit is %d, want 1 to %d: --all shows all pages", n, maxPage)
	}
	return nil
}

// page are the flags of lists that come in pages.
type page struct {
	Limit     int    `short:"n" placeholder:"N" default:"20" group:"Pages:" help:"How many a page has, at most 100. Default: ${default}."`
	PageToken string `placeholder:"TOKEN" group:"Pages:" help:"Go on where another page ended."`
	All       bool   `group:"Pages:" help:"All pages. With --json: one a line."`
}

// each shows pages until there are no more, or only one is wanted. fetch returns a page
// as JSON, the name of its items, its rows, and the token of the next.
func (p *page) each(a *app, what string, fetch func(token string) (fetched, error)) error {
	token, rows := p.PageToken, 0
	for {
		f, err := fetch(token)
		if err != nil {
			return err
		}
		switch {
		case a.json && !p.All:
			a.out.raw(append(f.raw, '\n'))
		case a.json:
			if err := writeItems(a, f.raw, f.member); err != nil {
				return err
			}
		default:
			f.show()
		}
		rows += f.rows
		if token = f.next; !p.All || token == "" {
			break
		}
	}
	if rows == 0 {
		a.say("no %s", what)
	}
	if token != "" {
		sayMore(a, "", token)
	}
	return nil
}

// fetched is a page.
type fetched struct {
	raw    json.RawMessage
	member string
	rows   int
	next   string
	show   func()
}

type webhooksAttemptsCmd struct {
	Task given `arg:"" optional:"" help:"The task's id. It may be left out with --owner and --all-owners."`
	ID   given `arg:"" optional:"" help:"The webhook's id. Default: all of the task."`

	page
	operator
	connection
}

// Help has examples.
func (webhooksAttemptsCmd) Help() string {
	return `EVENT is the sequence of the event, TRY counts the attempts to send it, MS is how long the answer took. Operators are told more: what was called, and what went wrong when there was no answer.

Examples:

    holdfast webhooks attempts 01980a2e-...
    holdfast webhooks attempts 01980a2e-... mine --all --json | jq 'select(.outcome != "delivered")'
    holdfast webhooks attempts --all-owners`
}

// Run lists attempts.
func (c *webhooksAttemptsCmd) Run(ctx context.Context, a *app) error {
	if err := checkLimit(c.Limit); err != nil {
		return err
	}
	if c.direct() {
		return c.attempts(ctx, a, string(c.Task), string(c.ID), &c.page)
	}
	if err := c.remote(a, string(c.Task)); err != nil {
		return err
	}
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	table := webhookTable{a: a}
	return c.explainWebhook(ctx, a, c.Task, c.each(a, "attempts", func(token string) (fetched, error) {
		params := a2a.ListAttemptsParams{TaskID: string(c.Task), ConfigID: string(c.ID), PageSize: c.Limit, PageToken: token}
		raw, page, err := ask[a2a.ListAttemptsResult](ctx, cl, a2a.MethodPushAttempts, params)
		if err != nil {
			return fetched{}, err
		}
		return fetched{raw, "attempts", len(page.Attempts), page.NextPageToken, func() {
			for i := range page.Attempts {
				table.attempt(nil, &page.Attempts[i])
			}
		}}, nil
	}))
}

type webhooksDeadCmd struct {
	Task given `placeholder:"ID" group:"Filter:" help:"Only of this task."`

	page
	operator
	connection
}

// Help has examples.
func (webhooksDeadCmd) Help() string {
	return `What a webhook refused, or did not take in three days, is kept here until it is sent again with holdfast webhooks replay, or the webhook is deleted. EVENT is the sequence of the event, TRIES is how often it was sent, STATUS the last answer.

Examples:

    holdfast webhooks dead
    holdfast webhooks dead --task 01980a2e-... --json
    holdfast webhooks dead --all-owners --data /var/lib/holdfast`
}

// Run lists dead letters.
func (c *webhooksDeadCmd) Run(ctx context.Context, a *app) error {
	if err := checkLimit(c.Limit); err != nil {
		return err
	}
	if c.direct() {
		return c.dead(ctx, a, string(c.Task), &c.page)
	}
	if err := c.remote(a, "any"); err != nil {
		return err
	}
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	table := webhookTable{a: a}
	return c.explain(ctx, a, c.each(a, "dead letters", func(token string) (fetched, error) {
		params := a2a.ListDeadLettersParams{TaskID: string(c.Task), PageSize: c.Limit, PageToken: token}
		raw, page, err := ask[a2a.ListDeadLettersResult](ctx, cl, a2a.MethodDeadLetters, params)
		if err != nil {
			return fetched{}, err
		}
		return fetched{raw, "deadLetters", len(page.DeadLetters), page.NextPageToken, func() {
			for i := range page.DeadLetters {
				table.dead("", &page.DeadLetters[i])
			}
		}}, nil
	}))
}

type webhooksReplayCmd struct {
	Task given `arg:"" optional:"" help:"The task's id. Without, with --owner or --all-owners: everything that has dead letters."`
	ID   given `arg:"" optional:"" help:"The webhook's id. Default: the only one of the task; for operators the global one counts."`
	From int64 `placeholder:"N" help:"The sequence of the first event to send, from 1. Default: the first that is a dead letter."`

	operator
	connection
}

// Help has examples.
func (webhooksReplayCmd) Help() string {
	return `Everything from that event on is sent again, in order and with the same ids, so that a receiver knows what it has. A webhook that was given up works again.

Examples:

    holdfast webhooks replay 01980a2e-...
    holdfast webhooks replay 01980a2e-... mine --from 1
    holdfast webhooks replay --all-owners    # of PostgreSQL; with SQLite, stop the server first`
}

// Run sets a webhook back.
func (c *webhooksReplayCmd) Run(ctx context.Context, a *app) error {
	if c.From < 1 && a.set.origins["from"].rank == byFlag {
		return usagef("--from must be 1 or more")
	}
	if c.direct() {
		return c.replay(ctx, a, string(c.Task), string(c.ID), c.From)
	}
	if err := c.remote(a, string(c.Task)); err != nil {
		return err
	}
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	raw, set, err := ask[a2a.ReplayResult](ctx, cl, a2a.MethodPushReplay, a2a.ReplayParams{TaskID: string(c.Task), ConfigID: string(c.ID), FromSequence: c.From})
	if err != nil {
		return c.explainWebhook(ctx, a, c.Task, err)
	}
	a.changed(raw, replayed(set))
	return nil
}

func replayed(r *a2a.ReplayResult) string {
	if r.FromSequence == 0 {
		return "webhook " + r.ConfigID + " has nothing to be sent again"
	}
	return fmt.Sprintf("webhook %s is sent everything again from event %d on", r.ConfigID, r.FromSequence)
}

// webhookTable writes webhooks, attempts or dead letters in columns. Where the owner is
// not that of the caller there is a column for it.
type webhookTable struct {
	a    *app
	rows int
}

func (t *webhookTable) row(owner string, head, cells []string, widths ...int) {
	if owner != "" {
		head, cells, widths = append([]string{"OWNER"}, head...), append([]string{owner}, cells...), append([]int{16}, widths...)
	}
	if t.rows == 0 {
		t.line(head, widths)
	}
	t.line(cells, widths)
	t.rows++
}

// line pads cells to their widths, to the right those of a negative one.
func (t *webhookTable) line(cells []string, widths []int) {
	var b strings.Builder
	for i, cell := range cells {
		if cell = oneLine(cell, 0); cell == "" {
			cell = "-"
		}
		if i < len(widths) {
			cell = fmt.Sprintf("%*s  ", -widths[i], cell)
		}
		b.WriteString(cell)
	}
	t.a.out.line("%s", strings.TrimRight(b.String(), " "))
}

// deadCounts are how many dead letters webhooks have.
type deadCounts struct {
	counts map[push.WebhookKey]int
	more   bool // there are more, of any of them
}

// countDead counts those of one task on a page.
func countDead(page *a2a.ListDeadLettersResult) deadCounts {
	dead := deadCounts{make(map[push.WebhookKey]int), page.NextPageToken != ""}
	for i := range page.DeadLetters {
		dead.counts[push.WebhookKey{TaskID: page.DeadLetters[i].TaskID, ConfigID: page.DeadLetters[i].ConfigID}]++
	}
	return dead
}

// of says how many a webhook has: "" if none, "?" if that is open, with a plus if there
// may be more.
func (d *deadCounts) of(owner string, w *a2a.TaskPushNotificationConfig) string {
	n := d.counts[push.WebhookKey{Owner: owner, TaskID: w.TaskID, ConfigID: w.Config.ID}]
	switch {
	case !d.more:
		return number(n)
	case n == 0:
		return "?"
	}
	return number(n) + "+"
}

func (t *webhookTable) webhook(owner string, w *a2a.TaskPushNotificationConfig, dead string) {
	d := w.Config.Delivery
	if d == nil {
		d = new(a2a.PushDelivery)
	}
	head := []string{"TASK", "ID", "STATE", "SENT", "DEAD", "FAILED", "NEXT", "URL"}
	url := w.Config.URL
	if url == "" {
		url = "(the one of all tasks)"
	}
	cells := []string{w.TaskID, w.Config.ID, d.State, strconv.FormatInt(d.Delivered, 10), dead, number(d.Attempts), nextOf(d), url}
	widths := []int{36, 36, 8, -5, -6, -6, 9}
	if owner == "" {
		head, cells, widths = head[1:], cells[1:], widths[1:]
	}
	t.row(owner, head, cells, widths...)
	if d.Reason != "" {
		t.a.out.line("  %s", oneLine(d.State+": "+d.Reason, 0))
	}
}

func (t *webhookTable) attempt(more *owner, p *a2a.PushAttempt) {
	head := []string{"AGE", "EVENT", "TRY", "STATUS", "MS", "WEBHOOK", "OUTCOME"}
	millis := ""
	if more != nil || p.Status != 0 {
		millis = strconv.FormatInt(p.Millis, 10)
	}
	cells := []string{
		age(p.At), strconv.FormatInt(p.Sequence, 10), strconv.Itoa(p.Attempt), number(p.Status), millis, p.ConfigID, p.Outcome,
	}
	widths := []int{4, -5, -3, -6, -6, 36}
	if more == nil {
		t.row("", head, cells, widths...)
		return
	}
	cells[6] = strings.Trim(p.Outcome+"  "+more.Address+"  "+strings.TrimPrefix(more.Detail, p.Outcome+": "), " ")
	head, cells, widths = append([]string{"TASK"}, head...), append([]string{p.TaskID}, cells...), append([]int{36}, widths...)
	t.row(more.Owner, head, cells, widths...)
}

func (t *webhookTable) dead(owner string, d *a2a.DeadLetter) {
	head := []string{"AGE", "TASK", "WEBHOOK", "EVENT", "TRIES", "STATUS", "REASON"}
	cells := []string{age(d.At), d.TaskID, d.ConfigID, strconv.FormatInt(d.Sequence, 10), strconv.Itoa(d.Attempts), number(d.Status), d.Reason}
	t.row(owner, head, cells, 4, 36, 36, -5, -5, -6)
}

// number is n, "" for 0.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
