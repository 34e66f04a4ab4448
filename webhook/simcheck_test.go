package webhook

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// expected is an event that a webhook must receive.
type expected struct {
	seq   int64 // in the log
	final bool
}

// expectedOf returns all events that a webhook of a task must receive, by sequence.
func (w *world) expectedOf(task store.Key) map[int64]expected {
	w.t.Helper()
	events, err := w.store.Events(w.t.Context(), task, 0, 10_000)
	if err != nil {
		w.t.Fatal(err)
	}
	want := make(map[int64]expected)
	var c store.WebhookCursor
	for i := range events {
		next, send := c.Next(&events[i])
		if send {
			want[next.Sequence] = expected{events[i].Seq, events[i].State.Terminal()}
		}
		c = next
	}
	return want
}

// deadOf returns the dead letters of a webhook, by sequence.
func (w *world) deadOf(id laneID) map[int64]store.DeadLetter {
	w.t.Helper()
	page, err := w.store.DeadLetters(w.t.Context(), store.WebhookQuery{Owner: id.task.Owner, TaskID: id.task.ID, ID: id.id, Limit: 10_000})
	if err != nil {
		w.t.Fatal(err)
	}
	dead := make(map[int64]store.DeadLetter)
	for _, d := range page.Letters {
		if _, twice := dead[d.Sequence]; twice {
			w.t.Errorf("seed %d: %v has two dead letters of sequence %d", w.seed, id, d.Sequence)
		}
		dead[d.Sequence] = d
	}
	return dead
}

func (w *world) laneOf(id laneID) store.Lane {
	w.t.Helper()
	page, err := w.store.Lanes(w.t.Context(), store.LaneQuery{Owner: id.task.Owner, TaskID: id.task.ID, ID: id.id, Limit: 2})
	if err != nil || len(page.Lanes) != 1 {
		w.t.Fatalf("Lanes(%v) = %d lanes, %v, want one", id, len(page.Lanes), err)
	}
	return page.Lanes[0]
}

func (w *world) allPosts() []*post {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.posts)
}

func (w *world) postsOf(id laneID) (posts []*post) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.posts {
		if p.lane == id {
			posts = append(posts, p)
		}
	}
	return posts
}

func (p *post) delivered() bool { return p.status >= 200 && p.status < 300 }

// checkAll checks the invariants of all simulations.
func (w *world) checkAll() {
	for _, id := range w.lanes {
		w.checkCommitted(id)
		w.checkIdentity(id)
		w.checkOverlap(id)
		if at, deleted := w.deleted[id]; deleted {
			w.checkDeleted(id, at)
			continue
		}
		w.checkNoLoss(id)
		w.checkOrder(id)
	}
}

// uncommittedText is the text of events that are rolled back.
const uncommittedText = "phantom"

// committed reports whether the event of a request is in the log of its task. It returns true
// for webhooks that the world did not create.
func (w *world) committed(p *post) bool {
	w.mu.Lock()
	made := slices.Contains(w.lanes, p.lane)
	w.mu.Unlock()
	if !made {
		return true
	}
	e, known := w.expectedOf(p.lane.task)[p.sequence]
	return known && p.final == e.final && !strings.Contains(p.body, uncommittedText)
}

// checkCommitted checks that events were committed before they were sent.
func (w *world) checkCommitted(id laneID) {
	for _, p := range w.postsOf(id) {
		if p.uncommitted {
			w.t.Errorf("seed %d: %v received sequence %d at %s before it was committed: %s", w.seed, id, p.sequence, p.started, p.body)
		}
	}
}

// checkNoLoss checks that each event was delivered or is a dead letter, that sequences have no
// gaps, and that only the last event is final.
func (w *world) checkNoLoss(id laneID) {
	want, dead, got := w.expectedOf(id.task), w.deadOf(id), make(map[int64]bool)
	for _, p := range w.postsOf(id) {
		e, known := want[p.sequence]
		if !known || p.final != e.final {
			w.t.Errorf("seed %d: %v received sequence %d, final %t, want one of %v", w.seed, id, p.sequence, p.final, want)
		}
		got[p.sequence] = got[p.sequence] || p.delivered()
	}
	for sequence := int64(1); sequence <= int64(len(want)); sequence++ {
		e, known := want[sequence]
		d, isDead := dead[sequence]
		switch {
		case !known:
			w.t.Errorf("seed %d: %v has no sequence %d of %d", w.seed, id, sequence, len(want))
		case got[sequence] == isDead && !w.mayDuplicate():
			w.t.Errorf("seed %d: sequence %d of %v is delivered: %t, dead: %t, want one of them", w.seed, sequence, id, got[sequence], isDead)
		case !got[sequence] && !isDead:
			w.t.Errorf("seed %d: sequence %d of %v is lost", w.seed, sequence, id)
		case isDead && (d.Seq != e.seq || d.Cursor.Sequence != sequence-1 || d.Reason == ""):
			w.t.Errorf("seed %d: dead letter %+v of %v, want event %d", w.seed, d, id, e.seq)
		case e.final && sequence != int64(len(want)):
			w.t.Errorf("seed %d: sequence %d of %d is final", w.seed, sequence, len(want))
		}
	}
	l := w.laneOf(id)
	if l.Pending() || l.Cursor.Sequence != int64(len(want)) || l.Worker != "" {
		w.t.Errorf("seed %d: lane %v is at %+v of %d, leased by %q, want it released at the end", w.seed, id, l.Cursor, l.Tail, l.Worker)
	}
}

// mayDuplicate reports whether replicas may have received responses after they lost a lease.
func (w *world) mayDuplicate() bool {
	return w.plan.pauses+w.plan.kills+w.plan.replays > 0 || w.plan.storeFaultRate > 0
}

// checkDeleted checks that a webhook had no requests after it was deleted.
func (w *world) checkDeleted(id laneID, at time.Time) {
	for _, p := range w.postsOf(id) {
		if p.started.After(at) {
			w.t.Errorf("seed %d: %v, deleted at %s, had a request at %s", w.seed, id, at, p.started)
		}
	}
	if dead := w.deadOf(id); len(dead) > 0 {
		w.t.Errorf("seed %d: %v was deleted and has %d dead letters", w.seed, id, len(dead))
	}
}

// checkIdentity checks that ids are unique and attempts of an event are identical.
func (w *world) checkIdentity(id laneID) {
	ids, bodies := make(map[int64]string), make(map[int64]string)
	for _, p := range w.postsOf(id) {
		if first, ok := ids[p.sequence]; ok && (first != p.id || bodies[p.sequence] != p.body) {
			w.t.Errorf("seed %d: sequence %d of %v was sent as %s and as %s, or with another body", w.seed, p.sequence, id, first, p.id)
		}
		ids[p.sequence], bodies[p.sequence] = p.id, p.body
	}
	all := make(map[string]bool)
	for _, event := range ids {
		if event == "" || all[event] {
			w.t.Errorf("seed %d: two events of %v have the id %q", w.seed, id, event)
		}
		all[event] = true
	}
}

// checkOrder checks that no event was sent before all earlier ones were delivered or became
// dead letters.
func (w *world) checkOrder(id laneID) {
	done := make(map[int64]time.Time)
	posts := w.postsOf(id)
	w.mu.Lock()
	for _, d := range w.deadLetters[id] {
		if at, ok := done[d.Sequence]; w.clock == nil && (!ok || d.At.Before(at)) {
			done[d.Sequence] = d.At
		}
	}
	w.mu.Unlock()
	for _, p := range posts {
		if at, ok := done[p.sequence]; (p.delivered() || p.status == 404) && (!ok || p.ended.Before(at)) {
			done[p.sequence] = p.ended
		}
	}
	for _, p := range posts {
		if before, ok := done[p.sequence-1]; p.sequence > 1 && (!ok || before.After(p.started)) {
			w.t.Errorf("seed %d: sequence %d of %v was sent at %s, before %d was done at %s", w.seed, p.sequence, id, p.started, p.sequence-1, before)
		}
	}
}

// checkOverlap checks that a webhook had one request at a time, except requests of a replica
// that was killed or paused beyond its lease. It checks nothing if the clock was set.
func (w *world) checkOverlap(id laneID) {
	if w.clock != nil {
		return
	}
	posts := w.postsOf(id)
	for i, p := range posts {
		for _, q := range posts[i+1:] {
			if q.started.Before(p.ended) && !p.excused && !q.excused {
				w.t.Errorf("seed %d: %v had two concurrent requests: %+v and %+v", w.seed, id, p, q)
			}
		}
	}
}

// checkWaiting checks that no lane waits forever.
func (w *world) checkWaiting() {
	for _, r := range w.replicas {
		r.s.endpoints.mu.Lock()
		idle := r.s.endpoints.limits.stalled()
		r.s.endpoints.mu.Unlock()
		if len(idle) > 0 {
			w.t.Errorf("seed %d: lanes of replica %d wait for %v, which have no active lane", w.seed, r.n, idle)
		}
	}
}

// chaos is a plan with all kinds of faults.
var chaos = plan{
	replicas: 2, tasks: 3, hooks: 2, endpoints: 2, events: 5,
	storeFaultRate: 0.15, storeSlow: 20 * time.Millisecond, sendFaultRate: 0.3, rejectRate: 0.05, pauses: 1, kills: 1, restarts: 1,
}

func TestSimNoLossInOrderWithOneIdentity(t *testing.T) {
	simulate(t, chaos, (*world).checkAll)
}

func TestSimNoDuplicatesOnACleanRun(t *testing.T) {
	simulate(t, plan{replicas: 2, tasks: 3, hooks: 2, endpoints: 2, events: 5, storeSlow: 20 * time.Millisecond}, func(w *world) {
		w.checkAll()
		for _, id := range w.lanes {
			if got, want := len(w.postsOf(id)), len(w.expectedOf(id.task)); got != want {
				w.t.Errorf("seed %d: %v had %d requests for %d events, want one each", w.seed, id, got, want)
			}
		}
	})
}

func TestSimFencingStopsPausedReplicas(t *testing.T) {
	p := chaos
	p.replicas, p.pauses, p.kills, p.restarts, p.storeFaultRate, p.sendFaultRate = 3, 4, 0, 0, 0.05, 0.1
	simulate(t, p, (*world).checkAll)
}

func TestSimShutdownLosesNothing(t *testing.T) {
	p := chaos
	p.pauses, p.kills, p.restarts, p.storeFaultRate = 0, 0, 4, 0
	simulate(t, p, (*world).checkAll)
}

func TestSimLowLimitsStarveNoLane(t *testing.T) {
	p := chaos
	p.tasks, p.hooks, p.endpoints, p.pauses, p.kills = 6, 3, 4, 0, 0
	p.config = func(c *Config) { c.Limits.InFlight, c.Limits.PerEndpoint, c.Limits.PerOwner = 4, 2, 4 }
	simulate(t, p, (*world).checkAll)
}

// With an endpoint outage.
func TestSimClockJumpsLoseNothing(t *testing.T) {
	p := chaos
	p.jumps, p.pauses, p.kills, p.restarts, p.outage = 3, 0, 0, 1, 20*time.Second
	simulate(t, p, (*world).checkAll)
}

func TestSimRolledBackEventsAreNotSent(t *testing.T) {
	p := chaos
	p.rollbacks, p.storeFaultRate = 0.7, 0.05
	simulate(t, p, (*world).checkAll)
}

// Replays start anywhere, also after events that are still pending.
func TestSimReplaysSkipNothing(t *testing.T) {
	p := chaos
	p.replays, p.storeFaultRate, p.sendFaultRate, p.rejectRate, p.tasks, p.events = 4, 0.05, 0.5, 0.2, 2, 8
	simulate(t, p, (*world).checkAll)
}

func TestSimSetNeverOverlapsRequests(t *testing.T) {
	p := chaos
	p.sets, p.pauses, p.kills, p.restarts, p.storeFaultRate, p.tasks = 6, 0, 0, 0, 0.05, 2
	simulate(t, p, (*world).checkAll)
}

func TestSimDeleteEndsAttempts(t *testing.T) {
	p := chaos
	p.deletes, p.kills, p.restarts, p.storeFaultRate, p.tasks = 3, 0, 0, 0.05, 2
	simulate(t, p, (*world).checkAll)
}
