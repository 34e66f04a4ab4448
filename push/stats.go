package push

import (
	"fmt"
	"time"
)

// Stats counts what a service has done since it was started, and does.
type Stats struct {
	Delivered int64 // events
	Failed    int64 // attempts that did not deliver
	Dead      int64 // events that became dead letters

	InFlight int   // lanes that are being worked
	Waiting  int   // lanes that wait for a request to their endpoint to end
	Claimed  int   // lanes of this process, these included
	Memory   int64 // bytes that they take
	Starved  int   // of these, lanes that wait for memory
	Refused  int64 // times that a lane was put off for want of memory
	Open     int   // endpoints that are not called for a while
	Disabled int   // endpoints that are not called at all

	Expired Expired
}

// Expired counts what the service has removed because of its age.
type Expired struct {
	Attempts    int64
	DeadLetters int64
	Webhooks    int64
}

// Stats returns what the service has done and does. It costs no call of the store.
func (s *Service) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := Stats{
		Delivered: s.delivered.Load(), Failed: s.failed.Load(), Dead: s.dead.Load(),
		InFlight: s.limits.active, Waiting: s.limits.waiting, Claimed: len(s.lanes),
		Memory: s.ledger.held.Load(), Starved: int(s.ledger.waiting.Load()), Refused: s.ledger.refused.Load(),
		Expired: Expired{s.expired.attempts.Load(), s.expired.dead.Load(), s.expired.webhooks.Load()},
	}
	for _, e := range s.limits.endpoints {
		switch {
		case e.disabled:
			stats.Disabled++
		case e.open:
			stats.Open++
		}
	}
	return stats
}

// stuckAfter is how often a lane could not be acknowledged when it is told as a problem.
const stuckAfter = 10

// Health returns what is wrong with the service; nothing when all is well. That
// receivers fail is not.
func (s *Service) Health() (problems []string) {
	s.mu.Lock()
	stopping, stuck, idle := s.stopping, 0, s.limits.idle()
	for _, l := range s.acks {
		if l.alone >= stuckAfter {
			stuck++
		}
	}
	s.mu.Unlock()
	if s.state.Load() != stateRunning || stopping {
		return []string{"push: not running"}
	}
	if stuck > 0 {
		problems = append(problems, fmt.Sprintf("push: what became of %d webhooks cannot be stored", stuck))
	}
	if len(idle) > 0 {
		problems = append(problems, fmt.Sprintf("push: webhooks wait for %d endpoints that are not being called", len(idle)))
	}
	limit := 10 * max(s.cfg.Poll, s.cfg.Lease, saveEvery)
	for name, last := range s.alive {
		if silent := s.now().Sub(time.Unix(0, last.Load())); silent > limit {
			problems = append(problems, fmt.Sprintf("push %s loop: silent for %s", name, silent.Round(time.Second)))
		}
	}
	return problems
}
