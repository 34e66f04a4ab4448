package sqlite

import (
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// BenchmarkSearchSpeed searches 200,000 facts in 1,000 scopes.
func BenchmarkSearchSpeed(b *testing.B) {
	l := memorysql.Of(open(b, Config{Dir: b.TempDir(), Synchronous: "NORMAL"}), memory.LongTermConfig{})
	memorytest.BenchLongTerm(b, l, 1000, processorTime)
}

// BenchmarkSearchModes searches a scope with 10,000 facts.
func BenchmarkSearchModes(b *testing.B) {
	s := open(b, Config{Dir: b.TempDir(), Synchronous: "NORMAL"})
	memorytest.BenchModes(b, func(cfg memory.LongTermConfig) memory.LongTerm { return memorysql.Of(s, cfg) }, 10_000, processorTime)
}

func TestLongTerm(t *testing.T) {
	t.Parallel()
	memorytest.RunLongTerm(t, memorytest.LongTermOf(harness))
}

func TestLongTermRanksByTheIndexAsByTheWholeScope(t *testing.T) {
	t.Parallel()
	for name, indexMemory := range map[string]int64{"index": 0, "index, no embeddings in memory": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, Config{Dir: t.TempDir(), IndexMemory: indexMemory})
			memorytest.CompareLongTerm(storetest.Wrap(t),
				func(cfg memory.LongTermConfig) memory.LongTerm { return memorysql.Of(NewMemory(), cfg) },
				func(cfg memory.LongTermConfig) memory.LongTerm {
					l := memorysql.Of(s, cfg).(*memorysql.LongTerm)
					l.IndexOnly = true
					return l
				})
		})
	}
}

// A scope with few words is not small if they are long.
func TestSearchBesideLongWords(t *testing.T) {
	t.Parallel()
	l := memorysql.Of(open(t, Config{Dir: t.TempDir()}), memory.LongTermConfig{})
	scope := memory.Scope{Owner: "o", Agent: "a"}
	texts := []string{"reset the pump"}
	for i := range 10 {
		texts = append(texts, strings.Repeat("x", 30<<10)+strings.Repeat("y", i))
	}
	for _, text := range texts {
		if _, err := l.Save(t.Context(), scope, text, memory.SaveParams{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, query := range []string{"pump", "pumq"} {
		r, err := l.Search(t.Context(), scope, memory.SearchParams{Query: query})
		if err != nil || len(r.Facts) != 1 || r.Facts[0].Content != "reset the pump" {
			t.Errorf("Search(%q) = %d facts, %v, want the one about the pump", query, len(r.Facts), err)
		}
	}
}
