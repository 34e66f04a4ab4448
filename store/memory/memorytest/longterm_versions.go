package memorytest

import (
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var longTermVersions = []longTermTest{
	{"facts are found while they are valid", testValidity},
	{"update replaces the newest version", testUpdate},
	{"supersede ends the version before", testSupersede},
	{"supersede outside of the validity is rejected", testSupersedeBounds},
	{"a change of another version conflicts", func(f *longTermFixture) {
		e := extension[memory.Editor](f)
		id := f.save("tea", memory.SaveParams{})
		for range 2 {
			suite.Call(e.Update(f.ctx(), f.in, id, memory.UpdateParams{Content: "tea", Version: 2})).Fails(f, memory.ErrFactConflict, "Update() of version 2")
		}
		if m, err := e.Update(f.ctx(), f.in, id, memory.UpdateParams{Content: "milk", Version: 1}); err != nil || m.Version != 2 {
			f.Errorf("Update() of version 1 = %+v, %v", m, err)
		}
		suite.Call(e.Supersede(f.ctx(), f.in, id, time.Time{}, memory.UpdateParams{Version: 1})).Fails(f, memory.ErrFactConflict, "Supersede() of version 1")
		f.mustReject("Update", "version", suite.Err(e.Update(f.ctx(), f.in, id, memory.UpdateParams{Version: -1})))
	}},
	{"a saved version keeps the validity of the one before", func(f *longTermFixture) {
		e := extension[memory.Editor](f)
		id := f.save("lives in Pune", memory.SaveParams{Key: "home"})
		at := f.clock.Now()
		suite.Call(e.Supersede(f.ctx(), f.in, id, at, memory.UpdateParams{Content: "lives in Oslo"})).Must(f, "Supersede()")
		f.clock.Add(time.Hour)
		f.save("lives in Oslo, Norway", memory.SaveParams{Key: "home"})
		f.mustFind(memory.SearchParams{Query: "lives"}, "lives in Oslo, Norway")
		f.mustFind(memory.SearchParams{Query: "lives", AsOf: at.Add(-time.Millisecond)}, "lives in Pune")
		f.mustReject("Save", "validFrom", suite.Err(f.s.Save(f.ctx(), f.in, "x", memory.SaveParams{Key: "home", ValidFrom: at.Add(-time.Second)})))
	}},
}

func testValidity(f *longTermFixture) {
	from, to := longTermStart.Add(time.Hour), longTermStart.Add(2*time.Hour)
	id := f.save("the shop is closed", memory.SaveParams{ValidFrom: from, ValidTo: to})
	f.save("the shop sells tea", memory.SaveParams{})
	for _, test := range []struct {
		at   time.Time
		want []string
	}{
		{from.Add(-time.Millisecond), []string{"the shop sells tea"}},
		{from, []string{"the shop sells tea", "the shop is closed"}},
		{to.Add(-time.Millisecond), []string{"the shop sells tea", "the shop is closed"}},
		{to, []string{"the shop sells tea"}},
	} {
		f.mustFind(memory.SearchParams{AsOf: test.at}, test.want...)
		if found := f.search(memory.SearchParams{Query: "shop", AsOf: test.at}); len(found) != len(test.want) {
			f.Errorf("Search() as of %s = %q, want %q", test.at, contents(found), test.want)
		}
		if h, ok := f.s.(memory.Historian); ok {
			if _, err := h.GetAsOf(f.ctx(), f.in, id, test.at); (err == nil) != (len(test.want) == 2) {
				f.Errorf("GetAsOf(%s) = %v", test.at, err)
			}
		}
	}
	f.mustFind(memory.SearchParams{Query: "closed"})
	f.clock.Add(time.Hour)
	f.mustFind(memory.SearchParams{Query: "closed"}, "the shop is closed")
	f.get(id)
	f.clock.Add(time.Hour)
	suite.Call(f.s.Get(f.ctx(), f.in, id)).Fails(f, memory.ErrFactNotFound, "Get() after the validity")
}

// history returns the versions of a fact as text.
func (f *longTermFixture) history(id string) (all []string) {
	f.Helper()
	versions := suite.Call(extension[memory.Historian](f).History(f.ctx(), f.in, id)).Must(f, "History()")
	since := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return t.Sub(longTermStart).String()
	}
	for _, m := range versions {
		all = append(all, fmt.Sprintf("%d %s %v: saved %s, replaced %s, valid %s to %s", m.Version, m.Content, m.Metadata, since(m.UpdatedAt), since(m.ReplacedAt), since(m.ValidFrom), since(m.ValidTo)))
	}
	return all
}

func testUpdate(f *longTermFixture) {
	e := extension[memory.Editor](f)
	id := f.save("Ravi likes tea.", memory.SaveParams{Key: "drink", Metadata: map[string]any{"a": "b"}, TTL: time.Hour})
	m := suite.Call(e.Update(f.ctx(), f.in, id, memory.UpdateParams{Content: "Ravi likes coffee."})).Must(f, "Update()")
	f.equal("Update()", m, f.get(id))
	f.clock.Add(time.Second)
	suite.Call(e.Update(f.ctx(), f.in, id, memory.UpdateParams{Metadata: map[string]any{}})).Must(f, "Update()")
	f.mustFind(memory.SearchParams{Query: "tea coffee"}, "Ravi likes coffee.")
	f.mustFind(memory.SearchParams{AsOf: longTermStart}, "Ravi likes coffee.")
	want := []string{
		"1 Ravi likes tea. map[a:b]: saved 0s, replaced 1s, valid - to -",
		"2 Ravi likes coffee. map[a:b]: saved 1s, replaced 2s, valid - to -",
		"3 Ravi likes coffee. map[]: saved 2s, replaced -, valid - to -",
	}
	f.equal("History()", f.history(id), want)
	suite.Call(e.Update(f.ctx(), f.in, "missing", memory.UpdateParams{})).Fails(f, memory.ErrFactNotFound, "Update() of a missing fact")
}

func testSupersede(f *longTermFixture) {
	e := extension[memory.Editor](f)
	id := f.save("Ravi lives in Pune.", memory.SaveParams{})
	moved := longTermStart.Add(-24 * time.Hour)
	suite.Call(e.Supersede(f.ctx(), f.in, id, moved, memory.UpdateParams{Content: "Ravi lives in Oslo."})).Must(f, "Supersede()")
	f.clock.Add(time.Hour)
	if m, err := e.Supersede(f.ctx(), f.in, id, time.Time{}, memory.UpdateParams{Content: "Ravi lives in Rome."}); err != nil || m.Version != 3 || !m.ValidFrom.Equal(f.clock.Now()) {
		f.Fatalf("Supersede() = %+v, %v, want version 3, valid from now", m, err)
	}
	f.mustFind(memory.SearchParams{Query: "Ravi"}, "Ravi lives in Rome.")
	f.mustFind(memory.SearchParams{Query: "Ravi", AsOf: longTermStart}, "Ravi lives in Oslo.")
	f.mustFind(memory.SearchParams{AsOf: moved.Add(-time.Second)}, "Ravi lives in Pune.")
	f.mustFind(memory.SearchParams{Query: "Pune", AsOf: moved})
	want := []string{
		"1 Ravi lives in Pune. map[]: saved 0s, replaced -, valid - to -24h0m0s",
		"2 Ravi lives in Oslo. map[]: saved 1s, replaced -, valid -24h0m0s to 1h0m1s",
		"3 Ravi lives in Rome. map[]: saved 1h0m1s, replaced -, valid 1h0m1s to -",
	}
	f.equal("History()", f.history(id), want)
	if m, err := extension[memory.Historian](f).GetAsOf(f.ctx(), f.in, id, longTermStart); err != nil || m.Version != 2 {
		f.Errorf("GetAsOf() = %+v, %v, want version 2", m, err)
	}
}

func testSupersedeBounds(f *longTermFixture) {
	e := extension[memory.Editor](f)
	from, to := longTermStart, longTermStart.Add(time.Hour)
	id := f.save("tea", memory.SaveParams{ValidFrom: from, ValidTo: to})
	for _, at := range []time.Time{from.Add(-time.Second), from, to, to.Add(time.Second), time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC)} {
		f.mustReject("Supersede", "at", suite.Err(e.Supersede(f.ctx(), f.in, id, at, memory.UpdateParams{Content: "milk"})))
	}
	if m := f.get(id); m.Version != 1 {
		f.Errorf("version = %d, want 1", m.Version)
	}
}
