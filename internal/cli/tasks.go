package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// tasksCmd has the commands about tasks.
type tasksCmd struct {
	List   tasksListCmd   `cmd:"" help:"List your tasks, newest first."`
	Get    tasksGetCmd    `cmd:"" help:"Show a task: its state, messages and results."`
	Follow tasksFollowCmd `cmd:"" help:"Follow a task until it is final or asks for input."`
	Cancel tasksCancelCmd `cmd:"" help:"Cancel tasks."`
	Delete tasksDeleteCmd `cmd:"" help:"Delete finished tasks."`

	Feedback tasksFeedbackCmd `cmd:"" help:"Give feedback on a task, or list feedback."`
}

type tasksListCmd struct {
	Context   string    `placeholder:"ID" group:"Filter:" help:"Only tasks of this conversation."`
	State     []string  `placeholder:"STATE" group:"Filter:" help:"Only tasks in this state, such as working or completed. Repeatable."`
	Since     timestamp `placeholder:"TIME" group:"Filter:" help:"Only tasks whose state changed since this time: 2h (ago) or 2026-01-31T12:00:00Z."`
	Before    timestamp `placeholder:"TIME" group:"Filter:" help:"Only tasks whose state changed before this time."`
	Limit     int       `short:"n" placeholder:"N" default:"20" group:"Pages:" help:"Tasks per page, at most 100 (default ${default})."`
	PageToken string    `placeholder:"TOKEN" group:"Pages:" help:"Continue from a previous page."`
	All       bool      `group:"Pages:" help:"Show all pages. With --json: one task per line."`

	connection
}

// Help implements [kong.HelpProvider].
func (tasksListCmd) Help() string {
	return `Examples:

    holdfast tasks list --state working,submitted
    holdfast tasks list --since 1h --all
    holdfast tasks list --all --json | jq -r 'select(.status.state == "failed") | .id'`
}

// timestamp is a time, given in RFC 3339 or as a duration before now.
type timestamp time.Time

// UnmarshalText implements [encoding.TextUnmarshaler].
func (t *timestamp) UnmarshalText(text []byte) error {
	if ago, err := time.ParseDuration(string(text)); err == nil && ago >= 0 {
		*t = timestamp(time.Now().Add(-ago))
		return nil
	}
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return fmt.Errorf("want a time such as 2h or 2026-01-31T12:00:00Z, but got %q", text)
	}
	*t = timestamp(at)
	return nil
}

// Run lists tasks.
func (c *tasksListCmd) Run(ctx context.Context, a *app) error {
	if err := checkLimit(c.Limit); err != nil {
		return err
	}
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	params := a2a.ListTasksParams{
		ContextID: c.Context, StatusAfter: time.Time(c.Since), StatusBefore: time.Time(c.Before),
		PageSize: &c.Limit, PageToken: c.PageToken,
	}
	for _, s := range c.State {
		params.States = append(params.States, a2a.TaskState(s))
	}
	if !a.json {
		one := 1
		params.HistoryLength = &one
		params.IncludeTotal = !c.All
	}
	return c.explain(ctx, a, c.list(ctx, a, cl, params))
}

func (c *tasksListCmd) list(ctx context.Context, a *app, cl *client.Client, params a2a.ListTasksParams) error {
	table := newTaskTable(a)
	var total string
	for {
		raw, err := wire.Marshal(params)
		if err != nil {
			return err
		}
		if raw, err = cl.Call(ctx, a2a.MethodList, raw); err != nil {
			return err
		}
		page := new(a2a.ListTasksResult)
		if err := wire.Unmarshal(raw, page); err != nil {
			return a2a.Wrap(a2a.CodeInvalidAgentResponse, err, "the list is not valid A2A 0.3")
		}
		switch {
		case a.json && !c.All:
			a.out.raw(append(raw, '\n'))
		case a.json:
			if err := writeItems(a, raw, "tasks"); err != nil {
				return err
			}
		default:
			table.write(page.Tasks)
			if page.Total != nil {
				total = totalText(*page.Total, page.TotalCapped)
			}
		}
		params.PageToken = page.NextPageToken
		if !c.All || page.NextPageToken == "" {
			break
		}
	}
	if table.rows == 0 {
		a.info("no tasks")
	}
	if params.PageToken != "" {
		printMore(a, total, params.PageToken)
	}
	return nil
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

// printMore prints how to see the rest of a list. total is "" if unknown.
func printMore(a *app, total, token string) {
	if total != "" {
		total = " (" + total + " in total)"
	}
	a.info("more results%s: --all shows all, --page-token %s shows the next page", total, token)
}

// writeItems writes the raw items of a page, one per line.
func writeItems(a *app, raw json.RawMessage, member string) error {
	var page map[string]json.RawMessage
	var items []json.RawMessage
	if json.Unmarshal(raw, &page) != nil || json.Unmarshal(page[member], &items) != nil {
		return a2a.Errorf(a2a.CodeInvalidAgentResponse, "the list is not valid A2A 0.3")
	}
	for _, item := range items {
		a.out.raw(append(item, '\n'))
	}
	return nil
}

// taskTable prints tasks in columns. The widths are fixed, so that a page can be printed before the
// next one is read.
type taskTable struct {
	a             *app
	rows          int
	context, text int // column widths
}

// wideTerminal is the width, in columns, that shows whole context ids.
const wideTerminal = 130

func newTaskTable(a *app) *taskTable {
	t := &taskTable{a: a, context: 36, text: 60}
	if a.out.terminal {
		if a.out.width < wideTerminal {
			t.context = 13
		}
		t.text = max(a.out.width-36-14-4-t.context-4*2, 12)
	}
	return t
}

func (t *taskTable) write(tasks []a2a.Task) {
	if t.rows == 0 && len(tasks) > 0 {
		t.row("ID", "STATE", "AGE", "CONTEXT", "TEXT")
	}
	for _, task := range tasks {
		// Ids of the same time share their start, so the start is cut.
		conversation := []rune(oneLine(task.ContextID, 0))
		if cut := len(conversation) - t.context; t.a.out.terminal && cut > 0 {
			conversation = append([]rune{'…'}, conversation[cut+1:]...)
		}
		t.row(oneLine(task.ID, 0), string(task.Status.State), age(task.Status.Timestamp), string(conversation), snippet(task, t.text))
		t.rows++
	}
}

func (t *taskTable) row(id, state, age, conversation, text string) {
	line := fmt.Sprintf("%-36s  %-14s  %4s  %-*s  %s", id, state, age, t.context, conversation, text)
	t.a.out.line("%s", strings.TrimRight(line, " "))
}

// snippet returns the newest text of a task, at most width characters.
func snippet(t a2a.Task, width int) string {
	if t.Status.Message != nil && t.Status.Message.Text() != "" {
		return oneLine(t.Status.Message.Text(), width)
	}
	if n := len(t.History); n > 0 {
		m := t.History[n-1]
		if m.Text() == "" && len(m.Files()) > 0 {
			return oneLine("file: "+describeName(m.Files()[0]), width)
		}
		return oneLine(m.Text(), width)
	}
	return ""
}

func describeName(f a2a.FilePart) string {
	name, kind := f.File.Info()
	if name == "" {
		return kind
	}
	return name
}

func age(t time.Time) string {
	d := time.Since(t)
	switch {
	case t.IsZero():
		return "-"
	case d < time.Second:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

type tasksGetCmd struct {
	ID      string `arg:"" help:"Task id."`
	History *int   `placeholder:"N" help:"Show only the newest N messages."`

	connection
}

// Help implements [kong.HelpProvider].
func (tasksGetCmd) Help() string {
	return `Examples:

    holdfast tasks get 01980a2e-...
    holdfast tasks get 01980a2e-... --json | jq .artifacts`
}

// Run shows a task.
func (c *tasksGetCmd) Run(ctx context.Context, a *app) error {
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	params, err := wire.Marshal(a2a.TaskQueryParams{ID: c.ID, HistoryLength: c.History})
	if err != nil {
		return err
	}
	raw, err := cl.Call(ctx, a2a.MethodGet, params)
	if err != nil {
		return c.explain(ctx, a, err)
	}
	if a.json {
		a.out.raw(append(raw, '\n'))
		return nil
	}
	task := new(a2a.Task)
	if err := wire.Unmarshal(raw, task); err != nil {
		return a2a.Wrap(a2a.CodeInvalidAgentResponse, err, "the task is not valid A2A 0.3")
	}
	showTask(a, task)
	return nil
}

func showTask(a *app, t *a2a.Task) {
	o := a.out
	o.line("%s", o.bold("task "+clean(t.ID)))
	o.line("  state    %s, for %s", t.Status.State, age(t.Status.Timestamp))
	o.line("  context  %s", clean(t.ContextID))
	for _, m := range t.History {
		o.line("")
		o.line("%s", o.bold(string(m.Role)))
		showParts(o, m.Parts)
	}
	if m := t.Status.Message; m != nil && (len(t.History) == 0 || t.History[len(t.History)-1].ID != m.ID) {
		o.line("")
		o.line("%s", o.bold("agent (status)"))
		showParts(o, m.Parts)
	}
	for _, artifact := range t.Artifacts {
		name := artifact.Name
		if name == "" {
			name = artifact.ID
		}
		o.line("")
		o.line("%s", o.bold("artifact "+clean(name)))
		showParts(o, artifact.Parts)
	}
}

// showParts writes parts indented.
func showParts(o *output, parts []a2a.Part) {
	for _, part := range parts {
		text := ""
		switch part := part.(type) {
		case a2a.TextPart:
			text = strings.TrimRight(part.Text, "\n")
		case a2a.DataPart:
			raw, err := json.MarshalIndent(part.Data, "", "  ")
			if err != nil {
				continue
			}
			text = string(raw)
		case a2a.FilePart:
			text = "file: " + describeFile(part)
		}
		for line := range strings.Lines(text) {
			o.text("  " + strings.TrimRight(line, "\r\n") + "\n")
		}
	}
}

type tasksFollowCmd struct {
	ID    string `arg:"" help:"Task id."`
	After string `placeholder:"EVENT" help:"Start after this event instead of with the current task."`

	connection
}

// Help implements [kong.HelpProvider].
func (tasksFollowCmd) Help() string {
	return `Prints progress and results as they arrive, across lost connections and restarts of the server. The exit code is that of the task's final state (holdfast help exit-codes).

Examples:

    holdfast tasks follow 01980a2e-...
    holdfast tasks follow 01980a2e-... --json | jq .kind`
}

// Run follows a task.
func (c *tasksFollowCmd) Run(ctx context.Context, a *app) error {
	v := newViewer(a, &c.connection, true)
	cl, err := c.client(v.reconnecting)
	if err != nil {
		return err
	}
	err = v.stream(cl.Resubscribe(ctx, c.ID, c.After))
	return c.explain(ctx, a, v.detach(ctx, err))
}

type tasksCancelCmd struct {
	IDs []string `arg:"" name:"id" help:"Task ids."`

	connection
}

// Help implements [kong.HelpProvider].
func (tasksCancelCmd) Help() string {
	return `A canceled task never changes again. A task that is already final is rejected (exit code 5).

Examples:

    holdfast tasks cancel 01980a2e-...
    holdfast tasks list --state submitted --all --json | jq -r .id | xargs holdfast tasks cancel`
}

// Run cancels tasks. It continues after errors.
func (c *tasksCancelCmd) Run(ctx context.Context, a *app) error {
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	return a.each(ctx, c.IDs, func(id string) error {
		params, err := wire.Marshal(a2a.TaskIDParams{ID: id})
		if err != nil {
			return err
		}
		raw, err := cl.Call(ctx, a2a.MethodCancel, params)
		if err != nil {
			return c.explain(ctx, a, err)
		}
		a.printChange(raw, "canceled "+id)
		return nil
	})
}
