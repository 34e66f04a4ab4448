package engine

import (
	"sync"
	"time"
)

// outage detects that the store did not answer in time, or that its clock was set. Leases of
// live workers may have expired then. Each worker renews its own leases within one lease
// period; until then the others claim no expired leases.
type outage struct {
	lease time.Duration

	mu         sync.Mutex
	failing    bool          // no call has succeeded since the one started at failedAt
	failedAt   time.Duration // like all times here, as Engine.elapsed
	graceUntil time.Duration // expired leases are not claimed until then
	offset     time.Duration // difference between the clock of leases and Engine.elapsed
}

// recordCall records a call that renewed or claimed leases. If no call succeeded within a third
// of a lease period since the first attempt, that is an outage.
func (o *outage) recordCall(started, now time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.failing {
		o.failedAt = started
	}
	o.failing = err != nil
	if !o.failing && now-min(started, o.failedAt) > o.lease/3 {
		o.graceUntil = now + o.lease
	}
}

// checkClock records the time on the clock of leases, relative to the engine's creation. It
// reports whether the clock was set by more than a quarter of a lease period.
func (o *outage) checkClock(leases, now time.Duration) (set bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	offset := leases - now
	set = (offset - o.offset).Abs() > o.lease/4
	if o.offset = offset; set {
		o.graceUntil = now + o.lease
	}
	return set
}

// recent reports whether leases of live workers may have expired.
func (o *outage) recent(now time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failing || now < o.graceUntil
}

// elapsed returns the time since the engine was created, on the monotonic clock of this
// process.
func (e *Engine) elapsed() time.Duration { return time.Since(e.createdAt) }

// leaseTime returns the time on the clock of leases, and whether that clock was set.
func (e *Engine) leaseTime() (now time.Time, set bool) {
	now = e.now()
	if set = e.outage.checkClock(now.Sub(e.createdLeaseTime), e.elapsed()); set {
		e.log.Warn("store clock was set; renewing leases and claiming no expired leases for one lease period")
	}
	return now, set
}
