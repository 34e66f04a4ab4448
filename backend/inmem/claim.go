package inmem

import (
	"context"
	"slices"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// queue holds the tasks that are queued or leased. Its key is the time when the task
// becomes due: DueAt or the end of the lease.
//
// A task is in pending until a claim finds that it is due. The claim then moves it to
// the ready lists of its owner and, if it is queued, of its context. So claims read
// only due tasks. A queued task in a ready list stays due. After a takeover, a ready list may have
// leased tasks before their leases have ended, so each claim checks the lease.
type queue struct {
	pending        index[*task]
	owners         index[*owner] // owners with ready tasks, by name
	queued, leased int
}

// queuePosition is the position of a task or lane in its queue.
type queuePosition struct {
	state queueState
	at    int64
}

// queueState is the part of a queue that holds a task or lane.
type queueState int8

const (
	notQueued queueState = iota
	queuePending
	queueReady
)

// add adds a task according to its queue entry. It ignores tasks that are not queued or
// leased.
func (q *queue) add(t *task) {
	qe := &t.fold.Queue
	if qe.Phase == store.PhaseQueued || qe.Phase == store.PhaseLeased {
		t.context.queued++
	}
	switch qe.Phase {
	case store.PhaseQueued:
		q.queued++
		t.owner.queued++
		t.queuePos = queuePosition{at: millis(qe.DueAt), state: queuePending}
		if qe.DueAt.IsZero() {
			q.makeReady(t)
			return
		}
	case store.PhaseLeased:
		q.leased++
		t.queuePos = queuePosition{at: millis(qe.Lease.Until), state: queuePending}
	default:
		return
	}
	q.pending.add(t.queuePos.at, t)
}

// remove removes a task from the queue. It does nothing if the task is not queued. The
// queue entry must not have changed since add.
func (q *queue) remove(t *task) {
	switch t.queuePos.state {
	case queuePending:
		q.pending.remove(t.queuePos.at, t)
	case queueReady:
		if t.owner.removeReady(t); !t.owner.hasReady() {
			q.owners.remove(0, t.owner)
		}
	case notQueued:
		return
	}
	t.queuePos = queuePosition{}
	t.context.queued--
	if t.fold.Queue.Phase == store.PhaseLeased {
		q.leased--
	} else {
		q.queued--
		t.owner.queued--
	}
}

func (q *queue) makeReady(t *task) {
	t.queuePos.state = queueReady
	if t.fold.Queue.Phase == store.PhaseQueued {
		t.queuePos.at = max(t.queuePos.at, millis(t.fold.CreatedAt)) // a task that was never delayed: its creation
	}
	if !t.owner.hasReady() {
		q.owners.add(0, t.owner)
	}
	t.owner.addReady(t)
}

// promote moves tasks that a claim may find due to the ready lists.
func (q *queue) promote(p *store.ClaimParams) {
	now, horizon := p.Now.UnixMilli(), p.Now.Add(p.Horizon).UnixMilli()
	var leased []*task
	if p.Takeover && !p.QueuedOnly {
		for e := range q.pending.ascend(nil) {
			if qe := &e.rec.fold.Queue; qe.Phase == store.PhaseLeased && qe.Lease.Worker != p.Worker {
				leased = append(leased, e.rec)
			}
		}
	}
	for _, t := range leased {
		q.pending.remove(t.queuePos.at, t)
		q.makeReady(t)
	}
	for q.pending.len > 0 {
		e := q.pending.chunks[0][0]
		if e.at > now {
			last := q.pending.chunks[len(q.pending.chunks)-1]
			e = last[len(last)-1]
			if p.Horizon <= 0 || e.at <= horizon {
				return
			}
		}
		q.pending.remove(e.at, e.rec)
		q.makeReady(e.rec)
	}
}

// Claim implements [store.Tasks].
func (s *taskStore) Claim(ctx context.Context, p store.ClaimParams) ([]*store.Task, error) {
	event := p.Event.Copy()
	event.Time = store.Time(event.Time)
	claimed, err := s.claim(ctx, p, event)
	for i, t := range claimed {
		claimed[i] = t.Copy()
	}
	return claimed, err
}

// claim claims tasks. It returns clones, which the caller copies.
func (s *taskStore) claim(ctx context.Context, p store.ClaimParams, event store.Event) ([]*store.Task, error) {
	var lanesDue bool
	defer s.webhooks.notifyLanes(&lanesDue)
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return nil, err
	}
	tasks := s.queue.dueTasks(p)
	claimed := make([]*store.Task, len(tasks))
	for i, t := range tasks {
		s.queue.remove(t)
		e := event
		if last := t.log[len(t.log)-1].Time; e.Time.Before(last) { // times in a log do not decrease
			e.Time = last
		}
		t.append([]store.Event{e})
		lanesDue = s.webhooks.moveTails(t, t.fold.Seq-1) || lanesDue
		qe := &t.fold.Queue
		qe.Phase = store.PhaseLeased
		qe.Attempt++
		qe.Lease = store.Lease{Worker: p.Worker, Fence: qe.Lease.Fence + 1, Until: store.Time(p.Until)}
		s.queue.add(t)
		t.updateLists()
		if claimed[i] = t.fold.Clone(); p.OutlineAbove > 0 && t.fold.Bytes > p.OutlineAbove {
			claimed[i] = t.fold.AsOutline()
		}
	}
	return claimed, nil
}

// dueTasks returns the tasks to claim, in order.
func (q *queue) dueTasks(p store.ClaimParams) []*task {
	if p.Limit <= 0 {
		return nil
	}
	q.promote(&p)
	owners, first := q.dueOwners(&p)
	if len(first) == p.Limit {
		return first
	}
	perOwner := p.Limit - len(first) + 1 // an owner gets at most this many
	queues := make([][]*task, len(owners))
	for i, o := range owners {
		queues[i] = o.dueTasks(&p, perOwner)
	}
	return roundRobin(queues, p.Limit)
}

// dueOwners returns up to p.Limit owners with a due task, and the first task of each.
func (q *queue) dueOwners(p *store.ClaimParams) (owners []*owner, first []*task) {
	after := &entry[*owner]{rec: &owner{name: p.AfterOwner}}
	add := func(e entry[*owner]) bool {
		if slices.Contains(p.Skip, e.rec.name) {
			return true
		}
		if due := e.rec.dueTasks(p, 1); len(due) > 0 {
			owners, first = append(owners, e.rec), append(first, due[0])
		}
		return len(first) < p.Limit
	}
	for e := range q.owners.ascend(after) {
		if !add(e) {
			return owners, first
		}
	}
	for e := range q.owners.ascend(nil) {
		if e.rec.name > p.AfterOwner || !add(e) {
			break
		}
	}
	return owners, first
}

// roundRobin returns the first of each queue, then the second of each, and so on, up to
// limit.
func roundRobin[R any](queues [][]R, limit int) []R {
	var claimed []R
	for round := 0; len(queues) > 0; round++ {
		queues = slices.DeleteFunc(queues, func(queue []R) bool { return len(queue) <= round })
		for _, queue := range queues {
			if claimed = append(claimed, queue[round]); len(claimed) == limit {
				return claimed
			}
		}
	}
	return claimed
}

// Renew implements [store.Tasks].
func (s *taskStore) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) ([]store.Key, error) {
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return nil, err
	}
	var lost []store.Key
	for _, l := range leases {
		t := s.task(l.Key)
		if t == nil || !t.seen().Holds(&l) {
			lost = append(lost, l.Key)
			continue
		}
		s.queue.remove(t)
		t.fold.Queue.Lease.Until = store.Time(until)
		s.queue.add(t)
	}
	return lost, nil
}
