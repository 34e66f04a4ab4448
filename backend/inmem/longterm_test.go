package inmem

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestLongTermRecall(t *testing.T) {
	t.Parallel()
	memorytest.CheckRecall(storetest.Wrap(t), New().LongTerm(memory.LongTermConfig{}), 50)
}

func TestLongTerm(t *testing.T) {
	t.Parallel()
	memorytest.RunLongTerm(t, memorytest.LongTermOf(storetest.Harness{Open: func(storetest.T) store.Store { return New() }}))
}
