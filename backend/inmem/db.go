package inmem

import (
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-dev/holdfast/a2a"
	"github.com/holdfast-dev/holdfast/store"
)

// database holds the data of all owners except the data of contracts, and the lock of this data.
type database struct {
	mu           sync.RWMutex
	closed       bool
	owners       map[string]*owner
	ownersByName index[*owner]        // all owners, by name
	records      index[*record]       // idempotency records, by creation time
	expiring     index[expiringValue] // records with an expiry, by its time
	removals     index[removal]
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
	expiredLeases index[*task]         // tasks with leases that may have ended
	queued        int                  // number of queued tasks
	readyContexts index[*contextEntry] // contexts with ready tasks, by id
	contextSets   contextSets
	values        index[*value]    // records, by namespace and key
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

// record is an idempotency record.
type record struct {
	store.IdempotencyRecord
	// siblings points to the list of all records that refer to the same task or context. They
	// are removed with it. It is nil if the task or context does not exist.
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
func (s *database) read(ctx context.Context) error {
	err := ctx.Err()
	s.mu.RLock()
	if s.closed {
		return store.ErrClosed
	}
	return err
}

// write locks the store for a change. The caller calls s.mu.Unlock, also after an
// error.
func (s *database) write(ctx context.Context) error {
	err := ctx.Err()
	s.mu.Lock()
	if s.closed {
		return store.ErrClosed
	}
	return err
}

// task returns the task of a key, or nil.
func (s *database) task(k store.Key) *task {
	if o := s.owners[k.Owner]; o != nil {
		return o.tasks[k.ID]
	}
	return nil
}

// owner returns an owner and creates it if needed.
func (s *database) owner(name string) *owner {
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
func (s *database) removeIfEmpty(o *owner) {
	if len(o.tasks) == 0 && len(o.contexts) == 0 && len(o.records) == 0 && o.values.len == 0 {
		delete(s.owners, o.name)
		s.ownersByName.remove(0, o)
	}
}

// record returns the record of a key, or nil.
func (s *database) record(owner, key string) *record {
	if o := s.owners[owner]; o != nil {
		return o.records[key]
	}
	return nil
}

// addRecord adds a record to the store and to siblings, the records of the task or
// context that it refers to. siblings is nil if that does not exist.
func (s *database) addRecord(r store.IdempotencyRecord, seq int64, siblings *[]*record) {
	r.Seq, r.CreatedAt = seq, store.Time(r.CreatedAt)
	o := s.owner(r.Owner)
	if o.records == nil {
		o.records = make(map[string]*record)
	}
	added := &record{r, siblings}
	o.records[r.Key] = added
	s.records.add(millis(r.CreatedAt), added)
	if siblings != nil {
		*siblings = append(*siblings, added)
	}
}

func (s *database) removeRecords(records []*record) {
	for _, r := range slices.Clone(records) {
		s.records.remove(millis(r.CreatedAt), r)
		delete(s.owners[r.Owner].records, r.Key)
		if r.siblings != nil {
			i := slices.Index(*r.siblings, r)
			*r.siblings = slices.Delete(*r.siblings, i, i+1)
		}
	}
}

// contextEntry returns a context, even if its deletion is pending, or nil.
func (s *database) contextEntry(owner, id string) *contextEntry {
	if o := s.owners[owner]; o != nil {
		return o.contexts[id]
	}
	return nil
}
