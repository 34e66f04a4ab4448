package memorytest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// LongTermHarness describes a store of facts to the suite.
type LongTermHarness struct {
	// Open returns an empty store with a configuration. The suite does not close it: use t.Cleanup.
	// Tests of optional interfaces are skipped if it does not implement them.
	Open func(t storetest.T, cfg memory.LongTermConfig) memory.LongTerm
	// Reconfigure returns a store with another configuration and the data of s. It is nil if stores
	// cannot share data.
	Reconfigure func(t storetest.T, s memory.LongTerm, cfg memory.LongTermConfig) memory.LongTerm
	// Reopen closes a store and opens its data again. It is nil if the store is not durable.
	Reopen func(t storetest.T, s memory.LongTerm, cfg memory.LongTermConfig) memory.LongTerm
	// Steps is the number of random calls that are compared with a model. Default 400.
	Steps int
}

// LongTermOf returns the harness of the long-term memory of a backend.
func LongTermOf(h storetest.Harness) LongTermHarness {
	p := &storetest.Parts[memory.LongTerm, memory.LongTermConfig]{Harness: h, Of: func(_ storetest.T, s store.Store, cfg memory.LongTermConfig) memory.LongTerm {
		if l := memorysql.Of(s, cfg); l != nil {
			return l
		}
		return nil
	}}
	out := LongTermHarness{Open: p.Open, Reconfigure: p.With}
	if h.Reopen != nil {
		out.Reopen = p.Reopen
	}
	return out
}

// RunLongTerm runs the suite.
func RunLongTerm(t *testing.T, h LongTermHarness) { RunLongTermOn(storetest.Wrap(t), h) }

// RunLongTermOn runs the suite on any implementation of T.
func RunLongTermOn(t storetest.T, h LongTermHarness) {
	if h.Steps == 0 {
		h.Steps = 400
	}
	groups := []struct {
		name  string
		tests []longTermTest
	}{
		{"contract", longTermContract},
		{"search", longTermSearch},
		{"meaning", longTermMeaning},
		{"embedder", longTermEmbedder},
		{"entities", longTermEntities},
		{"versions", longTermVersions},
		{"filters", longTermFilters},
		{"isolation", longTermIsolation},
		{"expiry", longTermExpiry},
		{"removal", longTermRemoval},
		{"transfer", longTermTransfer},
		{"input", longTermInput},
		{"races", slices.Concat(longTermRaces, longTermMixedRaces)},
		{"durability", longTermDurability()},
		{"model", []longTermTest{{"random calls have the same results as on the model", longTermModelTest}}},
	}
	for _, g := range groups {
		t.Run(g.name, func(t storetest.T) {
			t.Parallel()
			suite.Each(t, g.tests, func(test longTermTest) string { return test.name }, func(t storetest.T, test longTermTest) {
				clock := suite.NewClock(longTermStart)
				test.run(&longTermFixture{T: t, h: h, clock: clock, s: h.Open(t, memory.LongTermConfig{Now: clock.Now}), in: memory.Scope{Owner: "ada", Namespace: "users/ravi", Agent: "agent"}})
			})
		})
	}
}

// longTermTest is a test. Its name is a sentence.
type longTermTest struct {
	name string
	run  func(f *longTermFixture)
}

var longTermStart = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// longTermFixture is the state of a test.
type longTermFixture struct {
	storetest.T
	h     LongTermHarness
	clock *suite.Clock
	s     memory.LongTerm
	in    memory.Scope
}

// extension returns an optional interface of the store. It skips the test if the store does not
// implement it.
func extension[I any](f *longTermFixture) I { f.Helper(); return suite.Optional[I](f, f.s) }

func (f *longTermFixture) ctx() context.Context { return f.Context() }

// save saves a fact and moves the clock by a second.
func (f *longTermFixture) save(content string, p memory.SaveParams) string {
	f.Helper()
	id, err := f.s.Save(f.ctx(), f.in, content, p)
	if err != nil || id == "" {
		f.Fatalf("Save(%q) = %q, %v", content, id, err)
	}
	f.clock.Add(time.Second)
	return id
}

func (f *longTermFixture) search(p memory.SearchParams) []memory.Memory {
	f.Helper()
	return f.results(p).Facts
}

func (f *longTermFixture) results(p memory.SearchParams) memory.Results {
	f.Helper()
	r := suite.Call(f.s.Search(f.ctx(), f.in, p)).Must(f, "Search(%q)", p.Query)
	found := r.Facts
	for i, m := range found {
		if m.Score < 0 || m.Score > 1 || i > 0 && m.Score > found[i-1].Score {
			f.Errorf("Search(%q): score of result %d = %g, want 0 to 1 and not above the score before", p.Query, i, m.Score)
		}
		for _, s := range []float64{m.Scores.Lexical, m.Scores.Trigram, m.Scores.Semantic, m.Scores.Graph, m.Scores.Recency} {
			if s < 0 || s > 1 {
				f.Errorf("Search(%q): scores of result %d = %+v, want 0 to 1", p.Query, i, m.Scores)
			}
		}
	}
	return r
}

// contents returns the contents of facts.
func contents(found []memory.Memory) []string {
	all := make([]string, len(found))
	for i, m := range found {
		all[i] = m.Content
	}
	return all
}

// equal fails the test unless two values are equal.
func (f *longTermFixture) equal(call string, got, want any) {
	f.Helper()
	suite.Diff(f, call, got, want)
}

// mustFind fails the test unless a search returns these contents in this order.
func (f *longTermFixture) mustFind(p memory.SearchParams, want ...string) {
	f.Helper()
	f.equal(fmt.Sprintf("Search(%q)", p.Query), contents(f.search(p)), append([]string{}, want...))
}

func (f *longTermFixture) get(id string) memory.Memory {
	f.Helper()
	return suite.Call(f.s.Get(f.ctx(), f.in, id)).Must(f, "Get(%q)", id)
}
