package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
	"github.com/holdfast-dev/holdfast/internal/wire"
)

// contextsCmd has the commands about conversations.
type contextsCmd struct {
	List    contextsListCmd    `cmd:"" help:"List your conversations, most recently updated first."`
	Get     contextsGetCmd     `cmd:"" help:"Show a conversation: its record and messages."`
	Create  contextsCreateCmd  `cmd:"" help:"Create a conversation before its first task."`
	Update  contextsUpdateCmd  `cmd:"" help:"Change the record of a conversation."`
	Archive contextsArchiveCmd `cmd:"" help:"Archive conversations, which makes them read-only."`
	Clear   contextsClearCmd   `cmd:"" help:"Delete conversations with all their tasks."`
}

// callMethod calls a method and returns its result, raw and decoded.
func callMethod[T any](ctx context.Context, cl *client.Client, method string, params any) (json.RawMessage, *T, error) {
	raw, err := wire.Marshal(params)
	if err != nil {
		return nil, nil, err
	}
	if raw, err = cl.Call(ctx, method, raw); err != nil {
		return nil, nil, err
	}
	v := new(T)
	if err := wire.Unmarshal(raw, v); err != nil {
		return nil, nil, a2a.Wrap(a2a.CodeInvalidAgentResponse, err, "the result of %s is not valid A2A 0.3", method)
	}
	return raw, v, nil
}

type contextsListCmd struct {
	Status    []string  `placeholder:"STATUS" group:"Filter:" help:"Only conversations with this status: active, paused, completed or archived. Repeatable."`
	Tag       []string  `placeholder:"TAG" group:"Filter:" help:"Only conversations with this tag. Repeatable; all tags must match."`
	Role      string    `placeholder:"ROLE" group:"Filter:" help:"Only conversations with this role."`
	Since     timestamp `placeholder:"TIME" group:"Filter:" help:"Only conversations created since this time: 2h (ago) or 2026-01-31T12:00:00Z."`
	Before    timestamp `placeholder:"TIME" group:"Filter:" help:"Only conversations created before this time."`
	Sort      string    `enum:"updated,created,name" placeholder:"BY" default:"updated" group:"Order:" help:"Sort by updated or created, newest first, or by name (default ${default})."`
	Reverse   bool      `group:"Order:" help:"Reverse the order."`
	Limit     int       `short:"n" placeholder:"N" default:"20" group:"Pages:" help:"Conversations per page, at most 100 (default ${default})."`
	PageToken string    `placeholder:"TOKEN" group:"Pages:" help:"Continue from a previous page."`
	All       bool      `group:"Pages:" help:"Show all pages. With --json: one conversation per line."`

	connection
}

// Help implements [kong.HelpProvider].
func (contextsListCmd) Help() string {
	return `Examples:

    holdfast contexts list --tag invoices --tag 2026
    holdfast contexts list --status active,paused --sort name
    holdfast contexts list --all --json | jq -r 'select(.taskCount > 10) | .contextId'`
}

// Run lists contexts.
func (c *contextsListCmd) Run(ctx context.Context, a *app) error {
	if err := checkLimit(c.Limit); err != nil {
		return err
	}
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	return c.explain(ctx, a, c.list(ctx, a, cl))
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
	for name, text := range map[string]string{"role": c.Role, "pageToken": c.PageToken} {
		if text != "" {
			m[name] = text
		}
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

func (c *contextsListCmd) list(ctx context.Context, a *app, cl *client.Client) error {
	params := a2a.ListContextsParams{Metadata: c.filters()}
	table := newContextTable(a)
	var more, total string
	for {
		raw, page, err := callMethod[a2a.ListContextsResult](ctx, cl, a2a.MethodContextsList, params)
		if err != nil {
			return err
		}
		switch {
		case a.json && !c.All:
			a.out.raw(append(raw, '\n'))
		case a.json:
			if err := writeItems(a, raw, "contexts"); err != nil {
				return err
			}
		default:
			table.write(page.Contexts)
			total = totalText(page.Total, page.TotalCapped)
		}
		if more = page.NextPageToken; !c.All || more == "" {
			break
		}
		params.Metadata["pageToken"] = more
	}
	if table.rows == 0 {
		a.info("no conversations")
	}
	if more != "" {
		printMore(a, total, more)
	}
	return nil
}

// contextTable prints contexts in columns of fixed widths.
type contextTable struct {
	a          *app
	rows       int
	name, tags int // column widths
}

func newContextTable(a *app) *contextTable {
	t := &contextTable{a: a, name: 24, tags: 60}
	if a.out.terminal {
		t.tags = a.out.width - 36 - 9 - 5 - 7 - t.name - 5*2
	}
	return t
}

func (t *contextTable) write(contexts []a2a.Context) {
	if t.rows == 0 && len(contexts) > 0 {
		t.row("ID", "STATUS", "TASKS", "UPDATED", "NAME", "TAGS")
	}
	for _, c := range contexts {
		t.row(oneLine(c.ID, 0), string(statusOf(&c)), fmt.Sprint(c.TaskCount), age(c.UpdatedAt), oneLine(c.Name, t.name), strings.Join(c.Tags, ", "))
		t.rows++
	}
}

func (t *contextTable) row(id, status, tasks, updated, name, tags string) {
	line := fmt.Sprintf("%-36s  %-9s  %5s  %7s  ", id, status, tasks, updated)
	const minTagsWidth = 12
	if t.tags < minTagsWidth { // name and tags share a column
		line += oneLine(strings.Trim(name+", "+tags, ", "), max(t.name+2+t.tags, minTagsWidth))
	} else {
		line += fmt.Sprintf("%-*s  %s", t.name, name, oneLine(tags, t.tags))
	}
	t.a.out.line("%s", strings.TrimRight(line, " "))
}

func statusOf(c *a2a.Context) a2a.ContextStatus {
	if c.Status == "" {
		return a2a.ContextActive
	}
	return c.Status
}

type contextsGetCmd struct {
	ID      string `arg:"" help:"Conversation id."`
	History *int   `placeholder:"N" help:"Show only the newest N messages and results; 0 shows the record only. With --json: the newest N messages of each task (default 20; with --json all)."`

	connection
}

// Help implements [kong.HelpProvider].
func (contextsGetCmd) Help() string {
	return `Prints the record, followed by the messages and results of the conversation's tasks.

Examples:

    holdfast contexts get 01980a2e-...
    holdfast contexts get 01980a2e-... --history 0
    holdfast contexts get 01980a2e-... --json | jq -r '.history[] | .role'`
}

// defaultHistory is the default number of entries that contexts get shows.
const defaultHistory = 20

// Run shows a context.
func (c *contextsGetCmd) Run(ctx context.Context, a *app) error {
	if c.History != nil && *c.History < 0 {
		return usagef("--history must be 0 or more")
	}
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	return c.explain(ctx, a, c.get(ctx, a, cl))
}

func (c *contextsGetCmd) get(ctx context.Context, a *app, cl *client.Client) error {
	params := a2a.ContextQueryParams{ContextID: c.ID, HistoryLength: c.History}
	if !a.json {
		params.HistoryLength = new(int) // readConversation reads the messages
	}
	raw, record, err := callMethod[a2a.Context](ctx, cl, a2a.MethodContextsGet, params)
	if err != nil {
		return err
	}
	if a.json {
		a.out.raw(append(raw, '\n'))
		return nil
	}
	showContext(a.out, record)
	limit := defaultHistory
	if c.History != nil {
		limit = *c.History
	}
	if limit == 0 || record.TaskCount == 0 {
		return nil
	}
	transcript, _, err := readConversation(ctx, cl, c.ID, limit)
	if err != nil {
		return err
	}
	for _, entry := range transcript {
		a.out.line("")
		a.out.line("%s", strings.TrimRight(a.out.bold(entry.author)+"  "+a.out.dim(entry.taskInfo()), " "))
		showParts(a.out, entry.parts)
	}
	return nil
}

func showContext(o *output, c *a2a.Context) {
	o.line("%s", o.bold("context "+clean(c.ID)))
	o.row("name", c.Name)
	o.row("about", c.Description)
	o.row("status", string(statusOf(c)))
	o.row("role", c.Role)
	o.row("tags", strings.Join(c.Tags, ", "))
	o.row("parent", c.ParentID)
	o.row("related", strings.Join(c.ReferenceIDs, ", "))
	o.row("metadata", compact(c.Metadata))
	o.row("created", fmt.Sprintf("%s (%s ago)", c.CreatedAt.Local().Format(time.DateTime), age(c.CreatedAt)))
	o.row("updated", fmt.Sprintf("%s (%s ago)", c.UpdatedAt.Local().Format(time.DateTime), age(c.UpdatedAt)))
	o.row("tasks", fmt.Sprint(c.TaskCount))
}

// compact returns m as JSON, "" if it is empty.
func compact(m map[string]any) string {
	raw, err := json.Marshal(m)
	if len(m) == 0 || err != nil {
		return ""
	}
	return string(raw)
}

// transcriptEntry is a message or a result of a conversation.
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
	return fmt.Sprintf("task %s, %s", clean(u.taskID), u.state)
}

// maxTasksRead is the maximum number of tasks that are read to show a conversation: one page.
const maxTasksRead = 100

// readConversation returns up to limit of the last entries of a conversation, oldest first, and
// its newest task, nil if it has none.
func readConversation(ctx context.Context, cl *client.Client, id string, limit int) ([]transcriptEntry, *a2a.Task, error) {
	size := min(limit, maxTasksRead)
	_, page, err := callMethod[a2a.ListTasksResult](ctx, cl, a2a.MethodList, a2a.ListTasksParams{
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
		all = append(all, transcriptEntry{author: "artifact " + clean(name), parts: artifact.Parts})
	}
	if last != nil {
		all = append(all, transcriptEntry{author: string(last.Role), parts: last.Parts})
	}
	if n := len(all); n > 0 {
		all[n-1].taskID, all[n-1].state = t.ID, t.Status.State
	}
	return all
}
