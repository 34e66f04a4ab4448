package memorytest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/memory"
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
	documents, err := Documents()
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
	saveAll(b, s, texts, scope)
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
					if _, err := s.Search(b.Context(), scope(i), memory.SearchParams{Query: query}); err != nil {
						b.Fatalf("Search(%q) = %v", query, err)
					}
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

// saveAll saves texts from several goroutines, as concurrent agents do.
func saveAll(b *testing.B, s memory.LongTerm, texts []string, scope func(i int) memory.Scope) {
	const writers = 32
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := w; i < len(texts); i += writers {
				if _, err := s.Save(b.Context(), scope(i), texts[i], memory.SaveParams{}); err != nil {
					b.Errorf("Save() = %v", err)
				}
			}
		})
	}
	group.Wait()
}
