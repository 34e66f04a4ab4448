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
	// largest has, by method of Turn, the largest hold for what one call of it returned.
	largest map[string]*memory.Hold
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
	hold := t.hold()
	if err := grow(ctx, &hold, bytes); err != nil {
		return nil, err
	}
	return t.reserved.add(&hold)
}

// hold returns an empty hold that counts what the turn's handler holds already.
func (t *Turn) hold() memory.Hold {
	return t.r.e.cfg.Memory.Hold(t.Owner()).Beside(t.reserved.bytes())
}

// grow waits for memory. Its error is ctx's cause when ctx is done.
func grow(ctx context.Context, hold *memory.Hold, bytes int64) error {
	err := hold.Grow(ctx, bytes)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
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

func (r *reserved) bytes() (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for hold := range r.holds {
		n += hold.Bytes()
	}
	return n
}

// keep keeps a hold for what a call of a method has returned until the handler returns, unless
// an earlier call of the method holds as much: what that returned is then taken to be out of use.
func (r *reserved) keep(method string, hold *memory.Hold) error {
	if hold.Bytes() == 0 {
		return nil
	}
	if _, err := r.add(hold); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	less := r.largest[method]
	if less != nil && less.Bytes() >= hold.Bytes() {
		less, hold = hold, less
	}
	if less != nil {
		delete(r.holds, less)
		less.Release()
	}
	if r.largest == nil {
		r.largest = make(map[string]*memory.Hold)
	}
	r.largest[method] = hold
	return nil
}

// end releases everything once the handler has returned.
func (r *reserved) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	for hold := range r.holds {
		hold.Release()
	}
	r.holds, r.largest = nil, nil
}
