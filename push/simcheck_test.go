package push

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// expected is an event that a webhook is to be told of.
type expected struct {
	seq   int64 // of the log
	final bool
}

// expectedOf returns what a webhook of a task is told from its beginning on, by sequence.
func (w *world) expectedOf(task store.Key) map[int64]expected {
	w.t.Helper()
	events, err := w.store.Events(w.t.Context(), task, 0, 10_000)
	if err != nil {
		w.t.Fatal(err)
	}
	want := make(map[int64]expected)
	var c store.PushCursor
	for i := range events {
		next, told := c.Next(&events[i])
		if told {
			want[next.Sequence] = expected{events[i].Seq, events[i].State.Terminal()}
		}
		c = next
	}
	return want
}

// deadOf returns the dead letters of a webhook, by sequence.
func (w *world) deadOf(id laneID) map[int64]store.DeadLetter {
	w.t.Helper()
	page, err := w.store.DeadLetters(w.t.Context(), store.PushQuery{Owner: id.task.Owner, TaskID: id.task.ID, ID: id.id, Limit: 10_000})
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

// checkAll checks what holds whatever happens.
func (w *world) checkAll() {
	for _, id := range w.lanes {
		w.checkNoPhantom(id)
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

// phantom is in the text of events that are not committed.
const phantom = "phantom"

// committed reports whether the event that a request tells is in the log of its task. Of
// webhooks that the world has not made itself that is not known, and taken for granted.
func (w *world) committed(p *post) bool {
	w.mu.Lock()
	made := slices.Contains(w.lanes, p.lane)
	w.mu.Unlock()
	if !made {
		return true
	}
	e, known := w.expectedOf(p.lane.task)[p.sequence]
	return known && p.final == e.final && !strings.Contains(p.body, phantom)
}

// checkNoPhantom is invariant 3: what a request tells was committed when it began.
func (w *world) checkNoPhantom(id laneID) {
	for _, p := range w.postsOf(id) {
		if p.phantom {
			w.t.Errorf("seed %d: %v was told sequence %d at %s, which was not committed then: %s", w.seed, id, p.sequence, p.started, p.body)
		}
	}
}

// checkNoLoss is invariants 2, 5 and 7: what was delivered and what is dead are together
// all that was to be told, numbered without a gap, and nothing but the last is final.
func (w *world) checkNoLoss(id laneID) {
	want, dead, got := w.expectedOf(id.task), w.deadOf(id), make(map[int64]bool)
	for _, p := range w.postsOf(id) {
		e, known := want[p.sequence]
		if !known || p.final != e.final {
			w.t.Errorf("seed %d: %v was told sequence %d, final %t, want one of %v", w.seed, id, p.sequence, p.final, want)
		}
		got[p.sequence] = got[p.sequence] || p.delivered()
	}
	for sequence := int64(1); sequence <= int64(len(want)); sequence++ {
		e, known := want[sequence]
		d, isDead := dead[sequence]
		switch {
		case !known:
			w.t.Errorf("seed %d: %v has no sequence %d of %d", w.seed, id, sequence, len(want))
		case got[sequence] == isDead && !w.paused():
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
		w.t.Errorf("seed %d: lane %v is at %+v of %d, held by %q, want it done", w.seed, id, l.Cursor, l.Tail, l.Worker)
	}
}

// paused reports whether answers may have come to replicas that had lost their leases.
func (w *world) paused() bool {
	return w.plan.pauses+w.plan.kills+w.plan.replays > 0 || w.plan.storeFault > 0
}

// checkDeleted is invariant 19.
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

// checkIdentity is invariant 4.
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
			w.t.Errorf("seed %d: id %q of %v is that of two events", w.seed, event, id)
		}
		all[event] = true
	}
}

// checkOrder is invariant 6: no event is tried before all earlier ones have arrived or
// are dead.
func (w *world) checkOrder(id laneID) {
	done := make(map[int64]time.Time)
	posts := w.postsOf(id)
	w.mu.Lock()
	for _, d := range w.buried[id] {
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

// checkOverlap is invariant 6: one request at a time, unless a sender had been paused
// until it had lost its lease, or killed, or the clock by which leases end was set.
func (w *world) checkOverlap(id laneID) {
	if w.clock != nil {
		return
	}
	posts := w.postsOf(id)
	for i, p := range posts {
		for _, q := range posts[i+1:] {
			if q.started.Before(p.ended) && !p.excused && !q.excused {
				w.t.Errorf("seed %d: %v had two requests at a time: %+v and %+v", w.seed, id, p, q)
			}
		}
	}
}

// checkWaiting finds lanes that nothing would ever have begin.
func (w *world) checkWaiting() {
	for _, r := range w.replicas {
		r.s.mu.Lock()
		idle := r.s.limits.idle()
		r.s.mu.Unlock()
		if len(idle) > 0 {
			w.t.Errorf("seed %d: lanes of replica %d wait for %v, of which none is under way", w.seed, r.n, idle)
		}
	}
}

// chaos has everything go wrong.
var chaos = plan{
	replicas: 2, tasks: 3, hooks: 2, endpoints: 2, events: 5,
	storeFault: 0.15, storeSlow: 20 * time.Millisecond, sendFault: 0.3, deadShare: 0.05, pauses: 1, kills: 1, restarts: 1,
}

// Invariants 2, 4, 5, 6 and 7.
func TestSimNoLossInOrderWithOneIdentity(t *testing.T) {
	simulate(t, chaos, (*world).checkAll)
}

// Invariant 8.
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

// Invariant 9.
func TestSimFencingHoldsOffPausedReplicas(t *testing.T) {
	p := chaos
	p.replicas, p.pauses, p.kills, p.restarts, p.storeFault, p.sendFault = 3, 4, 0, 0, 0.05, 0.1
	simulate(t, p, (*world).checkAll)
}

// Invariant 16.
func TestSimShutdownLosesNothing(t *testing.T) {
	p := chaos
	p.pauses, p.kills, p.restarts, p.storeFault = 0, 0, 4, 0
	simulate(t, p, (*world).checkAll)
}

func TestSimFewPlacesLetNobodyWaitForEver(t *testing.T) {
	p := chaos
	p.tasks, p.hooks, p.endpoints, p.pauses, p.kills = 6, 3, 4, 0, 0
	p.config = func(c *Config) { c.InFlight, c.PerEndpoint, c.PerOwner = 4, 2, 4 }
	simulate(t, p, (*world).checkAll)
}

// Invariant 20, and an endpoint that is away for a while.
func TestSimClockJumpsLoseNothing(t *testing.T) {
	p := chaos
	p.jumps, p.pauses, p.kills, p.restarts, p.outage = 3, 0, 0, 1, 20*time.Second
	simulate(t, p, (*world).checkAll)
}

// Invariant 3.
func TestSimNoPhantomOfWhatWasRolledBack(t *testing.T) {
	p := chaos
	p.rollbacks, p.storeFault = 0.7, 0.05
	simulate(t, p, (*world).checkAll)
}

// Wherever to, and whatever has not been told yet.
func TestSimReplaysLeaveNothingOut(t *testing.T) {
	p := chaos
	p.replays, p.storeFault, p.sendFault, p.deadShare, p.tasks, p.events = 4, 0.05, 0.5, 0.2, 2, 8
	simulate(t, p, (*world).checkAll)
}

// Invariant 6 while owners change their webhooks.
func TestSimSetKeepsRequestsApart(t *testing.T) {
	p := chaos
	p.sets, p.pauses, p.kills, p.restarts, p.storeFault, p.tasks = 6, 0, 0, 0, 0.05, 2
	simulate(t, p, (*world).checkAll)
}

// Invariant 19.
func TestSimDeleteEndsAttempts(t *testing.T) {
	p := chaos
	p.deletes, p.kills, p.restarts, p.storeFault, p.tasks = 3, 0, 0, 0.05, 2
	simulate(t, p, (*world).checkAll)
}
