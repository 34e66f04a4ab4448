package memorytest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var longTermExpiry = []longTermTest{
	{"an expired fact does not exist", testExpiredFact},
	{"expired facts do not count toward the limit", func(f *longTermFixture) {
		for range 5 {
			f.save("tea for all", memory.SaveParams{Metadata: map[string]any{"x": 1}})
		}
		for i := range 300 {
			f.save(fmt.Sprintf("tea number%d", i), memory.SaveParams{TTL: time.Second, Metadata: map[string]any{"x": 1}})
		}
		for _, query := range []string{"", "tea", "number1 tea", "numbr1 tea"} {
			for _, x := range []filter.Filter{{}, filter.Eq("x", 1)} {
				suite.Equal(f, len(f.search(memory.SearchParams{Query: query, Limit: 5, Filter: x})), 5, "number of results of Search(%q)", query)
			}
		}
	}},
	{"expire removes expired facts", testExpire},
}

func testExpiredFact(f *longTermFixture) {
	id := f.save("Ravi has a cold.", memory.SaveParams{Key: "health", TTL: time.Minute})
	f.clock.Add(time.Minute - time.Second - time.Millisecond)
	f.get(id)
	f.mustFind(memory.SearchParams{Query: "cold"}, "Ravi has a cold.")
	f.clock.Add(time.Millisecond)
	f.mustFind(memory.SearchParams{Query: "cold"})
	f.mustFind(memory.SearchParams{AsOf: longTermStart})
	suite.Call(f.s.Get(f.ctx(), f.in, id)).Fails(f, memory.ErrFactNotFound, "Get()")
	if e, ok := f.s.(memory.Editor); ok {
		suite.Call(e.Update(f.ctx(), f.in, id, memory.UpdateParams{})).Fails(f, memory.ErrFactNotFound, "Update()")
	}
	if h, ok := f.s.(memory.Historian); ok {
		suite.Call(h.History(f.ctx(), f.in, id)).Fails(f, memory.ErrFactNotFound, "History()")
	}
	other := f.save("Ravi is well.", memory.SaveParams{Key: "health", TTL: time.Minute})
	if m := f.get(other); other == id || m.Version != 1 {
		f.Errorf("Save() after the expiry returned version %d of the same fact: %t, want version 1 of a new one", m.Version, other == id)
	}
	f.clock.Add(time.Hour)
	suite.Call(f.s.Delete(f.ctx(), f.in, other)).Want(f, false, "Delete() of an expired fact")
}

func testExpire(f *longTermFixture) {
	x := extension[memory.Expirer](f)
	for i := range 500 {
		f.save(fmt.Sprintf("fact %d", i), memory.SaveParams{TTL: time.Second, Key: fmt.Sprint(i)})
	}
	f.save("stays", memory.SaveParams{TTL: 24 * time.Hour})
	f.save("stays too", memory.SaveParams{})
	suite.Call(x.Expire(f.ctx(), longTermStart, 100)).Want(f, 0, "Expire() before the expiry")
	for _, want := range []int{10, 490, 0} {
		limit := 1000
		if want == 10 {
			limit = 10
		}
		suite.Call(x.Expire(f.ctx(), f.clock.Now(), limit)).Want(f, want, "Expire(%d)", limit)
	}
	f.mustFind(memory.SearchParams{}, "stays too", "stays")
}

var longTermRemoval = []longTermTest{
	{"a deleted fact does not exist", func(f *longTermFixture) {
		id := f.save("Ravi has a bike.", memory.SaveParams{Key: "bike"})
		if e, ok := f.s.(memory.Editor); ok {
			suite.Call(e.Supersede(f.ctx(), f.in, id, time.Time{}, memory.UpdateParams{Content: "Ravi has a car."})).Must(f, "Supersede()")
		}
		for _, want := range []bool{true, false} {
			suite.Call(f.s.Delete(f.ctx(), f.in, id)).Want(f, want, "Delete()")
		}
		f.mustFind(memory.SearchParams{Query: "bike car"})
		f.mustFind(memory.SearchParams{AsOf: longTermStart})
		suite.Call(f.s.Get(f.ctx(), f.in, id)).Fails(f, memory.ErrFactNotFound, "Get()")
	}},
	{"clear removes the facts of one scope", testClear},
	{"namespaces are listed by prefix", testNamespaces},
	{"a forgotten owner has no facts", testForget},
}

func testClear(f *longTermFixture) {
	for i := range 450 {
		f.save(fmt.Sprintf("fact %d", i), memory.SaveParams{Key: fmt.Sprint(i)})
	}
	own := f.in
	f.in.Namespace += "/below"
	f.save("stays", memory.SaveParams{Key: "1"})
	for _, want := range []int{450, 0} {
		suite.Call(f.s.Clear(f.ctx(), own)).Want(f, want, "Clear()")
	}
	f.mustFind(memory.SearchParams{Query: "stays"}, "stays")
	f.in = own
	f.mustFind(memory.SearchParams{})
	f.mustFind(memory.SearchParams{Query: "fact"})
	if m := f.get(f.save("new", memory.SaveParams{Key: "1"})); m.Version != 1 {
		f.Errorf("Save() after Clear has version %d, want 1", m.Version)
	}
}

func testNamespaces(f *longTermFixture) {
	l := extension[memory.NamespaceLister](f)
	all := []string{"a", "a-b", "a/b", "a/b/c", "a/c", "a0", "ab", "default", "ü"}
	for _, n := range all {
		f.in.Namespace = n
		f.save("one", memory.SaveParams{})
		f.save("two", memory.SaveParams{})
	}
	f.in.Namespace = "a/expired"
	f.save("gone", memory.SaveParams{TTL: time.Millisecond})
	f.in.Agent = "other"
	f.save("other", memory.SaveParams{})
	for _, test := range []struct {
		prefix, after string
		limit         int
		want          []string
	}{
		{"", "", 0, all},
		{"", "a/b", 3, []string{"a/b/c", "a/c", "a0"}},
		{"a", "", 0, []string{"a", "a/b", "a/b/c", "a/c"}},
		{"a", "a/b", 1, []string{"a/b/c"}},
		{"a/b", "", 0, []string{"a/b", "a/b/c"}},
		{"x", "", 0, nil},
	} {
		got, err := l.Namespaces(f.ctx(), memory.NamespaceQuery{Owner: "ada", Agent: "agent", Prefix: test.prefix, After: test.after, Limit: test.limit})
		if err != nil || !slices.Equal(got, test.want) {
			f.Errorf("Namespaces(%q, after %q) = %q, %v, want %q", test.prefix, test.after, got, err, test.want)
		}
	}
	f.mustReject("Namespaces", "agent", suite.Err(l.Namespaces(f.ctx(), memory.NamespaceQuery{Owner: "ada"})))
}

func testForget(f *longTermFixture) {
	x := extension[memory.Forgetter](f)
	own := f.in
	for i := range 250 {
		f.in = memory.Scope{Owner: own.Owner, Agent: fmt.Sprintf("agent%d", i%3), Namespace: fmt.Sprintf("n/%d", i%5)}
		id := f.save("fact", memory.SaveParams{Key: fmt.Sprint(i)})
		if e, ok := f.s.(memory.Editor); ok && i%50 == 0 {
			suite.Call(e.Update(f.ctx(), f.in, id, memory.UpdateParams{Content: "new"})).Must(f, "Update()")
		}
	}
	f.in = memory.Scope{Owner: "eve", Agent: "agent0", Namespace: "n/0"}
	f.save("stays", memory.SaveParams{})
	for _, want := range []memory.ForgetReport{{Facts: 250, Versions: 255}, {}} {
		suite.Call(x.ForgetSubject(f.ctx(), own.Owner)).Want(f, want, "ForgetSubject()")
	}
	f.mustFind(memory.SearchParams{}, "stays")
	if l, ok := f.s.(memory.NamespaceLister); ok {
		suite.Call(l.Namespaces(f.ctx(), memory.NamespaceQuery{Owner: own.Owner, Agent: "agent1"})).Empty(f, "Namespaces()")
	}
	f.mustReject("ForgetSubject", "owner", suite.Err(x.ForgetSubject(f.ctx(), "")))
}

var longTermRaces = []longTermTest{
	{"concurrent saves with one key make one fact", func(f *longTermFixture) {
		ids := make([]string, racers)
		f.race(func(i int) (err error) {
			ids[i], err = f.s.Save(f.ctx(), f.in, fmt.Sprintf("content %d", i), memory.SaveParams{Key: "k"})
			return err
		})
		slices.Sort(ids)
		if ids = slices.Compact(ids); len(ids) != 1 {
			f.Fatalf("Save() returned %d ids, want 1", len(ids))
		}
		if m := f.get(ids[0]); m.Version != racers {
			f.Errorf("version = %d, want %d", m.Version, racers)
		}
		suite.Equal(f, len(f.search(memory.SearchParams{Query: "content"})), 1, "number of results of Search()")
	}},
	{"concurrent updates lose no version", func(f *longTermFixture) {
		e := extension[memory.Editor](f)
		id := f.save("content", memory.SaveParams{})
		f.race(func(i int) error {
			_, err := e.Update(f.ctx(), f.in, id, memory.UpdateParams{Content: fmt.Sprintf("content %d", i)})
			return err
		})
		if m := f.get(id); m.Version != racers+1 {
			f.Errorf("version = %d, want %d", m.Version, racers+1)
		}
		suite.Equal(f, len(f.history(id)), racers+1, "History()")
	}},
	{"one of concurrent updates of a version wins", func(f *longTermFixture) {
		e := extension[memory.Editor](f)
		id := f.save("content", memory.SaveParams{})
		var mu sync.Mutex
		won := 0
		f.race(func(i int) error {
			_, err := e.Update(f.ctx(), f.in, id, memory.UpdateParams{Content: fmt.Sprintf("content %d", i), Version: 1})
			if errors.Is(err, memory.ErrFactConflict) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			won++
			return err
		})
		if won != 1 || f.get(id).Version != 2 {
			f.Errorf("%d updates of version 1 succeeded, want 1", won)
		}
	}},
}

// longTermMixedRaces has the tests with callers that make different calls.
var longTermMixedRaces = []longTermTest{
	{"a deletion removes concurrent updates", func(f *longTermFixture) {
		e := extension[memory.Editor](f)
		id := f.save("content", memory.SaveParams{Key: "k"})
		f.race(func(i int) error {
			if i == racers/2 {
				_, err := f.s.Delete(f.ctx(), f.in, id)
				return err
			}
			_, err := e.Update(f.ctx(), f.in, id, memory.UpdateParams{Content: fmt.Sprintf("content %d", i)})
			if errors.Is(err, memory.ErrFactNotFound) {
				return nil
			}
			return err
		})
		f.mustFind(memory.SearchParams{Query: "content"})
		f.mustFind(memory.SearchParams{})
		suite.Call(f.s.Get(f.ctx(), f.in, id)).Fails(f, memory.ErrFactNotFound, "Get() after Delete")
	}},
	{"searches run while facts are saved", func(f *longTermFixture) {
		f.race(func(i int) error {
			if i%2 == 0 {
				_, err := f.s.Save(f.ctx(), f.in, fmt.Sprintf("content %d", i), memory.SaveParams{})
				return err
			}
			_, err := f.s.Search(f.ctx(), f.in, memory.SearchParams{Query: "content"})
			return err
		})
		suite.Equal(f, len(f.search(memory.SearchParams{Query: "content", Limit: racers})), racers/2, "number of results of Search()")
	}},
}

const racers = 64

// race calls call concurrently and fails the test for each error.
func (f *longTermFixture) race(call func(i int) error) {
	f.Helper()
	var group sync.WaitGroup
	for i := range racers {
		group.Go(func() {
			suite.Do(call(i)).Check(f, "call %d", i)
		})
	}
	group.Wait()
}
