package storetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// TestSuiteCatchesBrokenStores breaks the model in one way at a time and checks that a test of
// the suite fails. It runs the suite outside go test.
func TestSuiteCatchesBrokenStores(t *testing.T) {
	t.Parallel()
	tests := shortestFirst(t)
	all := maps.Clone(mutants)
	maps.Copy(all, contextMutants)
	maps.Copy(all, webhookMutants)
	maps.Copy(all, recordMutants)
	maps.Copy(all, removalMutants)
	for name, mutate := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// In a bubble, a test that waits in vain takes no time.
			synctest.Test(t, func(t *testing.T) {
				if found := firstFailure(t, tests, mutate); found == "" {
					t.Errorf("no test of the suite failed")
				}
			})
		})
	}
}

// shortestFirst returns the tests of the suite in the order of the number of calls that they
// make on a correct store, where they must pass.
func shortestFirst(t *testing.T) []test {
	t.Helper()
	calls := make(map[string]int)
	var tests []test
	for _, g := range groups {
		for _, test := range g.tests {
			test.name = g.name + ": " + test.name
			var n atomic.Int64
			run := suite.NewRecorder(t.Context())
			h := Harness{Tasks: mutantTasks, Open: func(T) store.Store {
				return Faulty(newModel(), func(Call) Fault { n.Add(1); return Pass })
			}}
			if !run.Run(test.name, func(t T) { test.run(newFixture(t, h)) }) {
				t.Errorf("test %q failed for a correct store", test.name)
			}
			calls[test.name] = int(n.Load())
			tests = append(tests, test)
		}
	}
	slices.SortStableFunc(tests, func(a, b test) int { return cmp.Compare(calls[a.name], calls[b.name]) })
	return tests
}

// mutantTasks is the number of tasks of the larger tests.
const mutantTasks = 20

// firstFailure returns the name of the first test that a broken store fails, or "".
func firstFailure(t *testing.T, tests []test, mutate func(*mutant)) string {
	t.Helper()
	h := Harness{Tasks: mutantTasks, Open: func(T) store.Store {
		m := &mutant{Store: newModel()}
		mutate(m)
		return m
	}}
	run := suite.NewRecorder(t.Context())
	for _, test := range tests {
		if !run.Run(test.name, func(t T) { test.run(newFixture(t, h)) }) {
			return test.name
		}
	}
	return ""
}

// mutants are the ways to break a store.
var mutants = map[string]func(*mutant){
	"ignores unread messages":   func(m *mutant) { m.change = func(c *store.Change) { c.Seen = 0 } },
	"loses steps":               func(m *mutant) { m.change = func(c *store.Change) { c.Steps = nil } },
	"loses idempotency records": func(m *mutant) { m.change = func(c *store.Change) { c.Idempotency = nil } },
	"loses metadata": func(m *mutant) {
		m.change = func(c *store.Change) {
			c.Events = slices.Clone(c.Events)
			for i := range c.Events {
				c.Events[i].Metadata = nil
			}
		}
	},
	"mixes up owners": func(m *mutant) {
		m.change = func(c *store.Change) {
			if c.Key.Owner == otherOwner && c.Key.ID == "t1" {
				c.Key.Owner = owner
			}
		}
	},
	"ignores the horizon":                 func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.Horizon = 0 } },
	"ignores QueuedOnly":                  func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.QueuedOnly = false } },
	"ignores Takeover":                    func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.Takeover = false } },
	"always claims leases of others":      func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.Takeover = true } },
	"ignores AfterOwner":                  func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.AfterOwner = "" } },
	"ignores AfterContexts":               func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.AfterContexts = nil } },
	"always claims the oldest first":      func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.OldestFirst = true } },
	"ignores OldestFirst":                 func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.OldestFirst = false } },
	"ignores Skip":                        func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.Skip = nil } },
	"claims one more than the limit":      func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.Limit++ } },
	"claims before a task is due":         func(m *mutant) { m.claim = func(p *store.ClaimParams) { p.Now = p.Now.Add(time.Millisecond) } },
	"lists with an exclusive lower bound": func(m *mutant) { m.query = func(q *store.Query) { q.After = addMillisecond(q.After) } },
	"lists with an inclusive upper bound": func(m *mutant) { m.query = func(q *store.Query) { q.Before = addMillisecond(q.Before) } },
	"ignores the context of a list":       func(m *mutant) { m.query = func(q *store.Query) { q.ContextID = "" } },
	"ignores all states but one": func(m *mutant) {
		m.query = func(q *store.Query) { q.States = q.States[:min(1, len(q.States))] }
	},
	"ignores options":                 func(m *mutant) { m.query = func(q *store.Query) { q.Options = store.TaskOptions{} } },
	"always counts the total":         func(m *mutant) { m.query = func(q *store.Query) { q.Total = true } },
	"repeats the event of the cursor": func(m *mutant) { m.after = -1 },
	"skips the first event of a page": func(m *mutant) { m.after = 1 },
	"reports no lost leases":          func(m *mutant) { m.hidesLostLeases = true },
	"trusts every snapshot":           func(m *mutant) { m.snapshots = make(map[store.Key]*store.Task) },
	"returns its own memory":          func(m *mutant) { m.sharedTasks = make(map[string]*store.Task) },
	"works after Close":               func(m *mutant) { m.staysOpen = true },
	"ignores canceled contexts": func(m *mutant) {
		m.ignoresCancel = true
	},
	"stops a call at its first rejected change": func(m *mutant) { m.stopsAtRejection = true },
	"returns outdated versions":                 func(m *mutant) { m.versions = make(map[store.Key]store.TaskVersion) },
}

func addMillisecond(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(time.Millisecond)
}

// mutant is a store that changes the arguments or the results of some calls.
type mutant struct {
	store.Store
	webhookMutant
	removalMutant
	change           func(*store.Change)
	claim            func(*store.ClaimParams)
	query            func(*store.Query)
	after            int64
	hidesLostLeases  bool
	staysOpen        bool
	ignoresCancel    bool
	stopsAtRejection bool
	snapshots        map[store.Key]*store.Task
	sharedTasks      map[string]*store.Task
	versions         map[store.Key]store.TaskVersion

	contexts          func(*store.ContextQuery)
	save              func(*store.ContextChange)
	feedback          func(*store.FeedbackQuery)
	sortsNamesByID    bool
	batch             func(limit int) int
	hidesDeletions    bool
	deletesBusy       bool
	finishesAnything  bool
	countsAllOwners   bool
	acceptsDuplicates bool

	records               func(*store.RecordChange)
	recordQuery           func(*store.RecordQuery)
	ignoresRecordVersions bool
	savesRecordsSingly    bool
	expiresEarly          bool
}

func (m *mutant) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	if m.ignoresCancel {
		ctx = context.Background()
	}
	changes = slices.Clone(changes)
	for i := range changes {
		suite.Mutate(m.change, &changes[i])
		if len(changes[i].Records) > 0 {
			changes[i].Records = m.mutateRecords(changes[i].Key.Owner, changes[i].Records)
		}
	}
	results, err := m.Store.Commit(ctx, changes...)
	if m.afterCommit != nil {
		m.withModel(m.afterCommit)
	}
	for i, r := range results {
		if m.snapshots != nil && r.Err == nil && changes[i].Snapshot != nil {
			m.snapshots[changes[i].Key] = changes[i].Snapshot
		}
		if m.stopsAtRejection && r.Err != nil {
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
	if m.sharedTasks != nil && err == nil {
		id := fmt.Sprint(k, t.Seq, opts.History == nil, opts.OmitArtifacts, opts.Outline)
		if m.sharedTasks[id] == nil {
			m.sharedTasks[id] = t
		}
		return m.sharedTasks[id], nil
	}
	return t, err
}

func (m *mutant) Tasks(ctx context.Context, q store.Query) (store.Page, error) {
	suite.Mutate(m.query, &q)
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
	suite.Mutate(m.claim, &p)
	return m.Store.Claim(ctx, p)
}

func (m *mutant) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) ([]store.Key, error) {
	lost, err := m.Store.Renew(ctx, until, leases)
	if m.hidesLostLeases {
		lost = nil
	}
	return lost, err
}

func (m *mutant) Close() error {
	if m.staysOpen {
		return nil
	}
	return m.Store.Close()
}
