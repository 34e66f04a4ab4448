package inmem

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Commit implements [store.Store]. It keeps messages and artifacts as they are
// and folds for itself, so snapshots are not looked at.
func (s *Store) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	for i := range changes {
		if err := changes[i].Check(); err != nil {
			return nil, a2a.Wrap(a2a.CodeInternal, err, "malformed change")
		}
	}
	events := make([][]store.Event, len(changes))
	for i := range changes {
		events[i] = kept(changes[i].Events)
	}
	results := make([]store.Result, len(changes))
	var lanesDue bool
	defer s.watchers.tell(&lanesDue)
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return nil, err
	}
	for i := range changes {
		results[i] = s.apply(&changes[i], events[i], &lanesDue)
	}
	return results, nil
}

// kept returns events as they are kept.
func kept(events []store.Event) []store.Event {
	events = slices.Clone(events)
	for i := range events {
		e := &events[i]
		e.Time = store.Time(e.Time)
		e.Metadata = store.CopyMap(e.Metadata)
	}
	return events
}

func keptRun(r store.Run) store.Run {
	r.DueAt, r.Lease.Until = store.Time(r.DueAt), store.Time(r.Lease.Until)
	return r
}

// apply sets lanesDue if the change has made lanes due.
func (s *Store) apply(c *store.Change, events []store.Event, lanesDue *bool) store.Result {
	if r := c.Idempotency; r != nil {
		if taken := s.record(r.Owner, r.Key); taken != nil {
			found := taken.IdempotencyRecord
			return store.Result{Err: store.ErrDuplicate, Record: &found}
		}
	}
	t := s.task(c.Key)
	if err := s.refusal(t, c); err != nil {
		return store.Result{Err: err}
	}
	if c.Create != nil {
		t = s.create(c.Key, c.Create.ContextID, millis(events[0].Time))
	}
	before := t.fold.Seq
	t.append(events)
	t.context.receive(events)
	*lanesDue = s.push.moveTails(t, before) || *lanesDue
	*lanesDue = s.push.savePushes(t, c.Push) || *lanesDue
	if c.Run != nil {
		s.queue.remove(t)
		t.fold.Run = keptRun(*c.Run)
		s.queue.add(t)
		if c.Run.Phase == store.PhaseIdle {
			t.fold = *t.fold.Clone() // lets go of what only a streaming task needs
		}
	}
	t.relist()
	t.addSteps(c.Steps)
	if c.Idempotency != nil {
		var among *[]*record
		if named := s.task(store.Key{Owner: c.Idempotency.Owner, ID: c.Idempotency.TaskID}); named != nil {
			among = &named.records
		}
		s.addRecord(*c.Idempotency, t.fold.Seq, among)
	}
	return store.Result{Seq: t.fold.Seq}
}

// refusal returns why a change is refused by what it saw, if it is.
func (s *Store) refusal(t *task, c *store.Change) error {
	if c.Create != nil {
		if t != nil {
			return store.ErrExists
		}
		if in := s.conversation(c.Key.Owner, c.Create.ContextID); in != nil && (in.deleting || in.record.Status != a2a.ContextActive) {
			return store.ErrContextClosed
		}
		return nil
	}
	switch {
	case t == nil, t.context.deleting && receives(c.Events):
		return store.ErrNotFound
	case c.Version > 0 && c.Version != t.fold.Seq:
		return store.ErrConflict
	case c.Lease != nil && !t.leasedTo(*c.Lease):
		return store.ErrLeaseLost
	case c.Seen > 0 && t.fold.ReceivedSeq > c.Seen:
		return store.ErrUnread
	}
	return nil
}

func receives(events []store.Event) bool {
	return slices.ContainsFunc(events, func(e store.Event) bool { return e.Received != nil })
}

func (t *task) leasedTo(l store.HeldLease) bool {
	run := &t.fold.Run
	return run.Phase == store.PhaseLeased && run.Lease.Worker == l.Worker && run.Lease.Fence == l.Fence
}

// create makes a task without events, and its context.
func (s *Store) create(k store.Key, contextID string, at int64) *task {
	o := s.owner(k.Owner)
	c := o.contexts[contextID]
	if c == nil {
		c = &conversation{owner: o, id: contextID, version: 1, created: at, updated: at, record: s.vacant.plain}
		o.contexts[c.id] = c
		c.list()
	}
	t := &task{owner: o, context: c, fold: store.Task{Key: store.Key{Owner: o.name, ID: k.ID}, ContextID: c.id}}
	o.tasks[k.ID] = t
	o.born.add(at, t)
	c.born.add(at, t)
	s.vacant.update(c)
	return t
}

// removeTask removes a task with all that belongs to it.
func (s *Store) removeTask(t *task) {
	o, at := t.owner, millis(t.fold.CreatedAt)
	s.queue.remove(t)
	o.states[t.listed.state].remove(t.listed.at, t)
	o.all.remove(t.listed.at, t)
	t.context.tasks.remove(t.listed.at, t)
	o.born.remove(at, t)
	t.context.born.remove(at, t)
	s.vacant.update(t.context)
	if !t.listed.state.Terminal() {
		t.context.unfinished--
	}
	s.removeFeedback(t)
	s.removeRecords(t.records)
	for len(t.lanes) > 0 {
		s.push.removeLane(t.lanes[0])
	}
	delete(o.tasks, t.fold.Key.ID)
}

// append adds events to the log and to the fold.
func (t *task) append(events []store.Event) {
	for i := range events {
		events[i].Seq = t.fold.Seq + int64(i+1)
	}
	t.fold.Apply(events...)
	if t.log == nil {
		t.log = events
		return
	}
	t.log = append(t.log, events...)
}

// listed is where a task stands in the lists, if it does.
type listed struct {
	in    bool
	at    int64
	state a2a.TaskState
}

// relist puts the task where its status belongs in the lists.
func (t *task) relist() {
	now := listed{in: true, at: millis(t.fold.Status.Timestamp), state: t.fold.Status.State}
	was := t.listed
	if now == was {
		return
	}
	t.listed = now
	if was.in {
		t.owner.states[was.state].remove(was.at, t)
	}
	if unfinished := !now.state.Terminal(); unfinished != (was.in && !was.state.Terminal()) {
		if unfinished {
			t.context.unfinished++
		} else {
			t.context.unfinished--
		}
	}
	t.owner.inState(now.state).add(now.at, t)
	if was.in {
		if now.at == was.at {
			return
		}
		t.owner.all.remove(was.at, t)
		t.context.tasks.remove(was.at, t)
	}
	t.owner.all.add(now.at, t)
	t.context.tasks.add(now.at, t)
}

func (o *owner) inState(s a2a.TaskState) *index[*task] {
	x := o.states[s]
	if x == nil {
		x = new(index[*task])
		o.states[s] = x
	}
	return x
}

func (t *task) addSteps(steps []store.Step) {
	for _, step := range steps {
		step.Result, step.Artifacts = slices.Clone(step.Result), slices.Clone(step.Artifacts)
		i := slices.IndexFunc(t.steps, func(o store.Step) bool { return o.Turn == step.Turn && o.Name == step.Name })
		if i < 0 {
			t.steps = append(t.steps, step)
		} else {
			t.steps[i] = step
		}
	}
}
