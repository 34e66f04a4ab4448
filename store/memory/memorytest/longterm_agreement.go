package memorytest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/internal/testseed"
	"github.com/holdfast-dev/holdfast/store/filter"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// CompareLongTerm tests that two stores rank facts alike: random searches return the same contents
// with the same scores, between changes of facts. The stores of Holdfast rank alike; other stores need
// not.
func CompareLongTerm(t storetest.T, open ...func(cfg memory.LongTermConfig) memory.LongTerm) {
	t.Helper()
	seed := testseed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	clock := suite.NewClock(longTermStart)
	var stores [2]memory.LongTerm
	for i := range stores {
		stores[i] = open[i](memory.LongTermConfig{Now: clock.Now, Embedder: new(model)})
	}
	in := memory.Scope{Owner: "ada", Agent: "agent"}
	vocabulary := strings.Fields("garden gardens gardening tea teas coffee cofee kettle battle cattle river driver drive 東京 über uber running runner ran plan planned plane planet")
	text := func(n int) string {
		words := make([]string, n)
		for i := range words {
			words[i] = vocabulary[int(float64(len(vocabulary))*random.Float64()*random.Float64())]
		}
		return strings.Join(words, " ")
	}
	var ids [][2]string // of the same fact in both stores
	for i := range 90 { // fewer than the candidates of a search, because stores may choose different ones
		content, p := fmt.Sprintf("%s n%d", text(1+random.IntN(12)), i), memory.SaveParams{Metadata: map[string]any{"n": i}}
		for range random.IntN(3) {
			p.Entities = append(p.Entities, text(1+random.IntN(2)))
		}
		if random.IntN(10) == 0 {
			p.TTL = 20 * time.Second
		}
		var saved [2]string
		for i, s := range stores {
			saved[i] = suite.Call(s.Save(t.Context(), in, content, p)).Must(t, "Save()")
		}
		ids = append(ids, saved)
		clock.Add(time.Second)
	}
	for n := range 100 {
		if random.IntN(3) == 0 {
			at, content := random.IntN(len(ids)), fmt.Sprintf("%s n%d", text(1+random.IntN(12)), 90+n)
			remove := random.IntN(2) == 0
			for i, s := range stores {
				suite.Do(changeFact(t.Context(), s, in, ids[at][i], content, remove)).Must(t, "change of a fact")
			}
			if clock.Add(time.Second); remove {
				ids = slices.Delete(ids, at, at+1)
			}
		}
		p := memory.SearchParams{Query: text(1 + random.IntN(4)), Limit: 1 + random.IntN(50)}
		if random.IntN(2) == 0 {
			p.Query = misspell(random, p.Query)
		}
		if random.IntN(4) == 0 {
			p.Filter = filter.Gte("n", random.IntN(90))
		}
		p.Mode = []memory.Mode{"", memory.ModeLexical, memory.ModeSemantic, memory.ModeGraph, memory.ModeHybrid}[random.IntN(5)]
		if random.IntN(4) == 0 {
			p.RecencyHalfLife = time.Minute
		}
		var lists [2][]string
		for i, s := range stores {
			found := suite.Call(s.Search(t.Context(), in, p)).Must(t, "Search(%q)", p.Query)
			for _, m := range found.Facts {
				lists[i] = append(lists[i], fmt.Sprintf("%s %.9f %.9f", m.Content, m.Score, m.Scores))
			}
		}
		if diff := diffOf(lists[0], lists[1]); diff != "" {
			t.Fatalf("seed %d: Search(%+v) (-first +second):\n%s", seed, p, diff)
		}
	}
}

// changeFact deletes a fact or replaces its content. A fact that has expired is not changed.
func changeFact(ctx context.Context, s memory.LongTerm, in memory.Scope, id, content string, remove bool) error {
	if remove {
		_, err := s.Delete(ctx, in, id)
		return err
	}
	_, err := s.(memory.Editor).Update(ctx, in, id, memory.UpdateParams{Content: content})
	if errors.Is(err, memory.ErrFactNotFound) {
		return nil
	}
	return err
}
