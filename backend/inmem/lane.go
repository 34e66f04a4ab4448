package inmem

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// lane is a webhook with its lane. Of the embedded Lane, Config.Task and Tail are
// not kept: they are the task's. What is kept is never changed in place, so that it
// may be copied after the lock is given back.
type lane struct {
	store.Lane
	task *task
	// deleted lanes wait for their worker to let go; no read finds them.
	deleted  bool
	attempts index[*note[store.PushAttempt]]
	letters  index[*note[store.DeadLetter]]

	at lanePlace
}

// lanePlace is where a lane stands in the indexes.
type lanePlace struct {
	listed bool
	state  store.LaneState
	queued queued
	// woken is the endpoint that it can be woken by, "" when it cannot.
	woken   string
	pending bool
	barred  bool   // by a lease, as far as the queue knows
	leased  string // to whom
	idle    *index[*lane]
	updated int64
}

func (l *lane) compare(m *lane) int {
	if l == m {
		return 0
	}
	return cmp.Or(l.task.owner.compare(m.task.owner), strings.Compare(l.task.fold.Key.ID, m.task.fold.Key.ID),
		strings.Compare(l.Config.ID, m.Config.ID))
}

// pending is Lane.Pending by the tail as it is.
func (l *lane) pending() bool { return l.Cursor.Seq < l.task.fold.Seq }

func (l *lane) held(by store.LaneLease) bool {
	return l.Worker != "" && l.Worker == by.Worker && l.Fence == by.Fence
}

// barred reports whether the lane cannot be claimed, unless a lease has ended: one that is
// held, or that was taken away.
func (l *lane) barred() bool { return !l.LeaseUntil.IsZero() }

// taken reports whether a lease was taken away and may be in use still.
func (l *lane) taken(lease store.LaneLease) bool {
	return l.Worker == "" && l.barred() && l.Fence == lease.Fence+1
}

// takeLease takes the lease away, if there is one. The lane stays barred until its holder
// knows, or it has ended.
func (l *lane) takeLease() {
	if l.Worker != "" || !l.barred() {
		l.Fence++
	}
	l.Worker = ""
}

// restart makes the lane active and due.
func (l *lane) restart(now time.Time) {
	l.takeLease()
	l.State, l.Reason = store.LaneActive, ""
	l.DueAt, l.Attempt, l.FailedAt = now, 0, time.Time{}
	l.UpdatedAt = now
}

// view returns the lane as readers see it. It shares Data with the store.
func (l *lane) view() store.Lane {
	v := l.Lane
	v.Config.Task, v.Tail = l.task.fold.Key, l.task.fold.Seq
	return v
}

// lane returns a webhook of a task, also a deleted one; nil when there is none.
func (t *task) lane(id string) *lane {
	for _, l := range t.lanes {
		if l.Config.ID == id {
			return l
		}
	}
	return nil
}

// lane returns a webhook, also a deleted one; nil when there is none.
func (s *Store) lane(k store.Key, id string) *lane {
	if t := s.task(k); t != nil {
		return t.lane(id)
	}
	return nil
}

// change changes a lane and puts it where it belongs then.
func (p *push) change(l *lane, f func()) {
	p.unplace(l)
	f()
	p.place(l)
}

// place puts a lane where it belongs.
func (p *push) place(l *lane) {
	at := &l.at
	if !l.deleted {
		at.listed, at.state = true, l.State
		p.inState(l.State).add(0, l)
	}
	if at.pending = l.pending() && !l.deleted; at.pending {
		p.pending++
	}
	switch {
	case at.pending || l.deleted:
		p.queue.add(l)
		if !l.barred() {
			at.woken = l.Config.Endpoint
			p.endpoint(at.woken).add(millis(l.DueAt), l)
		}
	case l.letters.len == 0 && l.task.fold.Status.State.Terminal():
		at.updated, at.idle = millis(l.UpdatedAt), &p.idle
		if l.Config.LongRunning {
			at.idle = &p.idleLong
		}
		at.idle.add(at.updated, l)
	}
}

// unplace takes a lane out of the indexes. It has not been changed since it was
// put there, but for its task.
func (p *push) unplace(l *lane) {
	at := &l.at
	if at.listed {
		p.lanes[at.state].remove(0, l)
	}
	if at.pending {
		p.pending--
	}
	p.queue.remove(l)
	if at.woken != "" {
		waiting := p.waiting[at.woken]
		waiting.remove(millis(l.DueAt), l)
		if waiting.len == 0 {
			delete(p.waiting, at.woken)
		}
	}
	if at.idle != nil {
		at.idle.remove(at.updated, l)
	}
	*at = lanePlace{}
}

func (p *push) inState(state store.LaneState) *index[*lane] {
	x := p.lanes[state]
	if x == nil {
		x = new(index[*lane])
		p.lanes[state] = x
	}
	return x
}

func (p *push) endpoint(name string) *index[*lane] {
	x := p.waiting[name]
	if x == nil {
		x = new(index[*lane])
		p.waiting[name] = x
	}
	return x
}

// moveTails has the lanes of a task, whose version was before, follow the events
// that were added, and reports whether one has become due.
func (p *push) moveTails(t *task, before int64) (due bool) {
	if len(t.lanes) == 0 || t.fold.Seq == before {
		return false
	}
	at := t.log[len(t.log)-1].Time
	for _, l := range t.lanes {
		if !l.deleted && l.Cursor.Seq >= before {
			p.change(l, func() { l.DueAt = at })
			due = due || l.Worker == ""
		}
	}
	return due
}

// savePush creates or replaces a webhook. c's Data is kept.
func (p *push) savePush(t *task, c store.PushConfig, cursor store.PushCursor, now time.Time) *lane {
	c.Task, c.CreatedAt = store.Key{}, store.Time(c.CreatedAt)
	l := t.lane(c.ID)
	if l != nil && !l.deleted {
		p.change(l, func() {
			c.CreatedAt = l.Config.CreatedAt
			l.Config = c
			l.restart(now)
		})
		return l
	}
	fence, until := now.UnixMilli(), time.Time{}
	if l != nil {
		l.takeLease()
		fence, until = l.Fence, l.LeaseUntil
		p.removeLane(l)
	}
	l = &lane{task: t, Lane: store.Lane{
		Config: c, Cursor: cursor, State: store.LaneActive, DueAt: now, UpdatedAt: now, Fence: fence, LeaseUntil: until,
	}}
	t.lanes = append(t.lanes, l)
	p.place(l)
	return l
}

// removeLane removes a lane with all that belongs to it.
func (p *push) removeLane(l *lane) {
	p.removeNotes(l)
	p.unplace(l)
	i := slices.Index(l.task.lanes, l)
	l.task.lanes = slices.Delete(l.task.lanes, i, i+1)
}
