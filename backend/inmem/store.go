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

// Store is a [store.Store] in memory.
type Store struct {
	mu       sync.RWMutex
	closed   bool
	owners   map[string]*owner
	names    index[*owner]  // the owners, by name
	records  index[*record] // by the time they were made
	queue    queue
	deleting index[*conversation] // those whose deletion is pending
	vacant   vacant
	summary  store.FeedbackSummary // of all owners
	push     push

	watchers watchers
}

var _ store.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	return &Store{
		owners: make(map[string]*owner),
		queue:  queue{leases: make(map[string]int)},
		vacant: vacant{plain: &store.Context{Role: store.DefaultContextRole, Status: a2a.ContextActive}},
		push:   newPush(),
	}
}

// owner holds what one owner has.
type owner struct {
	name     string
	tasks    map[string]*task
	contexts map[string]*conversation
	records  map[string]*record
	all      index[*task] // by status time
	states   map[a2a.TaskState]*index[*task]
	born     index[*task]         // by the time of creation
	ready    index[*task]         // those that are queued, see queue
	ended    index[*task]         // those whose lease has ended, see queue
	queued   int                  // tasks that are queued, whether ready or not
	busy     index[*conversation] // those with ready tasks, by id
	listed   contextLists
	children map[string]int   // the number of contexts within each other, by its id
	feedback index[*feedback] // by the time it was made
	summary  store.FeedbackSummary

	readyLanes index[*lane] // see laneQueue
	attempts   index[*note[store.PushAttempt]]
	letters    index[*note[store.DeadLetter]]
}

// task is a task with its log. The events, and what the fold refers to, are
// never changed once they are here.
type task struct {
	owner    *owner
	context  *conversation
	fold     store.Task
	log      []store.Event
	steps    []store.Step
	feedback *taskFeedback // nil when there is none
	records  []*record     // those that name it
	lanes    []*lane

	listed listed // where it stands in the lists
	queued queued // where it stands in the queue
}

type record struct {
	store.IdempotencyRecord
	// among are the records of what it names, which go when that goes; nil when it
	// names nothing that is here.
	among *[]*record
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

// millis returns a time as a number to sort by.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	return t.UnixMilli()
}

// ceil returns the first millisecond that is not before t.
func ceil(t time.Time) int64 {
	if t.IsZero() {
		return math.MinInt64
	}
	return t.Add(time.Millisecond - 1).UnixMilli()
}

// read begins a call that changes nothing. The caller calls s.mu.RUnlock, also
// when there is an error.
func (s *Store) read(ctx context.Context) error {
	err := ctx.Err()
	s.mu.RLock()
	if s.closed {
		return store.ErrClosed
	}
	return err
}

// write begins a call that changes something. The caller calls s.mu.Unlock,
// also when there is an error.
func (s *Store) write(ctx context.Context) error {
	err := ctx.Err()
	s.mu.Lock()
	if s.closed {
		return store.ErrClosed
	}
	return err
}

// task returns the task of a key, nil when there is none.
func (s *Store) task(k store.Key) *task {
	if o := s.owners[k.Owner]; o != nil {
		return o.tasks[k.ID]
	}
	return nil
}

// owner returns an owner, who is made if need be.
func (s *Store) owner(name string) *owner {
	o := s.owners[name]
	if o == nil {
		o = &owner{
			name:     name,
			tasks:    make(map[string]*task),
			contexts: make(map[string]*conversation),
			states:   make(map[a2a.TaskState]*index[*task]),
			listed:   contextLists{tags: make(map[string]*orders)},
			children: make(map[string]int),
		}
		s.owners[name] = o
		s.names.add(0, o)
	}
	return o
}

// release forgets an owner who has nothing any more.
func (s *Store) release(o *owner) {
	if len(o.tasks) == 0 && len(o.contexts) == 0 && len(o.records) == 0 {
		delete(s.owners, o.name)
		s.names.remove(0, o)
	}
}

// Ping implements [store.Store].
func (s *Store) Ping(ctx context.Context) error {
	defer s.mu.RUnlock()
	return s.read(ctx)
}

// Info implements [store.Store].
func (s *Store) Info() store.Info { return store.Info{Name: "memory", Exclusive: true} }

// Close implements [store.Store]. What was stored is gone.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.owners, s.names, s.records, s.queue, s.deleting = nil, index[*owner]{}, index[*record]{}, queue{}, index[*conversation]{}
	s.vacant, s.push = vacant{}, push{}
	return nil
}
