package memorytest

import (
	"fmt"
	"strings"

	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var longTermEntities = []longTermTest{
	{"facts are found by the entities of a query and their neighbors", testNeighbors},
	{"names of entities are equal if their words are", func(f *longTermFixture) {
		f.save("one", memory.SaveParams{Entities: []string{"Ada Lovelace", "Café Royal"}})
		f.save("two", memory.SaveParams{Entities: []string{"東京"}})
		for query, want := range map[string]string{
			"Where does ADA LOVELACE work?": "one", "ada lovelace's office": "one", "the cafe royal": "one", "東京は": "two", "Lovelace Ada": "", "ada": "",
		} {
			found := f.search(memory.SearchParams{Query: query, Mode: memory.ModeGraph})
			suite.Equal(f, strings.Join(contents(found), " "), want, "Search(%q)", query)
		}
	}},
	{"entities are stored with each version", func(f *longTermFixture) {
		editor, historian := extension[memory.Editor](f), extension[memory.Historian](f)
		names := []string{"Ada", "O'Neil \"x\" \\ %_", "Ada"}
		id := f.save("content", memory.SaveParams{Key: "k", Entities: names})
		names[0] = "changed"
		f.save("content", memory.SaveParams{Key: "k", Entities: []string{"Ada", "O'Neil \"x\" \\ %_", "Ada"}}) // the same
		if got := f.get(id); got.Version != 1 || strings.Join(got.Entities, ",") != "Ada,O'Neil \"x\" \\ %_,Ada" {
			f.Errorf("Get() = version %d with %q", got.Version, got.Entities)
		}
		f.save("content", memory.SaveParams{Key: "k", Entities: []string{"Eve"}})
		for _, p := range []memory.UpdateParams{{Content: "other"}, {Entities: []string{"Bob"}}, {Entities: []string{}}} {
			suite.Call(editor.Update(f.ctx(), f.in, id, p)).Must(f, "Update()")
		}
		all, err := historian.History(f.ctx(), f.in, id)
		if err != nil || len(all) != 5 {
			f.Fatalf("History() = %+v, %v, want 5 versions", all, err)
		}
		for i, want := range []string{"Ada,O'Neil \"x\" \\ %_,Ada", "Eve", "Eve", "Bob", ""} {
			suite.Equal(f, strings.Join(all[i].Entities, ","), want, "the entities of version %d", i+1)
		}
		for _, name := range []string{"Ada", "Eve", "Bob"} {
			suite.Empty(f, f.search(memory.SearchParams{Query: name, Mode: memory.ModeGraph}), "Search(%q)", name)
		}
	}},
	{"invalid entities are rejected", func(f *longTermFixture) {
		many := make([]string, memory.MaxEntities+1)
		for i := range many {
			many[i] = fmt.Sprint(i)
		}
		for field, names := range map[string][]string{
			"entities": many, "entities[1]": {"a", ""}, "entities[0]": {" ?!"}, "entities[0] ": {"a\x00"}, "entities[0]  ": {"\xff"}, "entities[0]   ": {strings.Repeat("x", memory.MaxEntity+1)},
		} {
			f.mustReject("Save", field, suite.Err(f.s.Save(f.ctx(), f.in, "content", memory.SaveParams{Entities: names})))
		}
		f.save("content", memory.SaveParams{Entities: many[1:]})
		f.mustFind(memory.SearchParams{Query: "7", Mode: memory.ModeGraph}, "content")
	}},
}

func testNeighbors(f *longTermFixture) {
	link := func(text string, tag bool, names ...string) {
		f.save(text, memory.SaveParams{Entities: names, Metadata: map[string]any{"tag": tag}})
	}
	link("at 0", true, "Ada", "Engine")
	link("at 1", true, "Engine", "Babbage")
	link("at 2", true, "Babbage", "London")
	link("at 3", true, "London", "Paris")
	link("alone", true, "Grace")
	link("hidden", false, "Ada", "Mary")
	link("behind", true, "Mary")
	f.save("no entity Ada", memory.SaveParams{})
	for _, test := range []struct {
		p    memory.SearchParams
		want map[string]float64
	}{
		{memory.SearchParams{Query: "what did ada do?"}, map[string]float64{"at 0": 1, "hidden": 1, "at 1": 0.5, "behind": 0.5, "at 2": 1.0 / 3}},
		{memory.SearchParams{Query: "what did ada do?", Filter: filter.Eq("tag", true)}, map[string]float64{"at 0": 1, "at 1": 0.5, "at 2": 1.0 / 3}},
		{memory.SearchParams{Query: "Paris and Grace"}, map[string]float64{"at 3": 1, "alone": 1, "at 2": 0.5, "at 1": 1.0 / 3}},
		{memory.SearchParams{Query: "nobody"}, map[string]float64{}},
		{memory.SearchParams{Query: "?!"}, map[string]float64{}},
	} {
		test.p.Mode = memory.ModeGraph
		got := make(map[string]float64)
		for _, m := range f.search(test.p) {
			got[m.Content] = m.Scores.Graph
		}
		f.equal(fmt.Sprintf("Search(%q)", test.p.Query), got, test.want)
	}
	// In the default mode, a fact with a word and an entity of the query is before one with the word.
	f.save("Ada met him", memory.SaveParams{Entities: []string{"Ada"}})
	if found := f.search(memory.SearchParams{Query: "ada"}); len(found) != 7 || found[0].Content != "Ada met him" || found[0].Score != 1 {
		f.Errorf("Search() = %q, want the fact with both first", contents(found))
	}
}
