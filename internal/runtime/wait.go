package runtime

import (
	"context"
	"sync"
	"time"
)

// Sleep waits for d. If ctx is done earlier, Sleep returns ctx's cause.
func Sleep(ctx context.Context, d time.Duration) error {
	if err := context.Cause(ctx); err != nil || d <= 0 {
		return err
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Wait waits for group, and reports whether it ended before ctx was done.
func Wait(ctx context.Context, group *sync.WaitGroup) bool {
	ended := make(chan struct{})
	go func() {
		group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-ctx.Done():
		return false
	}
}

// Signal wakes the goroutine that receives from it. A signal that is sent while another one is
// pending has no effect of its own.
type Signal chan struct{}

// NewSignal returns a Signal.
func NewSignal() Signal { return make(Signal, 1) }

// Send sends the signal. It does not block.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Locks is a set of locks, one for each key. A lock exists while it is held or waited for. The
// zero value is ready to use. It is safe for concurrent use.
type Locks[K comparable] struct {
	mu    sync.Mutex
	locks map[K]*keyLock
}

type keyLock struct {
	free  chan struct{} // has one element while the lock is free
	users int           // holders and waiters
}

// Lock waits for the lock of a key until ctx is done, and then returns ctx's cause. The caller
// must call unlock unless Lock fails.
func (s *Locks[K]) Lock(ctx context.Context, key K) (unlock func(), err error) {
	s.mu.Lock()
	if s.locks == nil {
		s.locks = make(map[K]*keyLock)
	}
	l := s.locks[key]
	if l == nil {
		l = &keyLock{free: make(chan struct{}, 1)}
		l.free <- struct{}{}
		s.locks[key] = l
	}
	l.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if l.users--; l.users == 0 {
			delete(s.locks, key)
		}
	}
	select {
	case <-l.free:
		return func() { l.free <- struct{}{}; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
