package postgres

import (
	"slices"
	"sync"
)

// laneWatchers holds the callbacks of WatchLanes.
type laneWatchers struct {
	mu  sync.Mutex
	all []*func()
}

func (w *laneWatchers) notify() {
	w.mu.Lock()
	all := w.all
	w.mu.Unlock()
	for _, f := range all {
		(*f)()
	}
}

// WatchLanes implements [store.Lanes]. It receives notifications of other processes only
// while Watch runs.
func (s *Store) WatchLanes(f func()) (stop func()) {
	w := &s.laneWatchers
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(slices.Clone(w.all), &f)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all = slices.DeleteFunc(slices.Clone(w.all), func(g *func()) bool { return g == &f })
	}
}

// lanesDue notifies watchers of lanes in this process and in others if due is true.
func (s *Store) lanesDue(due bool) {
	if due {
		s.outbox.addLanes()
		s.laneWatchers.notify()
	}
}
