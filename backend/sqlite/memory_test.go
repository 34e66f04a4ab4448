package sqlite

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/sqlkit/kittest"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/memory"
	"github.com/holdfast-dev/holdfast/store/memory/memorysql"
)

func TestMemoryRunsTransactions(t *testing.T) {
	t.Parallel()
	kittest.Run(t, NewMemory().db)
}

// Databases that have had no change share one. The first change of one is not seen by the others.
func TestMemoriesShareNoData(t *testing.T) {
	t.Parallel()
	scope := memory.Scope{Owner: "o", Agent: "a"}
	one, other := NewMemory(), NewMemory()
	count := func(m *Memory) int {
		t.Helper()
		found, err := memorysql.Of(m, memory.LongTermConfig{Now: time.Now}).Search(t.Context(), scope, memory.SearchParams{Query: "oil"})
		must(t, err)
		return len(found.Facts)
	}
	if n := count(one) + count(other); n != 0 {
		t.Errorf("empty databases have %d facts", n)
	}
	_, err := memorysql.Of(one, memory.LongTermConfig{}).Save(t.Context(), scope, "the pump needs oil", memory.SaveParams{})
	must(t, err)
	if a, b, c := count(one), count(other), count(NewMemory()); a != 1 || b != 0 || c != 0 {
		t.Errorf("the databases have %d, %d and %d facts, want 1, 0 and 0", a, b, c)
	}
	must(t, one.Close())
	if _, err := memorysql.Of(one, memory.LongTermConfig{}).Save(t.Context(), scope, "x", memory.SaveParams{}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Save() after Close() = %v, want ErrClosed", err)
	}
}
