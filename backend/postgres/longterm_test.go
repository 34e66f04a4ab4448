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
	s := open(storetest.Wrap(t), freshConfig(storetest.Wrap(t), Config{}))
	memorytest.TestRecall(storetest.Wrap(t), s.LongTerm(memory.LongTermConfig{}), 25)
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
