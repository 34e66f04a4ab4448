//go:build services

package postgres

import (
	"context"
	"testing"

	"github.com/holdfast-dev/holdfast/backend/inmem"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestLongTerm(t *testing.T) {
	t.Parallel()
	h := harness
	h.Open = func(t storetest.T) store.Store { return open(t, emptyConfig(t, Config{})) }
	memorytest.RunLongTerm(t, memorytest.LongTermOf(h))
}

// twoReplicas searches in two stores in turn, and changes facts in the first one.
type twoReplicas struct {
	memory.LongTermStore
	second   memory.LongTerm
	searches int
}

func (r *twoReplicas) Search(ctx context.Context, in memory.Scope, p memory.SearchParams) (memory.Results, error) {
	if r.searches++; r.searches%2 == 0 {
		return r.second.Search(ctx, in, p)
	}
	return r.LongTermStore.Search(ctx, in, p)
}

// Searches find the same facts as in memory, so inmem.TestLongTermRecall measures their recall too.
func TestLongTermOfReplicasRanksAsInMemory(t *testing.T) {
	t.Parallel()
	cfg := emptyConfig(storetest.Wrap(t), Config{})
	first, second := open(storetest.Wrap(t), cfg), open(storetest.Wrap(t), cfg)
	memorytest.CompareLongTerm(storetest.Wrap(t),
		func(cfg memory.LongTermConfig) memory.LongTerm { return memorysql.Of(inmem.New(), cfg) },
		func(cfg memory.LongTermConfig) memory.LongTerm {
			return &twoReplicas{LongTermStore: memorysql.Of(first, cfg), second: memorysql.Of(second, cfg)}
		})
}

func TestLongTermBehindAPooler(t *testing.T) {
	t.Parallel()
	h := harness
	h.Open = func(t storetest.T) store.Store { return open(t, partitioned(t, Config{Pooler: true})) }
	memorytest.RunLongTerm(t, memorytest.LongTermOf(h))
}
