package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
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
	Context string    `placeholder:"ID" group:"Filter:" help:"Only tasks of this context."`
	State   []string  `placeholder:"STATE" group:"Filter:" help:"Only tasks in this state, such as working or completed. Repeatable."`
	Since   timestamp `placeholder:"TIME" group:"Filter:" help:"Only tasks whose state changed since this time: 2h (ago) or 2026-01-31T12:00:00Z."`
	Before  timestamp `placeholder:"TIME" group:"Filter:" help:"Only tasks whose state changed before this time."`

	command.PageFlags `group:"Pages:" set:"items=Tasks" set:"item=task" set:"but="`
	connection
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
	params := a2a.ListTasksParams{
		ContextID: c.Context, StatusAfter: time.Time(c.Since), StatusBefore: time.Time(c.Before), PageSize: &c.Limit,
	}
	for _, s := range c.State {
		params.States = append(params.States, a2a.TaskState(s))
	}
	if !a.JSON {
		one := 1
		params.HistoryLength = &one
		params.IncludeTotal = !c.All
	}
	t := taskTable(a)
	return list[a2a.ListTasksResult]{
		a2a.MethodList,
		func(token string) any { params.PageToken = token; return params },
		func(page *a2a.ListTasksResult) string {
			for _, task := range page.Tasks {
				t.Row(task.ID, string(task.Status.State), command.Age(task.Status.Timestamp), t.End(task.ContextID, 3), snippet(task, t.Last))
			}
			if page.Total != nil {
				t.Total = " (" + totalText(*page.Total, page.TotalCapped) + " in total)"
			}
			return page.NextPageToken
		},
	}.show(ctx, a, &c.connection, &c.PageFlags, t)
}

// wideTerminal is the width, in columns, that shows whole context ids.
const wideTerminal = 130

func taskTable(a *app) *command.Table {
	t := command.NewTable(&a.Console, "tasks", "ID:36", "STATE:14", "AGE:-4", "CONTEXT:36", "TEXT")
	if a.Out.Terminal && a.Out.Width < wideTerminal {
		t.Columns[3].Width = 13
	}
	t.Fit()
	return t
}

// snippet returns the newest text of a task, at most width characters.
func snippet(t a2a.Task, width int) string {
	if t.Status.Message != nil && t.Status.Message.Text() != "" {
		return command.OneLine(t.Status.Message.Text(), width)
	}
	if n := len(t.History); n > 0 {
		m := t.History[n-1]
		if m.Text() == "" && len(m.Files()) > 0 {
			return command.OneLine("file: "+describeName(m.Files()[0]), width)
		}
		return command.OneLine(m.Text(), width)
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

type tasksGetCmd struct {
	ID      string `arg:"" help:"Task id."`
	History *int   `help:"Show only the newest N messages."`

	connection
}

// Run shows a task.
func (c *tasksGetCmd) Run(ctx context.Context, a *app) error {
	params := a2a.TaskQueryParams{ID: c.ID, HistoryLength: c.History}
	return show(ctx, a, &c.connection, a2a.MethodGet, params, func(task *a2a.Task) { showTask(a, task) })
}

func showTask(a *app, t *a2a.Task) {
	o := a.Out
	o.Line("%s", o.Bold("task "+command.Clean(t.ID)))
	o.Line("  state    %s, for %s", t.Status.State, command.Age(t.Status.Timestamp))
	o.Line("  context  %s", command.Clean(t.ContextID))
	for _, m := range t.History {
		o.Line("")
		o.Line("%s", o.Bold(string(m.Role)))
		showParts(o, m.Parts)
	}
	if m := t.Status.Message; m != nil && (len(t.History) == 0 || t.History[len(t.History)-1].ID != m.ID) {
		o.Line("")
		o.Line("%s", o.Bold("agent (status)"))
		showParts(o, m.Parts)
	}
	for _, artifact := range t.Artifacts {
		name := artifact.Name
		if name == "" {
			name = artifact.ID
		}
		o.Line("")
		o.Line("%s", o.Bold("artifact "+command.Clean(name)))
		showParts(o, artifact.Parts)
	}
}

// showParts writes parts indented.
func showParts(o *command.Output, parts []a2a.Part) {
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
			o.Text("  " + strings.TrimRight(line, "\r\n") + "\n")
		}
	}
}

type tasksFollowCmd struct {
	ID    string `arg:"" help:"Task id."`
	After string `placeholder:"EVENT" help:"Start after the event with this sequence number, instead of with the current task."`

	connection
}

// Run follows a task.
func (c *tasksFollowCmd) Run(ctx context.Context, a *app) error {
	v := newViewer(a, &c.connection, true)
	cl, err := c.client(ctx, a, v.reconnecting)
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

// Run cancels tasks. It continues after errors.
func (c *tasksCancelCmd) Run(ctx context.Context, a *app) error {
	return a.Each(ctx, c.IDs, func(id string) error {
		return c.change(ctx, a, a2a.MethodCancel, a2a.TaskIDParams{ID: id}, "canceled "+id)
	})
}

type tasksDeleteCmd struct {
	IDs []string `arg:"" name:"id" help:"Task ids."`
	command.ConfirmFlag
	Force bool `help:"Also delete tasks with undelivered webhook events, and drop these events."`

	connection
}

// Run deletes tasks. It continues after errors.
func (c *tasksDeleteCmd) Run(ctx context.Context, a *app) error {
	describe := func(id string) (string, error) { return "task " + command.Clean(id), nil }
	return c.Delete(ctx, &a.Console, c.IDs, describe, func(id string) error {
		return c.change(ctx, a, a2a.MethodTasksDelete, a2a.DeleteTaskParams{ID: id, Force: c.Force}, "deleted "+id)
	})
}
