package storetest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/store"
)

// model is the simplest implementation of the contract. A task is its log, and every read
// applies the events and sorts all objects. The suite compares backends with it. It is one type
// because a call may read and change tasks, contexts, records and webhooks under one lock.
type model struct {
	mu        sync.Mutex
	isClosed  bool
	tasks     map[store.Key]*modelTask
	records   map[store.Key]modelRecord
	contexts  map[store.ContextKey]*modelContext
	endpoints map[string]store.Endpoint
	values    map[store.RecordKey]store.Record
	removals  map[removalKey]store.Removal
	watchers  []*func()
}

type modelRecord struct {
	store.IdempotencyRecord
	ofContext bool
}

type removalKey struct {
	key     store.Key
	created int64 // in milliseconds
}

type modelTask struct {
	key       store.Key
	contextID string
	log       []store.Event
	queue     store.QueueEntry
	ready     bool // a claim has found the queued task due
	steps     []store.Step
	feedback  []store.Feedback
	lanes     []*modelLane
}

func newModel() *model {
	return &model{
		tasks:     make(map[store.Key]*modelTask),
		records:   make(map[store.Key]modelRecord),
		contexts:  make(map[store.ContextKey]*modelContext),
		endpoints: make(map[string]store.Endpoint),
		values:    make(map[store.RecordKey]store.Record),
		removals:  make(map[removalKey]store.Removal),
	}
}

func (t *modelTask) fold() *store.Task {
	task := &store.Task{Key: t.key, ContextID: t.contextID, Queue: t.queue}
	task.Apply(t.log...)
	return task.Copy()
}

func (t *modelTask) context() store.ContextKey {
	return store.ContextKey{Owner: t.key.Owner, ID: t.contextID}
}

func (t *modelTask) append(events ...store.Event) {
	for _, e := range events {
		e = e.Copy()
		e.Seq, e.Time = int64(len(t.log)+1), store.Time(e.Time)
		t.log = append(t.log, e)
	}
}

// due returns when a worker can claim the task, and whether it can at all.
func (t *modelTask) due(p store.ClaimParams) (time.Time, bool) {
	var due time.Time
	switch t.queue.Phase {
	case store.PhaseQueued:
		due = t.queue.DueAt
		if t.ready {
			return due, true
		}
	case store.PhaseLeased:
		if p.QueuedOnly || t.queue.Lease.Worker == p.Worker {
			return due, false
		}
		due = t.queue.Lease.Until
		if p.Takeover {
			return due, true
		}
	default:
		return due, false
	}
	return due, !due.After(p.Now) || p.Horizon > 0 && due.After(p.Now.Add(p.Horizon))
}

// since returns when a due task became due. A queued task that was never delayed was due when it was created.
func (t *modelTask) since(p store.ClaimParams) time.Time {
	due, _ := t.due(p)
	if created := t.log[0].Time; t.queue.Phase == store.PhaseQueued && created.After(due) {
		return created
	}
	return due
}

// startCall locks the model for a call. The caller unlocks it, also after an error.
func (m *model) startCall(ctx context.Context) error {
	m.mu.Lock()
	if m.isClosed {
		return store.ErrClosed
	}
	return ctx.Err()
}

func (m *model) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return nil, err
	}
	for i := range changes {
		if err := changes[i].Check(); err != nil {
			return nil, err
		}
	}
	results := make([]store.Result, len(changes))
	for i := range changes {
		results[i] = m.apply(&changes[i])
	}
	m.notifyWatchers()
	return results, nil
}

func (m *model) apply(c *store.Change) store.Result {
	if taken, ok := m.existingRecord(c.Idempotency); ok {
		return store.Result{Err: store.ErrDuplicate, Record: &taken.IdempotencyRecord}
	}
	t := m.tasks[c.Key]
	if err := cmp.Or(m.rejection(t, c), m.valueRejection(c.Key.Owner, c.Records)); err != nil {
		return store.Result{Err: err}
	}
	m.saveValues(c.Key.Owner, c.Records)
	if c.Create != nil {
		t = &modelTask{key: c.Key, contextID: c.Create.ContextID}
		m.tasks[c.Key] = t
		m.createContext(t.context(), store.Time(c.Events[0].Time))
	}
	from := len(t.log)
	t.append(c.Events...)
	t.moveTails(from)
	t.saveWebhooks(c.Webhooks)
	m.updateContext(t.context(), c.Events...)
	if c.Queue != nil {
		t.queue, t.ready = storedQueueEntry(*c.Queue), false
	}
	for _, s := range c.Steps {
		s.Result, s.Artifacts = slices.Clone(s.Result), slices.Clone(s.Artifacts)
		i := slices.IndexFunc(t.steps, func(o store.Step) bool { return o.Turn == s.Turn && o.Name == s.Name })
		if i < 0 {
			t.steps = append(t.steps, s)
		} else {
			t.steps[i] = s
		}
	}
	seq := int64(len(t.log))
	m.saveRecord(c.Idempotency, seq, false)
	return store.Result{Seq: seq}
}

func (m *model) existingRecord(r *store.IdempotencyRecord) (modelRecord, bool) {
	if r == nil {
		return modelRecord{}, false
	}
	taken, ok := m.records[store.Key{Owner: r.Owner, ID: r.Key}]
	return taken, ok
}

func (m *model) saveRecord(r *store.IdempotencyRecord, seq int64, ofContext bool) {
	if r != nil {
		stored := modelRecord{*r, ofContext}
		stored.Seq, stored.CreatedAt = seq, store.Time(r.CreatedAt)
		m.records[store.Key{Owner: r.Owner, ID: r.Key}] = stored
	}
}

func (m *model) rejection(t *modelTask, c *store.Change) error {
	switch {
	case c.Create != nil && t != nil:
		return store.ErrExists
	case c.Create != nil:
		return m.contextRejection(store.ContextKey{Owner: c.Key.Owner, ID: c.Create.ContextID})
	case t == nil, m.contexts[t.context()].deleting && slices.ContainsFunc(c.Events, isFromClient):
		return store.ErrNotFound
	case c.Version > 0 && c.Version != int64(len(t.log)):
		return store.ErrConflict
	case c.Lease != nil && !holdsLease(t, *c.Lease):
		return store.ErrLeaseLost
	case c.Seen > 0 && t.fold().ReceivedSeq > c.Seen:
		return store.ErrUnread
	}
	return nil
}

func holdsLease(t *modelTask, l store.HeldLease) bool {
	held := t.queue.Lease
	return t.queue.Phase == store.PhaseLeased && held.Worker == l.Worker && held.Fence == l.Fence
}

func storedQueueEntry(r store.QueueEntry) store.QueueEntry {
	r.DueAt, r.Lease.Until = store.Time(r.DueAt), store.Time(r.Lease.Until)
	return r
}

func (m *model) Task(ctx context.Context, k store.Key, opts store.TaskOptions) (*store.Task, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return nil, err
	}
	t := m.tasks[k]
	if t == nil {
		return nil, store.ErrNotFound
	}
	task := t.fold()
	task.Cut(opts)
	return task, nil
}

func (m *model) Tasks(ctx context.Context, q store.Query) (store.Page, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return store.Page{}, err
	}
	var all []*store.Task
	for _, t := range m.tasks {
		all = append(all, t.fold())
	}
	return pageOf(all, q), nil
}

func (m *model) Events(ctx context.Context, k store.Key, after int64, limit int) ([]store.Event, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return nil, err
	}
	t := m.tasks[k]
	if t == nil {
		return nil, store.ErrNotFound
	}
	var events []store.Event
	for _, e := range t.log {
		if e.Seq > after && len(events) < limit {
			events = append(events, e.Copy())
		}
	}
	return events, nil
}

func (m *model) LogRows(ctx context.Context, k store.Key, after int64, limit int) (rows []store.LogRow, err error) {
	events, err := m.Events(ctx, k, after, limit)
	for i := range events {
		rows = append(rows, store.LogRow{Seq: events[i].Seq, Events: 1, Bytes: int64(events[i].Size())})
	}
	return rows, err
}

func (m *model) Claim(ctx context.Context, p store.ClaimParams) ([]*store.Task, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return nil, err
	}
	due := make(map[string][]*modelTask)
	for _, t := range m.tasks {
		_, ok := t.due(p)
		t.ready = t.ready || ok && p.Limit > 0
		if ok && !slices.Contains(p.Skip, t.key.Owner) {
			due[t.key.Owner] = append(due[t.key.Owner], t)
		}
	}
	var owners []string
	for o, tasks := range due {
		owners = append(owners, o)
		due[o] = claimOrder(p, o, tasks)
	}
	sortRoundRobin(owners, p.AfterOwner)
	var claimed []*store.Task
	for round := 0; len(owners) > 0; round++ {
		owners = slices.DeleteFunc(owners, func(o string) bool { return len(due[o]) <= round })
		for _, o := range owners {
			if len(claimed) < p.Limit {
				t := due[o][round].claim(p)
				if p.OutlineAbove > 0 && t.Bytes > p.OutlineAbove {
					t = t.AsOutline()
				}
				claimed = append(claimed, t)
			}
		}
	}
	m.notifyWatchers()
	return claimed, nil
}

// claimOrder returns an owner's due tasks in the order in which they are claimed.
func claimOrder(p store.ClaimParams, owner string, due []*modelTask) []*modelTask {
	slices.SortFunc(due, func(a, b *modelTask) int {
		return cmp.Or(a.since(p).Compare(b.since(p)), strings.Compare(a.key.ID, b.key.ID))
	})
	var line, queued []*modelTask
	byContext := make(map[string][]*modelTask)
	for _, t := range due {
		if t.queue.Phase == store.PhaseLeased {
			line = append(line, t)
			continue
		}
		queued = append(queued, t)
		byContext[t.contextID] = append(byContext[t.contextID], t)
	}
	if p.OldestFirst {
		return append(line, queued...)
	}
	contexts := slices.Collect(maps.Keys(byContext))
	sortRoundRobin(contexts, p.AfterContexts[owner])
	for len(byContext) > 0 {
		for _, c := range contexts {
			if tasks := byContext[c]; len(tasks) > 0 {
				line, byContext[c] = append(line, tasks[0]), tasks[1:]
			} else {
				delete(byContext, c)
			}
		}
	}
	return line
}

// sortRoundRobin sorts names in ascending order, starting with the first one greater than
// after, and wraps around.
func sortRoundRobin(names []string, after string) {
	slices.SortFunc(names, func(a, b string) int {
		if (a > after) != (b > after) {
			return strings.Compare(b, a)
		}
		return strings.Compare(a, b)
	})
}

func (t *modelTask) claim(p store.ClaimParams) *store.Task {
	event := p.Event
	if last := t.log[len(t.log)-1].Time; event.Time.Before(last) {
		event.Time = last
	}
	t.append(event)
	t.moveTails(len(t.log) - 1)
	t.queue.Phase, t.ready = store.PhaseLeased, false
	t.queue.Attempt++
	t.queue.Lease = store.Lease{Worker: p.Worker, Fence: t.queue.Lease.Fence + 1, Until: store.Time(p.Until)}
	return t.fold()
}

func (m *model) Versions(ctx context.Context, keys []store.Key) (map[store.Key]store.TaskVersion, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return nil, err
	}
	versions := make(map[store.Key]store.TaskVersion)
	for _, k := range keys {
		if t := m.tasks[k]; t != nil {
			versions[k] = t.fold().Version()
		}
	}
	return versions, nil
}

func (m *model) Renew(ctx context.Context, until time.Time, leases []store.HeldLease) ([]store.Key, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return nil, err
	}
	var lost []store.Key
	for _, l := range leases {
		t := m.tasks[l.Key]
		if t == nil || !holdsLease(t, l) {
			lost = append(lost, l.Key)
			continue
		}
		t.queue.Lease.Until = store.Time(until)
	}
	return lost, nil
}

func (m *model) Steps(ctx context.Context, k store.Key, turn int) ([]store.Step, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return nil, err
	}
	var steps []store.Step
	if t := m.tasks[k]; t != nil {
		for _, s := range t.steps {
			if s.Turn == turn {
				s.Result, s.Artifacts = slices.Clone(s.Result), slices.Clone(s.Artifacts)
				steps = append(steps, s)
			}
		}
	}
	return steps, nil
}

func (m *model) Idempotency(ctx context.Context, owner, key string) (store.IdempotencyRecord, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return store.IdempotencyRecord{}, err
	}
	r, ok := m.records[store.Key{Owner: owner, ID: key}]
	if !ok {
		return r.IdempotencyRecord, store.ErrNotFound
	}
	return r.IdempotencyRecord, nil
}

func (m *model) ExpireIdempotency(ctx context.Context, before time.Time, limit int) (int, error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return 0, err
	}
	removed := 0
	for k, r := range m.records {
		if removed < limit && r.CreatedAt.Before(before) {
			delete(m.records, k)
			removed++
		}
	}
	return removed, nil
}

func (m *model) Backlog(ctx context.Context) (store.Backlog, error) {
	defer m.mu.Unlock()
	var b store.Backlog
	if err := m.startCall(ctx); err != nil {
		return b, err
	}
	for _, t := range m.tasks {
		switch t.queue.Phase {
		case store.PhaseQueued:
			b.Queued++
		case store.PhaseLeased:
			b.Leased++
		case store.PhaseIdle:
		}
	}
	return b, nil
}

func (m *model) Queued(ctx context.Context, owner string, limit int) (n int, err error) {
	defer m.mu.Unlock()
	if err := m.startCall(ctx); err != nil {
		return 0, err
	}
	for k, t := range m.tasks {
		if k.Owner == owner && t.queue.Phase == store.PhaseQueued && n < limit {
			n++
		}
	}
	return n, nil
}

func (m *model) Ping(ctx context.Context) error {
	defer m.mu.Unlock()
	return m.startCall(ctx)
}

func (m *model) Info() store.Info { return store.Info{Name: "model", Exclusive: true} }

func (m *model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.isClosed = true
	return nil
}
