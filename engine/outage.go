package engine

import (
	"sync"
	"time"
)

// outage notes when the store did not answer in time and when its clock was set. The
// leases of live workers may have ended then. Each of them renews its own within one
// lease, and until then the others leave ended leases alone.
type outage struct {
	lease time.Duration

	mu       sync.Mutex
	failing  bool          // no call has been answered since the one begun at failedAt
	failedAt time.Duration // this and other times are on Engine.elapsed
	over     time.Duration // ended leases are left alone until then
	ahead    time.Duration // by how much the clock of leases differs from Engine.elapsed
}

// called notes a call that renewed or claimed leases. One that was not answered within
// a third of a lease since the first try is an outage.
func (o *outage) called(begun, now time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.failing {
		o.failedAt = begun
	}
	o.failing = err != nil
	if !o.failing && now-min(begun, o.failedAt) > o.lease/3 {
		o.over = now + o.lease
	}
}

// clock notes how far the clock of leases has come since the engine was made, and
// reports whether it was set by more than a quarter of a lease.
func (o *outage) clock(leases, now time.Duration) (set bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ahead := leases - now
	set = (ahead - o.ahead).Abs() > o.lease/4
	if o.ahead = ahead; set {
		o.over = now + o.lease
	}
	return set
}

// recent reports whether leases of other workers may have ended though they live.
func (o *outage) recent(now time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failing || now < o.over
}

// elapsed is the time since the engine was made, on the monotonic clock of this process.
func (e *Engine) elapsed() time.Duration { return time.Since(e.born) }

// leaseTime returns the time by the clock of leases, and whether that was set.
func (e *Engine) leaseTime() (now time.Time, set bool) {
	now = e.now()
	if set = e.outage.clock(now.Sub(e.bornAt), e.elapsed()); set {
		e.log.Warn("the clock of the store was set: renewing leases, and claiming none of other workers for one lease")
	}
	return now, set
}
