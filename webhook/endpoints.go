package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	// saveEvery is the interval at which failures of endpoints are saved. Opening, closing
	// and disabling an endpoint are saved immediately.
	saveEvery = 15 * time.Second
	// refreshEvery is the minimum interval between reads of the endpoint records that other
	// processes saved: of open and disabled endpoints, and of those to be enabled.
	refreshEvery = time.Second

	// Lanes of an endpoint that recovered are woken as it has capacity: up to wakeBatch at
	// a time, checked every wakeEvery. Waking ends after wakeFor, when no lanes are found
	// twice, wakeRetry apart, or when maxWakeRefused lanes were deferred by the breakers of
	// their owners.
	wakeBatch      = 64
	wakeEvery      = 25 * time.Millisecond
	wakeFor        = time.Minute
	wakeRetry      = time.Second
	maxWakeRefused = 128

	// logEvery is the minimum interval between log records about the first failure of an
	// endpoint, and about its dead letters.
	logEvery = time.Minute
)

// loadEndpoints restores the state of endpoints from the store.
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
		e.stored, e.savedAt, e.usedAt = true, r.UpdatedAt, now
	}
	return nil
}

// logAttempt logs the first failure of an endpoint and its dead letters, each at most once per
// logEvery. s.mu must not be held.
func (s *Service) logAttempt(l *lane, sequence int64, r result) {
	if r.verdict == verdictDelivered || !s.shouldLog(l.endpoint, r.verdict) {
		return
	}
	log := s.log.With("task", l.lease.Task.ID, "webhook", l.lease.ID, "endpoint", l.endpoint.name.address, "event", sequence, "reason", r.reason)
	if r.detail != "" && r.detail != r.reason {
		log = log.With("detail", r.detail)
	}
	if r.verdict == verdictRetry {
		log.Info("webhook event was not delivered, it will be retried")
	} else {
		log.Warn("webhook event was not delivered, it is a dead letter; there may be more")
	}
}

// shouldLog reports whether the result of an attempt is to be logged.
func (s *Service) shouldLog(e *endpoint, v verdict) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := &e.deadLogged
	switch {
	case v == verdictRetry && e.failures == 1:
		last = &e.retryLogged
	case v == verdictReject, v == verdictRefused:
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

// recordResult updates the endpoint of a lane with the result of an attempt. s.mu must not be
// held.
func (s *Service) recordResult(l *lane, r result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, e := s.now(), l.endpoint
	e.usedAt = now
	if r.throttle {
		e.shrink(now, s.limits.perEndpoint)
	}
	var t transition
	switch r.verdict {
	case verdictDelivered, verdictReject, verdictGone:
		e.dirty = e.dirty || e.stored
		e.proven, l.trial = true, false
		e.grow()
		t = e.recordSuccess(now)
		if e.host.recordSuccess(now) && t == unchanged {
			t = recovers
		}
	case verdictRetry:
		e.dirty, e.proven = true, false
		e.host.failures++
		t = e.recordFailure(now, r.unanswered, l.trial)
		l.trial = false
		if e.failures >= recoverAfter {
			e.waking = false
		}
	case verdictRefused, verdictAborted:
		return
	}
	switch t {
	case unchanged:
		return
	case opens:
		s.log.Warn("webhook endpoint is failing, its circuit breaker opens", "endpoint", e.name.address, "failures", e.failures, "pause", e.backoff.Round(time.Millisecond))
		s.deferWaiting(e)
	case disables:
		s.log.Error("webhook endpoint disabled", "endpoint", e.name.address, "reason", e.reason)
		s.deferWaiting(e)
	case closes:
		s.log.Info("webhook endpoint recovered", "endpoint", e.name.address)
		s.limits.startWaking(e, now)
	case recovers:
		e.dirty = true
		if now.Sub(e.wokenAt) > minOpen {
			s.limits.startWaking(e, now)
		}
	}
	signal(s.endpointsChanged)
}

// recentlyContended reports whether lanes may be deferred because the endpoint had no
// capacity.
func (e *endpoint) recentlyContended(now time.Time) bool {
	return now.Sub(e.contendedAt).Abs() < maxDeferral
}

// wakeDeferred wakes lanes that were deferred for lack of capacity, if the endpoint has
// capacity now. It does nothing while lanes at the host back off after failures, since these
// would be woken too. s.mu is held.
func (s *Service) wakeDeferred(e *endpoint, now time.Time) {
	if !e.recentlyContended(now) || now.Before(e.host.retryUntil) || !s.limits.needsLanes(e, now) {
		return
	}
	if !e.waking {
		s.limits.startWaking(e, now)
	}
	if !now.Before(e.wakeAt) {
		signal(s.endpointWork)
	}
}

// deferWaiting releases the lanes that wait for an endpoint. s.mu is held.
func (s *Service) deferWaiting(e *endpoint) {
	now := s.now()
	for len(e.waiting) > 0 {
		l := e.waiting[0]
		due, _, _ := e.allow(now, s.cfg.random())
		if due.IsZero() {
			due = now
		}
		s.limits.remove(l, now)
		s.releaseLane(l, due)
	}
}

// blocked reports whether a lane must not be delivered because its endpoint is disabled. A lane
// that was saved or replayed after that, by any process, enables the endpoint. s.mu is held.
func (s *Service) blocked(l *lane) bool {
	e := l.endpoint
	if !e.disabled {
		return false
	}
	if l.Attempt == 0 && l.UpdatedAt.After(e.lastAt.Add(2*s.cfg.Lease)) {
		s.enableLocked(e)
	}
	return e.disabled
}

// enable enables a disabled endpoint, because a webhook of it was saved or replayed. If
// another process may have disabled it, the store is checked soon after.
func (s *Service) enable(ctx context.Context, name endpointName) error {
	s.mu.Lock()
	e := s.limits.endpoints[name]
	disabled := e != nil && e.disabled
	if disabled {
		s.enableLocked(e)
	} else {
		s.toEnable[name] = true
		signal(s.endpointWork)
	}
	s.mu.Unlock()
	if !disabled {
		return nil
	}
	if err := s.cfg.Store.SaveEndpoint(ctx, store.Endpoint{Name: name.record(), UpdatedAt: store.Time(s.now())}); err != nil {
		return fmt.Errorf("enable endpoint %s: %w", name.address, err)
	}
	return nil
}

// enableLocked enables an endpoint of this process. s.mu is held.
func (s *Service) enableLocked(e *endpoint) {
	s.log.Info("webhook endpoint enabled", "endpoint", e.name.address)
	e.reset()
	e.dirty = true
	signal(s.endpointsChanged)
}

// refreshEndpoints reads the endpoint records of other processes if endpoints of the claimed
// lanes are open or disabled here.
func (s *Service) refreshEndpoints(ctx context.Context, claimed []store.ClaimedLane) {
	s.mu.Lock()
	now, ask := s.now(), false
	for i := range claimed {
		e := s.limits.endpoints[s.endpointOf(&claimed[i].Webhook)]
		if e != nil && claimed[i].State == store.LaneActive {
			ask = ask || e.disabled || e.open && now.Sub(s.endpointsReadAt).Abs() >= refreshEvery
		}
	}
	s.mu.Unlock()
	if ask {
		s.syncEndpoints(ctx)
	}
}

// syncEndpoints updates open and disabled endpoints from newer records in the store: another
// process may have reached or disabled them.
func (s *Service) syncEndpoints(ctx context.Context) {
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
	s.endpointsReadAt = asked
	for name, e := range s.limits.endpoints {
		r, found := byName[name.record()]
		switch {
		case e.dirty || !e.open && !e.disabled || e.savedAt.After(asked):
		case !found && e.disabled:
			e.reset()
			e.stored = false
		case !found && e.stored:
			e.openUntil, e.stored, e.dirty = asked, false, true // another process has reached it
		case found && r.UpdatedAt.After(e.savedAt):
			e.restore(r, asked)
			e.savedAt = r.UpdatedAt
		}
	}
}

// maintainEndpoints saves changed endpoints and wakes the lanes of recovered ones.
func (s *Service) maintainEndpoints(ctx context.Context, beat func()) {
	saved, applied := s.now(), time.Time{}
	for ctx.Err() == nil {
		now, wait := s.now(), saveEvery
		if s.wakeLanes(ctx) {
			wait = wakeEvery
		}
		if all := now.Sub(saved) >= saveEvery; all || s.takeSaveNow() {
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
		case <-s.endpointsChanged:
			s.mu.Lock()
			s.saveNow = true
			s.mu.Unlock()
		case <-s.endpointWork:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (s *Service) takeSaveNow() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	urgent := s.saveNow
	s.saveNow = false
	return urgent
}

// saveEndpoints saves changed endpoints.
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
			if r := e.record(e.name.record(), now); e.stored || e.failures > 0 || e.disabled {
				e.stored, e.savedAt = e.failures > 0 || e.disabled, r.UpdatedAt
				changes = append(changes, change{e, r})
			}
		}
	}
	s.mu.Unlock()
	for _, c := range changes {
		if err := s.cfg.Store.SaveEndpoint(ctx, c.record); err != nil {
			s.mu.Lock()
			c.e.dirty, c.e.stored = true, true
			s.mu.Unlock()
			if ctx.Err() == nil {
				s.log.Warn("save webhook endpoint", "endpoint", c.e.name.address, "error", err)
			}
		}
	}
}

// applyEnabled enables endpoints in the store that another process disabled. It reports
// whether it read the store.
func (s *Service) applyEnabled(ctx context.Context) bool {
	s.mu.Lock()
	enabled := s.toEnable
	s.toEnable = make(map[endpointName]bool)
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
			s.toEnable[name] = true
		}
	}
	return true
}

// wakeLanes wakes lanes of endpoints that recovered or have capacity again, up to their
// limits. It reports whether more lanes remain to be woken.
func (s *Service) wakeLanes(ctx context.Context) (waking bool) {
	now := s.now()
	limits, asked := make(map[*endpoint]int), make(map[*host]bool) // one endpoint per host: lanes are woken by address
	s.mu.Lock()
	for e := range s.limits.waking {
		if e.waking = e.waking && now.Sub(e.wokenAt).Abs() < wakeFor && e.host.breakerRefused < maxWakeRefused; !e.waking {
			delete(s.limits.waking, e)
			continue
		}
		waking = true
		if now.Sub(e.host.wokenAt) > wakeRetry {
			e.host.woken = 0 // other processes claimed them
		}
		if s.limits.needsLanes(e, now) && !now.Before(e.wakeAt) && !asked[e.host] {
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
			s.wakeDispatcher()
		}
		s.mu.Lock()
		e.recordWoken(n, now, err)
		s.mu.Unlock()
	}
	return waking
}

// recordWoken records that n lanes were woken, and when to continue.
func (e *endpoint) recordWoken(n int, now time.Time, err error) {
	switch {
	case n > 0:
		e.noneLeft, e.wakeAt = false, now
		e.host.woken, e.host.wokenAt = e.host.woken+n, now
	case err == nil && e.recentlyContended(now):
		e.wakeAt = now.Add(wakeEvery)
	case err == nil && e.noneLeft:
		e.waking = false
	default:
		e.noneLeft, e.wakeAt = err == nil, now.Add(wakeRetry)
	}
}
