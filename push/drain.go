package push

import (
	"context"
	"time"
)

// drainPoll is how often Drain looks, drainQuiet how often in a row it must find nothing.
const (
	drainPoll  = 5 * time.Millisecond
	drainQuiet = 3
)

// Drain waits until what is due has been dealt with, or until ctx is done; call it
// before Stop, when no more is to come. It returns at once if the service does not run or
// other processes share its store: they go on.
func (s *Service) Drain(ctx context.Context) {
	if s.state.Load() != stateRunning || !s.cfg.Store.Info().Exclusive {
		return
	}
	s.kick()
	ticker := time.NewTicker(drainPoll)
	defer ticker.Stop()
	for quiet := 0; quiet < drainQuiet; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if quiet++; !s.atRest() {
			quiet = 0
		}
	}
}

// atRest reports whether nothing is being claimed, or delivered.
func (s *Service) atRest() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lanes) == 0 && !s.claiming && !s.hungry && len(s.wake) == 0
}
