package postgres

// WatchLanes implements [store.Lanes]. It receives notifications of other processes only
// while Watch runs.
func (s *Store) WatchLanes(f func()) (stop func()) { return s.laneWatchers.Add(f) }

// lanesDue notifies watchers of lanes in this process and in others if due is true.
func (s *Store) lanesDue(due bool) {
	if due {
		s.outbox.addLanes()
		s.laneWatchers.Notify()
	}
}
