package inmem

import (
	"context"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// Store is a [store.Store] that keeps its data in memory.
type Store struct {
	mu           sync.RWMutex
	closed       bool
	owners       map[string]*owner
	ownersByName index[*owner]  // all owners, by name
	records      index[*record] // by creation time
	queue        queue
	deleting     index[*contextEntry] // contexts whose deletion is pending
	empty        emptyContexts
	summary      store.FeedbackSummary // of all owners
	webhooks     webhookState

	watchers store.LaneWatchers
}

var _ store.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	return &Store{
		owners:   make(map[string]*owner),
		empty:    emptyContexts{defaultRecord: &store.Context{Role: store.DefaultContextRole, Status: a2a.ContextActive}},
		webhooks: newWebhook(),
	}
}

// owner holds the data of one owner.
type owner struct {
	name          string
	tasks         map[string]*task
	contexts      map[string]*contextEntry
	records       map[string]*record
	byStatusTime  index[*task]
	byState       map[a2a.TaskState]*index[*task] // by status time
	byCreation    index[*task]
	ready         index[*task]         // queued tasks that are due
	expiredLeases index[*task]         // tasks whose leases may have ended
	queued        int                  // number of queued tasks
	readyContexts index[*contextEntry] // contexts with ready tasks, by id
	contextSets   contextSets
	values        index[*value]    // records
	children      map[string]int   // number of child contexts, by parent id
	feedback      index[*feedback] // by creation time
	summary       store.FeedbackSummary

	readyLanes  index[*lane] // due lanes, see laneQueue
	attempts    index[*deliveryRecord[store.DeliveryAttempt]]
	deadLetters index[*deliveryRecord[store.DeadLetter]]
}

// task is a task with its log. The events, and the values that fold refers to, are
// never modified once stored.
type task struct {
	owner    *owner
	context  *contextEntry
	fold     store.Task
	log      []store.Event
	steps    []store.Step
	feedback *taskFeedback // nil if there is none
	records  []*record     // idempotency records that refer to the task
	lanes    []*lane

	listPos  listPosition
	queuePos queuePosition
}

type record struct {
	store.IdempotencyRecord
	// siblings are all records of the task or context that this one refers to. They are
	// removed with it. Nil if it does not exist.
	siblings *[]*record
}

func (t *task) compare(u *task) int {
	if t == u {
		return 0
	}
	if c := strings.Compare(t.fold.Key.ID, u.fold.Key.ID); c != 0 {
		return c
	}
	return strings.Compare(t.fold.Key.Owner, u.fold.Key.Owner)
}

func (o *owner) compare(p *owner) int { return strings.Compare(o.name, p.name) }

func (r *record) compare(q *record) int {
	if c := strings.Compare(r.Key, q.Key); c != 0 {
		return c
	}
	return strings.Compare(r.Owner, q.Owner)
}

// millis returns a time as an index key.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	return t.UnixMilli()
}

// ceilMillis returns t as an index key, rounded up.
func ceilMillis(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	return t.Add(time.Millisecond - 1).UnixMilli()
}

// read locks the store for reading. The caller calls s.mu.RUnlock, also after an error.
func (s *Store) read(ctx context.Context) error {
	err := ctx.Err()
	s.mu.RLock()
	if s.closed {
		return store.ErrClosed
	}
	return err
}

// write locks the store for a change. The caller calls s.mu.Unlock, also after an
// error.
func (s *Store) write(ctx context.Context) error {
	err := ctx.Err()
	s.mu.Lock()
	if s.closed {
		return store.ErrClosed
	}
	return err
}

// task returns the task of a key, or nil.
func (s *Store) task(k store.Key) *task {
	if o := s.owners[k.Owner]; o != nil {
		return o.tasks[k.ID]
	}
	return nil
}

// owner returns an owner and creates it if needed.
func (s *Store) owner(name string) *owner {
	o := s.owners[name]
	if o == nil {
		o = &owner{
			name:        name,
			tasks:       make(map[string]*task),
			contexts:    make(map[string]*contextEntry),
			byState:     make(map[a2a.TaskState]*index[*task]),
			contextSets: contextSets{tags: make(map[string]*contextSet)},
			children:    make(map[string]int),
		}
		s.owners[name] = o
		s.ownersByName.add(0, o)
	}
	return o
}

// removeIfEmpty removes an owner without data.
func (s *Store) removeIfEmpty(o *owner) {
	if len(o.tasks) == 0 && len(o.contexts) == 0 && len(o.records) == 0 && o.values.len == 0 {
		delete(s.owners, o.name)
		s.ownersByName.remove(0, o)
	}
}

// Ping implements [store.Maintenance].
func (s *Store) Ping(ctx context.Context) error {
	defer s.mu.RUnlock()
	return s.read(ctx)
}

// Info implements [store.Maintenance].
func (s *Store) Info() store.Info { return store.Info{Name: "memory", Exclusive: true} }

// Close implements [store.Store]. It discards all data.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.owners, s.ownersByName, s.records, s.queue, s.deleting = nil, index[*owner]{}, index[*record]{}, queue{}, index[*contextEntry]{}
	s.empty, s.webhooks = emptyContexts{}, webhookState{}
	return nil
}
