package memorytest_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// broken is a store with a defect: it changes parameters or results.
type broken struct {
	memory.LongTermStore
	scope  func(s *memory.Scope)
	save   func(content *string, p *memory.SaveParams)
	search func(p *memory.SearchParams)
	found  func(asked memory.SearchParams, found []memory.Memory) []memory.Memory
	edit   func(at *time.Time, p *memory.UpdateParams)
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
	return b.LongTermStore.Save(ctx, b.in(s), content, p)
}

func (b *broken) Search(ctx context.Context, s memory.Scope, p memory.SearchParams) ([]memory.Memory, error) {
	asked := p
	if b.search != nil {
		b.search(&p)
	}
	found, err := b.LongTermStore.Search(ctx, b.in(s), p)
	if b.found != nil && err == nil {
		found = b.found(asked, found)
	}
	return found, err
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

func TestLongTermSuiteCatchesBrokenStores(t *testing.T) {
	t.Parallel()
	for name, mutant := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{ctx: t.Context()}
			memorytest.RunLongTermOn(r, memorytest.LongTermHarness{Steps: 100, Open: func(_ storetest.T, now func() time.Time) memory.LongTerm {
				b := mutant
				b.LongTermStore = inmem.New().LongTerm(now)
				return &b
			}})
			if !r.Failed() {
				t.Error("no test of the suite failed")
			}
		})
	}
}

// recorder is a T that records failures.
type recorder struct {
	storetest.T
	ctx    context.Context
	mu     sync.Mutex
	failed bool
}

func (r *recorder) Run(_ string, f func(storetest.T)) bool {
	child := &recorder{ctx: r.ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(child)
	}()
	<-done
	if child.Failed() {
		r.fail()
	}
	return !child.Failed()
}

func (r *recorder) fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Helper()                  {}
func (r *recorder) Parallel()                {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Logf(string, ...any)      {}
func (r *recorder) Errorf(string, ...any)    { r.fail() }
func (r *recorder) Skipf(string, ...any)     { runtime.Goexit() }

func (r *recorder) Fatalf(string, ...any) {
	r.fail()
	runtime.Goexit()
}
