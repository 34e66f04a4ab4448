package sqlite

import (
	"fmt"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/backend/internal/sqlrow"
	"github.com/holdfast-dev/holdfast/store"
)

func terminalTestRow(id string, state a2a.TaskState, seq int64) taskRow {
	return taskRow{Task: sqlrow.Task{PK: 1, Key: store.Key{Owner: "o", ID: id}, State: string(state), Seq: seq}}
}

func TestTerminalCacheHoldsOnlyTerminalTasks(t *testing.T) {
	t.Parallel()
	c := newTerminalCache()
	done, working := terminalTestRow("1", a2a.StateCompleted, 4), terminalTestRow("2", a2a.StateWorking, 2)
	c.put(c.version(), done)
	c.put(c.version(), working)
	if got, ok := c.get(done.Key); !ok || got != done {
		t.Errorf("get() of a completed task = %+v, %t, want its row", got, ok)
	}
	if _, ok := c.get(working.Key); ok {
		t.Error("get() of a working task found a row, want none")
	}
}

func TestTerminalCacheDropsRowsChangedDuringRead(t *testing.T) {
	t.Parallel()
	c := newTerminalCache()
	row := terminalTestRow("1", a2a.StateCompleted, 4)
	at := c.version()
	c.put(at, row)
	c.remove(map[store.Key]taskRow{row.Key: {}})
	if _, ok := c.get(row.Key); ok {
		t.Fatal("get() after a commit that changed the row found it")
	}
	c.put(at, row)
	if _, ok := c.get(row.Key); ok {
		t.Error("put() cached a row read before the commit")
	}
	c.put(c.version(), row)
	if _, ok := c.get(row.Key); !ok {
		t.Error("put() did not cache a row read after the commit")
	}
}

func TestTerminalCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := newTerminalCache()
	often := terminalTestRow("often", a2a.StateCompleted, 4)
	for i := range 5 * terminalRows {
		c.put(c.version(), terminalTestRow(fmt.Sprint(i), a2a.StateCompleted, 4))
		c.put(c.version(), often)
		if _, ok := c.get(often.Key); !ok {
			t.Fatal("a frequently read row was evicted")
		}
	}
	if n := len(c.rows.young) + len(c.rows.old); n > 2*terminalRows {
		t.Errorf("cache has %d rows, want at most %d", n, 2*terminalRows)
	}
}
