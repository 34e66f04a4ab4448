package push

import (
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

const (
	// waitingPerSlot is how many claimed lanes may wait for each request that an
	// endpoint may be sent at once, waitingMost how many in all.
	waitingPerSlot = 4
	waitingMost    = 256
	// A lane for which there is no room is put off by no less and no more than this.
	shortestWait = 50 * time.Millisecond
	longestWait  = 5 * time.Second
	// Those that are put off by more than gatherFrom come back together, in steps.
	gatherFrom = time.Second
	gatherStep = 250 * time.Millisecond
	// shrunkFor is how long an endpoint that asked for less is called less.
	shrunkFor = 10 * time.Second
	// idleAfter is how long after its last use an endpoint is forgotten.
	idleAfter = 10 * time.Minute
)

// queue is a line of lanes that were put off: it tells each when its turn will be.
type queue struct {
	tail    time.Time     // when the turn of the last has passed
	latency time.Duration // of a lane, lately
}

// observe notes how long a lane took.
func (q *queue) observe(d time.Duration) {
	if q.latency == 0 {
		q.latency = d
	}
	q.latency += (d - q.latency) / 8
}

// place puts a lane off, behind ahead others that are in line already, where so many are
// worked at once, and returns when it is to come again.
func (q *queue) place(now time.Time, ahead, slots int, chance float64) time.Time {
	step := max(q.latency, time.Millisecond) / time.Duration(max(slots, 1))
	from := now.Add(time.Duration(ahead) * step)
	if last := now.Add(longestWait); q.tail.After(last) {
		q.tail = last
	}
	if q.tail.Before(from) {
		q.tail = from
	}
	q.tail = q.tail.Add(step)
	wait := max(q.tail.Sub(now), shortestWait)
	if wait > longestWait {
		wait = longestWait - time.Duration(chance*float64(longestWait)/2)
	}
	due := now.Add(wait)
	if wait > gatherFrom {
		due = due.Truncate(gatherStep)
	}
	return store.Time(due)
}

// endpoint is what is known here of one endpoint.
type endpoint struct {
	name string
	breaker
	queue
	limit    int       // how many requests it may be sent at once
	shrunkAt time.Time // when that was lowered last; zero if it is not lowered
	active   int
	waiting  []*lane // for a request to end, the first of them next
	proven   bool    // its last attempt succeeded
	usedAt   time.Time

	dirty   bool      // the store does not know what is known here
	kept    bool      // the store may have a record
	savedAt time.Time // when it was saved

	retryLogged, deadLogged time.Time // when it was last logged that it did not take an event: see logAttempt

	crowded time.Time // when a lane was last put off since there was no room
	pausing time.Time // until when lanes pause whose attempts have failed

	waking  bool      // its lanes are being woken
	woken   int       // that many, and they have not been claimed yet
	wokenAt time.Time // since when
	wakeAt  time.Time // when to do so next
	drained bool      // there were none the last time
}

// slots returns how many requests the endpoint may be sent at once.
func (e *endpoint) slots(now time.Time, most int) int {
	if e.shrunkAt.IsZero() {
		return most
	}
	for now.Sub(e.shrunkAt) >= shrunkFor && e.limit < most {
		e.limit, e.shrunkAt = 2*e.limit, e.shrunkAt.Add(shrunkFor)
	}
	if e.limit >= most || now.Before(e.shrunkAt.Add(-shrunkFor)) {
		e.shrunkAt = time.Time{}
		return most
	}
	return e.limit
}

// shrink halves how many requests the endpoint is sent. What it answers to those
// already under way counts once.
func (e *endpoint) shrink(now time.Time, most int) {
	if slots := e.slots(now, most); e.shrunkAt.IsZero() || now.Sub(e.shrunkAt) > max(e.latency, time.Second) {
		e.limit, e.shrunkAt = max(slots/2, 1), now
	}
}

// limits keep how many requests are under way. They are not safe for concurrent use.
type limits struct {
	inFlight, perEndpoint, perOwner int

	active, waiting int
	unproven        int // active lanes of endpoints that are not proven
	owners          map[string]int
	starved         map[string]time.Time // owners without memory, and until when nothing of theirs is claimed
	endpoints       map[string]*endpoint
	waking          map[*endpoint]bool // those whose lanes are being woken, and maybe others
	strangers       queue              // of lanes of endpoints that are not proven
	crowd           queue              // of lanes of owners with enough
}

func newLimits(cfg Config) limits {
	return limits{
		inFlight: cfg.InFlight, perEndpoint: cfg.PerEndpoint, perOwner: cfg.PerOwner,
		owners: make(map[string]int), starved: make(map[string]time.Time), endpoints: make(map[string]*endpoint), waking: make(map[*endpoint]bool),
	}
}

func (m *limits) endpoint(name string) *endpoint {
	e := m.endpoints[name]
	if e == nil {
		e = &endpoint{name: name, limit: m.perEndpoint}
		m.endpoints[name] = e
	}
	return e
}

// full returns the owners that have as many lanes as they may, or had no memory just now.
func (m *limits) full(now time.Time) (owners []string) {
	for owner, n := range m.owners {
		if n >= m.perOwner {
			owners = append(owners, owner)
		}
	}
	for owner, until := range m.starved {
		if !now.Before(until) {
			delete(m.starved, owner)
		} else if m.owners[owner] < m.perOwner {
			owners = append(owners, owner)
		}
	}
	slices.Sort(owners)
	return owners
}

// admit takes a claimed lane in: it may begin, or waits for its endpoint. Else it is
// put off until retry.
func (m *limits) admit(l *lane, now time.Time, chance float64) (retry time.Time, begins bool) {
	e := l.endpoint
	e.usedAt = now
	slots := e.slots(now, m.perEndpoint)
	room := len(e.waiting) < waitingPerSlot*slots && m.waiting < min(waitingMost, m.inFlight)
	free := e.active < slots && len(e.waiting) == 0 && m.active < m.inFlight
	switch {
	case m.owners[l.lease.Task.Owner] >= m.perOwner:
		return m.crowd.place(now, 0, m.perOwner, chance), false
	case !free && (!room || e.active == 0): // only an end of its own has a lane that waits begin
		e.crowded = now
		return e.place(now, len(e.waiting), slots, chance), false
	case free && !e.proven && m.unproven >= max(m.inFlight/2, 1):
		return m.strangers.place(now, 0, max(m.inFlight/2, 1), chance), false
	}
	if retry, trial, ok := e.admit(now, chance); !ok {
		return retry, false
	} else if l.trial = trial; trial {
		free = true
	}
	m.owners[l.lease.Task.Owner]++
	l.counted = true
	if free {
		m.begin(l, now)
		return time.Time{}, true
	}
	e.waiting = append(e.waiting, l)
	m.waiting++
	return time.Time{}, false
}

// begin gives a lane its place among those that are under way.
func (m *limits) begin(l *lane, now time.Time) {
	e := l.endpoint
	l.begun = now
	m.active++
	e.active++
	if l.stranger = !e.proven; l.stranger {
		m.unproven++
	}
}

// leave takes a lane out again, and returns those whose turn it is now.
func (m *limits) leave(l *lane, now time.Time) (next []*lane) {
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
		return nil
	}
	m.active--
	e.active--
	took := now.Sub(l.begun)
	e.observe(took)
	if l.stranger {
		m.unproven--
		m.strangers.observe(took)
	}
	m.crowd.observe(took)
	for len(e.waiting) > 0 && e.active < e.slots(now, m.perEndpoint) && (m.active < m.inFlight || e.active == 0) {
		first := e.waiting[0]
		e.waiting = slices.Delete(e.waiting, 0, 1)
		m.waiting--
		m.begin(first, now)
		next = append(next, first)
	}
	return next
}

// idle returns the endpoints that lanes wait for while none is under way, so that they would
// wait for ever. There are none.
func (m *limits) idle() (names []string) {
	for name, e := range m.endpoints {
		if len(e.waiting) > 0 && e.active == 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// wake begins to wake the lanes of an endpoint.
func (m *limits) wake(e *endpoint, now time.Time) {
	e.waking, e.drained, e.woken, e.wokenAt, e.wakeAt = true, false, 0, now, now
	m.waking[e] = true
}

// forget drops endpoints of which there is nothing to know.
func (m *limits) forget(now time.Time) {
	for name, e := range m.endpoints {
		known := (e.failures > 0 || e.disabled) && !e.stale(now)
		idle := e.active == 0 && len(e.waiting) == 0 && !e.dirty && !e.waking && !known
		if idle && now.Sub(e.usedAt) > idleAfter {
			delete(m.endpoints, name)
		}
	}
}
