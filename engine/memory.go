package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	// smallTask is the maximum size of a task that needs no memory from the budget.
	smallTask = 64 << 10
	// memoryStep is the minimum increment by which a growing task holds more memory.
	memoryStep = 256 << 10
	// taskShare limits the content of one task to 1/taskShare of an owner's share of the memory
	// budget. While a task is read, it is in memory both as JSON and decoded.
	taskShare = 3
	// retriesPerPoll is the number of tasks without memory that are claimed again per Turns.Poll.
	retriesPerPoll = 64
)

var errNoMemory error = a2a.Errorf(a2a.CodeExhausted, "not enough free memory for the task (--memory)")

// memoryRetries spreads the due times of tasks requeued for lack of memory, to limit the load on
// the store. The zero value is ready to use.
type memoryRetries struct {
	mu   sync.Mutex
	last time.Time
}

// next returns when a task that got no memory is due again: at least one poll interval from now,
// and poll/retriesPerPoll after the previous such task, but at most limit from now.
func (m *memoryRetries) next(now time.Time, poll, limit time.Duration) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	earliest, latest := now.Add(poll), now.Add(max(poll, limit))
	m.last = m.last.Add(poll / retriesPerPoll)
	if m.last.Before(earliest) {
		m.last = earliest
	} else if m.last.After(latest) {
		m.last = latest
	}
	return m.last
}

// dueAgain returns when a task that could not be read because of err is due again. If not enough
// memory was free, the task is due soon. Otherwise it is due after a lease period, because it may
// never be readable.
func (d *dispatcher) dueAgain(err error) time.Time {
	if errors.Is(err, errNoMemory) {
		return store.Time(d.retries.next(d.now(), d.cfg.Turns.Poll, d.cfg.Turns.Lease))
	}
	return store.Time(d.now().Add(d.cfg.Turns.Lease))
}

// holdMemory raises the task's hold of the memory budget to bytes, before its content is read
// or extended. It waits like [memory.Hold.Grow].
func (l *live) holdMemory(ctx context.Context, bytes int64) error {
	return l.growMemory(bytes, func(more int64) error { return l.held.Grow(ctx, more) })
}

// tryHoldMemory is holdMemory without waiting.
func (l *live) tryHoldMemory(bytes int64) error {
	return l.growMemory(bytes, func(more int64) error {
		if !l.held.TryGrow(more) {
			return errNoMemory
		}
		return nil
	})
}

func (l *live) growMemory(bytes int64, grow func(more int64) error) error {
	if bytes <= smallTask {
		return nil
	}
	l.heldMu.Lock()
	defer l.heldMu.Unlock()
	more := bytes - l.held.Bytes()
	if more <= 0 {
		return nil
	}
	if l.held.Bytes() > 0 { // the task is growing and will probably grow again
		more = max(more, memoryStep)
	}
	return grow(more)
}

// releaseMemory releases the memory of the task when its content is no longer needed.
func (l *live) releaseMemory() {
	l.heldMu.Lock()
	defer l.heldMu.Unlock()
	l.held.Release()
}

// taskLimit returns the maximum content of a task in bytes.
func (s *settings) taskLimit() int64 {
	return min(int64(s.cfg.Limits.TaskBytes), s.cfg.Memory.Share()/taskShare)
}

// checkTaskSize returns an error if a task of size bytes may not grow by more bytes.
func (s *settings) checkTaskSize(id string, size, more int64) error {
	limit := s.taskLimit()
	if size+more <= limit {
		return nil
	}
	s.oversized.Add(1)
	return a2a.Errorf(a2a.CodeTooLarge, "task %s has %d bytes of content; %d more would exceed the limit of %d (--max-task)", a2a.Quote(id), size, more, limit)
}

// holdForRead holds memory for the content of a task that is about to be read completely. It holds
// the same amount again for the read itself, until release is called. The caller holds l.commit.
func (h *hub) holdForRead(ctx context.Context, l *live) (release func(), err error) {
	none := func() {}
	if h.cfg.Memory == nil {
		return none, nil
	}
	versions, err := h.cfg.Store.Versions(ctx, []store.Key{l.key})
	if err != nil {
		return nil, err
	}
	bytes := versions[l.key].Bytes
	if bytes <= smallTask {
		return none, nil
	}
	reading := h.cfg.Memory.Hold(l.key.Owner)
	if err := reading.Grow(ctx, bytes); err != nil {
		return nil, err
	}
	if err := l.holdMemory(ctx, bytes); err != nil {
		reading.Release()
		return nil, err
	}
	return reading.Release, nil
}

// startLarge reads a task that was claimed as an outline and runs it, in a slot that the caller
// has acquired. If there is not enough free memory it requeues the task and frees the slot.
func (d *dispatcher) startLarge(outline *store.Task, quarantined bool) {
	l := d.hub.acquire(outline.Key)
	defer d.hub.release(l)
	reading := d.cfg.Memory.Hold(outline.Key.Owner)
	defer reading.Release()
	t, err := d.readLarge(l, &reading, outline)
	if err == nil {
		d.start(t, quarantined)
		return
	}
	if !errors.Is(err, ErrLeaseLost) {
		unread := []store.UnreadableTask{{Key: outline.Key, Queue: outline.Queue, Err: err}}
		if !d.requeueUnread(d.engine.ctx, unread) {
			d.leases.orphan.Store(true)
		}
	}
	d.freeSlot(outline.Key.Owner)
}

func (d *dispatcher) readLarge(l *live, reading *memory.Hold, outline *store.Task) (*store.Task, error) {
	if !reading.TryGrow(outline.Bytes) {
		return nil, errNoMemory
	}
	if err := l.tryHoldMemory(outline.Bytes); err != nil {
		return nil, err
	}
	t, err := d.cfg.Store.Task(d.engine.ctx, outline.Key, store.TaskOptions{})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read large task: %w", err)
	case t.Queue.Lease.Fence != outline.Queue.Lease.Fence || t.Queue.Phase != store.PhaseLeased:
		return nil, ErrLeaseLost
	}
	return t, nil
}

// addBytes counts bytes that the run is about to add to its task, and holds memory for them.
func (o *output) addBytes(bytes int64) error {
	o.mu.Lock()
	total := o.taskBytes + bytes
	if err := o.hub.checkTaskSize(o.l.key.ID, o.taskBytes, bytes); err != nil {
		o.mu.Unlock()
		return err
	}
	o.taskBytes = total
	o.mu.Unlock()
	err := o.l.holdMemory(o.ctx, total)
	if err != nil {
		o.mu.Lock()
		o.taskBytes -= bytes
		o.mu.Unlock()
		if cause := context.Cause(o.ctx); cause != nil {
			err = cause
		}
	}
	return err
}
