package sqlite

import (
	"testing"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestLongTermRecall(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), Config{Dir: t.TempDir()})
	memorytest.CheckRecall(storetest.Wrap(t), s.LongTerm(memory.LongTermConfig{}), 50)
}

// BenchmarkSearchSpeed searches 200,000 facts in 1,000 scopes.
func BenchmarkSearchSpeed(b *testing.B) {
	l := open(b, Config{Dir: b.TempDir(), Synchronous: "NORMAL"}).LongTerm(memory.LongTermConfig{})
	memorytest.BenchLongTerm(b, l, 1000, processorTime)
}

// BenchmarkSearchModes searches a scope with 10,000 facts.
func BenchmarkSearchModes(b *testing.B) {
	s := open(b, Config{Dir: b.TempDir(), Synchronous: "NORMAL"})
	memorytest.BenchModes(b, func(cfg memory.LongTermConfig) memory.LongTerm { return s.LongTerm(cfg) }, 10_000, processorTime)
}

func TestLongTerm(t *testing.T) {
	t.Parallel()
	memorytest.RunLongTerm(t, memorytest.LongTermOf(harness))
}

func TestLongTermRanksAsInMemory(t *testing.T) {
	t.Parallel()
	for name, indexMemory := range map[string]int64{"with embeddings in memory": 0, "without": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, Config{Dir: t.TempDir(), IndexMemory: indexMemory})
			memorytest.CompareLongTerm(storetest.Wrap(t),
				func(cfg memory.LongTermConfig) memory.LongTerm { return inmem.New().LongTerm(cfg) },
				func(cfg memory.LongTermConfig) memory.LongTerm { return s.LongTerm(cfg) })
		})
	}
}
