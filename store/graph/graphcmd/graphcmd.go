// Package graphcmd has the command holdfast graph.
package graphcmd

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/cli/transfer"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/cypher"
	"github.com/holdfast-dev/holdfast/store/graph/graphs"
)

//go:embed help.txt
var help string

// Command is the command of the contract.
var Command = command.Command{Name: "graph", Help: "List, show, query, export and delete graphs of an owner, in the store.", Details: help, New: func() any { return new(graphCmd) }}

// graphCmd has the commands for graphs.
type graphCmd struct {
	List     graphListCmd     `cmd:"" help:"List graphs."`
	Entities graphEntitiesCmd `cmd:"" help:"List the entities of a graph, by id; find them by label and name."`
	Show     graphShowCmd     `cmd:"" help:"Show an entity with its neighbors."`
	Query    graphQueryCmd    `cmd:"" help:"Execute a query in openCypher that reads."`
	Export   graphExportCmd   `cmd:"" help:"Write the graphs of an owner to a file that holdfast import reads."`
	Forget   graphForgetCmd   `cmd:"" help:"Delete entities, with their relationships, or a whole graph."`
	Rebuild  graphRebuildCmd  `cmd:"" help:"Make the copy of a graph in Apache AGE again."`
}

// graphFlag selects a graph.
type graphFlag struct {
	Graph command.NonEmpty `short:"g" placeholder:"NAME" default:"default" help:"Graph (default ${default})."`
}

func (f *graphFlag) key(k *command.Data) graph.Key {
	return graph.Key{Owner: k.Owner, Graph: string(f.Graph)}
}

// entityView is an entity in the JSON output.
type entityView struct {
	ID         string         `json:"id"`
	Label      string         `json:"label"`
	Properties map[string]any `json:"properties,omitempty"`
	Distance   *int           `json:"distance,omitempty"`
}

func viewEntity(e *graph.Entity) entityView {
	return entityView{ID: e.ID, Label: e.Label, Properties: e.Properties}
}

// relationshipView is a version of a relationship in the JSON output.
type relationshipView struct {
	ID         string         `json:"id"`
	Source     string         `json:"source"`
	Type       string         `json:"type"`
	Target     string         `json:"target"`
	Properties map[string]any `json:"properties,omitempty"`
	ValidFrom  *time.Time     `json:"validFrom,omitempty"`
	ValidTo    *time.Time     `json:"validTo,omitempty"`
	Version    int64          `json:"version"`
	RecordedAt *time.Time     `json:"recordedAt,omitempty"`
	ReplacedAt *time.Time     `json:"replacedAt,omitempty"`
}

func viewRelationship(r *graph.Relationship) relationshipView {
	return relationshipView{r.ID, r.Source, r.Type, r.Target, r.Properties, command.TimeJSON(r.ValidFrom), command.TimeJSON(r.ValidTo), r.Version, command.TimeJSON(r.RecordedAt), command.TimeJSON(r.ReplacedAt)}
}

// withGraphs opens the stores and calls do with the store of graphs.
func withGraphs(ctx context.Context, f *command.DataFlags, write bool, do func(k *command.Data) error) error {
	return f.With(ctx, write, func(k *command.Data) error {
		if graphs.In(k.Stores) == nil {
			return command.Without("graphs")
		}
		return do(k)
	})
}

type graphListCmd struct {
	command.PageFlags `group:"Pages:" set:"items=Graphs" set:"item=graph" set:"but="`
	command.DataFlags
}

// Run lists graphs.
func (c *graphListCmd) Run(ctx context.Context, a *command.Console) error {
	t := command.NewTable(a, "graphs", "ENTITIES:-9", "RELATIONSHIPS:-13", "GRAPH")
	t.Fit()
	return c.Pages(ctx, t, &c.PageFlags, func(k *command.Data, token string) (items []any, next string, err error) {
		lister, ok := graphs.In(k.Stores).(graph.Lister)
		if !ok {
			return nil, "", command.Without("lists of graphs")
		}
		p := graph.ListParams{Owner: k.Owner, Limit: c.Limit}
		if err := command.FromPageToken(token, &p.After); err != nil {
			return nil, "", err
		}
		page, err := lister.Graphs(ctx, p)
		for _, info := range page {
			t.Row(strconv.FormatInt(info.Entities, 10), strconv.FormatInt(info.Relationships, 10), info.Name)
			items = append(items, map[string]any{"name": info.Name, "entities": info.Entities, "relationships": info.Relationships})
		}
		if err == nil && len(page) == c.Limit {
			next, err = command.PageToken(page[len(page)-1].Name)
		}
		return items, next, err
	})
}

type graphEntitiesCmd struct {
	Label []string `placeholder:"LABEL" group:"Filter:" help:"Only entities with this label. Repeatable."`
	Name  []string `placeholder:"TEXT" group:"Filter:" help:"Only entities with this name, in upper or lower case. Repeatable."`
	graphFlag

	command.PageFlags `group:"Pages:" set:"items=Entities" set:"item=entity" set:"but="`
	command.DataFlags
}

// Run lists entities.
func (c *graphEntitiesCmd) Run(ctx context.Context, a *command.Console) error {
	t := command.NewTable(a, "entities", "ID:26", "LABEL:16", "PROPERTIES")
	t.Fit()
	return c.Pages(ctx, t, &c.PageFlags, func(k *command.Data, token string) (items []any, next string, err error) {
		if graphs.In(k.Stores) == nil {
			return nil, "", command.Without("graphs")
		}
		p := graph.FindParams{Labels: c.Label, Names: c.Name, Limit: c.Limit}
		if err := command.FromPageToken(token, &p.After); err != nil {
			return nil, "", err
		}
		page, err := graphs.In(k.Stores).FindEntities(ctx, c.key(k), p)
		for i := range page {
			e := &page[i]
			t.Row(e.ID, e.Label, command.Compact(e.Properties))
			items = append(items, viewEntity(e))
		}
		if err == nil && len(page) == c.Limit {
			next, err = command.PageToken(page[len(page)-1].ID)
		}
		return items, next, err
	})
}

type graphShowCmd struct {
	ID    string    `arg:"" help:"Id of the entity."`
	Depth int       `default:"1" help:"Largest distance of the neighbors, at most 16 (default ${default})."`
	Limit int       `short:"n" default:"100" help:"Maximum number of entities, at most 100000."`
	AsOf  time.Time `placeholder:"TIME" help:"Show what was true at this time, such as 2026-11-27T08:00:00Z (default now)."`
	graphFlag

	command.DataFlags
}

// Run shows an entity and what it is connected with.
func (c *graphShowCmd) Run(ctx context.Context, a *command.Console) error {
	if c.Depth < 0 || c.Depth > graph.MaxDepth || c.Limit < 1 || c.Limit > graph.MaxEntities {
		return command.Usagef("--depth must be 0 to %d, and --limit 1 to %d", graph.MaxDepth, graph.MaxEntities)
	}
	return withGraphs(ctx, &c.DataFlags, false, func(k *command.Data) error {
		p := graph.NeighborParams{IDs: []string{c.ID}, Depth: cmp.Or(c.Depth, graph.StartsOnly), MaxEntities: c.Limit, Walk: graph.Walk{Moment: graph.Moment{AsOf: c.AsOf}}}
		found, err := graphs.In(k.Stores).Neighbors(ctx, c.key(k), p)
		if err != nil {
			return err
		}
		if len(found.Entities) == 0 {
			return k.NotFound("entity", c.ID)
		}
		if a.JSON {
			entities, relationships := []entityView{}, []relationshipView{}
			for i := range found.Entities {
				n := &found.Entities[i]
				view := viewEntity(&n.Entity)
				view.Distance = &n.Distance
				entities = append(entities, view)
			}
			for i := range found.Relationships {
				relationships = append(relationships, viewRelationship(&found.Relationships[i]))
			}
			return a.WriteResult(map[string]any{"entities": entities, "relationships": relationships, "truncated": found.Truncated})
		}
		for i := range found.Entities {
			n := &found.Entities[i]
			a.Out.Line("%s", strings.TrimSpace(fmt.Sprintf("%s  %s  %s", a.Out.Bold(command.Clean(n.ID)), n.Label, a.Out.Dim(command.Clean(command.Compact(n.Properties))))))
		}
		if len(found.Relationships) > 0 {
			a.Out.Line("")
		}
		for i := range found.Relationships {
			a.Out.Line("%s", command.Clean(relationshipText(&found.Relationships[i])))
		}
		if found.Truncated {
			a.Info("more results: --limit shows more entities")
		}
		return nil
	})
}

// relationshipText describes a relationship on a line.
func relationshipText(r *graph.Relationship) string {
	text := fmt.Sprintf("%s -[%s]-> %s", r.Source, r.Type, r.Target)
	if properties := command.Compact(r.Properties); properties != "" {
		text += "  " + properties
	}
	if !r.ValidFrom.IsZero() {
		text += ", from " + command.TimeText(r.ValidFrom)
	}
	if !r.ValidTo.IsZero() {
		text += ", until " + command.TimeText(r.ValidTo)
	}
	return text
}

type graphQueryCmd struct {
	Query string   `arg:"" help:"Query, such as 'MATCH (p:Person) RETURN p.name'; - reads it from stdin."`
	Param []string `sep:"none" placeholder:"NAME=VALUE" help:"Value of $$NAME in the query: JSON, or a text. Repeatable."`
	Limit int      `short:"n" default:"1000" help:"Maximum number of rows, at most 100000."`
	graphFlag

	command.DataFlags
}

// params returns the params of the query.
func (c *graphQueryCmd) params() (map[string]any, error) {
	params := make(map[string]any)
	for _, text := range c.Param {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, command.Usagef("--param is %s, want NAME=VALUE", a2a.Quote(text))
		}
		d := json.NewDecoder(strings.NewReader(value))
		d.UseNumber()
		var v any
		if err := d.Decode(&v); err != nil || d.More() {
			v = value
		}
		params[name] = v
	}
	return params, nil
}

// Run executes a query.
func (c *graphQueryCmd) Run(ctx context.Context, a *command.Console) error {
	if c.Limit < 1 || c.Limit > graph.MaxRows {
		return command.Usagef("--limit is %d, want 1 to %d", c.Limit, graph.MaxRows)
	}
	params, err := c.params()
	if err != nil {
		return err
	}
	text := c.Query
	if text == "-" {
		all, err := io.ReadAll(io.LimitReader(command.NonNilReader(a.Stdin), graph.MaxQuery+1))
		if err != nil {
			return err
		}
		text = string(all)
	}
	return withGraphs(ctx, &c.DataFlags, false, func(k *command.Data) error {
		r, err := cypher.Execute(ctx, graphs.In(k.Stores), c.key(k), graph.CypherParams{Query: text, Params: params, MaxRows: c.Limit})
		if err != nil {
			return err
		}
		rows := make([][]any, len(r.Rows))
		for i, row := range r.Rows {
			for _, v := range row {
				rows[i] = append(rows[i], viewValue(v))
			}
		}
		if a.JSON {
			return a.WriteResult(map[string]any{"columns": r.Columns, "rows": rows, "truncated": r.Truncated})
		}
		printRows(a, r.Columns, rows)
		if r.Truncated {
			a.Info("more results: --limit shows more rows")
		}
		return nil
	})
}

// viewValue returns a value of a result for the output.
func viewValue(v any) any {
	switch v := v.(type) {
	case graph.Entity:
		return viewEntity(&v)
	case graph.Relationship:
		return viewRelationship(&v)
	case graph.Path:
		entities, relationships := []any{}, []any{}
		for i := range v.Entities {
			entities = append(entities, viewEntity(&v.Entities[i]))
		}
		for i := range v.Relationships {
			relationships = append(relationships, viewRelationship(&v.Relationships[i]))
		}
		return map[string]any{"entities": entities, "relationships": relationships}
	case []any:
		views := make([]any, len(v))
		for i := range v {
			views[i] = viewValue(v[i])
		}
		return views
	case map[string]any:
		views := make(map[string]any, len(v))
		for name := range v {
			views[name] = viewValue(v[name])
		}
		return views
	case float64:
		if _, err := json.Marshal(v); err != nil { // infinite, or no number
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
	}
	return v
}

// printRows prints the rows of a query.
func printRows(a *command.Console, columns []string, rows [][]any) {
	const width = 24
	t := command.NewTable(a, "rows")
	for _, name := range columns {
		t.Columns = append(t.Columns, command.Column{Head: name, Width: width})
	}
	t.Fit()
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, v := range row {
			if text, ok := v.(string); ok {
				cells[i] = text
			} else {
				raw, _ := json.Marshal(v) // made by viewValue
				cells[i] = string(raw)
			}
		}
		t.Row(cells...)
	}
	if len(rows) == 0 {
		a.Info("no rows")
	}
}

type graphExportCmd struct {
	Output string `short:"o" placeholder:"FILE" help:"Write to this file instead of stdout. Only you can read it. An existing file is replaced after the export is complete."`

	command.DataFlags
}

// Run exports graphs.
func (c *graphExportCmd) Run(ctx context.Context, a *command.Console) error {
	return withGraphs(ctx, &c.DataFlags, false, func(k *command.Data) error {
		var report transfer.Report
		export := func(w io.Writer) (err error) {
			report, err = transfer.ExportKept(ctx, w, []contract.Store{graphs.Of(graphs.In(k.Stores))}, k.Owner)
			return err
		}
		to, err := "stdout", error(nil)
		if c.Output == "" || c.Output == "-" {
			err = export(a.Out.W)
		} else {
			to, err = c.Output, command.ReplaceFile(c.Output, export)
		}
		switch {
		case err != nil:
			return err
		case a.JSON && to != "stdout":
			return a.WriteResult(report)
		}
		items := command.DescribeItems(report.Document, graphs.Kind)
		if len(items) == 0 {
			items = []string{"nothing"}
		}
		a.Info("exported %s to %s", strings.Join(items, ", "), to)
		for _, note := range report.Notes {
			a.Info("%s %s", a.Err.Red("note:"), note)
		}
		return nil
	})
}

type graphRebuildCmd struct {
	graphFlag

	command.DataFlags
}

// Run makes the copy of a graph again.
func (c *graphRebuildCmd) Run(ctx context.Context, a *command.Console) error {
	return withGraphs(ctx, &c.DataFlags, true, func(k *command.Data) error {
		s, ok := graphs.In(k.Stores).(interface {
			Rebuild(ctx context.Context, k graph.Key) error
		})
		if !ok {
			return command.Without("copies of graphs: it needs --postgres-age")
		}
		if err := s.Rebuild(ctx, c.key(k)); err != nil {
			return err
		}
		return a.Done(map[string]any{"graph": c.Graph}, "rebuilt the copy of graph "+a2a.Quote(string(c.Graph)))
	})
}

type graphForgetCmd struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Ids of entities. Optional with --all."`
	All bool     `help:"Delete the whole graph."`
	graphFlag
	command.ConfirmFlag

	command.DataFlags
}

// Run deletes entities or a graph. It continues after errors.
func (c *graphForgetCmd) Run(ctx context.Context, a *command.Console) error {
	if c.All == (len(c.IDs) > 0) {
		return command.Usagef("want ids of entities or --all")
	}
	if err := c.Check(a); err != nil {
		return err
	}
	return withGraphs(ctx, &c.DataFlags, true, func(k *command.Data) error {
		if c.All {
			return c.forgetAll(ctx, a, k)
		}
		describe := func(id string) (string, error) {
			found, err := graphs.In(k.Stores).Entities(ctx, c.key(k), []string{id})
			if err == nil && len(found) == 0 {
				err = k.NotFound("entity", id)
			}
			return fmt.Sprintf("entity %s with its relationships", id), err
		}
		return c.Delete(ctx, a, c.IDs, describe, func(id string) error {
			deleted, err := graphs.In(k.Stores).DeleteEntity(ctx, c.key(k), id)
			if err == nil && !deleted {
				err = k.NotFound("entity", id)
			}
			if err != nil {
				return err
			}
			return a.Done(map[string]any{"id": id}, "deleted "+id)
		})
	})
}

// forgetAll deletes the whole graph.
func (c *graphForgetCmd) forgetAll(ctx context.Context, a *command.Console, k *command.Data) error {
	s, ok := graphs.In(k.Stores).(graph.Forgetter)
	if !ok {
		return command.Without("the deletion of graphs")
	}
	which := "graph " + a2a.Quote(string(c.Graph))
	return c.Delete(ctx, a, []string{which}, func(string) (string, error) { return which, nil }, func(string) error {
		r, err := s.DeleteGraph(ctx, c.key(k))
		if err != nil {
			return err
		}
		return a.Done(map[string]any{"entities": r.Entities, "relationships": r.Relationships},
			fmt.Sprintf("deleted %s and %s", command.Plural(int64(r.Entities), "entity"), command.Plural(int64(r.Relationships), "relationship")))
	})
}
