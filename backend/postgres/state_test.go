//go:build services

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
	memorytest.RunShortTerm(t, memorytest.ShortTermOverRecords(openingHarness()))
}

func TestBoards(t *testing.T) {
	t.Parallel()
	boardtest.Run(t, boardtest.OverRecords(openingHarness()))
}

// openingHarness returns the harness with stores in schemas that tests share.
func openingHarness() storetest.Harness {
	h := harness
	h.Open = func(t storetest.T) store.Store { return open(t, emptyConfig(t, Config{})) }
	return h
}
