package engine

import (
	"sync"

	"github.com/holdfast-dev/holdfast/store"
)

// runs is the set of runs in this process. It is safe for concurrent use.
type runs struct {
	active sync.WaitGroup // counts runs, and calls of add until active.Done is called

	mu       sync.Mutex
	all      map[*run]struct{}
	stopping bool
}

// stop prevents new runs.
func (g *runs) stop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.stopping = true
}

// count returns the number of runs.
func (g *runs) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.all)
}

// add makes Stop wait until active.Done is called. It returns false if the engine is
// already stopping.
func (g *runs) add() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopping {
		return false
	}
	g.active.Add(1)
	return true
}

func (g *runs) cancelAll(cause error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for r := range g.all {
		r.cancel(cause)
	}
}

func (g *runs) isStopping() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stopping
}

// launch starts a run. The caller has acquired its slot and called add.
func (g *runs) launch(r *run) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.stopping {
		r.cancel(ErrStopping)
	}
	g.all[r] = struct{}{}
	g.active.Go(r.main)
}

// remove removes a run that has ended.
func (g *runs) remove(r *run) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.all, r)
}

// holders returns the runs that hold a lease, as far as known.
func (g *runs) holders() map[store.Key]*run {
	g.mu.Lock()
	defer g.mu.Unlock()
	byKey := make(map[store.Key]*run, len(g.all))
	for r := range g.all {
		if !r.out.ended() {
			byKey[r.lease.Key] = r
		}
	}
	return byKey
}
