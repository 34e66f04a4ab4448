package push

import (
	"context"
	"time"
)

// drainPoll is how often Drain looks.
const drainPoll = 2 * time.Millisecond

// Drain waits until what is due has been dealt with, until the store fails to say what is, or until
// ctx is done; call it before Stop, when no more is to come. It returns at once if the service does
// not run.
func (s *Service) Drain(ctx context.Context) {
	if s.state.Load() != stateRunning {
		return
	}
	ticker := time.NewTicker(drainPoll)
	defer ticker.Stop()
	_, _, failures := s.atRest()
	for {
		idle, claims, _ := s.atRest()
		if idle {
			s.kick()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		still, now, failed := s.atRest()
		if failed > failures {
			return // what is due is claimed when the store is back
		}
		if idle && still && now > claims {
			return // a claim has begun and ended since, and found nothing
		}
	}
}

// atRest reports whether nothing is being claimed or delivered, and how many claims have
// found nothing or have failed.
func (s *Service) atRest() (idle bool, empty, failed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lanes) == 0 && !s.claiming, s.empty, s.unclaimed
}
