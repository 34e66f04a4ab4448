// Package vectortest is the conformance suite for stores of documents with embeddings, which
// implement [vector.Store] and any of the optional interfaces of package vector.
//
// A test of a store calls [Run]:
//
//	func TestVectors(t *testing.T) {
//		vectortest.Run(t, vectortest.Harness{
//			Open: func(t storetest.T, cfg vector.Config) vector.Store { return newStore(t, cfg) },
//		})
//	}
package vectortest

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/suite"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// Harness describes a store to the suite.
type Harness struct {
	// Open returns a fresh, empty store. It registers the function that closes it.
	Open func(t storetest.T, cfg vector.Config) vector.Store
	// Reopen closes a store and opens its data again. It is nil if the store is not durable.
	Reopen func(t storetest.T, s vector.Store, cfg vector.Config) vector.Store
	// Tasks returns a store of tasks that can apply effects of a store of documents. If it is nil,
	// effects are not tested.
	Tasks func(s vector.Store) store.Store
	// Calls is the number of random calls that are compared with the model; 0 means 1000.
	Calls int
}

// Run runs the complete suite.
func Run(t *testing.T, h Harness) { RunOn(storetest.Wrap(t), h) }

// RunOn runs the complete suite on any implementation of T. Tests of optional interfaces that the
// store does not implement are skipped.
func RunOn(t storetest.T, h Harness) {
	if h.Calls == 0 {
		h.Calls = 1000
	}
	all := slices.Concat(contractTests, searchTests, embedTests(), inputTests, raceTests, effectTests(), durableTests, randomTests)
	suite.Each(t, all, func(test test) string { return test.name }, func(t storetest.T, test test) {
		test.run(newFixture(t, h, vector.Config{Embedder: test.embedder}))
	})
}

// test is one test of the suite. Its name is a sentence.
type test struct {
	name     string
	run      func(f *fixture)
	embedder vector.Embedder
}

// fixture is a store, and the collection that most tests use.
type fixture struct {
	storetest.T
	h   Harness
	cfg vector.Config
	s   vector.Store
	ctx context.Context
	k   vector.Key
}

func newFixture(t storetest.T, h Harness, cfg vector.Config) *fixture {
	return &fixture{T: t, h: h, cfg: cfg, s: h.Open(t, cfg), ctx: t.Context(), k: vector.Key{Owner: "owner", Collection: "collection"}}
}

// optional returns the store as an optional interface, or skips the test.
func optional[I any](f *fixture) I { f.Helper(); return suite.Optional[I](f, f.s) }

func document(id string, embedding ...float32) vector.Document {
	return vector.Document{ID: id, Text: "text of " + id, Embedding: embedding}
}

// upsert writes documents to the collection.
func (f *fixture) upsert(documents ...vector.Document) {
	f.Helper()
	f.write(f.k, vector.WriteParams{Documents: documents})
}

func (f *fixture) write(k vector.Key, p vector.WriteParams) []string {
	f.Helper()
	return suite.Call(f.s.Upsert(f.ctx, k, p)).Must(f, "Upsert(%v)", k)
}

// search searches the collection with one query.
func (f *fixture) search(p vector.SearchParams, embedding ...float32) []vector.Hit {
	f.Helper()
	p.Queries = []vector.Query{{Embedding: embedding}}
	all := suite.Call(f.s.Search(f.ctx, f.k, p)).Must(f, "Search(%+v)", p)
	if len(all) != 1 || all[0].Mode != vector.ModeSemantic {
		f.Fatalf("Search(%+v) = %+v, want one semantic result", p, all)
	}
	return all[0].Hits
}

func (f *fixture) get(k vector.Key, ids ...string) []vector.Document {
	f.Helper()
	return suite.Call(f.s.Get(f.ctx, k, ids)).Must(f, "Get(%v)", ids)
}

// wantIDs checks the ids of hits.
func (f *fixture) wantIDs(call string, hits []vector.Hit, want ...string) {
	f.Helper()
	ids := make([]string, len(hits))
	for i, h := range hits {
		ids[i] = h.ID
	}
	f.equal(call, ids, want)
}

func (f *fixture) equal(call string, got, want any) {
	f.Helper()
	suite.Diff(f, call, got, want, cmpopts.EquateEmpty(), cmpopts.EquateApprox(0, 1e-6))
}

// wantError checks that an error is want and contains a text.
func (f *fixture) wantError(call string, err, want error, contains string) {
	f.Helper()
	suite.Do(err).Fails(f, want, "%s", call)
	suite.Do(err).Contains(f, contains, "%s", call)
}

// model is an embedder for tests. Each of its embeddings has a component for each letter of the
// text; it can fail and return invalid embeddings.
type model struct {
	name string
	dim  int
	err  error
	bad  []float32
	// calls is the number of calls.
	calls atomic.Int64
}

func (m *model) Name() string { return m.name }

func (m *model) Embed(_ context.Context, texts []string) (all [][]float32, err error) {
	m.calls.Add(1)
	for _, text := range texts {
		v := make([]float32, m.dim)
		for _, word := range strings.Fields(text) {
			h := fnv.New32a()
			_, _ = fmt.Fprint(h, word)
			v[h.Sum32()%uint32(m.dim)]++
		}
		if m.bad != nil {
			v = m.bad
		}
		all = append(all, v)
	}
	return all, m.err
}
