package sqlite

import (
	"fmt"
	"testing"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

func restRow(id string, state a2a.TaskState, seq int64) taskRow {
	return taskRow{pk: 1, key: store.Key{Owner: "o", ID: id}, state: string(state), seq: seq}
}

func TestRowsOfTasksThatAreOverAreKept(t *testing.T) {
	t.Parallel()
	c := newRestCache()
	over, working := restRow("1", a2a.StateCompleted, 4), restRow("2", a2a.StateWorking, 2)
	c.put(c.at(), over)
	c.put(c.at(), working)
	if got, ok := c.get(over.key); !ok || got != over {
		t.Errorf("get() of a task that is over = %+v, %t", got, ok)
	}
	if _, ok := c.get(working.key); ok {
		t.Error("the row of a task that is not over was kept")
	}
}

func TestCommitRemovesRowEvenWhileItIsRead(t *testing.T) {
	t.Parallel()
	c := newRestCache()
	row := restRow("1", a2a.StateCompleted, 4)
	at := c.at()
	c.put(at, row)
	c.drop(map[store.Key]taskRow{row.key: {}})
	if _, ok := c.get(row.key); ok {
		t.Fatal("the row is kept after a commit that changed it")
	}
	c.put(at, row)
	if _, ok := c.get(row.key); ok {
		t.Error("a row that was read before the commit was kept")
	}
	c.put(c.at(), row)
	if _, ok := c.get(row.key); !ok {
		t.Error("a row that was read after the commit was not kept")
	}
}

func TestRestCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := newRestCache()
	often := restRow("often", a2a.StateCompleted, 4)
	for i := range 5 * restRows {
		c.put(c.at(), restRow(fmt.Sprint(i), a2a.StateCompleted, 4))
		c.put(c.at(), often)
		if _, ok := c.get(often.key); !ok {
			t.Fatal("a row that is read often was removed")
		}
	}
	if n := len(c.rows.young) + len(c.rows.old); n > 2*restRows {
		t.Errorf("cache has %d rows, want %d at most", n, 2*restRows)
	}
}
