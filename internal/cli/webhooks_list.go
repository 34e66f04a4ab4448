package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/webhook"
)

type webhooksListCmd struct {
	Task nonEmpty `arg:"" optional:"" help:"Task id. Optional with --owner and --all-owners."`

	operatorFlags
	connection
}

// Help implements [kong.HelpProvider].
func (webhooksListCmd) Help() string {
	return `Columns: SENT is the number of delivered events, DEAD the number of dead letters, FAILED the number of failed attempts to deliver the next event, NEXT the time until its next attempt.

Examples:

    holdfast webhooks list 01980a2e-...
    holdfast webhooks list --all-owners
    holdfast webhooks list --owner alice --data /var/lib/holdfast --json`
}

// Run lists webhooks.
func (c *webhooksListCmd) Run(ctx context.Context, a *app) error {
	if c.usesStore() {
		return c.list(ctx, a, string(c.Task))
	}
	if err := c.checkRemote(a, string(c.Task)); err != nil {
		return err
	}
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	raw, list, err := callMethod[[]a2a.TaskPushNotificationConfig](ctx, cl, a2a.MethodPushList, a2a.ListTaskPushNotificationConfigParams{TaskID: string(c.Task)})
	if err != nil {
		return c.explain(ctx, a, err)
	}
	if a.json {
		a.out.raw(append(raw, '\n'))
		return nil
	}
	var dead deadCounts
	if len(*list) > 0 {
		_, letters, err := callMethod[a2a.ListDeadLettersResult](ctx, cl, a2a.MethodDeadLetters, a2a.ListDeadLettersParams{TaskID: string(c.Task), PageSize: maxPage})
		switch {
		case a2a.CodeOf(err) == a2a.CodeMethodNotFound: // another A2A server
			dead.incomplete = true
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
		a.info("no webhooks")
	}
	return nil
}

// maxPage is the maximum page size of servers.
const maxPage = 100

// checkLimit checks a page size.
func checkLimit(n int) error {
	if n < 1 || n > maxPage {
		return usagef("--limit is %d, want 1 to %d: --all shows all pages", n, maxPage)
	}
	return nil
}

// pageFlags has the flags of paged lists.
type pageFlags struct {
	Limit     int    `short:"n" placeholder:"N" default:"20" group:"Pages:" help:"Items per page, at most 100 (default ${default})."`
	PageToken string `placeholder:"TOKEN" group:"Pages:" help:"Continue from a previous page."`
	All       bool   `group:"Pages:" help:"Show all pages. With --json: one item per line."`
}

// each fetches and shows one page, or all pages with --all. what names the items. fetch returns the
// page of a token.
func (p *pageFlags) each(a *app, what string, fetch func(token string) (fetchedPage, error)) error {
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
		a.info("no %s", what)
	}
	if token != "" {
		printMore(a, "", token)
	}
	return nil
}

// fetchedPage is a page of a list.
type fetchedPage struct {
	raw    json.RawMessage
	member string // of raw that has the items
	rows   int
	next   string // token of the next page, "" after the last
	show   func() // prints the rows
}

type webhooksAttemptsCmd struct {
	Task nonEmpty `arg:"" optional:"" help:"Task id. Optional with --owner and --all-owners."`
	ID   nonEmpty `arg:"" optional:"" help:"Webhook id (default all webhooks of the task)."`

	pageFlags
	operatorFlags
	connection
}

// Help implements [kong.HelpProvider].
func (webhooksAttemptsCmd) Help() string {
	return `Columns: EVENT is the event's sequence number, TRY the number of the attempt, MS the response time in milliseconds. With --owner or --all-owners also the address and the error of a failed request.

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
	if c.usesStore() {
		return c.attempts(ctx, a, string(c.Task), string(c.ID), &c.pageFlags)
	}
	if err := c.checkRemote(a, string(c.Task)); err != nil {
		return err
	}
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	table := webhookTable{a: a}
	return c.explainWebhook(ctx, a, c.Task, c.each(a, "attempts", func(token string) (fetchedPage, error) {
		params := a2a.ListAttemptsParams{TaskID: string(c.Task), ConfigID: string(c.ID), PageSize: c.Limit, PageToken: token}
		raw, page, err := callMethod[a2a.ListAttemptsResult](ctx, cl, a2a.MethodPushAttempts, params)
		if err != nil {
			return fetchedPage{}, err
		}
		return fetchedPage{raw, "attempts", len(page.Attempts), page.NextPageToken, func() {
			for i := range page.Attempts {
				table.attempt(nil, &page.Attempts[i])
			}
		}}, nil
	}))
}

type webhooksDeadCmd struct {
	Task nonEmpty `placeholder:"ID" group:"Filter:" help:"Only dead letters of this task."`

	pageFlags
	operatorFlags
	connection
}

// Help implements [kong.HelpProvider].
func (webhooksDeadCmd) Help() string {
	return `Lists events that a receiver rejected or did not accept within three days. They are kept until holdfast webhooks replay sends them again, the webhook is deleted, or they expire (serve --retention). Columns: EVENT is the event's sequence number, TRIES the number of attempts, STATUS the status of the last response.

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
	if c.usesStore() {
		return c.dead(ctx, a, string(c.Task), &c.pageFlags)
	}
	if err := c.checkRemote(a, "any"); err != nil {
		return err
	}
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	table := webhookTable{a: a}
	return c.explain(ctx, a, c.each(a, "dead letters", func(token string) (fetchedPage, error) {
		params := a2a.ListDeadLettersParams{TaskID: string(c.Task), PageSize: c.Limit, PageToken: token}
		raw, page, err := callMethod[a2a.ListDeadLettersResult](ctx, cl, a2a.MethodDeadLetters, params)
		if err != nil {
			return fetchedPage{}, err
		}
		return fetchedPage{raw, "deadLetters", len(page.DeadLetters), page.NextPageToken, func() {
			for i := range page.DeadLetters {
				table.dead("", &page.DeadLetters[i])
			}
		}}, nil
	}))
}

type webhooksReplayCmd struct {
	Task nonEmpty `arg:"" optional:"" help:"Task id. Optional with --owner or --all-owners; without it, all webhooks with dead letters."`
	ID   nonEmpty `arg:"" optional:"" help:"Webhook id (default the only webhook of the task; with --owner the global webhook counts too)."`
	From int64    `placeholder:"N" help:"Sequence number of the first event to send, from 1 (default the first dead letter)."`

	operatorFlags
	connection
}

// Help implements [kong.HelpProvider].
func (webhooksReplayCmd) Help() string {
	return `Sends all events from that event on again, in order and with the same ids, so that a receiver can detect duplicates. A disabled webhook becomes active again.

Examples:

    holdfast webhooks replay 01980a2e-...
    holdfast webhooks replay 01980a2e-... mine --from 1
    holdfast webhooks replay --all-owners    # with SQLite, stop the server first`
}

// Run moves the cursor of a webhook back.
func (c *webhooksReplayCmd) Run(ctx context.Context, a *app) error {
	if c.From < 1 && a.set.origins["from"].rank == byFlag {
		return usagef("--from must be 1 or more")
	}
	if c.usesStore() {
		return c.replay(ctx, a, string(c.Task), string(c.ID), c.From)
	}
	if err := c.checkRemote(a, string(c.Task)); err != nil {
		return err
	}
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	raw, set, err := callMethod[a2a.ReplayResult](ctx, cl, a2a.MethodPushReplay, a2a.ReplayParams{TaskID: string(c.Task), ConfigID: string(c.ID), FromSequence: c.From})
	if err != nil {
		return c.explainWebhook(ctx, a, c.Task, err)
	}
	a.printChange(raw, replayText(set))
	return nil
}

func replayText(r *a2a.ReplayResult) string {
	if r.FromSequence == 0 {
		return "webhook " + r.ConfigID + " has nothing to resend"
	}
	return fmt.Sprintf("webhook %s resends all events from event %d on", r.ConfigID, r.FromSequence)
}

// webhookTable prints webhooks, attempts or dead letters in columns. It has a column for the owner
// unless that is the caller.
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

// line prints cells padded to widths. A negative width aligns the cell to the right.
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

func (t *webhookTable) webhook(owner string, w *a2a.TaskPushNotificationConfig, dead string) {
	d := w.Config.Delivery
	if d == nil {
		d = new(a2a.PushDelivery)
	}
	head := []string{"TASK", "ID", "STATE", "SENT", "DEAD", "FAILED", "NEXT", "URL"}
	url := w.Config.URL
	if url == "" {
		url = "(global webhook)"
	}
	cells := []string{w.TaskID, w.Config.ID, d.State, strconv.FormatInt(d.Delivered, 10), dead, blankIfZero(d.Attempts), nextOf(d), url}
	widths := []int{36, 36, 8, -5, -6, -6, 9}
	if owner == "" {
		head, cells, widths = head[1:], cells[1:], widths[1:]
	}
	t.row(owner, head, cells, widths...)
	if d.Reason != "" {
		t.a.out.line("  %s", oneLine(d.State+": "+d.Reason, 0))
	}
}

func (t *webhookTable) attempt(more *operatorInfo, p *a2a.PushAttempt) {
	head := []string{"AGE", "EVENT", "TRY", "STATUS", "MS", "WEBHOOK", "OUTCOME"}
	millis := ""
	if more != nil || p.Status != 0 {
		millis = strconv.FormatInt(p.Millis, 10)
	}
	cells := []string{
		age(p.At), strconv.FormatInt(p.Sequence, 10), strconv.Itoa(p.Attempt), blankIfZero(p.Status), millis, p.ConfigID, p.Outcome,
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
	cells := []string{age(d.At), d.TaskID, d.ConfigID, strconv.FormatInt(d.Sequence, 10), strconv.Itoa(d.Attempts), blankIfZero(d.Status), d.Reason}
	t.row(owner, head, cells, 4, 36, 36, -5, -5, -6)
}

// blankIfZero returns n in decimal, "" for 0.
func blankIfZero(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}
