package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
)

// contextsCmd has the commands for contexts.
type contextsCmd struct {
	List    contextsListCmd    `cmd:"" help:"List your contexts, most recently updated first."`
	Get     contextsGetCmd     `cmd:"" help:"Show a context: its fields and messages."`
	Create  contextsCreateCmd  `cmd:"" help:"Create a context before its first task."`
	Update  contextsUpdateCmd  `cmd:"" help:"Change fields of a context."`
	Archive contextsArchiveCmd `cmd:"" help:"Archive contexts, which makes them read-only."`
	Clear   contextsClearCmd   `cmd:"" help:"Delete contexts with all their tasks."`
}

type contextsListCmd struct {
	Status  []string  `placeholder:"STATUS" group:"Filter:" help:"Only contexts with this status: active, paused, completed or archived. Repeatable."`
	Tag     []string  `placeholder:"TAG" group:"Filter:" help:"Only contexts with this tag. Repeatable; all tags must match."`
	Role    string    `placeholder:"ROLE" group:"Filter:" help:"Only contexts with this role."`
	Since   timestamp `placeholder:"TIME" group:"Filter:" help:"Only contexts created since this time: 2h (ago) or 2026-01-31T12:00:00Z."`
	Before  timestamp `placeholder:"TIME" group:"Filter:" help:"Only contexts created before this time."`
	Sort    string    `enum:"updated,created,name" placeholder:"BY" default:"updated" group:"Order:" help:"Sort by updated or created, newest first, or by name."`
	Reverse bool      `group:"Order:" help:"Reverse the order."`

	command.PageFlags `group:"Pages:" set:"items=Contexts" set:"item=context" set:"but="`
	connection
}

// Run lists contexts.
func (c *contextsListCmd) Run(ctx context.Context, a *app) error {
	params := a2a.ListContextsParams{Metadata: c.filters()}
	t := contextTable(a)
	return list[a2a.ListContextsResult]{
		a2a.MethodContextsList,
		func(token string) any {
			if token != "" {
				params.Metadata["pageToken"] = token
			}
			return params
		},
		func(page *a2a.ListContextsResult) string {
			for _, one := range page.Contexts {
				cells := []string{one.ID, string(statusOf(&one)), fmt.Sprint(one.TaskCount), command.Age(one.UpdatedAt), command.OneLine(one.Name, contextNameWidth), strings.Join(one.Tags, ", ")}
				if n := len(t.Columns); n < len(cells) {
					cells[n-1] = strings.Trim(one.Name+", "+cells[n], ", ")
				}
				t.Row(cells[:len(t.Columns)]...)
			}
			t.Total = " (" + totalText(page.Total, page.TotalCapped) + " in total)"
			return page.NextPageToken
		},
	}.show(ctx, a, &c.connection, &c.PageFlags, t)
}

const contextNameWidth = 24

// contextTable returns the table of contexts. On a narrow terminal names and tags share a column.
func contextTable(a *app) *command.Table {
	t := command.NewTable(&a.Console, "contexts", "ID:36", "STATUS:9", "TASKS:-5", "UPDATED:-7", fmt.Sprint("NAME:", contextNameWidth), "TAGS")
	if t.Fit() < command.MinText {
		t.Columns = append(t.Columns[:4], command.Column{Head: "NAME, TAGS"})
		t.Fit()
	}
	return t
}

// filters returns the metadata of the request.
func (c *contextsListCmd) filters() map[string]any {
	m := map[string]any{"limit": c.Limit, "sortBy": c.Sort, "sortOrder": "desc"}
	if c.Sort != "name" {
		m["sortBy"] = c.Sort + "At"
	}
	if (c.Sort == "name") != c.Reverse {
		m["sortOrder"] = "asc"
	}
	for name, texts := range map[string][]string{"status": c.Status, "tags": c.Tag} {
		if len(texts) > 0 {
			m[name] = toAny(texts)
		}
	}
	for name, at := range map[string]timestamp{"createdAfter": c.Since, "createdBefore": c.Before} {
		if t := time.Time(at); !t.IsZero() {
			m[name] = t.UTC().Format(time.RFC3339Nano)
		}
	}
	if c.Role != "" {
		m["role"] = c.Role
	}
	return m
}

func toAny(texts []string) []any {
	var out []any
	for _, s := range texts {
		out = append(out, s)
	}
	return out
}

func statusOf(c *a2a.Context) a2a.ContextStatus {
	if c.Status == "" {
		return a2a.ContextActive
	}
	return c.Status
}

type contextsGetCmd struct {
	ID      string `arg:"" help:"Context id."`
	History *int   `help:"Show only the newest N messages and results; 0 shows none. With --json: the newest N messages of each task (default 20; with --json all)."`

	connection
}

// defaultHistory is the default number of entries that contexts get shows.
const defaultHistory = 20

// Run shows a context.
func (c *contextsGetCmd) Run(ctx context.Context, a *app) error {
	if c.History != nil && *c.History < 0 {
		return command.Usagef("--history must be 0 or more")
	}
	params := a2a.ContextQueryParams{ContextID: c.ID, HistoryLength: c.History}
	if !a.JSON {
		params.HistoryLength = new(int) // readTranscript reads the messages
	}
	raw, found, err := call[a2a.Context](ctx, a, &c.connection, a2a.MethodContextsGet, params)
	if err != nil {
		return err
	}
	if a.JSON {
		a.Out.JSON(raw)
		return nil
	}
	showContext(a.Out, found)
	limit := defaultHistory
	if c.History != nil {
		limit = *c.History
	}
	if limit == 0 || found.TaskCount == 0 {
		return nil
	}
	transcript, _, err := readTranscript(ctx, a, &c.connection, c.ID, limit)
	if err != nil {
		return err
	}
	for _, entry := range transcript {
		a.Out.Line("")
		a.Out.Line("%s", strings.TrimRight(a.Out.Bold(entry.author)+"  "+a.Out.Dim(entry.taskInfo()), " "))
		showParts(a.Out, entry.parts)
	}
	return nil
}

func showContext(o *command.Output, c *a2a.Context) {
	o.Line("%s", o.Bold("context "+command.Clean(c.ID)))
	o.Row("name", c.Name)
	o.Row("about", c.Description)
	o.Row("status", string(statusOf(c)))
	o.Row("role", c.Role)
	o.Row("tags", strings.Join(c.Tags, ", "))
	o.Row("parent", c.ParentID)
	o.Row("related", strings.Join(c.ReferenceIDs, ", "))
	o.Row("metadata", command.Compact(c.Metadata))
	o.Row("created", fmt.Sprintf("%s (%s ago)", c.CreatedAt.Local().Format(time.DateTime), command.Age(c.CreatedAt)))
	o.Row("updated", fmt.Sprintf("%s (%s ago)", c.UpdatedAt.Local().Format(time.DateTime), command.Age(c.UpdatedAt)))
	o.Row("tasks", fmt.Sprint(c.TaskCount))
}

// transcriptEntry is a message or a result of a context.
type transcriptEntry struct {
	author string
	taskID string
	state  a2a.TaskState // of the task, in the task's last entry; else ""
	parts  []a2a.Part
}

func (u *transcriptEntry) taskInfo() string {
	if u.state == "" {
		return ""
	}
	return fmt.Sprintf("task %s, %s", command.Clean(u.taskID), u.state)
}

// maxTasksRead is the maximum number of tasks that are read to show a context: one page.
const maxTasksRead = 100

// readTranscript returns up to limit of the last entries of a context, oldest first, and
// its newest task, nil if it has none.
func readTranscript(ctx context.Context, a *app, c *connection, id string, limit int) ([]transcriptEntry, *a2a.Task, error) {
	size := min(limit, maxTasksRead)
	_, page, err := call[a2a.ListTasksResult](ctx, a, c, a2a.MethodList, a2a.ListTasksParams{
		ContextID: id, PageSize: &size, HistoryLength: &limit, IncludeArtifacts: true,
		Metadata: map[string]any{"sortBy": "createdAt", "sortOrder": "desc"},
	})
	if err != nil || len(page.Tasks) == 0 {
		return nil, nil, err
	}
	var transcript []transcriptEntry
	for _, task := range slices.Backward(page.Tasks) {
		transcript = append(transcript, transcriptOf(&task)...)
	}
	return transcript[max(len(transcript)-limit, 0):], &page.Tasks[0], nil
}

// transcriptOf returns the entries of a task: messages, artifacts, and the message of its status.
func transcriptOf(t *a2a.Task) []transcriptEntry {
	var all []transcriptEntry
	last, history := t.Status.Message, t.History
	if n := len(history); last != nil && n > 0 && history[n-1].ID == last.ID {
		history = history[:n-1]
	}
	for _, m := range history {
		if last != nil && m.ID == last.ID {
			last = nil
		}
		all = append(all, transcriptEntry{author: string(m.Role), parts: m.Parts})
	}
	for _, artifact := range t.Artifacts {
		name := artifact.Name
		if name == "" {
			name = artifact.ID
		}
		all = append(all, transcriptEntry{author: "artifact " + command.Clean(name), parts: artifact.Parts})
	}
	if last != nil {
		all = append(all, transcriptEntry{author: string(last.Role), parts: last.Parts})
	}
	if n := len(all); n > 0 {
		all[n-1].taskID, all[n-1].state = t.ID, t.Status.State
	}
	return all
}
