package sqlite

import (
	"context"
	"sync"
)

// readGate counts active reads and lets the checkpointer pause new ones.
type readGate struct {
	mu      sync.Mutex
	active  int
	resumed chan struct{} // not nil while reads are paused; closed when they continue
	drained chan struct{} // not nil while reads are paused; closed when none is active
}

// enter starts a read, which leave ends. While reads are paused it waits until they
// continue or ctx is done.
func (g *readGate) enter(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.resumed != nil {
		resumed := g.resumed
		g.mu.Unlock()
		select {
		case <-resumed:
		case <-ctx.Done():
		}
		g.mu.Lock()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	g.active++
	return nil
}

func (g *readGate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.active--; g.active == 0 && g.drained != nil {
		close(g.drained)
	}
}

// pause blocks new reads until resume is called. It returns a channel that is closed
// when the active ones have ended.
func (g *readGate) pause() (drained <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.resumed, g.drained = make(chan struct{}), make(chan struct{})
	if g.active == 0 {
		close(g.drained)
	}
	return g.drained
}

func (g *readGate) resume() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.resumed)
	g.resumed, g.drained = nil, nil
}
