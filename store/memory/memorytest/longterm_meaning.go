package memorytest

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/suite"
)

var allModes = []memory.Mode{memory.ModeLexical, memory.ModeSemantic, memory.ModeGraph, memory.ModeHybrid, ""}

var longTermMeaning = []longTermTest{
	{"facts are found by meaning", func(f *longTermFixture) {
		f.embed()
		f.save("Ravi likes espresso.", memory.SaveParams{})
		f.save("The invoice was paid.", memory.SaveParams{})
		f.save("Her parrot is green.", memory.SaveParams{})
		r := f.results(memory.SearchParams{Query: "which beverage?", Mode: memory.ModeSemantic})
		if len(r.Facts) != 3 || r.Facts[0].Content != "Ravi likes espresso." || r.Facts[0].Score != 1 || r.Facts[0].Scores.Semantic <= r.Facts[1].Scores.Semantic || r.Facts[0].Scores.Lexical != 0 {
			f.Errorf("Search() = %+v, want all facts, the one about a drink first, with score 1", r.Facts)
		}
		if diff := diffOf([]memory.Mode{memory.ModeSemantic}, r.Modes); diff != "" || r.Fallback != "" || r.Pending != 0 {
			f.Errorf("Search() = modes %v, fallback %q, pending %d", r.Modes, r.Fallback, r.Pending)
		}
		suite.Empty(f, contents(f.search(memory.SearchParams{Query: "beverage", Mode: memory.ModeLexical})), "Search() by words")
	}},
	{"the default mode is the best one", func(f *longTermFixture) {
		for _, embed := range []bool{false, true} {
			want := []memory.Mode{memory.ModeLexical, memory.ModeGraph}
			if embed {
				f.embed()
				want = []memory.Mode{memory.ModeLexical, memory.ModeSemantic, memory.ModeGraph}
			}
			f.save("black tea", memory.SaveParams{})
			f.save("a latte", memory.SaveParams{})
			if r := f.results(memory.SearchParams{Query: "tea"}); diffOf(want, r.Modes) != "" || len(r.Facts) < 1 || r.Facts[0].Content != "black tea" || (len(r.Facts) == 2) != embed {
				f.Errorf("Search() = %q by %v, want modes %v", contents(r.Facts), r.Modes, want)
			}
			if r := f.results(memory.SearchParams{}); len(r.Facts) != 2 || r.Modes != nil {
				f.Errorf("Search() without a query = %q by %v", contents(r.Facts), r.Modes)
			}
		}
	}},
	{"parts are fused by reciprocal rank", testFusion},
	{"conditions apply before ranks", testConditionsBeforeRanks},
	{"equal facts are ordered by time", func(f *longTermFixture) {
		f.embed()
		var want []string
		for range 5 {
			want = append([]string{f.save("the same tea", memory.SaveParams{Entities: []string{"tea"}})}, want...)
		}
		for _, mode := range allModes {
			var got []string
			for _, m := range f.search(memory.SearchParams{Query: "tea", Mode: mode}) {
				got = append(got, m.ID)
			}
			f.equal(fmt.Sprintf("Search() with mode %q", mode), got, want)
		}
	}},
	{"newer facts gain by recency", testRecency},
	{"the minimum score excludes facts of each mode", func(f *longTermFixture) {
		f.embed()
		for i := range 8 {
			f.save(fmt.Sprintf("tea %d%s", i, pad(i)), memory.SaveParams{Entities: []string{"tea"}})
		}
		all := suite.Len(f, f.search(memory.SearchParams{Query: "tea", Mode: memory.ModeSemantic}), 8, "Search()")
		suite.Equal(f, len(f.search(memory.SearchParams{Query: "tea", Mode: memory.ModeSemantic, MinScore: all[3].Score})), 4, "number of results of Search() with the score of the fourth fact")
	}},
}

// rankOf returns the rank of a score among others, 0 for the score 0.
func rankOf(score float64, all []float64) float64 {
	if score == 0 {
		return 0
	}
	rank := 1.0
	for _, s := range all {
		if s > score {
			rank++
		}
	}
	return rank
}

func testFusion(f *longTermFixture) {
	f.embed()
	for i, text := range []string{
		"coffee with milk", "a cup of tea", "tea and coffe", "the parrot drinks", "train journey with coffee", "price of coffee", "money", "a dog", "latte", "garden",
	} {
		f.save(text, memory.SaveParams{Entities: []string{fmt.Sprint("E", i), fmt.Sprint("E", i+1)}})
	}
	for _, p := range []memory.SearchParams{
		{Query: "coffee"},
		{Query: "E3 coffee and cake", Mode: memory.ModeHybrid},
		{Query: "cofee jurney", Mode: memory.ModeHybrid},
		{Query: "pets E7", Mode: memory.ModeSemantic},
		{Query: "E4 tea", Mode: memory.ModeGraph},
		{Query: "dogs", RecencyHalfLife: 4 * time.Second},
	} {
		p.Limit = 100
		found := f.search(p)
		parts := make([][]float64, 4)
		for _, m := range found {
			for i, s := range []float64{m.Scores.Lexical, m.Scores.Trigram, m.Scores.Semantic, m.Scores.Graph} {
				parts[i] = append(parts[i], s)
			}
		}
		parts = slices.DeleteFunc(parts, func(scores []float64) bool { return slices.Max(append(scores, 0)) == 0 })
		for i, m := range found {
			want := 0.0
			for _, scores := range parts {
				if rank := rankOf(scores[i], scores); rank > 0 {
					want += 61 / (60 + rank) / float64(len(parts))
				}
			}
			if p.RecencyHalfLife > 0 {
				want = (want + 0.2*m.Scores.Recency) / 1.2
			}
			if math.Abs(m.Score-want) > 1e-9 || m.Score <= 0 {
				f.Errorf("Search(%q) with mode %q: score of %q = %g, want %g by the ranks of %+v", p.Query, p.Mode, m.Content, m.Score, want, m.Scores)
			}
		}
		if len(found) < 2 || len(parts) == 0 {
			f.Errorf("Search(%q) with mode %q found %d facts by %d parts", p.Query, p.Mode, len(found), len(parts))
		}
	}
}

// testConditionsBeforeRanks saves few facts that match a condition and many better ones that do not.
func testConditionsBeforeRanks(f *longTermFixture) {
	f.embed()
	const better, selected = 150, 5
	start := f.clock.Now()
	save := func(text string, p memory.SaveParams) {
		p.Entities = []string{"tea"}
		suite.Call(f.s.Save(f.ctx(), f.in, text, p)).Must(f, "Save()")
	}
	inner := f.in
	for i := range better {
		switch i % 4 {
		case 0:
			save("tea", memory.SaveParams{TTL: time.Second})
		case 1:
			save("tea", memory.SaveParams{ValidTo: start.Add(time.Second)})
		case 2:
			save("tea", memory.SaveParams{Metadata: map[string]any{"other": true}})
		case 3:
			f.in.Namespace = "users/ravi/inner"
			save("tea", memory.SaveParams{})
			f.in = inner
		}
	}
	f.clock.Add(time.Minute)
	for i := range selected {
		save(fmt.Sprintf("tea or juice %d%s", i, pad(10)), memory.SaveParams{})
	}
	for _, mode := range allModes {
		for _, p := range []memory.SearchParams{
			{Filter: filter.Ne("other", true), Limit: selected},
			{Filter: filter.Ne("other", true), Limit: 1000},
		} {
			p.Query, p.Mode = "tea", mode
			suite.Equal(f, len(f.search(p)), selected, "number of results of Search() with mode %q and limit %d", mode, p.Limit)
		}
		// At the start, facts with an end were valid. Those with a TTL do not exist any more.
		p := memory.SearchParams{Query: "tea", Mode: mode, AsOf: start, Filter: filter.Ne("other", true), Limit: 1000}
		ended := 0
		for i := range better {
			if i%4 == 1 {
				ended++
			}
		}
		suite.Equal(f, len(f.search(p)), ended+selected, "number of results of Search() as of the start with mode %q", mode)
	}
}

func testRecency(f *longTermFixture) {
	old := f.save("tea", memory.SaveParams{})
	f.clock.Add(time.Hour - time.Second)
	f.save("tea in the new kitchen", memory.SaveParams{})
	f.clock.Add(-time.Second)
	if found := f.search(memory.SearchParams{Query: "tea"}); len(found) != 2 || found[0].ID != old || found[0].Scores.Recency != 0 {
		f.Errorf("Search() without half-life = %+v, want the shorter fact first", found)
	}
	found := f.search(memory.SearchParams{Query: "tea", RecencyHalfLife: time.Hour})
	if len(found) != 2 || found[0].ID == old || found[0].Scores.Recency != 1 || math.Abs(found[1].Scores.Recency-0.5) > 1e-9 {
		f.Errorf("Search() with a half-life = %+v, want the newer fact first, with recency 1, and the older with 0.5", found)
	}
}
