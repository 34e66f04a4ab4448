package sqlite

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store/board/boardtest"
	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
)

func TestShortTerm(t *testing.T) {
	t.Parallel()
	memorytest.RunShortTerm(t, memorytest.ShortTermOverRecords(harness))
}

func TestBoards(t *testing.T) {
	t.Parallel()
	boardtest.Run(t, boardtest.OverRecords(harness))
}
