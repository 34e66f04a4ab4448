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

// model is the contract written down as plainly as it goes: every task is its
// log, every read folds and sorts all there is. It is what the others are
// compared with.
type model struct {
	mu        sync.Mutex
	shut      bool
	tasks     map[store.Key]*modelTask
	records   map[store.Key]modelRecord
	contexts  map[store.ContextKey]*modelContext
	endpoints map[string]store.Endpoint
	watchers  []*func()
}

type modelRecord struct {
	store.IdempotencyRecord
	ofContext bool
}

type modelTask struct {
	key       store.Key
	contextID string
	log       []store.Event
	run       store.Run
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
	}
}

func (t *modelTask) fold() *store.Task {
	task := &store.Task{Key: t.key, ContextID: t.contextID, Run: t.run}
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

// due returns when the task is to be claimed by a worker, if it is to be at all.
func (t *modelTask) due(p store.ClaimParams) (time.Time, bool) {
	var due time.Time
	switch t.run.Phase {
	case store.PhaseQueued:
		due = t.run.DueAt
	case store.PhaseLeased:
		if p.QueuedOnly || t.run.Lease.Worker == p.Worker {
			return due, false
		}
		due = t.run.Lease.Until
		if p.Takeover {
			return due, true
		}
	default:
		return due, false
	}
	return due, !due.After(p.Now) || p.Horizon > 0 && due.After(p.Now.Add(p.Horizon))
}

// enter begins a call.
func (m *model) enter(ctx context.Context) error {
	m.mu.Lock()
	if m.shut {
		return store.ErrClosed
	}
	return ctx.Err()
}

func (m *model) Commit(ctx context.Context, changes ...store.Change) ([]store.Result, error) {
	defer m.mu.Unlock()
	if err := m.enter(ctx); err != nil {
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
	m.tellWatchers()
	return results, nil
}

func (m *model) apply(c *store.Change) store.Result {
	if taken, ok := m.taken(c.Idempotency); ok {
		return store.Result{Err: store.ErrDuplicate, Record: &taken.IdempotencyRecord}
	}
	t := m.tasks[c.Key]
	if err := m.refusal(t, c); err != nil {
		return store.Result{Err: err}
	}
	if c.Create != nil {
		t = &modelTask{key: c.Key, contextID: c.Create.ContextID}
		m.tasks[c.Key] = t
		m.begin(t.context(), store.Time(c.Events[0].Time))
	}
	from := len(t.log)
	t.append(c.Events...)
	t.moveTails(from)
	t.savePushes(c.Push)
	m.touch(t.context(), c.Events...)
	if c.Run != nil {
		t.run = keptRun(*c.Run)
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
	m.remember(c.Idempotency, seq, false)
	return store.Result{Seq: seq}
}

func (m *model) taken(r *store.IdempotencyRecord) (modelRecord, bool) {
	if r == nil {
		return modelRecord{}, false
	}
	taken, ok := m.records[store.Key{Owner: r.Owner, ID: r.Key}]
	return taken, ok
}

func (m *model) remember(r *store.IdempotencyRecord, seq int64, ofContext bool) {
	if r != nil {
		kept := modelRecord{*r, ofContext}
		kept.Seq, kept.CreatedAt = seq, store.Time(r.CreatedAt)
		m.records[store.Key{Owner: r.Owner, ID: r.Key}] = kept
	}
}

func (m *model) refusal(t *modelTask, c *store.Change) error {
	switch {
	case c.Create != nil && t != nil:
		return store.ErrExists
	case c.Create != nil:
		return m.closed(store.ContextKey{Owner: c.Key.Owner, ID: c.Create.ContextID})
	case t == nil, m.contexts[t.context()].deleting && slices.ContainsFunc(c.Events, fromClient):
		return store.ErrNotFound
	case c.Version > 0 && c.Version != int64(len(t.log)):
		return store.ErrConflict
	case c.Lease != nil && !holds(t, *c.Lease):
		return store.ErrLeaseLost
	case c.Seen > 0 && t.fold().ReceivedSeq > c.Seen:
		return store.ErrUnread
	}
	return nil
}

func holds(t *modelTask, l store.HeldLease) bool {
	held := t.run.Lease
	return t.run.Phase == store.PhaseLeased && held.Worker == l.Worker && held.Fence == l.Fence
}

func keptRun(r store.Run) store.Run {
	r.DueAt, r.Lease.Until = store.Time(r.DueAt), store.Time(r.Lease.Until)
	return r
}

func (m *model) Task(ctx context.Context, k store.Key, opts store.TaskOptions) (*store.Task, error) {
	defer m.mu.Unlock()
	if err := m.enter(ctx); err != nil {
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
	if err := m.enter(ctx); err != nil {
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
	if err := m.enter(ctx); err != nil {
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
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	due := make(map[string][]*modelTask)
	for _, t := range m.tasks {
		if _, ok := t.due(p); ok && !slices.Contains(p.Skip, t.key.Owner) {
			due[t.key.Owner] = append(due[t.key.Owner], t)
		}
	}
	var owners []string
	for o, tasks := range due {
		owners = append(owners, o)
		due[o] = inLine(p, o, tasks)
	}
	sortAfter(owners, p.AfterOwner)
	var claimed []*store.Task
	for round := 0; len(owners) > 0; round++ {
		owners = slices.DeleteFunc(owners, func(o string) bool { return len(due[o]) <= round })
		for _, o := range owners {
			if len(claimed) < p.Limit {
				t := due[o][round].claim(p)
				if p.Whole > 0 && t.Bytes > p.Whole {
					t = t.AsOutline()
				}
				claimed = append(claimed, t)
			}
		}
	}
	m.tellWatchers()
	return claimed, nil
}

// inLine puts an owner's tasks in the order in which they are claimed.
func inLine(p store.ClaimParams, owner string, due []*modelTask) []*modelTask {
	slices.SortFunc(due, func(a, b *modelTask) int {
		dueA, _ := a.due(p)
		dueB, _ := b.due(p)
		return cmp.Or(dueA.Compare(dueB), strings.Compare(a.key.ID, b.key.ID))
	})
	var line, queued []*modelTask
	byContext := make(map[string][]*modelTask)
	for _, t := range due {
		if t.run.Phase == store.PhaseLeased {
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
	sortAfter(contexts, p.AfterContexts[owner])
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

// sortAfter sorts names in ascending order from the first greater than after, round to
// it again.
func sortAfter(names []string, after string) {
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
	t.run.Phase = store.PhaseLeased
	t.run.Attempt++
	t.run.Lease = store.Lease{Worker: p.Worker, Fence: t.run.Lease.Fence + 1, Until: store.Time(p.Until)}
	return t.fold()
}

func (m *model) Versions(ctx context.Context, keys []store.Key) (map[store.Key]store.TaskVersion, error) {
	defer m.mu.Unlock()
	if err := m.enter(ctx); err != nil {
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
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	var lost []store.Key
	for _, l := range leases {
		t := m.tasks[l.Key]
		if t == nil || !holds(t, l) {
			lost = append(lost, l.Key)
			continue
		}
		t.run.Lease.Until = store.Time(until)
	}
	return lost, nil
}

func (m *model) Steps(ctx context.Context, k store.Key, turn int) ([]store.Step, error) {
	defer m.mu.Unlock()
	if err := m.enter(ctx); err != nil {
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
	if err := m.enter(ctx); err != nil {
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
	if err := m.enter(ctx); err != nil {
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
	if err := m.enter(ctx); err != nil {
		return b, err
	}
	for _, t := range m.tasks {
		switch t.run.Phase {
		case store.PhaseQueued:
			b.Queued++
		case store.PhaseLeased:
			b.Leased++
		case store.PhaseIdle:
		}
	}
	return b, nil
}

func (m *model) Queued(ctx context.Context, owner string, most int) (n int, err error) {
	defer m.mu.Unlock()
	if err := m.enter(ctx); err != nil {
		return 0, err
	}
	for k, t := range m.tasks {
		if k.Owner == owner && t.run.Phase == store.PhaseQueued && n < most {
			n++
		}
	}
	return n, nil
}

func (m *model) Ping(ctx context.Context) error {
	defer m.mu.Unlock()
	return m.enter(ctx)
}

func (m *model) Info() store.Info { return store.Info{Name: "model", Exclusive: true} }

func (m *model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shut = true
	return nil
}
