package memorytest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var longTermEmbedder = []longTermTest{
	{"a failing embedder loses no facts", testFailingEmbedder},
	{"an embedder with a wrong result is one that fails", testWrongEmbeddings},
	{"facts of another model are embedded again", testOtherModels},
	{"facts that the model rejects are found by words", func(f *longTermFixture) {
		f.embed()
		f.save("an unreadable tea", memory.SaveParams{})
		f.save("a latte", memory.SaveParams{})
		f.embedPending(10, 1)
		f.embedPending(10, 0)
		r := f.results(memory.SearchParams{Query: "tea", Mode: memory.ModeSemantic})
		if diff := diffOf([]string{"a latte"}, contents(r.Facts)); diff != "" || r.Pending != 0 {
			f.Errorf("Search() = %d pending (-want +got):\n%s", r.Pending, diff)
		}
		if found := f.search(memory.SearchParams{Query: "tea"}); len(found) != 2 {
			f.Errorf("Search() = %q, want both facts", contents(found))
		}
		if r := f.results(memory.SearchParams{Query: "unreadable tea", Mode: memory.ModeSemantic}); r.Fallback == "" || len(r.Facts) != 1 {
			f.Errorf("Search() with a query that the model rejects = %+v, want a search by words", r)
		}
	}},
	{"a content is embedded once", func(f *longTermFixture) {
		e, editor := f.embed(), extension[memory.Editor](f)
		id := f.save("black tea", memory.SaveParams{Key: "drink"})
		change := func(p memory.UpdateParams) {
			suite.Call(editor.Update(f.ctx(), f.in, id, p)).Must(f, "Update()")
		}
		change(memory.UpdateParams{Metadata: map[string]any{"a": 1}})
		f.equal("embedded texts", e.calls(), []string{"black tea"})
		change(memory.UpdateParams{Content: "a parrot"})
		suite.Call(editor.Supersede(f.ctx(), f.in, id, time.Time{}, memory.UpdateParams{Content: "the invoice"})).Must(f, "Supersede()")
		f.clock.Add(time.Second)
		f.save("a train", memory.SaveParams{})
		f.embedPending(10, 0)
		found := f.search(memory.SearchParams{Query: "money", Mode: memory.ModeSemantic})
		f.equal("Search() after changes", contents(found), []string{"the invoice", "a train"})
		found = f.search(memory.SearchParams{Query: "pets", Mode: memory.ModeSemantic, AsOf: longTermStart})
		if len(found) != 2 || found[0].Content != "a parrot" {
			f.Errorf("Search() of the version before = %q", contents(found))
		}
	}},
	{"a canceled call changes nothing", func(f *longTermFixture) {
		e := f.embed()
		e.hang = true
		ctx, cancel := context.WithCancel(f.ctx())
		time.AfterFunc(time.Millisecond, cancel)
		_, saved := f.s.Save(ctx, f.in, "tea", memory.SaveParams{})
		_, searched := f.s.Search(ctx, f.in, memory.SearchParams{Query: "tea"})
		if !errors.Is(saved, context.Canceled) || !errors.Is(searched, context.Canceled) {
			f.Errorf("Save() = %v, Search() = %v, want context.Canceled", saved, searched)
		}
		suite.Empty(f, contents(f.search(memory.SearchParams{})), "Search()")
	}},
}

// embedPending fails the test unless EmbedPending returns want.
func (f *longTermFixture) embedPending(limit, want int) {
	f.Helper()
	suite.Call(extension[memory.Reembedder](f).EmbedPending(f.ctx(), limit)).Want(f, want, "EmbedPending()")
}

func testFailingEmbedder(f *longTermFixture) {
	e := f.embed()
	f.save("a green tea", memory.SaveParams{})
	for _, fail := range []error{errDown, a2a.Errorf(a2a.CodeUnavailable, "status 503"), context.DeadlineExceeded} {
		e.set(fail)
		f.clock.Add(time.Minute)
		f.save("a latte "+fail.Error(), memory.SaveParams{})
		for _, mode := range []memory.Mode{"", memory.ModeHybrid, memory.ModeSemantic} {
			r := f.results(memory.SearchParams{Query: "latte", Mode: mode})
			if len(r.Facts) == 0 || !strings.Contains(r.Fallback, fail.Error()) || !strings.Contains(r.Fallback, e.Name()) || len(r.Modes) == 0 || r.Modes[0] != memory.ModeLexical || slices.Contains(r.Modes, memory.ModeSemantic) {
				f.Errorf("Search() with mode %q = %q by %v, fallback %q, want a search by words because of %q", mode, contents(r.Facts), r.Modes, r.Fallback, fail)
			}
		}
		f.clock.Add(time.Minute)
		if n, err := extension[memory.Reembedder](f).EmbedPending(f.ctx(), 10); n != 0 || a2a.CodeOf(err) != a2a.CodeUnavailable {
			f.Errorf("EmbedPending() = %d, %v, want unavailable", n, err)
		}
	}
	e.set(nil)
	f.clock.Add(time.Minute)
	if r := f.results(memory.SearchParams{Query: "coffee", Mode: memory.ModeSemantic}); len(r.Facts) != 1 || r.Pending != 3 || r.Fallback != "" {
		f.Errorf("Search() = %q with %d pending, fallback %q, want one fact and 3 pending", contents(r.Facts), r.Pending, r.Fallback)
	}
	f.embedPending(2, 2)
	f.embedPending(2, 1)
	f.embedPending(2, 0)
	if r := f.results(memory.SearchParams{Query: "coffee", Mode: memory.ModeSemantic}); len(r.Facts) != 4 || r.Pending != 0 {
		f.Errorf("Search() = %q with %d pending, want all facts", contents(r.Facts), r.Pending)
	}
}

func testWrongEmbeddings(f *longTermFixture) {
	e := f.embed()
	f.save("a green tea", memory.SaveParams{})
	for name, change := range map[string]func(all [][]float32) [][]float32{
		"none":      func([][]float32) [][]float32 { return nil },
		"too many":  func(all [][]float32) [][]float32 { return append(all, all[0]) },
		"empty":     func(all [][]float32) [][]float32 { return [][]float32{{}} },
		"zero":      func(all [][]float32) [][]float32 { return [][]float32{make([]float32, len(all[0]))} },
		"not a num": func(all [][]float32) [][]float32 { all[0][1] = float32(math.NaN()); return all },
		"infinite":  func(all [][]float32) [][]float32 { all[0][1] = float32(math.Inf(1)); return all },
		"huge":      func([][]float32) [][]float32 { return [][]float32{make([]float32, 100_000)} },
	} {
		e.change = change
		f.clock.Add(time.Minute)
		f.save("a latte of "+name, memory.SaveParams{})
		if r := f.results(memory.SearchParams{Query: "latte", Mode: memory.ModeSemantic}); r.Fallback == "" || len(r.Facts) == 0 {
			f.Errorf("Search() with the result %s = %q, fallback %q, want a search by words", name, contents(r.Facts), r.Fallback)
		}
	}
	e.change = nil
	f.clock.Add(time.Minute)
	f.embedPending(10, 7)
}

func testOtherModels(f *longTermFixture) {
	const facts = 5
	for i := range facts {
		f.save(fmt.Sprint("tea ", i), memory.SaveParams{})
	}
	f.save("a replaced fact", memory.SaveParams{Key: "k"})
	f.save("a parrot", memory.SaveParams{Key: "k"})
	f.save("an expired fact", memory.SaveParams{TTL: time.Second})
	// A model that changes its dimension or its name is another one.
	for _, e := range []*model{{}, {more: 3}, {name: "other"}, {name: "a first"}, {}} {
		if f.reconfigure(e); e.name != "" { // otherwise the first search shows the dimension
			f.embedPending(1, 1)
			f.clock.Add(time.Second)
			f.reconfigure(&model{name: "between"})
			f.embedPending(10, facts+1)
			f.reconfigure(e)
		}
		r := f.results(memory.SearchParams{Query: "beverage", Mode: memory.ModeSemantic})
		if len(r.Facts) != 0 || r.Pending != facts+1 || r.Fallback != "" {
			f.Errorf("Search() with the new model %s = %q with %d pending, want none", e.Name(), contents(r.Facts), r.Pending)
		}
		if found := f.search(memory.SearchParams{Query: "tea"}); len(found) != facts {
			f.Errorf("Search() with the new model %s = %q, want all facts by their words", e.Name(), contents(found))
		}
		f.embedPending(4, 4)
		if r := f.results(memory.SearchParams{Query: "beverage", Mode: memory.ModeSemantic}); len(r.Facts) != 4 || r.Pending != 2 {
			f.Errorf("Search() with %s = %q with %d pending, want 4 facts", e.Name(), contents(r.Facts), r.Pending)
		}
		f.embedPending(4, 2)
		f.embedPending(4, 0)
		if found := f.search(memory.SearchParams{Query: "pets", Mode: memory.ModeSemantic}); len(found) != facts+1 || found[0].Content != "a parrot" {
			f.Errorf("Search() with %s = %q, want all facts", e.Name(), contents(found))
		}
	}
	f.reconfigure(nil)
	suite.Call(extension[memory.Reembedder](f).EmbedPending(f.ctx(), 10)).Fails(f, memory.ErrNoEmbedder, "EmbedPending() without an embedder")
	if found := f.search(memory.SearchParams{Query: "tea"}); len(found) != facts {
		f.Errorf("Search() without an embedder = %q, want all facts by their words", contents(found))
	}
}
