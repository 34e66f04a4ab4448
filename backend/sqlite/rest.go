package sqlite

import (
	"sync"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// restRows is the number of rows of finished tasks that are kept, up to twice that.
const restRows = 8 << 10

// restCache keeps rows of tasks that are over, so that reading their versions costs no
// statement. A commit takes out the rows that it has changed. Where others commit, as beside
// a read-only store, it is nil and keeps nothing.
type restCache struct {
	mu      sync.Mutex
	rows    *rowCache
	commits int64
}

func newRestCache() *restCache { return &restCache{rows: newRowCache(restRows)} }

// get returns the row of a task, if it is kept.
func (c *restCache) get(key store.Key) (taskRow, bool) {
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

// at returns what put is to be passed with rows that are read from now on.
func (c *restCache) at() (commits int64) {
	if c == nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.commits
}

// put keeps the row of a task if that is over and nothing was committed since it was read.
func (c *restCache) put(at int64, row taskRow) {
	if c == nil || !a2a.TaskState(row.state).Terminal() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.commits == at {
		c.rows.put(row)
	}
}

// drop takes out what a commit has changed.
func (c *restCache) drop(changed map[store.Key]taskRow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.commits++
	for key := range changed {
		c.rows.drop(key)
	}
}
