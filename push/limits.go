package push

import (
	"slices"
	"strings"
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
	// shrunkFor is how long the limit of an endpoint that answered 429, 502 or 504 stays
	// reduced. The limit grows by one with every growAfter requests that succeed.
	shrunkFor = 10 * time.Second
	growAfter = 32
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

// place puts a lane off, behind ahead others that are in line already, where slots lanes are
// served at once, and returns the time of its next claim.
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

// endpointName names an endpoint of an owner: that requests of one owner fail says nothing
// about those of others to the same address, which may be for other paths. The owner of the
// webhook of all tasks is "".
type endpointName struct{ owner, address string }

// record is the name under which the store keeps what is known.
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

// host is what the endpoints of all owners at one address share.
type host struct {
	queue           // for endpoints that have not answered yet
	active, waiting int
	endpoints       map[*endpoint]bool
	failures        int         // since the last success, of whatever owner
	answeredAt      time.Time   // the last success
	line            []*endpoint // those that lanes wait for, and maybe others; the one that was served last is the last

	pausing time.Time // until when lanes pause whose attempts have failed, or that no breaker lets
	refused int       // lanes that no breaker let through since the last were woken
	woken   int       // lanes woken and not claimed yet
	wokenAt time.Time // when the last of them were
}

// endpoint is what is known here of one endpoint of an owner.
type endpoint struct {
	name endpointName
	host *host
	breaker
	queue
	limit    int       // how many requests it may be sent at once
	shrunkAt time.Time // when that was lowered last; zero if it is not lowered
	taken    int       // requests that succeeded since the limit changed
	active   int
	waiting  []*lane // for a request to end, the first of them next
	lined    bool    // it is in the line of its host
	proven   bool    // its last attempt succeeded
	usedAt   time.Time

	dirty   bool      // the store does not know what is known here
	kept    bool      // the store may have a record
	savedAt time.Time // when it was saved

	retryLogged, deadLogged time.Time // when it was last logged that it did not take an event: see logAttempt

	crowded time.Time // when a lane was last put off since there was no room

	waking  bool      // its lanes are being woken
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
		e.limit, e.shrunkAt, e.taken = max(slots/2, 1), now, 0
	}
}

// grow records that a request succeeded. The limit of an endpoint that rejects few requests
// soon returns to what the endpoint accepts.
func (e *endpoint) grow() {
	if e.shrunkAt.IsZero() {
		return
	}
	if e.taken++; e.taken >= growAfter {
		e.limit, e.taken = e.limit+1, 0
	}
}

// limits keep how many requests are under way. They are not safe for concurrent use.
type limits struct {
	inFlight, perHost, perOwner int
	perEndpoint                 int // of perHost, for one owner: some are left for others

	active, waiting int
	unproven        int // active lanes of endpoints that are not proven
	owners          map[string]int
	starved         map[string]time.Time // owners without memory, and until when nothing of theirs is claimed
	endpoints       map[endpointName]*endpoint
	hosts           map[string]*host   // by address
	waking          map[*endpoint]bool // those whose lanes are being woken, and maybe others
	strangers       queue              // of lanes of endpoints that are not proven
	crowd           queue              // of lanes of owners with enough
}

func newLimits(cfg Config) limits {
	return limits{
		inFlight: cfg.InFlight, perHost: cfg.PerEndpoint, perEndpoint: cfg.PerEndpoint - cfg.PerEndpoint/8, perOwner: cfg.PerOwner,
		owners: make(map[string]int), starved: make(map[string]time.Time), endpoints: make(map[endpointName]*endpoint), hosts: make(map[string]*host), waking: make(map[*endpoint]bool),
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
	e, h := l.endpoint, l.endpoint.host
	e.usedAt = now
	slots := e.slots(now, m.perEndpoint)
	room := len(e.waiting) < waitingPerSlot*slots && m.waiting < min(waitingMost, m.inFlight) && h.room(len(e.waiting) == 0, m.perHost)
	free := e.active < slots && len(e.waiting) == 0 && h.active < m.perHost && m.active < m.inFlight
	switch {
	case m.owners[l.lease.Task.Owner] >= m.perOwner:
		return m.crowd.place(now, 0, m.perOwner, chance), false
	case !free && (!room || h.active == 0): // only an end at its host has a lane that waits begin
		e.crowded = now
		line := &e.queue
		if e.latency == 0 {
			line = &h.queue
		}
		return line.place(now, len(e.waiting), min(slots, m.perHost/max(len(h.line), 1)), chance), false
	case free && !e.proven && m.unproven >= max(m.inFlight/2, 1):
		return m.strangers.place(now, 0, max(m.inFlight/2, 1), chance), false
	}
	if retry, trial, ok := e.admit(now, chance); !ok {
		h.refused++
		if retry.After(h.pausing) {
			h.pausing = retry
		}
		return retry, false
	} else if l.trial = trial; trial && h.active < m.perHost {
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
	h.waiting++
	if !e.lined {
		e.lined = true
		h.line = append(h.line, e)
	}
	return time.Time{}, false
}

// begin gives a lane its place among those that are under way.
func (m *limits) begin(l *lane, now time.Time) {
	e := l.endpoint
	l.begun = now
	m.active++
	e.active++
	e.host.active++
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
		e.host.waiting--
		return nil
	}
	m.active--
	e.active--
	e.host.active--
	took := now.Sub(l.begun)
	e.observe(took)
	e.host.observe(took)
	if l.stranger {
		m.unproven--
		m.strangers.observe(took)
	}
	m.crowd.observe(took)
	for e.host.active < m.perHost && (m.active < m.inFlight || e.host.active == 0) {
		turn := e.host.next(now, m.perEndpoint)
		if turn == nil {
			break
		}
		first := turn.waiting[0]
		turn.waiting = slices.Delete(turn.waiting, 0, 1)
		m.waiting--
		e.host.waiting--
		m.begin(first, now)
		next = append(next, first)
	}
	return next
}

// answered notes a success, and reports whether it is the first after an outage: then the
// endpoints of all owners may be called again.
func (h *host) answered(now time.Time) (again bool) {
	again = h.failures >= recoverAfter && now.Sub(h.answeredAt).Abs() > shortestOpen
	h.failures, h.answeredAt = 0, now
	if again {
		for e := range h.endpoints {
			if e.open {
				e.openUntil = now
			}
		}
	}
	return again
}

// room reports whether one more lane may wait. The first of each owner may also when others
// have taken all places, so that its turn comes.
func (h *host) room(first bool, slots int) bool {
	return h.waiting < waitingPerSlot*slots || first && h.waiting < 2*waitingPerSlot*slots
}

// next returns the endpoint of the owner whose turn it is: of those that lanes wait for, one
// with the fewest requests, and of these the one that was served longest ago.
func (h *host) next(now time.Time, most int) *endpoint {
	at := -1
	left := h.line[:0]
	for _, e := range h.line {
		if len(e.waiting) == 0 {
			e.lined = false
			continue
		}
		left = append(left, e)
		if e.active < e.slots(now, most) && (at < 0 || e.active < left[at].active) {
			at = len(left) - 1
		}
	}
	clear(h.line[len(left):])
	h.line = left
	if at < 0 {
		return nil
	}
	e := h.line[at]
	h.line = append(slices.Delete(h.line, at, at+1), e)
	return e
}

// idle returns the endpoints that lanes wait for while none is under way, so that they would
// wait for ever. There are none.
func (m *limits) idle() (names []string) {
	for name, e := range m.endpoints {
		if len(e.waiting) > 0 && e.host.active == 0 {
			names = append(names, name.address)
		}
	}
	slices.Sort(names)
	return names
}

// starves reports whether few lanes wait for the endpoint, and for its host, or will soon.
func (m *limits) starves(e *endpoint, now time.Time) bool {
	h := e.host
	return len(e.waiting)+h.woken < e.slots(now, m.perEndpoint) && h.waiting+h.woken < m.perHost
}

// wake begins to wake the lanes of an endpoint.
func (m *limits) wake(e *endpoint, now time.Time) {
	e.waking, e.drained, e.wokenAt, e.wakeAt, e.host.refused = true, false, now, now, 0
	m.waking[e] = true
}

// forget drops endpoints of which there is nothing to know.
func (m *limits) forget(now time.Time) {
	for name, e := range m.endpoints {
		known := (e.failures > 0 || e.disabled) && !e.stale(now)
		idle := e.active == 0 && len(e.waiting) == 0 && !e.dirty && !e.waking && !known
		if idle && now.Sub(e.usedAt) > idleAfter {
			delete(m.endpoints, name)
			if delete(e.host.endpoints, e); len(e.host.endpoints) == 0 {
				delete(m.hosts, name.address)
			}
		}
	}
}
