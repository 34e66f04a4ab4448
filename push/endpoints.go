package push

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	// saveEvery is how often the failures of endpoints are saved; that one is opened,
	// closed or disabled is saved at once.
	saveEvery = 15 * time.Second
	// refreshEvery is how often the store is asked what other processes know of
	// endpoints that are not to be called, or of those that webhooks are saved for.
	refreshEvery = time.Second

	// Lanes of an endpoint that answers again are woken as it takes them in: wakeBatch at
	// once, checked every wakeEvery, for no longer than wakeFor, and a last time
	// wakeAgain after there were none; or until wakeRefused were of owners whose own
	// breakers do not let them.
	wakeBatch   = 64
	wakeEvery   = 25 * time.Millisecond
	wakeFor     = time.Minute
	wakeAgain   = time.Second
	wakeRefused = 128

	// logEvery is how often it is logged at most that an endpoint begins to fail, and that it
	// has made an event a dead letter.
	logEvery = time.Minute
)

// loadEndpoints brings back what is known of endpoints.
func (s *Service) loadEndpoints(ctx context.Context) error {
	records, err := s.cfg.Store.Endpoints(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, r := range records {
		e := s.limits.endpoint(nameOfRecord(r.Name))
		e.restore(r, now)
		e.host.failures += r.Failures
		e.kept, e.savedAt, e.usedAt = true, r.UpdatedAt, now
	}
	return nil
}

// logAttempt logs the first failure of an endpoint that worked, and that an event became a
// dead letter, if the same was not logged just now. s.mu must not be held.
func (s *Service) logAttempt(l *lane, sequence int64, r result) {
	if r.verdict == deliver || !s.logsAttempt(l.endpoint, r.verdict) {
		return
	}
	log := s.log.With("task", l.lease.Task.ID, "webhook", l.lease.ID, "endpoint", l.endpoint.name.address, "event", sequence, "reason", r.reason)
	if r.detail != "" && r.detail != r.reason {
		log = log.With("detail", r.detail)
	}
	if r.verdict == retry {
		log.Info("webhook event was not taken, it is tried again")
	} else {
		log.Warn("webhook event was not taken, it is a dead letter; there may be more")
	}
}

// logsAttempt reports whether what came of an attempt is to be logged.
func (s *Service) logsAttempt(e *endpoint, v verdict) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := &e.deadLogged
	switch {
	case v == retry && e.failures == 1:
		last = &e.retryLogged
	case v == reject, v == refuse:
	default:
		return false
	}
	now := s.now()
	if !last.IsZero() && now.Sub(*last).Abs() < logEvery {
		return false
	}
	*last = now
	return true
}

// note tells the endpoint of a lane what came of an attempt. s.mu must not be held.
func (s *Service) note(l *lane, r result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, e := s.now(), l.endpoint
	e.usedAt = now
	if r.throttle {
		e.shrink(now, s.limits.perEndpoint)
	}
	var t transition
	switch r.verdict {
	case deliver, reject, gone:
		e.dirty = e.dirty || e.kept
		e.proven, l.trial = true, false
		e.grow()
		t = e.succeeded(now)
		if e.host.answered(now) && t == stays {
			t = recovers
		}
	case retry:
		e.dirty, e.proven = true, false
		e.host.failures++
		t = e.failedOnce(now, r.silent, l.trial)
		l.trial = false
		if e.failures >= recoverAfter {
			e.waking = false
		}
	case refuse, abort:
		return
	}
	switch t {
	case stays:
		return
	case opens:
		s.log.Warn("webhook endpoint does not answer properly", "endpoint", e.name.address, "failures", e.failures, "pause", e.backoff.Round(time.Millisecond))
		s.putOffWaiting(e)
	case disables:
		s.log.Error("webhook endpoint disabled", "endpoint", e.name.address, "reason", e.reason)
		s.putOffWaiting(e)
	case closes:
		s.log.Info("webhook endpoint answers again", "endpoint", e.name.address)
		s.limits.wake(e, now)
	case recovers:
		e.dirty = true
		if now.Sub(e.wokenAt) > shortestOpen {
			s.limits.wake(e, now)
		}
	}
	signal(s.changed)
}

// lacked reports whether lanes may be put off because there was no room for them.
func (e *endpoint) lacked(now time.Time) bool { return now.Sub(e.crowded).Abs() < longestWait }

// recall has lanes woken that were put off, if there is room for them now. While others
// wait because their attempts have failed, which would be woken too, it is left to time.
// s.mu is held.
func (s *Service) recall(e *endpoint, now time.Time) {
	if !e.lacked(now) || now.Before(e.host.pausing) || !s.limits.starves(e, now) {
		return
	}
	if !e.waking {
		s.limits.wake(e, now)
	}
	if !now.Before(e.wakeAt) {
		signal(s.attend)
	}
}

// putOffWaiting gives back the lanes that wait for an endpoint. s.mu is held.
func (s *Service) putOffWaiting(e *endpoint) {
	now := s.now()
	for len(e.waiting) > 0 {
		l := e.waiting[0]
		due, _, _ := e.admit(now, s.cfg.random())
		if due.IsZero() {
			due = now
		}
		s.limits.leave(l, now)
		s.giveBack(l, due)
	}
}

// bars reports whether a lane must not be worked because its endpoint is disabled. One
// that was saved or set back since then, here or elsewhere, enables it. s.mu is held.
func (s *Service) bars(l *lane) bool {
	e := l.endpoint
	if !e.disabled {
		return false
	}
	if l.Attempt == 0 && l.UpdatedAt.After(e.lastAt.Add(2*s.cfg.Lease)) {
		s.allow(e)
	}
	return e.disabled
}

// enable has a disabled endpoint called again, since a webhook of it is saved or was set
// back. That another process has disabled it is looked up soon after.
func (s *Service) enable(ctx context.Context, name endpointName) error {
	s.mu.Lock()
	e := s.limits.endpoints[name]
	known := e != nil && e.disabled
	if known {
		s.allow(e)
	} else {
		s.enabled[name] = true
		signal(s.attend)
	}
	s.mu.Unlock()
	if !known {
		return nil
	}
	if err := s.cfg.Store.SaveEndpoint(ctx, store.Endpoint{Name: name.record(), UpdatedAt: store.Time(s.now())}); err != nil {
		return fmt.Errorf("enable endpoint %s: %w", name.address, err)
	}
	return nil
}

// allow enables an endpoint. s.mu is held.
func (s *Service) allow(e *endpoint) {
	s.log.Info("webhook endpoint enabled", "endpoint", e.name.address)
	e.enable()
	e.dirty = true
	signal(s.changed)
}

// refresh asks what other processes have found out about the endpoints of lanes that
// would not be called.
func (s *Service) refresh(ctx context.Context, claimed []store.ClaimedLane) {
	s.mu.Lock()
	now, ask := s.now(), false
	for i := range claimed {
		e := s.limits.endpoints[s.endpointOf(&claimed[i].Config)]
		if e != nil && claimed[i].State == store.LaneActive {
			ask = ask || e.disabled || e.open && now.Sub(s.refreshed).Abs() >= refreshEvery
		}
	}
	s.mu.Unlock()
	if ask {
		s.adopt(ctx)
	}
}

// adopt takes over what the store knows better of endpoints that are not called: that
// another process could, or disabled one.
func (s *Service) adopt(ctx context.Context) {
	asked := s.now()
	records, err := s.cfg.Store.Endpoints(ctx)
	if err != nil {
		s.log.Warn("read webhook endpoints", "error", err)
		return
	}
	byName := make(map[string]store.Endpoint, len(records))
	for _, r := range records {
		byName[r.Name] = r
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refreshed = asked
	for name, e := range s.limits.endpoints {
		r, found := byName[name.record()]
		switch {
		case e.dirty || !e.open && !e.disabled || e.savedAt.After(asked):
		case !found && e.disabled:
			e.enable()
			e.kept = false
		case !found && e.kept:
			e.openUntil, e.kept, e.dirty = asked, false, true // somebody has reached it
		case found && r.UpdatedAt.After(e.savedAt):
			e.restore(r, asked)
			e.savedAt = r.UpdatedAt
		}
	}
}

// tend saves what is known of endpoints, and wakes the lanes of those that answer again.
func (s *Service) tend(ctx context.Context, beat func()) {
	saved, applied := s.now(), time.Time{}
	for ctx.Err() == nil {
		now, wait := s.now(), saveEvery
		if s.wakeAll(ctx) {
			wait = wakeEvery
		}
		if all := now.Sub(saved) >= saveEvery; all || s.takeChanged() {
			saved = now
			s.saveEndpoints(ctx)
		}
		if left := refreshEvery - now.Sub(applied).Abs(); left <= 0 {
			if s.applyEnabled(ctx) {
				applied = now
			}
		} else {
			wait = min(wait, left)
		}
		beat()
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-s.changed:
			s.mu.Lock()
			s.urgent = true
			s.mu.Unlock()
		case <-s.attend:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (s *Service) takeChanged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	urgent := s.urgent
	s.urgent = false
	return urgent
}

// saveEndpoints saves what the store does not know.
func (s *Service) saveEndpoints(ctx context.Context) {
	type change struct {
		e      *endpoint
		record store.Endpoint
	}
	var changes []change
	now := s.now()
	s.mu.Lock()
	for _, e := range s.limits.endpoints {
		if e.dirty {
			e.dirty = false
			if r := e.record(e.name.record(), now); e.kept || e.failures > 0 || e.disabled {
				e.kept, e.savedAt = e.failures > 0 || e.disabled, r.UpdatedAt
				changes = append(changes, change{e, r})
			}
		}
	}
	s.mu.Unlock()
	for _, c := range changes {
		if err := s.cfg.Store.SaveEndpoint(ctx, c.record); err != nil {
			s.mu.Lock()
			c.e.dirty, c.e.kept = true, true
			s.mu.Unlock()
			if ctx.Err() == nil {
				s.log.Warn("save webhook endpoint", "endpoint", c.e.name.address, "error", err)
			}
		}
	}
}

// applyEnabled enables endpoints that another process has disabled, and reports whether
// there were any to look up.
func (s *Service) applyEnabled(ctx context.Context) bool {
	s.mu.Lock()
	enabled := s.enabled
	s.enabled = make(map[endpointName]bool)
	s.mu.Unlock()
	if len(enabled) == 0 {
		return false
	}
	records, err := s.cfg.Store.Endpoints(ctx)
	for _, r := range records {
		if err == nil && r.Disabled && enabled[nameOfRecord(r.Name)] {
			err = s.cfg.Store.SaveEndpoint(ctx, store.Endpoint{Name: r.Name, UpdatedAt: store.Time(s.now())})
		}
	}
	if err != nil {
		s.log.Warn("enable webhook endpoints", "error", err)
		s.mu.Lock()
		defer s.mu.Unlock()
		for name := range enabled {
			s.enabled[name] = true
		}
	}
	return true
}

// wakeAll wakes lanes of endpoints that answer again or have room again, as far as they
// take more in. It reports whether there is an endpoint whose lanes are being woken.
func (s *Service) wakeAll(ctx context.Context) (waking bool) {
	now := s.now()
	limits, asked := make(map[*endpoint]int), make(map[*host]bool) // lanes are woken by their address
	s.mu.Lock()
	for e := range s.limits.waking {
		if e.waking = e.waking && now.Sub(e.wokenAt).Abs() < wakeFor && e.host.refused < wakeRefused; !e.waking {
			delete(s.limits.waking, e)
			continue
		}
		waking = true
		if now.Sub(e.host.wokenAt) > wakeAgain {
			e.host.woken = 0 // others have claimed them
		}
		if s.limits.starves(e, now) && !now.Before(e.wakeAt) && !asked[e.host] {
			asked[e.host] = true
			limits[e] = min(max(waitingPerSlot*e.slots(now, s.limits.perEndpoint)-len(e.waiting)-e.host.woken, 1), wakeBatch)
		}
	}
	s.mu.Unlock()
	for e, limit := range limits {
		n, err := s.cfg.Store.WakeLanes(ctx, e.name.address, store.Time(now), limit)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("wake webhook lanes", "endpoint", e.name.address, "error", err)
		}
		if n > 0 {
			s.kick()
		}
		s.mu.Lock()
		e.woke(n, now, err)
		s.mu.Unlock()
	}
	return waking
}

// woke notes how many lanes were woken.
func (e *endpoint) woke(n int, now time.Time, err error) {
	switch {
	case n > 0:
		e.drained, e.wakeAt = false, now
		e.host.woken, e.host.wokenAt = e.host.woken+n, now
	case err == nil && e.lacked(now):
		e.wakeAt = now.Add(wakeEvery)
	case err == nil && e.drained:
		e.waking = false
	default:
		e.drained, e.wakeAt = err == nil, now.Add(wakeAgain)
	}
}
