package vectortest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/suite"
	"github.com/holdfast-dev/holdfast/store/vector"
)

func effectTests() []test {
	return []test{
		{name: "effects are applied with their change", run: testEffects},
		{name: "a failing effect undoes those before it", run: testEffectsUndone},
		{name: "effects see those before them", run: testEffectsInOrder},
		{name: "effects have the errors of their methods", run: testEffectErrors},
		{name: "effects of another store are rejected", run: testForeignEffects},
		{name: "applying an effect calls no embedder", run: testEffectEmbedder, embedder: &model{name: "model", dim: 8}},
		{name: "searches see all documents of a change or none", run: testEffectSearches},
		{name: "random effects have the results of a model", run: testRandomEffects},
	}
}

// effects are the effects of the store under test, with the store of the tasks that are
// changed with them.
type effects struct {
	*fixture
	vector.Transactional
	tasks store.Store
	made  int
}

func newEffects(f *fixture) *effects {
	t := optional[vector.Transactional](f)
	if f.h.Tasks == nil {
		f.Skipf("the harness has no tasks")
	}
	return &effects{fixture: f, Transactional: t, tasks: f.h.Tasks(f.s)}
}

// commit creates a task with effects and returns the reason why the change was rejected.
func (f *effects) commit(all ...store.Effect) error {
	f.Helper()
	f.made++
	now := store.Time(time.Now())
	message := &a2a.Message{ID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart{Text: "go"}}}
	results, err := f.tasks.Commit(f.ctx, store.Change{
		Key: store.Key{Owner: f.k.Owner, ID: fmt.Sprint("task", f.made)}, Create: &store.Create{ContextID: "context"}, Effects: all,
		Events: []store.Event{{Time: now, State: a2a.StateSubmitted, Received: message}}, Queue: &store.QueueEntry{Phase: store.PhaseQueued, Turn: 1},
	})
	if err != nil {
		f.Fatalf("Commit() = %v", err)
	}
	return results[0].Err
}

func (f *effects) wantCommit(all ...store.Effect) {
	f.Helper()
	suite.Do(f.commit(all...)).Must(f, "Commit()")
}

// upserts and adds return an effect that writes documents.
func (f *effects) upserts(p vector.WriteParams) store.Effect {
	f.Helper()
	return f.effect(f.UpsertEffect(f.ctx, f.k, p))
}

func (f *effects) adds(p vector.WriteParams) store.Effect {
	f.Helper()
	return f.effect(f.AddEffect(f.ctx, f.k, p))
}

func (f *effects) effect(e store.Effect, ids []string, err error) store.Effect {
	f.Helper()
	if err != nil {
		f.Fatalf("effect of %q: %v", ids, err)
	}
	return e
}

func (f *effects) deletes(ids ...string) store.Effect {
	f.Helper()
	e, err := f.DeleteEffect(f.k, ids)
	return f.effect(e, ids, err)
}

func of(documents ...vector.Document) vector.WriteParams {
	return vector.WriteParams{Documents: documents}
}

// byID returns the documents of hits by their ids.
func byID(hits []vector.Hit) []vector.Document {
	found := make([]vector.Document, len(hits))
	for i, h := range hits {
		found[i] = h.Document
	}
	slices.SortFunc(found, func(a, b vector.Document) int { return strings.Compare(a.ID, b.ID) })
	return found
}

// wantDocuments checks all documents of the collection with two components, as rows and as hits of a
// search that is complete.
func (f *effects) wantDocuments(want ...vector.Document) {
	f.Helper()
	var ids []string
	for _, d := range want {
		ids = append(ids, d.ID)
	}
	p := vector.SearchParams{Limit: 1000, IncludeEmbedding: true, Exact: true}
	f.equal("Search()", byID(f.search(p, 1, 1)), want)
	f.equal("Search() by words", byID(f.byWords("texts", p)), want)
	f.equal("Get()", f.get(f.k, ids...), want)
	all, err := f.s.Collections(f.ctx, f.k.Owner)
	if err != nil || len(all) != 1 || all[0].Documents != int64(len(want)) {
		f.Errorf("Collections() = %+v, %v, want one with %d documents", all, err, len(want))
	}
}

func testEffects(f *fixture) {
	e := newEffects(f)
	first, ids, err := e.AddEffect(f.ctx, f.k, of(document("a", 1, 0), document("", 0, 1)))
	if err != nil || len(ids) != 2 || ids[0] != "a" || ids[1] == "" {
		f.Fatalf("AddEffect() = %q, %v", ids, err)
	}
	suite.Call(f.s.Collections(f.ctx, f.k.Owner)).Empty(f, "Collections() before the commit")
	e.wantCommit(first)
	f.equal("Get()", f.get(f.k, "a", ids[1])[1].Embedding, []float32{0, 1})
	e.wantCommit(e.deletes("missing", ids[1]), e.upserts(of(document("b", 1, 1))))
	e.wantDocuments(document("a", 1, 0), document("b", 1, 1))
	p := of(document("a", 0, 1), document("c", 1, 0))
	p.Remove = []string{"b", "missing"}
	e.wantCommit(e.upserts(p))
	e.wantDocuments(document("a", 0, 1), document("c", 1, 0))
	e.wantCommit(e.deletes("a"))
	if f.h.Reopen != nil {
		f.s = f.h.Reopen(f.T, f.s, f.cfg)
		e.wantDocuments(document("c", 1, 0))
	}
}

func testEffectsUndone(f *fixture) {
	e := newEffects(f)
	fails := e.adds(of(document("taken", 1, 0)))
	f.write(vector.Key{Owner: f.k.Owner, Collection: "removed"}, of(document("x", 1, 0)))
	suite.Call(f.s.DeleteCollection(f.ctx, vector.Key{Owner: f.k.Owner, Collection: "removed"})).Must(f, "DeleteCollection()")
	f.upsert(document("taken", 0, 1), document("b", 1, 0))
	e.wantDocuments(document("b", 1, 0), document("taken", 0, 1))
	replace := of(document("taken", 1, 0), document("new", 1, 1))
	replace.Remove = []string{"b"}
	for _, all := range [][]store.Effect{
		{fails, e.upserts(replace)},
		{e.upserts(replace), fails},
		{e.deletes("b", "taken"), e.upserts(of(document("taken", 2, 2))), e.deletes("taken"), e.upserts(replace), fails},
	} {
		f.wantError("Commit()", e.commit(all...), vector.ErrExists, "")
		e.wantDocuments(document("b", 1, 0), document("taken", 0, 1))
	}
	other := vector.Key{Owner: f.k.Owner, Collection: "new"}
	created := e.effect(e.UpsertEffect(f.ctx, other, of(document("a", 1, 0, 0))))
	f.wantError("Commit()", e.commit(created, fails), vector.ErrExists, "")
	f.wantError("Get() of a collection that was not created", suite.Err(f.s.Get(f.ctx, other, []string{"a"})), vector.ErrCollectionNotFound, "")
	e.wantCommit(e.upserts(replace))
	e.wantDocuments(document("new", 1, 1), document("taken", 1, 0))
}

func testEffectsInOrder(f *fixture) {
	e := newEffects(f)
	e.wantCommit(e.adds(of(document("a", 1, 0))), e.deletes("a"), e.adds(of(document("a", 0, 1), document("b", 1, 1))), e.deletes("b"))
	e.wantDocuments(document("a", 0, 1))
	two, three := e.upserts(of(document("c", 1, 0))), e.deletes("c")
	e.wantCommit(e.deletes("a"), two, three, e.upserts(of(document("d", 2, 0))))
	e.wantDocuments(document("d", 2, 0))
}

func testEffectErrors(f *fixture) {
	e := newEffects(f)
	early := e.adds(of(document("a", 1, 0, 0)))
	e.wantCommit(e.deletes("no collection"))
	f.upsert(document("a", 1, 0))
	_, _, err := e.AddEffect(f.ctx, f.k, of(document("a", 1, 0)))
	f.wantError("AddEffect() of a document that exists", err, vector.ErrExists, "")
	_, _, err = e.UpsertEffect(f.ctx, f.k, of(document("b", 1, 0, 0)))
	f.wantError("UpsertEffect()", err, vector.ErrMismatch, "dimension")
	if _, _, err = e.UpsertEffect(f.ctx, f.k, vector.WriteParams{}); a2a.CodeOf(err) != a2a.CodeInvalid {
		f.Errorf("UpsertEffect() of no documents = %v, want an error of invalid params", err)
	}
	suite.Call(e.DeleteEffect(f.k, []string{""})).Rejected(f, a2a.CodeInvalid, "DeleteEffect() of an empty id")
	err = e.commit(early)
	var failed *store.EffectError
	if !errors.As(err, &failed) || !errors.Is(err, vector.ErrMismatch) {
		f.Errorf("Commit() = %v, want an EffectError that is ErrMismatch", err)
	}
	e.wantDocuments(document("a", 1, 0))
}

func testForeignEffects(f *fixture) {
	e := newEffects(f)
	other := newEffects(newFixture(f.T, f.h, f.cfg))
	f.upsert(document("a", 1, 0))
	f.wantError("Commit()", e.commit(e.deletes("a"), other.upserts(of(document("b", 1, 0)))), store.ErrForeignEffect, "")
	e.wantDocuments(document("a", 1, 0))
}

func testEffectEmbedder(f *fixture) {
	e := newEffects(f)
	m := f.cfg.Embedder.(*model)
	written := e.upserts(of(vector.Document{ID: "a", Text: "red apple"}))
	calls := m.calls.Load()
	e.wantCommit(written)
	if n := m.calls.Load(); n != calls {
		f.Errorf("the embedder was called %d times by a commit", n-calls)
	}
	all, err := f.s.Search(f.ctx, f.k, vector.SearchParams{Queries: []vector.Query{{Text: "apple"}}})
	if err != nil || all[0].Mode != vector.ModeSemantic || len(all[0].Hits) != 1 {
		f.Errorf("Search() = %+v, %v, want one semantic hit", all, err)
	}
}

// testEffectSearches searches while changes replace pairs of documents and are undone.
func testEffectSearches(f *fixture) {
	e := newEffects(f)
	fails := e.adds(of(document("c", 1, 0)))
	f.upsert(document("a", 1, 1), document("c", 1, 0))
	done := make(chan struct{})
	suite.Concurrently(4, func(i int) {
		if i == 0 {
			defer close(done)
			for n := range 40 {
				x := float32(n % 7)
				p := of(document(fmt.Sprint("x", n), x, 1), document(fmt.Sprint("y", n), x, 1))
				p.Remove = []string{"a", fmt.Sprint("x", n-1), fmt.Sprint("y", n-1)}
				if n == 0 {
					p.Documents = append(p.Documents, document("z", 1, 1))
				}
				if n%3 == 1 {
					suite.Do(e.commit(e.upserts(of(document("never", 1, 1))), fails)).Fails(f, vector.ErrExists, "Commit()")
				}
				suite.Do(e.commit(e.upserts(p))).Check(f, "Commit()")
			}
			return
		}
		for last := false; !last; {
			select {
			case <-done:
				last = true
			default:
			}
			ids := make(map[string]bool)
			for _, h := range f.search(vector.SearchParams{Limit: 100}, 1, 1) {
				ids[h.ID] = true
			}
			if ids["never"] || last && (len(ids) != 4 || !ids["x39"] || !ids["y39"]) {
				f.Errorf("Search() returns %v", ids)
			}
		}
	})
}

// testRandomEffects commits random effects, some of which fail.
func testRandomEffects(f *fixture) {
	e := newEffects(f)
	seed := testseed.Of(f)
	r := rand.New(rand.NewPCG(seed, 1))
	f.upsert(document("fixed", 1, 1))
	model := map[string]vector.Document{"fixed": document("fixed", 1, 1)}
	for range f.h.Calls / 10 {
		next := make(map[string]vector.Document)
		for id, d := range model {
			next[id] = d
		}
		var all []store.Effect
		for range 1 + r.IntN(4) {
			d := document(fmt.Sprint("d", r.IntN(20)), float32(r.IntN(5)), 1)
			removed := fmt.Sprint("d", 20+r.IntN(3))
			if r.IntN(3) == 0 {
				all = append(all, e.deletes(d.ID))
				delete(next, d.ID)
				continue
			}
			p := of(d, document(fmt.Sprint("d", 23+r.IntN(3)), 1, float32(r.IntN(5))))
			p.Remove = []string{removed}
			all = append(all, e.upserts(p))
			delete(next, removed)
			next[d.ID], next[p.Documents[1].ID] = p.Documents[0], p.Documents[1]
		}
		if r.IntN(3) == 0 {
			added := document(fmt.Sprint("added", r.Uint64()), 1, 2)
			fails := e.adds(of(added))
			f.upsert(added)
			model[added.ID] = added
			f.wantError("Commit()", e.commit(append(all, fails)...), vector.ErrExists, "")
		} else {
			e.wantCommit(all...)
			model = next
		}
		if r.IntN(3) == 0 {
			var want []vector.Document
			for _, d := range model {
				want = append(want, d)
			}
			slices.SortFunc(want, func(a, b vector.Document) int { return strings.Compare(a.ID, b.ID) })
			e.wantDocuments(want...)
		}
		if f.Failed() {
			return
		}
	}
}
