// Package graphtest is the conformance suite for stores of graphs, which implement [graph.Store] and
// any of the optional interfaces of package graph.
//
// A test of a store calls [Run]:
//
//	func TestGraph(t *testing.T) {
//		graphtest.Run(t, graphtest.Harness{
//			Open: func(t storetest.T, now func() time.Time) graph.Store { return newStore(t, now) },
//		})
//	}
package graphtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/graph"
	"github.com/holdfast-dev/holdfast/store/graph/graphsql"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// Harness describes a store to the suite.
type Harness struct {
	// Open returns a fresh, empty store that reads the time from now. It registers the function
	// that closes it.
	Open func(t storetest.T, now func() time.Time) graph.Store
	// Reopen closes a store and opens its data again. It is nil if the store is not durable.
	Reopen func(t storetest.T, s graph.Store, now func() time.Time) graph.Store
	// Calls is the number of random calls that are compared with the model; 0 means 500.
	Calls int
	// Short omits tests that write many or large values.
	Short bool
}

// Of returns the harness of the graphs of a backend, which execute queries.
func Of(h storetest.Harness) Harness {
	p := &storetest.Parts[graph.Store, func() time.Time]{Harness: h, Of: func(_ storetest.T, s store.Store, now func() time.Time) graph.Store {
		if g := graphsql.Of(s, now); g != nil {
			return g
		}
		return nil
	}}
	out := Harness{Open: p.Open}
	if h.Reopen != nil {
		out.Reopen = p.Reopen
	}
	return out
}

// Run runs the complete suite.
func Run(t *testing.T, h Harness) { RunOn(storetest.Wrap(t), h) }

// RunOn runs the complete suite on any implementation of T. Tests of optional interfaces that the
// store does not implement are skipped.
func RunOn(t storetest.T, h Harness) {
	if h.Calls == 0 {
		h.Calls = 500
	}
	all := slices.Concat(contractTests, walkTests, timeTests, transferTests, cypherTests, inputTests, raceTests, randomTests)
	if !h.Short {
		all = append(all, largeTests...)
	}
	suite.Each(t, all, func(test test) string { return test.name }, func(t storetest.T, test test) { test.run(newFixture(t, h)) })
}

// test is one test of the suite. Its name is a sentence.
type test struct {
	name string
	run  func(f *fixture)
}

// start is the time of the first call.
var start = time.Date(2026, 11, 27, 8, 0, 0, 0, time.UTC)

// fixture is a store, and the graph that most tests use.
type fixture struct {
	storetest.T
	h     Harness
	clock *suite.Clock
	s     graph.Store
	ctx   context.Context
	k     graph.Key
}

func newFixture(t storetest.T, h Harness) *fixture {
	c := suite.NewClock(start)
	return &fixture{T: t, h: h, clock: c, s: h.Open(t, c.Now), ctx: t.Context(), k: graph.Key{Owner: "owner", Graph: "graph"}}
}

// optional returns the store as an optional interface, or skips the test.
func optional[I any](f *fixture) I { f.Helper(); return suite.Optional[I](f, f.s) }

// entities returns entities with the label Thing, and their id as a property.
func entities(ids ...string) (all []graph.Entity) {
	for _, id := range ids {
		all = append(all, graph.Entity{ID: id, Label: "Thing", Properties: map[string]any{"of": id}})
	}
	return all
}

// edges returns relationships. Each is written as "id: source type target".
func edges(texts ...string) (all []graph.Relationship) {
	for _, text := range texts {
		p := strings.Fields(strings.Replace(text, ":", " ", 1))
		all = append(all, graph.Relationship{ID: p[0], Source: p[1], Type: p[2], Target: p[3]})
	}
	return all
}

func (f *fixture) write(b graph.Batch) graph.Result { f.Helper(); return f.writeTo(f.k, b) }

func (f *fixture) writeTo(k graph.Key, b graph.Batch) graph.Result {
	f.Helper()
	return suite.Call(f.s.Write(f.ctx, k, b)).Must(f, "Write(%v)", k)
}

// neighbors returns the entities of a walk as "id distance", and the ids of its relationships.
func (f *fixture) neighbors(p graph.NeighborParams) (found, ids []string, truncated bool) {
	f.Helper()
	s := suite.Call(f.s.Neighbors(f.ctx, f.k, p)).Must(f, "Neighbors(%+v)", p)
	for _, e := range s.Entities {
		found = append(found, fmt.Sprint(e.ID, " ", e.Distance))
	}
	for _, r := range s.Relationships {
		ids = append(ids, r.ID)
	}
	return found, ids, s.Truncated
}

// wantNeighbors checks a walk: entities as "a 0, b 1", relationships as "r s".
func (f *fixture) wantNeighbors(name string, p graph.NeighborParams, entities, relationships string) {
	f.Helper()
	found, ids, truncated := f.neighbors(p)
	f.equal(name+": entities", strings.Join(found, ", "), entities)
	f.equal(name+": relationships", strings.Join(ids, " "), relationships)
	f.equal(name+": truncated", truncated, false)
}

func (f *fixture) entities(k graph.Key, ids ...string) []graph.Entity {
	f.Helper()
	return suite.Call(f.s.Entities(f.ctx, k, ids)).Must(f, "Entities(%v)", ids)
}

func (f *fixture) relationships(ids ...string) []graph.Relationship {
	f.Helper()
	return suite.Call(f.s.Relationships(f.ctx, f.k, ids)).Must(f, "Relationships(%v)", ids)
}

// equal compares values. Empty and nil ones are equal.
func (f *fixture) equal(call string, got, want any) {
	f.Helper()
	suite.Diff(f, call, got, want, cmpopts.EquateEmpty())
}

// wantError checks that an error is want and contains a text.
func (f *fixture) wantError(call string, err, want error, contains string) {
	f.Helper()
	suite.Do(err).Fails(f, want, "%s", call)
	suite.Do(err).Contains(f, contains, "%s", call)
}
