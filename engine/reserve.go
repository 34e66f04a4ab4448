package engine

import (
	"context"
	"sync"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/internal/memory"
)

// reserved is the memory that a turn's handler holds.
type reserved struct {
	mu    sync.Mutex
	over  bool
	holds map[*memory.Hold]bool
}

// Reserve holds bytes of Config.Memory, in the name of the task's owner, for content that the
// handler is about to keep in memory: until release is called, or the handler returns. While
// they are not free it waits up to 10 s and until ctx is done; then it returns an error with
// [a2a.CodeExhausted], or ctx's cause. The code is [a2a.CodeTooLarge] if one owner can never
// hold that much.
func (t *Turn) Reserve(ctx context.Context, bytes int64) (release func(), err error) {
	if bytes < 0 {
		return nil, a2a.Invalid("bytes", "is %d, want 0 or more", bytes)
	}
	hold := t.r.e.cfg.Memory.Hold(t.Owner())
	if err := hold.Grow(ctx, bytes); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	return t.reserved.add(&hold)
}

// add keeps a hold until it is released or the handler returns.
func (r *reserved) add(hold *memory.Hold) (release func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
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

// end releases everything once the handler has returned.
func (r *reserved) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for hold := range r.holds {
		hold.Release()
	}
	r.holds = nil
}
