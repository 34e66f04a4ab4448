package postgres

import (
	"testing"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestLongTermRecall(t *testing.T) {
	t.Parallel()
	documents, err := memorytest.Documents()
	if err != nil {
		t.Fatalf("no source of the standard library: %v", err)
	}
	s := open(storetest.Wrap(t), freshConfig(storetest.Wrap(t), Config{}))
	clean, misspelt, err := memorytest.MeasureRecall(t.Context(), s.LongTerm(memory.LongTermConfig{}), documents, 25, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d documents: clean %v, misspelt %v", len(documents), clean, misspelt)
	if clean.At10 < 0.890 || misspelt.At10 < 0.578 {
		t.Errorf("recall of clean queries = %v, of misspelt ones %v, want at least 0.890 and 0.578", clean, misspelt)
	}
}

func TestLongTerm(t *testing.T) {
	t.Parallel()
	all, h := newSchemas(t, func(t storetest.T) Config { return freshConfig(t, Config{}) }), harness
	h.Open = func(t storetest.T) store.Store { return open(t, all.get(t)) }
	memorytest.RunLongTerm(t, memorytest.LongTermOf(h))
}

func TestLongTermRanksAsInMemory(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), freshConfig(storetest.Wrap(t), Config{}))
	memorytest.CompareLongTerm(storetest.Wrap(t),
		func(cfg memory.LongTermConfig) memory.LongTerm { return inmem.New().LongTerm(cfg) },
		func(cfg memory.LongTermConfig) memory.LongTerm { return s.LongTerm(cfg) })
}

func TestLongTermBehindAPooler(t *testing.T) {
	t.Parallel()
	all, h := newSchemas(t, func(t storetest.T) Config { return partitioned(t, Config{Pooler: true}) }), harness
	h.Open = func(t storetest.T) store.Store { return open(t, all.get(t)) }
	memorytest.RunLongTerm(t, memorytest.LongTermOf(h))
}
