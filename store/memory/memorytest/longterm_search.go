package memorytest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var longTermSearch = []longTermTest{
	{"facts are found by any of their words", func(f *longTermFixture) {
		f.save("Ravi prefers Python for scripts.", memory.SaveParams{})
		f.save("The cat sleeps.", memory.SaveParams{})
		f.mustFind(memory.SearchParams{Query: "python"}, "Ravi prefers Python for scripts.")
		f.mustFind(memory.SearchParams{Query: "which SCRIPT does he prefer?"}, "Ravi prefers Python for scripts.")
		f.mustFind(memory.SearchParams{Query: "sleeping cats"}, "The cat sleeps.")
		f.mustFind(memory.SearchParams{Query: "?!"})
	}},
	{"facts with more and rarer words of the query are first", func(f *longTermFixture) {
		f.save("tea", memory.SaveParams{})
		f.save("tea and coffee", memory.SaveParams{})
		f.save("tea and milk", memory.SaveParams{})
		f.save("water and coffee", memory.SaveParams{})
		f.save("water and milk", memory.SaveParams{})
		f.save("water and juice", memory.SaveParams{})
		if found := f.search(memory.SearchParams{Query: "tea coffee"}); len(found) != 4 || found[0].Content != "tea and coffee" {
			f.Errorf("Search() = %q, want the fact with both words first", contents(found))
		}
		if found := f.search(memory.SearchParams{Query: "water juice"}); len(found) != 3 || found[0].Content != "water and juice" {
			f.Errorf("Search() = %q, want the fact with both words first", contents(found))
		}
	}},
	{"misspelt words are found", func(f *longTermFixture) {
		f.save("The subscription renews in October.", memory.SaveParams{})
		f.save("The invoice was paid.", memory.SaveParams{})
		for _, query := range []string{"subskription", "subscripion", "octobr", "subcription"} {
			f.mustFind(memory.SearchParams{Query: query}, "The subscription renews in October.")
		}
		f.mustFind(memory.SearchParams{Query: "zzzzz"})
	}},
	{"an exact word excludes no similar one", func(f *longTermFixture) {
		f.save("gardening", memory.SaveParams{})
		f.save("invoice", memory.SaveParams{})
		f.mustFind(memory.SearchParams{Query: "garden invoise"}, "invoice", "gardening")
	}},
	{"scores are explained", testExplainedScores},
	{"an empty query returns the newest facts", testEmptyQuery},
	{"of equal scores, the fact saved last is first", testEqualScores},
	{"limits have a default", testLimits},
	{"the minimum score excludes facts", func(f *longTermFixture) {
		for i := range 8 {
			f.save(fmt.Sprintf("tea %d%s", i, pad(i)), memory.SaveParams{})
		}
		all := suite.Len(f, f.search(memory.SearchParams{Query: "tea"}), 8, "Search()")
		suite.Equal(f, len(f.search(memory.SearchParams{Query: "tea", MinScore: all[3].Score})), 4, "number of results of Search() with the score of the fourth fact")
	}},
	{"facts without spaces between words are found", func(f *longTermFixture) {
		f.save("東京は日本の首都です", memory.SaveParams{})
		f.save("大阪は西にあります", memory.SaveParams{})
		f.mustFind(memory.SearchParams{Query: "首都"}, "東京は日本の首都です")
	}},
	{"accents are ignored", func(f *longTermFixture) {
		f.save("Le café est fermé.", memory.SaveParams{})
		f.mustFind(memory.SearchParams{Query: "CAFE"}, "Le café est fermé.")
	}},
	{"modes that need an embedder name the setting", func(f *longTermFixture) {
		for _, mode := range []memory.Mode{memory.ModeSemantic, memory.ModeHybrid} {
			for _, query := range []string{"x", ""} {
				_, err := f.s.Search(f.ctx(), f.in, memory.SearchParams{Query: query, Mode: mode})
				if !errors.Is(err, memory.ErrNoEmbedder) || a2a.CodeOf(err) != a2a.CodeUnsupported || !strings.Contains(err.Error(), "EMBEDDING_URL") {
					f.Errorf("Search() with mode %s = %v, want ErrNoEmbedder", mode, err)
				}
			}
		}
	}},
}

// pad returns n words.
func pad(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf(" pad%d", i)
	}
	return text
}

func testExplainedScores(f *longTermFixture) {
	f.save("black tea", memory.SaveParams{})
	f.save("green coffee", memory.SaveParams{})
	f.save("water", memory.SaveParams{})
	found := f.search(memory.SearchParams{Query: "black tea"})
	if len(found) != 1 || found[0].Score != 1 || found[0].Scores.Lexical <= 0.5 || found[0].Scores.Trigram != 0 {
		f.Errorf("Search() of known words = %+v, want score 1 from the lexical part alone", found)
	}
	found = f.search(memory.SearchParams{Query: "coffe"})
	if len(found) != 1 || found[0].Score != 1 || found[0].Scores.Lexical != 0 || found[0].Scores.Trigram <= 0.3 {
		f.Errorf("Search() of an unknown word = %+v, want score 1 from the trigram part alone", found)
	}
	found = f.search(memory.SearchParams{Query: "gren tea"})
	if len(found) != 2 || found[0].Score >= 1 || found[0].Score != found[1].Score || found[0].Content != "green coffee" {
		f.Errorf("Search() of a known and an unknown word = %+v, want one fact of each part with the same score", found)
	}
}

func testEmptyQuery(f *longTermFixture) {
	var want []string
	for i := range 25 {
		text := fmt.Sprintf("fact %d", i)
		f.save(text, memory.SaveParams{})
		want = append([]string{text}, want...)
	}
	f.mustFind(memory.SearchParams{Limit: 25}, want...)
	f.mustFind(memory.SearchParams{Query: " \n"}, want[:memory.DefaultLimit]...)
	f.mustFind(memory.SearchParams{Limit: 3, Query: ""}, want[:3]...)
}

func testEqualScores(f *longTermFixture) {
	var want []string
	for i := range 12 {
		id := suite.Call(f.s.Save(f.ctx(), f.in, "the same text", memory.SaveParams{})).Must(f, "Save()")
		want = append([]string{id}, want...)
		if i%3 == 2 {
			f.clock.Add(time.Millisecond)
		}
	}
	for _, query := range []string{"", "same text", "samme"} {
		var got []string
		for _, m := range f.search(memory.SearchParams{Query: query, Limit: 20}) {
			got = append(got, m.ID)
		}
		if !slices.Equal(got, want) {
			f.Errorf("Search(%q) found %q, want the facts saved last first: %q", query, got, want)
		}
	}
}

func testLimits(f *longTermFixture) {
	for i := range 15 {
		f.save(fmt.Sprintf("limit fact%d", i), memory.SaveParams{})
	}
	for limit, want := range map[int]int{-1: memory.DefaultLimit, 0: memory.DefaultLimit, 1: 1, 14: 14, 15: 15, memory.MaxLimit + 1: 15} {
		for _, query := range []string{"", "limit", "limmit"} {
			suite.Equal(f, len(f.search(memory.SearchParams{Query: query, Limit: limit})), want, "number of results of Search(%q) with limit %d", query, limit)
		}
	}
}

var longTermFilters = []longTermTest{
	{"a filter selects facts by metadata", testFilterExamples},
	{"a selective filter loses no facts", testSelectiveFilter},
	{"random filters select the same facts as the reference", testRandomFilters},
	{"an invalid filter is rejected", func(f *longTermFixture) {
		deep := filter.Eq("a", 1)
		for range 1000 {
			deep = filter.Not(deep)
		}
		for _, x := range []filter.Filter{deep, {Op: "like", Path: "a"}, filter.Eq("", 1), filter.Eq("a", []any{}), filter.Gt("a", true), filter.StartsWith("a..b", "x")} {
			f.mustReject("Search", "filter", suite.Err(f.s.Search(f.ctx(), f.in, memory.SearchParams{Filter: x})))
		}
	}},
}

func testFilterExamples(f *longTermFixture) {
	f.save("first note", memory.SaveParams{Metadata: map[string]any{"kind": "note", "n": 1, "user": map[string]any{"name": "Ravi"}, "tags": []any{"a", "b"}}})
	f.save("second note", memory.SaveParams{Metadata: map[string]any{"kind": "note", "n": 2, "user": map[string]any{"name": "Rosa"}}})
	f.save("a plain note", memory.SaveParams{})
	for _, test := range []struct {
		filter filter.Filter
		want   []string
	}{
		{filter.Map(map[string]any{"kind": "note", "n": 1.0}), []string{"first note"}},
		{filter.Ne("kind", "note"), []string{"a plain note"}},
		{filter.StartsWith("user.name", "R"), []string{"second note", "first note"}},
		{filter.Contains("tags", "b"), []string{"first note"}},
		{filter.Gt("n", 1), []string{"second note"}},
		{filter.Not(filter.Exists("user.name")), []string{"a plain note"}},
		{filter.Eq("kind", "note' OR '1'='1"), nil},
		{filter.Eq("n", "1"), nil},
	} {
		f.mustFind(memory.SearchParams{Filter: test.filter}, test.want...)
		if found := f.search(memory.SearchParams{Filter: test.filter, Query: "note"}); len(found) != len(test.want) {
			f.Errorf("Search() with filter %+v = %q, want %q", test.filter, contents(found), test.want)
		}
	}
}

func testSelectiveFilter(f *longTermFixture) {
	const facts, selected = 700, 9
	for i := range facts {
		// The selected facts are the oldest, and the longest.
		text, metadata := "tea", map[string]any(nil)
		if i < selected {
			text, metadata = "tea"+pad(50), map[string]any{"rare": true}
		}
		suite.Call(f.s.Save(f.ctx(), f.in, text, memory.SaveParams{Metadata: metadata})).Must(f, "Save()")
		f.clock.Add(time.Second)
	}
	for _, query := range []string{"", "tea", "teaa"} {
		suite.Equal(f, len(f.search(memory.SearchParams{Query: query, Filter: filter.Eq("rare", true), Limit: 50})), selected, "number of results of Search(%q)", query)
		suite.Equal(f, len(f.search(memory.SearchParams{Query: query, Limit: facts})), facts, "number of results of Search(%q) without filter", query)
	}
}

// randomValue returns a scalar of a small set, so that values are often equal.
func randomValue(random *rand.Rand) any {
	return []any{nil, true, false, "a", "ab", "b", "ä", "", "1", 0, 1, 1.5, -2, 1e300, int64(1) << 60}[random.IntN(15)]
}

func randomMetadata(random *rand.Rand, depth int) map[string]any {
	m := make(map[string]any)
	for _, name := range []string{"a", "b", "c.d", `e\f`} {
		switch n := random.IntN(6); {
		case n == 0 && depth > 0:
			m[name] = randomMetadata(random, depth-1)
		case n == 1:
			m[name] = []any{randomValue(random), randomValue(random)}
		case n < 5:
			m[name] = randomValue(random)
		}
	}
	return m
}

func randomFilter(random *rand.Rand, depth int) filter.Filter {
	paths := []string{"a", "b", `c\.d`, `e\\f`, "a.a", "a.b", "b.a.b", "missing", "c.d"}
	path, value := paths[random.IntN(len(paths))], randomValue(random)
	number := []any{0, 1, 1.5, -2, "a", "ab", "ä"}[random.IntN(7)]
	n := random.IntN(14)
	if depth == 0 {
		n = random.IntN(11)
	}
	switch n {
	case 0:
		return filter.Eq(path, value)
	case 1:
		return filter.Ne(path, value)
	case 2:
		return filter.Gt(path, number)
	case 3:
		return filter.Gte(path, number)
	case 4:
		return filter.Lt(path, number)
	case 5:
		return filter.Lte(path, number)
	case 6:
		return filter.In(path, value, randomValue(random))
	case 7:
		return filter.NotIn(path, value, randomValue(random))
	case 8:
		return filter.Exists(path)
	case 9:
		return filter.Contains(path, value)
	case 10:
		return filter.StartsWith(path, []string{"", "a", "ä"}[random.IntN(3)])
	case 11:
		return filter.Not(randomFilter(random, depth-1))
	case 12:
		return filter.And(randomFilter(random, depth-1), randomFilter(random, depth-1))
	}
	return filter.Or(randomFilter(random, depth-1), randomFilter(random, depth-1))
}

func testRandomFilters(f *longTermFixture) {
	seed := testseed.Of(f)
	random := rand.New(rand.NewPCG(seed, 0))
	const facts = 60
	all := make(map[string]map[string]any)
	for range facts {
		m := randomMetadata(random, 2)
		all[f.save("tea", memory.SaveParams{Metadata: m})] = m
	}
	for i := range 150 {
		x := randomFilter(random, 3)
		query := []string{"", "tea"}[i%2]
		got := make(map[string]bool)
		for _, m := range f.search(memory.SearchParams{Query: query, Filter: x, Limit: facts}) {
			got[m.ID] = true
		}
		for id, metadata := range all {
			if want := x.Match(metadata); want != got[id] {
				f.Fatalf("seed %d: filter %+v on %v: found %t, want %t", seed, x, metadata, got[id], want)
			}
		}
	}
}
