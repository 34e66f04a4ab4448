package webhook

import (
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/internal/runtime"
)

// endpointRegistry has the endpoints that this process calls. It limits the requests to each
// endpoint and of each owner, applies circuit breakers, saves the state of endpoints, and wakes
// lanes when an endpoint recovers.
type endpointRegistry struct {
	*common
	acks    *acknowledger
	wake    runtime.Signal // makes the claimer claim due lanes
	changed runtime.Signal // an endpoint was opened, closed, disabled or enabled
	work    runtime.Signal // endpoints have lanes to wake, or are to be enabled

	mu       sync.Mutex
	limits   limits
	toEnable map[endpointName]bool // endpoints to enable in the store
	saveNow  bool                  // save endpoints without waiting for saveEvery
	readAt   time.Time             // when the store's endpoints were last read
}

func newEndpointRegistry(common *common, acks *acknowledger, wake runtime.Signal) *endpointRegistry {
	return &endpointRegistry{
		common: common, acks: acks, wake: wake, changed: runtime.NewSignal(), work: runtime.NewSignal(),
		limits: newLimits(common.cfg), toEnable: make(map[endpointName]bool),
	}
}

// claimed records that a lane of an endpoint was claimed, and returns the endpoint.
func (g *endpointRegistry) claimed(name endpointName) *endpoint {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.limits.endpoint(name)
	e.usedAt = g.now()
	e.host.woken = max(e.host.woken-1, 0)
	return e
}

// usage returns the number of lanes that wait, and the owners that claims must skip.
func (g *endpointRegistry) usage(now time.Time) (waiting int, skip []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limits.waiting, g.limits.ownersAtLimit(now)
}

// blockOwner excludes the lanes of an owner from claims until the given time, because the owner
// has used its share of memory.
func (g *endpointRegistry) blockOwner(owner string, until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limits.blocked[owner] = until
}

// admit reports whether a lane may start. If not, it waits for its endpoint, or must be claimed
// again at retry.
func (g *endpointRegistry) admit(l *lane, now time.Time) (retry time.Time, started bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limits.admit(l, now, g.cfg.random())
}

// removeWaiting removes a lane that waits for its endpoint, and reports whether it did.
func (g *endpointRegistry) removeWaiting(l *lane) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !l.startedAt.IsZero() || !l.counted {
		return false
	}
	g.limits.remove(l, g.now())
	return true
}

// allow reports whether the circuit breaker allows an attempt of a lane. If not, the lane is
// due again at retry.
func (g *endpointRegistry) allow(l *lane, now time.Time) (retry time.Time, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if l.endpoint.disabled {
		return now, false
	}
	if !l.trial {
		if retry, l.trial, ok = l.endpoint.allow(now, g.cfg.random()); !ok {
			return retry, false
		}
	}
	return time.Time{}, true
}

// finish ends the work on a lane, which is due again at due. It returns the waiting lanes that
// start in its place.
func (g *endpointRegistry) finish(l *lane, due, now time.Time) (next []*lane) {
	g.mu.Lock()
	defer g.mu.Unlock()
	next = g.limits.remove(l, now)
	if h := l.endpoint.host; l.Attempt > 0 && due.After(h.retryUntil) {
		h.retryUntil = due
	}
	g.wakeDeferred(l.endpoint, now)
	return next
}

// recordResult updates the endpoint of a lane with the result of an attempt. g.mu must not be
// held.
func (g *endpointRegistry) recordResult(l *lane, r result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now, e := g.now(), l.endpoint
	e.usedAt = now
	if r.throttle {
		e.shrink(now, g.limits.perEndpoint)
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
			e.wake.active = false
		}
	case verdictRefused, verdictAborted:
		return
	}
	switch t {
	case unchanged:
		return
	case opens:
		g.log.Warn("webhook endpoint is failing, its circuit breaker opens", "endpoint", e.name.address, "failures", e.failures, "pause", e.backoff.Round(time.Millisecond))
		g.deferWaiting(e)
	case disables:
		g.log.Error("webhook endpoint disabled", "endpoint", e.name.address, "reason", e.reason)
		g.deferWaiting(e)
	case closes:
		g.log.Info("webhook endpoint recovered", "endpoint", e.name.address)
		g.limits.startWaking(e, now)
	case recovers:
		e.dirty = true
		if now.Sub(e.wake.startedAt) > minOpen {
			g.limits.startWaking(e, now)
		}
	}
	g.changed.Send()
}

// recentlyContended reports whether lanes may be deferred because the endpoint had no
// capacity.
func (e *endpoint) recentlyContended(now time.Time) bool {
	return now.Sub(e.contendedAt).Abs() < maxDeferral
}

// wakeDeferred wakes lanes that were deferred for lack of capacity, if the endpoint has
// capacity now. It does nothing while lanes at the host back off after failures, since these
// would be woken too. g.mu is held.
func (g *endpointRegistry) wakeDeferred(e *endpoint, now time.Time) {
	if !e.recentlyContended(now) || now.Before(e.host.retryUntil) || !g.limits.needsLanes(e, now) {
		return
	}
	if !e.wake.active {
		g.limits.startWaking(e, now)
	}
	if !now.Before(e.wake.nextAt) {
		g.work.Send()
	}
}

// deferWaiting releases the lanes that wait for an endpoint. g.mu is held.
func (g *endpointRegistry) deferWaiting(e *endpoint) {
	now := g.now()
	for len(e.waiting) > 0 {
		l := e.waiting[0]
		due, _, _ := e.allow(now, g.cfg.random())
		if due.IsZero() {
			due = now
		}
		g.limits.remove(l, now)
		g.acks.release(l, due)
	}
}

// blocked reports whether a lane must not be delivered because its endpoint is disabled, and
// why it was disabled. If the webhook was saved or replayed after that, by any process, blocked
// enables the endpoint.
func (g *endpointRegistry) blocked(l *lane) (reason string, blocked bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	e := l.endpoint
	if !e.disabled {
		return "", false
	}
	if l.Attempt == 0 && l.UpdatedAt.After(e.lastAt.Add(2*g.cfg.Lease)) {
		g.enableLocked(e)
	}
	return e.reason, e.disabled
}

// enableLocked enables an endpoint of this process. g.mu is held.
func (g *endpointRegistry) enableLocked(e *endpoint) {
	g.log.Info("webhook endpoint enabled", "endpoint", e.name.address)
	e.reset()
	e.dirty = true
	g.changed.Send()
}

// logEvery is the minimum interval between log records about the first failure of an endpoint,
// and about its dead letters.
const logEvery = time.Minute

// logAttempt logs the first failure of an endpoint and its dead letters, each at most once per
// logEvery. g.mu must not be held.
func (g *endpointRegistry) logAttempt(l *lane, sequence int64, r result) {
	if r.verdict == verdictDelivered || !g.shouldLog(l.endpoint, r.verdict) {
		return
	}
	log := g.log.With("task", l.lease.Task.ID, "webhook", l.lease.ID, "endpoint", l.endpoint.name.address, "event", sequence, "reason", r.reason)
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
func (g *endpointRegistry) shouldLog(e *endpoint, v verdict) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	last := &e.deadLogged
	switch {
	case v == verdictRetry && e.failures == 1:
		last = &e.retryLogged
	case v == verdictReject, v == verdictRefused:
	default:
		return false
	}
	now := g.now()
	if !last.IsZero() && now.Sub(*last).Abs() < logEvery {
		return false
	}
	*last = now
	return true
}

// stalled returns the addresses where lanes wait although no request is in progress.
func (g *endpointRegistry) stalled() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.limits.stalled()
}

// addStats adds the counters of the registry.
func (g *endpointRegistry) addStats(stats *Stats) {
	g.mu.Lock()
	defer g.mu.Unlock()
	stats.InFlight, stats.Waiting = g.limits.active, g.limits.waiting
	for _, e := range g.limits.endpoints {
		switch {
		case e.disabled:
			stats.Disabled++
		case e.open:
			stats.Open++
		}
	}
}
