package memorytest

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorydriver"
	"github.com/holdfast-dev/holdfast/store/suite"
)

// FactsPerScope is the number of facts that BenchLongTerm saves in each scope.
const FactsPerScope = 200

// benchSearches is the number of searches of one iteration.
const benchSearches = 100

// BenchLongTerm measures searches of scopes with 200 facts each, of 20 words from the
// documentation of the Go standard library. It reports the median and the 95th percentile of the
// time of a search, and, if processorTime is not nil, the mean of its processor time, which does
// not depend on the load of the machine.
func BenchLongTerm(b *testing.B, s memory.LongTerm, scopes int, processorTime func() time.Duration) {
	documents, err := Documents(b.Context())
	if err != nil {
		b.Skipf("no source of the standard library: %v", err)
	}
	words := strings.Fields(strings.Join(documents, " "))
	random := rand.New(rand.NewPCG(1, 2))
	texts := make([]string, scopes*FactsPerScope)
	for i := range texts {
		start := random.IntN(len(words) - 20)
		texts[i] = strings.Join(words[start:start+20], " ")
	}
	scope := func(i int) memory.Scope {
		return memory.Scope{Owner: fmt.Sprintf("owner-%d", i%scopes%10), Namespace: fmt.Sprintf("users/%d", i%scopes), Agent: "agent"}
	}
	start := time.Now()
	suite.Call(saveAll(b.Context(), s, texts, scope)).Must(b, "Save()")
	b.Logf("%d facts, %.0f saves/s", len(texts), float64(len(texts))/time.Since(start).Seconds())
	for _, kind := range []struct {
		name  string
		query func(text string) string
	}{
		{"clean", func(text string) string { return strings.Join(strings.Fields(text)[7:12], " ") }},
		{"common", func(string) string { return "the returns of a value" }},
		{"misspelt", func(text string) string {
			words := strings.Fields(text)[7:12]
			for w := range words {
				letters := []rune(words[w])
				words[w] = string(slices.Insert(letters, len(letters)/2, 'q'))
			}
			return strings.Join(words, " ")
		}},
		{"recent", func(string) string { return "" }},
	} {
		b.Run(kind.name, func(b *testing.B) {
			var times []time.Duration
			var before time.Duration
			if processorTime != nil {
				before = processorTime()
			}
			for b.Loop() {
				for range benchSearches {
					i := random.IntN(len(texts))
					query, start := kind.query(texts[i]), time.Now()
					suite.Call(s.Search(b.Context(), scope(i), memory.SearchParams{Query: query})).Must(b, "Search(%q)", query)
					times = append(times, time.Since(start))
				}
			}
			b.ReportMetric(0, "ns/op") // of benchSearches searches
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(times[len(times)*95/100].Microseconds()), "p95-us")
			if processorTime != nil {
				b.ReportMetric(float64((processorTime()-before).Microseconds())/float64(len(times)), "cpu-us/op")
			}
		})
	}
}

// saveAll saves texts from several goroutines, as concurrent agents do, and returns their ids.
func saveAll(ctx context.Context, s memory.LongTerm, texts []string, scope func(i int) memory.Scope) ([]string, error) {
	const writers = 32
	ids, errs := make([]string, len(texts)), make([]error, writers)
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := w; i < len(texts) && errs[w] == nil; i += writers {
				ids[i], errs[w] = s.Save(ctx, scope(i), texts[i], memory.SaveParams{})
			}
		})
	}
	group.Wait()
	return ids, errors.Join(errs...)
}

// noise is an embedder of random embeddings with 384 components, which depend on the text.
type noise struct{}

func (noise) Name() string { return "noise" }

func (noise) Embed(_ context.Context, texts []string) ([][]float32, error) {
	all := make([][]float32, len(texts))
	for i, text := range texts {
		h := fnv.New64a()
		_, _ = h.Write([]byte(text))
		random := rand.New(rand.NewPCG(h.Sum64(), 3))
		all[i] = make([]float32, 384)
		for c := range all[i] {
			all[i][c] = float32(random.NormFloat64())
		}
	}
	return all, nil
}

// BenchModes measures searches of one scope in each mode. It reports the median of the time of a search
// and, if processorTime is not nil, the mean of its processor time. The embeddings are random, with 384
// components. The reference, "compare", computes the cosines of all embeddings in memory.
func BenchModes(b *testing.B, open func(cfg memory.LongTermConfig) memory.LongTerm, facts int, processorTime func() time.Duration) {
	documents, err := Documents(b.Context())
	if err != nil {
		b.Skipf("no source of the standard library: %v", err)
	}
	words := strings.Fields(strings.Join(documents, " "))
	random := rand.New(rand.NewPCG(1, 2))
	s, scope := open(memory.LongTermConfig{Embedder: noise{}}), memory.Scope{Owner: "owner", Agent: "agent"}
	texts := make([]string, facts)
	for i := range texts {
		start := random.IntN(len(words) - 20)
		texts[i] = strings.Join(words[start:start+20], " ")
	}
	suite.Call(saveAll(b.Context(), s, texts, func(int) memory.Scope { return scope })).Must(b, "Save()")
	embeddings, _ := noise{}.Embed(b.Context(), texts)
	for _, mode := range []memory.Mode{"compare", memory.ModeLexical, memory.ModeSemantic, memory.ModeGraph, memory.ModeHybrid} {
		search := func(query string) {
			suite.Call(s.Search(b.Context(), scope, memory.SearchParams{Query: query, Mode: mode})).Must(b, "Search(%q)", query)
		}
		if mode == "compare" {
			search = func(string) {
				for _, e := range embeddings {
					memorydriver.Embedding{Vector: embeddings[0]}.Cosine(e)
				}
			}
		}
		b.Run(string(mode), func(b *testing.B) {
			search("warm up")
			var times []time.Duration
			var before time.Duration
			if processorTime != nil {
				before = processorTime()
			}
			for b.Loop() {
				query, start := strings.Join(strings.Fields(texts[random.IntN(facts)])[7:12], " "), time.Now()
				search(query)
				times = append(times, time.Since(start))
			}
			if processorTime != nil {
				b.ReportMetric(float64((processorTime()-before).Microseconds())/float64(len(times)), "cpu-us/op")
			}
			b.ReportMetric(0, "ns/op")
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-us")
		})
	}
}
