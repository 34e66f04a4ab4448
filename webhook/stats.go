package webhook

import (
	"fmt"
	"time"
)

// Stats has counters since the start of a service, and its current state.
type Stats struct {
	Delivered int64 // delivered events
	Failed    int64 // failed attempts
	Dead      int64 // events that became dead letters

	InFlight int   // lanes in progress
	Waiting  int   // claimed lanes that wait for a slot of their endpoint
	Claimed  int   // lanes claimed by this process, including InFlight and Waiting
	Memory   int64 // bytes reserved for requests
	Starved  int   // lanes in progress that wait for memory
	Refused  int64 // failed reservations of memory
	Open     int   // endpoints whose circuit breaker is open
	Disabled int   // disabled endpoints

	Expired Expired
}

// Expired counts removed records whose retention ended.
type Expired struct {
	Attempts    int64
	DeadLetters int64
	Webhooks    int64
}

// Stats returns the current counters. It does not call the store.
func (s *Service) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := Stats{
		Delivered: s.delivered.Load(), Failed: s.failed.Load(), Dead: s.dead.Load(),
		InFlight: s.limits.active, Waiting: s.limits.waiting, Claimed: len(s.lanes),
		Memory: s.memory.held.Load(), Starved: int(s.memory.waiting.Load()), Refused: s.memory.refused.Load(),
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

// stuckFailures is the number of consecutive ack failures of a lane that Health reports.
const stuckFailures = 10

// Health returns the problems of the service. Failing receivers are not problems.
func (s *Service) Health() (problems []string) {
	s.mu.Lock()
	stopping, stuck, idle := s.stopping, 0, s.limits.stalled()
	for _, l := range s.acks {
		if l.ackFailures >= stuckFailures {
			stuck++
		}
	}
	s.mu.Unlock()
	if s.state.Load() != stateRunning || stopping {
		return []string{"webhooks: not running"}
	}
	if stuck > 0 {
		problems = append(problems, fmt.Sprintf("webhooks: cannot store the delivery results of %d webhooks", stuck))
	}
	if len(idle) > 0 {
		problems = append(problems, fmt.Sprintf("webhooks: webhooks wait for %d endpoints without requests in progress", len(idle)))
	}
	limit := 10 * max(s.cfg.Poll, s.cfg.Lease, saveEvery)
	for name, last := range s.lastBeat {
		if silent := s.now().Sub(time.Unix(0, last.Load())); silent > limit {
			problems = append(problems, fmt.Sprintf("webhooks: %s loop: silent for %s", name, silent.Round(time.Second)))
		}
	}
	return problems
}
