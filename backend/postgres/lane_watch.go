package postgres

// WatchLanes implements [store.Lanes]. It receives notifications of other processes only
// while Watch runs.
func (s *notifier) WatchLanes(f func()) (stop func()) { return s.laneWatchers.Add(f) }

// lanesDue notifies watchers of lanes in this process and in others if due is true.
func (s *notifier) lanesDue(due bool) {
	if due {
		s.outbox.addLanes()
		s.laneWatchers.Notify()
	}
}
