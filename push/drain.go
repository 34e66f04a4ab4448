package push

import (
	"context"
	"time"
)

// drainPoll is how often Drain looks.
const drainPoll = 2 * time.Millisecond

// Drain waits until what is due has been dealt with, or until ctx is done; call it
// before Stop, when no more is to come. It returns at once if the service does not run.
func (s *Service) Drain(ctx context.Context) {
	if s.state.Load() != stateRunning {
		return
	}
	ticker := time.NewTicker(drainPoll)
	defer ticker.Stop()
	for {
		idle, claims := s.atRest()
		if idle {
			s.kick()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if still, now := s.atRest(); idle && still && now > claims {
			return // a claim has begun and ended since, and found nothing
		}
	}
}

// atRest reports whether nothing is being claimed or delivered, and how many claims have
// found nothing.
func (s *Service) atRest() (idle bool, empty uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lanes) == 0 && !s.claiming, s.empty
}
