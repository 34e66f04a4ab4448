package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
)

// contextFlags has the flags that describe a context. nil fields are not changed.
type contextFlags struct {
	Name        *string  `placeholder:"NAME" group:"Fields:" help:"Short name."`
	Description *string  `placeholder:"TEXT" group:"Fields:" help:"Description."`
	Role        *string  `placeholder:"ROLE" group:"Fields:" help:"Role, such as analyst."`
	Status      *string  `placeholder:"STATUS" group:"Fields:" help:"Status: active or paused; with update also completed or archived."`
	Tag         []string `placeholder:"TAG" group:"Fields:" help:"Tag. Repeatable."`
	Parent      *string  `placeholder:"ID" group:"Fields:" help:"Parent context."`
	Metadata    []string `sep:"none" placeholder:"KEY=TEXT|JSON" group:"Fields:" help:"Your metadata: key=text or a JSON object such as '{\"case\": 7}'. Repeatable."`
}

func (r *contextFlags) empty() bool {
	return r.Name == nil && r.Description == nil && r.Role == nil && r.Status == nil && r.Tag == nil && r.Parent == nil && r.Metadata == nil
}

// tags returns the tags of --tag, without empty ones.
func (r *contextFlags) tags() []string {
	tags := []string{}
	for _, tag := range r.Tag {
		if tag != "" {
			tags = append(tags, tag)
		}
	}
	return tags
}

// parseMetadata parses the values of --metadata.
func parseMetadata(values []string) (map[string]any, error) {
	out := map[string]any{}
	for _, text := range values {
		if strings.HasPrefix(strings.TrimSpace(text), "{") {
			d := json.NewDecoder(strings.NewReader(text))
			d.UseNumber()
			if err := d.Decode(&out); err != nil || d.More() {
				return nil, command.Usagef("--metadata %s is not a JSON object", a2a.Quote(text))
			}
			continue
		}
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" {
			return nil, command.Usagef("--metadata %s must be key=text or a JSON object", a2a.Quote(text))
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
	ID string `arg:"" optional:"" help:"Id of the new context (default generated)."`
	contextFlags

	connection
}

// Run creates a context.
func (c *contextsCreateCmd) Run(ctx context.Context, a *app) error {
	params := a2a.CreateContextParams{
		ContextID: c.ID, Name: deref(c.Name), Description: deref(c.Description), Role: deref(c.Role),
		Status: a2a.ContextStatus(deref(c.Status)), ParentID: deref(c.Parent),
	}
	if c.Tag != nil {
		params.Tags = c.tags()
	}
	if c.Metadata != nil {
		var err error
		if params.Metadata, err = parseMetadata(c.Metadata); err != nil {
			return err
		}
	}
	return show(ctx, a, &c.connection, a2a.MethodContextsCreate, params, func(created *a2a.Context) {
		a.Out.Line("%s", command.Clean(created.ID))
		a.Info("Use it: %s chat%s --context %s", a.name, c.flags(), quoteShell(command.Clean(created.ID)))
	})
}

// forceFlag is the --force flag of changes that unfinished tasks prevent.
type forceFlag struct {
	Force bool `help:"Cancel unfinished tasks first if they prevent the operation."`
}

// hint adds a hint to set --force to an error about unfinished tasks. If also is not empty, it adds
// the hint, with also, to other conflicts too.
func (f *forceFlag) hint(err error, also string) error {
	var refused *a2a.Error
	if f.Force || !errors.As(err, &refused) || refused.Code != a2a.CodeContextNotCancelable {
		return err
	}
	if refused.Data["tasks"] == nil && also == "" {
		return err
	}
	return command.WithHint(err, "--force cancels unfinished tasks first"+also)
}

type contextsUpdateCmd struct {
	ID string `arg:"" help:"Context id."`
	contextFlags
	forceFlag

	connection
}

// Run changes fields of a context.
func (c *contextsUpdateCmd) Run(ctx context.Context, a *app) error {
	if c.empty() {
		return command.WithHint(command.Usagef("nothing to change: set --name, --status or another field"), "see: "+a.name+" help contexts update")
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
	return c.hint(c.change(ctx, a, a2a.MethodContextsUpdate, params, "updated "+c.ID), "")
}

type contextsArchiveCmd struct {
	IDs []string `arg:"" name:"id" help:"Context ids."`
	forceFlag

	connection
}

// Run archives contexts. It continues after errors.
func (c *contextsArchiveCmd) Run(ctx context.Context, a *app) error {
	archived := a2a.ContextArchived
	return a.Each(ctx, c.IDs, func(id string) error {
		params := a2a.UpdateContextParams{ContextID: id, Status: &archived, Force: c.Force}
		return c.hint(c.change(ctx, a, a2a.MethodContextsUpdate, params, "archived "+id), "")
	})
}

type contextsClearCmd struct {
	IDs []string `arg:"" name:"id" help:"Context ids."`
	command.ConfirmFlag
	forceFlag

	connection
}

// Run clears contexts. It continues after errors.
func (c *contextsClearCmd) Run(ctx context.Context, a *app) error {
	describe := func(id string) (string, error) { return c.describe(ctx, a, id) }
	return c.Delete(ctx, &a.Console, c.IDs, describe, func(id string) error {
		params := a2a.ClearContextParams{ContextID: id, Force: c.Force}
		err := show(ctx, a, &c.connection, a2a.MethodContextsClear, params, func(result *a2a.ClearContextResult) {
			a.Out.Line("%s", command.Clean(fmt.Sprintf("cleared %s, tasks: %d", id, result.Tasks)))
		})
		return c.hint(err, ", and clears archived contexts too")
	})
}

// describe returns the name and the size of a context.
func (c *contextsClearCmd) describe(ctx context.Context, a *app, id string) (string, error) {
	_, about, err := call[a2a.Context](ctx, a, &c.connection, a2a.MethodContextsGet, a2a.ContextQueryParams{ContextID: id, HistoryLength: new(int)})
	if err != nil {
		return "", err
	}
	what := "context " + command.Clean(id)
	if about.Name != "" {
		what += fmt.Sprintf(" (%s)", command.OneLine(about.Name, 40))
	}
	if about.TaskCount > 0 {
		what += " with " + command.Plural(int64(about.TaskCount), "task")
	}
	return what, nil
}
