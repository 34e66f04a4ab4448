package webhook

import (
	"context"
	"time"
)

// drainPoll is the interval at which Drain checks the service.
const drainPoll = 2 * time.Millisecond

// Drain waits until no lane is due or in progress, a claim fails, or ctx is done. Call it
// before Stop, when no more events will be written. It returns immediately if the service is
// not running.
func (s *Service) Drain(ctx context.Context) {
	if s.state.Load() != stateRunning {
		return
	}
	ticker := time.NewTicker(drainPoll)
	defer ticker.Stop()
	_, _, failures := s.claimState()
	for {
		idle, claims, _ := s.claimState()
		if idle {
			s.wakeDispatcher()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		still, now, failed := s.claimState()
		if failed > failures {
			return // the lanes are claimed after the outage
		}
		if idle && still && now > claims {
			return // a claim that started later found nothing
		}
	}
}

// claimState reports whether the service is neither claiming nor delivering, and returns the
// number of claims that found nothing and that failed.
func (s *Service) claimState() (idle bool, empty, failed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lanes) == 0 && !s.claiming, s.emptyClaims, s.failedClaims
}
