package inmem

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

// The figures are those of BM25 with a trigram arm in the reference measurements.
func TestLongTermRecall(t *testing.T) {
	t.Parallel()
	memorytest.TestRecall(storetest.Wrap(t), New().LongTerm(memory.LongTermConfig{}), 50)
}

func TestLongTerm(t *testing.T) {
	t.Parallel()
	memorytest.RunLongTerm(t, memorytest.LongTermOf(storetest.Harness{Open: func(storetest.T) store.Store { return New() }}))
}
