package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/memory"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	// smallTask is the size up to which the content of a task does not draw from the budget.
	smallTask = 64 << 10
	// memoryStep is by how much a task that grows holds more of it.
	memoryStep = 256 << 10
	// taskShare is the part of what an owner may hold that one task may take: while it is read, it
	// is in memory as JSON and as a task.
	taskShare = 3
)

var errNoMemory error = a2a.Errorf(a2a.CodeExhausted, "the server has no memory for the task now (--memory)")

// holdMemory raises what the task holds of the memory budget to bytes, before its content
// is read or added to. It waits for them as [memory.Hold.Grow] does.
func (l *live) holdMemory(ctx context.Context, bytes int64) error {
	return l.grow(bytes, func(more int64) error { return l.held.Grow(ctx, more) })
}

// tryMemory is holdMemory without a wait.
func (l *live) tryMemory(bytes int64) error {
	return l.grow(bytes, func(more int64) error {
		if !l.held.TryGrow(more) {
			return errNoMemory
		}
		return nil
	})
}

func (l *live) grow(bytes int64, grow func(more int64) error) error {
	if bytes <= smallTask {
		return nil
	}
	l.holding.Lock()
	defer l.holding.Unlock()
	more := bytes - l.held.Bytes()
	if more <= 0 {
		return nil
	}
	if l.held.Bytes() > 0 { // it grows, and will again
		more = max(more, memoryStep)
	}
	return grow(more)
}

// releaseMemory returns what the task holds: its content is not needed here any more.
func (l *live) releaseMemory() {
	l.holding.Lock()
	defer l.holding.Unlock()
	l.held.Release()
}

// taskLimit is how much content a task may have.
func (e *Engine) taskLimit() int64 {
	return min(int64(e.cfg.Limits.TaskBytes), e.cfg.Memory.Share()/taskShare)
}

// checkTaskSize refuses to add bytes to a task that has some already.
func (e *Engine) checkTaskSize(id string, has, bytes int64) error {
	limit := e.taskLimit()
	if has+bytes <= limit {
		return nil
	}
	e.oversized.Add(1)
	return a2a.Errorf(a2a.CodeTooLarge, "task %s has %d bytes of content, with %d more it would exceed the limit of %d (--max-task)", a2a.Quote(id), has, bytes, limit)
}

// admit holds memory for a task that is about to be read whole, and as much again until release
// is called. The caller holds l.commit.
func (e *Engine) admit(ctx context.Context, l *live) (release func(), err error) {
	none := func() {}
	if e.cfg.Memory == nil {
		return none, nil
	}
	versions, err := e.cfg.Store.Versions(ctx, []store.Key{l.key})
	if err != nil {
		return nil, err
	}
	bytes := versions[l.key].Bytes
	if bytes <= smallTask {
		return none, nil
	}
	reading := e.cfg.Memory.Hold(l.key.Owner)
	if err := reading.Grow(ctx, bytes); err != nil {
		return nil, err
	}
	if err := l.holdMemory(ctx, bytes); err != nil {
		reading.Release()
		return nil, err
	}
	return reading.Release, nil
}

// startLarge reads a task that was claimed as an outline and runs it, in a slot that is
// taken. Without memory for it the task is requeued, so that it does not keep others from the slot.
func (e *Engine) startLarge(outline *store.Task, suspect bool) {
	l := e.hub.acquire(outline.Key)
	defer e.hub.release(l)
	reading := e.cfg.Memory.Hold(outline.Key.Owner)
	defer reading.Release()
	t, err := e.readLarge(l, &reading, outline)
	if err == nil {
		e.start(t, suspect)
		return
	}
	if !errors.Is(err, ErrLeaseLost) {
		unread := []store.UnreadTask{{Key: outline.Key, Run: outline.Run, Err: err}}
		if !e.requeueUnread(e.ctx, unread) {
			e.strayed.Store(true)
		}
	}
	e.freeSlot(outline.Key.Owner)
}

func (e *Engine) readLarge(l *live, reading *memory.Hold, outline *store.Task) (*store.Task, error) {
	if !reading.TryGrow(outline.Bytes) {
		return nil, errNoMemory
	}
	if err := l.tryMemory(outline.Bytes); err != nil {
		return nil, err
	}
	t, err := e.cfg.Store.Task(e.ctx, outline.Key, store.TaskOptions{})
	switch {
	case err != nil:
		return nil, fmt.Errorf("read large task: %w", err)
	case t.Run.Lease.Fence != outline.Run.Lease.Fence || t.Run.Phase != store.PhaseLeased:
		return nil, ErrLeaseLost
	}
	return t, nil
}

// grow counts bytes that the run is about to add to its task, and holds memory for them.
func (r *run) grow(bytes int64) error {
	r.mu.Lock()
	total := r.total + bytes
	if err := r.e.checkTaskSize(r.l.key.ID, r.total, bytes); err != nil {
		r.mu.Unlock()
		return err
	}
	r.total = total
	r.mu.Unlock()
	err := r.l.holdMemory(r.ctx, total)
	if err != nil {
		r.mu.Lock()
		r.total -= bytes
		r.mu.Unlock()
		if cause := context.Cause(r.ctx); cause != nil {
			err = cause
		}
	}
	return err
}
