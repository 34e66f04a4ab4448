package inmem

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// queue holds the tasks that are queued or leased, each under the time it is
// due: when its delay or its lease ends.
//
// A task waits in pending until a claim finds that its time has come; then it
// stands ready with its owner, and if it is queued with its context. So a claim looks at due tasks only, however many
// wait.
type queue struct {
	pending index[*task]
	owners  index[*owner] // those with ready tasks, by name
	// promoted is the latest time up to which tasks have been made ready.
	promoted       int64
	queued, leased int
	leases         map[string]int // by worker
}

// queued is where a task stands in the queue.
type queued struct {
	line line
	at   int64
}

// line is a part of the queue.
type line int8

const (
	lineNone line = iota
	linePending
	lineReady
)

// add puts a task where its run belongs, if anywhere.
func (q *queue) add(t *task) {
	run := &t.fold.Run
	if run.Phase == store.PhaseQueued || run.Phase == store.PhaseLeased {
		t.context.queued++
	}
	switch run.Phase {
	case store.PhaseQueued:
		q.queued++
		t.owner.queued++
		t.queued = queued{at: millis(run.DueAt), line: linePending}
		if run.DueAt.IsZero() {
			q.makeReady(t)
			return
		}
	case store.PhaseLeased:
		q.leased++
		q.leases[run.Lease.Worker]++
		t.queued = queued{at: millis(run.Lease.Until), line: linePending}
	default:
		return
	}
	q.pending.add(t.queued.at, t)
}

// remove takes a task out, if it is there. Its run is still as it was when it
// was added.
func (q *queue) remove(t *task) {
	switch t.queued.line {
	case linePending:
		q.pending.remove(t.queued.at, t)
	case lineReady:
		if t.owner.removeReady(t); !t.owner.hasReady() {
			q.owners.remove(0, t.owner)
		}
	case lineNone:
		return
	}
	t.queued = queued{}
	t.context.queued--
	if run := &t.fold.Run; run.Phase == store.PhaseLeased {
		q.leased--
		if q.leases[run.Lease.Worker]--; q.leases[run.Lease.Worker] == 0 {
			delete(q.leases, run.Lease.Worker)
		}
	} else {
		q.queued--
		t.owner.queued--
	}
}

func (q *queue) makeReady(t *task) {
	t.queued.line = lineReady
	if !t.owner.hasReady() {
		q.owners.add(0, t.owner)
	}
	t.owner.addReady(t)
}

// promote makes ready what is due.
func (q *queue) promote(now int64) {
	q.promoted = max(q.promoted, now)
	for q.pending.len > 0 {
		e := q.pending.chunks[0][0]
		if e.at > now {
			return
		}
		q.pending.remove(e.at, e.rec)
		q.makeReady(e.rec)
	}
}

// Claim implements [store.Store].
func (s *Store) Claim(ctx context.Context, p store.ClaimParams) ([]*store.Task, error) {
	event := p.Event.Copy()
	event.Time = store.Time(event.Time)
	claimed, err := s.claim(ctx, p, event)
	for i, t := range claimed {
		claimed[i] = t.Copy()
	}
	return claimed, err
}

// claim returns what it claimed as clones, which are still to be copied.
func (s *Store) claim(ctx context.Context, p store.ClaimParams, event store.Event) ([]*store.Task, error) {
	var lanesDue bool
	defer s.watchers.tell(&lanesDue)
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return nil, err
	}
	tasks := s.queue.due(p)
	claimed := make([]*store.Task, len(tasks))
	for i, t := range tasks {
		s.queue.remove(t)
		own := event
		if last := t.log[len(t.log)-1].Time; own.Time.Before(last) { // a log does not go back
			own.Time = last
		}
		t.append([]store.Event{own})
		lanesDue = s.push.moveTails(t, t.fold.Seq-1) || lanesDue
		run := &t.fold.Run
		run.Phase = store.PhaseLeased
		run.Attempt++
		run.Lease = store.Lease{Worker: p.Worker, Fence: run.Lease.Fence + 1, Until: store.Time(p.Until)}
		s.queue.add(t)
		t.relist()
		if claimed[i] = t.fold.Clone(); p.Whole > 0 && t.fold.Bytes > p.Whole {
			claimed[i] = t.fold.AsOutline()
		}
	}
	return claimed, nil
}

// due returns the tasks to claim, in order.
func (q *queue) due(p store.ClaimParams) []*task {
	if p.Limit <= 0 {
		return nil
	}
	now := p.Now.UnixMilli()
	if q.unusual(p) {
		return takeTurns(q.scan(p, now), p.Limit)
	}
	q.promote(now)
	owners, first := q.visit(p, now)
	if len(first) == p.Limit {
		return first
	}
	more := p.Limit - len(first) + 1 // the most that one owner can still come to
	lines := make([][]*task, len(owners))
	for i, o := range owners {
		lines[i] = o.due(&p, now, more)
	}
	return takeTurns(lines, p.Limit)
}

// unusual reports whether tasks may be due that do not stand at the head of
// their lines.
func (q *queue) unusual(p store.ClaimParams) bool {
	if p.Takeover && !p.QueuedOnly && q.leased > q.leases[p.Worker] {
		return true
	}
	if p.Horizon <= 0 {
		return false
	}
	beyond := p.Now.Add(p.Horizon).UnixMilli()
	if q.promoted > beyond {
		return true // the clock has been set back, and what is ready may not be
	}
	n := len(q.pending.chunks)
	return n > 0 && q.pending.chunks[n-1][len(q.pending.chunks[n-1])-1].at > beyond
}

// visit returns the owners who have a due task, as many as can have a turn, with
// the first task of each.
func (q *queue) visit(p store.ClaimParams, now int64) (owners []*owner, first []*task) {
	after := &entry[*owner]{rec: &owner{name: p.AfterOwner}}
	turn := func(e entry[*owner]) bool {
		if slices.Contains(p.Skip, e.rec.name) {
			return true
		}
		if due := e.rec.due(&p, now, 1); len(due) > 0 {
			owners, first = append(owners, e.rec), append(first, due[0])
		}
		return len(first) < p.Limit
	}
	for e := range q.owners.ascend(after) {
		if !turn(e) {
			return owners, first
		}
	}
	for e := range q.owners.ascend(nil) {
		if e.rec.name > p.AfterOwner || !turn(e) {
			break
		}
	}
	return owners, first
}

// scan looks at everything in the queue and returns the lines of due tasks of
// the owners in the order of their turns.
func (q *queue) scan(p store.ClaimParams, now int64) [][]*task {
	lines := make(map[*owner][]*task)
	beyond := p.Now.Add(p.Horizon).UnixMilli()
	look := func(e entry[*task]) {
		run := &e.rec.fold.Run
		isLeased := run.Phase == store.PhaseLeased
		if isLeased && (p.QueuedOnly || run.Lease.Worker == p.Worker) || slices.Contains(p.Skip, e.rec.owner.name) {
			return
		}
		if e.at <= now || isLeased && p.Takeover || p.Horizon > 0 && e.at > beyond {
			lines[e.rec.owner] = append(lines[e.rec.owner], e.rec)
		}
	}
	for e := range q.pending.ascend(nil) {
		look(e)
	}
	var owners []*owner
	for o := range q.owners.ascend(nil) {
		for e := range o.rec.ended.ascend(nil) {
			look(e)
		}
		for e := range o.rec.ready.ascend(nil) {
			look(e)
		}
	}
	for o := range lines {
		owners = append(owners, o)
	}
	inTurn(owners, p.AfterOwner)
	ordered := make([][]*task, len(owners))
	for i, o := range owners {
		ordered[i] = o.line(&p, lines[o])
	}
	return ordered
}

// inTurn puts owners in the order in which they are visited.
func inTurn(owners []*owner, after string) {
	slices.SortFunc(owners, func(a, b *owner) int {
		if aLater := a.name > after; aLater != (b.name > after) {
			return b.compare(a)
		}
		return a.compare(b)
	})
}

// takeTurns takes one of each line in turn, round and round.
func takeTurns[R any](lines [][]R, limit int) []R {
	var taken []R
	for round := 0; len(lines) > 0; round++ {
		lines = slices.DeleteFunc(lines, func(line []R) bool { return len(line) <= round })
		for _, line := range lines {
			if taken = append(taken, line[round]); len(taken) == limit {
				return taken
			}
		}
	}
	return taken
}

// Renew implements [store.Store].
func (s *Store) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) ([]store.Key, error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return nil, err
	}
	var lost []store.Key
	for _, l := range leases {
		t := s.task(l.Key)
		if t == nil || !t.leasedTo(l) {
			lost = append(lost, l.Key)
			continue
		}
		s.queue.remove(t)
		t.fold.Run.Lease.Until = store.Time(until)
		s.queue.add(t)
	}
	return lost, nil
}

// Backlog implements [store.Store].
func (s *Store) Backlog(ctx context.Context) (store.Backlog, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return store.Backlog{}, err
	}
	return store.Backlog{Queued: s.queue.queued, Leased: s.queue.leased}, nil
}

// Queued implements [store.Store].
func (s *Store) Queued(ctx context.Context, owner string, most int) (int, error) {
	defer s.mu.RUnlock()
	if err := s.read(ctx); err != nil {
		return 0, err
	}
	if o := s.owners[owner]; o != nil {
		return min(o.queued, most), nil
	}
	return 0, nil
}
