package redis

import (
	"context"
	"sync"
)

// locks are locks by name. They order the changes of a session by one store, so that the number of
// a change grows with each change of the session.
type locks struct {
	mu sync.Mutex
	of map[string]*lock
}

type lock struct {
	held  chan struct{} // has one element while the lock is held
	users int           // that hold the lock or wait for it
}

// acquire waits for a lock, or until ctx is done. The caller calls release.
func (l *locks) acquire(ctx context.Context, name string) (release func(), err error) {
	l.mu.Lock()
	k := l.of[name]
	if k == nil {
		k = &lock{held: make(chan struct{}, 1)}
		l.of[name] = k
	}
	k.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.of, name)
		}
	}
	select {
	case k.held <- struct{}{}:
		return func() { <-k.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ended(ctx, nil)
	}
}
