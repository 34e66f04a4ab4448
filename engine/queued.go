package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
)

const (
	// countPauseFactor limits the cost of counting a long queue: the pause after a count is at
	// least this many times the duration of the count.
	countPauseFactor = 20
	// countedOwners is the maximum number of owners with cached queue counts.
	countedOwners = 1000
)

// queueCount is a number of tasks that wait to run: the tasks that the store counted last, plus
// those that this process has queued since. It includes tasks that were claimed since the
// count.
type queueCount struct {
	counting sync.Mutex // held while the store counts
	next     time.Time  // earliest time of the next count; guarded by counting

	mu      sync.Mutex
	stored  int64
	since   int64
	counted time.Time // time of the last count; zero if there was none
}

// add counts a task that this process has queued.
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

// age returns the time since the last count, and false if there was none.
func (q *queueCount) age(now time.Time) (time.Duration, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return now.Sub(q.counted), !q.counted.IsZero()
}

// set records a count by the store: n tasks at the time at. included is the number of tasks that
// this process queued between the previous count and this one; n counts them too.
func (q *queueCount) set(n, included int64, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stored, q.since, q.counted = n, q.since-included, at
}

// count updates q from the store, unless the last count was too recent. If the count fails, q
// keeps its value.
func (t *taskQueue) count(ctx context.Context, q *queueCount, read func() (int, error)) {
	q.counting.Lock()
	defer q.counting.Unlock()
	start := t.now()
	if start.Before(q.next) {
		return
	}
	q.mu.Lock()
	included := q.since
	q.mu.Unlock()
	n, err := read()
	if err != nil {
		if ctx.Err() == nil {
			t.log.Debug("counting queued tasks failed", "error", err)
		}
		return
	}
	q.set(int64(n), included, start)
	end := t.now()
	q.next = end.Add(countPauseFactor * end.Sub(start))
}

// refresh counts the queued tasks of all owners.
func (t *taskQueue) refresh(ctx context.Context) {
	t.count(ctx, &t.all, func() (int, error) {
		backlog, err := t.cfg.Store.Backlog(ctx)
		return backlog.Queued, err
	})
}

// taskQueue counts the tasks that wait to run, and rejects further ones above the limits.
type taskQueue struct {
	*settings
	all      queueCount    // tasks waiting to run, of all owners
	owners   ownerCounts   // tasks waiting to run, by owner
	refusals queueRefusals // rejections because of full queues
}

// queueRefusals counts rejected new tasks and turns since the start.
type queueRefusals struct{ all, owner atomic.Int64 }

// check rejects a new task while the whole queue or the owner's share of it is full. It updates
// the count before it rejects, because tasks may have been claimed since the last count.
func (t *taskQueue) check(ctx context.Context, owner string) error {
	limit := int64(t.cfg.Limits.Queued)
	if t.all.load() >= limit {
		t.refresh(ctx)
		if n := t.all.load(); n >= limit {
			t.refusals.all.Add(1)
			return a2a.Errorf(a2a.CodeExhausted, "queue is full (%d tasks waiting); retry later", n)
		}
	}
	return t.checkOwner(ctx, owner)
}

// checkOwner rejects a turn while the owner's share of the queue is full. It counts the
// owner's tasks only if the length of the whole queue has reached Limits.QueuedPerOwner.
func (t *taskQueue) checkOwner(ctx context.Context, owner string) error {
	limit := int64(t.cfg.Limits.QueuedPerOwner)
	if limit == int64(t.cfg.Limits.Queued) || t.all.load() < limit {
		return nil
	}
	if t.refresh(ctx); t.all.load() < limit {
		return nil
	}
	share := t.ownerShare(t.all.load())
	q := t.owners.get(owner)
	age, counted := q.age(t.now())
	if !counted || q.load() >= share || !t.exclusive() && age >= t.cfg.Turns.Poll {
		t.count(ctx, q, func() (int, error) { return t.cfg.Store.Queued(ctx, owner, int(limit)) })
	}
	n := q.load()
	if n < share {
		return nil
	}
	t.refusals.owner.Add(1)
	return a2a.Errorf(a2a.CodeExhausted, "queue of this owner is full (%d tasks waiting, limit %d at present; see --max-queued-per-owner); retry later", n, share)
}

// ownerShare returns the number of tasks that one owner may have in a queue of the given
// length, at least 1. It is proportional to the number of free places, so a few owners with
// many tasks cannot fill the queue. A single owner reaches Limits.QueuedPerOwner. If that is
// half of the queue, n owners leave at least 1/(n+1) of the queue free.
func (t *taskQueue) ownerShare(queued int64) int64 {
	all, limit := int64(t.cfg.Limits.Queued), int64(t.cfg.Limits.QueuedPerOwner)
	return min(limit, max(1, limit*(all-queued)/(all-limit)))
}

// note counts a task that this process has queued.
func (t *taskQueue) note(owner string) {
	t.all.add()
	t.owners.add(owner)
}

// ownerCounts caches the queue counts of owners.
type ownerCounts struct {
	mu     sync.Mutex
	counts map[string]*queueCount
}

// get returns the cached count of an owner, or a new one that has not been counted yet.
func (o *ownerCounts) get(owner string) *queueCount {
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

func (o *ownerCounts) add(owner string) {
	o.mu.Lock()
	q := o.counts[owner]
	o.mu.Unlock()
	if q != nil {
		q.add()
	}
}
