package webhook

import (
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	// waitingPerSlot is the maximum number of claimed lanes that wait for an endpoint, per
	// slot, that is, per request that it accepts at a time. maxWaiting is the maximum number
	// for all endpoints.
	waitingPerSlot = 4
	maxWaiting     = 256
	// minDeferral and maxDeferral bound the deferral of a lane that exceeds a limit.
	minDeferral = 50 * time.Millisecond
	maxDeferral = 5 * time.Second
	// Due times of lanes deferred by more than coalesceFrom are rounded to coalesceStep.
	coalesceFrom = time.Second
	coalesceStep = 250 * time.Millisecond
	// reducedFor is how long the limit of an endpoint stays reduced after a 429, 502 or 504
	// response. The limit also grows by one with every growAfter successful requests.
	reducedFor = 10 * time.Second
	growAfter  = 32
	// idleAfter is how long an unused endpoint is kept in memory.
	idleAfter = 10 * time.Minute
)

// deferQueue computes due times for lanes that exceed a limit, so that they return at the
// rate at which earlier ones complete.
type deferQueue struct {
	tail    time.Time     // due time of the last deferred lane
	latency time.Duration // moving average of the time that a lane takes
}

// observe records the time that a lane took.
func (q *deferQueue) observe(d time.Duration) {
	if q.latency == 0 {
		q.latency = d
	}
	q.latency += (d - q.latency) / 8
}

// deferUntil returns when a deferred lane is to be claimed again. ahead is the number of lanes
// that are served before it, slots the number that are served at a time.
func (q *deferQueue) deferUntil(now time.Time, ahead, slots int, chance float64) time.Time {
	step := max(q.latency, time.Millisecond) / time.Duration(max(slots, 1))
	earliest := now.Add(time.Duration(ahead) * step)
	if last := now.Add(maxDeferral); q.tail.After(last) {
		q.tail = last
	}
	if q.tail.Before(earliest) {
		q.tail = earliest
	}
	q.tail = q.tail.Add(step)
	wait := max(q.tail.Sub(now), minDeferral)
	if wait > maxDeferral {
		wait = maxDeferral - time.Duration(chance*float64(maxDeferral)/2)
	}
	due := now.Add(wait)
	if wait > coalesceFrom {
		due = due.Truncate(coalesceStep)
	}
	return store.Time(due)
}

// endpointName identifies an endpoint of an owner. Owners have separate state for the same
// address, since their requests may be for different paths. The owner of the global webhook
// is "".
type endpointName struct{ owner, address string }

// record returns the name of the endpoint's record in the store.
func (n endpointName) record() string {
	if n.owner == "" {
		return n.address
	}
	return n.address + " " + n.owner
}

func nameOfRecord(record string) endpointName {
	address, owner, _ := strings.Cut(record, " ")
	return endpointName{owner, address}
}

// host is the shared state of the endpoints of all owners at one address.
type host struct {
	deferQueue      // for endpoints without a known latency of their own
	active, waiting int
	endpoints       map[*endpoint]bool
	failures        int         // of all owners, since the last success
	answeredAt      time.Time   // time of the last success
	waitQueue       []*endpoint // queue for slots, least recently served first; may contain endpoints without waiting lanes

	retryUntil     time.Time // latest due time of lanes that failed or that a breaker deferred
	breakerRefused int       // lanes deferred by breakers since waking started
	woken          int       // lanes woken and not claimed yet
	wokenAt        time.Time // when lanes were last woken
}

// endpoint is the state of one endpoint of an owner in this process: its slots, its record in
// the store and the progress of waking its lanes.
type endpoint struct {
	name endpointName
	host *host
	breaker
	deferQueue
	limit    int       // maximum number of concurrent requests
	shrunkAt time.Time // when limit was last reduced; zero if it is not reduced
	accepted int       // successful requests since limit changed
	active   int
	waiting  []*lane // claimed lanes that wait for a free slot, in order
	queued   bool    // in host.waitQueue
	proven   bool    // the last attempt succeeded
	usedAt   time.Time

	dirty   bool      // changed since it was saved
	stored  bool      // the store may have a record
	savedAt time.Time // time of that record

	retryLogged, deadLogged time.Time // see logAttempt

	contendedAt time.Time // when a lane was last deferred for lack of capacity

	wake wakeState
}

// wakeState is the progress of waking the lanes of an endpoint.
type wakeState struct {
	active    bool      // lanes are being woken
	startedAt time.Time // of the waking
	nextAt    time.Time // when to wake more
	foundNone bool      // the last attempt to wake found no lanes
}

// slots returns the maximum number of concurrent requests to the endpoint, at most limit.
func (e *endpoint) slots(now time.Time, limit int) int {
	if e.shrunkAt.IsZero() {
		return limit
	}
	for now.Sub(e.shrunkAt) >= reducedFor && e.limit < limit {
		e.limit, e.shrunkAt = 2*e.limit, e.shrunkAt.Add(reducedFor)
	}
	if e.limit >= limit || now.Before(e.shrunkAt.Add(-reducedFor)) {
		e.shrunkAt = time.Time{}
		return limit
	}
	return e.limit
}

// shrink halves the maximum number of concurrent requests. Responses to requests that were
// already in progress count once.
func (e *endpoint) shrink(now time.Time, limit int) {
	if slots := e.slots(now, limit); e.shrunkAt.IsZero() || now.Sub(e.shrunkAt) > max(e.latency, time.Second) {
		e.limit, e.shrunkAt, e.accepted = max(slots/2, 1), now, 0
	}
}

// grow records a successful request, and raises a reduced limit by one after every growAfter of
// them. The limit of an endpoint that throttles few requests then recovers quickly.
func (e *endpoint) grow() {
	if e.shrunkAt.IsZero() {
		return
	}
	if e.accepted++; e.accepted >= growAfter {
		e.limit, e.accepted = e.limit+1, 0
	}
}

// limits counts requests in progress and enforces the limits of Config. It is not safe for
// concurrent use.
type limits struct {
	inFlight, perHost, perOwner int
	perEndpoint                 int // maximum of one owner: perHost minus an eighth

	active, waiting int
	unproven        int // active lanes of endpoints that are not proven
	owners          map[string]int
	blocked         map[string]time.Time // owners that have used their share of memory, and when their lanes may be claimed again
	endpoints       map[endpointName]*endpoint
	hosts           map[string]*host   // by address
	waking          map[*endpoint]bool // endpoints with lanes that are being woken, and possibly others
	unprovenQueue   deferQueue         // for lanes of unproven endpoints
	ownerQueue      deferQueue         // for lanes of owners at their limit
}

func newLimits(cfg Config) limits {
	return limits{
		inFlight: cfg.Limits.InFlight, perHost: cfg.Limits.PerEndpoint, perEndpoint: cfg.Limits.PerEndpoint - cfg.Limits.PerEndpoint/8, perOwner: cfg.Limits.PerOwner,
		owners: make(map[string]int), blocked: make(map[string]time.Time), endpoints: make(map[endpointName]*endpoint), hosts: make(map[string]*host), waking: make(map[*endpoint]bool),
	}
}

func (m *limits) endpoint(name endpointName) *endpoint {
	e := m.endpoints[name]
	if e == nil {
		h := m.hosts[name.address]
		if h == nil {
			h = &host{endpoints: make(map[*endpoint]bool)}
			m.hosts[name.address] = h
		}
		e = &endpoint{name: name, host: h, limit: m.perEndpoint}
		m.endpoints[name], h.endpoints[e] = e, true
	}
	return e
}

// ownersAtLimit returns the owners that claims must skip now: owners with perOwner lanes, and
// owners without free memory.
func (m *limits) ownersAtLimit(now time.Time) (owners []string) {
	for owner, n := range m.owners {
		if n >= m.perOwner {
			owners = append(owners, owner)
		}
	}
	for owner, until := range m.blocked {
		if !now.Before(until) {
			delete(m.blocked, owner)
		} else if m.owners[owner] < m.perOwner {
			owners = append(owners, owner)
		}
	}
	slices.Sort(owners)
	return owners
}

// admit adds a claimed lane. The lane starts immediately, waits for a slot of its endpoint, or
// is deferred until retry. Only a lane that starts or waits counts against the limits.
func (m *limits) admit(l *lane, now time.Time, chance float64) (retry time.Time, started bool) {
	e, h := l.endpoint, l.endpoint.host
	e.usedAt = now
	slots := e.slots(now, m.perEndpoint)
	canWait := len(e.waiting) < waitingPerSlot*slots && m.waiting < min(maxWaiting, m.inFlight) && h.canWait(len(e.waiting) == 0, m.perHost)
	free := e.active < slots && len(e.waiting) == 0 && h.active < m.perHost && m.active < m.inFlight
	switch {
	case m.owners[l.lease.Task.Owner] >= m.perOwner:
		return m.ownerQueue.deferUntil(now, 0, m.perOwner, chance), false
	case !free && (!canWait || h.active == 0): // a waiting lane starts when another one at its host ends
		e.contendedAt = now
		queue := &e.deferQueue
		if e.latency == 0 {
			queue = &h.deferQueue
		}
		return queue.deferUntil(now, len(e.waiting), min(slots, m.perHost/max(len(h.waitQueue), 1)), chance), false
	case free && !e.proven && m.unproven >= max(m.inFlight/2, 1):
		return m.unprovenQueue.deferUntil(now, 0, max(m.inFlight/2, 1), chance), false
	}
	if retry, trial, ok := e.allow(now, chance); !ok {
		h.breakerRefused++
		if retry.After(h.retryUntil) {
			h.retryUntil = retry
		}
		return retry, false
	} else if l.trial = trial; trial && h.active < m.perHost {
		free = true
	}
	m.owners[l.lease.Task.Owner]++
	l.counted = true
	if free {
		m.start(l, now)
		return time.Time{}, true
	}
	e.waiting = append(e.waiting, l)
	m.waiting++
	h.waiting++
	if !e.queued {
		e.queued = true
		h.waitQueue = append(h.waitQueue, e)
	}
	return time.Time{}, false
}

// start counts a lane as active.
func (m *limits) start(l *lane, now time.Time) {
	e := l.endpoint
	l.startedAt = now
	m.active++
	e.active++
	e.host.active++
	if l.unproven = !e.proven; l.unproven {
		m.unproven++
	}
}

// remove removes a lane, and returns the waiting lanes that start in its place.
func (m *limits) remove(l *lane, now time.Time) (next []*lane) {
	e, owner := l.endpoint, l.lease.Task.Owner
	if !l.counted {
		return nil
	}
	l.counted = false
	if m.owners[owner]--; m.owners[owner] == 0 {
		delete(m.owners, owner)
	}
	if l.trial {
		l.trial, e.trial = false, false
	}
	if i := slices.Index(e.waiting, l); i >= 0 {
		e.waiting = slices.Delete(e.waiting, i, i+1)
		m.waiting--
		e.host.waiting--
		return nil
	}
	m.active--
	e.active--
	e.host.active--
	took := now.Sub(l.startedAt)
	e.observe(took)
	e.host.observe(took)
	if l.unproven {
		m.unproven--
		m.unprovenQueue.observe(took)
	}
	m.ownerQueue.observe(took)
	for e.host.active < m.perHost && (m.active < m.inFlight || e.host.active == 0) {
		served := e.host.next(now, m.perEndpoint)
		if served == nil {
			break
		}
		first := served.waiting[0]
		served.waiting = slices.Delete(served.waiting, 0, 1)
		m.waiting--
		e.host.waiting--
		m.start(first, now)
		next = append(next, first)
	}
	return next
}

// recordSuccess records a success, and reports whether it is the first after an outage. In
// that case the breakers of all owners become half-open.
func (h *host) recordSuccess(now time.Time) (recovered bool) {
	recovered = h.failures >= recoverAfter && now.Sub(h.answeredAt).Abs() > minOpen
	h.failures, h.answeredAt = 0, now
	if recovered {
		for e := range h.endpoints {
			if e.open {
				e.openUntil = now
			}
		}
	}
	return recovered
}

// canWait reports whether one more lane may wait. A higher limit applies to the first lane of
// an owner, so that other owners cannot keep it out.
func (h *host) canWait(first bool, slots int) bool {
	return h.waiting < waitingPerSlot*slots || first && h.waiting < 2*waitingPerSlot*slots
}

// next returns the endpoint to be served next, or nil: one with waiting lanes and the fewest
// requests, and of these the one that was served least recently.
func (h *host) next(now time.Time, limit int) *endpoint {
	at := -1
	left := h.waitQueue[:0]
	for _, e := range h.waitQueue {
		if len(e.waiting) == 0 {
			e.queued = false
			continue
		}
		left = append(left, e)
		if e.active < e.slots(now, limit) && (at < 0 || e.active < left[at].active) {
			at = len(left) - 1
		}
	}
	clear(h.waitQueue[len(left):])
	h.waitQueue = left
	if at < 0 {
		return nil
	}
	e := h.waitQueue[at]
	h.waitQueue = append(slices.Delete(h.waitQueue, at, at+1), e)
	return e
}

// stalled returns the addresses where lanes wait although no request is in progress. They
// would wait forever; the list is empty unless there is a bug.
func (m *limits) stalled() (names []string) {
	for name, e := range m.endpoints {
		if len(e.waiting) > 0 && e.host.active == 0 {
			names = append(names, name.address)
		}
	}
	slices.Sort(names)
	return names
}

// needsLanes reports whether the endpoint and its host have capacity for more waiting lanes.
func (m *limits) needsLanes(e *endpoint, now time.Time) bool {
	h := e.host
	return len(e.waiting)+h.woken < e.slots(now, m.perEndpoint) && h.waiting+h.woken < m.perHost
}

// startWaking marks the lanes of an endpoint to be woken.
func (m *limits) startWaking(e *endpoint, now time.Time) {
	e.wake, e.host.breakerRefused = wakeState{active: true, startedAt: now, nextAt: now}, 0
	m.waking[e] = true
}

// forgetIdle removes unused endpoints that have no state worth keeping.
func (m *limits) forgetIdle(now time.Time) {
	for name, e := range m.endpoints {
		hasState := (e.failures > 0 || e.disabled) && !e.stale(now)
		idle := e.active == 0 && len(e.waiting) == 0 && !e.dirty && !e.wake.active && !hasState
		if idle && now.Sub(e.usedAt) > idleAfter {
			delete(m.endpoints, name)
			if delete(e.host.endpoints, e); len(e.host.endpoints) == 0 {
				delete(m.hosts, name.address)
			}
		}
	}
}
