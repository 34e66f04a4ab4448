// Package memorycmd has the command holdfast memory.
package memorycmd

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/cli/command"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/facts"
	"github.com/holdfast-dev/holdfast/store/memory/memorydriver"
)

//go:embed help.txt
var help string

// Command is the command of the contract.
var Command = command.Command{Name: "memory", Help: "List, show, search and delete facts of an owner, in the store.", Details: help, New: func() any { return new(memoryCmd) }}

// memoryCmd has the commands for facts.
type memoryCmd struct {
	List   memoryListCmd   `cmd:"" help:"List facts, by agent and namespace."`
	Show   memoryShowCmd   `cmd:"" help:"Show a fact with its earlier versions."`
	Search memorySearchCmd `cmd:"" help:"Find facts by words, entities and meaning, the best match first."`
	Forget memoryForgetCmd `cmd:"" help:"Delete facts, with all their versions."`
}

// scopeFlags select facts.
type scopeFlags struct {
	Agent     string `placeholder:"NAME" group:"Filter:" help:"Only facts of this agent."`
	Namespace string `placeholder:"NAME" group:"Filter:" help:"Only facts of this namespace; needs --agent."`
}

// factView is a version of a fact in the JSON output.
type factView struct {
	ID         string         `json:"id"`
	Agent      string         `json:"agent"`
	Namespace  string         `json:"namespace"`
	Key        string         `json:"key,omitempty"`
	Content    string         `json:"content"`
	Metadata   map[string]any `json:"metadata,omitempty"`
	Version    int64          `json:"version"`
	CreatedAt  time.Time      `json:"createdAt"`
	UpdatedAt  time.Time      `json:"updatedAt"`
	ReplacedAt *time.Time     `json:"replacedAt,omitempty"`
	ValidFrom  *time.Time     `json:"validFrom,omitempty"`
	ValidTo    *time.Time     `json:"validTo,omitempty"`
	ExpiresAt  *time.Time     `json:"expiresAt,omitempty"`
	Entities   []string       `json:"entities,omitempty"`
	Score      float64        `json:"score,omitempty"`
	Scores     *scoresView    `json:"scores,omitempty"`
	Versions   []factView     `json:"versions,omitempty"`
}

// scoresView are the parts of a score in the JSON output.
type scoresView struct {
	Lexical  float64 `json:"lexical,omitempty"`
	Trigram  float64 `json:"trigram,omitempty"`
	Semantic float64 `json:"semantic,omitempty"`
	Graph    float64 `json:"graph,omitempty"`
	Recency  float64 `json:"recency,omitempty"`
}

func viewFact(m *memory.Memory) factView {
	view := factView{
		ID: m.ID, Agent: m.Scope.Agent, Namespace: m.Scope.Namespace, Key: m.Key, Content: m.Content, Metadata: m.Metadata, Version: m.Version,
		CreatedAt: m.CreatedAt.UTC(), UpdatedAt: m.UpdatedAt.UTC(), ReplacedAt: command.TimeJSON(m.ReplacedAt),
		ValidFrom: command.TimeJSON(m.ValidFrom), ValidTo: command.TimeJSON(m.ValidTo), ExpiresAt: command.TimeJSON(m.ExpiresAt), Entities: m.Entities, Score: m.Score,
	}
	if m.Scores != (memory.Scores{}) {
		scores := scoresView(m.Scores)
		view.Scores = &scores
	}
	return view
}

// factLister returns the facts as a memory.Lister.
func factLister(k *command.Data) (memory.Lister, error) {
	lister, ok := facts.In(k.Stores).(memory.Lister)
	if !ok {
		return nil, command.Without("lists of facts; set --agent and --namespace")
	}
	return lister, nil
}

// factScopes returns the scopes of the owner's facts that the flags select. With both flags it is one.
func factScopes(ctx context.Context, k *command.Data, f *scopeFlags) iter.Seq2[memory.Scope, error] {
	return func(yield func(memory.Scope, error) bool) {
		if f.Agent != "" && f.Namespace != "" {
			yield(memory.Scope{Owner: k.Owner, Agent: f.Agent, Namespace: f.Namespace}, nil)
			return
		}
		lister, err := factLister(k)
		if err != nil {
			yield(memory.Scope{}, err)
			return
		}
		for q := (memory.FactQuery{Owner: k.Owner, Agent: f.Agent, Namespace: f.Namespace, Limit: 1}); ; {
			page, err := lister.Facts(ctx, q)
			if err != nil || len(page.Facts) == 0 {
				if err != nil {
					yield(memory.Scope{}, err)
				}
				return
			}
			if q.After = page.Facts[0]; !yield(q.After.Scope, nil) {
				return
			}
			q.After.ID = "\U0010ffff" // after each fact of the scope
		}
	}
}

const factContentWidth = 60

// factTable returns the table of facts.
func factTable(a *command.Console, score bool) *command.Table {
	t := command.NewTable(a, "facts", "ID:36", "AGENT:12", "NAMESPACE:14", "UPDATED:-7", "CONTENT")
	if score {
		t.Columns = slices.Insert(t.Columns, 0, command.Column{Head: "SCORE", Width: -5})
	}
	t.Fit()
	return t
}

func addFact(t *command.Table, m *memory.Memory) {
	cells := []string{m.ID, m.Scope.Agent, m.Scope.Namespace, command.Age(m.UpdatedAt), m.Content}
	if len(t.Columns) > len(cells) {
		cells = slices.Insert(cells, 0, strconv.FormatFloat(m.Score, 'f', 2, 64))
	}
	t.Row(cells...)
}

type memoryListCmd struct {
	scopeFlags

	command.PageFlags `group:"Pages:" set:"items=Facts" set:"item=fact" set:"but="`
	command.DataFlags
}

// Run lists facts.
func (c *memoryListCmd) Run(ctx context.Context, a *command.Console) error {
	if c.Namespace != "" && c.Agent == "" {
		return command.Usagef("--namespace needs --agent")
	}
	t := factTable(a, false)
	return c.Pages(ctx, t, &c.PageFlags, func(k *command.Data, token string) (items []any, next string, err error) {
		lister, err := factLister(k)
		if err != nil {
			return nil, "", err
		}
		var after [3]string
		if err := command.FromPageToken(token, &after); err != nil {
			return nil, "", err
		}
		page, err := lister.Facts(ctx, memory.FactQuery{
			Owner: k.Owner, Agent: c.Agent, Namespace: c.Namespace, Limit: c.Limit,
			After: memory.Memory{Scope: memory.Scope{Agent: after[0], Namespace: after[1]}, ID: after[2]},
		})
		if err != nil {
			return nil, "", err
		}
		for i := range page.Facts {
			m := &page.Facts[i]
			addFact(t, m)
			items = append(items, viewFact(m))
			after = [3]string{m.Scope.Agent, m.Scope.Namespace, m.ID}
		}
		if page.More {
			next, err = command.PageToken(after)
		}
		return items, next, err
	})
}

type memoryShowCmd struct {
	ID string `arg:"" help:"Id of the fact."`
	scopeFlags

	command.DataFlags
}

// findFact returns the current version of a fact in one of the selected scopes.
func findFact(ctx context.Context, k *command.Data, f *scopeFlags, id string) (memory.Memory, error) {
	for scope, err := range factScopes(ctx, k, f) {
		if err != nil {
			return memory.Memory{}, err
		}
		m, err := facts.In(k.Stores).History(ctx, scope, id)
		if err == nil {
			return m[len(m)-1], nil
		}
		if !errors.Is(err, memory.ErrFactNotFound) {
			return memory.Memory{}, err
		}
	}
	return memory.Memory{}, k.NotFound("fact", id)
}

// Run shows a fact.
func (c *memoryShowCmd) Run(ctx context.Context, a *command.Console) error {
	return c.With(ctx, false, func(k *command.Data) error {
		m, err := findFact(ctx, k, &c.scopeFlags, c.ID)
		if err != nil {
			return err
		}
		versions, err := facts.In(k.Stores).History(ctx, m.Scope, m.ID)
		if err != nil {
			return err
		}
		if a.JSON {
			view := viewFact(&m)
			for i := range versions {
				view.Versions = append(view.Versions, viewFact(&versions[i]))
			}
			return a.WriteResult(view)
		}
		a.Out.Line("%s", a.Out.Bold("fact "+command.Clean(m.ID)))
		a.Out.Row("agent", m.Scope.Agent)
		a.Out.Row("namespace", m.Scope.Namespace)
		a.Out.Row("key", m.Key)
		a.Out.Row("created", command.TimeText(m.CreatedAt))
		a.Out.Row("expires", command.TimeText(m.ExpiresAt))
		for i := range slices.Backward(versions) {
			v := &versions[i]
			a.Out.Line("")
			a.Out.Line("%s", a.Out.Bold(fmt.Sprint("version ", v.Version))+"  "+a.Out.Dim(command.TimeText(v.UpdatedAt)+validityText(v)))
			a.Out.Line("%s", command.Clean(v.Content))
			if text := command.Compact(v.Metadata); text != "" {
				a.Out.Line("%s", a.Out.Dim(command.Clean(text)))
			}
			if len(v.Entities) > 0 {
				a.Out.Line("%s", a.Out.Dim("about "+command.Clean(strings.Join(v.Entities, ", "))))
			}
		}
		return nil
	})
}

// validityText describes the validity of a version.
func validityText(m *memory.Memory) string {
	text := ""
	if !m.ReplacedAt.IsZero() {
		text += ", replaced " + command.TimeText(m.ReplacedAt)
	}
	if !m.ValidFrom.IsZero() {
		text += ", valid from " + command.TimeText(m.ValidFrom)
	}
	if !m.ValidTo.IsZero() {
		text += ", valid until " + command.TimeText(m.ValidTo)
	}
	return text
}

type memorySearchCmd struct {
	Query string `arg:"" help:"Words to find. Misspelt words match too."`
	Limit int    `short:"n" default:"10" help:"Maximum number of facts, at most 100."`
	Mode  string `placeholder:"MODE" help:"Kind of search: lexical (by words), semantic (by meaning), graph (by entities that the query names) or hybrid (all of them). Semantic and hybrid need --embedding-url (default all that are configured)."`
	scopeFlags

	command.DataFlags
}

// Run searches facts. Each scope ranks its own facts.
func (c *memorySearchCmd) Run(ctx context.Context, a *command.Console) error {
	if c.Limit < 1 || c.Limit > command.MaxPage {
		return command.Usagef("--limit is %d, want 1 to %d", c.Limit, command.MaxPage)
	}
	p := memory.SearchParams{Query: c.Query, Limit: c.Limit, Mode: memory.Mode(c.Mode)}
	if _, err := memorydriver.CheckSearch(p); err != nil {
		return err
	}
	return c.With(ctx, false, func(k *command.Data) error {
		if k.Embedder == nil && p.Mode.NeedsEmbedder() { // also if no scope exists
			return memory.ErrNoEmbedder
		}
		var found []memory.Memory
		var modes []memory.Mode
		fallback, pending := "", 0
		for scope, err := range factScopes(ctx, k, &c.scopeFlags) {
			if err != nil {
				return err
			}
			some, err := facts.In(k.Stores).Search(ctx, scope, p)
			if err != nil {
				return err
			}
			found = append(found, some.Facts...)
			modes, fallback, pending = some.Modes, cmp.Or(fallback, some.Fallback), pending+some.Pending
		}
		if fallback != "" {
			a.Info("%s facts were not searched by meaning: %s", a.Err.Red("note:"), command.Clean(fallback))
		}
		if pending > 0 {
			a.Info("%s %s without embedding; a running server adds them", a.Err.Red("note:"), command.Plural(int64(pending), "fact"))
		}
		slices.SortStableFunc(found, func(x, y memory.Memory) int { return cmp.Compare(y.Score, x.Score) })
		found = found[:min(len(found), c.Limit)]
		if a.JSON {
			views := make([]factView, len(found))
			for i := range found {
				views[i] = viewFact(&found[i])
			}
			result := map[string]any{"facts": views, "modes": append([]memory.Mode{}, modes...)}
			if fallback != "" {
				result["fallback"] = fallback
			}
			if pending > 0 {
				result["pending"] = pending
			}
			return a.WriteResult(result)
		}
		t := factTable(a, true)
		for i := range found {
			addFact(t, &found[i])
		}
		if t.Rows == 0 {
			a.Info("no facts match")
		}
		return nil
	})
}

type memoryForgetCmd struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Ids of the facts. Optional with --all."`
	All bool     `help:"Delete all facts that --agent and --namespace select."`
	scopeFlags
	command.ConfirmFlag

	command.DataFlags
}

// Run deletes facts. It continues after errors.
func (c *memoryForgetCmd) Run(ctx context.Context, a *command.Console) error {
	switch {
	case c.All == (len(c.IDs) > 0):
		return command.Usagef("want ids of facts or --all")
	case c.Namespace != "" && c.Agent == "":
		return command.Usagef("--namespace needs --agent")
	}
	if err := c.Check(a); err != nil {
		return err
	}
	return c.With(ctx, true, func(k *command.Data) error {
		if c.All {
			return c.clear(ctx, a, k)
		}
		describe := func(id string) (string, error) {
			m, err := findFact(ctx, k, &c.scopeFlags, id)
			return fmt.Sprintf("fact %s (%s)", id, command.OneLine(m.Content, factContentWidth)), err
		}
		return c.Delete(ctx, a, c.IDs, describe, func(id string) error {
			m, err := findFact(ctx, k, &c.scopeFlags, id)
			if err != nil {
				return err
			}
			if deleted, err := facts.In(k.Stores).Delete(ctx, m.Scope, id); err != nil || !deleted {
				return cmp.Or(err, k.NotFound("fact", id))
			}
			return a.Done(map[string]any{"id": id}, "deleted "+id)
		})
	})
}

// clear deletes all facts of the selected scopes.
func (c *memoryForgetCmd) clear(ctx context.Context, a *command.Console, k *command.Data) error {
	which := strings.TrimSuffix("all facts of "+a2a.Quote(k.Owner)+", "+strings.Trim(c.Agent+" "+c.Namespace, " "), ", ")
	return c.Delete(ctx, a, []string{which}, func(string) (string, error) { return which, nil }, func(string) error {
		removed := 0
		for scope, err := range factScopes(ctx, k, &c.scopeFlags) {
			if err != nil {
				return err
			}
			n, err := facts.In(k.Stores).Clear(ctx, scope)
			if removed += n; err != nil {
				return err
			}
		}
		return a.Done(map[string]any{"facts": removed}, "deleted "+command.Plural(int64(removed), "fact"))
	})
}
