package storetest

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// TestSuiteCatchesBrokenStores breaks the model in one way at a time, and has
// the suite, run outside go test, find it.
func TestSuiteCatchesBrokenStores(t *testing.T) {
	t.Parallel()
	all := maps.Clone(mutants)
	maps.Copy(all, contextMutants)
	maps.Copy(all, pushMutants)
	for name, breakIt := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if found := firstFailure(t, breakIt); found == "" {
				t.Errorf("no test of the suite failed")
			}
		})
	}
	t.Run("but none in a whole store", func(t *testing.T) {
		t.Parallel()
		if found := firstFailure(t, func(*mutant) {}); found != "" {
			t.Errorf("the test %q failed", found)
		}
	})
}

// firstFailure returns the name of the first test that a broken store fails, ""
// when it fails none.
func firstFailure(t *testing.T, breakIt func(*mutant)) string {
	t.Helper()
	h := Harness{Tasks: 20, Open: func(T) store.Store {
		m := &mutant{Store: newModel()}
		breakIt(m)
		return m
	}}
	run := &recorder{ctx: t.Context()}
	for _, g := range groups() {
		for _, test := range g.tests {
			if !run.Run(test.name, func(t T) { test.run(newFixture(t, h)) }) {
				return g.name + ": " + test.name
			}
		}
	}
	return ""
}

// mutants are the ways to be wrong.
var mutants = map[string]func(*mutant){
	"forgets to look for unread messages": func(m *mutant) { m.change = func(c *store.Change) { c.Seen = 0 } },
	"forgets steps":                       func(m *mutant) { m.change = func(c *store.Change) { c.Steps = nil } },
	"forgets idempotency records":         func(m *mutant) { m.change = func(c *store.Change) { c.Idempotency = nil } },
	"forgets metadata": func(m *mutant) {
		m.change = func(c *store.Change) {
			c.Events = slices.Clone(c.Events)
			for i := range c.Events {
				c.Events[i].Metadata = nil
			}
		}
	},
	"mixes owners up": func(m *mutant) {
		m.change = func(c *store.Change) {
			if c.Key.Owner == other && c.Key.ID == "t1" {
				c.Key.Owner = owner
			}
		}
	},
	"ignores the horizon":                 func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.Horizon = 0 } },
	"claims ended leases anyway":          func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.QueuedOnly = false } },
	"ignores takeovers":                   func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.Takeover = false } },
	"always takes over":                   func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.Takeover = true } },
	"ignores where the last claim ended":  func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.AfterOwner = "" } },
	"ignores where contexts stopped":      func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.AfterContexts = nil } },
	"lets no contexts take turns":         func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.OldestFirst = true } },
	"always has contexts take turns":      func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.OldestFirst = false } },
	"passes no owner over":                func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.Skip = nil } },
	"claims one more than the limit":      func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.Limit++ } },
	"claims before a task is due":         func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.Now = p.Now.Add(time.Millisecond) } },
	"lists with an exclusive lower bound": func(m *mutant) { m.query = func(q *store.Query) { q.After = shifted(q.After) } },
	"lists with an inclusive upper bound": func(m *mutant) { m.query = func(q *store.Query) { q.Before = shifted(q.Before) } },
	"ignores the context of a list":       func(m *mutant) { m.query = func(q *store.Query) { q.ContextID = "" } },
	"ignores all states but one": func(m *mutant) {
		m.query = func(q *store.Query) { q.States = q.States[:min(1, len(q.States))] }
	},
	"ignores options":                 func(m *mutant) { m.query = func(q *store.Query) { q.Options = store.TaskOptions{} } },
	"counts without being asked":      func(m *mutant) { m.query = func(q *store.Query) { q.Total = true } },
	"repeats the event of the cursor": func(m *mutant) { m.after = -1 },
	"loses an event of a page":        func(m *mutant) { m.after = 1 },
	"tells of no lost lease":          func(m *mutant) { m.silentRenew = true },
	"trusts every snapshot":           func(m *mutant) { m.snapshots = make(map[store.Key]*store.Task) },
	"hands out what it keeps":         func(m *mutant) { m.shared = make(map[string]*store.Task) },
	"goes on after it is closed":      func(m *mutant) { m.immortal = true },
	"ignores contexts that have ended": func(m *mutant) {
		m.stubborn = true
	},
	"stops a call at its first refusal": func(m *mutant) { m.stops = true },
	"remembers versions":                func(m *mutant) { m.versions = make(map[store.Key]store.TaskVersion) },
}

func shifted(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(time.Millisecond)
}

// mutant is a store that changes what it is told, or what it tells.
type mutant struct {
	store.Store
	pushMutant
	change      func(*store.Change)
	claim       func(*store.ClaimParams)
	query       func(*store.Query)
	after       int64
	silentRenew bool
	immortal    bool
	stubborn    bool
	stops       bool
	snapshots   map[store.Key]*store.Task
	shared      map[string]*store.Task
	versions    map[store.Key]store.TaskVersion

	contexts         func(*store.ContextQuery)
	save             func(*store.ContextChange)
	feedback         func(*store.FeedbackQuery)
	namesByID        bool
	batch            func(limit int) int
	forgetsDeletions bool
	ruthless         bool
	beginsAgain      bool
	countsAll        bool
	takesTwice       bool
}

func (m *mutant) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	if m.stubborn {
		ctx = context.Background()
	}
	changes = slices.Clone(changes)
	for i := range changes {
		if m.change != nil {
			m.change(&changes[i])
		}
	}
	results, err := m.Store.Commit(ctx, changes...)
	if m.committed != nil {
		m.locked(m.committed)
	}
	for i, r := range results {
		if m.snapshots != nil && r.Err == nil && changes[i].Snapshot != nil {
			m.snapshots[changes[i].Key] = changes[i].Snapshot
		}
		if m.stops && r.Err != nil {
			for j := range results[i:] {
				results[i+j] = r
			}
		}
	}
	return results, err
}

func (m *mutant) Task(ctx context.Context, k store.Key, opts store.TaskOptions) (*store.Task, error) {
	if t := m.snapshots[k]; t != nil {
		return t, nil
	}
	t, err := m.Store.Task(ctx, k, opts)
	if m.shared != nil && err == nil {
		id := fmt.Sprint(k, t.Seq, opts.History == nil, opts.OmitArtifacts, opts.Outline)
		if m.shared[id] == nil {
			m.shared[id] = t
		}
		return m.shared[id], nil
	}
	return t, err
}

func (m *mutant) Tasks(ctx context.Context, q store.Query) (store.Page, error) {
	if m.query != nil {
		m.query(&q)
	}
	return m.Store.Tasks(ctx, q)
}

func (m *mutant) Events(ctx context.Context, k store.Key, after int64, limit int) ([]store.Event, error) {
	return m.Store.Events(ctx, k, after+m.after, limit)
}

func (m *mutant) Versions(ctx context.Context, keys []store.Key) (map[store.Key]store.TaskVersion, error) {
	versions, err := m.Store.Versions(ctx, keys)
	if m.versions != nil {
		maps.Copy(versions, m.versions)
		maps.Copy(m.versions, versions)
	}
	return versions, err
}

func (m *mutant) Claim(ctx context.Context, p store.ClaimParams) ([]*store.Task, error) {
	if m.claim != nil {
		m.claim(&p)
	}
	return m.Store.Claim(ctx, p)
}

func (m *mutant) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) ([]store.Key, error) {
	lost, err := m.Store.Renew(ctx, until, leases)
	if m.silentRenew {
		lost = nil
	}
	return lost, err
}

func (m *mutant) Close() error {
	if m.immortal {
		return nil
	}
	return m.Store.Close()
}

// recorder is a T outside go test: it runs one part after the other and
// remembers whether any has failed.
type recorder struct {
	ctx    context.Context
	name   string
	mu     sync.Mutex
	failed bool
	clean  []func()
}

func (r *recorder) Run(name string, f func(T)) bool {
	part := &recorder{ctx: r.ctx, name: name}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, clean := range slices.Backward(part.clean) {
				clean()
			}
		}()
		f(part)
	}()
	<-done
	r.failed = r.failed || part.failed
	return !part.failed
}

func (r *recorder) Helper()                  {}
func (r *recorder) Name() string             { return r.name }
func (r *recorder) Parallel()                {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Cleanup(f func())         { r.clean = append(r.clean, f) }
func (r *recorder) TempDir() string          { return "" }
func (r *recorder) Logf(string, ...any)      {}
func (r *recorder) Failed() bool             { return r.failed }

func (r *recorder) Errorf(string, ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(string, ...any) { runtime.Goexit() }
