package engine

import (
	"context"
	"sync"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/memory"
)

// handlerMemory is the memory held for a turn's handler.
type handlerMemory struct {
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
	hold := t.newHold()
	if err := growHold(ctx, &hold, bytes); err != nil {
		return nil, err
	}
	return t.memory.add(&hold)
}

// newHold returns an empty hold. Memory that the handler already holds counts toward the
// owner's share.
func (t *Turn) newHold() memory.Hold {
	return t.r.e.cfg.Memory.Hold(t.Owner()).Of(t.r, t.memory.bytes())
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
func (r *handlerMemory) add(hold *memory.Hold) (release func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		hold.Release()
		return nil, ErrEnded
	}
	if r.holds == nil {
		r.holds = make(map[*memory.Hold]bool)
	}
	r.holds[hold] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.holds, hold)
		hold.Release()
	}, nil
}

func (r *handlerMemory) bytes() (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for hold := range r.holds {
		n += hold.Bytes()
	}
	return n
}

// keepLargest holds memory for a method's result until the handler returns. Of several calls of
// a method only the largest hold is kept: the handler is assumed to have dropped the other
// results.
func (r *handlerMemory) keepLargest(method string, hold *memory.Hold) error {
	if hold.Bytes() == 0 {
		return nil
	}
	if _, err := r.add(hold); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	previous := r.largest[method]
	if previous != nil && previous.Bytes() >= hold.Bytes() {
		previous, hold = hold, previous
	}
	if previous != nil {
		delete(r.holds, previous)
		previous.Release()
	}
	if r.largest == nil {
		r.largest = make(map[string]*memory.Hold)
	}
	r.largest[method] = hold
	return nil
}

// end releases all memory after the handler has returned.
func (r *handlerMemory) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	for hold := range r.holds {
		hold.Release()
	}
	r.holds, r.largest = nil, nil
}
