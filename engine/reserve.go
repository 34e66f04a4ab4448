package engine

import (
	"context"
	"sync"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/memory"
)

// handlerMemory is the memory held for a turn's handler.
type handlerMemory struct {
	run   *run
	owner string

	mu    sync.Mutex
	ended bool
	holds map[*memory.Hold]bool
	// largest has the largest hold for results of each method of Turn, by method name.
	largest map[string]*memory.Hold
}

// Reserve holds bytes of Config.Memory, accounted to the task's owner, for content that the
// handler is about to keep in memory. The memory is held until release is called or the handler
// returns. If the memory is not available, Reserve waits up to 10 s or until ctx is done. Then
// it returns an error with [a2a.CodeExhausted], or ctx's cause. If the handler returns the
// CodeExhausted error, the engine requeues the task and does not count the attempt. The error
// has [a2a.CodeTooLarge] if one owner can never hold that much in addition to what the turn
// holds.
func (t *Turn) Reserve(ctx context.Context, bytes int64) (release func(), err error) {
	if bytes < 0 {
		return nil, a2a.Invalid("bytes", "is %d, want 0 or more", bytes)
	}
	return t.memory.reserve(ctx, bytes)
}

// reserve holds bytes until release is called or the handler returns.
func (m *handlerMemory) reserve(ctx context.Context, bytes int64) (release func(), err error) {
	hold := m.newHold()
	if err := growHold(ctx, &hold, bytes); err != nil {
		return nil, err
	}
	return m.add(&hold)
}

// newHold returns an empty hold. Memory that the handler already holds counts toward the
// owner's share.
func (m *handlerMemory) newHold() memory.Hold {
	return m.run.e.cfg.Memory.Hold(m.owner).Of(m.run, m.bytes())
}

// growHold waits for memory. It returns ctx's cause if ctx is done, and errNoMemory if the
// memory is not available.
func growHold(ctx context.Context, hold *memory.Hold, bytes int64) error {
	err := hold.Grow(ctx, bytes)
	switch {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case a2a.CodeOf(err) == a2a.CodeExhausted:
		return errNoMemory
	}
	return err
}

// add registers a hold that lasts until release is called or the handler returns.
func (m *handlerMemory) add(hold *memory.Hold) (release func(), err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended {
		hold.Release()
		return nil, ErrEnded
	}
	if m.holds == nil {
		m.holds = make(map[*memory.Hold]bool)
	}
	m.holds[hold] = true
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.holds, hold)
		hold.Release()
	}, nil
}

func (m *handlerMemory) bytes() (n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for hold := range m.holds {
		n += hold.Bytes()
	}
	return n
}

// keepLargest holds memory for a method's result until the handler returns. Of several calls of
// a method only the largest hold is kept: the handler is assumed to have dropped the other
// results.
func (m *handlerMemory) keepLargest(method string, hold *memory.Hold) error {
	if hold.Bytes() == 0 {
		return nil
	}
	if _, err := m.add(hold); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	previous := m.largest[method]
	if previous != nil && previous.Bytes() >= hold.Bytes() {
		previous, hold = hold, previous
	}
	if previous != nil {
		delete(m.holds, previous)
		previous.Release()
	}
	if m.largest == nil {
		m.largest = make(map[string]*memory.Hold)
	}
	m.largest[method] = hold
	return nil
}

// end releases all memory after the handler has returned.
func (m *handlerMemory) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	for hold := range m.holds {
		hold.Release()
	}
	m.holds, m.largest = nil, nil
}
