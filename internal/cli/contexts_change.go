package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/client"
)

// record are the flags that describe a context; nil leaves a field as it is.
type record struct {
	Name        *string  `placeholder:"NAME" group:"Record:" help:"A short name."`
	Description *string  `placeholder:"TEXT" group:"Record:" help:"What it is about."`
	Role        *string  `placeholder:"ROLE" group:"Record:" help:"The part that is played in it, such as analyst."`
	Status      *string  `placeholder:"STATUS" group:"Record:" help:"active or paused; later also completed or archived."`
	Tag         []string `placeholder:"TAG" group:"Record:" help:"A tag; again for more."`
	Parent      *string  `placeholder:"ID" group:"Record:" help:"The conversation around this one."`
	Metadata    []string `sep:"none" placeholder:"KEY=TEXT|JSON" group:"Record:" help:"Data of yours: key=text, or a JSON object such as '{\"case\": 7}'; again for more."`
}

func (r *record) empty() bool {
	return r.Name == nil && r.Description == nil && r.Role == nil && r.Status == nil && r.Tag == nil && r.Parent == nil && r.Metadata == nil
}

// tags are those that were given: none for --tag "".
func (r *record) tags() []string {
	tags := []string{}
	for _, tag := range r.Tag {
		if tag != "" {
			tags = append(tags, tag)
		}
	}
	return tags
}

// parseMetadata reads what --metadata was given.
func parseMetadata(given []string) (map[string]any, error) {
	out := map[string]any{}
	for _, text := range given {
		if strings.HasPrefix(strings.TrimSpace(text), "{") {
			d := json.NewDecoder(strings.NewReader(text))
			d.UseNumber()
			if err := d.Decode(&out); err != nil || d.More() {
				return nil, usagef("--metadata %s is not a JSON object", a2a.Quote(text))
			}
			continue
		}
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, usagef("--metadata %s must be key=text or a JSON object", a2a.Quote(text))
		}
		out[key] = value
	}
	return out, nil
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

type contextsCreateCmd struct {
	ID string `arg:"" optional:"" help:"The id it is to have. Default: one is made up."`
	record

	connection
}

// Help has examples.
func (contextsCreateCmd) Help() string {
	return `Shows the id. A conversation needs not be created: one begins with its first task, too.

Examples:

    holdfast contexts create --name "Q3 invoices" --tag invoices --tag 2026
    id=$(holdfast contexts create --role analyst --metadata case=7) && holdfast chat --context "$id"`
}

// Run creates a context.
func (c *contextsCreateCmd) Run(ctx context.Context, a *app) error {
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	params := a2a.CreateContextParams{
		ContextID: c.ID, Name: deref(c.Name), Description: deref(c.Description), Role: deref(c.Role),
		Status: a2a.ContextStatus(deref(c.Status)), ParentID: deref(c.Parent),
	}
	if c.Tag != nil {
		params.Tags = c.tags()
	}
	if c.Metadata != nil {
		if params.Metadata, err = parseMetadata(c.Metadata); err != nil {
			return err
		}
	}
	raw, made, err := ask[a2a.Context](ctx, cl, a2a.MethodContextsCreate, params)
	switch {
	case err != nil:
		return c.explain(ctx, a, err)
	case a.json:
		a.out.raw(append(raw, '\n'))
	default:
		a.out.line("%s", clean(made.ID))
		a.say("Talk in it: %s chat%s --context %s", a.name, c.flags(), quoteShell(clean(made.ID)))
	}
	return nil
}

// forced are the flags of changes that unfinished tasks can be in the way of.
type forced struct {
	Force bool `help:"Cancel the tasks that are not over first."`
}

// hint adds --force to an error that it would help against: tasks that are not over,
// and what also says.
func (f *forced) hint(err error, also string) error {
	var refused *a2a.Error
	if f.Force || !errors.As(err, &refused) || refused.Code != a2a.CodeContextNotCancelable {
		return err
	}
	if refused.Data["tasks"] == nil && also == "" {
		return err
	}
	return &hinted{err, "--force cancels the tasks that are not over first" + also}
}

type contextsUpdateCmd struct {
	ID string `arg:"" help:"The conversation's id."`
	record
	forced

	connection
}

// Help has examples.
func (contextsUpdateCmd) Help() string {
	return `What is given replaces what was there, all the tags too; what is given empty is cleared: --name "", --tag "". --metadata is a JSON merge patch: null removes a member, objects merge, any other value replaces. The rest stays.

Examples:

    holdfast contexts update 01980a2e-... --name "Q3 invoices" --tag invoices
    holdfast contexts update 01980a2e-... --metadata case=8 --metadata '{"note": null}'
    holdfast contexts update 01980a2e-... --status paused`
}

// Run changes the record of a context.
func (c *contextsUpdateCmd) Run(ctx context.Context, a *app) error {
	if c.empty() {
		return &hinted{usagef("there is nothing to change: give --name, --status or another field"), "see: " + a.name + " help contexts update"}
	}
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	params := a2a.UpdateContextParams{
		ContextID: c.ID, Name: c.Name, Description: c.Description, Role: c.Role, Status: (*a2a.ContextStatus)(c.Status),
		ParentID: c.Parent, Force: c.Force,
	}
	if c.Tag != nil {
		tags := c.tags()
		params.Tags = &tags
	}
	if c.Metadata != nil {
		metadata, err := parseMetadata(c.Metadata)
		if err != nil {
			return err
		}
		params.Metadata = &metadata
	}
	raw, _, err := ask[a2a.Context](ctx, cl, a2a.MethodContextsUpdate, params)
	if err != nil {
		return c.explain(ctx, a, c.hint(err, ""))
	}
	a.changed(raw, "updated "+c.ID)
	return nil
}

// changed tells of a change: for scripts the result, for people what was done.
func (a *app) changed(raw json.RawMessage, text string) {
	if a.json {
		a.out.raw(append(raw, '\n'))
		return
	}
	a.out.line("%s", clean(text))
}

// each does something with every id, even if it fails for one. It returns the
// first error, and reports the others.
func (a *app) each(ctx context.Context, ids []string, do func(id string) error) error {
	var first error
	for _, id := range ids {
		err := do(id)
		switch {
		case err == nil:
		case first == nil:
			first = err
		default:
			a.report(err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return first
}

type contextsArchiveCmd struct {
	IDs []string `arg:"" name:"id" help:"The ids of the conversations."`
	forced

	connection
}

// Help has examples.
func (contextsArchiveCmd) Help() string {
	return `An archived conversation can be read, cleared with --force, and nothing else. One with tasks that are not over is refused (exit code 5).

Examples:

    holdfast contexts archive 01980a2e-...
    holdfast contexts list --before 720h --all --json | jq -r .contextId | xargs holdfast contexts archive`
}

// Run archives contexts, all of them even if one is refused.
func (c *contextsArchiveCmd) Run(ctx context.Context, a *app) error {
	cl, err := c.client(nil)
	if err != nil {
		return err
	}
	archived := a2a.ContextArchived
	return a.each(ctx, c.IDs, func(id string) error {
		params := a2a.UpdateContextParams{ContextID: id, Status: &archived, Force: c.Force}
		raw, _, err := ask[a2a.Context](ctx, cl, a2a.MethodContextsUpdate, params)
		if err != nil {
			return c.explain(ctx, a, c.hint(err, ""))
		}
		a.changed(raw, "archived "+id)
		return nil
	})
}

type contextsClearCmd struct {
	IDs []string `arg:"" name:"id" help:"The ids of the conversations."`
	Yes bool     `short:"y" help:"Do not ask. Needed where nobody can be asked: without a terminal, and with --json."`
	forced

	connection
}

// Help has examples.
func (contextsClearCmd) Help() string {
	return `Deletes the record and every task with its messages, results and feedback. Nothing brings them back. One with tasks that run, or that is archived, is refused (exit code 5) without --force.

Examples:

    holdfast contexts clear 01980a2e-...
    holdfast contexts list --status archived --all --json | jq -r .contextId | xargs holdfast contexts clear --yes --force`
}

// errNotConfirmed ends a command that people have thought better of.
var errNotConfirmed = errors.New("nothing was deleted")

// Run clears contexts, all of them even if one is refused.
func (c *contextsClearCmd) Run(ctx context.Context, a *app) error {
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
			if err := c.confirm(ctx, a, cl, keyboard, id); err != nil {
				return c.explain(ctx, a, err)
			}
		}
		raw, told, err := ask[map[string]string](ctx, cl, a2a.MethodContextsClear, a2a.ClearContextParams{ContextID: id, Force: c.Force})
		if err != nil {
			return c.explain(ctx, a, c.hint(err, ", and clears archived conversations too"))
		}
		text := "cleared " + id
		if tasks := (*told)["tasks"]; tasks != "" {
			text += ", tasks: " + tasks
		}
		a.changed(raw, text)
		return nil
	})
}

// confirm asks whether a context is to be deleted.
func (c *contextsClearCmd) confirm(ctx context.Context, a *app, cl *client.Client, keyboard *bufio.Reader, id string) error {
	_, about, err := ask[a2a.Context](ctx, cl, a2a.MethodContextsGet, a2a.ContextQueryParams{ContextID: id, HistoryLength: new(int)})
	if err != nil {
		return err
	}
	what := "conversation " + clean(id)
	if about.Name != "" {
		what += fmt.Sprintf(" (%s)", oneLine(about.Name, 40))
	}
	if about.TaskCount == 1 {
		what += " with its one task"
	} else if about.TaskCount > 1 {
		what += fmt.Sprintf(" with its %d tasks", about.TaskCount)
	}
	return a.confirm(ctx, keyboard, what)
}

// asking reports whether a deletion needs a confirmation. It is a usage error if nobody can
// be asked.
func (a *app) asking(yes bool) (bool, error) {
	if !yes && (a.json || !isTerminal(a.stdin) || !a.err.terminal) {
		return false, usagef("--yes is needed where nobody can be asked: this deletes for good")
	}
	return !yes, nil
}

// confirm asks whether something is to be deleted.
func (a *app) confirm(ctx context.Context, keyboard *bufio.Reader, what string) error {
	_, _ = fmt.Fprintf(a.err.w, "Delete %s for good? [y/N] ", what)
	answer := make(chan string, 1)
	go func() {
		line, err := keyboard.ReadString('\n')
		if err != nil {
			line = ""
			a.err.raw([]byte("\n"))
		}
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case said := <-answer:
		if said == "y" || said == "yes" {
			return nil
		}
		return errNotConfirmed
	case <-ctx.Done():
		a.err.raw([]byte("\n"))
		return context.Cause(ctx)
	}
}
