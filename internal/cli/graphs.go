package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/transfer"
	"github.com/holdfast-dev/holdfast/store/contract"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphs"
)

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
	Graph nonEmpty `short:"g" placeholder:"NAME" default:"default" help:"Graph (default ${default})."`
}

func (f *graphFlag) key(k *kept) graph.Key {
	return graph.Key{Owner: k.owner, Graph: string(f.Graph)}
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
	return relationshipView{r.ID, r.Source, r.Type, r.Target, r.Properties, timeJSON(r.ValidFrom), timeJSON(r.ValidTo), r.Version, timeJSON(r.RecordedAt), timeJSON(r.ReplacedAt)}
}

// withGraphs opens the stores and calls do with the store of graphs.
func (f *keptFlags) withGraphs(ctx context.Context, a *app, write bool, do func(k *kept) error) error {
	return f.with(ctx, a, write, func(k *kept) error {
		if graphs.In(k.Stores) == nil {
			return without("graphs")
		}
		return do(k)
	})
}

type graphListCmd struct {
	pageFlags `group:"Pages:" set:"items=Graphs" set:"item=graph" set:"but="`
	keptFlags
}

// Run lists graphs.
func (c *graphListCmd) Run(ctx context.Context, a *app) error {
	t := &table{a: a, what: "graphs", member: "graphs", columns: []column{{"ENTITIES", -9}, {"RELATIONSHIPS", -13}, {"GRAPH", 0}}}
	t.fit()
	return c.pages(ctx, t, &c.pageFlags, func(k *kept, token string) (items []any, next string, err error) {
		lister, ok := graphs.In(k.Stores).(graph.Lister)
		if !ok {
			return nil, "", without("lists of graphs")
		}
		p := graph.ListParams{Owner: k.owner, Limit: c.Limit}
		if err := fromPageToken(token, &p.After); err != nil {
			return nil, "", err
		}
		page, err := lister.Graphs(ctx, p)
		for _, info := range page {
			t.row(strconv.FormatInt(info.Entities, 10), strconv.FormatInt(info.Relationships, 10), info.Name)
			items = append(items, map[string]any{"name": info.Name, "entities": info.Entities, "relationships": info.Relationships})
		}
		if err == nil && len(page) == c.Limit {
			next, err = pageToken(page[len(page)-1].Name)
		}
		return items, next, err
	})
}

type graphEntitiesCmd struct {
	Label []string `placeholder:"LABEL" group:"Filter:" help:"Only entities with this label. Repeatable."`
	Name  []string `placeholder:"TEXT" group:"Filter:" help:"Only entities with this name, in upper or lower case. Repeatable."`
	graphFlag

	pageFlags `group:"Pages:" set:"items=Entities" set:"item=entity" set:"but="`
	keptFlags
}

// Run lists entities.
func (c *graphEntitiesCmd) Run(ctx context.Context, a *app) error {
	t := &table{a: a, what: "entities", member: "entities", columns: []column{{"ID", 26}, {"LABEL", 16}, {"PROPERTIES", 0}}}
	t.fit()
	return c.pages(ctx, t, &c.pageFlags, func(k *kept, token string) (items []any, next string, err error) {
		if graphs.In(k.Stores) == nil {
			return nil, "", without("graphs")
		}
		p := graph.FindParams{Labels: c.Label, Names: c.Name, Limit: c.Limit}
		if err := fromPageToken(token, &p.After); err != nil {
			return nil, "", err
		}
		page, err := graphs.In(k.Stores).FindEntities(ctx, c.key(k), p)
		for i := range page {
			e := &page[i]
			t.row(e.ID, e.Label, compact(e.Properties))
			items = append(items, viewEntity(e))
		}
		if err == nil && len(page) == c.Limit {
			next, err = pageToken(page[len(page)-1].ID)
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

	keptFlags
}

// Run shows an entity and what it is connected with.
func (c *graphShowCmd) Run(ctx context.Context, a *app) error {
	if c.Depth < 0 || c.Depth > graph.MaxDepth || c.Limit < 1 || c.Limit > graph.MaxEntities {
		return usagef("--depth must be 0 to %d, and --limit 1 to %d", graph.MaxDepth, graph.MaxEntities)
	}
	return c.withGraphs(ctx, a, false, func(k *kept) error {
		p := graph.NeighborParams{IDs: []string{c.ID}, Depth: cmp.Or(c.Depth, graph.StartsOnly), MaxEntities: c.Limit, Walk: graph.Walk{Moment: graph.Moment{AsOf: c.AsOf}}}
		found, err := graphs.In(k.Stores).Neighbors(ctx, c.key(k), p)
		if err != nil {
			return err
		}
		if len(found.Entities) == 0 {
			return k.notFound("entity", c.ID)
		}
		if a.json {
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
			return a.writeResult(map[string]any{"entities": entities, "relationships": relationships, "truncated": found.Truncated})
		}
		for i := range found.Entities {
			n := &found.Entities[i]
			a.out.line("%s", strings.TrimSpace(fmt.Sprintf("%s  %s  %s", a.out.bold(clean(n.ID)), n.Label, a.out.dim(clean(compact(n.Properties))))))
		}
		if len(found.Relationships) > 0 {
			a.out.line("")
		}
		for i := range found.Relationships {
			a.out.line("%s", clean(relationshipText(&found.Relationships[i])))
		}
		if found.Truncated {
			a.info("more results: --limit shows more entities")
		}
		return nil
	})
}

// relationshipText describes a relationship on a line.
func relationshipText(r *graph.Relationship) string {
	text := fmt.Sprintf("%s -[%s]-> %s", r.Source, r.Type, r.Target)
	if properties := compact(r.Properties); properties != "" {
		text += "  " + properties
	}
	if !r.ValidFrom.IsZero() {
		text += ", from " + timeText(r.ValidFrom)
	}
	if !r.ValidTo.IsZero() {
		text += ", until " + timeText(r.ValidTo)
	}
	return text
}

type graphQueryCmd struct {
	Query string   `arg:"" help:"Query, such as 'MATCH (p:Person) RETURN p.name'; - reads it from stdin."`
	Param []string `sep:"none" placeholder:"NAME=VALUE" help:"Value of $$NAME in the query: JSON, or a text. Repeatable."`
	Limit int      `short:"n" default:"1000" help:"Maximum number of rows, at most 100000."`
	graphFlag

	keptFlags
}

// params returns the params of the query.
func (c *graphQueryCmd) params() (map[string]any, error) {
	params := make(map[string]any)
	for _, text := range c.Param {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, usagef("--param is %s, want NAME=VALUE", a2a.Quote(text))
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
func (c *graphQueryCmd) Run(ctx context.Context, a *app) error {
	if c.Limit < 1 || c.Limit > graph.MaxRows {
		return usagef("--limit is %d, want 1 to %d", c.Limit, graph.MaxRows)
	}
	params, err := c.params()
	if err != nil {
		return err
	}
	text := c.Query
	if text == "-" {
		all, err := io.ReadAll(io.LimitReader(nonNilReader(a.stdin), graph.MaxQuery+1))
		if err != nil {
			return err
		}
		text = string(all)
	}
	return c.withGraphs(ctx, a, false, func(k *kept) error {
		s, ok := graphs.In(k.Stores).(graph.CypherCapable)
		if !ok {
			return without("queries in openCypher")
		}
		r, err := s.QueryCypher(ctx, c.key(k), graph.CypherParams{Query: text, Params: params, MaxRows: c.Limit})
		if err != nil {
			return err
		}
		rows := make([][]any, len(r.Rows))
		for i, row := range r.Rows {
			for _, v := range row {
				rows[i] = append(rows[i], viewValue(v))
			}
		}
		if a.json {
			return a.writeResult(map[string]any{"columns": r.Columns, "rows": rows, "truncated": r.Truncated})
		}
		printRows(a, r.Columns, rows)
		if r.Truncated {
			a.info("more results: --limit shows more rows")
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
func printRows(a *app, columns []string, rows [][]any) {
	const width = 24
	t := &table{a: a}
	for _, name := range columns {
		t.columns = append(t.columns, column{name, width})
	}
	t.fit()
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
		t.row(cells...)
	}
	if len(rows) == 0 {
		a.info("no rows")
	}
}

type graphExportCmd struct {
	Output string `short:"o" placeholder:"FILE" help:"Write to this file instead of stdout. Only you can read it. An existing file is replaced after the export is complete."`

	keptFlags
}

// Run exports graphs.
func (c *graphExportCmd) Run(ctx context.Context, a *app) error {
	return c.withGraphs(ctx, a, false, func(k *kept) error {
		var report transfer.Report
		export := func(w io.Writer) (err error) {
			report, err = transfer.ExportKept(ctx, w, []contract.Store{graphs.Of(graphs.In(k.Stores))}, k.owner)
			return err
		}
		to, err := "stdout", error(nil)
		if c.Output == "" || c.Output == "-" {
			err = export(a.out.w)
		} else {
			to, err = c.Output, replaceFile(c.Output, export)
		}
		switch {
		case err != nil:
			return err
		case a.json && to != "stdout":
			return a.writeResult(report)
		}
		items := describeItems(report.Document, graphs.Kind)
		if len(items) == 0 {
			items = []string{"nothing"}
		}
		a.info("exported %s to %s", strings.Join(items, ", "), to)
		for _, note := range report.Notes {
			a.info("%s %s", a.err.red("note:"), note)
		}
		return nil
	})
}

type graphRebuildCmd struct {
	graphFlag

	keptFlags
}

// Run makes the copy of a graph again.
func (c *graphRebuildCmd) Run(ctx context.Context, a *app) error {
	return c.withGraphs(ctx, a, true, func(k *kept) error {
		s, ok := graphs.In(k.Stores).(interface {
			Rebuild(ctx context.Context, k graph.Key) error
		})
		if !ok {
			return without("copies of graphs: it needs --postgres-age")
		}
		if err := s.Rebuild(ctx, c.key(k)); err != nil {
			return err
		}
		return a.done(map[string]any{"graph": c.Graph}, "rebuilt the copy of graph "+a2a.Quote(string(c.Graph)))
	})
}

type graphForgetCmd struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Ids of entities. Optional with --all."`
	All bool     `help:"Delete the whole graph."`
	graphFlag
	confirmFlag

	keptFlags
}

// Run deletes entities or a graph. It continues after errors.
func (c *graphForgetCmd) Run(ctx context.Context, a *app) error {
	if c.All == (len(c.IDs) > 0) {
		return usagef("want ids of entities or --all")
	}
	if err := c.check(a); err != nil {
		return err
	}
	return c.withGraphs(ctx, a, true, func(k *kept) error {
		if c.All {
			return c.forgetAll(ctx, a, k)
		}
		describe := func(id string) (string, error) {
			found, err := graphs.In(k.Stores).Entities(ctx, c.key(k), []string{id})
			if err == nil && len(found) == 0 {
				err = k.notFound("entity", id)
			}
			return fmt.Sprintf("entity %s with its relationships", id), err
		}
		return c.delete(ctx, a, c.IDs, describe, func(id string) error {
			deleted, err := graphs.In(k.Stores).DeleteEntity(ctx, c.key(k), id)
			if err == nil && !deleted {
				err = k.notFound("entity", id)
			}
			if err != nil {
				return err
			}
			return a.done(map[string]any{"id": id}, "deleted "+id)
		})
	})
}

// forgetAll deletes the whole graph.
func (c *graphForgetCmd) forgetAll(ctx context.Context, a *app, k *kept) error {
	s, ok := graphs.In(k.Stores).(graph.Forgetter)
	if !ok {
		return without("the deletion of graphs")
	}
	which := "graph " + a2a.Quote(string(c.Graph))
	return c.delete(ctx, a, []string{which}, func(string) (string, error) { return which, nil }, func(string) error {
		r, err := s.DeleteGraph(ctx, c.key(k))
		if err != nil {
			return err
		}
		return a.done(map[string]any{"entities": r.Entities, "relationships": r.Relationships},
			fmt.Sprintf("deleted %s and %s", plural(int64(r.Entities), "entity"), plural(int64(r.Relationships), "relationship")))
	})
}
