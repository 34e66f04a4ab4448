package server

import (
	"context"
	"sync"
)

// budget shares out a number of bytes, first come, first served.
type budget struct {
	mu      sync.Mutex
	free    int64
	waiting []*claim // the oldest first
}

type claim struct {
	bytes   int64
	granted chan struct{}
}

// take waits for bytes until ctx is done. It reports whether it got them.
func (b *budget) take(ctx context.Context, bytes int64) bool {
	b.mu.Lock()
	if len(b.waiting) == 0 && b.free >= bytes {
		b.free -= bytes
		b.mu.Unlock()
		return true
	}
	c := &claim{bytes: bytes, granted: make(chan struct{})}
	b.waiting = append(b.waiting, c)
	b.mu.Unlock()
	select {
	case <-c.granted:
		return true
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, w := range b.waiting {
		if w == c {
			b.waiting = append(b.waiting[:i:i], b.waiting[i+1:]...)
			b.grant()
			return false
		}
	}
	return true // it was granted at the last moment
}

func (b *budget) give(bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += bytes
	b.grant()
}

// grant serves those who wait. The caller holds b.mu.
func (b *budget) grant() {
	for len(b.waiting) > 0 && b.waiting[0].bytes <= b.free {
		b.free -= b.waiting[0].bytes
		close(b.waiting[0].granted)
		b.waiting = b.waiting[1:]
	}
}
