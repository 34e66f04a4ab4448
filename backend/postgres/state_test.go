package postgres

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/board/boardtest"
	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
)

func TestShortTerm(t *testing.T) {
	t.Parallel()
	memorytest.RunShortTerm(t, memorytest.ShortTermOverRecords(openingHarness(t)))
}

func TestBoards(t *testing.T) {
	t.Parallel()
	boardtest.Run(t, boardtest.OverRecords(openingHarness(t)))
}

// openingHarness returns the harness with stores in a pool of schemas.
func openingHarness(t *testing.T) storetest.Harness {
	t.Helper()
	all := newSchemas(t, func(t storetest.T) Config { return freshConfig(t, Config{}) })
	h := harness
	h.Open = func(t storetest.T) store.Store { return open(t, all.get(t)) }
	return h
}
