package postgres

import (
	"slices"
	"sync"
)

// watchers are those who want to know of due lanes.
type watchers struct {
	mu  sync.Mutex
	all []*func()
}

func (w *watchers) tell() {
	w.mu.Lock()
	all := w.all
	w.mu.Unlock()
	for _, f := range all {
		(*f)()
	}
}

// WatchLanes implements [store.PushStore]. Other processes are heard of while a Watch
// runs.
func (s *Store) WatchLanes(f func()) (stop func()) {
	w := &s.watchers
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(slices.Clone(w.all), &f)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all = slices.DeleteFunc(slices.Clone(w.all), func(g *func()) bool { return g == &f })
	}
}

// lanesDue tells those who watch, here and elsewhere, that lanes are due.
func (s *Store) lanesDue(due bool) {
	if due {
		s.news.addLanes()
		s.watchers.tell()
	}
}
