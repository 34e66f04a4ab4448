package sqlite

import (
	"sync"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// terminalRows is the size of a generation of terminalCache, which has two.
const terminalRows = 8 << 10

// terminalCache caches rows of tasks in a terminal state, so that reading their
// versions needs no statement. A commit removes the rows it changed. For a read-only
// store, which is not notified of commits, it is nil and caches nothing.
type terminalCache struct {
	mu      sync.Mutex
	rows    *rowCache
	commits int64
}

func newTerminalCache() *terminalCache { return &terminalCache{rows: newRowCache(terminalRows)} }

// get returns the cached row of a task.
func (c *terminalCache) get(key store.Key) (taskRow, bool) {
	if c == nil {
		return taskRow{}, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	row, ok := c.rows.get(key)
	if ok {
		c.rows.put(row)
	}
	return row, ok
}

// version returns the number of commits. Callers get it before they read a row and pass
// it to put.
func (c *terminalCache) version() (commits int64) {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.commits
}

// put caches a row if the task is in a terminal state and no commit happened since
// version.
func (c *terminalCache) put(version int64, row taskRow) {
	if c == nil || !a2a.TaskState(row.State).Terminal() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commits == version {
		c.rows.put(row)
	}
}

// remove removes the rows that a commit changed.
func (c *terminalCache) remove(changed map[store.Key]taskRow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commits++
	for key := range changed {
		c.rows.remove(key)
	}
}
