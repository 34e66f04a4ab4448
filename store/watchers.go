package store

import (
	"slices"
	"sync"
)

// LaneWatchers holds the functions registered with WatchLanes. It is safe for concurrent use.
type LaneWatchers struct {
	mu  sync.Mutex
	all []*func()
}

// Add registers f. stop removes it.
func (w *LaneWatchers) Add(f func()) (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(slices.Clone(w.all), &f)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all = slices.DeleteFunc(slices.Clone(w.all), func(g *func()) bool { return g == &f })
	}
}

// Notify calls all registered functions. The caller holds no lock.
func (w *LaneWatchers) Notify() {
	w.mu.Lock()
	all := w.all
	w.mu.Unlock()
	for _, f := range all {
		(*f)()
	}
}
