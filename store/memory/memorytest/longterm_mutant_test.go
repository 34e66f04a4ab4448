package memorytest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// broken is a store with a defect: it changes parameters or results.
type broken struct {
	memory.LongTermStore
	store *inmem.Store
	// strict makes Save fail if the embedder does.
	strict   bool
	embedder *embedder

	scope  func(s *memory.Scope)
	save   func(content *string, p *memory.SaveParams)
	search func(p *memory.SearchParams)
	found  func(asked memory.SearchParams, found []memory.Memory) []memory.Memory
	edit   func(at *time.Time, p *memory.UpdateParams)
	result func(asked memory.SearchParams, r *memory.Results)
	embed  func(embedded int) int
	open   func(cfg *memory.LongTermConfig)
	failed func(err error) error
}

func (b *broken) in(s memory.Scope) memory.Scope {
	if b.scope != nil && s.Owner != "" {
		b.scope(&s)
	}
	return s
}

func (b *broken) Save(ctx context.Context, s memory.Scope, content string, p memory.SaveParams) (string, error) {
	if b.save != nil {
		b.save(&content, &p)
	}
	id, err := b.LongTermStore.Save(ctx, b.in(s), content, p)
	if b.strict && b.embedder != nil && b.embedder.err != nil && err == nil {
		_, _ = b.Delete(ctx, s, id)
		return "", b.embedder.err
	}
	return id, err
}

func (b *broken) Search(ctx context.Context, s memory.Scope, p memory.SearchParams) (memory.Results, error) {
	asked := p
	suite.Mutate(b.search, &p)
	found, err := b.LongTermStore.Search(ctx, b.in(s), p)
	if b.found != nil && err == nil {
		found.Facts = b.found(asked, found.Facts)
	}
	if b.result != nil && err == nil {
		b.result(asked, &found)
	}
	return found, err
}

func (b *broken) EmbedPending(ctx context.Context, limit int) (int, error) {
	if b.embed != nil {
		return b.embed(limit), nil
	}
	return b.LongTermStore.EmbedPending(ctx, limit)
}

func (b *broken) Get(ctx context.Context, s memory.Scope, id string) (memory.Memory, error) {
	m, err := b.LongTermStore.Get(ctx, b.in(s), id)
	if b.failed != nil && err != nil {
		err = b.failed(err)
	}
	return m, err
}

func (b *broken) Update(ctx context.Context, s memory.Scope, id string, p memory.UpdateParams) (memory.Memory, error) {
	if b.edit != nil {
		b.edit(new(time.Time), &p)
	}
	return b.LongTermStore.Update(ctx, b.in(s), id, p)
}

func (b *broken) Supersede(ctx context.Context, s memory.Scope, id string, at time.Time, p memory.UpdateParams) (memory.Memory, error) {
	if b.edit != nil {
		b.edit(&at, &p)
	}
	return b.LongTermStore.Supersede(ctx, b.in(s), id, at, p)
}

var mutants = map[string]broken{
	"ignores the owner":         {scope: func(s *memory.Scope) { s.Owner = "x" }},
	"ignores the agent":         {scope: func(s *memory.Scope) { s.Agent = "x" }},
	"ignores lower namespaces":  {scope: func(s *memory.Scope) { s.Namespace, _, _ = strings.Cut(s.Namespace, "/") }},
	"ignores the expiry":        {save: func(_ *string, p *memory.SaveParams) { p.TTL = 0 }},
	"ignores keys":              {save: func(_ *string, p *memory.SaveParams) { p.Key = "" }},
	"ignores the validity":      {save: func(_ *string, p *memory.SaveParams) { p.ValidFrom, p.ValidTo = time.Time{}, time.Time{} }},
	"ignores metadata":          {save: func(_ *string, p *memory.SaveParams) { p.Metadata = nil }},
	"trims the content":         {save: func(c *string, _ *memory.SaveParams) { *c = strings.Join(strings.Fields(*c), " ") }},
	"ignores the filter":        {search: func(p *memory.SearchParams) { p.Filter = filter.Filter{} }},
	"filters after the limit":   {search: func(p *memory.SearchParams) { p.Filter = filter.Filter{} }, found: filterAfter},
	"ignores the time":          {search: func(p *memory.SearchParams) { p.AsOf = time.Time{} }},
	"ignores the minimum score": {search: func(p *memory.SearchParams) { p.MinScore = 0 }},
	"ignores the mode":          {search: func(p *memory.SearchParams) { p.Mode = "" }},
	"ignores entities":          {save: func(_ *string, p *memory.SaveParams) { p.Entities = nil }},
	"ignores entities of edits": {edit: func(_ *time.Time, p *memory.UpdateParams) { p.Entities = nil }},
	"ignores the half-life":     {search: func(p *memory.SearchParams) { p.RecencyHalfLife = 0 }},
	"ignores the embedder":      {open: func(cfg *memory.LongTermConfig) { cfg.Embedder = nil }},
	"searches words only":       {search: wordsOnly, result: func(asked memory.SearchParams, r *memory.Results) { r.Modes = modesOf(asked.Mode) }},
	"hides the fallback":        {result: func(_ memory.SearchParams, r *memory.Results) { r.Fallback = "" }},
	"hides the modes":           {result: func(_ memory.SearchParams, r *memory.Results) { r.Modes = nil }},
	"hides pending facts":       {result: func(_ memory.SearchParams, r *memory.Results) { r.Pending = 0 }},
	"never embeds later":        {embed: func(int) int { return 0 }},
	"embeds forever":            {embed: func(limit int) int { return limit }},
	"knows neighbors only":      {found: nearOnly},
	"compares other models":     {open: func(cfg *memory.LongTermConfig) { cfg.Embedder = renamed(cfg.Embedder) }},
	"loses facts of a failure":  {strict: true},
	"has another default limit": {search: func(p *memory.SearchParams) { p.Limit = max(p.Limit, 1) }},
	"reverses results": {found: func(_ memory.SearchParams, found []memory.Memory) []memory.Memory {
		slices.Reverse(found)
		return found
	}},
	"returns high scores":    {found: func(_ memory.SearchParams, found []memory.Memory) []memory.Memory { return rescore(found, 2) }},
	"returns no scores":      {found: func(_ memory.SearchParams, found []memory.Memory) []memory.Memory { return rescore(found, 0) }},
	"finds exact words only": {found: exactOnly},
	"ignores the version":    {edit: func(_ *time.Time, p *memory.UpdateParams) { p.Version = 0 }},
	"supersedes at once":     {edit: func(at *time.Time, _ *memory.UpdateParams) { *at = time.Time{} }},
	"hides errors":           {failed: func(error) error { return nil }},
	"returns other errors":   {failed: func(error) error { return errors.New("other") }},
}

func wordsOnly(p *memory.SearchParams) {
	if p.Mode == memory.ModeSemantic || p.Mode == memory.ModeHybrid {
		p.Mode = memory.ModeLexical
	}
}

func modesOf(m memory.Mode) []memory.Mode {
	if m == memory.ModeHybrid || m == "" {
		return []memory.Mode{memory.ModeLexical, memory.ModeSemantic, memory.ModeGraph}
	}
	return []memory.Mode{m}
}

func nearOnly(asked memory.SearchParams, found []memory.Memory) []memory.Memory {
	return slices.DeleteFunc(found, func(m memory.Memory) bool { return asked.Mode == memory.ModeGraph && m.Scores.Graph < 0.5 })
}

// embedder is an embedder with another name. It keeps the error of its last call.
type embedder struct {
	memory.Embedder
	name string
	err  error
}

func (e *embedder) Name() string { return e.name }

func (e *embedder) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	all, err := e.Embedder.Embed(ctx, texts)
	e.err = err
	return all, err
}

// renamed hides that the model was replaced.
func renamed(e memory.Embedder) memory.Embedder {
	if e == nil {
		return nil
	}
	return &embedder{Embedder: e, name: "m"}
}

func filterAfter(asked memory.SearchParams, found []memory.Memory) []memory.Memory {
	return slices.DeleteFunc(found, func(m memory.Memory) bool { return !asked.Filter.Match(m.Metadata) })
}

func rescore(found []memory.Memory, score float64) []memory.Memory {
	for i := range found {
		found[i].Score = score
	}
	return found
}

func exactOnly(asked memory.SearchParams, found []memory.Memory) []memory.Memory {
	return slices.DeleteFunc(found, func(m memory.Memory) bool { return asked.Query != "" && m.Scores.Lexical == 0 })
}

func breakStore(b broken, s *inmem.Store, cfg memory.LongTermConfig) *broken {
	suite.Mutate(b.open, &cfg)
	if b.strict && cfg.Embedder != nil {
		b.embedder = &embedder{Embedder: cfg.Embedder, name: cfg.Embedder.Name()}
		cfg.Embedder = b.embedder
	}
	b.store, b.LongTermStore = s, memorysql.Of(s, cfg)
	return &b
}

func TestLongTermSuiteCatchesBrokenStores(t *testing.T) {
	t.Parallel()
	suite.Mutants(t, mutants, func(t suite.T, mutant broken) {
		memorytest.RunLongTermOn(t, memorytest.LongTermHarness{Steps: 100, Open: func(_ storetest.T, cfg memory.LongTermConfig) memory.LongTerm {
			return breakStore(mutant, inmem.New(), cfg)
		}, Reconfigure: func(_ storetest.T, s memory.LongTerm, cfg memory.LongTermConfig) memory.LongTerm {
			return breakStore(mutant, s.(*broken).store, cfg)
		}})
	})
}
