package engine

import (
	"context"
	"sync"
	"time"
)

// countShare bounds the cost of counting a long queue: after a count the store is not
// asked again for this many times as long as it took.
const countShare = 20

// queueCount is the number of tasks that wait to run: those that the store had when it
// last counted them, and those that this process has queued since. Tasks that were
// claimed since then are still included, until the store counts again.
type queueCount struct {
	counting sync.Mutex // held while the store counts
	next     time.Time  // when the store may count again; guarded by counting

	mu     sync.Mutex
	stored int64
	since  int64
}

// Add notes that this process has queued n tasks.
func (q *queueCount) Add(n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.since += n
}

func (q *queueCount) load() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stored + q.since
}

// set notes that the store has counted n tasks, which include the first included of
// those that this process has queued.
func (q *queueCount) set(n, included int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stored, q.since = n, q.since-included
}

// countQueued has the store count the queued tasks, unless it did so only just.
// When it fails the last count remains.
func (e *Engine) countQueued(ctx context.Context) {
	q := &e.queued
	q.counting.Lock()
	defer q.counting.Unlock()
	start := e.now()
	if start.Before(q.next) {
		return
	}
	q.mu.Lock()
	included := q.since
	q.mu.Unlock()
	backlog, err := e.cfg.Store.Backlog(ctx)
	if err != nil {
		if ctx.Err() == nil {
			e.log.Debug("count the queued tasks", "error", err)
		}
		return
	}
	q.set(int64(backlog.Queued), included)
	end := e.now()
	q.next = end.Add(countShare * end.Sub(start))
}

// queueFull reports whether as many tasks wait to run as may, and how many that are.
// It asks the store before it says so: tasks may have been claimed since the last count.
func (e *Engine) queueFull(ctx context.Context) (n int64, full bool) {
	limit := int64(e.cfg.Limits.Queued)
	if n = e.queued.load(); n < limit {
		return n, false
	}
	e.countQueued(ctx)
	n = e.queued.load()
	return n, n >= limit
}
