package inmem

import (
	"context"
	"slices"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/rules"
)

// Commit implements [store.Tasks]. It stores messages and artifacts without copying
// them, and ignores snapshots because it folds events itself.
func (s *taskStore) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	for i := range changes {
		if err := changes[i].Check(); err != nil {
			return nil, a2a.Wrap(a2a.CodeInternal, err, "malformed change")
		}
	}
	events := make([][]store.Event, len(changes))
	for i := range changes {
		events[i] = normalizeEvents(changes[i].Events)
	}
	results := make([]store.Result, len(changes))
	var lanesDue bool
	defer s.webhooks.notifyLanes(&lanesDue)
	defer s.mu.Unlock()
	if err := s.write(ctx); err != nil {
		return nil, err
	}
	for i := range changes {
		results[i] = s.apply(&changes[i], events[i], &lanesDue)
	}
	return results, nil
}

// normalizeEvents returns copies of events with truncated times and their own
// metadata maps.
func normalizeEvents(events []store.Event) []store.Event {
	events = slices.Clone(events)
	for i := range events {
		e := &events[i]
		e.Time = store.Time(e.Time)
		e.Metadata = store.CopyMap(e.Metadata)
	}
	return events
}

func normalizeQueueEntry(r store.QueueEntry) store.QueueEntry {
	r.DueAt, r.Lease.Until = store.Time(r.DueAt), store.Time(r.Lease.Until)
	return r
}

// apply applies one change. It sets lanesDue if a lane became due.
func (s *taskStore) apply(c *store.Change, events []store.Event, lanesDue *bool) store.Result {
	t := s.task(c.Key)
	var known *store.IdempotencyRecord
	if r := c.Idempotency; r != nil {
		if existing := s.record(r.Owner, r.Key); existing != nil {
			found := existing.IdempotencyRecord
			known = &found
		}
	}
	in := s.contextEntry(c.Key.Owner, c.ContextID())
	if err := rules.Change(c, known, t.seen(), in != nil && (in.deleting || in.record.Status != a2a.ContextActive), s.versions(c.Key.Owner, c.Records)); err != nil {
		return store.Result{Err: err, Record: known}
	}
	if len(c.Effects) > 0 {
		if err := s.contracts.ApplyEffects(c); err != nil { // the rest cannot fail
			return store.Result{Err: err}
		}
	}
	if c.Create != nil {
		t = s.create(c.Key, c.Create.ContextID, millis(events[0].Time))
	}
	before := t.fold.Seq
	t.append(events)
	t.context.receive(events)
	*lanesDue = s.webhooks.moveTails(t, before) || *lanesDue
	*lanesDue = s.webhooks.saveWebhooks(t, c.Webhooks) || *lanesDue
	if c.Queue != nil {
		s.queue.remove(t)
		t.fold.Queue = normalizeQueueEntry(*c.Queue)
		s.queue.add(t)
		if c.Queue.Phase == store.PhaseIdle {
			t.fold = *t.fold.Clone() // free the spare capacity that a streaming task needs
		}
	}
	t.updateLists()
	t.addSteps(c.Steps)
	s.saveValues(c.Key.Owner, c.Records)
	if c.Idempotency != nil {
		var siblings *[]*record
		if subject := s.task(store.Key{Owner: c.Idempotency.Owner, ID: c.Idempotency.TaskID}); subject != nil {
			siblings = &subject.records
		}
		s.addRecord(*c.Idempotency, t.fold.Seq, siblings)
	}
	return store.Result{Seq: t.fold.Seq}
}

// seen returns what package rules checks before a change or the deletion of the task, nil if t is nil.
func (t *task) seen() *rules.Task {
	if t == nil {
		return nil
	}
	qe := &t.fold.Queue
	s := &rules.Task{Seq: t.fold.Seq, ReceivedSeq: t.fold.ReceivedSeq, Deleting: t.context.deleting}
	s.Finished = t.fold.Status.State.Terminal() && qe.Phase == store.PhaseIdle
	if qe.Phase == store.PhaseLeased {
		s.Worker, s.Fence = qe.Lease.Worker, qe.Lease.Fence
	}
	return s
}

// create adds a task without events, and its context if it is new.
func (s *taskStore) create(k store.Key, contextID string, at int64) *task {
	o := s.owner(k.Owner)
	c := o.contexts[contextID]
	if c == nil {
		c = &contextEntry{owner: o, id: contextID, version: 1, created: at, updated: at, record: s.empty.defaultRecord}
		o.contexts[c.id] = c
		c.index()
	}
	t := &task{owner: o, context: c, fold: store.Task{Key: store.Key{Owner: o.name, ID: k.ID}, ContextID: c.id}}
	o.tasks[k.ID] = t
	o.byCreation.add(at, t)
	c.byCreation.add(at, t)
	s.empty.update(c)
	return t
}

// removeTask removes a task and all data that belongs to it.
func (s *taskStore) removeTask(t *task) {
	o, at := t.owner, millis(t.fold.CreatedAt)
	s.queue.remove(t)
	o.byState[t.listPos.state].remove(t.listPos.at, t)
	o.byStatusTime.remove(t.listPos.at, t)
	t.context.byStatusTime.remove(t.listPos.at, t)
	o.byCreation.remove(at, t)
	t.context.byCreation.remove(at, t)
	s.empty.update(t.context)
	if !t.listPos.state.Terminal() {
		t.context.unfinished--
	}
	s.feedbacks.removeFeedback(t)
	s.removeRecords(t.records)
	for len(t.lanes) > 0 {
		s.webhooks.removeLane(t.lanes[0])
	}
	delete(o.tasks, t.fold.Key.ID)
	s.noteRemoval(t)
}

// append adds events to the log and applies them to the fold.
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

// listPosition is the key of a task in the indexes by status.
type listPosition struct {
	set   bool // false before the task is in the indexes
	at    int64
	state a2a.TaskState
}

// updateLists moves the task to the indexes of its current status.
func (t *task) updateLists() {
	now := listPosition{set: true, at: millis(t.fold.Status.Timestamp), state: t.fold.Status.State}
	old := t.listPos
	if now == old {
		return
	}
	t.listPos = now
	if old.set {
		t.owner.byState[old.state].remove(old.at, t)
	}
	if unfinished := !now.state.Terminal(); unfinished != (old.set && !old.state.Terminal()) {
		if unfinished {
			t.context.unfinished++
		} else {
			t.context.unfinished--
		}
	}
	t.owner.stateIndex(now.state).add(now.at, t)
	if old.set {
		if now.at == old.at {
			return
		}
		t.owner.byStatusTime.remove(old.at, t)
		t.context.byStatusTime.remove(old.at, t)
	}
	t.owner.byStatusTime.add(now.at, t)
	t.context.byStatusTime.add(now.at, t)
}

func (o *owner) stateIndex(s a2a.TaskState) *index[*task] {
	x := o.byState[s]
	if x == nil {
		x = new(index[*task])
		o.byState[s] = x
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
