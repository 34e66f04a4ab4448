//go:build long

package sqlite

import (
	"testing"

	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
	"github.com/holdfast-dev/holdfast/store/memory/memorytest"
	"github.com/holdfast-dev/holdfast/store/storetest"
	"github.com/holdfast-dev/holdfast/store/vector"
	"github.com/holdfast-dev/holdfast/store/vector/vectortest"
)

// The quality of ranking is a property of package recall, which all backends share. So the gate measures it in memory only,
// and TestLongTermRanksByTheIndexAsByTheWholeScope compares the ranks of facts.

func TestLongTermRecall(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), Config{Dir: t.TempDir()})
	memorytest.CheckRecall(storetest.Wrap(t), memorysql.Of(s, memory.LongTermConfig{}), 50)
}

func TestWordRecall(t *testing.T) {
	t.Parallel()
	s := open(storetest.Wrap(t), Config{Dir: t.TempDir()})
	vectortest.CheckRecall(storetest.Wrap(t), s.Vectors(vector.Config{}), 50)
}
