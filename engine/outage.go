package engine

import (
	"sync"
	"sync/atomic"
	"time"
)

// outage detects that the store did not answer in time, or that its clock was set. In both
// cases leases of live workers may have expired. Each worker renews its own leases within one
// lease period; until then the others claim no expired leases.
type outage struct {
	lease time.Duration

	mu         sync.Mutex
	failing    bool          // no call has succeeded since the one started at failedAt
	failedAt   time.Duration // start of the first failed call, as settings.elapsed
	graceUntil time.Duration // expired leases are not claimed until then, as settings.elapsed
	offset     time.Duration // difference between the clock of leases and settings.elapsed
}

// recordCall records a call that renewed or claimed leases. started and now are as
// settings.elapsed. If no call succeeded within a third of a lease period since the first
// attempt, that is an outage.
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

// leases is the state that all leases of this process share.
type leases struct {
	*settings
	worker    atomic.Pointer[string] // current worker ID for new leases
	orphan    atomic.Bool            // a lease of the current worker ID may have no run
	renewed   atomic.Int64           // time of the last renewal of leases, as settings.elapsed
	outage    outage                 // recent outage of the store
	startTime time.Time              // creation time of the engine on the clock of leases
}

func newLeases(settings *settings) *leases {
	s := &leases{settings: settings, startTime: settings.now(), outage: outage{lease: settings.cfg.Turns.Lease}}
	s.newWorker()
	return s
}

// rotateWorker changes the worker ID if one of its leases may have no run. That happens when
// the store's answer to a claim, or to the last commit of a run, is lost. A worker never claims
// tasks that it has leased itself, so such a task would stay leased. Existing runs keep their
// leases and renew them under the old ID; leases without a run expire.
func (s *leases) rotateWorker() {
	if s.orphan.CompareAndSwap(true, false) {
		s.newWorker()
	}
}

func (s *leases) newWorker() {
	name := s.cfg.NewID()
	if s.cfg.Worker != "" {
		name = s.cfg.Worker + "/" + name
	}
	s.worker.Store(&name)
}

// time returns the time on the clock of leases, and whether that clock was set.
func (s *leases) time() (now time.Time, set bool) {
	now = s.now()
	if set = s.outage.checkClock(now.Sub(s.startTime), s.elapsed()); set {
		s.log.Warn("store clock was set; renewing leases and claiming no expired leases for one lease period")
	}
	return now, set
}
