package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

const (
	// countShare bounds the cost of counting a long queue: after a count the store is not
	// asked again for this many times as long as it took.
	countShare = 20
	// countedOwners is the number of owners whose count of queued tasks is remembered.
	countedOwners = 1000
)

// queueCount is a number of tasks that wait to run: those that the store had when it
// last counted them, and those that this process has queued since. Tasks that were
// claimed since then are still included, until the store counts again.
type queueCount struct {
	counting sync.Mutex // held while the store counts
	next     time.Time  // when the store may count again; guarded by counting

	mu      sync.Mutex
	stored  int64
	since   int64
	counted time.Time // zero: never
}

// add notes that this process has queued a task.
func (q *queueCount) add() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.since++
}

func (q *queueCount) load() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stored + q.since
}

// age returns how long ago the store has counted, and false if it never did.
func (q *queueCount) age(now time.Time) (time.Duration, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return now.Sub(q.counted), !q.counted.IsZero()
}

// set notes that the store has counted n tasks at a time, which include the first included
// of those that this process has queued.
func (q *queueCount) set(n, included int64, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stored, q.since, q.counted = n, q.since-included, at
}

// count has the store count, unless it did so only just. When it fails the last count
// remains.
func (e *Engine) count(ctx context.Context, q *queueCount, read func() (int, error)) {
	q.counting.Lock()
	defer q.counting.Unlock()
	start := e.now()
	if start.Before(q.next) {
		return
	}
	q.mu.Lock()
	included := q.since
	q.mu.Unlock()
	n, err := read()
	if err != nil {
		if ctx.Err() == nil {
			e.log.Debug("count the queued tasks", "error", err)
		}
		return
	}
	q.set(int64(n), included, start)
	end := e.now()
	q.next = end.Add(countShare * end.Sub(start))
}

// countQueued counts the queued tasks of all owners.
func (e *Engine) countQueued(ctx context.Context) {
	e.count(ctx, &e.queued, func() (int, error) {
		backlog, err := e.cfg.Store.Backlog(ctx)
		return backlog.Queued, err
	})
}

// queueRefusals counts new turns that were refused since the start.
type queueRefusals struct{ all, owner atomic.Int64 }

// checkQueue rejects a new task while the queue is full: that of all owners, or the share of
// this one. It asks the store before it does: tasks may have been claimed since the last count.
func (e *Engine) checkQueue(ctx context.Context, owner string) error {
	limit := int64(e.cfg.Limits.Queued)
	if e.queued.load() >= limit {
		e.countQueued(ctx)
		if n := e.queued.load(); n >= limit {
			e.refusals.all.Add(1)
			return a2a.Errorf(a2a.CodeExhausted, "queue is full (%d tasks waiting); retry later", n)
		}
	}
	return e.checkOwnQueue(ctx, owner)
}

// checkOwnQueue rejects a turn while the owner's share of the queue is full. It counts the owner's tasks
// only while the whole queue holds at least that number.
func (e *Engine) checkOwnQueue(ctx context.Context, owner string) error {
	limit := int64(e.cfg.Limits.QueuedPerOwner)
	if limit == int64(e.cfg.Limits.Queued) || e.queued.load() < limit {
		return nil
	}
	if e.countQueued(ctx); e.queued.load() < limit {
		return nil
	}
	q := e.owners.of(owner)
	age, counted := q.age(e.now())
	if !counted || q.load() >= limit || !e.exclusive() && age >= e.cfg.Poll {
		e.count(ctx, q, func() (int, error) { return e.cfg.Store.Queued(ctx, owner, int(limit)) })
	}
	n := q.load()
	if n < limit {
		return nil
	}
	e.refusals.owner.Add(1)
	return a2a.Errorf(a2a.CodeExhausted, "queue of this owner is full (%d tasks waiting, --max-queued-per-owner); retry later", n)
}

// noteQueued notes that this process has queued a task.
func (e *Engine) noteQueued(owner string) {
	e.queued.add()
	e.owners.note(owner)
}

// ownerCounts has the queue counts of owners that were counted in the store.
type ownerCounts struct {
	mu     sync.Mutex
	counts map[string]*queueCount
}

// of returns the count of an owner, which the store has yet to make if it is new.
func (o *ownerCounts) of(owner string) *queueCount {
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.counts[owner]
	if q == nil {
		if o.counts == nil || len(o.counts) >= countedOwners {
			o.counts = make(map[string]*queueCount)
		}
		q = new(queueCount)
		o.counts[owner] = q
	}
	return q
}

func (o *ownerCounts) note(owner string) {
	o.mu.Lock()
	q := o.counts[owner]
	o.mu.Unlock()
	if q != nil {
		q.add()
	}
}
