package vectortest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
	"github.com/holdfast-dev/holdfast/store/suite"
	"github.com/holdfast-dev/holdfast/store/vector"
)

// BenchWords measures searches by words in collections of 100, 1,000 and more documents, up to a number, beside a
// loop over their texts in memory, which counts the words that each contains. A document has 40 words from
// the documentation of the Go standard library. processorTime, which may be nil, returns the processor time of the
// process: it does not depend on the load of the machine.
func BenchWords(b *testing.B, s vector.Store, most int, processorTime func() time.Duration) {
	source, err := memorytest.Documents(b.Context())
	if err != nil {
		b.Skipf("no source of the standard library: %v", err)
	}
	unit := "cpu-us/"
	if processorTime == nil {
		unit = "us/"
		start := time.Now()
		processorTime = func() time.Duration { return time.Since(start) }
	}
	words := strings.Fields(strings.Join(source, " "))
	for size := 100; size <= most; size *= 10 {
		random := rand.New(rand.NewPCG(1, 2))
		k := vector.Key{Owner: "owner", Collection: fmt.Sprint(size)}
		all := make([]vector.Document, size)
		for i := range all {
			start := random.IntN(len(words) - 40)
			all[i] = vector.Document{ID: fmt.Sprintf("%06d", i), Text: strings.Join(words[start:start+40], " ")}
		}
		start := processorTime()
		for part := range slices.Chunk(all, 1000) {
			suite.Call(s.Upsert(b.Context(), k, vector.WriteParams{Documents: part})).Must(b, "Upsert()")
		}
		b.Logf("%d documents, %.0f writes/s", size, float64(size)/(processorTime()-start).Seconds())
		for _, kind := range []string{"clean", "common", "misspelt"} {
			query := func() string { return wordQuery(random, all, kind) }
			b.Run(fmt.Sprintf("%d/%s", size, kind), func(b *testing.B) {
				start := processorTime()
				for b.Loop() {
					found, err := s.Search(b.Context(), k, vector.SearchParams{Queries: []vector.Query{{Text: query()}}, Limit: 10})
					if err != nil || len(found[0].Hits) == 0 && kind != "misspelt" {
						b.Fatalf("Search() = %+v, %v", found, err)
					}
				}
				b.ReportMetric((processorTime()-start).Seconds()*1e6/float64(b.N), unit+"search")
				start = processorTime()
				const loops = 5
				for range loops {
					countWords(all, strings.Fields(query()))
				}
				b.ReportMetric((processorTime()-start).Seconds()*1e6/loops, unit+"loop")
			})
		}
	}
}

// wordQuery returns a query of a kind for a random document.
func wordQuery(random *rand.Rand, all []vector.Document, kind string) string {
	words := strings.Fields(all[random.IntN(len(all))].Text)[7:12]
	switch kind {
	case "common":
		return "the returns of a value"
	case "misspelt":
		for i, w := range words {
			letters := []rune(w)
			words[i] = string(slices.Insert(letters, len(letters)/2, 'q'))
		}
	}
	return strings.Join(words, " ")
}

// countWords returns the ten documents that contain the most of the words.
func countWords(all []vector.Document, words []string) []string {
	type counted struct {
		id    string
		words int
	}
	found := make([]counted, len(all))
	for i, d := range all {
		found[i].id = d.ID
		for _, w := range words {
			if strings.Contains(d.Text, w) {
				found[i].words++
			}
		}
	}
	slices.SortFunc(found, func(a, b counted) int { return cmp.Or(cmp.Compare(b.words, a.words), strings.Compare(a.id, b.id)) })
	ids := make([]string, min(10, len(found)))
	for i := range ids {
		ids[i] = found[i].id
	}
	return ids
}
