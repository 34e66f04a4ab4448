package memorytest

import (
	"context"
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var longTermTransfer = []longTermTest{
	{"facts of an owner are listed by agent, namespace and id", testFactsAreListed},
	{"facts are listed without those that have expired", testExpiredFactsAreNotListed},
	{"restored facts have all their versions", testRestoredFacts},
	{"a fact that exists is not restored", testRestoreConflicts},
	{"invalid versions are not restored", testInvalidVersions},
}

// allFacts returns the facts that a query selects, in pages of two.
func (f *longTermFixture) allFacts(q memory.FactQuery) (all []memory.Memory) {
	f.Helper()
	lister := extension[memory.Lister](f)
	for q.Limit = 2; ; {
		page := suite.Call(lister.Facts(f.ctx(), q)).Must(f, "Facts(%+v)", q)
		if len(page.Facts) > 2 || page.More && len(page.Facts) < 2 {
			f.Fatalf("Facts(%+v) returned %d facts, more = %t", q, len(page.Facts), page.More)
		}
		all = append(all, page.Facts...)
		if !page.More {
			return all
		}
		q.After = page.Facts[1]
	}
}

func testFactsAreListed(f *longTermFixture) {
	extension[memory.Lister](f)
	want := 0
	for _, agent := range []string{"b", "a"} {
		for _, namespace := range []string{"y", "x", "x/z"} {
			for i := range 3 {
				f.in = memory.Scope{Owner: "ada", Agent: agent, Namespace: namespace}
				f.save(fmt.Sprint("fact ", i), memory.SaveParams{Metadata: map[string]any{"i": float64(i)}})
				want++
			}
		}
	}
	f.in.Owner = "bob"
	f.save("of another owner", memory.SaveParams{})
	all := f.allFacts(memory.FactQuery{Owner: "ada"})
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		if got := fmt.Sprintf("%s\x00%s\x00%s", a.Scope.Agent, a.Scope.Namespace, a.ID); got >= fmt.Sprintf("%s\x00%s\x00%s", b.Scope.Agent, b.Scope.Namespace, b.ID) {
			f.Errorf("fact %d %v is before %v", i-1, a.Scope, b.Scope)
		}
	}
	suite.Equal(f, len(all), want, "Facts()")
	for q, want := range map[[2]string]int{{"a", ""}: 9, {"a", "x"}: 3, {"b", "y"}: 3, {"c", ""}: 0} {
		for _, m := range f.allFacts(memory.FactQuery{Owner: "ada", Agent: q[0], Namespace: q[1]}) {
			if want--; m.Scope.Agent != q[0] || q[1] != "" && m.Scope.Namespace != q[1] {
				f.Errorf("Facts() of %v has %v", q, m.Scope)
			}
		}
		if want != 0 {
			f.Errorf("Facts() of %v lacks %d facts", q, want)
		}
	}
	suite.Call(extension[memory.Lister](f).Facts(f.ctx(), memory.FactQuery{Owner: "ada", Namespace: "x"})).Rejected(f, a2a.CodeInvalid, "Facts() of a namespace without an agent")
}

func testExpiredFactsAreNotListed(f *longTermFixture) {
	extension[memory.Lister](f)
	f.save("temporary", memory.SaveParams{TTL: time.Minute})
	f.save("permanent", memory.SaveParams{})
	f.clock.Add(time.Hour)
	if all := f.allFacts(memory.FactQuery{Owner: f.in.Owner}); len(all) != 1 || all[0].Content != "permanent" {
		f.Errorf("Facts() = %+v, want the permanent one", all)
	}
}

// versionsOf saves a fact and changes it in each way, and returns its versions.
func (f *longTermFixture) versionsOf(key string) []memory.Memory {
	f.Helper()
	id := f.save("the first colour", memory.SaveParams{Key: key, TTL: 24 * time.Hour, Metadata: map[string]any{"n": float64(1)}, ValidFrom: f.clock.Now()})
	edit := extension[memory.Editor](f)
	f.clock.Add(time.Second)
	_, err := edit.Update(f.ctx(), f.in, id, memory.UpdateParams{Content: "the second colour"})
	if err == nil {
		f.clock.Add(time.Second)
		_, err = edit.Supersede(f.ctx(), f.in, id, time.Time{}, memory.UpdateParams{Content: "the third colour", Metadata: map[string]any{"n": float64(3)}})
	}
	if err != nil {
		f.Fatalf("edit: %v", err)
	}
	versions, err := extension[memory.Historian](f).History(f.ctx(), f.in, id)
	if err != nil || len(versions) != 3 {
		f.Fatalf("History() = %d versions, %v, want 3", len(versions), err)
	}
	return versions
}

func testRestoredFacts(f *longTermFixture) {
	restorer := extension[memory.Restorer](f)
	versions := f.versionsOf("colour")
	for i := range versions {
		versions[i].Scope.Owner = "bob"
	}
	for _, restore := range []func(context.Context, []memory.Memory) error{restorer.CanRestore, restorer.Restore} {
		suite.Do(restore(f.ctx(), versions)).Must(f, "Restore()")
	}
	scope, id := versions[0].Scope, versions[0].ID
	got, err := extension[memory.Historian](f).History(f.ctx(), scope, id)
	if diff := cmp.Diff(versions, got); err != nil || diff != "" {
		f.Errorf("History() of the restored fact: %v, -want +got:\n%s", err, diff)
	}
	for query, want := range map[string]int{"third": 1, "second": 0, "first": 0} {
		found, err := f.s.Search(f.ctx(), scope, memory.SearchParams{Query: query, MinScore: 0.01, Mode: memory.ModeLexical})
		if err != nil || len(found.Facts) != want {
			f.Errorf("Search(%q) = %+v, %v, want %d facts", query, found, err, want)
		}
	}
	was, err := extension[memory.Historian](f).GetAsOf(f.ctx(), scope, id, versions[1].ValidFrom)
	if err != nil || was.Content != "the second colour" {
		f.Errorf("GetAsOf() = %q, %v, want the version before the last", was.Content, err)
	}
	// The key and the id belong to the fact.
	suite.Call(f.s.Save(f.ctx(), scope, "the fourth colour", memory.SaveParams{Key: "colour"})).Want(f, id, "Save() with the key")
}

func testRestoreConflicts(f *longTermFixture) {
	restorer := extension[memory.Restorer](f)
	versions := f.versionsOf("colour")
	for _, id := range []string{versions[0].ID, "other"} {
		for i := range versions {
			versions[i].ID = id
		}
		for _, restore := range []func(context.Context, []memory.Memory) error{restorer.CanRestore, restorer.Restore} {
			suite.Do(restore(f.ctx(), versions)).Fails(f, memory.ErrFactConflict, "Restore() with the id %q and a key that exists", id)
		}
	}
	suite.Call(f.s.Get(f.ctx(), f.in, "other")).Fails(f, memory.ErrFactNotFound, "Get()")
}

func testInvalidVersions(f *longTermFixture) {
	restorer := extension[memory.Restorer](f)
	good := f.versionsOf("")
	for name, change := range map[string]func(v []memory.Memory) []memory.Memory{
		"no versions":       func([]memory.Memory) []memory.Memory { return nil },
		"a missing version": func(v []memory.Memory) []memory.Memory { return v[1:] },
		"another id":        func(v []memory.Memory) []memory.Memory { v[1].ID = "x"; return v },
		"no owner":          func(v []memory.Memory) []memory.Memory { v[0].Scope.Owner = ""; return v },
		"no content":        func(v []memory.Memory) []memory.Memory { v[2].Content = " "; return v },
		"an open version": func(v []memory.Memory) []memory.Memory {
			v[0].ReplacedAt, v[0].ValidTo = time.Time{}, time.Time{}
			return v
		},
		"no newest version":  func(v []memory.Memory) []memory.Memory { return v[:1] },
		"invalid characters": func(v []memory.Memory) []memory.Memory { v[2].Content = "\xff"; return v },
	} {
		versions := append([]memory.Memory(nil), good...)
		for i := range versions {
			versions[i].Scope.Agent = "elsewhere"
		}
		suite.Do(restorer.Restore(f.ctx(), change(versions))).Rejected(f, a2a.CodeInvalid, "Restore() of %s", name)
	}
	if all, err := f.s.Search(f.ctx(), memory.Scope{Owner: f.in.Owner, Namespace: f.in.Namespace, Agent: "elsewhere"}, memory.SearchParams{}); err != nil || len(all.Facts) != 0 {
		f.Errorf("Search() = %+v, %v, want nothing", all, err)
	}
}
